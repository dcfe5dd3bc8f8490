//! The versions of a configuration that a machine has, in a directory beside the main file.
//!
//! `httpd.conf.bundles/VERSION` is an unpacked bundle. The link `current` leads to the one that takes the place of
//! `httpd.conf` and all that it includes; without it, `httpd.conf` itself is read. The link `previous` leads to the one
//! before, or to `-`, the plain files. A link changes by a rename, so there is always the old one or the new one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use server::paths::os_path;

use super::bundle::{Bundle, MANIFEST};

const CURRENT: &str = "current";
const PREVIOUS: &str = "previous";
/// What `previous` leads to if plain files were read before.
const PLAIN: &str = "-";
/// How the names of what is not complete begin.
const UNFINISHED: &str = ".new";

/// The directory with the versions.
#[derive(Clone, Debug)]
pub(crate) struct Store(PathBuf);

/// Which versions are in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The version to read; `None`: the plain files.
    pub(crate) current: Option<String>,
    /// The one before, if there was one.
    pub(crate) previous: Option<Option<String>>,
}

impl Store {
    /// The store of a configuration with this main file.
    pub(crate) fn of(main: &str) -> Store {
        Store(os_path(&format!("{main}.bundles")))
    }

    /// Which versions are in use.
    pub(crate) fn state(&self) -> io::Result<State> {
        let previous = self.link(PREVIOUS)?;
        Ok(State {
            current: self.link(CURRENT)?,
            previous: previous.map(|name| Some(name).filter(|name| name != PLAIN)),
        })
    }

    /// The link that leads to the version to read.
    pub(crate) fn current(&self) -> PathBuf {
        self.0.join(CURRENT)
    }

    /// The directory of a version.
    pub(crate) fn directory(&self, version: &str) -> PathBuf {
        self.0.join(version)
    }

    /// Makes the store if it is missing, and keeps others from changing it. `Ok(None)`: somebody else does so now.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        make(&self.0)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(self.0.join(".lock"))?;
        Ok(sys::file::try_lock(&file)?.then_some(file))
    }

    /// Unpacks a bundle and returns the name of its directory, which is complete or does not exist.
    pub(crate) fn unpack(&self, bundle: &Bundle) -> io::Result<String> {
        let unfinished = self.0.join(format!("{UNFINISHED}-{}", std::process::id()));
        let done = write_all(bundle, &unfinished).and_then(|()| self.accept(bundle, &unfinished));
        done.inspect_err(|_| {
            // Passwords are in it, and the disk may be full; if this fails too, the next load removes it.
            let _ = std::fs::remove_dir_all(&unfinished);
        })
    }

    /// Gives a whole bundle its name, unless it is there already.
    fn accept(&self, bundle: &Bundle, unfinished: &Path) -> io::Result<String> {
        let version = bundle.manifest.given.version();
        // A version that was loaded before may be in use, or changed by hand: then it stays as it is.
        let others = (2..).map(|number: u32| format!("{version}.{number}"));
        for name in std::iter::once(version.clone()).chain(others) {
            let directory = self.directory(&name);
            if !directory.exists() {
                std::fs::rename(unfinished, directory)?;
                return self.sync().map(|()| name);
            }
            if Bundle::open(&directory).is_ok_and(|there| there == *bundle) {
                return std::fs::remove_dir_all(unfinished).map(|()| name);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Makes these the versions in use.
    pub(crate) fn set(&self, state: &State) -> io::Result<()> {
        let previous = state.previous.as_ref().map(|name| name.as_deref().unwrap_or(PLAIN));
        self.point(PREVIOUS, previous)?;
        self.point(CURRENT, state.current.as_deref())
    }

    /// Removes the versions that are not in use, and what was left unfinished.
    pub(crate) fn clean(&self) -> io::Result<()> {
        let State { current, previous } = self.state()?;
        let used = [current, previous.flatten()];
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            let is_used = entry.file_name().to_str().is_some_and(|name| used.iter().flatten().any(|used| used == name));
            if entry.file_type()?.is_dir() && !is_used {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The version that a link leads to. `Err`: it leads elsewhere.
    fn link(&self, name: &str) -> io::Result<Option<String>> {
        let target = match std::fs::read_link(self.0.join(name)) {
            Ok(target) => target,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let is_inside = |name: &&str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        let version = target.to_str().filter(is_inside);
        version.map_or_else(|| Err(io::Error::other("it leads out of its directory")), |name| Ok(Some(name.into())))
    }

    fn point(&self, name: &str, version: Option<&str>) -> io::Result<()> {
        let link = self.0.join(name);
        match version {
            Some(version) => {
                let new = self.0.join(format!("{UNFINISHED}-{name}"));
                match std::fs::remove_file(&new) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => symlink(version, &new)?,
                }
                std::fs::rename(&new, &link)?;
            }
            None => match std::fs::remove_file(&link) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
        self.sync()
    }

    /// Waits until the names are on the disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

/// Makes a directory for its owner only: passwords are in configurations.
fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn write_all(bundle: &Bundle, directory: &Path) -> io::Result<()> {
    make(directory)?;
    write(&directory.join(MANIFEST), bundle.manifest.text().as_bytes())?;
    for (name, text) in &bundle.files {
        let path = directory.join(os_path(name));
        path.parent().map_or(Ok(()), make)?;
        write(&path, text)?;
    }
    Ok(())
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}
