//! `PidFile`: which process is the parent.

use std::io::{self, Write};
use std::path::Path;

use sys::process::Pid;

/// A pid file is never longer than this, in bytes.
const LENGTH_MAX: u64 = 64;

/// The process that a file names. `Ok(None)`: there is no file. A file without a number is an error.
pub fn read(path: &Path) -> io::Result<Option<Pid>> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let text = io::read_to_string(io::Read::take(file, LENGTH_MAX))?;
    let pid = text.trim().parse().ok().and_then(Pid::new);
    pid.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "holds no process number"))
}

/// Whether the file could be written: whether its directory is there, and files may be made in it.
pub fn can_be_written(path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = directory.as_os_str().as_bytes().to_vec();
    // With a slash at its end it is a directory or nothing.
    name.push(b'/');
    sys::file::may_write(&std::ffi::CString::new(name)?)
}

/// Writes this process's number. A new file of mode 644 replaces the old one, so that a reader never sees half. Returns
/// the other process whose number was overwritten.
pub(crate) fn write(path: &Path) -> io::Result<Option<Pid>> {
    let before = read(path).unwrap_or(None);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", Pid::own()));
    let new = Path::new(&name);
    let written =
        create(new).and_then(|mut file| writeln!(file, "{}", Pid::own())).and_then(|()| std::fs::rename(new, path));
    if written.is_err() {
        // The first error is the one that counts; this file may not even exist.
        let _ = std::fs::remove_file(new);
    }
    written.map(|()| before.filter(|pid| *pid != Pid::own()))
}

fn create(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    Ok(file)
}

/// Removes the file if it names this process.
pub(crate) fn remove(path: &Path) -> bool {
    matches!(read(path), Ok(Some(pid)) if pid == Pid::own()) && std::fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_read_overwritten_removed() {
        let directory = std::env::temp_dir().join(format!("tsubame-pidfile-{}", Pid::own()));
        std::fs::create_dir_all(&directory).expect("directory");
        let path = directory.join("pid");
        assert_eq!(read(&path).expect("none"), None);
        assert_eq!(write(&path).expect("write"), None, "nothing was there");
        assert_eq!(write(&path).expect("write"), None, "our own was there");
        assert_eq!(read(&path).expect("read"), Some(Pid::own()));
        std::fs::write(&path, "1\n").expect("write");
        assert!(!remove(&path), "not ours");
        assert_eq!(write(&path).expect("write"), Pid::new(1), "another's was there");
        std::fs::write(&path, "x\n").expect("write");
        assert!(read(&path).is_err());
        assert_eq!(write(&path).expect("write"), None);
        assert!(remove(&path) && !path.exists());
        assert!(can_be_written(&path).is_ok() && can_be_written(&directory.join("none/pid")).is_err());
        assert!(write(&directory.join("none/pid")).is_err());
        assert_eq!(std::fs::read_dir(&directory).expect("list").count(), 0);
        std::fs::remove_dir(&directory).expect("clean");
    }
}
