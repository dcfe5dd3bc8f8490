//! What an HTTP/1 connection is between two of its stages.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use http1::framing::Persistence;
use seam::Stage;
use seam::executor::Timer;
use seam::scoreboard::Workers;

use super::body::Incoming;
use super::outgoing::Outgoing;
use super::tunnel::Open;
use super::unfinished::Unfinished;
use crate::config::VirtualHost;
use crate::exchange::{Exchange, Running};
use crate::request::hooks::Preface;
use crate::request::{Client, Interim};
use crate::transport::Transport;

/// How much of a head is received at once, in bytes.
pub(in crate::protocol) const HEAD_PIECE: usize = 4096;

/// Why no more of a head is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutOff {
    /// The client took too long.
    Timeout,
    /// Unfinished requests of this process hold all the memory they may.
    NoRoom,
}

/// A connection that speaks HTTP/1, between two stages.
pub(in crate::protocol) struct HttpConnection {
    pub(super) running: Running,
    pub(in crate::protocol) client: Arc<Client>,
    pub(super) transport: Arc<dyn Transport>,
    /// The same for interim responses; a request has it until its answer begins.
    pub(super) interim: Option<Arc<dyn Interim>>,
    pub(super) workers: Arc<Workers>,
    /// Bytes sent and received with the requests that were answered.
    pub(super) traffic: u64,
    /// How long the next request may take to come: `KeepAliveTimeout` of the virtual host that was asked last.
    pub(super) idle_until: Instant,
    pub(super) timer: Timer,
    /// Received and not served yet.
    pub(super) buffer: Vec<u8>,
    /// What the client has to say before its first request, until it was said.
    pub(super) preface: Option<&'static Preface>,
    /// What is in the buffer is all that was read of a head, and why.
    pub(super) cut_off: Option<CutOff>,
    /// Its part of the budget for that.
    pub(super) unfinished: Unfinished,
    /// The turn in which the reactor announced what is in the buffer.
    pub(super) announced: Option<NonZeroU64>,
    /// Requests served in a row without waiting for one.
    pub(super) behind: u32,
    /// The body of the request that is being served.
    pub(super) incoming: Option<Incoming>,
    /// An answer of which a part still has to go out.
    pub(super) sending: Option<Box<Sending>>,
    /// What has become of the connection.
    pub(super) tunnel: Option<Box<Open>>,
    /// What the client wants to become of the connection after the request that is being served.
    pub(super) wish: Persistence,
    /// Bytes received for that request, but for what came of its body behind the head.
    pub(super) received: u64,
    /// How the connection ends once its last answer is sent: what came was no request.
    pub(super) refused: Option<Stage>,
    /// The virtual host that the address stands for; not looked for yet if `None`.
    pub(super) by_address: Option<&'static VirtualHost>,
}

/// An exchange and what is left to send of its answer.
pub(super) struct Sending {
    pub(super) exchange: Exchange,
    pub(super) outgoing: Outgoing,
    pub(super) keep: bool,
    /// The client may still be sending: closing at once could reset the connection under our answer.
    pub(super) linger: bool,
}
