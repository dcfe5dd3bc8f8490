//! Servers that already run: connections to them, and the whole way of a request through one.
//!
//! We start none of them. Each request gets a new connection, unless the configuration keeps connections open
//! ([`Keep`]); then each child keeps a few, as plain descriptors, for requests that may be sent twice.

mod source;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conf::Level;
use runtime::executor::{Descriptor, connect_local, timeout_at};
use server::{HandlerResult, Request, dns};
use sys::local::SocketKind;
use sys::time::Instant;

use super::call::{BackendCall, Head, StderrMessages};
use super::exchange::BackendExchange;
use super::run;
use super::stream::Stream;
use crate::caller::Caller;
use crate::response;
use crate::script::{Failure, Script};

use source::{RemoteSource, StatusLine};

/// The most idle connections to all servers together, whatever is configured.
const IDLE_MAX: usize = 1024;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(String),
    /// A port of a host, given by name or number.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{path}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Connections stay open after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many idle ones a child keeps.
    pub max: usize,
    /// How long, if there is a limit.
    pub idle: Option<Duration>,
}

/// A server that already runs.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Its address.
    pub address: Address,
    /// Its name in messages, as in its URL.
    pub name: String,
    /// How long it may take to accept a connection.
    pub connect: Duration,
    /// Whether connections stay open.
    pub keep: Option<Keep>,
}

/// A protocol of such servers, with the messages about its failures, which are Apache's.
#[derive(Debug)]
pub struct RemoteProtocol {
    /// Its name, for messages about connections.
    pub name: &'static str,
    /// There is no connection to the server of this name.
    pub unconnected: fn(&str) -> String,
    /// The server of this name does not answer properly; the reason follows.
    pub failed: fn(&str) -> String,
    /// The status for that.
    pub status: u16,
    /// Its responses begin with a status line, as in HTTP.
    pub status_line: bool,
}

/// A request to a server that already runs.
#[derive(Clone, Copy, Debug)]
pub struct RemoteCall<'a> {
    /// The module that has a request for the server.
    pub caller: &'a Caller,
    /// The server.
    pub server: &'a RemoteServer,
    /// How its protocol fails.
    pub protocol: &'static RemoteProtocol,
    /// The form of the request's head.
    pub head: &'a Head,
    /// What its standard error is called in the log.
    pub stderr: StderrMessages,
}

impl RemoteCall<'_> {
    /// Lets the server answer the request, whose environment is complete.
    pub async fn respond(&self, request: &mut Request) -> HandlerResult {
        let keep = self.server.keep;
        let env = std::mem::take(&mut request.env);
        let lines: Vec<_> =
            env.iter().map(|(name, value)| (http::text::to_bytes(name), http::text::to_bytes(value))).collect();
        let pairs = lines.iter().map(|(name, value)| (&**name, &**value));
        let bytes = self.head.of_pairs(request, keep.is_some(), pairs);
        drop(lines);
        request.env = env;
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(length) => return run::too_long(request, self.caller, length),
        };
        // The server may end a connection at the very moment it is used: only a request that can be repeated goes over
        // a kept one. For any other the kept connection is closed, because it may occupy the very process that a fresh
        // connection would wait for.
        let may_repeat = request.body.is_none() && run::is_safe(request);
        let mut kept = keep.and_then(|keep| take(&self.server.address, keep)).filter(|_| may_repeat);
        loop {
            let repeat = kept.is_some();
            let awaited_responses = keep.filter(|_| !repeat).map(|_| AwaitedResponse::new(&self.server.address));
            let socket = match kept.take() {
                Some(socket) => socket,
                None => match self.connect(request).await {
                    Ok(socket) => socket,
                    Err(status) => return HandlerResult::Status(status),
                },
            };
            let back = keep.map(|keep| {
                let (address, socket) = (self.server.address.clone(), socket.clone());
                Box::new(move || give(address, keep, socket)) as Box<dyn FnOnce() + Send>
            });
            let mut script = self.script(request, socket, bytes.clone(), back);
            let begun = script.begins(request).await;
            drop(awaited_responses);
            match begun {
                Ok(()) => return response::relay(request, script, self.caller).await,
                Err(failure) if repeat && failure.is_lost() => {}
                Err(failure) => return HandlerResult::Status(self.log(request, failure)),
            }
        }
    }

    /// Sends a request over a connection of its own, and waits until the response begins. `Err`: it does not; this is
    /// the status, and the reason is logged.
    pub(super) async fn begin(&self, request: &mut Request, bytes: Vec<u8>) -> Result<Script, u16> {
        let socket = self.connect(request).await.map_err(|_| self.protocol.status)?;
        let mut script = self.script(request, socket, bytes, None);
        match script.begins(request).await {
            Ok(()) => Ok(script),
            Err(failure) => Err(self.log(request, failure)),
        }
    }

    /// The exchange over a connection, which `back` takes when the response is complete.
    fn script(
        &self,
        request: &mut Request,
        socket: Arc<OwnedFd>,
        bytes: Vec<u8>,
        back: Option<Box<dyn FnOnce() + Send>>,
    ) -> Script {
        let RemoteCall { caller, server, protocol, head, stderr } = *self;
        let call = BackendCall { caller, head, stderr };
        let exchange = BackendExchange::new(request, call, Stream::new(socket), None, bytes);
        let status_line = protocol.status_line.then(StatusLine::default);
        let failed = (protocol.failed)(&server.name);
        let remote = RemoteSource::new(exchange, back, status_line, protocol.status, failed, caller.timeout);
        Script::new(Box::new(remote), caller)
    }

    /// Logs why a response does not begin, and returns its status.
    fn log(&self, request: &Request, failure: Failure) -> u16 {
        request.log(self.caller.module, failure.level, failure.text);
        failure.status
    }

    /// Makes a connection. `Err`: there is none; this is the status, and the reason is logged.
    async fn connect(&self, request: &Request) -> Result<Arc<OwnedFd>, u16> {
        let connected = connect(request, self.server, self.protocol).await;
        if connected.is_err() {
            request.log(self.caller.module, Level::Error, (self.protocol.unconnected)(&self.server.name));
        }
        connected.map(Arc::new)
    }
}

