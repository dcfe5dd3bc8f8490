//! Handshakes and records over real sockets, with rustls's own client.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::task::Waker;
use std::thread;

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    RootCertStore, ServerConfig, StreamOwned,
};

use super::protection::Protection;
use super::*;
use crate::transport::endpoint::read;

/// Configurations of client and server that fit each other.
fn configurations() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    configurations_with(aws_lc_rs::default_provider())
}

fn configurations_with(provider: CryptoProvider) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(["test.example".to_string()]).expect("certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("key");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("root");
    let versions: Vec<_> = rustls::ALL_VERSIONS
        .iter()
        .copied()
        .filter(|version| provider.cipher_suites.iter().any(|suite| suite.version() == *version))
        .collect();
    let provider = Arc::new(provider);
    let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions);
    let client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).expect("versions");
    let server = server.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let mut server = server.expect("pair");
    server.enable_secret_extraction = true;
    (client.into(), server.into())
}

fn connected() -> (TcpStream, Arc<Socket>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
    let client = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (accepted, _) = listener.accept().expect("accept");
    accepted.set_nonblocking(true).expect("non-blocking");
    (client, Arc::new(Socket::new(accepted.into())))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    sys::event_loop::EventLoop::new(|| ()).and_then(|mut event_loop| event_loop.run(future)).expect("event loop")
}

/// Drives a handshake to its end. `piece`: the most bytes fed to it at once.
async fn shake(socket: &Arc<Socket>, config: Arc<ServerConfig>, piece: usize) -> Result<Arc<Tls>, String> {
    let mut handshake = Handshake::new();
    let mut received = Vec::new();
    loop {
        poll_fn(|cx| handshake.poll_flush(cx, socket)).await.map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        if read(&**socket, &mut bytes, 16_384).await.map_err(|error| error.to_string())? == 0 {
            return Err("the end".into());
        }
        received.append(&mut bytes);
        while !received.is_empty() {
            let rest = received.split_off(piece.min(received.len()));
            let mut now = std::mem::replace(&mut received, rest);
            let progress = handshake.take(&mut now, socket).and_then(|progress| match progress {
                Progress::Greeted => {
                    assert_eq!(
                        handshake.hello().and_then(|hello| hello.server_name().map(str::to_string)),
                        Some("test.example".into())
                    );
                    handshake.configure(Configured { host: 3, config: config.clone() }).map(|()| progress)
                }
                _ => Ok(progress),
            });
            match progress {
                Ok(Progress::Complete(tls)) => {
                    tls.records().wire.append(&mut received);
                    return Ok(tls);
                }
                Ok(_) => {}
                Err(why) => {
                    poll_fn(|cx| handshake.poll_flush(cx, socket)).await.map_err(|error| error.to_string())?;
                    return Err(why.0);
                }
            }
            now.append(&mut received);
            received = now;
        }
    }
}

/// Runs a client on its end of the connection.
fn client<T: Send + 'static>(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    act: impl FnOnce(&mut StreamOwned<ClientConnection, TcpStream>) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(move || {
        let name = ServerName::try_from("test.example").expect("name");
        let connection = ClientConnection::new(config, name).expect("client");
        act(&mut StreamOwned::new(connection, socket))
    })
}

#[test]
fn bytes_and_the_end_of_a_client_arrive() {
    for piece in [1, 7, usize::MAX] {
        let (client_config, server_config) = configurations();
        let (socket, server) = connected();
        let client = client(socket, client_config, |stream| {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("write");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).map(|_| answer).expect("an end in good order")
        });
        run(async {
            let tls = shake(&server, server_config, piece).await.expect("handshake");
            let session = tls.session().expect("session");
            assert_eq!(
                (session.host, session.server_name.as_deref(), session.is_resumed),
                (3, Some("test.example"), false)
            );
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert!(read(&*tls, &mut request, 64).await.expect("request") > 0);
            }
            assert_eq!(request, b"GET / HTTP/1.1\r\n\r\n");
            assert!(!tls.has_input());
            assert_eq!(poll_fn(|cx| tls.poll_send(cx, b"hello", false)).await.expect("sent"), 5);
            tls.shutdown().expect("shutdown");
        });
        assert_eq!(client.join().expect("client"), b"hello");
    }
}

