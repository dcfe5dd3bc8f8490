//! Asks a URL until it answers well: the health check of a new configuration.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use sys::time::Instant;

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest status line that is read, in bytes.
const LINE_MAX: usize = 1000;
/// The first status that is no good answer.
const BAD: u16 = 400;

/// A URL to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// The name or address, with the port if the URL has one.
    host: String,
    path: String,
}

impl Url {
    /// Parses a URL. `Err`: it is none of HTTP without encryption, or could not be sent.
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        let wrong = || format!("--check {text}: the URL begins with http:// and has no blanks");
        let rest = text.strip_prefix("http://").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_graphic()));
        let rest = rest.ok_or_else(wrong)?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if host.is_empty() {
            return Err(wrong());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Url { host: host.into(), path: format!("{slash}{path}") })
    }

    /// Asks once and returns the status, if the whole takes no longer than `end`.
    fn status(&self, end: Instant) -> io::Result<u16> {
        let has_port = self.host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { self.host.clone() } else { format!("{}:80", self.host) };
        let address = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, left(end)?)?;
        stream.set_write_timeout(Some(left(end)?))?;
        let Url { host, path } = self;
        stream.write_all(
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tsubame-ctl\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() < LINE_MAX {
            stream.set_read_timeout(Some(left(end)?))?;
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

/// The time until then.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Asks until the answer is good. `Err`: it was not within that time, and what was wrong at last.
pub(super) fn wait(url: &Url, within: Duration) -> Result<(), String> {
    let end = Instant::now() + within;
    let mut last = String::from("no answer");
    loop {
        match url.status(end) {
            Ok(status) if status < BAD => return Ok(()),
            Ok(status) => last = format!("it answers {status}"),
            // Out of time: what was wrong before says more.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => last = sys::describe(&error),
        }
        if left(end).is_err() {
            let Url { host, path } = url;
            return Err(format!("http://{host}{path} does not answer well within {within:?}: {last}"));
        }
        #[expect(clippy::disallowed_methods, reason = "a program of its own, beside the server")]
        std::thread::sleep(PAUSE);
    }
}
