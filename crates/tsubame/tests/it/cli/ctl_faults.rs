//! The control socket where something is in the way: other servers, other files, other users, and a parent that is busy.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

use crate::cli::ctl::{ctl, json};
use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::server::{Server, Start, is_gone, rests};
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until, within};
use crate::mpm::control::{Daemon, pid_of, said};

fn site() -> Site {
    Site::with([("index.html", "hello\n")])
}

const GRANTED: &str = "<Directory ${DOCS}>\nRequire all granted\n</Directory>";

/// Asks at a socket as the program does: words that end with a NUL each.
fn send(socket: &Path, words: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("connect");
    stream.write_all(format!("{}\0\0", words.replace(' ', "\0")).as_bytes()).expect("send");
    stream
}

fn answer(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answer");
    text
}

/// CPU time of a process so far, in hundredths of a second.
fn cpu(pid: Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let fields = stat.rsplit(") ").next().expect("fields").split(' ').skip(11).take(2);
    fields.map(|field| field.parse::<u64>().expect("number")).sum()
}

/// Two servers whose pid files differ only after the last dot have separate sockets. With a shared socket, a client
/// does not mistake one server for the other.
#[test]
fn only_the_intended_server_answers() {
    let (one, two) = (site(), site());
    let run = one.root.join("run");
    let pid_file = |letter| format!("PidFile {}/site.{letter}", run.display());
    let first = Server::start(Mpm::Percore, &one, &pid_file("a"));
    let second = Server::start(Mpm::Percore, &two, &pid_file("b"));
    assert_eq!(json(&one, &["status"])["pid"], first.pid().number());
    assert_eq!(json(&two, &["status"])["pid"], second.pid().number());
    assert!(run.join("site.a.ctl").exists() && run.join("site.b.ctl").exists());
    for words in ["--pid=1 status", "frobnicate now"] {
        let reply = answer(send(&run.join("site.a.ctl"), words));
        assert!(reply.starts_with("declined\n"), "{words}: {reply}");
    }

    let shared = format!("{}\nControlSocket {}/site.a.ctl", pid_file("b"), run.display());
    two.configure(Mpm::Percore, &shared);
    let (output, errors, code) = ctl(&two, &["stop"]);
    assert_eq!((output.as_str(), code), ("", Some(1)));
    let (there, meant) = (first.pid(), second.pid());
    let want = format!("the server that listens here has pid {there}, the PidFile names {meant}");
    assert!(errors.contains(&want), "{errors}");
    two.configure(Mpm::Percore, &shared.replace("site.b", "site.c"));
    let (_, errors, code) = ctl(&two, &["stop"]);
    assert!(errors.contains("no such PidFile") && code == Some(1), "{errors}");
    let socket = run.join("site.a.ctl");
    let (output, _, code) = ctl(&two, &["--socket", socket.to_str().expect("path"), "status"]);
    assert!(output.contains(&format!("pid {there}")) && code == Some(0), "{output}");
}

/// A word that a command does not know is an error, and a question for help is that.
#[test]
fn nothing_is_done_for_words_that_nobody_knows() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, "");
    for command in ["stop", "graceful-stop", "graceful", "restart"] {
        for help in ["--help", "-h"] {
            let (output, errors, code) = ctl(&site, &[command, help]);
            assert!(output.contains("Usage: tsubame ctl") && errors.is_empty() && code == Some(0), "{errors}");
        }
        for word in ["now", "--json", "--force"] {
            let (output, errors, code) = ctl(&site, &[command, word]);
            assert_eq!((output.as_str(), code), ("", Some(1)), "{command} {word}");
            assert!(errors.contains(&format!("{command}: unexpected word '{word}'")), "{errors}");
        }
        // The server also refuses them from any other client.
        let refused = answer(send(&site.root.join("logs/pid.ctl"), &format!("{command} --help")));
        assert!(refused.starts_with("error\n"), "{refused}");
    }
    assert!(ctl(&site, &["explain", "--help"]).0.contains("Usage: tsubame explain"));
    let status = json(&site, &["status"]);
    assert_eq!((&status["pid"], &status["generation"]), (&server.pid().number().into(), &0.into()));
}

