//! The beginning of a connection whose protocol is not known yet: a proxy's announcement of its client (PROXY
//! protocol), then the TLS handshake, or the first bytes of HTTP/2 or HTTP/1. After that another protocol takes over.
//!
//! A handshake that waits for the client is in the stage `ReadHead`, without a worker; one that computes is in `Serve`,
//! and under event needs a worker, not the listener.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use conf::Level;
use runtime::executor::Timer;
use runtime::scoreboard::{self, Workers};
use runtime::{Connection, Stage, Stepping};
use rustls::ProtocolVersion;
use rustls::server::ClientHello;
use sys::time::Instant;

use crate::exchange::Running;
use crate::protocol::h1::connection::{HEAD_PIECE, Http1Connection};
use crate::protocol::h2::Http2Connection;
use crate::protocol::reception;
use crate::request::Client;
use crate::request::client::Announced;
use crate::request::hooks::{Encryption, Preface, PrefaceOutcome};
use crate::settings::core::CoreServer;
use crate::site::server::Server;
use crate::site::vhost::VirtualHost;
use crate::transport::endpoint::{Endpoint, Transport};
use crate::transport::park_state::{HeldMemory, WaitingFor};
use crate::transport::socket::Socket;
use crate::transport::tls::{Admitted, Configured, Handshake, Progress, Tls, Verdict, take_remarks};

/// A connection whose first bytes belong to no protocol yet.
pub(super) struct Negotiation {
    running: Running,
    /// Its encryption, if it is to be encrypted.
    encryption: Option<&'static Encryption>,
    socket: Arc<Socket>,
    local: SocketAddr,
    peer: SocketAddr,
    workers: &'static Workers,
    /// The virtual host of the address.
    host: &'static VirtualHost,
    start: Instant,
    timer: Timer,
    /// Bytes received, but not parsed yet.
    buffer: Vec<u8>,
    received: u64,
    preface: Option<&'static Preface>,
    announced: Option<Announced>,
    state: State,
}

enum State {
    /// The client has sent no handshake bytes yet.
    Silent,
    Shaking(Box<Handshake>),
    /// Another protocol has taken over.
    Negotiated(Box<dyn Connection>),
}

impl Negotiation {
    pub(super) fn new(
        running: Running,
        encryption: Option<&'static Encryption>,
        socket: Arc<Socket>,
        (local, peer): (SocketAddr, SocketAddr),
        workers: &'static Workers,
    ) -> Negotiation {
        let preface = running
            .hooks
            .preface
            .filter(|preface| (preface.is_expected)(running.server, peer.ip().to_canonical(), local));
        Negotiation {
            running,
            encryption,
            socket,
            local,
            peer,
            workers,
            host: running.server.host_at(local, None).0,
            start: Instant::now(),
            timer: Timer::default(),
            buffer: Vec::new(),
            received: 0,
            preface,
            announced: None,
            state: State::Silent,
        }
    }

    /// Continues with the received bytes, until more are needed.
    async fn serve(&mut self) -> Stage {
        loop {
            if let Some(next) = self.move_bytes() {
                return next;
            }
            if let Some(preface) = self.preface {
                match (preface.read)(&self.buffer) {
                    None => return Stage::ReadHead,
                    Some(PrefaceOutcome::Announced(announced, length)) => {
                        self.buffer.drain(..length);
                        self.preface = None;
                        self.announced = Some(announced);
                        if !reception::receive_announced(self.running, &*self.socket, announced, self.workers) {
                            return Stage::Closed;
                        }
                        continue;
                    }
                    Some(PrefaceOutcome::Broken(level, why)) => {
                        runtime::log::log("remoteip", level, format_args!("[client {}] {why}", self.peer));
                        return Stage::Closed;
                    }
                }
            }
            let Some(encryption) = self.encryption else { return self.choose() };
            if let State::Silent = self.state {
                let (child, host) = (std::process::id(), self.host.log_name());
                self.log(Level::Info, format_args!("AH01964: Connection to child {child} established (server {host})"));
            }
            let handshake = match &mut self.state {
                State::Silent if self.buffer[0].is_ascii_uppercase() => return self.speak_plainly(),
                State::Silent => {
                    self.state = State::Shaking(Box::new(Handshake::new()));
                    continue;
                }
                State::Shaking(handshake) => handshake,
                State::Negotiated(_) => return Stage::Serve,
            };
            if handshake.computes() {
                runtime::needs_worker().await;
            }
            let progress = handshake.take(&mut self.buffer, &self.socket);
            for (level, text) in take_remarks() {
                self.host.log("ssl", level, &format!("[client {}] {text}", self.peer));
            }
            match progress {
                Ok(Progress::Wants) => {}
                Ok(Progress::Greeted) => {
                    runtime::needs_worker().await;
                    let Some(hello) = handshake.hello() else { continue };
                    let server = self.running.server;
                    let configured = (encryption.configure)(server, self.local, &hello);
                    let configured = configured.map(|configured| in_order(server, configured, &hello));
                    let configured =
                        configured.and_then(|configured| handshake.configure(configured).map_err(|broken| broken.0));
                    if let Err(why) = configured {
                        return self.fail(&why);
                    }
                }
                Ok(Progress::Complete(tls)) => return self.admit(encryption, tls).await,
                Err(broken) => return self.fail(&broken.0),
            }
        }
    }

