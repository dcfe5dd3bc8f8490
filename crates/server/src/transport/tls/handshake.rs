//! A TLS handshake as a state machine that never waits and makes no choices: its owner feeds it received bytes, and
//! supplies the configuration that fits the client's ClientHello.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use rustls::server::{Accepted, AcceptedAlert, Acceptor, ClientHello, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig};

use super::protection::{HEADER, MOST_CONTENT};
use super::records::{Left, Records};
use crate::transport::socket::{Direction, Socket};
use crate::transport::tls::session::{ID, Session};
use crate::transport::tls::{Tls, handshake_context};

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
    /// Waiting for the ClientHello.
    Hello(PartialMessage),
    /// The ClientHello has arrived, in these bytes; a configuration is needed.
    Greeted(Box<Accepted>, Vec<u8>),
    /// Exchanging the remaining messages.
    InProgress(Box<InProgress>),
    /// The handshake failed; the bytes of the alert are still to be sent.
    Failed(AcceptedAlert, Vec<u8>),
    Over,
}

/// A ClientHello of which a part has arrived. rustls would keep a copy of the part, so it gets the whole at once.
#[derive(Default)]
struct PartialMessage {
    /// All bytes so far.
    seen: Vec<u8>,
    /// Where the first record begins of which the end has not been seen.
    next: usize,
    /// The bytes of the message in the records before it, and the first of them: its type and length.
    have: usize,
    first: Vec<u8>,
}

/// The size of the header of a handshake message, in bytes: type, length.
const MESSAGE_HEADER: usize = 4;

impl PartialMessage {
    /// Whether rustls should look: the message is whole, or is none.
    fn is_due(&mut self) -> bool {
        loop {
            let needs = match self.first[..] {
                [1, a, b, c] => MESSAGE_HEADER + u32::from_be_bytes([0, a, b, c]) as usize,
                [kind, ..] if kind != 1 => return true,
                _ => MESSAGE_HEADER,
            };
            if needs > MOST_UNFINISHED || self.first.len() == MESSAGE_HEADER && self.have >= needs {
                return true;
            }
            let (kind, length) = match self.seen[self.next..] {
                [kind, _, _, high, low, ..] => (kind, usize::from(u16::from_be_bytes([high, low]))),
                [kind, ..] if kind != RECORD_OF_HANDSHAKE => return true,
                _ => return false,
            };
            if kind != RECORD_OF_HANDSHAKE || length == 0 || length > MOST_CONTENT {
                return true;
            }
            let body = self.next + HEADER;
            let Some(content) = self.seen.get(body..body + length) else { return false };
            let missing = MESSAGE_HEADER.saturating_sub(self.first.len()).min(length);
            self.first.extend_from_slice(&content[..missing]);
            self.have += length;
            self.next = body + length;
        }
    }
}

/// The type of a record with handshake messages.
const RECORD_OF_HANDSHAKE: u8 = 22;

/// The most bytes of unfinished messages, as rustls limits them elsewhere.
const MOST_UNFINISHED: usize = 0xffff;

/// The alert that rustls sends where a certificate is missing, as a record; TLS 1.2 does not know it, and has another for
/// that (RFC 5246 section 7.4.6).
const CERTIFICATE_REQUIRED: [u8; 7] = [21, 3, 3, 0, 2, 2, 116];
const HANDSHAKE_FAILURE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];

pub(super) struct InProgress {
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
    /// Needs more bytes from the client.
    Wants,
    /// The ClientHello has arrived: call [`Handshake::configure`] next.
    Greeted,
    /// Complete; the connection continues on this transport.
    Complete(Arc<Tls>),
}

