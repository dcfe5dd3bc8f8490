//! Connections that stay open: idle, slow, or lingering; opened one after the other, with one request each, then only
//! held.

use std::io::BufReader;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::experiments::workload::{LARGE, SMALL};
use crate::load::client::{Connection, Connector};
use crate::load::tls::{Client, Tls};
use crate::machine::descriptors::{self, DESCRIPTORS_IN_RESERVE};
use crate::machine::error::{Error, Result};
use crate::machine::interrupt;
use crate::machine::subprocess::{Subprocess, read_message, write_message};

/// The number of refusals after which we stop trying: each may have waited for its time limit, and the rest would do no
/// better.
const REFUSALS_MAX: u64 = 10;

/// How long a connection may wait for its first response, among thousands of others.
const PATIENCE: Duration = Duration::from_secs(3);

/// Small enough that the server has to keep most of a slow client's response.
const SLOW_BUFFER: usize = 4096;

/// A slow client takes as much as its buffer holds, twice a second.
const SLOW_INTERVAL: Duration = Duration::from_millis(500);

/// The behaviour of the connections in a crowd.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// The connections have received a response and are kept alive.
    Idle,
    /// The clients read a large response slowly.
    Slow,
    /// The connections have received their last response and do not close.
    Lingering,
}

impl Manner {
    fn connect(self, address: SocketAddr, tls: Option<&Client>) -> Result<Connection> {
        let connector = Connector { patience: PATIENCE, ..Connector::default() };
        match self {
            Self::Idle => visit(connector.open_with(address, tls)?, false),
            Self::Slow => {
                let mut connection =
                    Connector { receive_buffer: Some(SLOW_BUFFER), ..connector }.open_with(address, tls)?;
                connection.begin(LARGE.name)?;
                Ok(connection)
            }
            Self::Lingering => visit(connector.open_with(address, tls)?, true),
        }
    }
}

fn visit(mut connection: Connection, close: bool) -> Result<Connection> {
    match connection.get(SMALL.name, close)?.status {
        200 => Ok(connection),
        status => Err(Error::new(format!("status {status}"))),
    }
}

/// The description of a crowd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IdleLoad {
    pub(crate) manner: Manner,
    pub(crate) address: SocketAddr,
    /// The encryption of connections, if any.
    pub(crate) tls: Option<Tls>,
    pub(crate) count: u32,
}

/// Many connections that behave alike, in this process or in subprocesses; dropping them closes them.
#[derive(Debug)]
pub(crate) enum IdleConnections {
    Local(OpenConnections),
    InSubprocesses(Vec<(Subprocess, Missing)>),
}

/// Missing connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    /// Connections that were never established.
    pub(crate) failed: u64,
    /// Connections that were never established, and those that the server has closed since.
    pub(crate) all: u64,
}

/// How many subprocesses are needed for this many connections if a process may open so many files; none if this
/// process can hold them.
pub(crate) fn subprocesses_for(allowed: u64, connections: u32) -> u32 {
    let room = u32::try_from(allowed.saturating_sub(DESCRIPTORS_IN_RESERVE)).unwrap_or(u32::MAX).max(1);
    if connections <= room { 0 } else { connections.div_ceil(room) }
}

impl IdleConnections {
    /// Opens all connections, in this many subprocesses. A server that refuses some is measured with the rest, but the
    /// refusals are counted.
    ///
    /// # Errors
    /// A subprocess cannot be started, or TLS cannot.
    pub(crate) fn open(load: &IdleLoad, subprocesses: u32) -> Result<Self> {
        if subprocesses == 0 {
            return OpenConnections::open(load).map(Self::Local);
        }
        let share = |subprocess: u32| load.count / subprocesses + u32::from(subprocess < load.count % subprocesses);
        let started = (0..subprocesses).map(|subprocess| {
            let mut process = Subprocess::start("idle-copy")?;
            process.send(&IdleLoad { count: share(subprocess), ..load.clone() })?;
            Ok(process)
        });
        let mut started = started.collect::<Result<Vec<Subprocess>>>()?.into_iter();
        let gathered = started.by_ref().map(|mut subprocess| subprocess.receive().map(|lost| (subprocess, lost)));
        gathered.collect::<Result<_>>().map(Self::InSubprocesses)
    }

    /// Reads from all of them in turn, a little each, until told to stop; subprocesses do that on their own.
    pub(crate) fn read_slowly(&mut self, stop: &AtomicBool) {
        if let Self::Local(held) = self {
            held.read_slowly(stop);
        }
    }