/// Only a socket is replaced, and only if no other process listens to it; the server serves in any case.
#[test]
fn other_files_and_other_servers_stay() {
    for name in ["run/precious.txt", "run/link", "run"] {
        let site = site();
        let precious = site.file("run/precious.txt", "precious");
        let link = site.root.join("run/link");
        std::os::unix::fs::symlink(&precious, &link).expect("link");
        let server = Server::start(Mpm::Percore, &site, &format!("{GRANTED}\nControlSocket {name}"));
        server.logged("another file is there, which is not a socket");
        assert_eq!(server.get("/").status, 200);
        assert_eq!(site.read("run/precious.txt"), "precious");
        assert!(link.symlink_metadata().expect("link").is_symlink());
    }

    let site = site();
    let other = UnixListener::bind(site.root.join("run/other")).expect("bind");
    let mut server = Server::start(Mpm::Percore, &site, "ControlSocket run/other");
    server.logged("another server listens there");
    // The server that was there is killed: its file is left.
    drop(other);
    server.restart(Signal::USR1);
    assert_eq!(json(&site, &["status"])["pid"], server.pid().number());
    server.signal(Signal::TERM);
    assert_eq!(server.ends().code(), Some(0));

    let path = site.configure(Mpm::Percore, "ControlSocket logs/pid");
    let line = format!("line 2 of {}", path.display());
    let (_, errors, code) = said(&Start::new(&site, Mpm::Percore).arguments(&["-t"]).command().output().expect("run"));
    assert!(errors.contains("is the PidFile too") && errors.contains(&line) && code == Some(1), "{errors}");
}

/// A restart opens the new socket before it closes the old one, keeps the old one if the new one cannot be opened, and
/// recreates a deleted one.
#[test]
fn a_restart_never_loses_the_socket() {
    let site = site();
    let mut server = Server::start(Mpm::Percore, &site, "ControlSocket run/one");
    site.configure(Mpm::Percore, "ControlSocket run/none/two");
    server.restart(Signal::USR1);
    server.logged("the control socket stays");
    site.configure(Mpm::Percore, "ControlSocket run/one");
    assert_eq!(json(&site, &["status"])["generation"], 1);
    let socket = site.root.join("run/one");
    let inode = || socket.metadata().expect("socket").ino();
    let before = inode();
    server.restart(Signal::USR1);
    assert_eq!((json(&site, &["status"])["generation"].as_u64(), inode()), (Some(2), before));
    std::fs::remove_file(&socket).expect("remove");
    server.restart(Signal::USR1);
    assert_eq!(json(&site, &["status"])["generation"], 3);
    site.configure(Mpm::Percore, "ControlSocket run/two");
    server.restart(Signal::USR1);
    assert_eq!(json(&site, &["status"])["generation"], 4);
    assert!(!socket.exists());
}

/// A path of as many bytes as a socket's can have, and one byte more.
#[test]
fn a_path_may_be_as_long_as_the_system_takes() {
    let site = site();
    let path = |length: usize| format!("{:x<length$}", format!("{}/run/", site.path()));
    let server = Server::start(Mpm::Percore, &site, &format!("ControlSocket {}", path(107)));
    assert_eq!(json(&site, &["status"])["pid"], server.pid().number());
    drop(server);
    let server = Server::start(Mpm::Percore, &site, &format!("ControlSocket {}", path(108)));
    server.logged("the path of a socket has at most 107 bytes, and this one 108");
    let (_, errors, code) = ctl(&site, &["status"]);
    assert!(errors.contains("at most 107 bytes") && code == Some(1), "{errors}");
}

/// An upgrade takes the socket of the server that it succeeds, and no other one's.
#[test]
fn an_upgraded_server_leaves_others_alone() {
    let (one, two) = (site(), site());
    let other = Server::start(Mpm::Percore, &one, "");
    two.configure(Mpm::Percore, "");
    let _guard = Daemon(&two);
    let start =
        |arguments: &[&str]| Start::new(&two, Mpm::Percore).arguments(arguments).command().output().expect("run");
    assert_eq!(said(&start(&[])).2, Some(0));
    let old = until("the pid file", || pid_of(&two));
    until("its socket", || two.root.join("logs/pid.ctl").exists().then_some(()));
    // Its own socket it takes.
    assert_eq!(said(&start(&["-k", "upgrade"])).2, Some(0));
    until("the old one has ended", || is_gone(old).then_some(()));
    let heir = pid_of(&two).expect("pid");
    until("the answer of the new one", || (ctl(&two, &["status"]).0.contains(&format!("pid {heir}"))).then_some(()));
    // It does not accept the socket of the other server.
    two.configure(Mpm::Percore, &format!("ControlSocket {}/logs/pid.ctl", one.path()));
    assert_eq!(said(&start(&["-k", "upgrade"])).2, Some(0));
    until("the old one has ended", || is_gone(heir).then_some(()));
    until("the log", || two.read("logs/error_log").contains("no control socket").then_some(()));
    assert_eq!(json(&one, &["status"])["pid"], other.pid().number());
}

