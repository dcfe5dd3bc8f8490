//! The files of the repository, as the checks see them.

mod rust;

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use rust::{Rust, whole_words};

/// All files that git tracks, or would track if added. A file that is not text, such as a picture, has an empty text.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// A file of the repository.
pub(crate) struct File {
    /// Its path in the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The parsed contents of a Rust file.
    pub(crate) rust: Option<Rust>,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        let rust = path.ends_with(".rs").then(|| Rust::new(text, is_test_path(path)));
        File { path: path.to_string(), text: text.to_string(), rust }
    }

    /// Whether the whole file belongs to tests.
    pub(crate) fn is_test(&self) -> bool {
        is_test_path(&self.path)
    }

    /// The crate that the file belongs to: `conf`, `lab`, `xtask`.
    pub(crate) fn krate(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            Some(first) => first,
            None => "",
        }
    }
}

impl Tree {
    /// Reads the working copy: tracked and new files, but not ignored ones.
    pub(crate) fn read() -> Result<Tree, String> {
        let root = root();
        let listed = Command::new("git")
            // In a container the checkout may belong to another user; git only lists names here.
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .map_err(|error| format!("git ls-files: {error}"))?;
        if !listed.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
        }
        let mut tree = Tree::default();
        for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            // git still lists a removed file.
            if let Ok(bytes) = std::fs::read(root.join(path)) {
                tree.files.push(File::new(path, &String::from_utf8(bytes).unwrap_or_default()));
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.files.dedup_by(|a, b| a.path == b.path);
        Ok(tree)
    }

    /// Builds a tree in memory.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| File::new(path, text)).collect() }
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Whether a file of this path exists, or a directory with files in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&below))
    }
}

/// The directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// A command that runs the `cargo` of this task's toolchain in the directory of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The directory that builds go to.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn is_test_path(path: &str) -> bool {
    let test = |part: &str| matches!(part, "tests" | "testdata" | "benches" | "fuzz" | "tests.rs");
    path.split('/').any(test)
}
