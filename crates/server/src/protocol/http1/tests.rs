//! Connections over a transport that does as it is bid: what no client can bring about at will.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::Poll;

use conf::{Language, ModuleInfo};
use seam::scoreboard::{self, Rows};

use super::*;
use crate::config::module::{self, Module};
use crate::config::{Sources, load};
use crate::core_module;
use crate::files::machine::Machine;
use crate::transport::Endpoint;

/// What a transport says when it is read: `None`, that nothing is there yet.
struct Script(Mutex<VecDeque<Option<&'static str>>>);

impl Endpoint for Script {
    fn local(&self) -> io::Result<SocketAddr> {
        Ok(([127, 0, 0, 1], 80).into())
    }

    fn is_secure(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        false
    }
}

impl Transport for Script {
    fn poll_read(&self, _: &mut Context<'_>, buffer: &mut Vec<u8>, _: usize) -> Poll<io::Result<usize>> {
        match self.0.lock().expect("script").pop_front().flatten() {
            None => Poll::Pending,
            Some(text) => {
                buffer.extend_from_slice(text.as_bytes());
                Poll::Ready(Ok(text.len()))
            }
        }
    }

    fn poll_send(&self, _: &mut Context<'_>, bytes: &[u8], _: bool) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_send_file(&self, _: &mut Context<'_>, _: &OwnedFd, _: &mut u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn reset(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    fn has_input(&self) -> bool {
        false
    }

    fn shutdown(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection to a server of the core alone.
fn connection(configuration: &str, script: impl IntoIterator<Item = Option<&'static str>>) -> HttpConnection {
    static MODULES: &[&Module] = &[&core_module::CORE];
    module::set_known(MODULES);
    let infos: &'static [&'static ModuleInfo] = Vec::leak(vec![&core_module::CORE.info]);
    let sources = Sources { program: "test", before: &[], file: None, text: Some(("test", configuration)), after: &[] };
    let language = Language::new(infos, infos, "/");
    let loaded = load(Arc::new(Machine), language, &sources, |_| "Test/1".into(), |_, _| Ok(()));
    let server = loaded.unwrap_or_else(|failed| panic!("{:?}", failed.error)).server;
    let service = Box::leak(Box::new(HttpService::new(Arc::new(server))));
    let board = scoreboard::create(1, 1).expect("memory");
    board.claim(0, 0, 1);
    let workers = Workers::start(board, 0, Rows::OfRequests);
    service.over(Arc::new(Script(Mutex::new(script.into_iter().collect()))), ([127, 0, 0, 1], 1).into(), workers)
}

/// A head may come in the moment in which the time for it is over. It is served, and a head that begins behind it has its own
/// time.
#[test]
fn a_time_out_does_not_outlive_its_request() {
    // Looked for twice in vain, until the time is over, and there when it is looked for the last time.
    let late = "GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /next HT";
    let mut connection =
        connection("ServerName a\nDocumentRoot /\nErrorLog /dev/null\nTimeout 1\n", [None, None, None, Some(late)]);
    let mut step = |stage| sys::block_on::block_on(connection.step(stage), || ()).expect("poll(2)");
    assert_eq!(step(Stage::Serve), Stage::ReadHead);
    assert_eq!(step(Stage::ReadHead), Stage::Serve, "too late");
    assert_eq!(step(Stage::Serve), Stage::Serve, "it is there all the same, and so is the beginning of another one");
    assert_eq!(step(Stage::Serve), Stage::ReadHead, "of which the rest may come");
}
