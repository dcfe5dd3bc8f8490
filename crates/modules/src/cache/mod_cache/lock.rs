//! `CacheLock`: only one request at a time asks the origin for a response that is not fresh, in all processes.
//!
//! Among the requests of a child that is a [queue](super::queue). Among children it is an empty file, at the same place as
//! Apache's: a request that finds one looks now and then whether it is still there, and those behind it wait for that request.
//! Once the body of the response is on its way, the file is no longer empty.
//! Both are hints: whatever goes wrong with them, the request goes on. Where a response says that it may be used while it is
//! confirmed (`stale-while-revalidate`), there are both without `CacheLock`, too.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use conf::Level;
use runtime::executor::sleep_until;
use runtime::{Load, offload, release_worker};
use server::Request;
use server::paths::os_path;
use sys::time::Instant;

use super::queue::{BODY_MAX, Behind, End, Place, Turn, enter};
use super::settings::CacheServer;
use crate::cache::hashed::hashed;

/// The directory of locks among the temporary files, unless `CacheLockPath` names another one.
const PATH: &str = "mod_cache-lock";
/// How soon to look at another child's lock: first, and at most.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_LAST: Duration = Duration::from_millis(160);

/// A lock that this request holds, until it is dropped: the file goes before others take their turns.
pub(super) struct Lock {
    file: Option<LockFile>,
    turn: Turn,
}

struct LockFile {
    path: PathBuf,
    /// The file that was made: by now its path may lead elsewhere, if others may write to the directory.
    file: Arc<File>,
}

/// The state of a lock.
pub(super) enum Locked {
    /// This request has it; `None`: there are no locks, or none is of use.
    Here(Option<Lock>),
    /// Another request of this child has it.
    Behind(Behind),
    /// Another child has it.
    Elsewhere(Elsewhere),
}

/// A request whose response another child asks for.
pub(super) struct Elsewhere {
    turn: Turn,
    path: PathBuf,
}

/// How long a lock holds.
pub(super) fn max_age(request: &Request) -> Duration {
    Duration::from_secs(request.host::<CacheServer>().lock_max_age().unsigned_abs())
}

/// Takes the lock of a key. `has_grace`: a stored response may be used meanwhile, even without `CacheLock`.
pub(super) async fn take(request: &Request, key: &str, has_grace: bool) -> Locked {
    let conf = request.host::<CacheServer>();
    if !conf.lock() && !has_grace {
        return Locked::Here(None);
    }
    match enter(key, max_age(request)) {
        Place::Behind(behind) => Locked::Behind(behind),
        Place::NoQueue => Locked::Here(None),
        Place::First(turn) => take_among_children(request, key, turn).await,
    }
}

/// The same for the first request of this child.
async fn take_among_children(request: &Request, key: &str, turn: Turn) -> Locked {
    let conf = request.host::<CacheServer>();
    let root =
        conf.lock_path.get().cloned().unwrap_or_else(|| std::env::temp_dir().join(PATH).to_string_lossy().into());
    let name = hashed(&http::text::to_bytes(key), 0, 0);
    let path = os_path(&root).join(&name[..1]).join(&name[1..2]).join(&name);
    let (file, max_age) = (path.clone(), max_age(request));
    let file = match offload(Load::Wait, move || take_file(&file, max_age)).await {
        Ok(None) => return Locked::Elsewhere(Elsewhere { turn, path }),
        Ok(file) => file,
        Err(error) => {
            request.log_os("cache", Level::Error, &error, format!("Could not create a cache lock in {root}"));
            None
        }
    };
    Locked::Here(Some(Lock { file, turn }))
}

impl Elsewhere {
    /// Waits until the other child's lock is gone, until `deadline` at most. `false`: the response has begun, but takes too long.
    pub(super) async fn gone(&mut self, deadline: Instant) -> bool {
        let mut pause = LOOK_FIRST;
        loop {
            let next = (Instant::now() + pause).min(deadline);
            release_worker(sleep_until(next)).await;
            let path = self.path.clone();
            match offload(Load::Wait, move || is_late(&path)).await {
                Some(true) => {
                    self.turn.settle(End::Alone);
                    return false;
                }
                Some(false) if next < deadline => {}
                _ => return true,
            }
            pause = (pause * 2).min(LOOK_LAST);
        }
    }

    /// The response is stored: those behind this request find it, too.
    pub(super) fn found(mut self) {
        self.turn.settle(End::Stored);
    }

    /// Takes the lock, if nobody else has it now.
    pub(super) async fn take(self, request: &Request, key: &str) -> Locked {
        take_among_children(request, key, self.turn).await
    }
}

impl Lock {
    /// The file that keeps other children from asking, if there is one.
    pub(super) fn file(&self) -> Option<Arc<File>> {
        self.file.as_ref().map(|file| file.file.clone())
    }

    /// The body of the response begins, and is stored while it goes out.
    pub(super) async fn begin_body(&self) {
        self.turn.begin_body();
        if let Some(LockFile { file, .. }) = &self.file {
            let file = file.clone();
            let _ = offload(Load::Wait, move || say_begun(&file)).await;
        }
    }

    /// Says what has become of the response.
    pub(super) fn settle(mut self, end: End) {
        self.turn.settle(end);
    }
}

/// Tells other children that the body of the response is on its way: the file is no longer empty.
fn say_begun(mut file: &File) -> io::Result<()> {
    file.write_all(b"+")
}

/// Whether the body of the response that this lock is for began long ago. `None`: there is no lock.
fn is_late(path: &Path) -> Option<bool> {
    let meta = fs::metadata(path).ok()?;
    Some(meta.len() > 0 && age(&meta).is_none_or(|age| age > BODY_MAX))
}

/// How old a file is. `None`: it was made in a future that a clock has left.
fn age(meta: &Metadata) -> Option<Duration> {
    let made = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    sys::time::realtime().checked_sub(made)
}

/// Makes the file of a lock. `None`: it is there, and not too old.
fn take_file(path: &Path, max_age: Duration) -> io::Result<Option<LockFile>> {
    DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(path))?;
    let make = || -> io::Result<LockFile> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(LockFile { path: path.to_path_buf(), file: Arc::new(file) })
    };
    match make() {
        Ok(file) => return Ok(Some(file)),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    if fs::metadata(path).ok().and_then(|meta| age(&meta)).is_some_and(|age| age <= max_age) {
        return Ok(None);
    }
    let _ = fs::remove_file(path);
    // Another request may have been quicker.
    Ok(make().ok())
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // One that is left is too old soon.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_path_leads_elsewhere_leaves_that_alone() {
        let root = std::env::temp_dir().join(format!("tsubame-locks-{}", std::process::id()));
        let (path, other) = (root.join("a/b/lock"), root.join("other"));
        let lock = take_file(&path, Duration::from_secs(60)).expect("a directory").expect("nobody has it");
        fs::write(&other, "text").expect("write");
        fs::remove_file(&path).expect("remove");
        std::os::unix::fs::symlink(&other, &path).expect("link");
        say_begun(&lock.file).expect("write");
        drop(lock);
        let text = fs::read_to_string(&other).expect("read");
        fs::remove_dir_all(&root).expect("remove");
        assert_eq!(text, "text");
    }
}
