//! A running server. Dropping it checks that none of its processes is left, and that it logged nothing unexpected.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::descriptors;
use crate::harness::mpm::Mpm;
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until, within};
use crate::harness::wire::{Client, Response};

/// Messages of every start, restart and stop.
const USUAL: [&str; 13] = [
    "configured -- resuming normal operations",
    "Server built: ",
    // Apache, with the modules of heartbeats.
    "AH02283: Using slotmem from mod_heartmonitor",
    "AH00094: Command line: ",
    "caught SIGTERM, shutting down",
    "caught SIGWINCH, shutting down gracefully",
    "Doing graceful restart",
    "Graceful restart requested, doing restart",
    "SIGHUP received.  Attempting to restart",
    // Children and threads are counted once a second; a test that takes all of them at once is faster.
    ": server reached MaxRequestWorkers setting",
    "AH00162: server seems busy",
    "busy workers of ",
    // Of each connection, where a test wants to know more of TLS.
    "AH01964: Connection to child ",
];

/// A server in the foreground.
pub struct Server<'a> {
    pub site: &'a Site,
    pub mpm: Mpm,
    process: Child,
    notify: UnixDatagram,
    error_log: &'static str,
    /// Parts of log lines that may come, and whether they must.
    announced: RefCell<Vec<(String, bool)>>,
    /// Descriptors of the parent when it was ready.
    descriptors: usize,
    ended: Option<ExitStatus>,
    /// A test has killed it.
    killed: bool,
}

/// How to start one.
pub struct Start<'a> {
    site: &'a Site,
    mpm: Mpm,
    program: OsString,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    limit_files: Option<u32>,
    /// A program that runs it.
    by: Vec<String>,
    error_log: &'static str,
}

impl<'a> Start<'a> {
    /// With `conf/httpd.conf` as [`Site::configure`] wrote it.
    pub fn new(site: &'a Site, mpm: Mpm) -> Start<'a> {
        let arguments = vec!["-DFOREGROUND".to_string()];
        let program = env!("CARGO_BIN_EXE_tsubame").into();
        Start {
            site,
            mpm,
            program,
            arguments,
            environment: Vec::new(),
            limit_files: None,
            by: Vec::new(),
            error_log: "logs/error_log",
        }
    }

    /// Another file, or a symbolic link to the program.
    pub fn program(mut self, path: &Path) -> Start<'a> {
        self.program = path.into();
        self
    }

    /// Other arguments than `-DFOREGROUND`.
    pub fn arguments(mut self, arguments: &[&str]) -> Start<'a> {
        self.arguments = arguments.iter().map(|word| word.to_string()).collect();
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Start<'a> {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the error log's name, if the configuration changes it.
    pub fn error_log(mut self, name: &'static str) -> Start<'a> {
        self.error_log = name;
        self
    }

    /// `ulimit -n`, hard and soft.
    pub fn limit_files(mut self, count: u32) -> Start<'a> {
        self.limit_files = Some(count);
        self
    }

    /// Another program that becomes the server, with its arguments.
    pub fn by(mut self, words: Vec<String>) -> Start<'a> {
        self.by = words;
        self
    }

    /// The command with its arguments and environment.
    pub fn command(&self) -> Command {
        let mut words = Vec::new();
        if let Some(count) = self.limit_files {
            words.extend(["/bin/sh".into(), "-c".into(), format!("ulimit -n {count}; exec \"$@\""), "sh".into()]);
        }
        words.extend(self.by.iter().cloned());
        let mut command = match words.split_first() {
            None => Command::new(&self.program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
        };
        command
            .args(["-d", self.site.path(), "-f", "conf/httpd.conf"])
            .args(&self.arguments)
            // The text of a panic must not depend on the environment of the tests.
            .env("RUST_BACKTRACE", "0")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.site.root);
        command
    }

    /// Starts it and waits until it is ready.
    pub fn run(self) -> Server<'a> {
        let (notify, name) = notify_socket();
        let output = |name: &str| {
            let path = self.site.root.join("logs").join(name);
            Stdio::from(std::fs::File::create(path).expect("output"))
        };
        let process = self
            .command()
            .env("NOTIFY_SOCKET", name)
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"))
            .process_group(0)
            .spawn()
            .expect("start");
        let mut server = Server {
            site: self.site,
            mpm: self.mpm,
            process,
            notify,
            error_log: self.error_log,
            announced: RefCell::default(),
            descriptors: 0,
            ended: None,
            killed: false,
        };
        server.ready();
        let is_copy = |child| title(child) == title(server.pid().number());
        let copies = || children(server.pid()).into_iter().any(is_copy);
        until("every process has a title of its own", || (!copies()).then_some(()));
        server.count_descriptors();
        server
    }
}

