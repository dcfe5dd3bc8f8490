//! Converts paths between this program's texts and the system's form.

use std::ffi::{CString, OsString};
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

/// The system's words why a path is not a directory.
pub fn why_no_directory(system: &dyn System, path: &str) -> &'static str {
    match system.exists(path.trim_end_matches('/')) {
        true => "(20)Not a directory",
        false => "(2)No such file or directory",
    }
}
