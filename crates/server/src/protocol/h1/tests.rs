//! Connections over a scripted transport: situations that no client can bring about at will.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use conf::{Language, ModuleInfo};
use runtime::scoreboard::{self, Rows, Workers};

use super::*;
use crate::files::machine::Machine;
use crate::load::{Sources, load};
use crate::message::body::RequestBody;
use crate::module::hook::Module;
use crate::protocol::service::HttpService;
use crate::settings::read_timeout::BodyRules;
use crate::transport::endpoint::{Counted, Endpoint, Transport};
use crate::transport::park_state::ParkState;
use crate::{core_module, module};

/// A transport with a scripted client.
#[derive(Default)]
struct Script {
    /// The client's bytes for each read; `None`: nothing is there yet.
    reads: Mutex<VecDeque<Option<&'static str>>>,
    /// Whether the client takes no bytes.
    full: AtomicBool,
    sent: Mutex<Vec<u8>>,
    park_state: ParkState,
}

impl Endpoint for Script {
    fn local(&self) -> io::Result<SocketAddr> {
        Ok(([127, 0, 0, 1], 80).into())
    }

    fn has_ended(&self) -> bool {
        false
    }
}

impl Transport for Script {
    fn poll_read(&self, _: &mut Context<'_>, buffer: &mut Vec<u8>, _: usize) -> Poll<io::Result<usize>> {
        match self.reads.lock().expect("script").pop_front().flatten() {
            None => Poll::Pending,
            Some(text) => {
                buffer.extend_from_slice(text.as_bytes());
                Poll::Ready(Ok(text.len()))
            }
        }
    }

    fn poll_send(&self, _: &mut Context<'_>, bytes: &[u8], _: bool) -> Poll<io::Result<usize>> {
        if self.full.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.sent.lock().expect("sent").extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_send_both(&self, cx: &mut Context<'_>, first: &[u8], second: &[u8], more: bool) -> Poll<io::Result<usize>> {
        self.poll_send(cx, &[first, second].concat(), more)
    }

    fn poll_send_file(&self, _: &mut Context<'_>, _: &OwnedFd, _: &mut u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_reset(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn has_input(&self) -> bool {
        false
    }

    fn shutdown(&self) -> io::Result<()> {
        Ok(())
    }

    fn park_state(&self) -> &ParkState {
        &self.park_state
    }

    fn keep(&self, _: Counted) {}
}

/// A connection to a server of the core alone.
fn connection(configuration: &str, script: impl IntoIterator<Item = Option<&'static str>>) -> Http1Connection {
    static MODULES: &[&Module] = &[&core_module::CORE];
    module::set_known(MODULES);
    let infos: &'static [&'static ModuleInfo] = Vec::leak(vec![&core_module::CORE.info]);
    let sources = Sources {
        program: "test",
        before: &[],
        file: None,
        text: Some(("test", configuration)),
        after: &[],
        keep_errors: false,
    };
    let language = Language::new(infos, infos, "/");
    let loaded = load(Arc::new(Machine), language, &sources, |_| "Test/1".into(), |_, _| Ok(()));
    let server = loaded.unwrap_or_else(|failed| panic!("{:?}", failed.error)).server;
    let service = Box::leak(Box::new(HttpService::new(Arc::new(server))));
    let board = scoreboard::create(1, 1, false).expect("memory");
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    let script = Script { reads: Mutex::new(script.into_iter().collect()), ..Script::default() };
    Http1Connection::new(service.running(), Arc::new(script), ([127, 0, 0, 1], 1).into(), workers)
}

/// A head may arrive at the very moment its time is over. It is served, and a head that begins after it has its own
/// time.
#[test]
fn a_time_out_does_not_outlive_its_request() {
    // Missing at the first two reads, until the time is over, and there at the last read.
    let late = "GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /next HT";
    let mut connection =
        connection("ServerName a\nDocumentRoot /\nErrorLog /dev/null\nTimeout 1\n", [None, None, None, Some(late)]);
    let mut step = |stage| sys::block_on::block_on(connection.step(stage), || ()).expect("poll(2)");
    assert_eq!(step(Stage::Serve), Stage::ReadHead);
    assert_eq!(step(Stage::ReadHead), Stage::Serve, "too late");
    assert_eq!(step(Stage::Serve), Stage::Serve, "it is there all the same, and so is the beginning of another one");
    assert_eq!(step(Stage::Serve), Stage::ReadHead, "of which the rest may come");
}

/// A socket may take nothing when `100 Continue` should be sent, and the response may begin meanwhile: from there on the
/// client is not invited to send, though a script reads on.
#[test]
fn no_invitation_comes_inside_an_answer() {
    let client = Arc::new(Script::default());
    let transport: Arc<dyn Transport> = client.clone();
    let rules = BodyRules { timeout: Duration::from_secs(60), read_timeout: None, limits: http::Limits::default() };
    let ask = |body: &RequestBody| {
        let polled = pin!(body.read()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the client has sent nothing");
        std::mem::take(&mut *client.sent.lock().expect("sent"))
    };
    let steps = async {
        for (begins, sent) in [(false, "HTTP/1.1 100 Continue\r\n\r\n"), (true, "")] {
            let (incoming, body) =
                body::incoming(&transport, Framing::Length(4), Vec::new(), true, rules, 0).expect("a body");
            client.full.store(true, Ordering::Relaxed);
            assert_eq!(ask(&body), b"");
            if begins {
                assert!(incoming.withdraw(), "the client still waits");
            }
            client.full.store(false, Ordering::Relaxed);
            assert_eq!(ask(&body), sent.as_bytes());
            assert!(!incoming.withdraw());
        }
    };
    sys::block_on::block_on(steps, || ()).expect("poll(2)");
}
