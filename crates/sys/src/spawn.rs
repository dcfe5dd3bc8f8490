//! Starting programs without copying this process: `posix_spawn`, whose child shares our memory until its exec.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::process::Pid;

/// A program to start. It inherits nothing but what is said here: no descriptor but those, no environment but `env`, no
/// blocked or ignored signals.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The file; not searched for in `PATH`.
    pub program: &'a CStr,
    /// The arguments, the name of the program first.
    pub argv: &'a [&'a CStr],
    /// `NAME=value`.
    pub env: &'a [&'a CStr],
    /// The working directory; ours if not given. A relative `program` is looked for there.
    pub directory: Option<&'a CStr>,
    /// Standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Descriptors that it gets as 3, 4 and so on.
    pub more: &'a [BorrowedFd<'a>],
    /// Whether it leads a process group of its own, so that it can be ended with all its children.
    pub own_group: bool,
}

impl Spawn<'_> {
    /// Starts the program. An error is that of the exec (or of entering the directory); then nothing runs.
    pub fn start(&self) -> io::Result<Pid> {
        let mut attributes = Attributes::new()?;
        attributes.reset_signals(self.own_group)?;
        let mut actions = Actions::new()?;
        if let Some(directory) = self.directory {
            actions.chdir(directory)?;
        }
        let end = 3 + i32::try_from(self.more.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A source among the targets could be overwritten before its turn comes; it moves out of the way.
        let mut moved: Vec<OwnedFd> = Vec::new();
        for (target, fd) in (0i32..).zip(self.stdio.iter().chain(self.more)) {
            let mut source = fd.as_raw_fd();
            if source < end && source != target {
                let copy = rustix::io::fcntl_dupfd_cloexec(fd, end)?;
                source = copy.as_raw_fd();
                moved.push(copy);
            }
            actions.dup(source, target)?;
        }
        actions.close_from(end)?;
        let argv = pointers(self.argv);
        let env = pointers(self.env);
        let mut pid = 0;
        // SAFETY: attributes and actions are initialised; the program is a terminated text and both vectors are arrays of
        // such texts that end with a null pointer; all of it outlives the call, and posix_spawn changes none of it.
        let error = unsafe {
            libc::posix_spawn(
                &mut pid,
                self.program.as_ptr(),
                &actions.0,
                &attributes.0,
                argv.as_ptr().cast(),
                env.as_ptr().cast(),
            )
        };
        check(error)?;
        Pid::new(pid).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn pointers(texts: &[&CStr]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

fn check(error: i32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Attributes> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the call initialises what it is given, or fails.
        check(unsafe { libc::posix_spawnattr_init(raw.as_mut_ptr()) })?;
        // SAFETY: initialised just now.
        Ok(Attributes(unsafe { raw.assume_init() }))
    }

    fn reset_signals(&mut self, own_group: bool) -> io::Result<()> {
        let group = if own_group { libc::POSIX_SPAWN_SETPGROUP } else { 0 };
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF | group;
        // SAFETY: the attributes are initialised, and so are both sets before they are passed.
        unsafe {
            let (mut none, mut all) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut none);
            libc::sigfillset(&mut all);
            check(libc::posix_spawnattr_setsigmask(&mut self.0, &none))?;
            check(libc::posix_spawnattr_setsigdefault(&mut self.0, &all))?;
            check(libc::posix_spawnattr_setpgroup(&mut self.0, 0))?;
            check(libc::posix_spawnattr_setflags(&mut self.0, libc::c_short::try_from(flags).unwrap_or(0)))
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the call initialises what it is given, or fails.
        check(unsafe { libc::posix_spawn_file_actions_init(raw.as_mut_ptr()) })?;
        // SAFETY: initialised just now.
        Ok(Actions(unsafe { raw.assume_init() }))
    }

    fn chdir(&mut self, directory: &CStr) -> io::Result<()> {
        // SAFETY: the actions are initialised; the path is copied.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut self.0, directory.as_ptr()) })
    }

    /// With equal numbers it only ends close-on-exec.
    fn dup(&mut self, source: i32, target: i32) -> io::Result<()> {
        // SAFETY: the actions are initialised; the descriptors are numbers.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, source, target) })
    }

    fn close_from(&mut self, first: i32) -> io::Result<()> {
        // SAFETY: the actions are initialised; the descriptor is a number.
        check(unsafe { libc::posix_spawn_file_actions_addclosefrom_np(&mut self.0, first) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Status, reap};
    use crate::signal::{self, Signal};
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    /// Runs a program with its output in a pipe.
    fn run(program: &CStr, argv: &[&CStr], directory: Option<&CStr>) -> io::Result<(Status, String)> {
        let (mut reader, writer) = std::io::pipe()?;
        let null = File::open("/dev/null")?;
        let stdio = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let pid = Spawn { program, argv, env: &[c"A=1"], directory, stdio, more: &[], own_group: true }.start()?;
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        loop {
            if let Some(reaped) = reap(Some(pid))? {
                return Ok((reaped.status, text));
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_clean_environment() {
        let show = c"pwd; echo \"$A $HOME\"; ls /proc/self/fd | tr '\\n' ' '; grep SigBlk /proc/self/status; exit 3";
        signal::block(&[Signal::USR2]).expect("block");
        let (status, text) = run(c"/bin/sh", &[c"sh", c"-c", show], Some(c"/usr")).expect("sh runs");
        assert_eq!(status, Status::Exited(3));
        let mut lines = text.lines();
        assert_eq!((lines.next(), lines.next()), (Some("/usr"), Some("1 ")));
        // 3 is the directory that ls itself reads.
        assert_eq!(lines.next(), Some("0 1 2 3 SigBlk:\t0000000000000000"));
    }

    #[test]
    fn more_descriptors_have_the_next_numbers() {
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let (mut numbered, null) = (Vec::new(), File::open("/dev/null").expect("null"));
        for text in ["one", "two", "three"] {
            let (end, mut begin) = std::io::pipe().expect("pipe");
            std::io::Write::write_all(&mut begin, text.as_bytes()).expect("write");
            numbered.push(end);
        }
        // Whatever numbers they have here, those that they get are taken by others of them.
        let more: Vec<BorrowedFd<'_>> = numbered.iter().rev().map(AsFd::as_fd).collect();
        let argv = [c"sh", c"-c", c"cat <&3; cat <&4; cat <&5; ls /proc/self/fd | wc -l"];
        let stdio = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let env = [c"PATH=/bin:/usr/bin"];
        let spawn = Spawn {
            program: c"/bin/sh",
            argv: &argv,
            env: &env,
            directory: None,
            stdio,
            more: &more,
            own_group: false,
        };
        spawn.start().expect("sh runs");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["threetwoone7"]);
    }

    #[test]
    fn the_error_of_the_exec_comes_back() {
        let error = |program, directory| run(program, &[c"x"], directory).expect_err("cannot run").raw_os_error();
        assert_eq!(error(c"/no/such/program", None), Some(libc::ENOENT));
        assert_eq!(error(c"/etc/passwd", None), Some(libc::EACCES));
        assert_eq!(error(c"/bin/sh", Some(c"/no/such/directory")), Some(libc::ENOENT));
    }

    #[test]
    fn death_by_signal_is_told() {
        let (status, _) = run(c"/bin/sh", &[c"sh", c"-c", c"kill -9 $$"], None).expect("sh runs");
        assert_eq!(status, Status::Signaled { signal: Signal::KILL, core: false });
    }
}
