//! Files and directories: lists, copies, moves and removes them. Everything here may block.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use conf::paths::join;
use server::paths::{c_path, dir_name, os_path};
use sys::file::Meta;

use super::failure::{Failure, Failures};
use super::properties::{self, DIRECTORY};
use super::store::{self, Draft, TEMPORARY};
use super::target::Target;

/// The greatest depth of a tree that is copied or removed.
const DEPTH_MAX: usize = 1024;

/// Whether a name is hidden from clients.
pub(super) fn is_hidden(name: &str) -> bool {
    name == DIRECTORY || name.starts_with(TEMPORARY)
}

/// The metadata at a path, following links; `None`: nothing is there.
pub(super) fn metadata(path: &str) -> Result<Option<Meta>, Failure> {
    let Some(os) = c_path(path) else { return Err(Failure::status(404)) };
    match sys::file::stat(&os) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::os(403, error, format!("access to {path} failed"))),
    }
}

/// The files and directories in a directory, by name. As in Apache, without links.
pub(super) fn list(path: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(os_path(path))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = text_of(&entry.file_name());
        if (kind.is_file() || kind.is_dir()) && !is_hidden(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

pub(super) fn text_of(name: &OsStr) -> String {
    http::text::from_bytes(name.as_bytes()).into_owned()
}

/// Removes a file, or a directory with all its content. Continues after a failure.
pub(super) fn remove(target: &Target, failures: &mut Failures) {
    remove_at(target, 0, failures);
}

fn remove_at(target: &Target, depth: usize, failures: &mut Failures) {
    let os = os_path(&target.path);
    let failed = |failures: &mut Failures, error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => {}
        _ => failures.push((target.uri.clone(), 403, String::new())),
    };
    // Removes a link itself, not its target.
    let is_dir = match fs::symlink_metadata(&os) {
        Ok(meta) => meta.is_dir(),
        Err(error) => return failed(failures, &error),
    };
    if !is_dir {
        match fs::remove_file(&os) {
            // The properties belonged to the removed resource; the next resource there removes any remainder.
            Ok(()) => drop(properties::remove(&target.path, false)),
            Err(error) => failed(failures, &error),
        }
        return;
    }
    let before = failures.len();
    // Nothing is open during the next level: a tree may be deeper than the limit on open files.
    let names: io::Result<Vec<String>> =
        fs::read_dir(&os).and_then(|entries| entries.map(|entry| Ok(text_of(&entry?.file_name()))).collect());
    let names = match names {
        Ok(names) => names,
        Err(error) => return failed(failures, &error),
    };
    for name in names.iter().filter(|name| *name != DIRECTORY) {
        if depth >= DEPTH_MAX {
            return failures.push((target.uri.clone(), 403, String::new()));
        }
        remove_at(&target.child(name), depth + 1, failures);
    }
    if failures.len() > before {
        return;
    }
    let state = os.join(DIRECTORY);
    let removed = match fs::symlink_metadata(&state) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&state),
        _ => Ok(()),
    };
    if let Err(error) = removed.and_then(|()| fs::remove_dir(&os)) {
        failed(failures, &error);
    }
}

/// Copies a file, or a directory with or without its content. The new name is free, or that of a file when a file is
/// copied.
pub(super) fn copy(from: &Target, to: &Target, deep: bool, failures: &mut Failures) -> io::Result<()> {
    let meta = fs::metadata(os_path(&from.path))?;
    if !meta.is_dir() {
        return copy_file(from, to, &meta);
    }
    fs::create_dir(os_path(&to.path))?;
    properties::copy(&from.path, &to.path, true)?;
    if deep {
        copy_below(from, to, 0, failures);
    }
    Ok(())
}

fn copy_below(from: &Target, to: &Target, depth: usize, failures: &mut Failures) {
    let names = match list(&from.path) {
        Ok(names) if depth < DEPTH_MAX => names,
        _ => return failures.push((from.uri.clone(), 403, String::new())),
    };
    for name in names {
        let (from, to) = (from.child(&name), to.child(&name));
        match copy(&from, &to, false, failures) {
            Err(error) => failures.push((to.uri, status_of(&error), String::new())),
            Ok(()) if fs::metadata(os_path(&to.path)).is_ok_and(|meta| meta.is_dir()) => {
                copy_below(&from, &to, depth + 1, failures);
            }
            Ok(()) => {}
        }
    }
}

/// Copies a file with its properties to a new name, which it gets only when it is complete.
fn copy_file(from: &Target, to: &Target, meta: &fs::Metadata) -> io::Result<()> {
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut source = fs::File::open(os_path(&from.path))?;
    // As in Apache a copy is a new file, but an executable file stays executable.
    let mode = Some(meta.permissions().mode() & 0o777).filter(|mode| mode & 0o100 != 0);
    let mut draft = Draft::new(&os_path(dir_name(&to.path)), mode.unwrap_or(store::NEW))?;
    io::copy(&mut source, &mut draft.file)?;
    let _held = properties::hold(dir_name(&to.path))?;
    name_file(from, to, |path| draft.put(path))
}

/// Renames a file or a directory, even to another disk. The new name is as for [`copy`].
pub(super) fn rename(from: &Target, to: &Target, failures: &mut Failures) -> io::Result<()> {
    let os = os_path(&from.path);
    let renamed = match fs::symlink_metadata(&os)?.is_file() {
        true => rename_file(&os, from, to),
        false => fs::rename(&os, os_path(&to.path)),
    };
    match renamed {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(from, to, true, failures)?;
            if failures.is_empty() {
                remove(from, failures);
            }
            Ok(())
        }
        result => result,
    }
}

fn rename_file(os: &Path, from: &Target, to: &Target) -> io::Result<()> {
    let _held = properties::hold_both(dir_name(&from.path), dir_name(&to.path))?;
    name_file(from, to, |path| fs::rename(os, path))?;
    // The properties do not belong to anything any more.
    let _ = properties::remove(&from.path, false);
    Ok(())
}

/// Gives a file its new name, together with another one's properties. The properties come first: whichever name the
/// file has if this process is killed, they are there.
fn name_file(from: &Target, to: &Target, name: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let before = properties::read(&to.path, false)?;
    properties::copy(&from.path, &to.path, false)?;
    name(&os_path(&to.path)).inspect_err(|_| {
        // The first error is the one that counts.
        let _ = properties::write(&to.path, false, &before);
    })
}

/// The status for an error of the system.
pub(super) fn status_of(error: &io::Error) -> u16 {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 507,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => 409,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::InvalidInput => 403,
        _ => 500,
    }
}

/// Whether a path leads to a hidden file.
pub(super) fn is_state_path(path: &str) -> bool {
    join("/", path).split('/').any(is_hidden)
}
