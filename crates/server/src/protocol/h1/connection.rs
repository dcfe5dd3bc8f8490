//! The state of an HTTP/1 connection between two of its stages.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use http::h1::framing::Persistence;
use runtime::Stage;
use runtime::executor::Timer;
use runtime::scoreboard::Workers;
use sys::time::Instant;

use super::body::Incoming;
use crate::exchange::repeat::{Key, Settled};
use crate::exchange::{Exchange, RefusedHead, Running};
use crate::message::interim::Interim;
use crate::message::tunnel::TunnelFuture;
use crate::protocol::h1::outgoing::Outgoing;
use crate::protocol::h2::Http2Connection;
use crate::request::Client;
use crate::request::hooks::Preface;
use crate::request::recurring::Asked;
use crate::site::vhost::VirtualHost;
use crate::transport::endpoint::Transport;
use crate::transport::stream::TunnelTraffic;

/// The size of a read of a head, in bytes.
pub(in crate::protocol) const HEAD_PIECE: usize = 4096;

/// A connection that speaks HTTP/1, between two stages.
pub(in crate::protocol) struct Http1Connection {
    pub(super) running: Running,
    pub(in crate::protocol) client: Arc<Client>,
    pub(super) transport: Arc<dyn Transport>,
    /// Sends interim responses; a request has it until its response begins.
    pub(super) interim: Option<Arc<dyn Interim>>,
    pub(super) workers: &'static Workers,
    /// Bytes sent and received with the requests that were answered.
    pub(super) traffic: u64,
    /// The deadline for the next request: `KeepAliveTimeout` of the last request's virtual host.
    pub(super) idle_until: Instant,
    /// Since when it has waited for that request.
    pub(super) idle_since: Instant,
    /// The request was not there when the wait began.
    pub(super) has_waited: bool,
    pub(super) timer: Timer,
    /// Received and not served yet.
    pub(super) buffer: Vec<u8>,
    /// The preface that the client has to send before its first request, until it has.
    pub(super) preface: Option<&'static Preface>,
    /// The buffer holds all that was read of a head, and this is why.
    pub(super) cut_off: Option<RefusedHead>,
    /// The tick in which the reactor announced the bytes in the buffer.
    pub(super) announced: Option<NonZeroU64>,
    /// Requests served in a row without a wait for one.
    pub(super) behind: u32,
    /// The key of the request that is being served, if its response may be worth remembering.
    pub(super) key: Option<Key>,
    /// The body of the request that is being served.
    pub(super) incoming: Option<Incoming>,
    /// A request whose response another server was asked for that is expected to answer as before.
    pub(super) expecting: Option<Expecting>,
    /// A request whose answer was not the expected one: its handler goes on with it.
    pub(super) unexpected: Option<Box<Exchange>>,
    /// A response of which a part still has to go out.
    pub(super) sending: Option<Box<Sending>>,
    /// The tunnel, if the connection has become one.
    pub(super) tunnel: Option<Box<Open>>,
    /// The connection after a change of its protocol.
    pub(super) upgraded: Option<Box<Http2Connection>>,
    /// The client's wish for the connection after the current request.
    pub(super) wish: Persistence,
    /// Bytes received for that request, without those of its body that came after the head.
    pub(super) received: u64,
    /// How the connection ends once its last response is sent: the input was not a valid request.
    pub(super) refused: Option<Stage>,
    /// The virtual host of the address; `None` until it is looked up.
    pub(super) by_address: Option<&'static VirtualHost>,
}

impl Http1Connection {
    /// A connection over `transport`.
    pub(in crate::protocol) fn new<T>(
        running: Running,
        transport: Arc<T>,
        peer: SocketAddr,
        workers: &'static Workers,
    ) -> Http1Connection
    where
        T: Transport + 'static,
    {
        let now = Instant::now();
        Http1Connection {
            running,
            client: Arc::new(Client::new(peer, transport.clone())),
            interim: Some(transport.clone()),
            transport,
            workers,
            traffic: 0,
            idle_until: now,
            idle_since: now,
            has_waited: false,
            timer: Timer::default(),
            buffer: Vec::new(),
            preface: None,
            cut_off: None,
            announced: None,
            behind: 0,
            key: None,
            incoming: None,
            expecting: None,
            unexpected: None,
            sending: None,
            tunnel: None,
            upgraded: None,
            wish: Persistence::default(),
            received: 0,
            refused: None,
            by_address: None,
        }
    }
}

/// An exchange, and what its response is expected to be.
pub(super) struct Expecting {
    pub(super) exchange: Exchange,
    pub(super) settled: Arc<Settled>,
    pub(super) asked: Box<dyn Asked>,
    /// When the other server has had enough time.
    pub(super) deadline: Instant,
}

/// An exchange and the unsent rest of its response.
pub(super) struct Sending {
    pub(super) exchange: Exchange,
    pub(super) outgoing: Outgoing,
    /// The length of the head, in bytes.
    pub(super) head_len: u64,
    pub(super) keep: bool,
    /// The client may still be sending: closing at once could reset the connection under our response.
    pub(super) linger: bool,
}

/// A tunnel that is open.
pub(crate) struct Open {
    pub(super) sending: Sending,
    pub(super) speaking: TunnelFuture,
    pub(super) carried: Arc<TunnelTraffic>,
    /// How long it may be silent.
    pub(super) timeout: Duration,
}
