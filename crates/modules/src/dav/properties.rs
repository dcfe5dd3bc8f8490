//! Properties that clients give to resources, in a file of each resource.
//!
//! The files lie in a directory `.DAV` beside the resource; those of a collection lie in its own. Apache's files there have
//! other names, and stay as they are.

use std::fs;
use std::io;
use std::path::PathBuf;

use server::paths::{base_name, dir_name, join, os_path};

use super::store;
use super::xml::Name;

/// The directory; Apache's own name.
pub(super) const DIRECTORY: &str = ".DAV";
/// The name of the file of a collection, in front of the suffix; Apache's own name.
const OF_COLLECTION: &str = ".state_for_dir";
/// What the names of our files end with.
const SUFFIX: &str = ".props";

/// A property that a client has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) name: Name,
    /// The whole element.
    pub(super) xml: String,
}

/// The properties of a resource.
pub(super) fn read(path: &str, is_dir: bool) -> io::Result<Vec<Property>> {
    let property = |row: store::Row| {
        let [space, local, xml] = <[String; 3]>::try_from(row).ok()?;
        Some(Property { name: Name { space, local }, xml })
    };
    let rows = match store::read(&file(path, is_dir)) {
        // A name to which nothing can be added has no properties.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Vec::new(),
        rows => rows?,
    };
    let all: Option<Vec<Property>> = rows.into_iter().map(property).collect();
    all.ok_or_else(|| io::Error::other("it is damaged"))
}

/// Gives a resource these properties and no others.
pub(super) fn write(path: &str, is_dir: bool, all: &[Property]) -> io::Result<()> {
    if all.is_empty() {
        return remove(path, is_dir);
    }
    make_directory(path, is_dir)?;
    let row = |one: &Property| vec![one.name.space.clone(), one.name.local.clone(), one.xml.clone()];
    let rows: Vec<store::Row> = all.iter().map(row).collect();
    store::write(&file(path, is_dir), &rows)
}

/// Changes the properties of a resource; nobody else changes any of that directory meanwhile. What `change` refuses stays as it
/// is.
pub(super) fn change<E: From<io::Error>>(
    path: &str,
    is_dir: bool,
    change: impl FnOnce(&mut Vec<Property>) -> Result<(), E>,
) -> Result<(), E> {
    make_directory(path, is_dir)?;
    let held = fs::File::open(directory(path, is_dir))?;
    sys::file::lock(&held, true)?;
    let mut all = read(path, is_dir)?;
    let before = all.clone();
    change(&mut all)?;
    if all != before {
        write(path, is_dir, &all)?;
    }
    Ok(())
}

/// Gives a resource the properties of another one, or none where that has none.
pub(super) fn copy(from: &str, to: &str, is_dir: bool) -> io::Result<()> {
    write(to, is_dir, &read(from, is_dir)?)
}

/// Takes all properties from a resource.
pub(super) fn remove(path: &str, is_dir: bool) -> io::Result<()> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match fs::remove_file(file(path, is_dir)) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(()),
        result => result,
    }
}

fn make_directory(path: &str, is_dir: bool) -> io::Result<()> {
    match fs::create_dir(directory(path, is_dir)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn directory(path: &str, is_dir: bool) -> PathBuf {
    os_path(&join(if is_dir { path } else { dir_name(path) }, DIRECTORY))
}

fn file(path: &str, is_dir: bool) -> PathBuf {
    let name = if is_dir { OF_COLLECTION } else { base_name(path) };
    directory(path, is_dir).join(os_path(&format!("{name}{SUFFIX}")))
}
