//! TLS: a transport that encrypts a socket's traffic.
//!
//! rustls does the cryptography and knows no sockets; this module moves its records. A [`Handshake`] becomes a [`Tls`]
//! when it is complete. The code that supplies the configuration ([`Encryption`](crate::Encryption)) selects the
//! certificate.

mod handshake;
mod records;
#[cfg(test)]
mod tests;
mod told;

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{HandshakeKind, NamedGroup, ProtocolVersion, ServerConnection, SupportedCipherSuite};

pub use self::handshake::Configured;
use self::handshake::Going;
pub(crate) use self::handshake::{Handshake, Progress};
use self::records::{Incoming, Outgoing};
pub(crate) use self::told::take_remarks;
pub use self::told::{remark, shown};
use super::socket::{Direction, Socket};
use super::{Endpoint, Transport, buffers};

/// The size of the pieces in which a file is encrypted, in bytes: four full records.
const FILE_PIECE: usize = 64 * 1024;

thread_local! {
    /// Holds a piece of a file between disk and cipher.
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The result of a handshake. It does not change during the connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name that the client asked for (SNI), in lower case.
    pub server_name: Option<Arc<str>>,
    /// The index of the virtual host whose configuration was used.
    pub host: usize,
    /// The protocol version.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: SupportedCipherSuite,
    /// The group of the key exchange; a resumed TLS 1.2 session has none.
    pub group: Option<NamedGroup>,
    /// The negotiated protocol (ALPN).
    pub protocol: Option<Vec<u8>>,
    /// The client's certificate and the others it sent, in this order; empty if the client was not asked or has none.
    pub client_chain: Vec<CertificateDer<'static>>,
    /// The handshake resumed an earlier session.
    pub is_resumed: bool,
    /// The server certificate with its chain. In a resumed session, the one that a full handshake would have shown.
    pub certificate: Option<Arc<CertifiedKey>>,
    /// The session's id; a resumed TLS 1.3 session keeps it.
    pub id: [u8; ID],
    /// The result of verifying the client's certificate again after the handshake; `None`: it is not valid. Filled on
    /// first use.
    pub trust: OnceLock<Option<Trust>>,
}

/// The size of a session id, in bytes.
pub(crate) const ID: usize = 32;

/// The trust in a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Why the server accepts the certificate although it is not valid.
    pub flaw: Option<&'static str>,
    /// The number of certificates above it in the chain.
    pub depth: usize,
}

impl Session {
    /// The session that a current browser and this virtual host would negotiate, for a simulated request.
    pub(crate) fn usual(host: usize, asked: Option<&str>) -> Session {
        let name = asked.map(|asked| asked.split(':').next().unwrap_or_default().to_ascii_lowercase());
        Session {
            server_name: name.filter(|name| name.parse::<std::net::IpAddr>().is_err()).map(Arc::from),
            host,
            version: ProtocolVersion::TLSv1_3,
            suite: cipher_suite::TLS13_AES_256_GCM_SHA384,
            group: Some(NamedGroup::X25519MLKEM768),
            protocol: None,
            client_chain: Vec::new(),
            is_resumed: false,
            certificate: None,
            id: [0; ID],
            trust: OnceLock::new(),
        }
    }

