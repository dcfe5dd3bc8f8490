//! Users and groups: looking them up, and becoming one of them for good.

use std::ffi::{CStr, CString};
use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::last_os_error;

/// An entry of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The number of the primary group.
    pub gid: u32,
    /// The name.
    pub name: String,
    /// The home directory.
    pub home: String,
}

/// The longest entry that we read from the databases, in bytes; a group with very many members may be long.
const ENTRY_MAX: usize = 1 << 20;

/// Calls one of the `get…_r` functions with a buffer that grows until the entry fits. `None`: no such entry.
fn look_up<R, T>(
    mut call: impl FnMut(&mut R, *mut libc::c_char, usize, &mut *mut R) -> i32,
    take: impl Fn(&R) -> T,
) -> io::Result<Option<T>> {
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: `passwd` and `group` are plain data of pointers and numbers for which zero is valid.
        let mut row: R = unsafe { std::mem::zeroed() };
        let mut found: *mut R = std::ptr::null_mut();
        match call(&mut row, buffer.as_mut_ptr(), buffer.len(), &mut found) {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some(take(&row))),
            libc::ERANGE if buffer.len() < ENTRY_MAX => buffer.resize(buffer.len() * 4, 0),
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn user_of(row: &libc::passwd) -> User {
    // SAFETY: getpwnam_r and getpwuid_r filled the row with pointers to terminated texts in the buffer, which still lives.
    let text = |pointer: *const libc::c_char| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned();
    User { uid: row.pw_uid, gid: row.pw_gid, name: text(row.pw_name), home: text(row.pw_dir) }
}

/// Looks up a user by name, or by a number written `#1000`. A number without an entry has the same number as its group.
pub fn user(name: &str) -> io::Result<Option<User>> {
    if let Some(number) = name.strip_prefix('#') {
        let Ok(uid) = number.parse() else { return Ok(None) };
        let unnamed = User { uid, gid: uid, name: String::new(), home: "/".to_string() };
        return Ok(Some(user_by_id(uid)?.unwrap_or(unnamed)));
    }
    let Ok(name) = CString::new(name) else { return Ok(None) };
    look_up(
        // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
        |row, buffer, len, found| unsafe { libc::getpwnam_r(name.as_ptr(), row, buffer, len, found) },
        user_of,
    )
}

/// Looks up a user by number.
pub fn user_by_id(uid: u32) -> io::Result<Option<User>> {
    look_up(
        // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
        |row, buffer, len, found| unsafe { libc::getpwuid_r(uid, row, buffer, len, found) },
        user_of,
    )
}

/// The number of a group, by its name or written `#1000`.
pub fn group(name: &str) -> io::Result<Option<u32>> {
    if let Some(number) = name.strip_prefix('#') {
        return Ok(number.parse().ok());
    }
    let Ok(name) = CString::new(name) else { return Ok(None) };
    look_up(
        // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
        |row, buffer, len, found| unsafe { libc::getgrnam_r(name.as_ptr(), row, buffer, len, found) },
        |row: &libc::group| row.gr_gid,
    )
}

/// The name of a group by its number.
pub fn group_by_id(gid: u32) -> io::Result<Option<String>> {
    look_up(
        // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
        |row, buffer, len, found| unsafe { libc::getgrgid_r(gid, row, buffer, len, found) },
        // SAFETY: getgrgid_r filled the row with pointers to terminated texts in the buffer, which still lives.
        |row: &libc::group| unsafe { CStr::from_ptr(row.gr_name) }.to_string_lossy().into_owned(),
    )
}

/// The user and groups that a child changes to. Made in the parent, so that a child needs no database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The number of the user.
    pub uid: u32,
    /// The number of the primary group.
    pub gid: u32,
    /// All groups, the primary one among them.
    pub groups: Vec<u32>,
}

impl Identity {
    /// A user with a primary group, and the supplementary groups from the database.
    pub fn new(user: &User, gid: u32) -> Identity {
        Identity { uid: user.uid, gid, groups: groups_of(&user.name, gid) }
    }

    /// Changes to this user for good. Only root may; the process must have one thread (the call covers all threads of
    /// the C library, but their behaviour meanwhile is undefined).
    pub fn assume(&self) -> io::Result<()> {
        // SAFETY: the pointer and the length describe the vector; the calls touch nothing else of ours.
        let failed = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) != 0
                || libc::setgid(self.gid) != 0
                || libc::setuid(self.uid) != 0
        };
        if failed { last_os_error() } else { Ok(()) }
    }

    /// Has this user do something, in a thread of its own. Only root may. `Err`: the user cannot be assumed.
    ///
    /// The kernel knows a user for each thread, and this thread is unknown to the C library, which keeps them all the same.
    pub fn act<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let assume_and_act = || {
            set_thread_groups(&groups)?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
            Ok(act())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, assume_and_act)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn groups_of(name: &str, gid: u32) -> Vec<u32> {
    let Ok(name) = CString::new(name) else { return vec![gid] };
    if name.is_empty() {
        return vec![gid];
    }
    let mut groups = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
        // SAFETY: `count` is the number of elements of the buffer; the call writes no more than that.
        let fits = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) } >= 0;
        groups.resize(usize::try_from(count).unwrap_or(0), 0);
        if fits {
            return groups;
        }
    }
}

/// Whether this process may change to another user.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The number of the user this process runs as.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The number of the group this process runs as.
pub fn gid() -> u32 {
    rustix::process::getegid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_user_acts_in_a_thread() {
        if !is_root() {
            return;
        }
        let nobody = Identity { uid: 65534, gid: 65534, groups: vec![65534] };
        let file = std::env::temp_dir().join(format!("cred-{}", std::process::id()));
        std::fs::write(&file, "x").expect("a file");
        for (mode, expected) in [(0o600, false), (0o604, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
            let done = nobody.act(|| (uid(), gid(), std::fs::read(&file).is_ok())).expect("root may");
            assert_eq!(done, (65534, 65534, expected), "{mode:o}");
        }
        assert_eq!(uid(), 0);
        std::fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn names_and_numbers() {
        let root = user("root").expect("lookup").expect("root is there");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(user("#0").expect("lookup").map(|user| user.name), Some("root".to_string()));
        assert_eq!(user("no such user").expect("lookup"), None);
        assert_eq!(user("#x").expect("lookup"), None);
        assert_eq!(user("#3999999999").expect("lookup").map(|user| user.uid), Some(3_999_999_999));
        assert_eq!((group("root").expect("lookup"), group("#7").expect("lookup")), (Some(0), Some(7)));
        assert_eq!(group("no such group").expect("lookup"), None);
        assert!(Identity::new(&root, 0).groups.contains(&0));
    }
}
