//! Locks on resources, in a file that all children share.
//!
//! A lock belongs to a path, and a deep one also to everything that exists below it. A path with a lock and nothing
//! else is what RFC 2518 calls a lock-null resource. Expired locks are ignored, and dropped when the file is next
//! written.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use server::paths::os_path;

use super::if_header::{SCHEME, bare};
use super::store;
use super::xml::escape;

/// A client's lock on a resource, or on a collection with everything below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    /// The part of its token after [`SCHEME`].
    pub(super) uuid: String,
    /// The file, without a slash at its end.
    pub(super) path: String,
    /// Whether it also covers everything below.
    pub(super) deep: bool,
    pub(super) exclusive: bool,
    /// When it ends, in seconds since 1970; 0 is never.
    pub(super) expires: u64,
    /// The element `owner` as the client sent it; may be empty.
    pub(super) owner: String,
    /// Its user, if authentication was required.
    pub(super) user: String,
}

impl Lock {
    /// The token by which clients name the lock.
    pub(super) fn token(&self) -> String {
        format!("{SCHEME}{}", self.uuid)
    }

    /// Whether it covers an existing resource, or a path as such.
    fn holds_for(&self, path: &str, is_there: bool) -> bool {
        self.path == path || (self.deep && is_there && is_below(path, &self.path))
    }

    /// The element `activelock`, which describes the lock to clients.
    pub(super) fn describe(&self, now: u64) -> String {
        let scope = if self.exclusive { "exclusive" } else { "shared" };
        let depth = if self.deep { "infinity" } else { "0" };
        let timeout = match self.expires {
            0 => "Infinite".to_string(),
            expires => format!("Second-{}", expires.saturating_sub(now)),
        };
        let owner = &self.owner;
        let token = escape(&self.token());
        format!(
            "<D:activelock>\n<D:locktype><D:write/></D:locktype>\n<D:lockscope><D:{scope}/></D:lockscope>\n\
             <D:depth>{depth}</D:depth>\n{owner}<D:timeout>{timeout}</D:timeout>\n<D:locktoken>\n<D:href>{token}</D:href>\n\
             </D:locktoken>\n</D:activelock>\n"
        )
    }

    fn row(&self) -> store::Row {
        let flag = |flag: bool| if flag { "1" } else { "0" }.to_string();
        vec![
            self.uuid.clone(),
            self.path.clone(),
            flag(self.deep),
            flag(self.exclusive),
            self.expires.to_string(),
            self.owner.clone(),
            self.user.clone(),
        ]
    }

    fn of(row: store::Row) -> Option<Lock> {
        let [uuid, path, deep, exclusive, expires, owner, user] = <[String; 7]>::try_from(row).ok()?;
        let expires = expires.parse().ok()?;
        Some(Lock { uuid, path, deep: deep == "1", exclusive: exclusive == "1", expires, owner, user })
    }
}

/// Whether a path is in a directory, at any depth.
pub(super) fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(bare(dir)).is_some_and(|rest| rest.starts_with('/') || (dir == "/" && !rest.is_empty()))
}

/// The locks of a resource, the nearest first.
pub(super) fn of<'a>(locks: &'a [Lock], path: &str, is_there: bool) -> Vec<&'a Lock> {
    let mut found: Vec<&Lock> = locks.iter().filter(|lock| lock.holds_for(path, is_there)).collect();
    found.sort_by_key(|lock| std::cmp::Reverse(lock.path.len()));
    found
}

/// The file of locks. Clones are the same file.
#[derive(Clone, Debug)]
pub(super) struct Database(PathBuf);

/// While it exists, nobody changes the locks (shared), or nobody else reads them (exclusive).
pub(super) struct Held(#[allow(dead_code, reason = "its descriptor is the lock")] File);

impl Database {
    /// At the path from `DAVLockDB`. Apache's own file of that name stays unchanged.
    pub(super) fn new(path: &str) -> Database {
        Database(os_path(&format!("{path}.locks")))
    }

    /// Whether the file is this one, or in this directory.
    pub(super) fn is_at_or_below(&self, path: &str) -> bool {
        self.0.starts_with(os_path(path))
    }

    /// Waits until no other process holds a conflicting lock.
    pub(super) fn hold(&self, exclusive: bool) -> io::Result<Held> {
        let mut path = self.0.clone().into_os_string();
        path.push(".mutex");
        let file = fs::OpenOptions::new().create(true).append(true).open(path)?;
        sys::file::lock(&file, exclusive)?;
        Ok(Held(file))
    }

    /// All locks that have not expired.
    pub(super) fn read(&self) -> io::Result<Vec<Lock>> {
        let rows = store::read(&self.0)?;
        let locks: Option<Vec<Lock>> = rows.into_iter().map(Lock::of).collect();
        let mut locks = locks.ok_or_else(|| io::Error::other("it is damaged"))?;
        let now = now();
        locks.retain(|lock| lock.expires == 0 || lock.expires > now);
        Ok(locks)
    }

    /// Changes the locks. A holder of a shared lock must not call it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<Lock>) -> T) -> io::Result<T> {
        let _held = self.hold(true)?;
        let mut locks = self.read()?;
        let before = locks.clone();
        let result = change(&mut locks);
        if locks != before {
            self.write(&locks)?;
        }
        Ok(result)
    }

    /// Writes all locks; the caller must hold them exclusively.
    pub(super) fn write(&self, locks: &[Lock]) -> io::Result<()> {
        let rows: Vec<store::Row> = locks.iter().map(Lock::row).collect();
        store::write(&self.0, &rows)
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    sys::time::realtime_coarse().as_secs()
}

/// A new UUID from random numbers (RFC 9562, version 4).
pub(super) fn uuid() -> String {
    let mut bytes: [u8; 16] = sys::random::bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &str, deep: bool) -> Lock {
        let (uuid, path) = (uuid(), path.to_string());
        Lock { uuid, path, deep, exclusive: true, expires: 0, owner: String::new(), user: String::new() }
    }

    #[test]
    fn deep_locks_hold_below_for_what_is_there() {
        let locks = [lock("/a", true), lock("/a/b", false), lock("/a/null", false)];
        let paths = |path: &str, is_there| -> Vec<&str> {
            of(&locks, path, is_there).into_iter().map(|lock| lock.path.as_str()).collect()
        };
        assert_eq!(paths("/a", true), ["/a"]);
        assert_eq!(paths("/a/b", true), ["/a/b", "/a"]);
        assert_eq!(paths("/a/b/c", true), ["/a"]);
        assert_eq!(paths("/ab", true), [""; 0]);
        assert_eq!(paths("/a/null", false), ["/a/null"]);
        assert_eq!(paths("/a/new", false), [""; 0]);
    }

    #[test]
    fn locks_are_kept_until_they_expire() {
        let dir = std::env::temp_dir().join(uuid());
        fs::create_dir(&dir).expect("a directory");
        let database = Database(dir.join("locks"));
        let mut late = lock("/late", false);
        late.expires = 1;
        let kept = lock("/a", true);
        database.change(|locks| locks.extend([kept.clone(), late])).expect("written");
        assert_eq!(database.read().expect("read"), [kept]);
        fs::write(dir.join("locks"), "garbage").expect("written");
        assert!(database.read().is_err(), "what is damaged frees nothing");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
