//! A TLS handshake as a state machine that never waits and makes no choices: its owner feeds it received bytes, and
//! supplies the configuration that fits the client's ClientHello.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::server::{Accepted, AcceptedAlert, Acceptor, ClientHello};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection};

use super::records::Outgoing;
use super::{ID, Records, Session, Tls, told};
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
    /// Waiting for the ClientHello.
    Hello(Box<Acceptor>),
    /// The ClientHello has arrived; a configuration is needed.
    Greeted(Box<Accepted>),
    /// Exchanging the remaining messages.
    Going(Box<Going>),
    /// The handshake failed; the bytes of the alert are still to be sent.
    Failed(AcceptedAlert, Vec<u8>),
    Over,
}

pub(super) struct Going {
    pub(super) connection: ServerConnection,
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
        Handshake { state: State::Hello(Box::default()) }
    }

    /// Whether the next step computes keys or signatures.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.state, State::Going(_))
    }

    /// Consumes all received bytes and advances the handshake as much as they allow. Computes keys and signatures,
    /// except for the ClientHello.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>, socket: &Arc<Socket>) -> Result<Progress, Broken> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match &mut self.state {
                State::Hello(acceptor) => {
                    acceptor.read_tls(&mut rest).map_err(|error| Broken(error.to_string()))?;
                    match acceptor.accept() {
                        Ok(None) => {}
                        Ok(Some(accepted)) => {
                            self.state = State::Greeted(Box::new(accepted));
                            // Bytes after the ClientHello belong to the handshake too.
                            let used = bytes.len() - rest.len();
                            bytes.drain(..used);
                            return Ok(Progress::Greeted);
                        }
                        Err((error, alert)) => return Err(self.fail(error.to_string(), alert)),
                    }
                }
                State::Going(going) => {
                    going.connection.read_tls(&mut rest).map_err(|error| Broken(error.to_string()))?;
                    if let Err(error) = going.connection.process_new_packets() {
                        return Err(Broken(error.to_string()));
                    }
                    if !going.connection.is_handshaking() {
                        // The first bytes of a request follow; rustls keeps those that it has not read yet.
                        let used = bytes.len() - rest.len();
                        bytes.drain(..used);
                        return self.complete(bytes, socket);
                    }
                }
                State::Greeted(_) | State::Failed(..) | State::Over => break,
            }
        }
        let used = bytes.len() - rest.len();
        bytes.drain(..used);
        match self.state {
            State::Greeted(_) => Ok(Progress::Greeted),
            _ => Ok(Progress::Wants),
        }
    }

    /// The ClientHello; `None` before it has arrived.
    pub(crate) fn hello(&self) -> Option<ClientHello<'_>> {
        match &self.state {
            State::Greeted(accepted) => Some(accepted.client_hello()),
            _ => None,
        }
    }

    /// Continues with this configuration: computes keys and the server's part of the handshake.
    pub(crate) fn configure(&mut self, configured: Configured) -> Result<(), Broken> {
        let State::Greeted(accepted) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Broken("a configuration before the client has spoken".into()));
        };
        let server_name = accepted.client_hello().server_name().map(|name| name.to_ascii_lowercase().into());
        told::take_shown();
        match accepted.into_connection(configured.config) {
            Ok(mut connection) => {
                let certificate = told::take_shown();
                let id = session_id(&mut connection);
                let going = Going { connection, server_name, host: configured.host, certificate, id };
                self.state = State::Going(Box::new(going));
                Ok(())
            }
            Err((error, alert)) => Err(self.fail(error.to_string(), alert)),
        }
    }

    /// Sends pending bytes. Ready once none are left.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &Socket) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Going(going) => {
                while going.connection.wants_write() {
                    ready!(socket.poll_ready(cx, Direction::Write, |socket| {
                        Ok((going.connection.write_tls(&mut Outgoing(socket))?, false))
                    }))?;
                }
            }
            State::Failed(alert, bytes) => {
                while alert.write(bytes)? > 0 {}
                while !bytes.is_empty() {
                    let sent = ready!(socket.poll_ready(cx, Direction::Write, |socket| {
                        Ok((sys::socket::send(socket, bytes, false)?, false))
                    }))?;
                    bytes.drain(..sent);
                }
            }
            State::Hello(_) | State::Greeted(_) | State::Over => {}
        }
        Poll::Ready(Ok(()))
    }

    fn fail(&mut self, why: String, alert: AcceptedAlert) -> Broken {
        self.state = State::Failed(alert, Vec::new());
        Broken(why)
    }

    fn complete(&mut self, rest: &mut Vec<u8>, socket: &Arc<Socket>) -> Result<Progress, Broken> {
        let State::Going(going) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Broken("an end without a beginning".into()));
        };
        let session = Session::of(&going).ok_or_else(|| Broken("a handshake that agreed on nothing".into()))?;
        let records = Records { connection: going.connection, early: std::mem::take(rest), sealed: 0 };
        Ok(Progress::Complete(Arc::new(Tls { socket: socket.clone(), session, records: records.into() })))
    }
}

/// The session's id: random for a new session, which carries it in its tickets. On resumption rustls returns it for TLS
/// 1.3 only.
fn session_id(connection: &mut ServerConnection) -> [u8; ID] {
    let kept = connection.received_resumption_data().and_then(|data| data.try_into().ok());
    let id = kept.unwrap_or_else(sys::random::bytes);
    connection.set_resumption_data(&id);
    id
}