#[test]
fn a_large_answer_to_a_slow_client_is_whole() {
    let (client_config, server_config) = configurations();
    let (socket, server) = connected();
    let content: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
    let expected = content.clone();
    let client = client(socket, client_config, |stream| {
        stream.write_all(b"go").expect("write");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(|_| answer).expect("an end in good order")
    });
    run(async {
        let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
        assert_eq!(read(&*tls, &mut Vec::new(), 2).await.expect("request"), 2);
        // The first part as bytes and the rest from a file, as for responses.
        let path = std::env::temp_dir().join(format!("tsubame-tls-{}", std::process::id()));
        std::fs::write(&path, &content).expect("file");
        let file = std::fs::File::open(&path).expect("file").into();
        std::fs::remove_file(&path).expect("removed");
        let mut offset = 1_000_000;
        let mut sent = 0;
        while sent < offset as usize {
            // A first attempt without waiting, as for responses; what it began has to be continued.
            let bytes = &content[sent..offset as usize];
            sent += match tls.poll_send(&mut Context::from_waker(Waker::noop()), bytes, false) {
                Poll::Ready(sent) => sent.expect("sent"),
                Poll::Pending => poll_fn(|cx| tls.poll_send(cx, bytes, false)).await.expect("sent"),
            };
        }
        while offset < content.len() as u64 {
            let left = content.len() - offset as usize;
            poll_fn(|cx| tls.poll_send_file(cx, &file, &mut offset, left)).await.expect("sent");
        }
        assert_eq!(held_at_rest(&tls), 0);
        poll_fn(|cx| tls.poll_close(cx)).await.expect("close");
        tls.shutdown().expect("shutdown");
    });
    assert!(client.join().expect("client") == expected);
}

#[test]
fn input_that_is_not_a_handshake_is_refused() {
    let (_, server_config) = configurations();
    let (mut socket, server) = connected();
    let client = thread::spawn(move || {
        socket.write_all(&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0]).expect("write");
        let mut alert = Vec::new();
        socket.read_to_end(&mut alert).map(|_| alert).expect("alert")
    });
    let shaken = run(async {
        let shaken = shake(&server, server_config, usize::MAX).await;
        server.shutdown().expect("shutdown");
        shaken.map(|_| ())
    });
    assert!(shaken.is_err());
    let alert = client.join().expect("client");
    assert_eq!(alert.first(), Some(&21), "{alert:?}");
}

/// The memory that a connection holds while it waits for the client.
fn held_at_rest(tls: &Tls) -> usize {
    let mut buffer = Vec::new();
    assert!(tls.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer, 1).is_pending());
    tls.records().held() + buffer.capacity()
}

#[test]
fn an_error_in_a_handshake_is_reported() {
    let (client_config, server_config) = configurations();
    let (socket, server) = connected();
    let client = client(socket, client_config, |stream| {
        stream.conn.write_tls(&mut stream.sock).expect("hello");
        stream.sock.write_all(&[&[23, 3, 3, 0, 40][..], &[0; 40]].concat()).expect("write");
        while stream.conn.read_tls(&mut stream.sock).expect("answer") > 0 {
            if let Err(error) = stream.conn.process_new_packets() {
                return Some(error);
            }
        }
        None
    });
    run(async {
        let shaken = shake(&server, server_config, usize::MAX).await;
        server.shutdown().expect("shutdown");
        assert!(shaken.is_err());
    });
    assert_eq!(client.join().expect("client"), Some(Error::AlertReceived(AlertDescription::BadRecordMac)));
}