/// The reason why a handshake failed, as a clause for the log.
#[derive(Debug)]
pub(crate) struct HandshakeError(pub(crate) String);

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Handshake {
    pub(crate) fn new() -> Handshake {
        Handshake { state: State::Hello(PartialMessage::default()) }
    }

    /// Whether the next step computes keys or signatures.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.state, State::InProgress(_))
    }

    /// Consumes all received bytes and advances the handshake as much as they allow. Computes keys and signatures,
    /// except for the ClientHello.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>, socket: &Arc<Socket>) -> Result<Progress, HandshakeError> {
        match &mut self.state {
            State::Hello(arriving) => {
                arriving.seen.reserve_exact(bytes.len());
                // Bytes after the ClientHello belong to the handshake too.
                arriving.seen.append(bytes);
                if !arriving.is_due() {
                    return Ok(Progress::Wants);
                }
                let seen = &mut arriving.seen;
                let mut acceptor = Acceptor::default();
                let mut rest = &seen[..];
                let accepted = loop {
                    let read = acceptor.read_tls(&mut rest).map_err(|error| HandshakeError(error.to_string()))?;
                    match acceptor.accept() {
                        Ok(None) if read > 0 => {}
                        accepted => break accepted,
                    }
                };
                match accepted {
                    // Not even a part of a message: what has come so far is not a handshake.
                    Ok(None) if seen.len() > MOST_UNFINISHED => {
                        Err(HandshakeError("the client sent what belongs to no handshake".into()))
                    }
                    Ok(None) => Ok(Progress::Wants),
                    Ok(Some(accepted)) => {
                        self.state = State::Greeted(Box::new(accepted), std::mem::take(seen));
                        Ok(Progress::Greeted)
                    }
                    Err((error, alert)) => Err(self.fail(error.to_string(), alert)),
                }
            }
            State::InProgress(going) => {
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

    /// The bytes that it holds while it waits.
    pub(crate) fn held(&self) -> usize {
        match &self.state {
            State::Hello(arriving) => arriving.seen.len(),
            State::Greeted(_, bytes) | State::Failed(_, bytes) => bytes.len(),
            State::InProgress(going) => going.left.wire.len() + going.left.unsent.len(),
            State::Over => 0,
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
    pub(crate) fn configure(&mut self, configured: Configured) -> Result<(), HandshakeError> {
        let State::Greeted(accepted, wire) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(HandshakeError("a configuration before the client has spoken".into()));
        };
        let server_name = accepted.client_hello().server_name().map(|name| name.to_ascii_lowercase().into());
        let connection = UnbufferedServerConnection::new(configured.config);
        let mut going = Box::new(InProgress {
            connection: connection.map_err(|error| HandshakeError(error.to_string()))?,
            left: Left { wire, ..Left::default() },
            shown: 0,
            server_name,
            host: configured.host,
            certificate: None,
            id: sys::random::bytes(),
        });
        handshake_context::take_shown();
        let advanced = going.advance();
        going.certificate = handshake_context::take_shown();
        self.state = State::InProgress(going);
        advanced.map(|_| ())
    }

    /// Sends pending bytes. Ready once none are left.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &Socket) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::InProgress(going) => poll_send_all(cx, socket, &mut going.left.unsent),
            State::Failed(alert, bytes) => {
                while alert.write(bytes)? > 0 {}
                poll_send_all(cx, socket, bytes)
            }
            State::Hello(..) | State::Greeted(..) | State::Over => Poll::Ready(Ok(())),
        }
    }

    fn fail(&mut self, why: String, alert: AcceptedAlert) -> HandshakeError {
        self.state = State::Failed(alert, Vec::new());
        HandshakeError(why)
    }

    fn complete(&mut self, socket: &Arc<Socket>) -> Result<Progress, HandshakeError> {
        let State::InProgress(going) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(HandshakeError("an end without a beginning".into()));
        };
        let session = going.session().ok_or_else(|| HandshakeError("a handshake that agreed on nothing".into()))?;
        let records = Records::new(going.connection, going.left).map_err(|error| HandshakeError(error.to_string()))?;
        Ok(Progress::Complete(Arc::new(Tls { socket: socket.clone(), session, records: records.into() })))
    }
}

impl InProgress {
    /// What was agreed on; `None`: nothing.
    fn session(&self) -> Option<Session> {
        let connection = &self.connection;
        Some(Session {
            server_name: self.server_name.clone(),
            host: self.host,
            certificate: self.certificate.clone(),
            id: self.id,
            trust: OnceLock::new(),
            version: connection.protocol_version()?,
            suite: connection.negotiated_cipher_suite()?,
            group: connection.negotiated_key_exchange_group().map(|group| group.name()),
            protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
            client_chain: connection
                .peer_certificates()
                .into_iter()
                .flatten()
                .map(|certificate| certificate.clone().into_owned())
                .collect(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    /// Advances as far as the received bytes allow. Whether the handshake is complete.
    fn advance(&mut self) -> Result<bool, HandshakeError> {
        handshake_context::set_session(self.id);
        let advanced = self.process();
        if let Some(id) = handshake_context::take_resumed()
            && self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
        {
            self.id = id;
        }
        advanced
    }

    /// rustls sees one record after the other, and none after the handshake: it would answer an early request for new
    /// keys with a message that it does not hand over.
    fn process(&mut self) -> Result<bool, HandshakeError> {
        let mut broken = None;
        let mut lacks_certificate = false;
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
                        message.encode(&mut unsent[start..]).map_err(|error| HandshakeError(error.to_string()))?;
                    }
                    if lacks_certificate && unsent[start..] == CERTIFICATE_REQUIRED {
                        unsent.truncate(start);
                        unsent.extend_from_slice(&HANDSHAKE_FAILURE);
                    }
                }
                // The messages are sent in their order, before anything else.
                Ok(ConnectionState::TransmitTlsData(messages)) => messages.done(),
                Ok(_) => waits = true,
                Err(error) => {
                    let is_tls12 = self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_2);
                    lacks_certificate = is_tls12 && error == rustls::Error::NoCertificatesPresented;
                    broken = Some(HandshakeError(error.to_string()));
                }
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
                    return Err(HandshakeError("the client sent what belongs to no handshake".into()));
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
