//! Requests that switch to another protocol, such as WebSockets (RFC 9110 section 7.8, RFC 8441).

use std::os::fd::AsFd as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Version;
use runtime::executor::Descriptor;
use server::{HandlerResult, Request, Tunnel, TunnelStream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use upstream::http1::Exchange;
use upstream::{Connection, Duplex};

use super::response::{EndToEnd, end_to_end};
use crate::proxy::mod_proxy::Destination;

/// The protocol that the client asks for and that the backend may speak.
pub(super) fn wanted(request: &Request, destination: &Destination) -> Option<String> {
    let allowed = destination.upgrade.as_deref()?;
    let asked = request.tunnel_for()?;
    let is_allowed = |name: &&str| allowed.eq_ignore_ascii_case("ANY") || name.eq_ignore_ascii_case(allowed);
    asked.split(',').map(str::trim).filter(|name| !name.is_empty()).find(is_allowed).map(str::to_string)
}

/// The field that a WebSocket over HTTP/1.1 has to have, with a value of ours (RFC 6455 section 4.1).
pub(super) fn key(protocol: &str) -> Option<(&'static str, String)> {
    let is_web_socket = protocol.eq_ignore_ascii_case("websocket");
    is_web_socket.then(|| ("Sec-WebSocket-Key", STANDARD.encode(sys::random::bytes::<16>())))
}

/// Lets client and backend speak with each other, once the backend has agreed. `timeout`: how long both may be silent, if that
/// is longer than `Timeout`.
pub(super) fn make(request: &mut Request, exchange: Exchange, protocol: String, timeout: Duration) -> HandlerResult {
    let (head, bytes) = exchange.head();
    for EndToEnd { name, value, .. } in end_to_end(head, bytes) {
        // The proof that the backend has read a key is for whoever has sent it.
        if request.data.version < Version::Http2 || !name.eq_ignore_ascii_case("Sec-WebSocket-Accept") {
            request.response.headers_out.add(name, value);
        }
    }
    request.response.is_passed_on = true;
    let (Some(connection), first) = exchange.into_tunnel() else { return HandlerResult::Status(500) };
    HandlerResult::Tunnel(Box::new(Tunnel {
        protocol: Some(protocol),
        speak: Box::new(move |client| Box::pin(pass_on(client, connection, first))),
        timeout: Some(timeout),
    }))
}

/// Copies in both directions until both have ended. `first`: what the backend has said already.
pub(in crate::proxy) async fn pass_on(mut client: Box<dyn TunnelStream>, connection: Connection, first: Bytes) {
    match connection.into_descriptor() {
        Ok(socket) => {
            let Ok(backend) = socket.as_fd().try_clone_to_owned().and_then(Descriptor::new) else { return };
            drop(socket);
            copy(&mut client, backend, first).await;
        }
        Err(encrypted) => copy(&mut client, Duplex::new(encrypted), first).await,
    }
}

async fn copy(client: &mut Box<dyn TunnelStream>, mut backend: impl AsyncRead + AsyncWrite + Unpin, first: Bytes) {
    if client.write_all(&first).await.is_ok() && client.flush().await.is_ok() {
        // Whoever ends it with an error has ended it.
        let _ = copy_bidirectional(client, &mut backend).await;
    }
}
