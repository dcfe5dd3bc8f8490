//! A server behind the proxy that speaks TLS: the last part of a request's path says what it answers.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::proxy::origin::Listening;

/// The ports of such servers. Children keep their connections to them.
pub const PORTS: std::ops::Range<u16> = 9110..9120;

/// An authority, whose certificates servers and clients have.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pub pem: String,
}

/// A certificate and its key.
pub struct Made {
    pub pem: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { params, key, pem }
    }

    /// A certificate with these names, valid from the beginning of one year to that of another.
    pub fn made(&self, serial: u64, names: &[&str], years: (i32, i32)) -> Made {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, "made");
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let issuer = Issuer::from_params(&self.params, &self.key);
        let pem = params.signed_by(&key, &issuer).expect("a certificate").pem();
        Made { pem, key: key.serialize_pem() }
    }

    /// Its list of revoked certificates, with these in it.
    pub fn list(&self, revoked: &[u64]) -> String {
        let revoked = revoked.iter().map(|serial| rcgen::RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: rcgen::date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2025, 1, 1),
            next_update: rcgen::date_time_ymd(2125, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let issuer = Issuer::from_params(&self.params, &self.key);
        list.signed_by(&issuer).expect("a list").pem().expect("text")
    }
}

/// What a server does with a connection.
#[derive(Clone)]
pub enum Manner {
    /// It speaks TLS, and HTTP over it.
    Tls(Arc<ServerConfig>),
    /// It speaks something else.
    Garbage,
    /// It never says anything.
    Silence,
}

impl Manner {
    /// With this certificate; with an authority, clients have to show one, too.
    pub fn tls(made: &Made, clients: Option<&Authority>) -> Manner {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let config = config.expect("versions");
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("a certificate");
                roots.add(root).expect("a root");
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                config.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(made.pem.as_bytes()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).expect("a key");
        Manner::Tls(Arc::new(config.with_single_cert(chain, key).expect("a pair")))
    }
}

/// The server, as tests see it.
#[derive(Clone)]
pub struct SecureOrigin {
    pub address: SocketAddr,
    /// How many connections have been made to it.
    pub connections: Arc<AtomicUsize>,
    /// How many of their handshakes resumed a session.
    pub resumed: Arc<AtomicUsize>,
    /// The names that clients have asked for.
    pub names: Arc<Mutex<Vec<Option<String>>>>,
    held: Arc<Mutex<Vec<TcpStream>>>,
    /// `None`: for the thread that listens.
    _listening: Option<Arc<Listening>>,
}

type Secure = StreamOwned<ServerConnection, TcpStream>;

impl SecureOrigin {
    /// Starts one at this address; several have numbers.
    pub fn start(ip: Ipv4Addr, number: u16, manner: Manner) -> SecureOrigin {
        let listener = TcpListener::bind((ip, PORTS.start + number)).expect("bind");
        let address = listener.local_addr().expect("address");
        let listening = Arc::new(Listening(listener.try_clone().expect("clone")));
        let origin = SecureOrigin {
            address,
            connections: Arc::default(),
            resumed: Arc::default(),
            names: Arc::default(),
            held: Arc::default(),
            _listening: Some(listening),
        };
        let it = SecureOrigin { _listening: None, ..origin.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                it.connections.fetch_add(1, Ordering::Relaxed);
                it.held.lock().expect("no panic").push(stream.try_clone().expect("clone"));
                let (it, manner) = (it.clone(), manner.clone());
                std::thread::spawn(move || it.serve(stream, manner));
            }
        });
        origin
    }

    /// How many connections have been made, and how many of them resumed a session.
    pub fn counts(&self) -> (usize, usize) {
        (self.connections.load(Ordering::Relaxed), self.resumed.load(Ordering::Relaxed))
    }

    /// Cuts all connections off.
    pub fn cut_all(&self) {
        for stream in self.held.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn serve(&self, mut stream: TcpStream, manner: Manner) -> io::Result<()> {
        let config = match manner {
            Manner::Tls(config) => config,
            Manner::Garbage => {
                let _ = stream.read(&mut [0; 4096])?;
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
                return stream.shutdown(Shutdown::Both);
            }
            Manner::Silence => return io::copy(&mut stream, &mut io::sink()).map(drop),
        };
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut secure = StreamOwned::new(connection, stream);
        while secure.conn.is_handshaking() {
            secure.conn.complete_io(&mut secure.sock)?;
        }
        self.names.lock().expect("no panic").push(secure.conn.server_name().map(str::to_string));
        if secure.conn.handshake_kind() == Some(HandshakeKind::Resumed) {
            self.resumed.fetch_add(1, Ordering::Relaxed);
        }
        loop {
            self.answer(&mut secure)?;
        }
    }

    fn answer(&self, secure: &mut Secure) -> io::Result<()> {
        let (head, body) = request(secure)?;
        let target = head.split(' ').nth(1).unwrap_or_default();
        let name = target.rsplit('/').next().unwrap_or_default();
        let end = |secure: &mut Secure, in_order: bool| {
            if in_order {
                secure.conn.send_close_notify();
                secure.flush()?;
            }
            secure.sock.shutdown(Shutdown::Both)?;
            Err(io::ErrorKind::ConnectionAborted.into())
        };
        match name {
            "socket" if head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n") => return shout(secure),
            "cut" | "ended" => {
                secure.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end")?;
                secure.flush()?;
                return end(secure, name == "ended");
            }
            "then-ends" => {
                secure.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")?;
                secure.conn.send_close_notify();
                return secure.flush();
            }
            _ => {
                let shown = secure.conn.peer_certificates().map_or(0, <[_]>::len);
                let text = format!("{shown} certificates\n");
                let length = text.len() + body.len();
                secure.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}").as_bytes())?;
                secure.write_all(&body)?;
            }
        }
        secure.flush()
    }
}

/// Becomes a WebSocket, as far as a proxy knows of one: says everything again, louder.
fn shout(secure: &mut Secure) -> io::Result<()> {
    let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: proof\r\n\r\n";
    secure.write_all(format!("HTTP/1.1 101 Switching\r\n{fields}first,").as_bytes())?;
    secure.flush()?;
    let mut piece = [0; 4096];
    loop {
        let count = secure.read(&mut piece)?;
        if count == 0 {
            break;
        }
        piece.make_ascii_uppercase();
        secure.write_all(&piece[..count])?;
        secure.flush()?;
    }
    secure.write_all(b"bye")?;
    secure.conn.send_close_notify();
    secure.flush()?;
    secure.sock.shutdown(Shutdown::Both)?;
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Reads a request, whose body has a length.
fn request(secure: &mut Secure) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>| -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        let count = secure.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..count]);
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    };
    let end = loop {
        match bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            Some(at) => break at + 4,
            None => more(&mut bytes)?,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = line.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        more(&mut bytes)?;
    }
    Ok((head, bytes.split_off(end)))
}
