//! Finds the files that an `Include` names (Apache manual, core, `Include`).

use std::io;

use crate::fnmatch;
use crate::paths::join;
use crate::system::{FileKind, System};

/// The files that an absolute path names, in reading order. Any part of the path may contain wildcards. `optional`: a
/// file that does not exist is not an error, not even one that a symbolic link names.
pub(super) fn files(system: &dyn System, path: &str, optional: bool) -> Result<Vec<String>, String> {
    let mut search = Search { system, optional, found: Vec::new() };
    if fnmatch::is_pattern(path) {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        search.matching("/", &parts)?;
    } else {
        search.below(path)?;
    }
    Ok(search.found)
}

/// The system's message for an error, without the number that Rust appends.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

struct Search<'a> {
    system: &'a dyn System,
    optional: bool,
    found: Vec<String>,
}

impl Search<'_> {
    /// Walks `parts` below `dir`; wildcards in any of them.
    fn matching(&mut self, dir: &str, parts: &[&str]) -> Result<(), String> {
        let Some((part, rest)) = parts.split_first() else { return self.below(dir) };
        if !fnmatch::is_pattern(part) {
            return self.matching(&join(dir, part), rest);
        }
        let mut names = match self.system.list_included(dir) {
            Ok(names) => names,
            Err(error) if self.optional && error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                let why = reason(&error);
                return Err(format!("Include/IncludeOptional: Could not open directory {dir}: {why}"));
            }
        };
        names.retain(|name| fnmatch::fnmatch(part, name, fnmatch::Flags::PERIOD));
        if !rest.is_empty() {
            names.retain(|name| self.is_dir(&join(dir, name)));
        }
        if names.is_empty() && !self.optional {
            return Err(format!("Include/IncludeOptional: No matches for the wildcard '{part}' in '{dir}', failing"));
        }
        for name in sorted(names) {
            let path = join(dir, &name);
            // Below a directory that matched a wildcard, a missing plain part is not an error: another directory may
            // have it.
            if rest.iter().all(|part| !fnmatch::is_pattern(part)) && !rest.is_empty() {
                let full = join(&path, &rest.join("/"));
                if self.exists(&full) {
                    self.below(&full)?;
                }
            } else {
                self.matching(&path, rest)?;
            }
        }
        Ok(())
    }

    fn is_dir(&self, path: &str) -> bool {
        matches!(self.system.included_kind(path), Ok(FileKind::Directory))
    }

    fn exists(&self, path: &str) -> bool {
        self.system.included_kind(path).is_ok()
    }

    /// Adds one path: a file, or every file below a directory.
    fn below(&mut self, path: &str) -> Result<(), String> {
        if !self.is_dir(path) {
            if !self.optional || self.exists(path) {
                self.found.push(path.to_string());
            }
            return Ok(());
        }
        let names = self.system.list_included(path);
        let names = names.map_err(|error| format!("Could not open config directory {path}: {}", reason(&error)))?;
        sorted(names).iter().try_for_each(|name| self.below(&join(path, name)))
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    names
}
