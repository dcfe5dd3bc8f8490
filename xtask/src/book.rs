//! Builds the documents as a site with mdBook.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::tree::root;

/// The parts of the site: the chapters of `docs/SUMMARY.md`, and what they link to.
const PARTS: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "docs",
    "lab/README.md",
    "packaging",
];

/// The directory in which the site is built.
const STAGE: &str = "target/book";

/// Copies the documents to one place and builds the site there, as mdBook accepts no chapters from outside its
/// directory.
pub(crate) fn run() -> Result<(), String> {
    let stage = root().join(STAGE);
    stage_to(&stage).map_err(|error| format!("{STAGE}: {error}"))?;
    let status = Command::new("mdbook").arg("build").arg(&stage).status().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "mdbook is missing: cargo install mdbook --locked --version 0.5.4".to_string(),
        _ => format!("mdbook: {error}"),
    })?;
    if !status.success() {
        return Err("mdbook could not build the site".into());
    }
    println!("{STAGE}/html/index.html");
    Ok(())
}

fn stage_to(stage: &Path) -> io::Result<()> {
    if stage.exists() {
        fs::remove_dir_all(stage)?;
    }
    for part in PARTS {
        copy(&root().join(part), &stage.join(part))?;
    }
    fs::rename(stage.join("docs/book.toml"), stage.join("book.toml"))?;
    let summary = fs::read_to_string(stage.join("docs/SUMMARY.md"))?;
    fs::remove_file(stage.join("docs/SUMMARY.md"))?;
    fs::write(stage.join("SUMMARY.md"), from_top(&summary))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        return fs::copy(from, to).map(drop);
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Rewrites the links of a page in `docs` for a page one level higher.
fn from_top(page: &str) -> String {
    page.replace("](", "](docs/").replace("](docs/../", "](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_those_of_the_top() {
        assert_eq!(from_top("[a](a.md) [b](../lab/b.md)"), "[a](docs/a.md) [b](lab/b.md)");
    }
}
