//! Making connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use conf::Level;
use runtime::executor::{Descriptor, connect_local, timeout_at};
use server::{Request, dns};
use sys::local::SocketKind;
use sys::time::Instant;

use crate::remote::{Address, RemoteServer};

/// Makes a connection. `Err`: there is none; this is the status, and the reason is logged.
/// `protocol`: the name of the protocol, for messages.
pub async fn connect(request: &Request, server: &RemoteServer, protocol: &str) -> Result<OwnedFd, u16> {
    let deadline = Instant::now() + server.connect;
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
