//! TLS: a transport that encrypts a socket's traffic.
//!
//! rustls makes the handshake and knows no sockets; this module moves its messages. A [`Handshake`] becomes a [`Tls`]
//! when it is complete: from then on we open and seal records ourselves, with the keys that it has agreed on. The code that supplies the configuration ([`Encryption`](crate::Encryption)) selects the
//! certificate.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::AlertDescription;

use self::protection::Fault;
use self::records::Records;
use super::park_state::{HeldMemory, ParkState};
use super::socket::{Direction, Socket};
use crate::message::buffers;
use crate::transport::endpoint::{Counted, Endpoint, Transport};

#[cfg(fuzzing)]
pub mod fuzzing;
pub(crate) mod handshake;
mod handshake_context;
mod protection;
mod records;
pub(crate) mod session;
#[cfg(test)]
mod tests;

pub use self::handshake::Configured;
pub(crate) use self::handshake::{Handshake, Progress};
pub(crate) use self::handshake_context::take_remarks;
pub use self::handshake_context::{remark, resumed, session, shown};
pub use self::session::{ID, Session, Trust};

/// The size of the pieces in which responses are encrypted, in bytes: four full records.
const PIECE: usize = 64 * 1024;

thread_local! {
    /// Holds the records of a piece on their way to the socket.
    static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The decision about a client after its handshake, which may have to wait for others.
pub type Admission = Pin<Box<dyn Future<Output = Admitted> + Send>>;

/// The decision, and lines for the log.
#[derive(Debug)]
pub struct Admitted {
    /// What to log about the client.
    pub remarks: Vec<(conf::Level, String)>,
    /// The decision.
    pub verdict: Verdict,
}

/// Whether a client is served.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client is served.
    Welcome,
    /// The client is served as if it had shown no certificate.
    Anonymous,
    /// The client is refused, and told so by this alert. The text is for the log.
    Refused(AlertDescription, String),
}

/// An encrypted connection.
pub(crate) struct Tls {
    socket: Arc<Socket>,
    session: Session,
    records: Mutex<Records>,
}

