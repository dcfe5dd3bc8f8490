//! `CacheLock`: only one request at a time asks the origin for a response that is not fresh, in all processes.
//!
//! A lock is an empty file, at the same place as Apache's. It is a hint: whatever goes wrong with it, the request goes on.
//! Where a response says that it may be used while it is confirmed (`stale-while-revalidate`), there is one without `CacheLock`,
//! too.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use conf::Level;
use runtime::{Load, offload};
use server::Request;
use server::paths::os_path;

use super::settings::CacheServer;
use crate::cache::hashed::hashed;

/// The directory of locks in `DefaultRuntimeDir`, unless `CacheLockPath` names another one.
const PATH: &str = "mod_cache-lock";

/// A lock that this request holds, until it is dropped.
pub(super) struct Lock(PathBuf);

/// The state of a lock.
pub(super) enum Locked {
    /// This request has it; `None`: there are no locks, or they do not work.
    Here(Option<Lock>),
    /// Another one has it.
    Elsewhere,
}

/// Takes the lock of a key. `has_grace`: a stored response may be used meanwhile, even without `CacheLock`.
pub(super) async fn take(request: &Request, key: &str, has_grace: bool) -> Locked {
    let conf = request.host::<CacheServer>();
    if !conf.lock() && !has_grace {
        return Locked::Here(None);
    }
    let root =
        conf.lock_path.get().cloned().unwrap_or_else(|| std::env::temp_dir().join(PATH).to_string_lossy().into());
    let name = hashed(&http::text::to_bytes(key), 0, 0);
    let directory = os_path(&root).join(&name[..1]).join(&name[1..2]);
    let max_age = Duration::from_secs(conf.lock_max_age().unsigned_abs());
    match offload(Load::Wait, move || take_file(&directory, &name, max_age)).await {
        Ok(Some(lock)) => Locked::Here(Some(lock)),
        Ok(None) => Locked::Elsewhere,
        Err(error) => {
            request.log_os("cache", Level::Error, &error, format!("Could not create a cache lock in {root}"));
            Locked::Here(None)
        }
    }
}

/// Makes the file of a lock. `None`: it is there, and not too old.
fn take_file(directory: &Path, name: &str, max_age: Duration) -> io::Result<Option<Lock>> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join(name);
    let make = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match make() {
        Ok(_) => return Ok(Some(Lock(path))),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    let made = fs::metadata(&path).and_then(|meta| meta.modified());
    let made = made.ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    // It is too old, or was made in a future that a clock has left.
    let is_over = made.is_none_or(|made| sys::time::realtime().checked_sub(made).is_none_or(|age| age > max_age));
    if !is_over {
        return Ok(None);
    }
    let _ = fs::remove_file(&path);
    // Another request may have been quicker.
    Ok(make().ok().map(|_| Lock(path)))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // One that is left is too old soon.
        let _ = fs::remove_file(&self.0);
    }
}
