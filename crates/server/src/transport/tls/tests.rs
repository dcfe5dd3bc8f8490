//! Handshakes and records over real sockets, with rustls's own client.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, StreamOwned};

use super::*;
use crate::transport::read;

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
        // The first part as bytes and the rest from a file, as for answers.
        let path = std::env::temp_dir().join(format!("tsubame-tls-{}", std::process::id()));
        std::fs::write(&path, &content).expect("file");
        let file = std::fs::File::open(&path).expect("file").into();
        std::fs::remove_file(&path).expect("removed");
        let mut offset = 1_000_000;
        let mut sent = 0;
        while sent < offset as usize {
            // A first attempt without waiting, as for answers; what it began has to be continued.
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

/// They arrive together with the client's last message of the handshake.
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
