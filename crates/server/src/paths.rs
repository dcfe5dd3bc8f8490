//! Converts paths between this program's texts and the system's form.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use conf::System;
use http::text::to_bytes;

/// The path for the standard library, with its original bytes.
pub fn os_path(path: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(to_bytes(path).into_owned()))
}

/// The path for system calls; `None` if it holds a NUL, which names no file.
pub fn c_path(path: &str) -> Option<CString> {
    CString::new(to_bytes(path)).ok()
}

/// Joins a directory and a relative path by one slash.
pub fn join(dir: &str, rest: &str) -> String {
    let rest = rest.trim_start_matches('/');
    if dir.ends_with('/') { format!("{dir}{rest}") } else { format!("{dir}/{rest}") }
}

/// The last part of a path: empty if it ends with a slash.
pub fn base_name(path: &str) -> &str {
    memchr::memrchr(b'/', path.as_bytes()).map_or(path, |at| &path[at + 1..])
}

/// The path up to its last slash, that slash included.
pub fn dir_name(path: &str) -> &str {
    memchr::memrchr(b'/', path.as_bytes()).map_or("", |at| &path[..=at])
}

/// How long a directory and a path below it may be together, in bytes: as in Apache, the system's limit (4096) less two slashes,
/// a byte at the end, and one in reserve.
pub const MAPPED_MAX: usize = 4092;

/// The part of a path that the system refuses, because its name or the path up to it is too long. `None`: the system does not
/// get that far, because something before it is missing or is no directory.
pub fn too_long(path: &str) -> Option<&str> {
    let ends = path.match_indices('/').skip(1).map(|(end, _)| end).chain([path.len()]);
    for end in ends {
        match sys::file::stat(&c_path(&path[..end])?) {
            Ok(meta) if meta.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return Some(&path[..end]),
            _ => return None,
        }
    }
    None
}

/// The system's words why a path is not a directory.
pub fn why_no_directory(system: &dyn System, path: &str) -> &'static str {
    match system.exists(path.trim_end_matches('/')) {
        true => "(20)Not a directory",
        false => "(2)No such file or directory",
    }
}
