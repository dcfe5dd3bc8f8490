//! A bundle: a configuration with the texts of all its files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use server::paths::os_path;

use super::archive;
use super::manifest::{Given, Manifest, digest};

/// The name of the manifest, in an archive and in a directory.
pub(super) const MANIFEST: &str = "manifest.json";

/// A configuration with the texts of all its files, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub(crate) manifest: Manifest,
    pub(crate) files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl Bundle {
    /// The bytes of the file that holds the bundle: the same for the same configuration. `Err`: it is too large.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut out = archive::Writer::default();
        out.add(MANIFEST, self.manifest.text().as_bytes())?;
        self.files.iter().try_for_each(|(name, text)| out.add(name, text))?;
        out.end()
    }

    /// Reads a bundle. `Err`: it is none, is incomplete, or was altered.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Bundle, String> {
        let mut entries = archive::entries(bytes)?.into_iter();
        let first = entries.next().filter(|(name, _)| name == MANIFEST);
        let (_, text) = first.ok_or_else(|| format!("it does not begin with {MANIFEST}: it is no bundle"))?;
        let manifest = Manifest::parse(text)?;
        let mut files = BTreeMap::new();
        for (name, text) in entries {
            match manifest.given.files.get(&name) {
                Some(wanted) if *wanted == digest(text) => files.insert(name, Arc::new(text.to_vec())),
                Some(_) => return Err(format!("its file {name} was altered: the digest is another")),
                None => return Err(format!("it has a file that its manifest does not list: {name}")),
            };
        }
        match manifest.given.files.keys().find(|name| !files.contains_key(*name)) {
            Some(missing) => Err(format!("its file {missing} is missing: it is not complete")),
            None => Ok(Bundle { manifest, files }),
        }
    }

    /// Reads a bundle that was unpacked into a directory, with what was changed there by hand since.
    pub(crate) fn open(directory: &Path) -> Result<Bundle, String> {
        let of = |path: &Path, error: &io::Error| format!("{}: {}", path.display(), sys::describe(error));
        let place = directory.join(MANIFEST);
        let text = std::fs::read(&place).map_err(|error| of(&place, &error))?;
        let manifest = Manifest::parse(&text).map_err(|why| format!("{}: {why}", place.display()))?;
        let read = |name: &String| {
            let path = directory.join(os_path(name));
            let text = std::fs::read(&path).map_err(|error| of(&path, &error))?;
            Ok((name.clone(), Arc::new(text)))
        };
        let files = manifest.given.files.keys().map(read).collect::<Result<_, String>>()?;
        Ok(Bundle { manifest, files })
    }

    /// What a configuration that is read from the bundle is read from: the manifest's, unless a file was changed.
    pub(crate) fn given(&self) -> Given {
        let files = self.files.iter().map(|(name, text)| (name.clone(), digest(text))).collect();
        Given { files, ..self.manifest.given.clone() }
    }

    /// The names of the files that were changed by hand.
    pub(crate) fn changed(&self) -> Vec<String> {
        let wanted = &self.manifest.given.files;
        let changed = self.files.iter().filter(|(name, text)| wanted.get(*name) != Some(&digest(text)));
        changed.map(|(name, _)| name.clone()).collect()
    }
}