/// While the parent waits for children to end, it answers no one, and does not spin.
#[test]
fn a_parent_that_waits_for_children_rests() {
    let site = site();
    let mut server = Server::start(Mpm::Prefork, &site, "StartServers 1\nMinSpareServers 1\nMaxSpareServers 2");
    server.allow("AH00046");
    for child in server.children() {
        Pid::new(child).expect("pid").kill(Signal::STOP).expect("stop");
    }
    server.signal(Signal::HUP);
    server.logged("Attempting to restart");
    let before = cpu(server.pid());
    let asked = send(&site.root.join("logs/pid.ctl"), "status --json");
    server.logged("AH00045");
    until("the second SIGTERM", || (server.log().matches("AH00045").count() >= 2).then_some(()));
    let spent = cpu(server.pid()) - before;
    assert!(spent < 100, "{spent} hundredths of a second of CPU time in 2 s or more");
    server.ready();
    assert!(answer(asked).starts_with("ok\n"));
}

/// A parent without a descriptor for a conversation logs that once, tries again each second, and does not spin.
#[test]
fn a_parent_without_descriptors_rests() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, "");
    let limit = |numbers: String| {
        let pid = server.pid().to_string();
        assert!(Command::new("prlimit").args(["--pid", &pid, &numbers]).status().expect("prlimit").success());
    };
    let free = (0..).find(|number: &u32| !Path::new(&format!("/proc/{}/fd/{number}", server.pid())).exists());
    // Open connections stay open.
    limit(format!("--nofile={}:", free.expect("a number")));
    let asked = UnixStream::connect(site.root.join("logs/pid.ctl")).expect("connect");
    server.logged("(24)Too many open files: cannot answer at the control socket");
    let (before, rested) = (cpu(server.pid()), rests(server.pid()));
    let spent = || cpu(server.pid()) - before;
    until("three rests, or none", || (rests(server.pid()) >= rested + 3 || spent() > 100).then_some(()));
    assert!(spent() < 60, "{} hundredths of a second of CPU time between three rests", spent());
    assert_eq!(server.log().matches("cannot answer at the control socket").count(), 1);
    limit("--nofile=1024:".into());
    drop(asked);
    assert_eq!(json(&site, &["status"])["pid"], server.pid().number());
}

/// Kills a parent that a test has started outside of [`Server`], whatever happens.
struct Alone(Child);

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process of a conversation of the server with this parent.
fn conversation(parent: Pid, is_meant: impl Fn(i32) -> bool) -> Pid {
    let title = |child: &i32| std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
    let talks = until("the process of a conversation", || {
        crate::harness::server::children(parent)
            .into_iter()
            .find(|child| title(child).contains("control") && is_meant(*child))
    });
    Pid::new(talks).expect("pid")
}

/// A conversation that became the user of the children does not outlive its parent.
#[test]
fn no_conversation_is_left_alone() {
    if !needs::ROOT.is_there("no_conversation_is_left_alone") {
        return; // Nobody becomes anybody else.
    }
    let site = site();
    // More to tell than a client takes that does not read.
    let much: String = (0..20_000).map(|number| format!("SetEnv NAME_{number} value\n")).collect();
    site.configure(Mpm::Percore, &much);
    let mut command = Start::new(&site, Mpm::Percore).command();
    let mut parent = Alone(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start"));
    let pid = Pid::new(i32::try_from(parent.0.id()).expect("pid")).expect("pid");
    let socket = site.root.join("logs/pid.ctl");
    until("the socket", || socket.exists().then_some(()));
    let _stream = until("a conversation", || {
        let mut stream = UnixStream::connect(&socket).ok()?;
        stream.write_all(b"explain\0--config\0\0").ok()?;
        Some(stream)
    });
    // Of another user.
    let talks = conversation(pid, |child| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("Uid:") && !line.contains("\t0"))
    });
    parent.0.kill().expect("kill");
    parent.0.wait().expect("wait");
    // The other limit, for a write, is 30 s.
    within(Duration::from_secs(10), || is_gone(talks).then_some(())).expect("its end");
}

