//! Checks that links between the pages, and citations of pages in comments, lead somewhere, and that the site has every
//! page.

use crate::finding::Finding;
use crate::tree::{File, Rust, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let cited = tree.rust().flat_map(|(file, rust)| citations(file, rust, tree));
    pages.flat_map(|file| page(file, tree)).chain(cited).chain(unlisted(tree)).collect()
}

/// The table of contents of the site.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Finds pages of `docs` that the site would not have.
fn unlisted(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.files.iter().find(|file| file.path == SUMMARY) else { return Vec::new() };
    let listed: Vec<String> = links(&summary.text).iter().map(|(_, target)| resolve(SUMMARY, target)).collect();
    let is_page =
        |path: &str| path.strip_prefix("docs/").is_some_and(|name| name.ends_with(".md") && !name.contains('/'));
    let pages = tree.files.iter().map(|file| &file.path).filter(|path| is_page(path) && *path != SUMMARY);
    let missing = pages.filter(|path| !listed.contains(path));
    let advice = "add a line with a link to it, in the part where a reader would look for it";
    missing
        .map(|path| Finding::error(SUMMARY, 1, format!("`{path}` is not in the table of contents"), advice))
        .collect()
}

/// Checks that pages named in comments exist: at the top of the repository, in `docs`, or at the given path, unless the
/// program writes them.
fn citations(file: &File, rust: &Rust, tree: &Tree) -> Vec<Finding> {
    let written = |name: &str| {
        let own = tree.rust().filter(|(other, _)| other.krate() == file.krate());
        own.flat_map(|(_, rust)| &rust.strings).any(|(_, text)| text == name)
    };
    let part = |c: char| !(c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.'));
    let mut findings = Vec::new();
    for (line, comment) in rust.comments.iter().enumerate() {
        for name in comment.split(part).map(|word| word.trim_end_matches('.')).filter(|word| word.ends_with(".md")) {
            let there = tree.has(name) || tree.has(&format!("docs/{name}")) || tree.has(&resolve(&file.path, name));
            if !there && !written(name.rsplit('/').next().unwrap_or(name)) {
                let advice = "cite what a reader has: the Apache manual, an RFC, or a page of this repository";
                let what = format!("a citation of `{name}`, which is not in the repository");
                findings.push(Finding::error(&file.path, line + 1, what, advice));
            }
        }
    }
    findings
}

fn page(file: &File, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        if !path.is_empty() && !tree.has(&path) {
            let advice = "links are relative to the page they stand on: correct it, or write the page";
            findings.push(Finding::error(
                &file.path,
                number,
                format!("a link to `{target}`, which is not there"),
                advice,
            ));
            continue;
        }
        let page = tree.files.iter().find(|other| other.path == path && path.ends_with(".md"));
        if let Some(page) = page.filter(|page| !anchor.is_empty() && !headings(&page.text).any(|slug| slug == anchor)) {
            let what = format!("a link to `{target}`, but {} has no such heading", page.path);
            findings.push(Finding::error(
                &file.path,
                number,
                what,
                "use the heading's words in lower case, with hyphens",
            ));
        }
    }
    findings
}

/// The lines of a page that are not code, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        (!fenced && !line.starts_with("    ")).then_some((number + 1, line))
    })
}

/// The targets of the links in a page, with their lines.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between backquotes is code.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in line.match_indices("](") {
            if let Some(target) = line[at + 2..].split(')').next() {
                found.push((number, target.split(' ').next().unwrap_or_default().to_string()));
            }
        }
    }
    found
}

/// The anchors of a page's headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    // A repeated heading has a number appended.
    let mut times = std::collections::HashMap::new();
    prose(text).filter(|(_, line)| line.starts_with('#')).map(move |(_, line)| {
        let words = slug(line.trim_start_matches('#').trim());
        let before = times.entry(words.clone()).and_modify(|count| *count += 1).or_insert(0);
        if *before == 0 { words } else { format!("{words}-{before}") }
    })
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Resolves `link` in the page at `from` to a path from the top of the repository.
pub(crate) fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = if link.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let page = "# A page\n[b](b.md) [dir](../lab) [b](b.md#two-words) [self](#a-page) [web](https://example.org/)\n\
                    `[code](nowhere)`\n\n    [code](nowhere)\n";
        let files = [("docs/a.md", page), ("docs/b.md", "## Two words!\n"), ("lab/Cargo.toml", "")];
        assert_eq!(check(&Tree::of(&files)), []);
        let bad = ("docs/a.md", "\n[b](c.md) [b](b.md#three)\n");
        let found = check(&Tree::of(&[bad, files[1]]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn the_site_has_every_page() {
        let (a, raw) = (("docs/a.md", "# A\n"), ("docs/raw/report.md", ""));
        let listed = |text| check(&Tree::of(&[a, raw, (SUMMARY, text)]));
        assert_eq!(listed("- [A](a.md)\n"), []);
        assert_eq!(listed("# Contents\n").len(), 1);
        assert_eq!(listed("- [A](a.md)\n- [B](b.md)\n").len(), 1, "a page that does not exist");
    }

    #[test]
    fn citations_lead_somewhere() {
        let code = "//! See docs/b.md, b.md, and report.md.\n// gone.md 5\nfn f() { g(\"report.md\"); }\n";
        let found = check(&Tree::of(&[("crates/x/src/a.rs", code), ("docs/b.md", "# B\n")]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }
}
