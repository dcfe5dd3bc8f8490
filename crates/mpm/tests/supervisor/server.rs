//! The server under test. It speaks lines: it answers `pid` with the number of the process that serves, `wait` with the
//! same after a further line, `panic` with a panic, `block` with the same after blocking the thread, and `do JOB` after
//! a job of [`executor`](crate::executor). A connection stays open; the last answer of a child that leaves begins with
//! `last`.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conf::{Level, Listed, Origin, Setting, SettingsMap, Source};
use runtime::scoreboard::{Row, ServedRequest, Traffic, Workers};
use runtime::{Accepted, Connection, HelperProcess, Service, Stage, Stepping};
use sys::cred::Identity;
use sys::process::Pid;
use sys::rlimit::{Bounds, Limit};
use sys::signal::Signal;
use sys::watch::{Interest, Watched, watch};
use tsubame_mpm::control::Conversation;
use tsubame_mpm::settings::{Listen, MpmSettings};
use tsubame_mpm::{About, Generation, Listeners, ParentCallbacks, Restart, choose, run, tables};

/// The module to run.
pub(crate) const MPM: &str = "TSUBAME_TEST_MPM";
/// `Name=number` separated by blanks.
pub(crate) const SETTINGS: &str = "TSUBAME_TEST_SETTINGS";
/// A directory with the pid file, with [`GATE`], and, as `reload`, the result of the next reading of the configuration:
/// an error, or nothing.
pub(crate) const DIRECTORY: &str = "TSUBAME_TEST_DIRECTORY";

/// A pipe with this name blocks threads while somebody has it open for writing.
pub(crate) const GATE: &str = "gate";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

pub(crate) fn main() -> ExitCode {
    let log = Arc::new(Stdout);
    runtime::log::set(log.clone());
    let first = generation();
    let listeners = match Listeners::open(&first.settings, Vec::new()) {
        Ok(listeners) => listeners,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(most) = number("descriptors") {
        let most = u64::try_from(most).ok();
        sys::rlimit::set(Limit::Descriptors, Bounds { soft: most, hard: most }).expect("limit");
    }
    println!("listening {}", listeners.addresses()[0]);
    let about = About {
        program: "tsubame-test".to_string(),
        server: "Test/1".to_string(),
        built: "today".to_string(),
        command_line: "test".to_string(),
        one_process: number("one_process").is_some(),
        ends_with_terminal: false,
        invocation: None,
        predecessor: None,
    };
    run(first, listeners, about, &mut Reload)
}

fn number(name: &str) -> Option<i64> {
    let all = variable(SETTINGS);
    let mut pairs = all.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok())
}

fn generation() -> Generation {
    let infos = [&tables::PREFORK, &tables::WORKER, &tables::EVENT, &tables::PERCORE];
    let named = |info: &&&conf::ModuleInfo| info.log_name() == format!("mpm_{}", variable(MPM));
    let info = infos.iter().find(named).expect("a module");
    let origin = Origin { source: Arc::new(Source::new("test")), line: 1 };
    let mut settings = SettingsMap::default();
    let s: &mut MpmSettings = settings.edit();
    let address = variable("TSUBAME_TEST_LISTEN").parse().expect("address");
    let listen: &mut Listed<Listen> = &mut s.listen;
    listen.push(Listen { addresses: vec![address], port: 0, protocol: Some("lines".into()) }, &origin);
    s.pid_file.set(format!("{}/pid", variable(DIRECTORY)), &origin);
    s.threads_per_child.set(2, &origin);
    let fields: [(&str, &mut Setting<i64>); 10] = [
        ("start", &mut s.start_servers),
        ("min", &mut s.min_spare_servers),
        ("max", &mut s.max_spare_servers),
        ("min", &mut s.min_spare_threads),
        ("max", &mut s.max_spare_threads),
        ("threads", &mut s.thread_limit),
        ("threads", &mut s.threads_per_child),
        ("workers", &mut s.max_request_workers),
        ("connections", &mut s.max_connections_per_child),
        ("timeout", &mut s.graceful_shutdown_timeout),
    ];
    for (name, field) in fields {
        if let Some(value) = number(name) {
            field.set(value, &origin);
        }
    }
    Generation {
        mpm: choose(&[info], "test").expect("one module"),
        service: Arc::new(Lines),
        settings,
        identity: None,
        log: Arc::new(Stdout),
    }
}

struct Reload;

