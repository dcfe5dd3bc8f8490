//! `stale-while-revalidate`: what is stale goes out at once to everybody, while one request without a client has it renewed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sys::signal::Signal;

use super::{open_directories, word};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until, within};
use crate::harness::wire::get;
use crate::proxy::origin::Listening;

/// A server behind ours whose responses the test writes.
struct Backend {
    address: SocketAddr,
    asked: Receiver<Asked>,
    _listening: Listening,
}

/// A request to it.
struct Asked {
    head: String,
    response: Sender<String>,
}

impl Backend {
    fn start() -> Backend {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
        let listening = Listening(listener.try_clone().expect("clone"));
        let address = listener.local_addr().expect("address");
        let (asks, asked) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let asks = asks.clone();
                std::thread::spawn(move || serve(stream, &asks));
            }
        });
        Backend { address, asked, _listening: listening }
    }

    fn next(&self) -> Asked {
        self.asked.recv_timeout(DEADLINE).expect("a request to the backend")
    }

    fn is_left_alone(&self) -> bool {
        self.asked.try_recv().is_err()
    }
}

fn serve(mut stream: TcpStream, asks: &Sender<Asked>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let (response, written) = channel::<String>();
    asks.send(Asked { head: String::from_utf8_lossy(&head).into_owned(), response }).ok()?;
    stream.write_all(written.recv().ok()?.as_bytes()).ok()
}

impl Asked {
    fn answer(self, status: u16, control: &str, body: &str) {
        let text = format!(
            "HTTP/1.1 {status} X\r\nConnection: close\r\nCache-Control: {control}\r\nETag: \"{body}\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.response.send(text).expect("the backend");
    }
}

fn site() -> Site {
    let site = Site::new();
    open_directories(&site, &["run", "run/cache"]);
    site
}

/// A server that has a response stored which is stale.
fn start<'a>(mpm: Mpm, site: &'a Site, backend: &Backend, lines: &str, control: &str) -> Server<'a> {
    let configuration = format!(
        "ProxyPass /p http://{}/\nCacheRoot ${{ROOT}}/run/cache\nCacheEnable disk /p\nCacheHeader On\nCacheStatusHeader On\n\
         CacheLockPath ${{ROOT}}/run/locks\nLogFormat \"%m %U\" own\nCustomLog logs/own own\n{lines}\n",
        backend.address
    );
    let server = Server::start(mpm, site, &configuration);
    let mut client = server.client();
    client.send(get("/p"));
    backend.next().answer(200, control, "one");
    assert_eq!(word(&client.response()), "MISS", "{mpm}");
    server
}

/// Everybody gets the stale response; none of them waits for the backend.
fn all_get_it(mpm: Mpm, server: &Server<'_>, requests: &[&str]) {
    for text in requests {
        let mut client = server.client();
        client.send(text);
        let response = client.response_to(if text.starts_with("HEAD") { "HEAD" } else { "GET" });
        assert_eq!(word(&response), "HIT", "{mpm}: {text}");
        assert_eq!(response.field("Warning"), Some("110 Response is stale"), "{mpm}: {text}");
        let said = response.field("Cache-Status").unwrap_or_default();
        assert!(said.contains("; hit; ttl=0") || said.contains("; hit; ttl=-"), "{mpm}: {said}");
        assert!(response.field("Age").is_some(), "{mpm}");
    }
}

const PLAIN: &str = "GET /p HTTP/1.1\r\nHost: localhost\r\n\r\n";
const RANGE: &str = "GET /p HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1\r\n\r\n";
const HEAD: &str = "HEAD /p HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A response that is stale at once, and may go out nevertheless.
const STALE: &str = "max-age=0, stale-while-revalidate=600";

fn renewed_once(mpm: Mpm) {
    // What the client asks for besides is its own affair.
    let late = "CacheQuickHandler Off";
    for (first, lines) in [(PLAIN, "CacheQuickHandler Off\nSetOutputFilter CACHE"), (RANGE, ""), (HEAD, late)] {
        let (site, backend) = (site(), Backend::start());
        let server = start(mpm, &site, &backend, lines, STALE);
        all_get_it(mpm, &server, &[first]);
        let renewing = backend.next();
        let head = renewing.head.to_ascii_lowercase();
        assert!(head.starts_with("get / ") && head.contains("\r\nif-none-match: \"one\"\r\n"), "{mpm}: {head}");
        assert!(!head.contains("\r\nrange:"), "{mpm}: {head}");
        all_get_it(mpm, &server, &[PLAIN, RANGE, HEAD, PLAIN]);
        assert!(backend.is_left_alone(), "{mpm}: one request at a time");
        renewing.answer(200, "max-age=600", "two");
        let mut asked = 6;
        let renewed = || {
            asked += 1;
            Some(server.get("/p")).filter(|response| response.text() == "two")
        };
        let response = until("the renewed response", renewed);
        assert_eq!((word(&response), response.field("Warning")), ("HIT", None), "{mpm}");
        assert!(backend.is_left_alone(), "{mpm}: it is fresh");
        let logged = || site.read("logs/own").lines().count();
        until("all lines of the log", || (logged() >= asked).then_some(()));
        assert_eq!(logged(), asked, "{mpm}: only clients' requests are logged");
        let locks = std::fs::read_dir(site.root.join("run/locks")).expect("locks").count();
        assert!(locks > 0, "{mpm}");
    }
}

