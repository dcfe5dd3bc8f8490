//! Connections that stay: idle, slow, or lingering; opened one after the other, one request each, then only held.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::client::{Connection, Dial};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::tls::Client;
use crate::workload::{LARGE, SMALL};

/// Descriptors that a process needs besides its connections.
pub(crate) const DESCRIPTORS_IN_RESERVE: u64 = 64;

/// Refusals after which nobody else tries: each may have waited for its time limit, and the rest would fare alike.
const REFUSALS_MAX: u64 = 10;

/// How long a connection may take to be answered for the first time, among thousands of others.
const PATIENCE: Duration = Duration::from_secs(3);

/// Small enough that most of what a slow client asks for has to stay with the server.
const SLOW_BUFFER: usize = 4096;

/// A slow client takes as much as its buffer holds, twice a second.
const SLOW_INTERVAL: Duration = Duration::from_millis(500);

/// What the connections of a crowd do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// They have got an answer and are kept alive.
    Idle,
    /// They read a large answer slowly.
    Slow,
    /// They have got their last answer and do not close.
    Lingering,
}

impl Manner {
    fn arrive(self, address: SocketAddr, tls: Option<&Client>) -> Result<Connection> {
        let dial = Dial { patience: PATIENCE, ..Dial::default() };
        match self {
            Self::Idle => visit(dial.open_with(address, tls)?, false),
            Self::Slow => {
                let mut connection = Dial { receive_buffer: Some(SLOW_BUFFER), ..dial }.open_with(address, tls)?;
                connection.begin(LARGE.name)?;
                Ok(connection)
            }
            Self::Lingering => visit(dial.open_with(address, tls)?, true),
        }
    }
}

fn visit(mut connection: Connection, close: bool) -> Result<Connection> {
    match connection.get(SMALL.name, close)?.status {
        200 => Ok(connection),
        status => Err(Error::new(format!("status {status}"))),
    }
}

/// Many connections of one manner; dropping them closes them.
#[derive(Debug)]
pub(crate) struct Crowd {
    connections: Vec<Connection>,
    failed: u64,
}

impl Crowd {
    /// Opens `count` connections. A server that refuses some is measured with the others, but the refusals are counted.
    pub(crate) fn gather(manner: Manner, address: SocketAddr, tls: Option<&Client>, count: u32) -> Self {
        let mut connections = Vec::with_capacity(count as usize);
        let mut failed = 0;
        for _ in 0..count {
            match interrupt::check().and_then(|()| manner.arrive(address, tls)) {
                Ok(connection) => connections.push(connection),
                Err(_) if failed == REFUSALS_MAX || interrupt::is_asked() => {
                    failed = u64::from(count) - connections.len() as u64;
                    break;
                }
                Err(_) => failed += 1,
            }
        }
        Self { connections, failed }
    }

    /// Connections that never came about.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Connections that never came about or that the server has closed since.
    pub(crate) fn lost(&mut self) -> u64 {
        let closed = self.connections.iter_mut().filter_map(|connection| (!connection.is_open()).then_some(())).count();
        self.failed + closed as u64
    }

    /// Reads from all of them in turn, a little each, until told to stop.
    pub(crate) fn read_slowly(&mut self, stop: &AtomicBool) {
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

/// Says before anything is started that there cannot be so many connections.
pub(crate) fn check_descriptors(allowed: u64, connections: u32) -> Result<()> {
    if allowed < u64::from(connections) + DESCRIPTORS_IN_RESERVE {
        return Err(Error::new(format!("only {allowed} open files are allowed, {connections} connections need more"))
            .advise("ulimit -n 50000 (as root, or after raising the hard limit)"));
    }
    Ok(())
}

/// How long a request for the small file takes on a connection of its own, if it is answered within `patience`.
pub(crate) fn fresh(address: SocketAddr, tls: Option<&Client>, patience: Duration) -> Result<Duration> {
    let began = Instant::now();
    visit(Dial { patience, ..Dial::default() }.open_with(address, tls)?, false)?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn too_few_descriptors_are_an_error_that_helps() {
        let error = check_descriptors(1024, 10_000).unwrap_err().to_string();
        assert!(error.contains("ulimit -n"), "{error}");
        assert!(check_descriptors(20_000, 10_000).is_ok());
    }

    #[test]
    fn refusals_and_losses_are_counted_apart_from_those_who_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut kept = Vec::new();
            for answer in [&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..], b"HTTP/1.1 503 Busy\r\n\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(answer).unwrap();
                kept.push(stream);
            }
            kept
        });
        let mut crowd = Crowd::gather(Manner::Idle, address, None, 2);
        assert_eq!((crowd.failed(), crowd.lost()), (1, 1));
        drop(server.join().unwrap());
        // A process that another test is just starting may hold a copy of the connections until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(10);
        while crowd.lost() < 2 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((crowd.failed(), crowd.lost()), (1, 2));
    }
}