/// Makes a connection. `Err`: there is none; this is the status, and the reason is logged.
async fn connect(request: &Request, server: &RemoteServer, protocol: &RemoteProtocol) -> Result<OwnedFd, u16> {
    let deadline = Instant::now() + server.connect;
    let protocol = protocol.name;
    let log = |error: &io::Error, text: String| request.log_os("proxy", Level::Error, error, text);
    let (host, port) = match &server.address {
        Address::Unix(path) => {
            let path = server::paths::os_path(path);
            let connected = timeout_at(deadline, connect_local(Path::new(&path), SocketKind::Stream)).await;
            return connected.unwrap_or_else(|late| Err(late.into())).map_err(|error| {
                let name = &server.name;
                log(&error, format!("AH02454: {protocol}: attempt to connect to Unix domain socket {name} failed"));
                503
            });
        }
        Address::Tcp(host, port) => (host, *port),
    };
    let mut addresses = match dns::all_addresses_of(host).await {
        Ok(addresses) => addresses.into_iter(),
        Err(why) => {
            let text = format!("AH00898: DNS lookup failure for: {host} returned by {}: {why}", request.data.uri);
            request.log("proxy", Level::Error, text);
            return Err(500);
        }
    };
    loop {
        let Some(ip) = addresses.next() else { return Err(503) };
        let address = SocketAddr::new(ip, port);
        let connected = match Descriptor::connect(address, deadline).await {
            Ok(socket) => socket.as_fd().try_clone_to_owned(),
            Err(error) => Err(error),
        };
        match connected {
            Ok(socket) => {
                // A request is written as a whole; a socket that keeps Nagle's delay also works.
                let _ = sys::socket::set_nodelay(&socket, true);
                return Ok(socket);
            }
            Err(error) => {
                let name = &server.name;
                log(&error, format!("AH00957: {protocol}: attempt to connect to {address} ({name}) failed"));
            }
        }
    }
}

/// An idle connection, and since when.
type Idle = (Arc<OwnedFd>, Instant);

/// The connections of a child to one server.
#[derive(Default)]
struct Connections {
    idle: Vec<Idle>,
    /// Requests over fresh connections that the server has not begun to answer.
    awaited_responses: usize,
}

static CONNECTIONS: Mutex<Option<HashMap<Address, Connections>>> = Mutex::new(None);

fn connections() -> MutexGuard<'static, Option<HashMap<Address, Connections>>> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request over a fresh connection, until its response begins. It may wait for the very process that a kept
/// connection would occupy: meanwhile none is kept.
struct AwaitedResponse(Address);

impl AwaitedResponse {
    fn new(address: &Address) -> AwaitedResponse {
        connections().get_or_insert_default().entry(address.clone()).or_default().awaited_responses += 1;
        AwaitedResponse(address.clone())
    }
}

impl Drop for AwaitedResponse {
    fn drop(&mut self) {
        if let Some(one) = connections().as_mut().and_then(|all| all.get_mut(&self.0)) {
            one.awaited_responses -= 1;
        }
    }
}

/// Takes the kept connection that was used last. Forgets those that the server has closed.
fn take(address: &Address, keep: Keep) -> Option<Arc<OwnedFd>> {
    let mut connections = connections();
    let kept = &mut connections.as_mut()?.get_mut(address)?.idle;
    while let Some((socket, since)) = kept.pop() {
        let is_old = keep.idle.is_some_and(|time| since.elapsed() >= time);
        if !is_old && !sys::socket::has_ended(&*socket).unwrap_or(true) {
            return Some(socket);
        }
    }
    None
}

/// Keeps a connection, if there is room and no request waits for the process at its other end.
fn give(address: Address, keep: Keep, socket: Arc<OwnedFd>) {
    let mut connections = connections();
    let all = connections.get_or_insert_default();
    let count: usize = all.values().map(|one| one.idle.len()).sum();
    let Connections { idle: kept, awaited_responses } = all.entry(address).or_default();
    if let Some(time) = keep.idle {
        kept.retain(|(_, since)| since.elapsed() < time);
    }
    if kept.len() < keep.max && count < IDLE_MAX && *awaited_responses == 0 {
        kept.push((socket, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn connections_are_kept_while_they_are_good() {
        let address = Address::Unix("/connections/are/kept".into());
        let keep = Keep { max: 1, idle: None };
        let pair = || UnixStream::pair().expect("a pair");
        let ((first, _other), (second, gone)) = (pair(), pair());
        give(address.clone(), keep, Arc::new(first.into()));
        give(address.clone(), keep, Arc::new(second.into()));
        drop(gone);
        assert!(take(&address, keep).is_some(), "the first one is good, and for the second there was no room");
        assert!(take(&address, keep).is_none());
        let (first, other) = pair();
        give(address.clone(), keep, Arc::new(first.into()));
        drop(other);
        assert!(take(&address, keep).is_none(), "the server has closed it");
        let (first, _other) = pair();
        give(address.clone(), keep, Arc::new(first.into()));
        assert!(take(&address, Keep { idle: Some(Duration::ZERO), ..keep }).is_none(), "it is too old");
    }
}