    /// Counts missing connections. From then on nobody reads slowly any more.
    pub(crate) fn missing(&mut self) -> Missing {
        match self {
            Self::Local(held) => held.missing(),
            Self::InSubprocesses(subprocesses) => {
                subprocesses.iter_mut().fold(Missing::default(), |sum, (subprocess, known)| {
                    // A subprocess that does not answer has lost at least as many as before.
                    let lost = subprocess.send(&()).and_then(|()| subprocess.receive()).unwrap_or(*known);
                    Missing { failed: sum.failed + lost.failed, all: sum.all + lost.all }
                })
            }
        }
    }
}

/// The work of a subprocess: opens its connections, reports, and reports again on request, until its input ends.
///
/// # Errors
/// The task is unreadable, or as with [`IdleConnections::open`].
pub(crate) fn serve() -> Result<()> {
    descriptors::raise_limit()?;
    let (mut input, mut output) = (BufReader::new(std::io::stdin()), std::io::stdout());
    let Some(load) = read_message::<IdleLoad>(&mut input)? else { return Ok(()) };
    let mut held = OpenConnections::open(&load)?;
    write_message(&mut output, &held.missing())?;
    let stop = AtomicBool::new(matches!(load.manner, Manner::Idle | Manner::Lingering));
    let mut asked = std::thread::scope(|scope| {
        scope.spawn(|| held.read_slowly(&stop));
        let asked = read_message::<()>(&mut input);
        stop.store(true, Relaxed);
        asked
    })?;
    while asked.is_some() {
        write_message(&mut output, &held.missing())?;
        asked = read_message(&mut input)?;
    }
    Ok(())
}

/// Connections that this process holds.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    connections: Vec<Connection>,
    failed: u64,
}

impl OpenConnections {
    fn open(load: &IdleLoad) -> Result<Self> {
        let tls = load.tls.as_ref().map(Tls::client).transpose()?;
        let mut held = Self { connections: Vec::with_capacity(load.count as usize), failed: 0 };
        for _ in 0..load.count {
            match interrupt::check().and_then(|()| load.manner.connect(load.address, tls.as_ref())) {
                Ok(connection) => held.connections.push(connection),
                Err(_) if held.failed == REFUSALS_MAX || interrupt::is_asked() => {
                    held.failed = u64::from(load.count) - held.connections.len() as u64;
                    break;
                }
                Err(_) => held.failed += 1,
            }
        }
        Ok(held)
    }

    fn missing(&mut self) -> Missing {
        let closed: u64 = self.connections.iter_mut().map(|connection| u64::from(!connection.is_open())).sum();
        Missing { failed: self.failed, all: self.failed + closed }
    }

    fn read_slowly(&mut self, stop: &AtomicBool) {
        let pause = SLOW_INTERVAL / self.connections.len().max(1) as u32;
        while !stop.load(Relaxed) && !self.connections.is_empty() {
            let before = self.connections.len();
            self.connections.retain_mut(|connection| {
                std::thread::sleep(pause);
                stop.load(Relaxed) || connection.sip(SLOW_BUFFER)
            });
            self.failed += (before - self.connections.len()) as u64;
        }
    }
}

/// How long a request for the small file takes on a connection of its own, if it is answered within `patience`.
pub(crate) fn fresh(address: SocketAddr, tls: Option<&Client>, patience: Duration) -> Result<Duration> {
    let began = Instant::now();
    visit(Connector { patience, ..Connector::default() }.open_with(address, tls)?, false)?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn subprocesses_are_as_many_as_it_takes() {
        assert_eq!(
            [(1064, 1000), (1063, 1000), (1064, 3000), (10, 3)].map(|(files, all)| subprocesses_for(files, all)),
            [0, 2, 3, 3]
        );
    }

    #[test]
    fn refusals_and_losses_are_counted_apart_from_those_who_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut kept = Vec::new();
            for response in [&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..], b"HTTP/1.1 503 Busy\r\n\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(response).unwrap();
                kept.push(stream);
            }
            kept
        });
        let load = IdleLoad { manner: Manner::Idle, address, tls: None, count: 2 };
        let mut crowd = IdleConnections::open(&load, 0).unwrap();
        assert_eq!(crowd.missing(), Missing { failed: 1, all: 1 });
        drop(server.join().unwrap());
        // A process that another test is just starting may hold a copy of the connections until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(10);
        while crowd.missing().all < 2 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(crowd.missing(), Missing { failed: 1, all: 2 });
    }
}
