//! TLS of one connection of the generator: records in, content out, and the other way round. No I/O.

use std::fmt;

use rustls::HandshakeKind;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};

use crate::load::failure::Failure;
use crate::load::tls::{Agreed, Client};

/// The most bytes that a record adds to its content: its head, and the overhead of TLS 1.2 or 1.3.
const OVERHEAD: usize = 64;
/// The most content in a record, in bytes (RFC 8446 section 5.1).
const RECORD: usize = 16 * 1024;

/// A connection's TLS.
pub(super) struct TlsSession {
    connection: UnbufferedClientConnection,
    /// The received part of an incomplete record.
    rest: Vec<u8>,
    /// Bytes to send.
    pub(super) out: Vec<u8>,
    /// The handshake is complete.
    pub(super) is_ready: bool,
    /// The server has announced the end.
    pub(super) is_ended: bool,
    /// The fault, if it is broken.
    pub(super) complaint: Option<String>,
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("is_ready", &self.is_ready)
            .field("complaint", &self.complaint)
            .finish_non_exhaustive()
    }
}

/// Takes received content.
type Take<'t> = dyn FnMut(&[u8]) -> Result<(), Failure> + 't;

impl TlsSession {
    /// Begins a handshake.
    pub(super) fn open(client: &Client) -> Result<Self, Failure> {
        let connection = UnbufferedClientConnection::new(client.config.clone(), client.name.clone());
        let mut session = Self {
            connection: connection.map_err(|_| BROKEN)?,
            rest: Vec::new(),
            out: Vec::new(),
            is_ready: false,
            is_ended: false,
            complaint: None,
        };
        session.advance(&mut [], &[], &mut |_| Ok(()))?;
        Ok(session)
    }

    /// How many bytes it has kept: the next input belongs after them.
    pub(super) fn kept(&self) -> usize {
        self.rest.len()
    }

    /// Reads on. The kept bytes are put at the beginning of `bytes`.
    pub(super) fn read(&mut self, bytes: &mut [u8], take: &mut Take<'_>) -> Result<(), Failure> {
        bytes[..self.rest.len()].copy_from_slice(&self.rest);
        let used = self.advance(bytes, &[], take)?;
        self.rest.clear();
        self.rest.extend_from_slice(&bytes[used..]);
        Ok(())
    }

    /// Encrypts, once it is ready.
    pub(super) fn write(&mut self, plain: &[u8]) -> Result<(), Failure> {
        let mut rest = std::mem::take(&mut self.rest);
        let used = self.advance(&mut rest, plain, &mut |_| Ok(()))?;
        rest.drain(..used);
        self.rest = rest;
        Ok(())
    }

    /// Announces the end.
    pub(super) fn end(&mut self) {
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) =
            self.connection.process_tls_records(&mut self.rest).state
        {
            put(&mut self.out, OVERHEAD, |out| traffic.queue_close_notify(out).unwrap_or(0));
        }
    }

    /// The negotiated parameters.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        Agreed::of(&self.connection)
    }

    /// Whether it resumes an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The protocol that the server has chosen.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Processes these records as far as possible, and sends `plain` if it may. Returns how many bytes were consumed.
    fn advance(&mut self, bytes: &mut [u8], plain: &[u8], take: &mut Take<'_>) -> Result<usize, Failure> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut bytes[used..]);
            let mut is_done = false;
            let complain = |error: rustls::Error| {
                self.complaint = Some(error.to_string());
                BROKEN
            };
            match state.map_err(complain)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|_| BROKEN)?;
                        discard += record.discard;
                        take(record.payload)?;
                    }
                }
                ConnectionState::EncodeTlsData(data) => encode(data, &mut self.out),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(traffic) => {
                    self.is_ready = true;
                    encrypt(traffic, plain, &mut self.out)?;
                    is_done = true;
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.is_ended = true;
                    is_done = true;
                }
                _ => is_done = true,
            }
            used += discard;
            if is_done {
                return Ok(used);
            }
        }
    }
}

/// A failure of TLS.
pub(super) const BROKEN: Failure = Failure { count: |failures| &mut failures.tls, was_idle: false };

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) {
    let needed = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => required_size,
        _ => return,
    };
    put(out, needed, |out| data.encode(out).unwrap_or(0));
}

fn encrypt<Data>(mut traffic: WriteTraffic<'_, Data>, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    if plain.is_empty() {
        return Ok(());
    }
    let needed = plain.len() + (plain.len() / RECORD + 1) * OVERHEAD;
    let mut encrypted = Ok(());
    put(out, needed, |out| match traffic.encrypt(plain, out) {
        Ok(length) => length,
        Err(_) => {
            encrypted = Err(BROKEN);
            0
        }
    });
    encrypted
}

/// Lets `write` append at most this many bytes; it returns how many it has written.
fn put(out: &mut Vec<u8>, most: usize, write: impl FnOnce(&mut [u8]) -> usize) {
    let before = out.len();
    out.resize(before + most, 0);
    let written = write(&mut out[before..]);
    out.truncate(before + written);
}