    /// Sends pending bytes, and receives if there is nothing left to parse, without waiting. `Some`: the next stage,
    /// because there is nothing to continue with.
    fn move_bytes(&mut self) -> Option<Stage> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_flush(&mut cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Some(self.lost()),
            Poll::Pending => return Some(Stage::ReadHead),
        }
        if self.buffer.is_empty() {
            match self.socket.poll_read(&mut cx, &mut self.buffer, HEAD_PIECE) {
                Poll::Ready(Ok(read)) if read > 0 => self.received += read as u64,
                Poll::Ready(_) => return Some(self.lost()),
                Poll::Pending => return Some(Stage::ReadHead),
            }
        }
        None
    }

    /// Waits for more of the client's bytes, and sends pending ones meanwhile.
    async fn read(&mut self) -> Stage {
        let park_state = self.socket.park_state();
        park_state.wait(WaitingFor::Head, self.start);
        let handshake = match &self.state {
            State::Shaking(handshake) => handshake.held(),
            State::Silent | State::Negotiated(_) => 0,
        };
        park_state.hold(HeldMemory::Input, self.buffer.len() + handshake);
        let next = self.read_on().await;
        self.socket.park_state().go_on();
        next
    }

    async fn read_on(&mut self) -> Stage {
        let mut row = self.workers.acquire();
        row.park();
        let plan = &self.host.plan;
        let mut deadline = Instant::now() + plan.timeout;
        let limit = if self.encryption.is_some() { plan.handshake_timeout } else { plan.head_timeout };
        if let Some(limit) = limit {
            deadline = deadline.min(limit.deadline(self.start, self.received));
        }
        let Negotiation { timer, socket, buffer, state, .. } = self;
        let received = timer.until(
            deadline,
            poll_fn(|cx| {
                let read = match state.poll_flush(cx, socket)? {
                    Poll::Ready(()) => socket.poll_read(cx, buffer, HEAD_PIECE),
                    Poll::Pending => Poll::Pending,
                };
                match read {
                    Poll::Ready(read) => Poll::Ready(read.map(Some)),
                    Poll::Pending => socket.park_state().poll_evicted(cx).map(|_| Ok(None)),
                }
            }),
        );
        match received.await {
            Some(Ok(Some(read))) if read > 0 => {
                self.received += read as u64;
                Stage::Serve
            }
            Some(Ok(Some(_)) | Err(_)) => self.lost(),
            Some(Ok(None)) | None => {
                if self.encryption.is_some() {
                    self.log(Level::Info, format_args!("the TLS handshake took too long"));
                    self.count_failure();
                }
                Stage::Closed
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.state.poll_flush(cx, &self.socket)
    }

    /// The client has gone. If it was silent, it may have opened the connection in advance.
    fn lost(&self) -> Stage {
        if self.received > 0 && self.encryption.is_some() {
            self.log(Level::Info, format_args!("AH02007: SSL handshake stopped: connection was closed"));
            self.count_failure();
        }
        Stage::Closed
    }

    /// The handshake has failed: tells the client so.
    fn fail(&mut self, why: &str) -> Stage {
        self.count_failure();
        let host = &self.host;
        self.log(
            Level::Info,
            format_args!("AH02008: SSL library error 1 in handshake (server {}): {why}", host.log_name()),
        );
        // The alert is a few bytes in an empty buffer; a client that does not take them is not reading.
        let _ = self.poll_flush(&mut Context::from_waker(Waker::noop()));
        let connection = Http1Connection::new(self.running, self.socket.clone(), self.peer, self.workers);
        self.state = State::Negotiated(Box::new(connection));
        Stage::ShortLinger
    }

    /// The client speaks HTTP without TLS: tells it so in plain HTTP.
    fn speak_plainly(&mut self) -> Stage {
        self.count_failure();
        self.log(
            Level::Info,
            format_args!("AH01996: SSL handshake failed: HTTP spoken on HTTPS port; trying to send HTML error page"),
        );
        let mut connection = Http1Connection::new(self.running, self.socket.clone(), self.peer, self.workers);
        connection.misdirected();
        self.state = State::Negotiated(Box::new(connection));
        Stage::Serve
    }

    /// Without encryption: checks whether the client begins with HTTP/2 (RFC 9113 section 3.3).
    fn choose(&mut self) -> Stage {
        let begun = self.buffer.len().min(http::h2::PREFACE.len());
        let is_http2 = self.buffer[..begun] == http::h2::PREFACE[..begun];
        if is_http2 && begun < http::h2::PREFACE.len() {
            return Stage::ReadHead;
        }
        self.speak(self.socket.clone(), is_http2)
    }

    /// The handshake is complete: serves the client, unless the module that encrypts decides otherwise. Nothing goes to
    /// the client meanwhile: in TLS 1.2 its handshake waits, too.
    async fn admit(&mut self, encryption: &Encryption, mut tls: Arc<Tls>) -> Stage {
        let server = self.running.server;
        let admission = Arc::get_mut(&mut tls).and_then(|tls| (encryption.admit)(server, tls.session_mut()));
        let Some(admission) = admission else { return self.speak_over(tls) };
        let Admitted { remarks, verdict } = runtime::release_worker(admission).await;
        for (level, text) in remarks {
            self.host.log("ssl", level, &format!("[client {}] {text}", self.peer));
        }
        match verdict {
            Verdict::Welcome => {}
            Verdict::Anonymous => {
                if let Some(tls) = Arc::get_mut(&mut tls) {
                    tls.session_mut().client_chain.clear();
                }
            }
            Verdict::Refused(alert, why) => {
                tls.reject(alert);
                return self.fail(&why);
            }
        }
        self.speak_over(tls)
    }

    /// The client is admitted.
    fn speak_over(&mut self, tls: Arc<Tls>) -> Stage {
        let is_http2 = tls.protocol() == Some(b"h2");
        if let Some(session) = tls.session() {
            let is_tls13 = session.version == ProtocolVersion::TLSv1_3;
            let outcome = scoreboard::Handshake { is_tls13, is_http2, is_resumed: session.is_resumed };
            self.workers.count_handshake(Some(outcome));
        }
        self.speak(tls, is_http2)
    }

    /// Hands the connection to a protocol, with the bytes already received for it.
    fn speak<T: Transport + 'static>(&mut self, transport: Arc<T>, is_http2: bool) -> Stage {
        let (workers, received) = (self.workers, std::mem::take(&mut self.buffer));
        self.socket.park_state().hold(HeldMemory::Input, 0);
        let announced = self.announced;
        let tell = |client: &Client| announced.into_iter().for_each(|announced| client.announce(announced));
        self.state = State::Negotiated(if is_http2 {
            let client = Arc::new(Client::new(self.peer, transport.clone()));
            tell(&client);
            Box::new(Http2Connection::new(self.running, transport, client, workers, received))
        } else {
            let mut connection = Http1Connection::new(self.running, transport, self.peer, workers);
            tell(&connection.client);
            connection.begin_with(received);
            Box::new(connection)
        });
        Stage::Serve
    }

    /// Counts a handshake that failed. A silent client has not begun one.
    fn count_failure(&self) {
        if self.received > 0 {
            self.workers.count_handshake(None);
        }
    }

    /// Writes to the log of the address's virtual host, as Apache does.
    fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        self.host.log("ssl", level, &format!("[client {}] {text}", self.peer));
    }
}

