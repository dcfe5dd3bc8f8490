//! Properties that clients set on resources, in one file per resource.
//!
//! The files are in a directory `.DAV` beside the resource; those of a collection are in its own. Apache's files there
//! have other names, and stay unchanged.

use std::fs;
use std::io;
use std::path::PathBuf;

use server::paths::{base_name, dir_name, join, os_path};

use super::store;
use super::xml::Name;

/// The name of the directory with the files; it is Apache's own.
pub(super) const DIRECTORY: &str = ".DAV";
/// The name of a collection's file before the suffix: no other file has it.
const OF_COLLECTION: &str = "";
/// The suffix of our files.
const SUFFIX: &str = ".props";

/// The most bytes of all properties of a resource together.
pub(super) const SIZE_MAX: usize = 4 << 20;

/// A property that a client has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) name: Name,
    /// The whole element, as XML.
    pub(super) xml: String,
}

impl Property {
    /// The property's share of [`SIZE_MAX`], in bytes.
    pub(super) fn size(&self) -> usize {
        self.name.space.len() + self.name.local.len() + self.xml.len()
    }
}

/// The properties of a resource.
pub(super) fn read(path: &str, is_dir: bool) -> io::Result<Vec<Property>> {
    let property = |row: store::Row| {
        let [space, local, xml] = <[String; 3]>::try_from(row).ok()?;
        Some(Property { name: Name { space: space.into(), local }, xml })
    };
    let rows = match store::read(&file(path, is_dir)) {
        // A name too long for a suffix has no properties.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Vec::new(),
        rows => rows?,
    };
    let all: Option<Vec<Property>> = rows.into_iter().map(property).collect();
    all.ok_or_else(|| io::Error::other("it is damaged"))
}

/// Replaces all properties of a resource.
pub(super) fn write(path: &str, is_dir: bool, all: &[Property]) -> io::Result<()> {
    if all.is_empty() {
        return remove(path, is_dir);
    }
    make_directory(path, is_dir)?;
    let row = |one: &Property| vec![one.name.space.to_string(), one.name.local.clone(), one.xml.clone()];
    let rows: Vec<store::Row> = all.iter().map(row).collect();
    store::write(&file(path, is_dir), &rows)
}

/// Changes the properties of a resource. If `change` refuses, they stay unchanged.
pub(super) fn change(
    path: &str,
    is_dir: bool,
    change: impl FnOnce(&mut Vec<Property>) -> io::Result<()>,
) -> io::Result<()> {
    let _held = hold(collection(path, is_dir))?;
    // The resource may have been renamed before that.
    fs::metadata(os_path(path))?;
    let mut all = read(path, is_dir)?;
    let before = all.clone();
    change(&mut all)?;
    if all != before {
        write(path, is_dir, &all)?;
    }
    Ok(())
}

/// Copies the properties of another resource, even if there are none.
pub(super) fn copy(from: &str, to: &str, is_dir: bool) -> io::Result<()> {
    write(to, is_dir, &read(from, is_dir)?)
}

/// Removes all properties of a resource.
pub(super) fn remove(path: &str, is_dir: bool) -> io::Result<()> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match fs::remove_file(file(path, is_dir)) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(()),
        result => result,
    }
}

/// While it exists, no other process names a file of this collection, or changes its properties.
pub(super) struct Held(#[allow(dead_code, reason = "its descriptor is the lock")] Option<fs::File>);

/// Waits until no other process holds a conflicting lock.
pub(super) fn hold(collection: &str) -> io::Result<Held> {
    match open(collection)? {
        Some(file) => sys::file::lock(&file, true).map(|()| Held(Some(file))),
        None => Ok(Held(None)),
    }
}

/// Locks the properties of two collections, which may be one with two names. All callers take the locks in one order,
/// so that no two wait for each other.
pub(super) fn hold_both(one: &str, other: &str) -> io::Result<[Held; 2]> {
    use std::os::unix::fs::MetadataExt;
    let mut files = Vec::new();
    for file in [open(one)?, open(other)?].into_iter().flatten() {
        let meta = file.metadata()?;
        files.push(((meta.dev(), meta.ino()), file));
    }
    files.sort_by_key(|(identity, _)| *identity);
    files.dedup_by_key(|(identity, _)| *identity);
    let mut held = [Held(None), Held(None)];
    for (place, (_, file)) in held.iter_mut().zip(files) {
        sys::file::lock(&file, true)?;
        place.0 = Some(file);
    }
    Ok(held)
}

/// `None`: the server may write to this directory but not read it; nobody holds it.
fn open(collection: &str) -> io::Result<Option<fs::File>> {
    match fs::File::open(os_path(collection)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        file => file.map(Some),
    }
}

fn make_directory(path: &str, is_dir: bool) -> io::Result<()> {
    match fs::create_dir(directory(path, is_dir)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// The collection that contains a resource's properties.
fn collection(path: &str, is_dir: bool) -> &str {
    if is_dir { path } else { dir_name(path) }
}

fn directory(path: &str, is_dir: bool) -> PathBuf {
    os_path(&join(collection(path, is_dir), DIRECTORY))
}

fn file(path: &str, is_dir: bool) -> PathBuf {
    let name = if is_dir { OF_COLLECTION } else { base_name(path) };
    directory(path, is_dir).join(os_path(&format!("{name}{SUFFIX}")))
}
