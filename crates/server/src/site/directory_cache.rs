//! The cache of directories: their sections' settings, and the way there.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::HashMap;
use sys::time::Instant;

use crate::settings::merge::Merged;
use crate::site::watched::{WatchedDirectories, WatchedPath};

/// At this many remembered directories of all hosts together, all are forgotten.
const REMEMBERED_MAX: usize = 16 * 1024;

/// The directories of each host that a child remembers, by path (with a slash at the end).
///
/// The caches of all hosts lie side by side, apart from the hosts themselves: what a child writes is no longer shared
/// with its parent, a page at a time, and a host is as large as a page.
#[derive(Debug)]
pub(crate) struct DirectoryCaches {
    hosts: Box<[RwLock<Directories>]>,
    /// The directories in all of them, as far as the children's threads have counted.
    count: AtomicUsize,
}

type Directories = HashMap<String, Arc<Walked>>;

/// The sections' settings of a directory.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) merged: Merged,
    /// The findings on the way there, if `.htaccess` files are looked up or links checked.
    pub(crate) way: Option<WatchedPath>,
    /// The depth of a name in it, if a `<Directory>` section might match one.
    pub(crate) files_at: Option<usize>,
    /// The length of the part of its path in which links may be followed, in bytes as the kernel counts them.
    pub(crate) followed: usize,
    /// Behind that part, a link may be followed to a file of its owner.
    pub(crate) same_owner: bool,
}

impl Walked {
    /// Whether a request that came at `start`, announced by `tick`, would find the same on the way.
    pub(crate) fn holds(&self, watched: &WatchedDirectories, tick: Option<NonZeroU64>, start: Instant) -> bool {
        self.way.as_ref().is_none_or(|way| way.holds(watched, tick, start))
    }
}

impl DirectoryCaches {
    /// Empty caches for so many hosts.
    pub(crate) fn new(hosts: usize) -> DirectoryCaches {
        DirectoryCaches { hosts: (0..hosts).map(|_| RwLock::default()).collect(), count: AtomicUsize::new(0) }
    }

    fn read(&self, host: usize) -> RwLockReadGuard<'_, Directories> {
        self.hosts[host].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, host: usize) -> RwLockWriteGuard<'_, Directories> {
        self.hosts[host].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a host's directory; `host` is its index.
    pub(crate) fn get(&self, host: usize, directory: &str) -> Option<Arc<Walked>> {
        self.read(host).get(directory).cloned()
    }

    /// Remembers a host's directory.
    pub(crate) fn insert(&self, host: usize, directory: &str, walked: Arc<Walked>) {
        if self.count.load(Ordering::Relaxed) >= REMEMBERED_MAX {
            (0..self.hosts.len()).for_each(|host| *self.write(host) = Directories::default());
            self.count.store(0, Ordering::Relaxed);
        }
        if self.write(host).insert(directory.to_string(), walked).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets a host's directory.
    pub(crate) fn remove(&self, host: usize, directory: &str) {
        if self.write(host).remove(directory).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
