//! A client that speaks TLS, and the certificates that servers of tests have. It has them made and read by libraries that the
//! server does not use for it, or by the same in the other role.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::site::{PORT, Site};
use crate::harness::wait::DEADLINE;

/// The name in the certificates.
pub const NAME: &str = "localhost";

/// Lines that make a site's server speak TLS on its port, with a certificate that [`trusting`] clients believe.
pub fn lines(site: &Site) -> (String, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed([NAME.to_string()]).expect("certificate");
    site.file("conf/tls.pem", made.cert.pem());
    site.file("conf/tls.key", made.signing_key.serialize_pem());
    let lines = format!(
        "<VirtualHost *:{PORT}>\nServerName {NAME}\nSSLEngine on\nSSLCertificateFile conf/tls.pem\n\
         SSLCertificateKeyFile conf/tls.key\n</VirtualHost>\n"
    );
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("root");
    (lines, trusting(roots))
}

/// A client that believes these.
pub fn trusting(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

/// A connection of a client, and the host that it asks for.
pub struct Secure(StreamOwned<ClientConnection, TcpStream>, String);

impl Secure {
    /// Connects; the handshake is made when something is said.
    pub fn to(address: SocketAddr, config: &Arc<ClientConfig>) -> Secure {
        Secure::named(address, config, NAME)
    }

    /// The same for a host with another name.
    pub fn named(address: SocketAddr, config: &Arc<ClientConfig>, host: &str) -> Secure {
        let socket = TcpStream::connect(address).expect("connect");
        socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let name = ServerName::try_from(host.to_string()).expect("a name");
        Secure(StreamOwned::new(ClientConnection::new(config.clone(), name).expect("client"), socket), host.into())
    }

    /// The answer to a request, to the end of the connection.
    pub fn get(self, path: &str) -> String {
        self.try_get(path).expect("a handshake, an answer, and an end in good order")
    }

    /// Asks, and leaves an idle connection in good order. Returns the answer to its end, and whether the server said its
    /// end too.
    pub fn leaves(mut self, path: &str) -> (String, bool) {
        self.0.write_all(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.1).as_bytes()).expect("request");
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello\n") {
            let mut piece = [0; 1024];
            let read = self.0.read(&mut piece).expect("an answer");
            assert!(read > 0, "it is not answered");
            answer.extend_from_slice(&piece[..read]);
        }
        self.0.conn.send_close_notify();
        self.0.flush().expect("an end");
        // rustls reports an end that was not announced as an error.
        let ends = self.0.read_to_end(&mut Vec::new()).is_ok();
        (String::from_utf8_lossy(&answer).into_owned(), ends)
    }

    /// The same where there may be none.
    pub fn try_get(mut self, path: &str) -> std::io::Result<String> {
        self.0.write_all(format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.1).as_bytes())?;
        let mut answer = String::new();
        self.0.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The first bytes of a handshake.
    pub fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
        let name = ServerName::try_from(NAME).expect("a name");
        let mut client = ClientConnection::new(config.clone(), name).expect("client");
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("a hello");
        }
        bytes
    }
}
