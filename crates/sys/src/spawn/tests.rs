//! Starts programs: their descriptors and environment, and how they end.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use super::*;
use crate::process::{Status, reap};
use crate::signal::{self, Signal};

/// Runs a program with its output in a pipe.
fn run(program: &CStr, argv: &[&CStr], directory: Option<&CStr>) -> io::Result<(Status, String)> {
    let (mut reader, writer) = std::io::pipe()?;
    let null = File::open("/dev/null")?;
    let stdio = [null.as_fd(), writer.as_fd(), null.as_fd()];
    let pid = Spawn {
        program,
        argv,
        env: &[c"A=1"],
        directory: directory.map(Directory::Named),
        stdio,
        more: &[],
        own_group: true,
        limits: &[],
        nicer: 0,
        end_with_us: None,
    }
    .start()?;
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
    // Whatever numbers they have here, the numbers they get are in use by others of them.
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
        limits: &[],
        nicer: 0,
        end_with_us: None,
    };
    let number = AtomicU64::new(0);
    let pid = spawn.start_noted(&number).expect("sh runs");
    assert_eq!(i64::try_from(number.into_inner()), Ok(i64::from(pid.number())));
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["threetwoone7"]);
}

#[test]
fn another_user() {
    if !crate::cred::is_root() {
        return;
    }
    let identity = Identity { uid: 54321, gid: 54322, groups: vec![54322, 54323] };
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let (null, etc) = (File::open("/dev/null").expect("null"), File::open("/etc").expect("directory"));
    let start = |program: &CStr, writer: &std::io::PipeWriter| {
        let argv = [c"sh", c"-c", c"/usr/bin/id -u; /usr/bin/id -G; pwd; ls /proc/self/fd | tr '\\n' ' '"];
        let spawn = Spawn {
            program,
            argv: &argv,
            env: &[c"PATH=/bin:/usr/bin"],
            directory: Some(Directory::Open(etc.as_fd())),
            stdio: [null.as_fd(), writer.as_fd(), null.as_fd()],
            more: &[],
            own_group: true,
            limits: &[],
            nicer: 0,
            end_with_us: None,
        };
        let starting = spawn.start_as(&identity).expect("a process");
        assert!(crate::poll::readable(&starting.outcome, None).expect("poll"));
        starting.result().map_err(|error| error.raw_os_error())
    };
    assert_eq!(start(c"/bin/sh", &writer), Ok(()));
    assert_eq!(start(c"passwd", &writer), Err(Some(libc::EACCES)), "a name in the directory");
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text, "54321\n54322 54323\n/etc\n0 1 2 3 ");
}

#[test]
fn the_error_of_the_exec_comes_back() {
    let error = |program, directory| run(program, &[c"x"], directory).expect_err("cannot run").raw_os_error();
    assert_eq!(error(c"/no/such/program", None), Some(libc::ENOENT));
    assert_eq!(error(c"/etc/passwd", None), Some(libc::EACCES));
    assert_eq!(error(c"/bin/sh", Some(c"/no/such/directory")), Some(libc::ENOENT));
}

#[test]
fn death_by_signal_is_reported() {
    let (status, _) = run(c"/bin/sh", &[c"sh", c"-c", c"kill -9 $$"], None).expect("sh runs");
    assert_eq!(status, Status::Signaled { signal: Signal::KILL, core: false });
}
