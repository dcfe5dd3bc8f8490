//! The directory for a run's files.

use std::path::{Path, PathBuf};

use crate::machine::error::{Context as _, Result};
use crate::machine::procfs;

/// A directory for everything that is written during a run; dropping this removes it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

/// The prefix of scratch directories, followed by the number of the process they belong to.
const SCRATCH_PREFIX: &str = "tsubame-lab.";

impl Scratch {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes one, and removes those left behind by killed runs.
    pub(crate) fn new() -> Result<Self> {
        Self::clear_leftovers();
        // Servers that are given the path may work in another directory.
        let place = std::path::absolute(std::env::temp_dir())
            .context(|| "find the directory for temporary files".to_owned())?;
        let path = place.join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path).context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    /// One for a test, which shares its process with others.
    #[cfg(test)]
    pub(crate) fn for_test(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{SCRATCH_PREFIX}{}.{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory for a test");
        Self(path)
    }

    fn clear_leftovers() {
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(SCRATCH_PREFIX)?.parse::<u32>().ok());
            if owner.is_some_and(|pid| procfs::stat(pid).is_none()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Makes a directory in it.
    pub(crate) fn create(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::create_dir(&path).context(|| format!("create {}", path.display()))?;
        Ok(path)
    }

    /// Makes a directory in it, and empties it if it exists.
    pub(crate) fn create_anew(&self, name: &str) -> Result<PathBuf> {
        let _ = std::fs::remove_dir_all(self.0.join(name));
        self.create(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
