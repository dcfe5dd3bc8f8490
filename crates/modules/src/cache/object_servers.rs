//! Servers of objects, such as Redis and memcached: which of them has a key, connections that stay open, deadlines.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conf::{Cmd, Outcome};
use runtime::executor::timeout_at;
use runtime::release_worker;
use server::module::OBJECT_MAX;
use sha2::{Digest, Sha256};
use sys::time::Instant;
use upstream::{Address, Connection, Insecure, Limit, Stream, Tls, TlsSettings, connect_plain, encrypt};

/// How many connections to a server a child has at most. Requests that find no free one wait for their turn.
const CONNECTIONS_MAX: usize = 16;
/// How long a server is left alone that could not be reached, or did not answer in time: meanwhile nobody waits for it.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// What a server may send beside an object: the lines around it, in bytes.
const AROUND_MAX: usize = 4096;
/// The room for one read, in bytes.
const ROOM: usize = 16 * 1024;
/// The longest line of a reply, in bytes.
const LINE_MAX: usize = 1024;
/// The longest time that a directive of these caches takes.
const HOUR: Duration = Duration::from_secs(3600);

/// The servers of a cache.
pub(super) struct Servers {
    servers: Vec<ObjectServer>,
    /// How long an answer may take.
    timeout: Duration,
    /// How long an idle connection is kept; `None`: as long as the server keeps it.
    ttl: Option<Duration>,
    beginning: Beginning,
}

/// How a connection begins.
#[derive(Default)]
pub(super) struct Beginning {
    /// It is encrypted.
    pub(super) tls: Option<Arc<TlsSettings>>,
    /// What the server has to be told first.
    pub(super) login: Option<Login>,
}

/// How a client shows a server that it may ask.
pub(super) struct Login {
    pub(super) command: Vec<u8>,
    /// Reads the server's consent.
    pub(super) read: Read<()>,
}

struct ObjectServer {
    address: Address,
    /// The connections in use.
    limit: Arc<Limit>,
    /// Connections of this child, the last one used last.
    idle: Mutex<Vec<(Connection, Instant)>>,
    /// Until when it is left alone, in milliseconds of the monotonic clock.
    left_alone: AtomicU64,
}

/// Reads a reply. `Ok(None)`: it is not complete; otherwise the value, and how many bytes the reply has. `Err`: it is no reply,
/// and the connection is useless.
pub(super) type Read<T> = fn(&[u8]) -> io::Result<Option<(T, usize)>>;

/// The servers in a list, `HOST[:PORT][,…]`. `None`: one of them is none.
pub(super) fn addresses(list: &str, port: u16) -> Option<Vec<Address>> {
    let one = |text: &str| {
        let authority = http::Authority::parse(text.trim().as_bytes(), true)?;
        let host = std::str::from_utf8(authority.host).ok().filter(|host| !host.is_empty())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Address::Tcp(host.to_string(), authority.port.unwrap_or(port)))
    };
    list.split(',').map(one).collect()
}

/// Checks the part of a directive after the kind of a cache.
pub(super) fn check(argument: Option<&str>, port: u16, kind: &str) -> Result<(), String> {
    match argument.filter(|list| !list.is_empty()) {
        None => Err(format!("List of server names required to create {kind} socache.")),
        Some(list) if addresses(list, port).is_none() => {
            Err(format!("Failed to Parse {kind} Server: '{list}' is no list of HOST[:PORT]"))
        }
        Some(_) => Ok(()),
    }
}

/// A time up to an hour, as Apache takes it.
pub(super) fn time(cmd: &Cmd<'_>, text: &str) -> Result<Duration, String> {
    let name = cmd.row.name;
    match conf::values::duration(text, Duration::from_secs(1)) {
        None => Err(format!("{name} has wrong format")),
        Some(time) if time > HOUR => Err(format!("{name} can only be 0 or up to one hour.")),
        Some(time) => Ok(time),
    }
}