impl ParentCallbacks for Reload {
    /// Ends with the exit status that the client sends.
    fn converse(&mut self, conversation: Conversation<'_>) -> Option<Signal> {
        let mut stream = UnixStream::from(conversation.connection);
        let mut status = [0];
        stream.set_nonblocking(false).and_then(|()| stream.read_exact(&mut status)).expect("a byte");
        std::process::exit(status[0].into())
    }

    fn reload(&mut self, _: Restart) -> Result<Generation, String> {
        match std::fs::read_to_string(format!("{}/reload", variable(DIRECTORY))) {
            Ok(error) => Err(error),
            Err(_) => Ok(generation()),
        }
    }
}

struct Stdout;

impl runtime::log::Log for Stdout {
    fn enabled(&self, _: &str, level: Level) -> bool {
        level <= Level::Info
    }
    fn write(&self, module: &str, level: Level, text: fmt::Arguments<'_>) {
        println!("[{module}:{}] {text}", level.name());
    }
}

struct Lines;

impl Service for Lines {
    fn connect(&'static self, accepted: Accepted) -> Box<dyn Connection> {
        let socket = watch(Arc::new(accepted.socket), Interest::READABLE).expect("watch");
        Box::new(Client { socket, workers: accepted.workers, traffic: Traffic::default(), first: None })
    }
    fn child_started(&self, _: usize) {
        if number("stillborn").is_some() {
            std::process::exit(1);
        }
    }
    fn helpers(&self, _: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        Ok(Vec::new())
    }
    fn before_wait(&self) {}
    fn before_pass(&self) {
        println!("others first");
    }

    fn before_end(&self) {}
}

struct Client {
    socket: Watched,
    workers: &'static Workers,
    traffic: Traffic,
    /// The first byte of the next line, where that has come.
    first: Option<u8>,
}

impl Connection for Client {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        match stage {
            // A future of its own: thousands of these wait.
            Stage::KeepAlive => Stepping::waiting(async move {
                // The last read may have taken everything that the socket was ready for: only a byte tells.
                match self.byte().await {
                    Ok(byte) => {
                        self.first = Some(byte);
                        Stage::Serve
                    }
                    Err(_) => Stage::Closed,
                }
            }),
            // A poller of this must not be blocked by a line that comes now.
            Stage::Linger | Stage::ShortLinger => Stepping::waiting(async { Stage::Closed }),
            _ => Stepping::waiting(async move { self.serve().await.unwrap_or(Stage::Closed) }),
        }
    }

    fn has_input(&self) -> bool {
        sys::socket::peek(self.socket.get_ref(), &mut [0]).is_ok_and(|bytes| bytes > 0)
    }
}

/// Blocks the thread, as a name look-up or a slow disk does.
fn block() -> io::Result<()> {
    let mut gate = std::fs::File::open(format!("{}/{GATE}", variable(DIRECTORY)))?;
    println!("blocked");
    gate.read_to_end(&mut Vec::new())?;
    Ok(())
}

impl Client {
    async fn serve(&mut self) -> io::Result<Stage> {
        let line = self.line().await?;
        let slot: Row = self.workers.acquire();
        slot.begin(self.traffic, sys::time::realtime());
        match line.as_str() {
            "wait" => drop(self.line().await?),
            "panic" => panic!("asked to"),
            "block" => {
                runtime::needs_worker().await;
                block()?;
            }
            _ => {}
        }
        if let Some(job) = line.strip_prefix("do ") {
            crate::executor::serve(job).await?;
        }
        // Checked once: the answer to the client stays valid, even if an order reaches another thread meanwhile.
        let is_last = runtime::draining();
        let answer = format!("{}{}\n", if is_last { "last " } else { "" }, Pid::own());
        sys::socket::send(self.socket.get_ref(), answer.as_bytes(), false)?;
        slot.finish(ServedRequest {
            status: 200,
            sent: answer.len() as u64,
            received: 0,
            took: Duration::ZERO,
            ended: sys::time::realtime(),
            watches: false,
            repeated: false,
            prepared: false,
        });
        self.traffic.accesses += 1;
        Ok(if is_last { Stage::Closed } else { Stage::KeepAlive })
    }

    /// A line from the client; an error is the end.
    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::from_iter(self.first.take());
        while line.last() != Some(&b'\n') {
            line.push(self.byte().await?);
        }
        line.pop();
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    async fn byte(&self) -> io::Result<u8> {
        loop {
            let mut byte = [0];
            match sys::socket::receive(self.socket.get_ref(), &mut byte) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.readable().await?.clear_ready(),
                Err(error) => return Err(error),
            }
        }
    }
}
