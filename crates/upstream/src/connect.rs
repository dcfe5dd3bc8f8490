//! Making connections.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use conf::Level;
use runtime::executor::{Descriptor, connect_local, timeout_at};
use rustls::CertificateError;
use server::{Request, dns};
use sys::local::SocketKind;
use sys::time::Instant;

use crate::connection::Connection;
use crate::remote::{Address, RemoteServer};
use crate::session::Session;
use crate::stream::Stream;
use crate::tally::Fault;
use crate::through::ask_tunnel;
use crate::tls::Tls;

/// Why there is no connection. The reason is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoConnection {
    /// The server cannot be reached.
    Unreachable(u16),
    /// The server must not be connected to.
    Refused,
    /// The server can be reached, but the connection cannot be encrypted as the settings demand.
    Handshake,
}

impl NoConnection {
    /// The status of the response, which is Apache's.
    pub fn status(self) -> u16 {
        match self {
            NoConnection::Unreachable(status) => status,
            NoConnection::Refused => 403,
            NoConnection::Handshake => 500,
        }
    }
}

/// Makes a connection, within the time that the server has to accept it: the handshake of an encrypted one counts.
/// `protocol`: the name of the protocol, for messages.
pub async fn connect(request: &Request, server: &RemoteServer, protocol: &str) -> Result<Connection, NoConnection> {
    let began = Instant::now();
    let connected = connect_until(request, server, protocol, began + server.connect).await;
    let time = began.elapsed();
    if let (Ok(_), Some(upstream)) = (&connected, &request.account.upstream) {
        upstream.set_connected(time);
    }
    if let Some(tally) = &server.tally {
        match &connected {
            Ok(_) => tally.opened(time),
            Err(NoConnection::Unreachable(_)) => tally.fault(Fault::Connect),
            Err(NoConnection::Handshake) => tally.fault(Fault::Tls),
            // That says nothing about the server.
            Err(NoConnection::Refused) => {}
        }
    }
    connected
}

async fn connect_until(
    request: &Request,
    server: &RemoteServer,
    protocol: &str,
    deadline: Instant,
) -> Result<Connection, NoConnection> {
    let (plain, first) = open(request, server, protocol, deadline).await?;
    if !first.is_empty() {
        let text = format!("{protocol}: {} speaks through its tunnel before it is asked", server.name);
        request.log("proxy", Level::Error, text);
        return Err(NoConnection::Unreachable(502));
    }
    let Some(tls) = &server.tls else { return Ok(plain) };
    let secured = timeout_at(deadline, secure(plain, tls)).await;
    secured
        .unwrap_or_else(|_| Err("AH02003: SSL Proxy connect failed: it has been silent for too long".into()))
        .map_err(|why| {
            request.log("proxy", Level::Error, format!("{why} ({})", server.name));
            NoConnection::Handshake
        })
}

/// Makes a connection that is not encrypted, whoever speaks first over it: what the server has said already comes with it.
pub async fn connect_either_first(
    request: &Request,
    server: &RemoteServer,
    protocol: &str,
) -> Result<(Connection, Bytes), NoConnection> {
    open(request, server, protocol, Instant::now() + server.connect).await
}

/// Connects to a server, and through it if it is a proxy. Returns what has come through the tunnel already.
async fn open(
    request: &Request,
    server: &RemoteServer,
    protocol: &str,
    deadline: Instant,
) -> Result<(Connection, Bytes), NoConnection> {
    let socket = reach(request, server, protocol, deadline).await?;
    let plain = Connection::from(Arc::new(socket));
    let Some(through) = server.way.as_ref().and_then(|way| way.tunnel.as_ref()) else {
        return Ok((plain, Bytes::new()));
    };
    ask_tunnel(plain, through, deadline).await.map_err(|why| {
        let text = format!("{protocol}: the proxy {} opens no tunnel to {}: {why}", server.name, through.authority);
        request.log("proxy", Level::Error, text);
        NoConnection::Unreachable(502)
    })
}

/// Makes the handshake of a server behind this one. `Err`: the message for the log.
async fn secure(plain: Connection, tls: &Tls) -> Result<Connection, String> {
    encrypt(plain, tls).await.map_err(|insecure| match insecure {
        Insecure::Handshake(why) => format!("AH02003: SSL Proxy connect failed: {why}"),
        Insecure::Peer(why) => why,
    })
}

