//! A server during its measurement: started, ready, and removed with all its processes afterwards.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::experiments::recipe::Recipe;
use crate::experiments::site::Site;
use crate::machine::accounting::{Accounting, Group};
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::interrupt;
use crate::machine::launch;
use crate::machine::listener;
use crate::machine::memory_cgroup::MemoryEvents;
use crate::machine::procfs;
use crate::measure::origins::Origins;

/// How long a server may take to accept its first connection.
const START_LIMIT: Duration = Duration::from_secs(15);

/// How long a server may take to end after the request to do so.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How long the after-effects of a load may take; a server that works for ever by itself is measured nevertheless.
const QUIET_LIMIT: Duration = Duration::from_secs(10);

/// A server that uses less than this share of a core is idle.
const QUIET_MAX: f64 = 0.05;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// How often to look during a measurement: looking takes time of the load generator's core.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A server that leaves less than this share of the memory free is ended, before the machine fails.
const MEMORY_LEFT_MIN: f64 = 0.15;

/// Lines of a log shown when a server does not start.
const LOG_LINES: usize = 8;

/// A running server; dropping this ends all its processes.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    backend: Option<Child>,
    group: Group,
    began: Instant,
    /// The servers behind it, which end after it.
    origins: Option<Origins>,
}

impl Server {
    /// Writes the configuration, starts `program` on `cores` and waits until it accepts connections.
    pub(crate) fn start(
        accounting: &Accounting,
        cores: &[usize],
        program: &Path,
        recipe: &Recipe,
        site: &Site,
    ) -> Result<Self> {
        for file in recipe.files.iter().chain(recipe.backend.iter().map(|backend| &backend.file)) {
            let path = site.directory.join(&file.name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).context(|| format!("create {}", parent.display()))?;
            }
            write_file(path, &file.text)?;
        }
        let output_path = site.directory.join("output.log");
        let output = File::create(&output_path).context(|| format!("create {}", output_path.display()))?;
        // Servers that run at the same time have directories of their own.
        let name = site.directory.file_name().unwrap_or_default().to_string_lossy();
        let mut group = accounting.group(&name)?;
        if let Some(bytes) = site.memory {
            group.limit_memory("memory", bytes)?;
        }
        let start = |program: &Path, arguments: &[String]| -> Result<Child> {
            let share = || output.try_clone().context(|| "share a log file".to_owned());
            let mut command = launch::command(&group.entrances(), cores, program)?;
            command
                .args(arguments)
                .envs(recipe.environment.iter().map(|(name, value)| (name, value)))
                .current_dir(&site.directory)
                .stdin(Stdio::null())
                .stdout(share()?)
                .stderr(share()?)
                // Apache's parent ends by signalling its whole process group, which must not be ours.
                .process_group(0);
            command.spawn().context(|| format!("start {}", program.display()))
        };
        let backend = match &recipe.backend {
            Some(backend) => {
                let program = backend.program.locate(None).map_err(|remedy| {
                    Error::new(format!("{} needs a program that is not here", site.directory.display())).advise(remedy)
                })?;
                let file = site.directory.join(&backend.file.name).display().to_string();
                let mut child = start(&program, &[&backend.arguments[..], &[file]].concat())?;
                await_file(&mut child, &backend.ready, site)?;
                Some(child)
            }
            None => None,
        };
        let began = Instant::now();
        let child = start(program, &recipe.arguments)?;
        let mut server = Self { child, backend, group, began, origins: None };
        server.await_ready(site)?;
        Ok(server)
    }

    /// Keeps the servers behind it for as long as it runs.
    pub(crate) fn before(mut self, origins: Option<Origins>) -> Self {
        self.origins = origins;
        self
    }

    /// The servers behind it.
    pub(crate) fn origins(&self) -> Option<&Origins> {
        self.origins.as_ref()
    }

    fn await_ready(&mut self, site: &Site) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !self.is_ready(site) {
            interrupt::check()?;
            check_memory()?;
            let trouble = match self.child.try_wait() {
                Ok(Some(status)) => format!("it ended at once ({status})"),
                _ if Instant::now() > deadline => {
                    format!("nothing listens after {START_LIMIT:?}")
                }
                _ => {
                    std::thread::sleep(INTERVAL);
                    continue;
                }
            };
            return Err(Error::new(format!("{trouble}{}", last_words(&site.directory))));
        }
        Ok(())
    }

    /// Whether it accepts connections at the site's addresses, or anywhere if the site has none.
    fn is_ready(&self, site: &Site) -> bool {
        match site.addresses.first() {
            Some(address) => TcpStream::connect_timeout(address, START_LIMIT).is_ok(),
            None => self.address().is_some(),
        }
    }

    /// The address it listens on; the first of several.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        listener::address_of(&self.pids())
    }

    /// The time since its start.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// CPU time used by all processes so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.group.cpu(self.child.id())
    }

    /// The living processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.group.pids(self.child.id())
    }

    /// The events within the site's memory limit.
    pub(crate) fn memory_events(&self) -> Result<MemoryEvents> {
        self.group.memory_events()
    }

    /// Memory of all processes, in KiB.
    pub(crate) fn pss_kib(&self) -> Result<u64> {
        procfs::pss_kib(&self.pids())
    }

    /// Waits until there are more than `children` processes: the children and their parent.
    pub(crate) fn await_children(&self, children: u32) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while self.pids().len() <= children as usize {
            interrupt::check()?;
            if Instant::now() > deadline {
                let count = self.pids().len();
                return Err(Error::new(format!(
                    "it has {count} processes after {START_LIMIT:?}, not {children} children and a parent"
                )));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Waits until the server is nearly idle, because the after-effects of a load must not be charged to the next one:
    /// a thousand abandoned connections are a second of work if each starts a script.
    pub(crate) fn await_quiet(&self) -> Result<()> {
        let deadline = Instant::now() + QUIET_LIMIT;
        let mut before = self.cpu()?;
        loop {
            interrupt::check()?;
            std::thread::sleep(WATCH_INTERVAL);
            let now = self.cpu()?;
            if now.saturating_sub(before) < WATCH_INTERVAL.mul_f64(QUIET_MAX) || Instant::now() > deadline {
                return Ok(());
            }
            before = now;
        }
    }

    /// Returns an error with the last lines of its logs if the server is gone.
    pub(crate) fn check_alive(&self, site: &Site) -> Result<()> {
        match self.pids().is_empty() {
            true => Err(Error::new(format!("it ended by itself{}", last_words(&site.directory)))),
            false => Ok(()),
        }
    }

    /// Kills all its processes at once, so that nobody waits for their responses any more.
    pub(crate) fn kill(&self) {
        self.signal_all(Signal::KILL);
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.pids() {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    fn await_end(&mut self) -> bool {
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            let mut first = std::iter::once(&mut self.child).chain(&mut self.backend);
            let parent_ended = first.all(|child| matches!(child.try_wait(), Ok(Some(_))));
            if parent_ended && self.pids().is_empty() {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

impl Drop for Server {
    /// Asks the first process to end, as an administrator would, then kills the rest.
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.child).chain(&mut self.backend) {
            if let Some(pid) = Pid::from_raw(child.id() as i32)
                && matches!(child.try_wait(), Ok(None))
            {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        if !self.await_end() {
            self.kill();
            self.await_end();
        }
    }
}

/// The observation of a server under load.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    server: &'a Server,
    first: HashSet<u32>,
    newcomers: HashSet<u32>,
    began: Instant,
    /// CPU time of each thread at the beginning.
    threads: BTreeMap<(u32, u32), Duration>,
    next: Instant,
}

impl<'a> Watch<'a> {
    /// Begins.
    pub(crate) fn new(server: &'a Server) -> Self {
        let pids = server.pids();
        let threads = procfs::thread_times(&pids);
        let began = Instant::now();
        Self { server, first: pids.into_iter().collect(), newcomers: HashSet::new(), began, threads, next: began }
    }

    /// Looks, if it is time; an error means that the server must not continue.
    pub(crate) fn look(&mut self) -> Result<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        interrupt::check()?;
        self.next = Instant::now() + WATCH_INTERVAL;
        self.newcomers.extend(self.server.pids().into_iter().filter(|pid| !self.first.contains(pid)));
        check_memory()
    }

    /// Processes that were not there at the beginning, whether or not they still exist.
    pub(crate) fn newcomers(&self) -> u64 {
        self.newcomers.len() as u64
    }

    /// CPU seconds per second of the busiest thread, among those that were there all the time: a process with one
    /// thread, or one thread of a process, cannot use more than one core, however many there are.
    pub(crate) fn busiest(&self) -> f64 {
        let elapsed = self.began.elapsed().as_secs_f64();
        let now = procfs::thread_times(&self.server.pids());
        let spent = now.iter().filter_map(|(thread, time)| time.checked_sub(*self.threads.get(thread)?));
        spent.max().unwrap_or_default().as_secs_f64() / elapsed
    }
}

/// Waits until a program that has just started has made a file. Ends one that does not.
pub(super) fn await_file(child: &mut Child, file: &Path, site: &Site) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while !file.exists() {
        if interrupt::is_asked() || !matches!(child.try_wait(), Ok(None)) || Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let text = format!("what has to run beside it does not make {}", file.display());
            return Err(Error::new(format!("{text}{}", last_words(&site.directory))));
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// Returns an error if the machine has so little memory left that a server must not continue.
pub(crate) fn check_memory() -> Result<()> {
    let left = procfs::memory_left();
    if left < MEMORY_LEFT_MIN {
        return Err(Error::new(format!("it left only {:.0} % of the machine's memory and was ended", left * 100.0)));
    }
    Ok(())
}

/// The ends of the logs, indented, for an error message.
pub(crate) fn last_words(directory: &Path) -> String {
    ["output.log", "error.log"]
        .iter()
        .filter_map(|name| std::fs::read_to_string(directory.join(name)).ok())
        .flat_map(|text| {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let skipped = lines.len().saturating_sub(LOG_LINES);
            lines.into_iter().skip(skipped)
        })
        .map(|line| format!("\n    {line}"))
        .collect()
}