    /// `None`: nothing was negotiated.
    fn of(going: &Going) -> Option<Session> {
        let connection = &going.connection;
        Some(Session {
            server_name: going.server_name.clone(),
            host: going.host,
            certificate: going.certificate.clone(),
            id: going.id,
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
}

/// An encrypted connection.
pub(crate) struct Tls {
    socket: Arc<Socket>,
    session: Session,
    records: Mutex<Records>,
}

struct Records {
    connection: ServerConnection,
    /// Bytes received after the handshake, not decrypted yet.
    early: Vec<u8>,
    /// Bytes of the answer that are encrypted, but whose records have not been sent completely.
    sealed: usize,
}

impl Tls {
    /// The name of the negotiated protocol.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session.protocol.as_deref()
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends pending records. Ready once none are left.
    fn poll_flush(&self, cx: &mut Context<'_>, records: &mut Records) -> Poll<io::Result<()>> {
        while records.connection.wants_write() {
            ready!(self.socket.poll_ready(cx, Direction::Write, |socket| {
                Ok((records.connection.write_tls(&mut Outgoing(socket))?, false))
            }))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the sealed records; returns how many bytes of the answer they hold.
    fn poll_sealed(&self, cx: &mut Context<'_>, records: &mut Records) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx, records))?;
        Poll::Ready(Ok(std::mem::take(&mut records.sealed)))
    }
}

impl Endpoint for Tls {
    fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local()
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }

    fn has_ended(&self) -> bool {
        self.socket.has_ended()
    }
}

impl Transport for Tls {
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>> {
        let mut records = self.records();
        loop {
            if let Some(read) = records.take(buffer, room)? {
                return Poll::Ready(Ok(read));
            }
            let received = match records.take_early() {
                Some(received) => Poll::Ready(received),
                None => {
                    // The end of a handshake, new keys, an alert: the client may wait for it before it sends more.
                    if let Poll::Ready(Err(error)) = self.poll_flush(cx, &mut records) {
                        return Poll::Ready(Err(error));
                    }
                    self.socket.poll_ready(cx, Direction::Read, |socket| {
                        let mut incoming = Incoming::new(socket);
                        let read = records.connection.read_tls(&mut incoming)?;
                        Ok((read, incoming.is_exhausted))
                    })
                }
            };
            let Poll::Ready(received) = received else {
                if buffer.is_empty() {
                    // A waiting connection holds no buffer.
                    buffers::give(std::mem::take(buffer));
                }
                return Poll::Pending;
            };
            if received? == 0 {
                // The end without a closing alert. HTTP's framing shows whether anything is missing.
                return Poll::Ready(Ok(0));
            }
            if let Err(error) = records.connection.process_new_packets() {
                // Sends the alert with the reason, if the client still reads.
                let _ = self.poll_flush(cx, &mut records);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }

    /// A piece, once encrypted, must be sent: after `Pending`, the next call must pass the same bytes.
    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8], _more: bool) -> Poll<io::Result<usize>> {
        let mut records = self.records();
        if records.sealed == 0 {
            records.sealed = records.connection.writer().write(bytes)?;
        }
        self.poll_sealed(cx, &mut records)
    }

    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &OwnedFd,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let mut records = self.records();
        if records.sealed == 0 {
            records.sealed = PIECE.with_borrow_mut(|piece| {
                piece.resize(FILE_PIECE, 0);
                let read = sys::file::read_at(file, &mut piece[..count.min(FILE_PIECE)], *offset)?;
                records.connection.writer().write(&piece[..read])
            })?;
        }
        let sent = ready!(self.poll_sealed(cx, &mut records))?;
        *offset += sent as u64;
        Poll::Ready(Ok(sent))
    }

    fn reset(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.socket.reset()
    }

    fn has_input(&self) -> bool {
        let mut records = self.records();
        let has_plaintext = records.connection.reader().into_first_chunk().is_ok_and(|chunk| !chunk.is_empty());
        let is_known = has_plaintext || !records.early.is_empty();
        drop(records);
        is_known || self.socket.has_input()
    }

    fn shutdown(&self) -> io::Result<()> {
        self.close();
        self.socket.shutdown()
    }

    /// Sends close_notify (RFC 8446 section 6.1), unless the client has stopped reading.
    fn close(&self) {
        let mut records = self.records();
        records.connection.send_close_notify();
        let _ = self.poll_flush(&mut Context::from_waker(Waker::noop()), &mut records);
    }
}

impl Records {
    /// Decrypts bytes received after the handshake, if any are left.
    fn take_early(&mut self) -> Option<io::Result<usize>> {
        if self.early.is_empty() {
            return None;
        }
        let mut rest = &self.early[..];
        let read = self.connection.read_tls(&mut rest);
        let used = self.early.len() - rest.len();
        self.early.drain(..used);
        if self.early.is_empty() {
            self.early = Vec::new();
        }
        Some(read)
    }

    /// Takes decrypted bytes. `None`: there are none now, but more may arrive.
    fn take(&mut self, buffer: &mut Vec<u8>, room: usize) -> io::Result<Option<usize>> {
        use std::io::BufRead;

        let mut reader = self.connection.reader();
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
            Err(error) => return Err(error),
        };
        if buffer.capacity() == 0 && !chunk.is_empty() {
            *buffer = buffers::take();
        }
        buffer.reserve(room);
        let count = chunk.len().min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&chunk[..count]);
        reader.consume(count);
        Ok(Some(count))
    }
}