/// Reads up to the client's end, and sends all of it back.
async fn echo(tls: &Tls) -> io::Result<()> {
    let mut bytes = Vec::new();
    while read(tls, &mut bytes, 1).await? > 0 {
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| tls.poll_send(cx, &bytes, false)).await?;
            bytes.drain(..sent);
        }
    }
    tls.shutdown()
}

#[test]
fn every_cipher_suite_carries_data_in_both_directions() {
    let mut tried = 0;
    for suite in aws_lc_rs::default_provider().cipher_suites {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() };
        // The certificate has an ECDSA key.
        if format!("{:?}", suite.suite()).contains("RSA") {
            continue;
        }
        tried += 1;
        let (client_config, server_config) = configurations_with(provider);
        let (socket, server) = connected();
        let client = client(socket, client_config, |stream| {
            let mut answers = Vec::new();
            for length in [1, 100, 16_384, 16_385, 40_000] {
                let sent = vec![b'x'; length];
                stream.write_all(&sent).expect("write");
                let mut answer = vec![0; length];
                stream.read_exact(&mut answer).expect("answer");
                answers.push(answer == sent);
            }
            stream.conn.send_close_notify();
            stream.flush().expect("close");
            answers.push(stream.read_to_end(&mut Vec::new()).is_ok_and(|rest| rest == 0));
            answers
        });
        run(async {
            let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
            assert_eq!(tls.session().map(|session| session.suite), Some(suite));
            echo(&tls).await.expect("echo");
        });
        assert_eq!(client.join().expect("client"), [true; 6], "{suite:?}");
    }
    assert_eq!(tried, 6);
}

/// The client asks for new keys several times; the server renews its own when they have carried enough records.
#[test]
fn keys_are_renewed_on_both_sides() {
    let (client_config, server_config) = configurations();
    let (socket, server) = connected();
    let client = client(socket, client_config, |stream| {
        (0..100_u8)
            .filter(|number| {
                if number % 3 == 1 {
                    stream.conn.refresh_traffic_keys().expect("new keys");
                }
                let (sent, mut answer) = ([*number; 100], [0; 100]);
                stream.write_all(&sent).expect("write");
                stream.read_exact(&mut answer).expect("answer");
                answer == sent
            })
            .count()
    });
    run(async {
        let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
        tls.records().most_sealed = 7;
        // The client leaves without an announcement, perhaps before ours.
        let _ = echo(&tls).await;
    });
    assert_eq!(client.join().expect("client"), 100);
}

/// The requests for new keys arrive together with the client's last message of the handshake.
#[test]
fn keys_are_renewed_at_once() {
    for piece in [1, usize::MAX] {
        let (client_config, server_config) = configurations();
        let (socket, server) = connected();
        let client = client(socket, client_config, |stream| {
            stream.conn.write_tls(&mut stream.sock).expect("hello");
            while stream.conn.is_handshaking() {
                stream.conn.read_tls(&mut stream.sock).expect("answer");
                stream.conn.process_new_packets().expect("handshake");
            }
            stream.conn.writer().write_all(b"one").expect("write");
            stream.conn.refresh_traffic_keys().expect("new keys");
            stream.write_all(b"two").expect("write");
            let mut answer = [0; 6];
            stream.read_exact(&mut answer).map(|()| answer).map_err(|error| error.to_string())
        });
        run(async {
            let tls = shake(&server, server_config, piece).await.expect("handshake");
            let _ = echo(&tls).await;
        });
        assert_eq!(client.join().expect("client").as_ref(), Ok(b"onetwo"));
    }
}

#[test]
fn answers_to_requests_for_new_keys_leave_nothing_in_memory() {
    const TIMES: usize = 20;
    let (client_config, server_config) = configurations();
    let (socket, server) = connected();
    let client = client(socket, client_config, |stream| {
        for _ in 0..TIMES {
            stream.write_all(b"x").expect("write");
            stream.conn.refresh_traffic_keys().expect("new keys");
        }
        stream.flush().expect("flush");
        stream.read_to_end(&mut Vec::new()).expect("end")
    });
    run(async {
        let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
        let mut received = Vec::new();
        while received.len() < TIMES {
            assert!(read(&*tls, &mut received, 1).await.expect("data") > 0);
        }
        assert_eq!(held_at_rest(&tls), 0);
        tls.shutdown().expect("shutdown");
    });
    client.join().expect("client");
}