/// The outcome of a function that takes such a time.
pub(super) fn set_time(cmd: &mut Cmd<'_>, text: &str, set: impl FnOnce(&mut Cmd<'_>, Duration) -> Outcome) -> Outcome {
    let time = time(cmd, text)?;
    set(cmd, time)
}

/// The name of a key in a server: Apache's, which are digits in hexadecimal after the name of the cache's user, as long as it
/// is short enough for any server; otherwise that of its digest.
pub(super) fn name_of(key: &[u8]) -> String {
    /// The longest key of memcached, in bytes.
    const MOST: usize = 250;
    let user = key.iter().position(|byte| *byte == b':').map_or(0, |at| at + 1);
    let (user, key) = key.split_at(user);
    let user = String::from_utf8_lossy(user);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match user.len() + 2 * key.len() {
        ..=MOST => format!("{user}{}", hex(key)),
        _ => format!("{user}sha256-{}", hex(&Sha256::digest(key))),
    }
}

/// The line at the beginning of a reply, and what is behind it. `Ok(None)`: its end has not come.
pub(super) fn line(bytes: &[u8]) -> io::Result<Option<(&[u8], &[u8])>> {
    let part = &bytes[..bytes.len().min(LINE_MAX)];
    match memchr::memmem::find(part, b"\r\n") {
        Some(end) => Ok(Some((&bytes[..end], &bytes[end + 2..]))),
        None if part.len() < LINE_MAX => Ok(None),
        None => Err(broken("it sends a line without an end")),
    }
}

/// The length of an object that a reply announces.
pub(super) fn length(digits: &[u8]) -> io::Result<usize> {
    let length = number(digits).and_then(|number| usize::try_from(number).ok()).filter(|length| *length <= OBJECT_MAX);
    length.ok_or_else(|| broken("it announces an object of an impossible length"))
}

/// A number of nothing but digits.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// A reply that no server of this kind sends.
pub(super) fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Servers {
    /// `timeout` of zero: Apache cannot use a server then.
    pub(super) fn new(list: Vec<Address>, timeout: Duration, ttl: Duration, beginning: Beginning) -> Servers {
        let one = |address| ObjectServer {
            address,
            limit: Limit::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
            left_alone: AtomicU64::new(0),
        };
        let servers = list.into_iter().map(one).collect();
        Servers { servers, timeout, ttl: Some(ttl).filter(|ttl| !ttl.is_zero()), beginning }
    }

    /// Which server has a key.
    pub(super) fn place(&self, name: &str) -> usize {
        let digest: [u8; 32] = Sha256::digest(name).into();
        (usize::from(digest[0]) << 8 | usize::from(digest[1])) % self.servers.len()
    }

    /// The error of a server of a key whose answer is of no use.
    pub(super) fn broken(&self, name: &str, why: &str) -> io::Error {
        broken(&format!("{}: {why}", self.servers[self.place(name)].address))
    }

    /// Has the server of a key answer a request. Objects of a server that is out of reach are not looked for elsewhere: there, old
    /// ones would come back with it.
    pub(super) async fn ask<T: Send>(&self, name: &str, request: &[u8], read: Read<T>) -> io::Result<T> {
        let server = &self.servers[self.place(name)];
        let now = sys::time::monotonic().as_millis() as u64;
        if now < server.left_alone.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::HostUnreachable, format!("{} did not answer", server.address)));
        }
        let deadline = Instant::now() + self.timeout;
        let answer = release_worker(timeout_at(deadline, server.answer(self, request, read, deadline))).await;
        let answer = answer.unwrap_or_else(|late| Err(late.into()));
        answer.map_err(|error| {
            if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::ResourceBusy) {
                let until = sys::time::monotonic() + LEFT_ALONE;
                server.left_alone.store(until.as_millis() as u64, Ordering::Relaxed);
            }
            io::Error::new(error.kind(), format!("{}: {}", server.address, sys::describe(&error)))
        })
    }
}

