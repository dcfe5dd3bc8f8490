//! Asks a URL until it answers well: the health check of a new configuration.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use server::Server;
use server::module::{Duplex, connect};
use sys::time::Instant;

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest status line that is read, in bytes.
const LINE_MAX: usize = 1000;
/// An answer with this status or a larger one is good. Those before are announcements of one.
const GOOD: u16 = 200;
/// The first status that is no good answer.
const BAD: u16 = 400;

/// A URL to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    text: String,
    is_secure: bool,
    /// The name or address, with the port if the URL has one.
    authority: String,
    /// The name or address, without brackets.
    host: String,
    port: u16,
    path: String,
}

impl Url {
    /// Parses a URL. `Err`: it is none of HTTP, or could not be sent.
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        let wrong = || format!("--check {text}: the URL begins with http:// or https:// and has no blanks");
        let (is_secure, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong()),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (authority, if is_secure { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        Ok(Url { text: text.into(), is_secure, authority: authority.into(), host: host.into(), port, path })
    }

    /// Asks once, at this address if one is given, and returns the status, if the whole takes no longer than `end`.
    fn status(&self, at: Option<SocketAddr>, server: &Server, end: Instant) -> io::Result<u16> {
        let resolve = || (&*self.host, self.port).to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound.into());
        let address = at.map_or_else(resolve, io::Result::Ok)?;
        let stream = TcpStream::connect_timeout(&address, left(end)?)?;
        let mut stream: Box<dyn Duplex> = Box::new(Timed { stream, end });
        match self.is_secure {
            true => self.ask(&mut *connect(stream, &self.host, server)?),
            false => self.ask(&mut *stream),
        }
    }

    fn ask(&self, stream: &mut dyn Duplex) -> io::Result<u16> {
        let Url { authority, path, .. } = self;
        stream.write_all(
            format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: tsubame-ctl\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() < LINE_MAX {
            let mut part = [0; 256];
            let count = stream.read(&mut part)?;
            if count == 0 {
                break;
            }
            line.extend_from_slice(&part[..count]);
        }
        let line = String::from_utf8_lossy(&line);
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        status.ok_or_else(|| io::Error::other("this is no answer of HTTP"))
    }
}

/// A connection that may be used until then, however slowly the other side speaks.
struct Timed {
    stream: TcpStream,
    end: Instant,
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.end)?))?;
        self.stream.read(into).map_err(timed_out)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.end)?))?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A time that has passed is told as an operation that would block (socket(7), `SO_RCVTIMEO`).
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

/// The time until then.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The question whether a server is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) url: Url,
    /// The address to connect to, instead of the URL's.
    pub(super) at: Option<SocketAddr>,
    /// How long it may take until the answer is good.
    pub(super) within: Duration,
}

impl Probe {
    /// Asks until the answer is good. `Err`: it was not in time, and what was wrong at last. `server` is the configuration that
    /// should answer: its certificates are trusted.
    pub(super) fn wait(&self, server: &Server) -> Result<(), String> {
        let Probe { url, at, within } = self;
        let end = Instant::now() + *within;
        let mut last = String::from("no answer");
        loop {
            match url.status(*at, server, end) {
                Ok(status) if (GOOD..BAD).contains(&status) => return Ok(()),
                Ok(status) => last = format!("it answers {status}"),
                // Out of time: what was wrong before says more.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => last = sys::describe(&error),
            }
            if left(end).is_err() {
                return Err(format!("{} does not answer well within {within:?}: {last}", url.text));
            }
            #[expect(clippy::disallowed_methods, reason = "a program of its own, beside the server")]
            std::thread::sleep(PAUSE);
        }
    }
}
