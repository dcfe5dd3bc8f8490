//! Starts servers, talks to them, and waits for what must happen, with a deadline.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::available_parallelism;
use std::time::Instant;

use sys::process::Pid;
use sys::signal::Signal;

use crate::server::{DIRECTORY, MPM, SETTINGS};
use crate::wait::DEADLINE;
pub(crate) use crate::wait::until;

/// A test: its name, the modules it runs under, and the test.
pub(crate) type Case = (&'static str, &'static [&'static str], fn(&str));

/// Lists each test under the modules it applies to.
macro_rules! cases {
    ($($modules:tt: $($test:ident),*;)+) => {
        pub(crate) const ALL: &[$crate::harness::Case] = &[$($($crate::harness::case!($modules, $test)),*),+];
    };
}
macro_rules! case {
    ([$($mpm:literal),*], $test:ident) => { (stringify!($test), &[$($mpm),*], $test) };
}
pub(crate) use {case, cases};

/// How many of these tests run where one usual test would: they wait most of the time.
const PATIENT: usize = 3;

/// Runs the tests whose names contain the first argument that is not an option, several at once: [`PATIENT`] times as many as
/// `RUST_TEST_THREADS` says for other tests.
pub(crate) fn run<'a>(cases: impl Iterator<Item = &'a Case> + Send) -> ExitCode {
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|number| number.parse().ok());
    let threads: usize = threads.or_else(|| available_parallelism().ok().map(Into::into)).unwrap_or(1) * PATIENT;
    let tests = cases
        .flat_map(|(name, mpms, test)| mpms.iter().map(move |mpm| (format!("{name}_under_{mpm}"), mpm, test)))
        .filter(|(name, ..)| name.contains(&filter));
    let (tests, failed) = (Mutex::new(tests), AtomicU32::new(0));
    let next = || tests.lock().expect("no test runs under the lock").next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((name, mpm, test)) = next() {
                    let ok = catch_unwind(AssertUnwindSafe(|| test(mpm))).is_ok();
                    println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
                    failed.fetch_add(u32::from(!ok), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("\ntest result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    Pid::new(pid).expect("pid").kill(signal).expect("kill");
}

/// The last number of the address of the next server.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// A running server. Dropping it makes sure that nothing of it remains.
pub(crate) struct Server {
    process: Child,
    lines: Receiver<String>,
    pub(crate) directory: PathBuf,
    pub(crate) address: String,
}

impl Server {
    /// Starts one and waits until it serves.
    pub(crate) fn start(mpm: &str, settings: &str) -> Server {
        let server = Server::launch(mpm, settings);
        server.said("resuming normal operations");
        server.said("AH00094: Command line: 'test'");
        server
    }

    /// Starts one and waits until it listens.
    pub(crate) fn launch(mpm: &str, settings: &str) -> Server {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tsubame-mpm-{}-{number}", Pid::own()));
        std::fs::create_dir_all(&directory).expect("directory");
        Server::launch_at(mpm, &directory, settings, number)
    }

    /// Like [`launch`](Server::launch), in the directory of another one.
    pub(crate) fn launch_in(mpm: &str, directory: &Path, settings: &str) -> Server {
        Server::launch_at(mpm, directory, settings, NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    fn launch_at(mpm: &str, directory: &Path, settings: &str, number: u32) -> Server {
        let program = std::env::current_exe().expect("own path");
        let mut process = Command::new(program)
            .env(MPM, mpm)
            .env(SETTINGS, settings)
            .env(DIRECTORY, directory)
            // A backtrace of an intended panic takes seconds.
            .env("RUST_BACKTRACE", "0")
            .env("TSUBAME_TEST_LISTEN", format!("127.55.7.{number}:0"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start");
        let output = BufReader::new(process.stdout.take().expect("output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut server = Server { process, lines, directory: directory.to_path_buf(), address: String::new() };
        server.address = server.said("listening ").trim_start_matches("listening ").to_string();
        server
    }

    /// Waits for a line of the log that contains `text`.
    pub(crate) fn said(&self, text: &str) -> String {
        let end = Instant::now() + DEADLINE;
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("waited in vain for a line with: {text}; there was: {before:#?}"),
            }
        }
    }

    /// A line with `text` among the log lines so far that no call has returned yet.
    pub(crate) fn says(&self, text: &str) -> Option<String> {
        self.lines.try_iter().find(|line| line.contains(text))
    }

    pub(crate) fn pid(&self) -> Pid {
        i32::try_from(self.process.id()).ok().and_then(Pid::new).expect("pid")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.pid().kill(signal).expect("signal");
    }

    /// The children that run now.
    pub(crate) fn children(&self) -> BTreeSet<i32> {
        let pid = self.pid();
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// Waits until there are `count` children.
    pub(crate) fn has_children(&self, count: usize) -> BTreeSet<i32> {
        until(&format!("{count} children"), || Some(self.children()).filter(|children| children.len() == count))
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.address).expect("connect");
        stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
        Client(BufReader::new(stream))
    }

    /// A connection to a child that stays. A child that leaves may be the first to accept, and closes after its answer.
    pub(crate) fn connect_to_stay(&self) -> Client {
        until("a child that stays", || {
            let mut client = self.connect();
            client.send("pid");
            let stays = client.answer().is_some_and(|line| !line.starts_with("last "));
            stays.then_some(client)
        })
    }

    /// A connection to this child. The other connections are kept until it is found, so that its turn comes.
    pub(crate) fn connect_to(&self, child: i32) -> Client {
        let mut others = Vec::new();
        until("a connection to a certain child", || {
            let mut client = self.connect();
            if client.served_by() == child {
                return Some(client);
            }
            others.push(client);
            None
        })
    }

    /// Waits for the end of the parent.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the end of the parent", || self.process.try_wait().expect("wait"))
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let children = self.children();
        let _ = self.process.kill();
        let _ = self.process.wait();
        let gone = || children.iter().all(|pid| Pid::new(*pid).is_none_or(|pid| !pid.exists()));
        let _ = std::fs::remove_dir_all(&self.directory);
        if !std::thread::panicking() {
            until("the end of all children", || gone().then_some(()));
        }
    }
}

/// A connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn send(&mut self, line: &str) {
        // In one packet: a second packet would wait for the acknowledgement of the first.
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).expect("send");
    }

    /// The next answer; `None` is the end of the connection.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// The last answer of a connection whose request is on its way. A successor may accept before the parent has told the
    /// child of this connection to leave: until then the child answers, and the connection goes on.
    pub(crate) fn last_answer(&mut self) -> Option<i32> {
        until("the last answer", || {
            let line = self.answer();
            let last = line.as_deref().and_then(|line| line.strip_prefix("last "));
            if last.is_none() && line.is_some() {
                self.send("pid");
                return None;
            }
            Some(last.map(|pid| pid.parse().expect("a process number")))
        })
    }

    /// The process that serves this connection.
    pub(crate) fn served_by(&mut self) -> i32 {
        self.send("pid");
        // A child that leaves says so.
        let line = self.answer().expect("an answer");
        line.trim_start_matches("last ").parse().expect("a process number")
    }
}

/// Whether a process ended as ordered.
pub(crate) fn well(status: ExitStatus) -> bool {
    status.code() == Some(0) && status.signal().is_none()
}
