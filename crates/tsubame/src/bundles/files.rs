//! The files and variables that a configuration is read from: those of the machine, or a bundle's. Keeps account of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use conf::{FileKind, System};
use server::machine::Machine;

use super::bundle::Bundle;
use super::manifest::digest;
use super::names::Places;

/// The files and variables that a configuration is read from.
pub(crate) struct Files {
    /// The bundle, with what finds its files under the paths of this machine.
    bundle: Option<(Arc<Bundle>, Finder)>,
    /// What was read so far; `None`: nobody wants to know any more.
    seen: Mutex<Option<Seen>>,
}

/// What a configuration was read from.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The digests of the files, by path.
    pub(crate) files: BTreeMap<String, String>,
    /// The variables of the environment.
    pub(crate) variables: BTreeMap<String, String>,
}

/// Finds the files of a bundle.
struct Finder {
    /// The path of the main file on this machine.
    main: String,
    /// The places on this machine, and those on the machine where the bundle was made.
    places: [Places; 2],
    /// The directories of the bundle, by name.
    directories: BTreeSet<String>,
}

impl Files {
    /// The files of the machine, or of a bundle that takes the place of `main` and of all that it includes. `root` is
    /// where the server's root is before anything is read.
    pub(crate) fn new(bundle: Option<Arc<Bundle>>, main: &str, root: &str) -> Files {
        let bundle = bundle.map(|bundle| {
            let parents = bundle.files.keys().flat_map(|name| name.match_indices('/').map(|(at, _)| name[..at].into()));
            let finder = Finder {
                main: main.into(),
                places: [Places::new(main, root), bundle.manifest.places.clone()],
                directories: parents.collect(),
            };
            (bundle, finder)
        });
        Files { bundle, seen: Mutex::new(Some(Seen::default())) }
    }

    /// What was read so far. From now on no account is kept.
    pub(crate) fn take_seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    fn note(&self, note: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            note(seen);
        }
    }

    /// The text of a file of the bundle.
    fn bundled(&self, path: &str) -> Option<&Arc<Vec<u8>>> {
        let (bundle, finder) = self.bundle.as_ref()?;
        finder.names(bundle, path).into_iter().find_map(|name| bundle.files.get(&name))
    }

    fn account(&self, path: &str, read: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        let text = read?;
        self.note(|seen| drop(seen.files.insert(path.into(), digest(&text))));
        Ok(text)
    }
}

impl Finder {
    /// The names that a path may have in the bundle.
    fn names(&self, bundle: &Bundle, path: &str) -> Vec<String> {
        if path == self.main {
            return vec![bundle.manifest.given.main.clone()];
        }
        self.places.iter().flat_map(|places| places.names(path)).collect()
    }
}

impl System for Files {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let read = self.bundled(path).map_or_else(|| Machine.read(path), |text| Ok(text.to_vec()));
        self.account(path, read)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        Machine.list(dir)
    }

    fn file_kind(&self, path: &str) -> io::Result<FileKind> {
        // `<IfFile>` finds what `Include` would find.
        Machine
            .file_kind(path)
            .or_else(|error| if self.bundle.is_some() { self.included_kind(path) } else { Err(error) })
    }

    fn read_included(&self, path: &str) -> io::Result<Vec<u8>> {
        match (&self.bundle, self.bundled(path)) {
            (None, _) => self.read(path),
            (Some(_), Some(text)) => self.account(path, Ok(text.to_vec())),
            (Some(_), None) => Err(io::Error::other("the bundle has no such file")),
        }
    }

    fn list_included(&self, dir: &str) -> io::Result<Vec<String>> {
        let Some((bundle, finder)) = &self.bundle else { return self.list(dir) };
        let names = finder.names(bundle, dir);
        let directory = names.iter().find(|name| finder.directories.contains(*name)).ok_or(io::ErrorKind::NotFound)?;
        let inside = |name: &String| {
            let rest = name.strip_prefix(directory.as_str())?.strip_prefix('/')?;
            rest.split('/').next().map(str::to_string)
        };
        let entries: BTreeSet<String> = bundle.files.keys().filter_map(inside).collect();
        Ok(entries.into_iter().collect())
    }

    fn included_kind(&self, path: &str) -> io::Result<FileKind> {
        let Some((bundle, finder)) = &self.bundle else { return Machine.file_kind(path) };
        match self.bundled(path) {
            Some(text) => Ok(FileKind::Regular { is_empty: text.is_empty() }),
            None if finder.names(bundle, path).iter().any(|name| finder.directories.contains(name)) => {
                Ok(FileKind::Directory)
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        let bundled = || self.bundle.as_ref()?.0.manifest.given.variables.get(name).cloned();
        let value = Machine.env(name).or_else(bundled)?;
        self.note(|seen| drop(seen.variables.insert(name.into(), value.clone())));
        Some(value)
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Machine.resolve(name)
    }

    fn name_of(&self, address: IpAddr) -> io::Result<String> {
        Machine.name_of(address)
    }

    fn user(&self, name: &str) -> Option<(u32, u32)> {
        Machine.user(name)
    }

    fn group(&self, name: &str) -> Option<u32> {
        Machine.group(name)
    }

    fn hostname(&self) -> (String, Option<String>) {
        Machine.hostname()
    }
}
