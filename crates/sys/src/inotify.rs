//! Watched directories (inotify(7)): the kernel reports entries that were made, removed or renamed in them, and mounts.
//!
//! It reports before the changing call returns, so a later look never misses a change.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// File systems that report every change: local ones that only this kernel writes to. Overlays do not, as one of their
/// directories may be in memory twice.
const GIVE_NOTICE: [u32; 5] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // F2FS
];
/// The events worth a notice: entries of a directory that come or go, and changes of the permissions of the directory
/// or an entry.
const NOTICES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);
/// The most notices taken at once: a process that never stops writing must not hold us up.
const AT_ONCE: usize = 1024;

/// The watched directories, and the table of mounts.
#[derive(Debug)]
pub struct Inotify {
    notices: OwnedFd,
    mounts: File,
    /// The kernel's last number for a watch; a new watch gets a higher one.
    last: i32,
    watches: usize,
}

/// Whether there is anything new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Changes are waiting to be [taken](Inotify::take).
    pub changes: bool,
    /// Something was mounted or unmounted since the last call.
    pub mounts: bool,
}

/// What has changed in the watched directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// An entry of this name in one of the directories.
    Entry(&'a [u8]),
    /// Anything: one of the directories itself, or events that were dropped.
    Any,
}

impl Inotify {
    /// Makes an instance without watches. Fails if the user has too many of them (`fs.inotify.max_user_instances`), and
    /// without `/proc`.
    pub fn new() -> io::Result<Inotify> {
        let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Inotify { notices, mounts: File::open("/proc/self/mountinfo")?, last: 0, watches: 0 })
    }

    /// Watches a directory, unless it is watched already. Fails if the file system gives no notice, if this process may
    /// not read the directory, or if there are too many watches (`fs.inotify.max_user_watches`).
    pub fn add(&mut self, directory: &CStr) -> io::Result<()> {
        let kind = rustix::fs::statfs(directory)?.f_type;
        if !GIVE_NOTICE.contains(&(kind as u32)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let watch = inotify::add_watch(&self.notices, directory, NOTICES)?;
        if watch > self.last {
            self.last = watch;
            self.watches += 1;
        }
        Ok(())
    }

    /// How many directories are watched.
    pub fn watches(&self) -> usize {
        self.watches
    }

    /// Asks for news: one system call.
    pub fn news(&mut self) -> io::Result<News> {
        let mut asked = [PollFd::new(&self.notices, PollFlags::IN), PollFd::new(&self.mounts, PollFlags::PRI)];
        loop {
            match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        let [changes, mounts] = asked.map(|fd| !fd.revents().is_empty());
        Ok(News { changes, mounts })
    }

    /// Takes the waiting changes.
    pub fn take(&mut self, mut each: impl FnMut(Change<'_>)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.notices, &mut buffer);
        for _ in 0..AT_ONCE {
            match reader.next() {
                Ok(event) => {
                    if event.events().contains(ReadFlags::IGNORED) {
                        self.watches = self.watches.saturating_sub(1);
                    }
                    each(event.file_name().map_or(Change::Any, |name| Change::Entry(name.to_bytes())));
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The rest of the buffer is lost, and the rest in the kernel comes next time.
        each(Change::Any);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use super::*;

    /// A directory in memory, which ends with the test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = PathBuf::from(format!("/dev/shm/tsubame-inotify-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("directory");
            Directory(path)
        }

        fn name(&self) -> CString {
            CString::new(self.0.as_os_str().as_bytes()).expect("no NUL")
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The changes: the names of entries, and a star for anything else.
    fn taken(inotify: &mut Inotify) -> Vec<String> {
        let mut taken = Vec::new();
        let each = |change: Change<'_>| {
            taken.push(match change {
                Change::Entry(name) => String::from_utf8_lossy(name).into_owned(),
                Change::Any => "*".into(),
            });
        };
        inotify.take(each).expect("changes");
        taken
    }

    #[test]
    fn changes_are_reported() {
        let directory = Directory::new("changes");
        let mut inotify = Inotify::new().expect("inotify");
        assert_eq!(inotify.news().ok(), Some(News::default()));
        inotify.add(&directory.name()).expect("watch");
        inotify.add(&directory.name()).expect("watch again");
        assert_eq!(inotify.watches(), 1);

        let (first, second) = (directory.0.join("first"), directory.0.join("second"));
        fs::write(&first, "").expect("write");
        assert_eq!(inotify.news().ok(), Some(News { changes: true, mounts: false }));
        assert_eq!(inotify.news().ok(), Some(News { changes: true, mounts: false }), "until they are taken");
        fs::rename(&first, &second).expect("rename");
        assert_eq!(taken(&mut inotify), ["first", "first", "second"]);
        fs::write(&second, "what is in a file is its own affair").expect("write");
        assert_eq!(inotify.news().ok(), Some(News::default()));

        fs::remove_dir_all(&directory.0).expect("remove");
        assert_eq!(taken(&mut inotify).last().map(String::as_str), Some("*"));
        assert_eq!(inotify.watches(), 0);
    }

    #[test]
    fn too_many_changes_are_any_change() {
        let directory = Directory::new("many");
        let mut inotify = Inotify::new().expect("inotify");
        inotify.add(&directory.name()).expect("watch");
        for number in 0..=AT_ONCE {
            fs::write(directory.0.join(number.to_string()), "").expect("write");
        }
        let first = taken(&mut inotify);
        assert_eq!((first.len(), first.last().map(String::as_str)), (AT_ONCE + 1, Some("*")));
    }

    #[test]
    fn not_every_directory_can_be_watched() {
        let mut inotify = Inotify::new().expect("inotify");
        assert_eq!(inotify.add(c"/proc").expect_err("no notice").kind(), io::ErrorKind::Unsupported);
        assert_eq!(inotify.add(c"/nowhere").expect_err("not there").kind(), io::ErrorKind::NotFound);
        assert_eq!(inotify.watches(), 0);
    }
}
