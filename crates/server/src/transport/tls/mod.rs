//! TLS: a transport that encrypts what goes over a socket.
//!
//! rustls does the cryptography and knows no sockets; here its records are moved. A [`Handshake`] comes first, and becomes a
//! [`Tls`] when it is complete. Which certificate a client is shown is decided by whoever makes the configuration
//! ([`Encryption`](crate::Encryption)).

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

/// How much of a file is encrypted at once, in bytes: four full records.
const FILE_PIECE: usize = 64 * 1024;

thread_local! {
    /// Where a piece of a file stands between disk and cipher.
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a handshake came to. The same for the connection's whole life.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name that the client asked for (SNI), in lower case.
    pub server_name: Option<Arc<str>>,
    /// The index of the virtual host whose configuration was used.
    pub host: usize,
    /// The version of the protocol.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: SupportedCipherSuite,
    /// The group of the key exchange; a resumed session of TLS 1.2 has none.
    pub group: Option<NamedGroup>,
    /// The protocol that was agreed on (ALPN).
    pub protocol: Option<Vec<u8>>,
    /// The client's certificate and those it has sent with it, in this order; none if it was not asked or has none.
    pub client_chain: Vec<CertificateDer<'static>>,
    /// An earlier session goes on.
    pub is_resumed: bool,
    /// The certificate that the client was shown, or would have been if no earlier session went on, with its chain.
    pub certificate: Option<Arc<CertifiedKey>>,
    /// What stands for the session; one of TLS 1.3 that goes on keeps it.
    pub id: [u8; ID],
    /// What a later look at the client's certificate came to; `None`: it is not good. Whoever looks first puts it in.
    pub trust: OnceLock<Option<Trust>>,
}

/// Bytes of what stands for a session.
pub(crate) const ID: usize = 32;

/// How far a client's certificate is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Why it is accepted without being good, if it is.
    pub flaw: Option<&'static str>,
    /// How many certificates stand above it in the chain.
    pub depth: usize,
}

impl Session {
    /// What a browser of today and this virtual host would come to, for a request that nobody sends.
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

    /// `None`: nothing was agreed on.
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
    /// What came behind the handshake, and was not decrypted yet.
    early: Vec<u8>,
    /// Bytes of the answer that are encrypted, and whose records have not gone out to their end.
    sealed: usize,
}

impl Tls {
    /// The name of the protocol that was agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session.protocol.as_deref()
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the records that there are. Ready once none is left.
    fn poll_flush(&self, cx: &mut Context<'_>, records: &mut Records) -> Poll<io::Result<()>> {
        while records.connection.wants_write() {
            ready!(self.socket.poll_ready(cx, Direction::Write, |socket| {
                Ok((records.connection.write_tls(&mut Outgoing(socket))?, false))
            }))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is sealed; how many bytes of the answer that were.
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
                    // The end of a handshake, new keys, an alert: the client may wait for it before it says more.
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
                    // A connection that waits has no buffer.
                    buffers::give(std::mem::take(buffer));
                }
                return Poll::Pending;
            };
            if received? == 0 {
                // Without a last word of TLS's own. What is missing of a message, HTTP's framing tells.
                return Poll::Ready(Ok(0));
            }
            if let Err(error) = records.connection.process_new_packets() {
                // The client hears why, if it listens.
                let _ = self.poll_flush(cx, &mut records);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }

    /// As with any cipher, what was begun has to be gone on with: where this waits, the next call sends the same bytes.
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

    /// RFC 8446 section 6.1. A client that takes nothing any more does not get it.
    fn close(&self) {
        let mut records = self.records();
        records.connection.send_close_notify();
        let _ = self.poll_flush(&mut Context::from_waker(Waker::noop()), &mut records);
    }
}

impl Records {
    /// Receives what came behind the handshake, if there is any left.
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

    /// Takes what was decrypted. `None`: there is nothing, and more may come.
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