/// A socket for `sd_notify`, and its name.
pub fn notify_socket() -> (UnixDatagram, String) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = format!("tsubame-notify-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let address = UnixAddr::from_abstract_name(&name).expect("name");
    let socket = UnixDatagram::bind_addr(&address).expect("notify socket");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("timeout");
    (socket, format!("@{name}"))
}

impl<'a> Server<'a> {
    /// Starts one with these lines of configuration.
    pub fn start(mpm: Mpm, site: &'a Site, text: &str) -> Server<'a> {
        site.configure(mpm, text);
        Start::new(site, mpm).run()
    }

    pub fn pid(&self) -> Pid {
        i32::try_from(self.process.id()).ok().and_then(Pid::new).expect("pid")
    }

    pub fn address(&self) -> SocketAddr {
        self.site.address()
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// The answer to one request over a connection of its own.
    pub fn get(&self, path: &str) -> Response {
        self.client().get(path)
    }

    pub fn signal(&self, signal: Signal) {
        self.pid().kill(signal).expect("signal");
    }

    /// The next message to the service manager.
    pub fn notified(&mut self) -> String {
        let end = Instant::now() + DEADLINE;
        let mut buffer = [0; 4096];
        loop {
            if let Ok(length) = self.notify.recv(&mut buffer) {
                return String::from_utf8_lossy(&buffer[..length]).into_owned();
            }
            let status = self.process.try_wait().expect("wait");
            assert!(status.is_none(), "the server ended ({status:?}) and said:\n{}", self.everything());
            assert!(Instant::now() < end, "no message; the server said:\n{}", self.everything());
        }
    }

    /// Waits for `READY=1`.
    pub fn ready(&mut self) {
        while !self.notified().contains("READY=1") {}
    }

    /// Sends a signal and waits until the server is ready again.
    pub fn restart(&mut self, signal: Signal) {
        self.signal(signal);
        loop {
            if self.notified().contains("RELOADING=1") {
                return self.ready();
            }
        }
    }

    /// Restarts the server, and waits for the end of its children: a child that leaves answers what it has accepted, by the
    /// configuration that it has.
    pub fn replace(&mut self, signal: Signal) {
        let children = self.children();
        self.restart(signal);
        until("the end of the old children", || self.children().is_disjoint(&children).then_some(()));
    }

    /// Takes the descriptors that the parent has now for those that it may have in the end: where it serves itself it has
    /// some of them only when it has served.
    pub fn count_descriptors(&mut self) {
        self.descriptors = descriptors::of(self.pid()).len();
    }

    /// The child processes.
    pub fn children(&self) -> BTreeSet<i32> {
        children(self.pid())
    }

    /// How many processes the children have started: scripts of mod_cgi.
    pub fn scripts(&self) -> usize {
        self.children().into_iter().filter_map(Pid::new).map(|child| children(child).len()).sum()
    }

    /// A log line that contains this must come until the test ends.
    pub fn announce(&self, part: impl Into<String>) {
        self.announced.borrow_mut().push((part.into(), true));
    }

    /// A log line that contains this may come.
    pub fn allow(&self, part: impl Into<String>) {
        let part = part.into();
        assert!(!part.is_empty(), "every line contains nothing: see `allow_everything`");
        self.announced.borrow_mut().push((part, false));
    }

    /// Any log line may come; only a panic still makes the test fail.
    pub fn allow_everything(&self, why: &'static str) {
        println!("the log of this server is not judged: {why}");
        self.announced.borrow_mut().push((String::new(), false));
    }

    /// Waits for a log line that contains this, which need not be announced.
    pub fn logged(&self, part: &str) -> String {
        self.allow(part);
        let what = format!("a log line with {part:?}; there is:\n{}", self.log());
        until(&what, || self.log().lines().find(|line| line.contains(part)).map(str::to_string))
    }

    /// The error log.
    pub fn log(&self) -> String {
        self.site.read(self.error_log)
    }

    /// Everything that it ever said.
    fn everything(&self) -> String {
        ["logs/stdout", "logs/stderr", self.error_log].map(|name| self.site.read(name)).concat()
    }

    /// Waits for the end of the parent, which was requested before.
    pub fn ends(&mut self) -> ExitStatus {
        let status = until("the end of the server", || self.process.try_wait().expect("wait"));
        self.ended = Some(status);
        status
    }

    /// Kills the parent, without a chance to end what it has started.
    pub fn killed(&mut self) {
        self.signal(Signal::KILL);
        assert_eq!(self.ends().signal(), Some(Signal::KILL.number()));
        self.killed = true;
    }

    /// The server's faults, after the end of the test.
    fn problems(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.ended.is_none() {
            problems.extend(self.leaked());
            let _ = self.pid().kill(Signal::TERM);
            self.ended = within(DEADLINE, || self.process.try_wait().expect("wait"));
        }
        match self.ended {
            None => problems.push("it did not end in time".into()),
            Some(status) if status.code() == Some(0) || self.killed => {}
            Some(status) => problems.push(format!("it ended with {status} (signal {:?})", status.signal())),
        }
        let group = self.pid().number();
        if within(Duration::from_secs(10), || members(group).is_empty().then_some(())).is_none() {
            problems.push(format!("processes are left: {:?}", members(group)));
        }
        problems.extend(self.unexpected());
        problems
    }

    /// Descriptors that are no longer needed.
    fn leaked(&self) -> Option<String> {
        let leaks = || {
            let mut leaks = descriptors::leaks(self.pid(), self.children());
            let now = descriptors::of(self.pid());
            if now.len() != self.descriptors {
                leaks.push(format!("the parent had {} descriptors and has {now:?}", self.descriptors));
            }
            leaks
        };
        let mut left = Vec::new();
        let mut none_left = || {
            left = leaks();
            left.is_empty().then_some(())
        };
        within(Duration::from_secs(8), &mut none_left).is_none().then(|| format!("descriptors are left: {left:#?}"))
    }

    /// Unexpected lines, and announced ones that did not appear.
    fn unexpected(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let announced = self.announced.borrow();
        let log = self.log();
        for line in log.lines() {
            let known = announced.iter().map(|(part, _)| part.as_str()).chain(USUAL).any(|part| line.contains(part));
            if !known {
                problems.push(format!("unexpected log line: {line}"));
            }
        }
        for (part, must) in announced.iter() {
            if *must && !log.contains(part) {
                problems.push(format!("no log line contains {part:?}"));
            }
        }
        let errors = self.site.read("logs/stderr");
        if !errors.is_empty() && !announced.iter().any(|(part, _)| errors.contains(part)) {
            problems.push(format!("on standard error: {errors}"));
        }
        if errors.contains("panicked") || log.contains("panicked") {
            problems.push("it panicked".into());
        }
        let files = std::fs::read_dir(&self.site.root).into_iter().flatten().flatten();
        let cores = files.filter(|file| file.file_name().to_string_lossy().starts_with("core"));
        problems.extend(cores.map(|core| format!("it left {:?}", core.path())));
        problems
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let group = self.pid().number();
        let problems = self.problems();
        for process in members(group) {
            let _ = Pid::new(process).map(|pid| pid.kill(Signal::KILL));
        }
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.everything());
        } else if !problems.is_empty() {
            panic!("under {}: {}\nthe server said:\n{}", self.mpm, problems.join("\n"), self.everything());
        }
    }
}