/// A client checks who listens before it sends anything: another user's program receives nothing.
#[test]
fn the_client_tells_strangers_nothing() {
    if !needs::ROOT.is_there("the_client_tells_strangers_nothing") {
        return; // Everybody here is the same user.
    }
    let site = site();
    let mut server = Server::start(Mpm::Percore, &site, "ControlSocket none");
    site.configure(Mpm::Percore, "ControlSocket run/asked");
    let (_, errors, _) = ctl(&site, &["status"]);
    assert!(errors.contains("no server runs there, or it has no control socket (-X, ControlSocket none)"), "{errors}");

    let (root, run) = (site.root.clone(), site.root.join("run"));
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).expect("mode");
    let program = "$| = 1; use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un('run/asked')) or die; \
                   listen(S, 5); print 'listens '; accept(C, S); print 'heard ', scalar <C>";
    let mut stranger = Command::new("perl");
    stranger.args(["-e", program]).uid(65534).gid(65534).current_dir(&root).stdout(Stdio::piped());
    let mut stranger = Alone(stranger.spawn().expect("perl"));
    let mut output = stranger.0.stdout.take().expect("output");
    let mut listens = [0; 8];
    output.read_exact(&mut listens).expect("it listens");
    assert!(root.join("run/asked").metadata().expect("socket").file_type().is_socket());
    let (_, errors, code) = ctl(&site, &["status"]);
    assert!(errors.contains("a program of the user with number 65534 listens there") && code == Some(1), "{errors}");
    let mut heard = String::new();
    output.read_to_string(&mut heard).expect("what it heard");
    assert_eq!(heard, "heard ");
    site.configure(Mpm::Percore, "ControlSocket none");
    server.restart(Signal::USR1);
}

/// The client distinguishes a server that does not answer from one that is not running.
#[test]
fn a_silent_server_is_said_to_be_silent() {
    let site = site();
    let socket = site.root.join("run/silent");
    let _listener = UnixListener::bind(&socket).expect("bind");
    let (_, errors, code) = ctl(&site, &["--socket", socket.to_str().expect("path"), "status"]);
    assert!(errors.contains("no answer within 30 s") && code == Some(1), "{errors}");
}

/// A stopped process, until this is dropped.
struct Still(Pid);

impl Still {
    fn new(pid: Pid) -> Still {
        pid.kill(Signal::STOP).expect("stop");
        Still(pid)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let _ = self.0.kill(Signal::CONT);
    }
}

/// A conversation that goes on ends after a minute: by its own alarm if the parent hangs, and by the parent if the
/// conversation hangs.
#[test]
fn no_conversation_takes_longer_than_a_minute() {
    const LONGEST: Duration = Duration::from_secs(60);
    let sites = [site(), site()];
    let servers = sites.each_ref().map(|site| Server::start(Mpm::Percore, site, ""));
    let began = Instant::now();
    let connect = |site: &Site| UnixStream::connect(site.root.join("logs/pid.ctl")).expect("connect");
    let [mut alone, mut silent] = sites.each_ref().map(connect);
    // Both have begun.
    let [_, silent_one] = servers.each_ref().map(|server| conversation(server.pid(), |_| true));
    let _still = [Still::new(servers[0].pid()), Still::new(silent_one)];
    // A byte now and then keeps the limit of a single read away.
    alone.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let ended = |stream: &mut UnixStream| match stream.read(&mut [0]) {
        // A test running in parallel may have signals to wait for.
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => false,
        end => end.map_or(true, |length| length == 0),
    };
    while !ended(&mut alone) {
        assert!(began.elapsed() < LONGEST + DEADLINE, "no alarm");
        let _ = alone.write_all(b"x");
    }
    assert!(began.elapsed() >= LONGEST, "{:?}", began.elapsed());
    silent.set_nonblocking(true).expect("nonblocking");
    until("the parent's look at the clock", || ended(&mut silent).then_some(()));
}