/// The same configuration, but with the client's order of protocols if the virtual host leaves that to the client
/// (`ProtocolsHonorOrder off`).
fn in_order(server: &Server, configured: Configured, hello: &ClientHello<'_>) -> Configured {
    let ours = &configured.config.alpn_protocols;
    let first = hello.alpn().and_then(|mut names| names.find(|name| ours.iter().any(|own| own == name)));
    match first {
        Some(first) if ours.first().is_some_and(|own| own != first) => {
            if server.hosts[configured.host].settings.get::<CoreServer>().protocols_honor_order() {
                return configured;
            }
            let mut config = (*configured.config).clone();
            config.alpn_protocols = vec![first.to_vec()];
            Configured { config: Arc::new(config), ..configured }
        }
        _ => configured,
    }
}

impl State {
    fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &Socket) -> Poll<std::io::Result<()>> {
        match self {
            State::Shaking(handshake) => handshake.poll_flush(cx, socket),
            State::Silent | State::Negotiated(_) => Poll::Ready(Ok(())),
        }
    }
}

impl Connection for Negotiation {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        if let State::Silent | State::Shaking(_) = self.state {
            return match stage {
                Stage::Serve => Stepping::waiting(self.serve()),
                Stage::ReadHead => Stepping::waiting(self.read()),
                // The server gives the connection up, and the client has requested nothing.
                _ => Stepping::Done(Stage::Closed),
            };
        }
        match &mut self.state {
            State::Negotiated(connection) => connection.step(stage),
            State::Silent | State::Shaking(_) => Stepping::Done(Stage::Closed),
        }
    }

    fn has_input(&self) -> bool {
        match &self.state {
            State::Negotiated(connection) => connection.has_input(),
            State::Silent | State::Shaking(_) => !self.buffer.is_empty() || self.socket.has_input(),
        }
    }
}