/// Why a connection cannot be encrypted as its settings demand.
#[derive(Debug)]
pub enum Insecure {
    /// The handshake failed.
    Handshake(String),
    /// The server's certificates are not those that were expected, in the words of the check.
    Peer(String),
}

/// Makes the handshake of a connection, and checks who answers. The caller sets the deadline.
pub async fn encrypt(plain: Connection, tls: &Tls) -> Result<Connection, Insecure> {
    let client = tls.client().map_err(Insecure::Handshake)?;
    let session = Some(Box::new(Session::new(client)));
    let mut stream = Stream::new(Connection { session, ..plain });
    poll_fn(|cx| stream.poll_handshake(cx)).await.map_err(|error| Insecure::Handshake(describe(&error)))?;
    let certificates = stream.session().map(Session::certificates).unwrap_or_default();
    (tls.settings.check)(certificates, &tls.name).map_err(Insecure::Peer)?;
    let chosen = stream.session().and_then(Session::protocol);
    if let Some(protocol) = tls.protocol.filter(|protocol| chosen != Some(protocol.as_bytes())) {
        return Err(Insecure::Handshake(format!("it does not speak {protocol} (ALPN)")));
    }
    stream.into_connection().ok_or_else(|| Insecure::Handshake("its session is gone".into()))
}

/// Why a handshake failed.
fn describe(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        // The words of the verification.
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(why))) => why.0.to_string(),
        Some(error) => error.to_string(),
        None => sys::describe(error),
    }
}

/// Makes a plain connection to a server without a request. `Err`: why the last of its addresses cannot be reached.
pub async fn connect_plain(address: &Address, deadline: Instant) -> io::Result<Connection> {
    let (host, port) = match address {
        Address::Unix(path) => {
            let path = server::paths::os_path(path);
            let connected = timeout_at(deadline, connect_local(Path::new(&path), SocketKind::Stream)).await;
            return connected.unwrap_or_else(|late| Err(late.into())).map(|socket| Connection::from(Arc::new(socket)));
        }
        Address::Tcp(host, port) => (host, *port),
    };
    let mut last = io::Error::other("its name has no address");
    for ip in dns::all_addresses_of(host).await.map_err(|why| io::Error::other(why.to_string()))? {
        match Descriptor::connect(SocketAddr::new(ip, port), deadline).await {
            Ok(socket) => return socket.as_fd().try_clone_to_owned().map(|socket| Connection::from(Arc::new(socket))),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Makes the connection itself. `Err`: the reason is logged.
async fn reach(
    request: &Request,
    server: &RemoteServer,
    protocol: &str,
    deadline: Instant,
) -> Result<OwnedFd, NoConnection> {
    let log = |error: &io::Error, text: String| request.log_os("proxy", Level::Error, error, text);
    let (host, port) = match &server.address {
        Address::Unix(path) => {
            let path = server::paths::os_path(path);
            let connected = timeout_at(deadline, connect_local(Path::new(&path), SocketKind::Stream)).await;
            return connected.unwrap_or_else(|late| Err(late.into())).map_err(|error| {
                let name = &server.name;
                log(&error, format!("AH02454: {protocol}: attempt to connect to Unix domain socket {name} failed"));
                NoConnection::Unreachable(503)
            });
        }
        Address::Tcp(host, port) => (host, *port),
    };
    let mut addresses = match dns::all_addresses_of(host).await {
        Ok(addresses) => addresses.into_iter(),
        Err(why) => {
            let text = format!("AH00898: DNS lookup failure for: {host} returned by {}: {why}", request.data.uri);
            request.log("proxy", Level::Error, text);
            return Err(NoConnection::Unreachable(500));
        }
    };
    let way = server.way.as_deref();
    let source = way.and_then(|way| way.source);
    loop {
        let Some(ip) = addresses.next() else { return Err(NoConnection::Unreachable(503)) };
        if let Some(why) = way.and_then(|way| way.refuses.as_ref()?(ip)) {
            request.log("proxy", Level::Warn, format!("connect to remote machine {host} blocked: {why}"));
            return Err(NoConnection::Refused);
        }
        let address = SocketAddr::new(ip, port);
        let connected = match Descriptor::connect_from(source, address, deadline).await {
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