/// A response that the backend confirms is fresh again, and one that it cannot make stays for as long as it may.
fn confirmed_or_kept(mpm: Mpm) {
    let (site, backend) = (site(), Backend::start());
    let lines = "CacheStaleOnError Off\nProxyErrorOverride On";
    let server = start(mpm, &site, &backend, lines, &format!("{STALE}, stale-if-error=600"));
    all_get_it(mpm, &server, &[PLAIN]);
    backend.next().answer(503, "no-store", "down");
    // The next request begins another renewal, once the first one is over.
    let again = until("another renewal", || {
        all_get_it(mpm, &server, &[PLAIN]);
        backend.asked.try_recv().ok()
    });
    again.answer(304, "max-age=600", "one");
    let confirmed = || Some(server.get("/p")).filter(|response| response.field("Warning").is_none());
    let response = until("the confirmed response", confirmed);
    assert_eq!((response.text().as_ref(), word(&response)), ("one", "HIT"), "{mpm}");
    assert!(backend.is_left_alone(), "{mpm}");
}

/// A client that wants something fresher waits for the backend, and so does one that comes too late.
fn others_wait(mpm: Mpm) {
    for (control, field) in [(STALE, "Cache-Control: max-age=0"), ("max-age=0, stale-while-revalidate=0", "X: y")] {
        let (site, backend) = (site(), Backend::start());
        let server = start(mpm, &site, &backend, "", control);
        let mut client = server.client();
        client.send(format!("GET /p HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n"));
        backend.next().answer(200, "max-age=600", "two");
        let response = client.response();
        assert_eq!((response.text().as_ref(), word(&response)), ("two", "MISS"), "{mpm}: {control}");
    }
}

/// Who wants it fresher does not get what others get while it is renewed.
fn others_pass(mpm: Mpm) {
    let (site, backend) = (site(), Backend::start());
    let server = start(mpm, &site, &backend, "", STALE);
    all_get_it(mpm, &server, &[PLAIN]);
    let renewing = backend.next();
    for field in ["max-age=0", "min-fresh=10"] {
        let mut client = server.client();
        client.send(format!("GET /p HTTP/1.1\r\nHost: localhost\r\nCache-Control: {field}\r\n\r\n"));
        backend.next().answer(200, "max-age=600", field);
        assert_eq!(client.response().text(), field, "{mpm}");
    }
    renewing.answer(200, "max-age=600", "two");
}

/// A new response that is too large to be stored ends the old one.
fn too_large(mpm: Mpm) {
    let (site, backend) = (site(), Backend::start());
    let server = start(mpm, &site, &backend, "CacheMaxFileSize 10", STALE);
    all_get_it(mpm, &server, &[PLAIN]);
    backend.next().answer(200, "max-age=600", "too large for the storage");
    let is_gone = || (files_below(&site.root.join("run/cache")) == 0).then_some(());
    until("the end of the old response", is_gone);
    let mut client = server.client();
    client.send(PLAIN);
    backend.next().answer(200, "max-age=600", "new");
    assert_eq!(client.response().text(), "new", "{mpm}");
}

/// A renewal ends with its process, and leaves no lock to the next generation.
fn abandoned(mpm: Mpm) {
    let (site, backend) = (site(), Backend::start());
    let mut server = start(mpm, &site, &backend, "CacheLockMaxAge 600", STALE);
    all_get_it(mpm, &server, &[PLAIN]);
    let first = backend.next();
    server.restart(Signal::USR1);
    let second = until("a renewal by the next generation", || {
        all_get_it(mpm, &server, &[PLAIN]);
        backend.asked.try_recv().ok()
    });
    server.signal(Signal::TERM);
    assert!(server.ends().success(), "{mpm}");
    let left = files_below(&site.root.join("run/locks"));
    assert_eq!(left, 0, "{mpm}: locks");
    drop((first, second));
}

fn files_below(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(path).expect("directory").map(|entry| entry.expect("entry").path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

crate::harness::mpm::under_every_mpm! {
    fn one_request_renews_for_all(mpm: Mpm) {
        renewed_once(mpm);
    }
}

crate::harness::mpm::under_percore_and! {
    prefork:

    fn an_origin_that_confirms_or_fails(mpm: Mpm) {
        confirmed_or_kept(mpm);
    }

    fn clients_that_have_to_wait(mpm: Mpm) {
        others_wait(mpm);
        others_pass(mpm);
    }

    fn a_response_that_is_too_large(mpm: Mpm) {
        too_large(mpm);
    }

    fn a_process_that_ends(mpm: Mpm) {
        abandoned(mpm);
    }
}

/// While a renewal takes longer than a lock holds, no other process begins one. Under prefork each connection has a process.
#[test]
fn a_slow_renewal_keeps_its_lock() {
    let (site, backend) = (site(), Backend::start());
    let server = start(Mpm::Prefork, &site, &backend, "CacheLockMaxAge 2\nMaxKeepAliveRequests 0", STALE);
    let mut first = server.client();
    first.send(PLAIN);
    assert_eq!(word(&first.response()), "HIT");
    let renewing = backend.next();
    let mut other = server.client();
    let twice = within(Duration::from_millis(2300), || {
        other.send(PLAIN);
        assert_eq!(word(&other.response()), "HIT");
        backend.asked.try_recv().ok()
    });
    assert!(twice.is_none(), "two processes renew at a time");
    renewing.answer(200, "max-age=600", "two");
    until("the renewed response", || Some(server.get("/p")).filter(|response| response.text() == "two"));
}
