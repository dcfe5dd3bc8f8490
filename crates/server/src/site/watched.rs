//! Watched directories: the findings on the way to a file hold until the kernel reports a change there.
//!
//! The way to a directory consists of all directories that the system passes to get there, following symbolic links.
//! The watches cover their entries: the next part of the way, and the access files that are *not* there. So one
//! question, whether there is any news, replaces a look for `.htaccess` in each directory. The kernel queues its news
//! before the changing call returns, so a request sent after that finds them. An access file that exists is always
//! checked: it may be written to under another name, or without a call (mmap(2)).
//!
//! If the kernel cannot watch (see [`sys::inotify`]), everything is checked for each request.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use http::text::to_bytes;
use sys::file::Meta;
use sys::inotify::{Change, Inotify, News};
use sys::time::Instant;

use runtime::tick::Look;

/// With more children than this nothing is watched: the system grants a user 128 queues of news for all processes.
const CHILDREN_MAX: usize = 64;
/// At this many watched directories, all are forgotten: the system grants a user some thousands.
const WATCHES_MAX: usize = 2048;
/// More symbolic links than this lead nowhere (as for the kernel).
const LINKS_MAX: usize = 40;

/// The directories that this child watches.
#[derive(Default)]
pub(crate) struct WatchedDirectories {
    enabled: AtomicBool,
    /// Grows with each change.
    generation: AtomicU64,
    /// When the kernel was last asked for news.
    look: Look,
    /// How often the kernel was asked for news.
    questions: AtomicU64,
    watcher: Mutex<Option<Watcher>>,
}

/// The queue of news, and the names that matter in them.
struct Watcher {
    inotify: Inotify,
    /// Names on the ways, and of access files, in lower case: a file system may ignore case.
    names: HashSet<Vec<u8>>,
    /// One of the names is not ASCII: then only the file system knows which names are the same.
    any_name: bool,
    /// Room for a name in lower case: other programs may change many entries of a directory.
    lower: Vec<u8>,
}

/// Whether the directories on a way are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Not tried yet.
    #[default]
    Untried,
    /// The directories could not be watched, at this generation.
    Failed(u64),
    /// Watched since this generation.
    Since(u64),
}

/// The findings on the way to a directory, and how long they hold.
#[derive(Debug, Default)]
pub(crate) struct WatchedPath {
    /// Whether its directories are watched.
    pub(crate) watch: Watch,
    /// The settings hold for the current request only.
    pub(crate) passing: bool,
    /// The access files that are there.
    files: Vec<(CString, Meta)>,
    look: Look,
}

impl WatchedPath {
    /// A way that is about to be examined.
    pub(crate) fn new(watch: Watch) -> WatchedPath {
        WatchedPath { watch, ..WatchedPath::default() }
    }

    /// Whether its directories are watched.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.watch, Watch::Since(_))
    }

    /// Adds an existing access file.
    pub(crate) fn found(&mut self, path: CString, meta: Meta) {
        self.files.push((path, meta));
    }

    /// How many bytes the access files on the way have.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|(_, meta)| meta.size).sum()
    }

    /// From now on requests of this tick may share the findings for one that came at `start`.
    pub(crate) fn looked(&self, start: Instant) {
        self.look.renew(start);
    }

    /// Whether a request that came at `start`, announced by `tick`, would find the same.
    pub(crate) fn holds(&self, watched: &WatchedDirectories, tick: Option<NonZeroU64>, start: Instant) -> bool {
        if self.look.holds(tick, start) {
            return true;
        }
        let Watch::Since(generation) = self.watch else { return false };
        let is_there = |(path, meta): &(CString, Meta)| sys::file::stat(path).is_ok_and(|now| now == *meta);
        let holds = watched.generation(tick, start) == generation && self.files.iter().all(is_there);
        if holds {
            self.looked(start);
        }
        holds
    }
}

impl WatchedDirectories {
    /// A new child begins, one of `children`.
    pub(crate) fn child_started(&self, children: usize) {
        self.enabled.store(children <= CHILDREN_MAX, Ordering::Relaxed);
    }