#[test]
fn a_record_that_cannot_be_right_ends_the_connection_with_an_alert() {
    let forged = [&[23, 3, 3, 0, 40][..], &[0; 40]].concat();
    for (record, alert) in [
        (forged.as_slice(), AlertDescription::BadRecordMac),
        (&[22, 3, 3, 0, 1, 0], AlertDescription::UnexpectedMessage),
        (&[23, 3, 3, 0xff, 0xff], AlertDescription::RecordOverflow),
        (&[23, 3, 3, 0, 3, 1, 2, 3], AlertDescription::DecodeError),
        (b"GET / HTTP/1.1", AlertDescription::UnexpectedMessage),
    ] {
        let (client_config, server_config) = configurations();
        let (socket, server) = connected();
        let record = record.to_vec();
        let client = client(socket, client_config, move |stream| {
            stream.write_all(b"hello").expect("write");
            stream.sock.write_all(&record).expect("write");
            let failed = stream.read_to_end(&mut Vec::new()).expect_err("alert");
            failed.downcast::<Error>().expect("an error of TLS")
        });
        run(async {
            let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
            let mut received = Vec::new();
            while let Ok(1..) = read(&*tls, &mut received, 1).await {}
            assert_eq!(received, b"hello");
            let sent = tls.poll_send(&mut Context::from_waker(Waker::noop()), b"too late", false);
            assert!(matches!(sent, Poll::Ready(Err(_))), "{sent:?}");
            tls.shutdown().expect("shutdown");
        });
        assert_eq!(client.join().expect("client"), Error::AlertReceived(alert));
    }
}

/// A header's own bytes are authenticated, its version among them (RFC 5246 section 6.2.3.3).
#[test]
fn a_header_that_was_changed_is_a_forgery() {
    for version in [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3] {
        let keys = || ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from([7; 32]), iv: Iv::copy(&[9; 12]) };
        let protection = || Protection::new(version, (0, keys())).expect("keys");
        let mut record = Vec::new();
        let hello = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"hello");
            Ok(5)
        };
        protection().seal(ContentType::ApplicationData, &mut record, hello).expect("sealed");
        let mut whole = record.clone();
        assert_eq!(protection().open(&mut whole).map(|(_, content)| content.to_vec()), Ok(b"hello".to_vec()));
        for at in 1..3 {
            let mut changed = record.clone();
            changed[at] ^= 1;
            let fault = protection().open(&mut changed).err().map(|fault| fault.0);
            assert_eq!(fault, Some(AlertDescription::BadRecordMac), "{version:?}");
        }
    }
}

/// A few warnings are passed over, as in a handshake.
#[test]
fn many_warnings_end_the_connection() {
    for (count, is_heard) in [(4, true), (5, false)] {
        let (client_config, server_config) = configurations();
        let (socket, server) = connected();
        let mut client_config = (*client_config).clone();
        client_config.enable_secret_extraction = true;
        let name = ServerName::try_from("test.example").expect("name");
        let client = thread::spawn(move || {
            let connection = ClientConnection::new(client_config.into(), name).expect("client");
            let mut stream = StreamOwned::new(connection, socket);
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock).expect("handshake");
            }
            let (connection, mut socket) = (stream.conn, stream.sock);
            let secrets = connection.dangerous_extract_secrets().expect("keys");
            let mut sealer = Protection::new(ProtocolVersion::TLSv1_3, secrets.tx).expect("keys");
            let mut bytes = Vec::new();
            let mut seal = |kind, content: &[u8]| {
                let fill = |out: &mut Vec<u8>| {
                    out.extend_from_slice(content);
                    Ok(content.len())
                };
                sealer.seal(kind, &mut bytes, fill).expect("sealed")
            };
            for _ in 0..count {
                // user_canceled
                seal(ContentType::Alert, &[1, 90]);
            }
            seal(ContentType::ApplicationData, b"hello");
            socket.write_all(&bytes).expect("write");
            socket
        });
        run(async {
            let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
            let mut received = Vec::new();
            let read = read(&*tls, &mut received, 1).await;
            assert_eq!((read.is_ok(), received == b"hello"), (is_heard, is_heard), "after {count}");
        });
        client.join().expect("client");
    }
}

