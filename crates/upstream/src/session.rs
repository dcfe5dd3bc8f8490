//! The TLS session of a connection: it seals what is sent, and opens what is received.

use std::cell::Cell;
use std::io::{self, BufRead as _, IoSlice, Write};
use std::os::fd::OwnedFd;

use rustls::ClientConnection;
use rustls::pki_types::CertificateDer;

/// The room for what is received at once, in bytes: two full records.
const ROOM: usize = 33 * 1024;
/// How often an idle connection may be read from: tickets for later sessions are short and few.
const IDLE_READS: usize = 8;

thread_local! {
    /// The buffer for what is received. It is empty between two reads.
    static SEALED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The session, on this side of the connection.
#[derive(Debug)]
pub(crate) struct Session {
    tls: ClientConnection,
    /// The server has ended its direction in good order.
    has_ended: bool,
    /// Something has come between two requests that belongs to no response.
    is_spoiled: bool,
}

/// Sends to a socket without blocking.
struct Sender<'a>(&'a OwnedFd);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::socket::send(self.0, bytes, false)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::socket::send_slices(self.0, slices, false)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Session {
    pub(crate) fn new(tls: ClientConnection) -> Session {
        Session { tls, has_ended: false, is_spoiled: false }
    }

    /// Whether the server has ended its direction in good order: nothing more comes.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The server's certificates, its own first. They are known in a resumed session, too.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        self.tls.peer_certificates().unwrap_or_default()
    }

    /// The protocol that the server has chosen (ALPN), if it has.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// Whether sealed bytes wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends some of the sealed bytes.
    pub(crate) fn send(&mut self, fd: &OwnedFd) -> io::Result<()> {
        match self.tls.write_tls(&mut Sender(fd))? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            _ => Ok(()),
        }
    }

    /// Seals bytes for [`send`](Self::send), as many as there is room for.
    pub(crate) fn seal(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tls.writer().write(bytes)
    }

    /// Receives from the socket once, and opens what has come. `Ok(false)`: the server has ended its direction in good
    /// order.
    ///
    /// # Errors
    /// The socket has failed or would block, what has come is not valid, or the connection has ended and the session has
    /// not: somebody else may have cut it off.
    pub(crate) fn receive(&mut self, fd: &OwnedFd, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut sealed = SEALED.take();
        sealed.clear();
        sealed.reserve(ROOM);
        let result = sys::socket::receive_into(fd, &mut sealed).and_then(|_| self.open(&sealed, into));
        SEALED.set(sealed);
        result
    }

    /// Opens sealed bytes; none at all are the end of the connection.
    fn open(&mut self, mut sealed: &[u8], into: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            // rustls takes a piece at a time, and nothing more after the end of the session.
            let taken = self.tls.read_tls(&mut sealed)?;
            self.tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if !self.take(into)? {
                self.has_ended = true;
                return Ok(false);
            }
            if sealed.is_empty() || taken == 0 {
                return Ok(true);
            }
        }
    }

    /// Takes what has been opened. `Ok(false)`: that was the end of the session.
    fn take(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut reader = self.tls.reader();
        loop {
            match reader.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(piece) => {
                    into.extend_from_slice(piece);
                    let length = piece.len();
                    reader.consume(length);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let text = "it closed the connection without ending the TLS session";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether nothing has come except tickets for later sessions and new keys, and nothing waits to be sent.
    pub(crate) fn is_quiet(&mut self, fd: &OwnedFd) -> bool {
        self.is_spoiled = self.is_spoiled || !self.has_no_content(fd);
        !self.is_spoiled
    }

    fn has_no_content(&mut self, fd: &OwnedFd) -> bool {
        if self.has_ended || self.tls.wants_write() {
            return false;
        }
        let mut content = Vec::new();
        for _ in 0..IDLE_READS {
            let received = self.receive(fd, &mut content);
            if self.tls.wants_write() || !content.is_empty() {
                return false;
            }
            match received {
                Ok(true) => {}
                Ok(false) => return false,
                // Nothing more has come.
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        false
    }

    /// Seals the announcement that nothing more will be sent.
    pub(crate) fn end(&mut self) {
        self.tls.send_close_notify();
    }

    /// Announces the end of the session, if that is possible at once.
    pub(crate) fn say_end(&mut self, fd: &OwnedFd) {
        self.end();
        // Who closes a connection between two requests owes nothing.
        let _ = self.send(fd);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    /// Both ends of a connection, before its handshake.
    struct Pair {
        session: Session,
        ours: OwnedFd,
        server: ServerConnection,
        theirs: UnixStream,
    }

    impl Pair {
        fn new(version: &'static rustls::SupportedProtocolVersion) -> Pair {
            let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("a certificate");
            let mut roots = RootCertStore::empty();
            roots.add(made.cert.der().clone()).expect("a root");
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = ClientConfig::builder_with_provider(provider.clone());
            let config = config.with_protocol_versions(&[version]).expect("a version");
            let config = config.with_root_certificates(roots).with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            let session = Session::new(ClientConnection::new(config.into(), name).expect("a client"));
            let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
            let config = config.expect("a version").with_no_client_auth();
            let config = config.with_single_cert(vec![made.cert.der().clone()], key).expect("a pair");
            let server = ServerConnection::new(config.into()).expect("a server");
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("it does not block");
            theirs.set_nonblocking(true).expect("it does not block");
            Pair { session, ours: ours.into(), server, theirs }
        }

        /// The client sends and receives what there is.
        fn client(&mut self) {
            while self.session.has_unsent() {
                self.session.send(&self.ours).expect("it sends");
            }
            if self.session.is_handshaking() {
                let _ = self.session.receive(&self.ours, &mut Vec::new());
            }
        }

        /// The server takes what there is, and does not answer yet.
        fn server_takes(&mut self) {
            while let Ok(1..) = self.server.read_tls(&mut self.theirs) {
                self.server.process_new_packets().expect("it is valid");
            }
        }

        fn server_answers(&mut self) {
            while self.server.wants_write() {
                self.server.write_tls(&mut self.theirs).expect("it sends");
            }
        }

        /// Makes the handshake. With TLS 1.3, the tickets have not been sent.
        fn shake_hands(&mut self) {
            while self.session.is_handshaking() || self.session.has_unsent() {
                self.server_answers();
                self.client();
                self.server_takes();
            }
        }
    }

    #[test]
    fn tickets_and_new_keys_do_not_disturb_an_idle_connection() {
        let mut pair = Pair::new(&rustls::version::TLS13);
        pair.shake_hands();
        assert!(pair.server.wants_write(), "the tickets");
        assert!(pair.session.is_quiet(&pair.ours), "nothing has come");
        pair.server_answers();
        assert!(pair.session.is_quiet(&pair.ours), "they are taken in");
        pair.server.refresh_traffic_keys().expect("keys");
        pair.server_answers();
        assert!(pair.session.is_quiet(&pair.ours), "new keys hold no content either");
    }

    #[test]
    fn what_makes_an_idle_connection_useless() {
        type Act = fn(&mut Pair);
        let acts: [(&str, Act); 3] = [
            ("content", |pair| pair.server.writer().write_all(b"x").expect("it is sealed")),
            ("the end of the session", |pair| pair.server.send_close_notify()),
            ("garbage", |pair| {
                let garbage = [23, 3, 3, 0, 20].into_iter().chain([7; 20]).collect::<Vec<u8>>();
                pair.theirs.write_all(&garbage).expect("it is sent");
            }),
        ];
        for (what, act) in acts {
            let mut pair = Pair::new(&rustls::version::TLS13);
            pair.shake_hands();
            pair.server_answers();
            act(&mut pair);
            pair.server_answers();
            assert!(!pair.session.is_quiet(&pair.ours), "{what}");
            assert!(!pair.session.is_quiet(&pair.ours), "{what}, later");
        }
        let mut pair = Pair::new(&rustls::version::TLS12);
        pair.shake_hands();
        pair.server_answers();
        assert!(pair.session.is_quiet(&pair.ours));
        drop(pair.theirs);
        assert!(!pair.session.is_quiet(&pair.ours), "it is closed");
    }

    #[test]
    fn an_end_that_was_not_announced_is_an_error() {
        for announced in [true, false] {
            let mut pair = Pair::new(&rustls::version::TLS13);
            pair.shake_hands();
            pair.server.writer().write_all(b"content").expect("it is sealed");
            if announced {
                pair.server.send_close_notify();
            }
            pair.server_answers();
            drop(pair.theirs);
            let mut content = Vec::new();
            let mut received = pair.session.receive(&pair.ours, &mut content);
            while let Ok(true) = received {
                received = pair.session.receive(&pair.ours, &mut content);
            }
            assert_eq!(content, b"content");
            assert_eq!(received.is_ok(), announced);
            assert_eq!(pair.session.has_ended(), announced);
        }
    }

    /// However much is to be sent, no more is sealed than fits into the session's buffer.
    #[test]
    fn buffers_have_limits() {
        let mut pair = Pair::new(&rustls::version::TLS13);
        pair.shake_hands();
        let much = vec![b'x'; 10_000_000];
        let (mut sealed, mut turns) = (0, 0);
        while turns < 3 {
            let length = pair.session.seal(&much).expect("it is sealed");
            sealed += length;
            turns += usize::from(length == 0);
        }
        assert!((16_384..1_000_000).contains(&sealed), "{sealed}");
        let mut received = Vec::new();
        while received.len() < sealed {
            let _ = pair.session.send(&pair.ours);
            pair.server_takes();
            let _ = pair.server.reader().read_to_end(&mut received);
        }
        assert_eq!(received, &much[..sealed]);
    }
}
