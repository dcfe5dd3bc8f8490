//! Tunnels through a proxy (RFC 9110 section 9.3.6).

use std::fmt;

use bytes::Bytes;
use http::{HeadWriter, Version};
use runtime::executor::timeout_at;
use sys::time::Instant;

use crate::connection::Connection;
use crate::http1::{Exchange, Failure};
use crate::remote::Through;
use crate::room::Room;
use crate::stream::Stream;

/// Why a proxy opens no tunnel.
#[derive(Debug)]
pub(crate) enum NoTunnel {
    /// It answers with this status.
    Status(u16),
    /// It does not answer as it should.
    Failure(Failure),
    /// The name of the server cannot be sent.
    Name,
}

impl fmt::Display for NoTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTunnel::Status(status) => write!(f, "it answers {status}"),
            NoTunnel::Failure(failure) => failure.fmt(f),
            NoTunnel::Name => f.write_str("the name of the server holds a character that cannot be sent"),
        }
    }
}

/// Asks a proxy for a tunnel over a connection to it. Returns the connection, and what has come through the tunnel already.
pub(crate) async fn ask_tunnel(
    connection: Connection,
    through: &Through,
    deadline: Instant,
) -> Result<(Connection, Bytes), NoTunnel> {
    let mut room = Room::take();
    room.request = head(through).ok_or(NoTunnel::Name)?;
    let mut exchange = Exchange::new(Stream::new(connection), room, None, deadline - Instant::now());
    let answered = timeout_at(deadline, async {
        loop {
            exchange.next_head().await?;
            let (head, bytes) = exchange.head();
            if head.status(bytes) >= 200 {
                return Ok(head.status(bytes));
            }
        }
    });
    let status = answered.await.unwrap_or(Err(Failure::TimedOut)).map_err(NoTunnel::Failure)?;
    if !(200..300).contains(&status) {
        return Err(NoTunnel::Status(status));
    }
    let (connection, first) = exchange.into_tunnel();
    Ok((connection.ok_or(NoTunnel::Failure(Failure::Lost(None)))?, first))
}

/// The head of the request. `None`: a value cannot be sent.
fn head(through: &Through) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    let authority = http::text::to_bytes(&through.authority);
    let mut head = HeadWriter::start_request(&mut out, b"CONNECT", &authority, Version::Http11).ok()?;
    head.field("Host", &authority).ok()?;
    if let Some(credentials) = &through.credentials {
        head.field("Proxy-Authorization", credentials.as_bytes()).ok()?;
    }
    head.end();
    Some(out)
}
