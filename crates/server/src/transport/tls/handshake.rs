//! A TLS handshake as a state machine that never waits and makes no choices: its owner feeds it received bytes, and
//! supplies the configuration that fits the client's ClientHello.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::server::{Accepted, AcceptedAlert, Acceptor, ClientHello, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{HandshakeKind, ServerConfig};

use super::protection::HEADER;
use super::records::{Left, Records};
use super::{ID, Session, Tls, told};
use crate::transport::socket::{Direction, Socket};

/// The configuration selected for a client.
pub struct Configured {
    /// The index of the virtual host that the configuration belongs to.
    pub host: usize,
    /// The configuration.
    pub config: Arc<ServerConfig>,
}

/// A handshake in progress.
pub(crate) struct Handshake {
    state: State,
}

enum State {
    /// Waiting for the ClientHello, with the bytes received so far.
    Hello(Box<Acceptor>, Vec<u8>),
    /// The ClientHello has arrived, in these bytes; a configuration is needed.
    Greeted(Box<Accepted>, Vec<u8>),
    /// Exchanging the remaining messages.
    Going(Box<Going>),
    /// The handshake failed; the bytes of the alert are still to be sent.
    Failed(AcceptedAlert, Vec<u8>),
    Over,
}

/// The most bytes of unfinished messages, as rustls limits them elsewhere.
const MOST_UNFINISHED: usize = 0xffff;

pub(super) struct Going {
    pub(super) connection: UnbufferedServerConnection,
    left: Left,
    /// The end of the last record in `left.wire` that rustls may see.
    shown: usize,
    pub(super) server_name: Option<Arc<str>>,
    pub(super) host: usize,
    pub(super) certificate: Option<Arc<CertifiedKey>>,
    pub(super) id: [u8; ID],
}

/// The state of a handshake after a step.
pub(crate) enum Progress {
    /// It needs more bytes from the client.
    Wants,
    /// The ClientHello has arrived: call [`Handshake::configure`] next.
    Greeted,
    /// It is complete; the connection continues on this transport.
    Complete(Arc<Tls>),
}

/// The reason why a handshake failed, as a clause for the log.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Handshake {
    pub(crate) fn new() -> Handshake {
        Handshake { state: State::Hello(Box::default(), Vec::new()) }
    }

    /// Whether the next step computes keys or signatures.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.state, State::Going(_))
    }

    /// Consumes all received bytes and advances the handshake as much as they allow. Computes keys and signatures,
    /// except for the ClientHello.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>, socket: &Arc<Socket>) -> Result<Progress, Broken> {
        match &mut self.state {
            State::Hello(acceptor, seen) => {
                let mut rest = &bytes[..];
                let accepted = loop {
                    let read = acceptor.read_tls(&mut rest).map_err(|error| Broken(error.to_string()))?;
                    match acceptor.accept() {
                        Ok(None) if read > 0 => {}
                        accepted => break accepted,
                    }
                };
                // Bytes after the ClientHello belong to the handshake too.
                seen.append(bytes);
                match accepted {
                    Ok(None) => Ok(Progress::Wants),
                    Ok(Some(accepted)) => {
                        self.state = State::Greeted(Box::new(accepted), std::mem::take(seen));
                        Ok(Progress::Greeted)
                    }
                    Err((error, alert)) => Err(self.fail(error.to_string(), alert)),
                }
            }
            State::Going(going) => {
                going.left.wire.append(bytes);
                if !going.advance()? {
                    return Ok(Progress::Wants);
                }
                self.complete(socket)
            }
            State::Greeted(..) => Ok(Progress::Greeted),
            State::Failed(..) | State::Over => {
                bytes.clear();
                Ok(Progress::Wants)
            }
        }
    }

    /// The ClientHello; `None` before it has arrived.
    pub(crate) fn hello(&self) -> Option<ClientHello<'_>> {
        match &self.state {
            State::Greeted(accepted, _) => Some(accepted.client_hello()),
            _ => None,
        }
    }

    /// Continues with this configuration: computes keys and the server's part of the handshake.
    pub(crate) fn configure(&mut self, configured: Configured) -> Result<(), Broken> {
        let State::Greeted(accepted, wire) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Broken("a configuration before the client has spoken".into()));
        };
        let server_name = accepted.client_hello().server_name().map(|name| name.to_ascii_lowercase().into());
        let connection = UnbufferedServerConnection::new(configured.config);
        let mut going = Box::new(Going {
            connection: connection.map_err(|error| Broken(error.to_string()))?,
            left: Left { wire, ..Left::default() },
            shown: 0,
            server_name,
            host: configured.host,
            certificate: None,
            id: sys::random::bytes(),
        });
        told::take_shown();
        let advanced = going.advance();
        going.certificate = told::take_shown();
        self.state = State::Going(going);
        advanced.map(|_| ())
    }

    /// Sends pending bytes. Ready once none are left.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &Socket) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Going(going) => poll_send_all(cx, socket, &mut going.left.unsent),
            State::Failed(alert, bytes) => {
                while alert.write(bytes)? > 0 {}
                poll_send_all(cx, socket, bytes)
            }
            State::Hello(..) | State::Greeted(..) | State::Over => Poll::Ready(Ok(())),
        }
    }

    fn fail(&mut self, why: String, alert: AcceptedAlert) -> Broken {
        self.state = State::Failed(alert, Vec::new());
        Broken(why)
    }

    fn complete(&mut self, socket: &Arc<Socket>) -> Result<Progress, Broken> {
        let State::Going(going) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Broken("an end without a beginning".into()));
        };
        let session = Session::of(&going).ok_or_else(|| Broken("a handshake that agreed on nothing".into()))?;
        let records = Records::new(going.connection, going.left).map_err(|error| Broken(error.to_string()))?;
        Ok(Progress::Complete(Arc::new(Tls { socket: socket.clone(), session, records: records.into() })))
    }
}