impl ObjectServer {
    async fn answer<T>(&self, all: &Servers, request: &[u8], read: Read<T>, deadline: Instant) -> io::Result<T> {
        // That says nothing about the server.
        let Some(_permit) = self.limit.permit(deadline).await else { return Err(io::ErrorKind::ResourceBusy.into()) };
        if let Some(connection) = self.take(all.ttl) {
            match self.ask(connection, request, read).await {
                // The server may have closed it just now. Every request may be repeated.
                Err(error) if error.kind() != io::ErrorKind::InvalidData => {}
                answer => return answer,
            }
        }
        let connection = self.connect(&all.beginning, deadline).await?;
        self.ask(connection, request, read).await
    }

    /// A connection over which requests may be sent.
    async fn connect(&self, beginning: &Beginning, deadline: Instant) -> io::Result<Connection> {
        let mut connection = connect_plain(&self.address, deadline).await?;
        if let (Some(settings), Address::Tcp(host, _)) = (&beginning.tls, &self.address) {
            let encrypted = encrypt(connection, &Tls::new(settings.clone(), host)).await;
            connection = encrypted.map_err(|insecure| match insecure {
                Insecure::Handshake(why) | Insecure::Peer(why) => io::Error::other(format!("no encryption: {why}")),
            })?;
        }
        let Some(login) = &beginning.login else { return Ok(connection) };
        let (stream, ()) = talk(connection, &login.command, login.read)
            .await
            .map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, format!("log-in: {error}")))?;
        stream.and_then(Stream::into_connection).ok_or_else(|| broken("it says more than it was asked"))
    }

    /// Sends a request, reads the answer, and keeps the connection.
    async fn ask<T>(&self, connection: Connection, request: &[u8], read: Read<T>) -> io::Result<T> {
        let (stream, value) = talk(connection, request, read).await?;
        if let Some(stream) = stream {
            self.give(stream);
        }
        Ok(value)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Connection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection over which nothing has come.
    fn take(&self, ttl: Option<Duration>) -> Option<Connection> {
        let mut idle = self.idle();
        while let Some((mut connection, since)) = idle.pop() {
            if ttl.is_none_or(|ttl| since.elapsed() < ttl) && connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    fn give(&self, stream: Stream) {
        self.idle().extend(stream.into_connection().map(|connection| (connection, Instant::now())));
    }
}

/// Sends a request, and reads the answer. The stream is there if another request may follow.
async fn talk<T>(connection: Connection, request: &[u8], read: Read<T>) -> io::Result<(Option<Stream>, T)> {
    let mut stream = Stream::new(connection);
    let mut rest = request;
    while !rest.is_empty() {
        let sent = poll_fn(|cx| stream.poll_write(cx, rest)).await?;
        rest = &rest[sent..];
    }
    let mut reply = Vec::new();
    loop {
        // As much as comes, not as much as is announced.
        reply.reserve(ROOM);
        if poll_fn(|cx| stream.poll_read(cx, &mut reply)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((value, length)) = read(&reply)? {
            return Ok((Some(stream).filter(|_| length == reply.len()), value));
        }
        if reply.len() > OBJECT_MAX + AROUND_MAX {
            return Err(broken("its reply has no end"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_servers() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        assert_eq!(addresses("a,b:7", 5), Some(vec![tcp("a", 5), tcp("b", 7)]));
        assert_eq!(addresses("[::1]:9", 5), Some(vec![tcp("::1", 9)]));
        for wrong in ["", "a,", "a:b", "a:70000", ":5", "a:1:2"] {
            assert_eq!(addresses(wrong, 5), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_those_of_apache_if_they_are_short() {
        assert_eq!(
            name_of(b"cache-socache:http://x:80/x.html?"),
            "cache-socache:687474703a2f2f783a38302f782e68746d6c3f"
        );
        let long = name_of(&[&b"cache-socache:"[..], &[b'x'; 500]].concat());
        assert!(long.starts_with("cache-socache:sha256-") && long.len() < 100, "{long}");
    }
}
