//! Directories of a running server that are gone after a boot, because they lie in `/run`.

use std::io;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::Path;

use sys::cred::Identity;

/// Makes the directory of a file if it is missing, as Debian's `apache2ctl` does: it belongs to the user of the children,
/// and its parents to the user who starts the server.
pub(crate) fn make(module: &'static str, file: &Path, children: Option<&Identity>) -> io::Result<()> {
    let Some(directory) = file.parent().filter(|directory| !directory.exists()) else { return Ok(()) };
    let make = |path: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    directory.parent().map_or(Ok(()), make)?;
    make(directory)?;
    if let Some(identity) = children {
        lchown(directory, Some(identity.uid), None)?;
    }
    runtime::log!(module, Info, "the directory {} was missing and has been made", directory.display());
    Ok(())
}
