//! Keys that only root may read: a plain user's servers read the configuration with another key in their place.
//!
//! A namespace of mounts that belongs to the user puts the file there, for these processes alone. Within, a second namespace
//! gives the processes the user's own number back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::error::{Context as _, Result};
use crate::machine::identity::Identity;

/// Mounts the pairs of source and target that follow, up to `--`, and becomes what is behind that, as user `$1`, `$2`.
const SCRIPT: &str = "user=$1 group=$2; shift 2
while [ \"$1\" != -- ]; do mount --bind \"$1\" \"$2\" || exit 1; shift 2; done
shift
exec unshare --user --map-user=\"$user\" --map-group=\"$group\" \"$@\"";

/// The files that something stands for.
#[derive(Clone, Debug, Default)]
pub(super) struct StandIns {
    files: Vec<PathBuf>,
    /// What is mounted, by the place: over a file, or over a directory that this user may not enter.
    mounts: BTreeMap<PathBuf, PathBuf>,
}

impl StandIns {
    /// The command that starts a program with them.
    pub(super) fn command(&self, program: &Path) -> Command {
        if self.files.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        let numbers = [rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()].map(|id| id.to_string());
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]).args(numbers);
        for (place, source) in &self.mounts {
            command.arg(source).arg(place);
        }
        command.arg("--").arg(program);
        command
    }

    /// Takes the file that an error message names, if this process may not read that file, and a key can stand for it.
    pub(super) fn take(&mut self, message: &str, directory: &Path) -> Result<bool> {
        let Some(file) = named(message).filter(|file| is_forbidden(file) && !self.files.contains(file)) else {
            return Ok(false);
        };
        let closed = closed_directory(&file);
        let place = closed.as_deref().unwrap_or(&file);
        let number = self.mounts.len();
        let source =
            self.mounts.entry(place.to_owned()).or_insert_with(|| directory.join(format!("stand-in.{number}")));
        // The name of the place itself is that of the source.
        let own = match file.strip_prefix(place) {
            Ok(rest) if rest != Path::new("") => source.join(rest),
            _ => source.clone(),
        };
        if let Some(parent) = own.parent() {
            std::fs::create_dir_all(parent).context(|| format!("create {}", parent.display()))?;
        }
        let identity = Identity::make_for("stand-in", directory)?.both();
        std::fs::copy(&identity, &own).context(|| format!("write {}", own.display()))?;
        self.files.push(file);
        Ok(true)
    }

    /// The files, for the report.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

/// The file in `SSLCertificateKeyFile: file '/x.key' does not exist or is empty`.
fn named(message: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once("file '")?;
    let (file, _) = rest.split_once("' does not exist or is empty")?;
    Some(PathBuf::from(OsString::from(file)))
}

/// The directory above a file that this user may not enter; none if the file itself may not be read.
fn closed_directory(file: &Path) -> Option<PathBuf> {
    let mut above: Vec<&Path> = file.ancestors().skip(1).collect();
    above.reverse();
    let is_closed = |directory: &&Path| is_denied(&directory.join("."));
    above.into_iter().find(is_closed).map(Path::to_owned)
}

fn is_denied(path: &Path) -> bool {
    path.metadata().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Whether the file is there, or may be, and cannot be read by this user.
fn is_forbidden(file: &Path) -> bool {
    !file.as_os_str().as_bytes().is_empty()
        && std::fs::File::open(file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_a_file() {
        let message = "AH00526: Syntax error\nSSLCertificateKeyFile: file '/a b.key' does not exist or is empty\n";
        assert_eq!(named(message), Some(PathBuf::from("/a b.key")));
        assert_eq!(named("Syntax error"), None);
    }
}