impl Going {
    /// Advances as far as the received bytes allow. Whether the handshake is complete.
    fn advance(&mut self) -> Result<bool, Broken> {
        told::set_session(self.id);
        let advanced = self.process();
        if let Some(id) = told::take_resumed()
            && self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
        {
            self.id = id;
        }
        advanced
    }

    /// rustls sees one record after the other, and none after the handshake: it would answer an early request for new
    /// keys with a message that it does not hand over.
    fn process(&mut self) -> Result<bool, Broken> {
        let mut broken = None;
        loop {
            let Left { wire, unsent } = &mut self.left;
            let seen = self.shown.min(wire.len());
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut wire[..seen]);
            let mut waits = false;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let start = unsent.len();
                    if let Err(EncodeError::InsufficientSize(needs)) = message.encode(&mut []) {
                        unsent.resize(start + needs.required_size, 0);
                        message.encode(&mut unsent[start..]).map_err(|error| Broken(error.to_string()))?;
                    }
                }
                // They are sent in their order, before anything else.
                Ok(ConnectionState::TransmitTlsData(messages)) => messages.done(),
                Ok(_) => waits = true,
                Err(error) => broken = Some(Broken(error.to_string())),
            }
            wire.drain(..discard);
            self.shown -= discard;
            // After an error, only the alert with the reason is left to encode.
            if let Some(broken) = broken.take_if(|_| !self.connection.wants_write()) {
                return Err(broken);
            }
            if !waits {
                continue;
            }
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match wire.get(self.shown..) {
                Some(&[_, _, _, high, low, ..]) => self.shown += HEADER + usize::from(u16::from_be_bytes([high, low])),
                _ if wire.len() > MOST_UNFINISHED => {
                    return Err(Broken("the client sent what belongs to no handshake".into()));
                }
                _ => return Ok(false),
            }
        }
    }
}

/// Sends all of `bytes`, and removes what was sent.
fn poll_send_all(cx: &mut Context<'_>, socket: &Socket, bytes: &mut Vec<u8>) -> Poll<io::Result<()>> {
    while !bytes.is_empty() {
        let sent = ready!(
            socket.poll_ready(cx, Direction::Write, |socket| { Ok((sys::socket::send(socket, bytes, false)?, false)) })
        )?;
        bytes.drain(..sent);
    }
    Poll::Ready(Ok(()))
}
