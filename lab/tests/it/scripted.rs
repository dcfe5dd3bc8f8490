//! Scripted servers, over TLS and in the clear.

pub mod site;

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A TLS stream.
pub type Encrypted = StreamOwned<ServerConnection, TcpStream>;

/// Accepts connections, and handles each in a thread of its own.
pub fn listen(attend: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    let attend = Arc::new(attend);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, attend) = (stream.expect("a connection"), attend.clone());
            std::thread::spawn(move || attend(stream));
        }
    });
    address
}

/// A certificate for `localhost`, and its files.
pub struct Identity {
    config: ServerConfig,
    /// The certificate.
    pub certificate: PathBuf,
    /// Certificate and key.
    pub both: PathBuf,
}

impl Identity {
    /// Makes one whose files are named after a test; with `asks`, clients have to show it, too.
    pub fn new(test: &str, asks: bool) -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        if !asks {
            // An authority, as made by `openssl req -x509`.
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let pem = |what: &str, der: &[u8]| {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("text")).collect();
            format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
        };
        let file = |name: &str| std::env::temp_dir().join(format!("tsubame-lab-{}-{test}-{name}", std::process::id()));
        let (public, private) = (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", key.serialized_der()));
        std::fs::write(file("public"), &public).expect("write a certificate");
        std::fs::write(file("both"), public + &private).expect("write a key");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = match asks {
            false => builder.with_no_client_auth(),
            true => {
                let mut roots = RootCertStore::empty();
                roots.add(certificate.der().clone()).expect("a root");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let key = PrivateKeyDer::Pkcs8(key.serialized_der().to_vec().into());
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).expect("a configuration");
        Self { config, certificate: file("public"), both: file("both") }
    }

    /// A server that passes each connection to `attend`; it speaks these protocols, and resumes sessions or not.
    pub fn serve(
        &self,
        protocols: &[&str],
        resumes: bool,
        attend: impl Fn(&mut Encrypted) + Send + Sync + 'static,
    ) -> SocketAddr {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        if resumes {
            config.ticketer = aws_lc_rs::Ticketer::new().expect("tickets");
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        let config = Arc::new(config);
        listen(move |stream| {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            attend(&mut StreamOwned::new(connection, stream));
        })
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.certificate).and_then(|()| std::fs::remove_file(&self.both));
    }
}

/// Answers every request according to its path: `/none` is not found, `/gone` gets no answer, `/short` gets less than
/// announced, and `/five` ends its connection after five answers.
pub fn attend(stream: &mut (impl Read + Write)) {
    let mut stream = BufReader::new(stream);
    let mut answers = 0;
    loop {
        answers += 1;
        let mut lines: Vec<String> = Vec::new();
        while lines.last().is_none_or(|line| !line.is_empty()) {
            let mut line = String::new();
            match stream.read_line(&mut line) {
                Ok(1..) => lines.push(line.trim_end().to_owned()),
                _ => return,
            }
        }
        let request = &lines[0];
        let says = |text: &str| lines.iter().any(|field| field.eq_ignore_ascii_case(text));
        let keeps = request.ends_with("1.1") && !says("Connection: close") || says("Connection: Keep-Alive");
        let status = match request.split(' ').nth(1) {
            Some("/none") => "404 Not Found",
            Some("/gone") => return,
            _ => "200 OK",
        };
        let (is_short, is_last) = (request.contains("/short"), request.contains("/five") && answers == 5);
        let keeps = keeps && !is_last;
        let body = if request.starts_with("HEAD ") { "" } else { "hello" };
        let length = if is_short { 50 } else { 5 };
        let connection = if keeps { "Keep-Alive" } else { "close" };
        let answer = format!(
            "HTTP/1.1 {status}\r\nServer: Scripted/1.0 (of a test)\r\nConnection: {connection}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let stream = stream.get_mut();
        if stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).is_err() || !keeps || is_short {
            return;
        }
    }
}

/// The behaviour of an HTTP/2 server.
#[derive(Clone, Copy)]
pub struct Manner {
    /// The number of streams at a time that it announces; more are refused.
    pub streams: u32,
    /// It leaves after this many answers.
    pub answers: usize,
    /// It refuses each request whose number on its connection is a multiple of this.
    pub refuses: usize,
}

/// Speaks HTTP/2: answers each request with 200 and `hello`, in two frames of content, as soon as a round of them has
/// arrived.
pub fn attend_http2(stream: &mut (impl Read + Write), manner: Manner) {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let mut preface = [0; 24];
    if stream.read_exact(&mut preface).is_err() || !preface.starts_with(b"PRI * HTTP/2.0") {
        return;
    }
    let most = manner.streams.to_be_bytes();
    let settings = frame(4, 0, 0, &[&[0, 3], &most[..]].concat());
    if stream.write_all(&settings).and_then(|()| stream.flush()).is_err() {
        return;
    }
    let (mut requests, mut answers) = (0, 0);
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if head[3] != 1 {
            continue;
        }
        requests += 1;
        let mut out = match requests % manner.refuses == 0 {
            true => frame(3, 0, id, &7_u32.to_be_bytes()),
            false => {
                answers += 1;
                [frame(1, 4, id, &[0x88]), frame(0, 0, id, b"hel"), frame(0, 1, id, b"lo")].concat()
            }
        };
        let leaves = answers == manner.answers;
        if leaves {
            out.extend(frame(7, 0, 0, &[&id.to_be_bytes()[..], &[0; 4]].concat()));
        }
        if stream.write_all(&out).and_then(|()| stream.flush()).is_err() || leaves {
            return;
        }
    }
}