impl Tls {
    /// The name of the negotiated protocol.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session.protocol.as_deref()
    }

    /// What the handshake agreed on, before the connection serves anything.
    pub(crate) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Ends the connection before it has served anything, with this alert.
    pub(crate) fn reject(&self, alert: AlertDescription) {
        self.refuse(&mut self.records(), Fault(alert, ""));
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends sealed records. Ready once none are left.
    fn poll_flush(&self, cx: &mut Context<'_>, records: &mut Records) -> Poll<io::Result<()>> {
        while !records.unsent().is_empty() {
            let sent = self.socket.poll_ready(cx, Direction::Write, |socket| {
                let bytes = records.unsent();
                let sent = sys::socket::send(socket, bytes, false)?;
                Ok((sent, sent < bytes.len()))
            });
            let Poll::Ready(sent) = sent else {
                let park_state = self.socket.park_state();
                park_state.hold(HeldMemory::Sealed, records.unsent().len());
                return park_state.poll_evicted(cx).map(|_| Err(io::ErrorKind::TimedOut.into()));
            };
            records.note_sent(sent?);
        }
        self.socket.park_state().hold(HeldMemory::Sealed, 0);
        Poll::Ready(Ok(()))
    }

    /// Seals a piece of at most `most` bytes, unless one has been begun, and sends its records. Returns its length.
    fn poll_piece(
        &self,
        cx: &mut Context<'_>,
        most: usize,
        fill: impl FnMut(&mut Vec<u8>, usize, usize) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let mut records = self.records();
        if records.sealed > 0 {
            ready!(self.poll_flush(cx, &mut records))?;
        } else {
            records.lend(MEMORY.take());
            let sealed = records.seal(most.min(PIECE), fill);
            let flushed = match sealed {
                Ok(sealed) => {
                    records.sealed = sealed;
                    self.poll_flush(cx, &mut records)
                }
                Err(error) => Poll::Ready(Err(error)),
            };
            MEMORY.set(records.reclaim());
            ready!(flushed)?;
        }
        Poll::Ready(Ok(std::mem::take(&mut records.sealed)))
    }

    /// Sends what is unsent, as far as the socket takes it: nobody will come back with the rest. The reactor may not know yet
    /// that the socket takes anything.
    fn say_last(&self, records: &mut Records) {
        while !records.unsent().is_empty() {
            match sys::socket::send(self.socket.descriptor(), records.unsent(), false) {
                Ok(sent) => records.note_sent(sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Ends the connection, and tells the client why.
    fn refuse(&self, records: &mut Records, fault: Fault) -> io::Error {
        records.refuse(&fault);
        self.say_last(records);
        io::Error::new(io::ErrorKind::InvalidData, fault.1)
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
    /// Appends all that arrived: the content of a record cannot be opened in parts.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, _room: usize) -> Poll<io::Result<usize>> {
        let mut records = self.records();
        let before = buffer.len();
        loop {
            if let Err(fault) = records.open(buffer) {
                return Poll::Ready(Err(self.refuse(&mut records, fault)));
            }
            if buffer.len() > before || records.is_at_end() {
                return Poll::Ready(Ok(buffer.len() - before));
            }
            // The end of a handshake, new keys, an alert: the client may wait for it before it sends more.
            if let Poll::Ready(Err(error)) = self.poll_flush(cx, &mut records) {
                return Poll::Ready(Err(error));
            }
            let received = self.socket.poll_ready(cx, Direction::Read, |socket| records.receive(socket));
            let Poll::Ready(received) = received else {
                records.rest();
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
        }
    }

    /// A piece, once encrypted, must be sent: after `Pending`, the next call must pass the same bytes.
    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8], _more: bool) -> Poll<io::Result<usize>> {
        self.poll_piece(cx, bytes.len(), |record, from, count| {
            record.extend_from_slice(&bytes[from..from + count]);
            Ok(count)
        })
    }

    /// As a piece like any other: a small body shares the record of its head.
    fn poll_send_both(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
        _more: bool,
    ) -> Poll<io::Result<usize>> {
        self.poll_piece(cx, first.len() + second.len(), |record, from, count| {
            let (of_first, end) = (from.min(first.len())..(from + count).min(first.len()), from + count);
            record.extend_from_slice(&first[of_first]);
            record.extend_from_slice(&second[from.saturating_sub(first.len())..end.saturating_sub(first.len())]);
            Ok(count)
        })
    }

    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &OwnedFd,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let sent = ready!(self.poll_piece(cx, count, |record, from, count| {
            sys::file::read_at_into(file, record, count, *offset + from as u64)
        }))?;
        *offset += sent as u64;
        Poll::Ready(Ok(sent))
    }

    /// Sealed at once, unless a piece of a response is on its way: what the socket does not take goes out before the next
    /// bytes are received or sent.
    fn poll_say(&self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<usize>> {
        let mut records = self.records();
        if records.sealed > 0 {
            return self.poll_flush(cx, &mut records).map_ok(|()| 0);
        }
        let sealed = records.seal(message.len(), |record, from, count| {
            record.extend_from_slice(&message[from..from + count]);
            Ok(count)
        });
        match self.poll_flush(cx, &mut records) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(sealed),
        }
    }

    fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_reset(cx)
    }

    fn park_state(&self) -> &ParkState {
        self.socket.park_state()
    }

    fn keep(&self, counted: Counted) {
        self.socket.keep(counted);
    }

    fn has_input(&self) -> bool {
        self.records().has_input() || self.socket.has_input()
    }

    fn shutdown(&self) -> io::Result<()> {
        self.close();
        self.socket.shutdown()
    }

    /// Sends close_notify (RFC 8446 section 6.1).
    fn poll_close(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut records = self.records();
        records.close();
        self.poll_flush(cx, &mut records)
    }

    /// Sends close_notify, unless the client has stopped reading.
    fn close(&self) {
        let mut records = self.records();
        records.close();
        self.say_last(&mut records);
    }
}