/// What `ps` shows of a process: its parent's title for a moment after a fork, and nothing if it has ended.
pub fn title(process: i32) -> String {
    let file = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    // Nor is there a title while a process becomes another program.
    let has_ended = || file("stat").rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"));
    until("a title", || Some(file("cmdline")).filter(|title| !title.is_empty() || has_ended()))
}

/// Whether a process is the one beside a parent that keeps its log files.
fn is_log_keeper(process: i32) -> bool {
    title(process).contains(": logs")
}

/// The child processes of a process, whichever of its threads started them, without the one that keeps its logs.
pub fn children(pid: Pid) -> BTreeSet<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let all = lists.flat_map(|list| list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>());
    all.filter(|child| !is_log_keeper(*child)).collect()
}

/// How often a process has gone to sleep.
pub fn rests(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("field");
    line.trim().parse().expect("number")
}

/// How many threads a process has.
pub fn threads(process: i32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten().count()
}

/// Whether a process has ended, reaped or not.
pub fn is_gone(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}

/// The processes of a group that are not waiting to be reaped.
fn members(group: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let in_group = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // `PID (NAME) STATE PARENT GROUP ...`; the name may contain anything.
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, group_of) = (rest.next().unwrap_or_default(), rest.nth(1).and_then(|word| word.parse().ok()));
        group_of == Some(group) && state != "Z"
    };
    numbers.filter(in_group).collect()
}