/// What nothing may come in between goes out as a whole, and before anything else, though the socket has no room now.
#[test]
fn a_message_for_a_full_socket_is_not_mixed_with_what_follows() {
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let (client_config, server_config) = configurations();
    let (socket, server) = connected();
    let (full, is_full) = std::sync::mpsc::channel();
    let client = client(socket, client_config, move |stream| {
        stream.write_all(b"go").expect("write");
        is_full.recv().expect("a full socket");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(|_| answer).expect("an end in good order")
    });
    let sent = run(async {
        let tls = shake(&server, server_config, usize::MAX).await.expect("handshake");
        assert_eq!(read(&*tls, &mut Vec::new(), 2).await.expect("request"), 2);
        let mut cx = Context::from_waker(Waker::noop());
        let piece = vec![b'x'; 1024];
        let mut sent = 0;
        // Sealed as a whole each time, until the socket takes no more of it.
        while tls.records().unsent().is_empty() {
            assert!(tls.poll_say(&mut cx, &piece).is_ready());
            sent += piece.len();
        }
        assert_eq!(tls.poll_say(&mut cx, CONTINUE).map(Result::ok), Poll::Ready(Some(CONTINUE.len())));
        full.send(()).expect("the client");
        // The body that wanted it is dropped, and a response follows.
        let answer = b"HTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(poll_fn(|cx| tls.poll_send(cx, answer, false)).await.expect("sent"), answer.len());
        poll_fn(|cx| tls.poll_close(cx)).await.expect("close");
        tls.shutdown().expect("shutdown");
        sent
    });
    let received = client.join().expect("client");
    assert_eq!(&received[sent..], b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
}

/// Data that a client sends early, though we take none, is passed over: up to a record's worth (RFC 8446 section 4.2.10).
#[test]
fn early_data_is_passed_over() {
    let (client_config, server_config) = configurations();
    // One takes early data.
    let mut generous = (*server_config).clone();
    generous.max_early_data_size = 16_000;
    // The other is as mod_ssl makes it.
    let mut ours = (*server_config).clone();
    ours.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    ours.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("tickets");
    ours.max_early_data_size = 512 * 1024;
    let mut client_config = (*client_config).clone();
    client_config.enable_early_data = true;
    let client_config = Arc::new(client_config);
    let pairs = [100, 8000, 15_000].into_iter().flat_map(|early| [(generous.clone(), 0), (ours.clone(), early)]);
    for (server_config, early) in pairs {
        let (socket, server) = connected();
        let client = client(socket, client_config.clone(), move |stream| {
            let offered = stream.conn.early_data().map_or(0, |mut data| data.write(&vec![b'e'; early]).expect("early"));
            stream.write_all(b"late").expect("write");
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).expect("answer");
            (offered, answer)
        });
        run(async {
            let tls = shake(&server, server_config.into(), usize::MAX).await.expect("handshake");
            let mut received = Vec::new();
            while received.len() < 4 {
                assert!(read(&*tls, &mut received, 1).await.expect("data") > 0);
            }
            assert_eq!(received, b"late");
            poll_fn(|cx| tls.poll_send(cx, b"done", false)).await.expect("sent");
        });
        assert_eq!(client.join().expect("client"), (early, *b"done"));
    }
}
