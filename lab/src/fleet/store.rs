//! The store that all nodes share in one of the failures: a Redis beside the balancer, in which they count what clients ask.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::machine::error::{Context as _, Error, Result};
use crate::machine::host::allowed_cores;
use crate::machine::{interrupt, launch, programs};

/// Its port at every address of the front.
pub(super) const PORT: u16 = 6379;

/// How long it may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// The store; dropping this ends it.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    process: Option<Child>,
}

impl Store {
    /// One that does not run yet.
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), process: None }
    }

    /// Starts it, empty, in the calling thread's network, and waits until it answers.
    pub(super) fn start(&mut self) -> Result<()> {
        let program = programs::find(&["redis-server"]).ok_or_else(|| {
            Error::new("redis-server is not here, which nodes share").advise("apt-get install redis-server")
        })?;
        let path = self.directory.join("redis.log");
        let output = File::create(&path).context(|| format!("create {}", path.display()))?;
        let mut command = launch::command_to_kill(&allowed_cores()?, &program)?;
        command.args(["--port", &PORT.to_string(), "--bind", "0.0.0.0", "--protected-mode", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(&self.directory);
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).process_group(0);
        self.process = Some(command.spawn().context(|| format!("start {}", program.display()))?);
        let deadline = Instant::now() + LIMIT;
        while keys().is_err() {
            interrupt::check()?;
            if Instant::now() > deadline {
                return Err(Error::new(format!("Redis does not answer; {} may say why", path.display())));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Kills it.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.check()?;
        self.end();
        Ok(())
    }

    /// Whether nodes count in it, if it runs: otherwise its end would show nothing.
    pub(super) fn check(&self) -> Result<()> {
        match self.process.is_none() || keys()? > 0 {
            true => Ok(()),
            false => Err(Error::new("no node counts its clients in the store")),
        }
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end();
    }
}

/// How many keys the store has.
fn keys() -> Result<u64> {
    let doing = || "ask Redis for its keys".to_owned();
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), LIMIT).context(doing)?;
    stream.set_read_timeout(Some(LIMIT)).context(doing)?;
    stream.write_all(b"DBSIZE\r\n").context(doing)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context(doing)?;
    let number = line.strip_prefix(':').and_then(|rest| rest.trim_end().parse().ok());
    number.ok_or_else(|| Error::new(format!("Redis says {line:?} instead of a number of keys")))
}
