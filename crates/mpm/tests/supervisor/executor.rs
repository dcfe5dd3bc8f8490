//! The facilities that a handler may use, whichever module polls it: see `runtime::executor`. Each job runs in a handler
//! of the server under test; the backends that it talks to are threads of the test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use runtime::executor::{Descriptor, sleep_until, spawn, timeout, yield_now};
use runtime::{Load, offload};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use sys::signal::Signal;
use sys::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;

use crate::harness::{Server, cases, well};

cases! {
    ["prefork", "worker", "event", "percore"]:
        deadlines_pass, a_helper_task_lives_as_long_as_its_handle, another_thread_wakes_a_handler,
        a_job_that_blocks_is_done, a_client_of_hyper, a_client_of_tokio_rustls, a_server_at_a_path,
        nobody_listens_where_one_connects;
}

/// The most time a backend may take.
const LONG: Duration = Duration::from_secs(20);
/// A time that passes soon.
const MOMENT: Duration = Duration::from_millis(20);

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn ensure(is_so: bool, what: &str) -> io::Result<()> {
    if is_so { Ok(()) } else { Err(failed(what)) }
}

// ---- in the server ----

/// Does a job in a handler. An error ends the connection, and is printed on standard output.
pub(crate) async fn serve(job: &str) -> io::Result<()> {
    let (name, argument) = job.split_once(' ').unwrap_or((job, ""));
    let done = async {
        match name {
            "deadlines" => deadlines().await,
            "helper" => helper().await,
            "wake" => wake().await,
            "offload" => blocking().await,
            "hyper" => hyper_client(argument.parse().map_err(failed)?).await,
            "tls" => tls_client(argument).await,
            "path" => path_client(Path::new(argument)).await,
            "nobody" => nobody(argument.parse().map_err(failed)?).await,
            _ => Err(failed("no such job")),
        }
    };
    let done = timeout(LONG, done).await.unwrap_or_else(|elapsed| Err(elapsed.into()));
    done.inspect_err(|error| println!("{job}: {error}"))
}

async fn deadlines() -> io::Result<()> {
    let begun = Instant::now();
    sleep_until(begun + MOMENT).await;
    ensure(begun.elapsed() >= MOMENT, "it slept too short")?;
    ensure(timeout(MOMENT, std::future::pending::<()>()).await.is_err(), "nothing is late")?;
    ensure(timeout(LONG, sleep_until(Instant::now() + MOMENT)).await.is_ok(), "the shorter one comes first")?;
    ensure(begun.elapsed() < LONG, "it slept too long")
}

/// Records that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn helper() -> io::Result<()> {
    // It works while the handler does, and they talk.
    let (ask, mut asked) = mpsc::channel::<oneshot::Sender<u32>>(1);
    let mut count = 0;
    let task = spawn(async move {
        while let Some(answer) = asked.recv().await {
            yield_now().await;
            count += 1;
            let _ = answer.send(count);
        }
    });
    for expected in 1..=5 {
        let (answer, answered) = oneshot::channel();
        ask.send(answer).await.map_err(failed)?;
        ensure(answered.await.map_err(failed)? == expected, "the helper counts")?;
    }
    drop(task);
    // The receiver is gone once the task is.
    ask.closed().await;
    // A panic affects the task only.
    let (panics, never) = oneshot::channel::<()>();
    let task = spawn(async move {
        let _panics = panics;
        panic!("asked to");
    });
    ensure(never.await.is_err(), "it panicked")?;
    drop(task);
    // A task that nobody drops ends with the handler, or soon after it.
    let dropped = Arc::new(AtomicBool::new(false));
    let mine = Dropped(dropped.clone());
    let task = spawn(async move {
        std::future::pending::<()>().await;
        drop(mine);
    });
    yield_now().await;
    ensure(!dropped.load(Ordering::SeqCst), "it has a handle")?;
    drop(task);
    while !dropped.load(Ordering::SeqCst) {
        yield_now().await;
    }
    Ok(())
}

async fn wake() -> io::Result<()> {
    // Again and again, so that wake-ups come at all moments of the wait.
    for round in 0..200 {
        let (send, receive) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            (0..round * 50).for_each(|_| std::hint::spin_loop());
            let _ = send.send(round);
        });
        ensure(receive.await.map_err(failed)? == round, "what was sent")?;
        thread.join().map_err(|_| failed("the thread"))?;
    }
    Ok(())
}

async fn blocking() -> io::Result<()> {
    let (tell, told) = std::sync::mpsc::channel();
    tell.send(7).map_err(failed)?;
    ensure(offload(Load::Wait, move || told.recv()).await.map_err(failed)? == 7, "the job's result")?;
    let sum = offload(Load::Compute, || (0..1000u64).sum::<u64>()).await;
    ensure(sum == 499_500, "another one's")
}

async fn hyper_client(address: SocketAddr) -> io::Result<()> {
    let stream = Descriptor::connect(address, Instant::now() + LONG).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let _connection = spawn(async move {
        let _ = connection.await;
    });
    for path in ["/one", "/two"] {
        sender.ready().await.map_err(failed)?;
        let request =
            hyper::Request::get(path).header("Host", "backend").body(Empty::<Bytes>::new()).map_err(failed)?;
        let response = sender.send_request(request).await.map_err(failed)?;
        ensure(response.status() == 200, "the status")?;
        let body = response.into_body().collect().await.map_err(failed)?.to_bytes();
        ensure(body == path.as_bytes(), "the body")?;
    }
    Ok(())
}