    /// Watches the way to a directory and the access files in it, unless `before` shows that this was done or tried in
    /// vain. Findings after this call hold until there is another generation.
    pub(crate) fn watch(&self, dir: &str, access_files: &[String], before: Watch) -> Watch {
        let generation = self.generation.load(Ordering::Relaxed);
        if !self.enabled.load(Ordering::Relaxed)
            || [Watch::Failed(generation), Watch::Since(generation)].contains(&before)
        {
            return before;
        }
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.as_ref().is_some_and(Watcher::is_full) {
            *watcher = None;
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        let mut follow = || {
            if watcher.is_none() {
                *watcher = Some(Watcher::new()?);
            }
            watcher.as_mut().map_or(Ok(()), |watcher| watcher.follow(dir, access_files))
        };
        let followed = follow();
        let generation = self.generation.load(Ordering::Relaxed);
        if followed.is_ok() { Watch::Since(generation) } else { Watch::Failed(generation) }
    }

    /// The generation of this moment, or of a moment after the request was sent.
    fn generation(&self, tick: Option<NonZeroU64>, start: Instant) -> u64 {
        if !self.look.holds(tick, start) {
            self.take_news();
            self.look.renew(start);
        }
        self.generation.load(Ordering::Acquire)
    }

    /// Asks the kernel for news. Holds the lock until they are taken: others must not find none while the generation is
    /// still the old one.
    fn take_news(&self) {
        let before = self.questions.load(Ordering::Acquire);
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if self.questions.load(Ordering::Acquire) > before {
            // While we waited for the lock, another thread has asked after our arrival.
            return;
        }
        self.questions.fetch_add(1, Ordering::AcqRel);
        match watcher.as_mut().map(Watcher::has_news) {
            None | Some(Ok(false)) => return,
            Some(Ok(true)) => {}
            Some(Err(_)) => *watcher = None,
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl Watcher {
    fn new() -> io::Result<Watcher> {
        Ok(Watcher { inotify: Inotify::new()?, names: HashSet::new(), any_name: false, lower: Vec::new() })
    }

    fn is_full(&self) -> bool {
        self.inotify.watches() >= WATCHES_MAX || self.names.len() >= WATCHES_MAX
    }

    /// Whether anything relevant has changed.
    fn has_news(&mut self) -> io::Result<bool> {
        let Watcher { inotify, names, any_name, lower } = self;
        let News { changes, mounts } = inotify.news()?;
        let mut matters = mounts;
        if changes {
            inotify.take(|change| {
                matters |= match change {
                    Change::Any => true,
                    Change::Entry(name) => {
                        lower.clear();
                        lower.extend(name.iter().map(u8::to_ascii_lowercase));
                        *any_name || !name.is_ascii() || names.contains(lower.as_slice())
                    }
                };
            })?;
        }
        Ok(matters)
    }

    /// Watches each directory on the way to `dir`, and only then looks up the next part in it.
    fn follow(&mut self, dir: &str, access_files: &[String]) -> io::Result<()> {
        if !dir.starts_with('/') || access_files.iter().any(|name| name.contains('/')) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        access_files.iter().for_each(|name| self.care_for(&to_bytes(name)));
        let mut links = 0;
        // The place so far, without links and without a slash at the end; and the rest of the way, its next part last.
        let (mut at, mut rest) = (Vec::new(), parts(&to_bytes(dir)));
        self.inotify.add(c"/")?;
        while let Some(part) = rest.pop() {
            if part == b".." {
                at.truncate(at.iter().rposition(|byte| *byte == b'/').unwrap_or_default());
                continue;
            }
            self.care_for(&part);
            let here = at.len();
            at.push(b'/');
            at.extend(part);
            let path = CString::new(at.clone())?;
            if !sys::file::lstat(&path)?.is_symlink() {
                self.inotify.add(&path)?;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let target = sys::file::read_link(&path)?.into_bytes();
            at.truncate(if target.starts_with(b"/") { 0 } else { here });
            rest.extend(parts(&target));
        }
        Ok(())
    }

    fn care_for(&mut self, name: &[u8]) {
        self.any_name |= !name.is_ascii();
        self.names.insert(name.to_ascii_lowercase());
    }
}

/// The parts of a path, the first one last.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.rev().map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_names_are_forgotten_all_at_once() {
        let watched = WatchedDirectories::default();
        let names = |count: usize| (0..count).map(|number| format!("name{number}")).collect::<Vec<_>>();
        assert_eq!(watched.watch("/", &names(1), Watch::Untried), Watch::Untried, "no child has started");
        watched.child_started(CHILDREN_MAX + 1);
        assert_eq!(watched.watch("/", &names(1), Watch::Untried), Watch::Untried, "there are too many children");
        watched.child_started(CHILDREN_MAX);
        assert_eq!(watched.watch("/", &names(WATCHES_MAX), Watch::Untried), Watch::Since(0));
        assert_eq!(watched.watch("/", &names(1), Watch::Untried), Watch::Since(1), "what was found before is void");
        assert_eq!(watched.watch("/", &names(2), Watch::Untried), Watch::Since(1), "there is room again");
    }
}
