//! Where a response is in `CacheRoot`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use server::paths::os_path;

use super::settings::DiskServer;
use crate::cache::hashed::hashed;

/// `CacheRoot`, and how it is divided.
#[derive(Clone)]
pub(super) struct Root {
    pub(super) directory: PathBuf,
    levels: usize,
    length: usize,
}

/// The files of a response.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    /// Its head, or a list of the fields that responses vary by.
    pub(super) header: PathBuf,
    pub(super) data: PathBuf,
    /// The directory of responses that vary.
    pub(super) variants: PathBuf,
}

impl Root {
    pub(super) fn of(conf: &DiskServer) -> Option<Root> {
        let directory = os_path(conf.root.get()?);
        // Both were checked to be positive.
        let (levels, length) = (conf.levels().unsigned_abs() as usize, conf.length().unsigned_abs() as usize);
        Some(Root { directory, levels, length })
    }

    /// A directory, to remove files from.
    pub(super) fn at(directory: &Path) -> Root {
        Root { directory: directory.to_path_buf(), levels: 0, length: 0 }
    }

    /// The files for a key.
    pub(super) fn primary(&self, key: &[u8]) -> Paths {
        Paths::new(self.directory.join(hashed(key, self.levels, self.length)))
    }

    /// The files of the response under a key to a request with these values of the fields that responses vary by.
    pub(super) fn variant<'a>(
        &self,
        primary: &Paths,
        names: &[String],
        key: &[u8],
        value: impl Fn(&str) -> Option<Cow<'a, str>>,
    ) -> Paths {
        let mut all = Vec::new();
        for name in names {
            all.extend(http::text::to_bytes(name).iter());
            all.extend(http::text::to_bytes(&value(name).unwrap_or_default()).iter());
        }
        all.extend(key);
        Paths::new(primary.variants.join(hashed(&all, self.levels, self.length)))
    }
}

impl Paths {
    /// The files beside a head.
    pub(super) fn of_header(header: &Path) -> Paths {
        Paths::new(header.with_extension(""))
    }

    fn new(base: PathBuf) -> Paths {
        let with = |end: &str| {
            let mut name = base.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        };
        Paths { header: with(".header"), data: with(".data"), variants: with(".header.vary") }
    }
}