async fn tls_client(argument: &str) -> io::Result<()> {
    let (address, file) = argument.split_once(' ').ok_or_else(|| failed("address and certificate"))?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(file)?)).map_err(failed)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = Descriptor::connect(address.parse().map_err(failed)?, Instant::now() + LONG).await?;
    let name = ServerName::try_from("localhost").map_err(failed)?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    // More than fits into the buffers of both sides, so that writing waits too.
    let sent = vec![b'x'; MUCH];
    let (mut read, mut write) = tokio::io::split(&mut stream);
    let mut came = vec![0; MUCH];
    let send = async {
        write.write_all(&sent).await?;
        write.flush().await
    };
    let both = timeout(LONG, send).await;
    both??;
    read.read_exact(&mut came).await?;
    ensure(came == sent, "it comes back")
}

async fn path_client(path: &Path) -> io::Result<()> {
    let mut stream = Descriptor::connect_unix(path, Instant::now() + LONG).await?;
    stream.write_all(b"question").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure(answer == "question", "the answer")
}

async fn nobody(address: SocketAddr) -> io::Result<()> {
    let error = Descriptor::connect(address, Instant::now() + LONG).await.err();
    ensure(error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused), "refused")
}

// ---- in the test ----

/// How much goes through the encrypted connection and back.
const MUCH: usize = 300_000;

/// A handler does a job, several times at once where threads or processes allow it, and is still there afterwards.
fn done(mpm: &str, job: &str) {
    let mut server = Server::start(mpm, "start=2 min=1 max=5 workers=8");
    let mut clients: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for round in 0..2 {
        clients.iter_mut().for_each(|client| client.send(&format!("do {job}")));
        for client in &mut clients {
            let answer = client.answer();
            assert!(answer.is_some(), "{job}, round {round}: {:?}", server.says(job));
        }
    }
    clients.iter_mut().for_each(|client| {
        client.served_by();
    });
    server.signal(Signal::TERM);
    assert!(well(server.ended()));
}

/// A backend on an address of its own, for any number of connections.
fn backend(serve: impl FnMut(TcpStream) -> io::Result<()> + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut serve = serve.clone();
            std::thread::spawn(move || serve(connection));
        }
    });
    address
}

fn deadlines_pass(mpm: &str) {
    done(mpm, "deadlines");
}

fn a_helper_task_lives_as_long_as_its_handle(mpm: &str) {
    done(mpm, "helper");
}

fn another_thread_wakes_a_handler(mpm: &str) {
    done(mpm, "wake");
}

fn a_job_that_blocks_is_done(mpm: &str) {
    done(mpm, "offload");
}

/// Answers requests with their paths.
fn http(mut stream: TcpStream) -> io::Result<()> {
    let (mut request, mut bytes) = (Vec::new(), [0; 512]);
    loop {
        let end = request.windows(4).position(|end| end == b"\r\n\r\n");
        let Some(end) = end else {
            match stream.read(&mut bytes)? {
                0 => return Ok(()),
                count => request.extend_from_slice(&bytes[..count]),
            }
            continue;
        };
        let head = String::from_utf8_lossy(&request[..end]).into_owned();
        request.drain(..end + 4);
        let path = head.split(' ').nth(1).unwrap_or_default();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", path.len())?;
        stream.write_all(path.as_bytes())?;
    }
}

fn a_client_of_hyper(mpm: &str) {
    done(mpm, &format!("hyper {}", backend(http)));
}

fn a_client_of_tokio_rustls(mpm: &str) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_string()]).expect("certificate");
    let file = std::env::temp_dir().join(format!("tsubame-executor-{}-{mpm}.der", std::process::id()));
    std::fs::write(&file, cert.der()).expect("write");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key);
    let config = Arc::new(config.expect("configuration"));
    let address = backend(move |stream| {
        let connection = ServerConnection::new(config.clone()).map_err(failed)?;
        let mut stream = StreamOwned::new(connection, stream);
        // It reads everything before it sends anything back.
        loop {
            let mut much = vec![0; MUCH];
            stream.read_exact(&mut much)?;
            stream.write_all(&much)?;
            stream.flush()?;
        }
    });
    done(mpm, &format!("tls {address} {}", file.display()));
    std::fs::remove_file(&file).expect("remove");
}

fn a_server_at_a_path(mpm: &str) {
    let path = std::env::temp_dir().join(format!("tsubame-executor-{}-{mpm}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("bind");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut question = String::new();
            stream.read_to_string(&mut question).expect("question");
            stream.write_all(question.as_bytes()).expect("answer");
        }
    });
    done(mpm, &format!("path {}", path.display()));
    std::fs::remove_file(&path).expect("remove");
}

fn nobody_listens_where_one_connects(mpm: &str) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
    let address = listener.local_addr().expect("address");
    drop(listener);
    done(mpm, &format!("nobody {address}"));
}
