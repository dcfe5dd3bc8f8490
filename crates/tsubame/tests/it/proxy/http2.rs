//! HTTP/2 servers behind the proxy: what they get and what becomes of their answers, compared with Apache; connections; servers that
//! nobody can understand.

use std::sync::atomic::Ordering;

use crate::harness::frames::{Ended, Frames, request};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache, Case};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::proxy::http2_backend::Http2Backend;
use crate::proxy::secure_origin::{Authority, Manner, SecureOrigin};
use crate::scripts::cgi_same_as_apache::{case, gets};

const CONFIGURATION: &str = "ProxyPass /app/ h2c://${ADDR}:9108/inner/\nProxyPassReverse /app/ http://${ADDR}:9108/inner/\n\
    ProxyPassReverseCookiePath /inner/ /app/\nProxyPass /once/ h2c://${ADDR}:9108/once/ disablereuse=on\n\
    <Proxy balancer://b>\nBalancerMember h2c://${ADDR}:9108\n</Proxy>\nProxyPass /b/ balancer://b/\n\
    <Location /host/>\nProxyPass h2c://${ADDR}:9108/h/\nProxyPreserveHost On\n</Location>\n\
    <Location /plain/>\nProxyPass h2c://${ADDR}:9108/p/\nProxyAddHeaders Off\n</Location>\n\
    <Location /over/>\nProxyPass h2c://${ADDR}:9108/o/\nProxyErrorOverride On 404\nErrorDocument 404 \"our own\"\n</Location>\n\
    RewriteEngine On\nRewriteRule ^/rewritten/(.*) h2c://${ADDR}:9108/r/$1 [P]\n\
    <Location /handled>\nSetHandler \"proxy:h2c://${ADDR}:9108/s\"\n</Location>\n";
/// Apache's tests load no module that changes connections of others.
const SETTINGS: &[(u16, u32)] = &[(3, 100)];

fn cases() -> Vec<Case> {
    let mut cases = gets(&[
        "/app/echo?a=b%20c&d",
        "/app/a%20b;x=%25'!",
        "/app/",
        "/app/%C3%A4?%C3%A4",
        "/once/echo",
        "/b/echo?x",
        "/host/echo",
        "/plain/echo",
        "/over/missing",
        "/rewritten/a%20b?q=1",
        "/handled/a?q=1",
        "/app/fields",
        "/app/missing",
        "/app/unchanged",
        "/app/nothing",
        "/app/bare",
        "/app/pieces",
    ]);
    cases.extend([
        case("HEAD /app/nothing", "", ""),
        case("GET /app/x", "Host: other.example:99\r\n", ""),
        case("PATCH /app/x", "", ""),
        case("PROPFIND /app/x", "Depth: 1\r\n", ""),
        case("OPTIONS /app/x", "Max-Forwards: 5\r\n", ""),
        case("GET /app/x", "Accept: a\r\nCookie: e=f\r\nReferer: i\r\nUser-Agent: j\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\nVia: 1.0 fred\r\nX-Forwarded-For: 6.6.6.6\r\nKeep-Alive: 3\r\nProxy-Connection: x\r\nUpgrade: y\r\nTE: gzip\r\n", ""),
        case("POST /app/x", "Content-Length: 3\r\nContent-Type: a/b\r\n", "a=b"),
        case("POST /app/x", "Content-Length: 0\r\n", ""),
        case("PUT /app/x", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ]);
    cases
}

/// What the client gets, which often is what the backend got.
fn answers(site: &Site, cases: &[Case]) -> Vec<String> {
    let answer = |one: &Case| {
        let mut client = Client::connect(site.address());
        client.send(&one.bytes);
        let method = if one.bytes.starts_with(b"HEAD") { "HEAD" } else { "GET" };
        let (response, _) = client.beginning_to(method).expect("an answer");
        let is_own = |name: &str| {
            ["server", "date", "transfer-encoding", "content-length", "accept-ranges", "connection"]
                .contains(&&*name.to_ascii_lowercase())
        };
        let fields = response.fields.iter().filter(|(name, _)| !is_own(name));
        let mut lines: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
        lines.sort();
        // The order of the fields says nothing.
        let mut told: Vec<String> = response.text().lines().map(str::to_string).collect();
        told.sort();
        let text = format!("{} {} {}\n{}", response.status, response.reason, lines.join(", "), told.join("\n"));
        text.replace(&site.ip.to_string(), "ADDR")
    };
    cases.iter().map(answer).collect()
}

#[test]
fn requests_and_responses_of_http2() {
    if !oracle::is_there("requests_and_responses_of_http2") {
        return;
    }
    let cases = cases();
    let theirs = {
        let site = Site::new();
        let _backend = Http2Backend::start(site.ip, SETTINGS);
        let _apache = Apache::start(&site, CONFIGURATION);
        answers(&site, &cases)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let backend = Http2Backend::start(site.ip, SETTINGS);
        let _server = Server::start(mpm, &site, CONFIGURATION);
        let ours = answers(&site, &cases);
        let all = cases.iter().zip(&ours).zip(&theirs);
        let other = all.filter(|((_, ours), theirs)| ours != theirs);
        let texts = other.map(|((one, ours), theirs)| format!("{}\n-- ours\n{ours}\n-- Apache\n{theirs}", one.name));
        let texts: Vec<String> = texts.collect();
        assert!(texts.is_empty(), "{mpm}: {}", texts.join("\n\n"));
        backend.close_all();
    }
}

/// One child, whose clients all speak HTTP/2 or all HTTP/1.1.
const ONE_CHILD: &str = "Protocols h2c http/1.1\nStartServers 1\nServerLimit 1\n";

/// Requests of several clients share a connection, as many as the backend allows; others get another one.
#[test]
fn requests_share_connections() {
    for mpm in [Mpm::Percore, Mpm::Event] {
        let site = Site::new();
        let backend = Http2Backend::start(site.ip, &[(3, 3)]);
        let server =
            Server::start(mpm, &site, &format!("{CONFIGURATION}{ONE_CHILD}ThreadsPerChild 16\nMaxRequestWorkers 16\n"));
        let mut frames = Frames::connect(site.address(), &[]);
        let held = (1..8).map(|count| {
            let stream = frames.get("/app/held");
            until("the request", || (backend.waiting() == count).then_some(()));
            stream
        });
        let held: Vec<u32> = held.collect();
        assert_eq!(backend.connections.load(Ordering::Relaxed), 3, "{mpm}: three requests each");
        backend.let_go();
        assert_eq!(frames.all(&held), vec![Ended::Answered(200, b"hi".to_vec()); 7], "{mpm}");
        // Many at once find the connections that are there.
        let streams: Vec<u32> = (0..9).map(|_| frames.get("/app/bare")).collect();
        assert_eq!(frames.all(&streams), vec![Ended::Answered(200, b"hi".to_vec()); 9], "{mpm}");
        assert_eq!(backend.connections.load(Ordering::Relaxed), 3, "{mpm}");
        // Those whose client leaves are given up, and leave room.
        let stream = frames.get("/app/endless");
        while frames.frame().is_some_and(|frame| frame.kind != crate::harness::frames::DATA) {}
        frames.send(crate::harness::frames::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        until("the backend hears of it", || (*backend.resets.lock().expect("no panic") == [8]).then_some(()));
        assert_eq!(server.get("/app/bare").text(), "hi");
        backend.close_all();
    }
}

/// Clients that leave are no reason for the backend to close a connection on which others wait: after some of them, it takes no more
/// requests, and the backend hears of a part of them only.
#[test]
fn clients_that_leave_do_no_harm_to_others() {
    let site = Site::new();
    let backend = Http2Backend::start(site.ip, SETTINGS);
    let server = Server::start(Mpm::Percore, &site, &format!("{CONFIGURATION}{ONE_CHILD}"));
    let mut frames = Frames::connect(site.address(), &[]);
    let held = frames.get("/app/held");
    until("the request", || (backend.waiting() == 1).then_some(()));
    let left: Vec<u32> = (0..60).map(|_| frames.get("/app/endless")).collect();
    until("the others", || (backend.requests.load(Ordering::Relaxed) == 61).then_some(()));
    for stream in left {
        frames.send(crate::harness::frames::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
    }
    let resets = || backend.resets.lock().expect("no panic").clone();
    until("the backend hears of it", || (resets().len() == 40).then_some(()));
    assert_eq!(backend.connections.load(Ordering::Relaxed), 1);
    assert_eq!(server.get("/app/bare").text(), "hi");
    assert_eq!(backend.connections.load(Ordering::Relaxed), 2);
    assert_eq!(backend.ended.load(Ordering::Relaxed), 0);
    backend.let_go();
    assert_eq!(frames.all(&[held]), [Ended::Answered(200, b"hi".to_vec())]);
    until("the first connection ends", || (backend.ended.load(Ordering::Relaxed) == 1).then_some(()));
    assert_eq!(resets(), [8; 40]);
    backend.close_all();
}

/// A connection carries many requests, and a new one takes the place of one that the backend has closed. A request is sent again if the
/// backend has not processed it, or if that does no harm.
#[test]
fn connections_of_http2() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let backend = Http2Backend::start(site.ip, SETTINGS);
        let text =
            format!("{CONFIGURATION}{ONE_CHILD}<IfModule mpm_prefork_module>\nMaxRequestWorkers 1\n</IfModule>\n");
        let server = Server::start(mpm, &site, &text);
        let connections = || backend.connections.load(Ordering::Relaxed);
        let mut client = server.client();
        let large = "x".repeat(300_000);
        let post = |path: &str, body: &str| {
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        for _ in 0..3 {
            assert_eq!(client.get("/app/bare").text(), "hi");
            assert_eq!(client.get("/app/pieces").text(), "abcd");
            client.send("HEAD /app/bare HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(client.response_to("HEAD").field("Content-Length"), Some("2"));
            assert_eq!(client.request(post("/app/count", &large)).text(), "300000");
        }
        assert_eq!(connections(), 1, "{mpm}");
        backend.close_all();
        assert_eq!(client.get("/app/bare").text(), "hi", "{mpm}: a lost connection is nothing that the client notices");
        assert_eq!(connections(), 2, "{mpm}");
        // Whatever the method is.
        assert_eq!(
            client.request("POST /app/leaves HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").status,
            200
        );
        assert_eq!((connections(), client.get("/app/refused-once").status), (3, 200), "{mpm}");
        assert_eq!(client.get("/app/closes").status, 200, "{mpm}");
        assert_eq!(connections(), 4, "{mpm}");
        assert_eq!(client.get("/app/leaves-thrice").status, 200, "{mpm}");
        assert_eq!(connections(), 7, "{mpm}");
        let before = backend.requests.load(Ordering::Relaxed);
        server.announce("no response comes from");
        server.announce("AH00898: Error reading from remote server");
        assert_eq!(client.request(post("/app/closes", "x")).status, 502, "{mpm}: it may have done something");
        assert_eq!(backend.requests.load(Ordering::Relaxed), before + 1);
        for _ in 0..2 {
            let before = connections();
            assert_eq!(client.get("/once/bare").text(), "hi");
            assert_eq!(connections(), before + 1);
        }
        // Whoever sends to a stream that is over, and does not stop, loses the connection. (Prefork has no worker for another client.)
        if mpm == Mpm::Percore {
            server.allow("the response is longer than its content-length");
            assert_eq!(client.get("/app/bare").text(), "hi");
            let before = connections();
            let mut other = server.client();
            other.send("GET /app/deaf HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            other.rest();
            assert_eq!(client.get("/app/bare").text(), "hi");
            assert_eq!(connections(), before + 1);
        }
        backend.close_all();
    }
}

/// Fields after a body are passed on in both directions, as gRPC needs them.
#[test]
fn fields_after_bodies() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let backend = Http2Backend::start(site.ip, SETTINGS);
        let log = "CustomLog logs/access \"%{grpc-status}^to\"\n";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{log}Protocols h2c http/1.1\n"));
        let mut frames = Frames::connect(site.address(), &[]);
        let stream = frames.get("/app/trailers");
        assert_eq!(
            frames.ended_with_fields(stream),
            ("message".into(), vec![("grpc-status".into(), "0".into()), ("grpc-message".into(), "fine".into())])
        );
        let (status, fields, body) = frames.response(&request("GET", "/app/only"));
        assert!(
            status == 200 && body.is_empty() && fields.contains(&("grpc-status".into(), "12".into())),
            "{fields:?}"
        );
        // The backend says no before the request has come to its end, and the client hears it at once.
        let stream = frames.ask(&request("POST", "/app/early"), false);
        assert_eq!(frames.ended(stream), Ended::Answered(200, Vec::new()), "{mpm}");
        frames.send(crate::harness::frames::DATA, 1, stream, b"");
        let stream = frames.ask(&request("POST", "/app/echo"), false);
        frames.send(crate::harness::frames::DATA, 0, stream, b"body");
        let last = crate::harness::frames::block(&[("x-sum", "7"), ("cookie", "no=1")]);
        frames.send(crate::harness::frames::HEADERS, 5, stream, &last);
        let Ended::Answered(200, told) = frames.ended(stream) else { panic!("{mpm}") };
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.ends_with("\nbody\nx-sum: 7\n") && !told.contains("no=1"), "{mpm}: {told}");
        let mut client = server.client();
        let mut said = |fields: &str| {
            client.send(format!("GET /app/trailers HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
            let mut said = String::new();
            while !said.ends_with("\r\n\r\n") || !said.contains("\r\n0\r\n") {
                said += &String::from_utf8_lossy(&client.bytes(1));
            }
            said
        };
        assert!(
            said("TE: trailers\r\nConnection: TE\r\n")
                .ends_with("message\r\n0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\n\r\n")
        );
        assert!(said("").ends_with("message\r\n0\r\n\r\n"), "they are not wanted");
        until("the log", || server_logged(&site).then_some(()));
        backend.close_all();
    }
}

fn server_logged(site: &Site) -> bool {
    site.read("logs/access").starts_with("0\n")
}

/// A backend that nobody can understand, or that nobody should listen to.
#[test]
fn bad_backends_of_http2() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let backend = Http2Backend::start(site.ip, SETTINGS);
        let text = format!(
            "{CONFIGURATION}ProxyPass /dead/ h2c://${{ADDR}}:1/\nProxyPass /late/ h2c://${{ADDR}}:9108/ timeout=1\n"
        );
        let server = Server::start(mpm, &site, &text);
        for (name, why) in [
            ("statusless", "a head is malformed"),
            ("doubled", "a head is malformed"),
            ("connection", "a head is malformed"),
            ("coding", "a head is malformed"),
            ("capital", "a head is malformed"),
            ("control", "a head is malformed"),
            ("name", "a head is malformed"),
            ("lengths", "a head is malformed"),
            ("switched", "101 (Switching Protocols) does not exist in HTTP/2"),
            ("longer", "the response is longer than its content-length"),
            ("headless", "DATA before the head of a response"),
            ("big", "a head is too large"),
            ("reset", "it has reset the stream (INTERNAL_ERROR)"),
            ("refused", "it has refused the request"),
            ("pushes", "it violates the protocol: PUSH_PROMISE, which nobody has allowed"),
            ("continued", "it violates the protocol: CONTINUATION"),
            ("pings", "it violates the protocol: PING"),
            ("settings", "it violates the protocol: SETTINGS"),
            ("resets", "it has reset the stream (CANCEL)"),
            ("goaways", "it violates the protocol: GOAWAY"),
            ("windows", "it violates the protocol: WINDOW_UPDATE"),
            ("priorities", "it violates the protocol: PRIORITY"),
            ("unknown", "it violates the protocol: unknown"),
            ("nothings", "it violates the protocol: empty CONTINUATION"),
            ("wide", "it violates the protocol: WINDOW_UPDATE beyond the largest window"),
            ("wide-stream", "WINDOW_UPDATE beyond the largest window"),
            ("wide-setting", "it violates the protocol: SETTINGS_INITIAL_WINDOW_SIZE"),
            ("sizes", "it violates the protocol: SETTINGS_MAX_FRAME_SIZE is out of range"),
            ("push-setting", "it violates the protocol: SETTINGS_ENABLE_PUSH of a server"),
            ("never-asked", "it violates the protocol: HEADERS on a stream without a request"),
            ("even", "it violates the protocol: HEADERS on a stream without a request"),
            ("own-even", "it violates the protocol: DATA on a stream without a request"),
            ("zero", "it violates the protocol: a frame of a stream without its number"),
            ("between", "it violates the protocol: a frame within a head"),
            ("padding", "it violates the protocol: more padding than payload"),
            ("undecodable", "it violates the protocol: a head cannot be decoded"),
            ("bomb", "a head is too large"),
            ("garbage", "it violates the protocol: a frame is too large"),
        ] {
            if name != "longer" {
                server.announce(format!("no response comes from {}:9108: {why}", site.ip));
                server.announce("AH00898: Error reading from remote server");
                assert_eq!(server.get(&format!("/app/{name}")).status, 502, "{mpm}: {name}");
            }
        }
        // Where the response has begun, it breaks off.
        for (name, why) in [
            ("longer", "the response is longer than its content-length"),
            ("short", "the response is shorter than its content-length"),
            ("empty", "it violates the protocol: empty DATA"),
        ] {
            let mut client = server.client();
            client.send(format!("GET /app/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            let answer = client.beginning_to("GET");
            assert!(
                answer.is_err() || answer.is_ok_and(|(response, rest)| response.status == 502 || rest.is_err()),
                "{mpm}: {name}"
            );
            server.logged(why);
            server.allow("AH00898: Error reading from remote server");
        }
        for name in ["interims", "interim-flood"] {
            server.announce("AH00898: Too many (11) interim responses from origin server");
            let mut client = server.client();
            client.send(format!("GET /app/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
            let said = String::from_utf8_lossy(&client.rest().0).into_owned();
            assert_eq!(
                (said.matches("HTTP/1.1 103").count(), said.matches("HTTP/1.1 502").count()),
                (11, 1),
                "{mpm}: {said}"
            );
        }
        server.announce("AH00957: H2: attempt to connect to");
        server.announce("AH03352: H2: failed to make connection to backend");
        assert_eq!(server.get("/dead/").status, 503);
        if mpm == Mpm::Percore {
            server.announce("it has been silent for too long");
            assert_eq!(server.get("/late/held").status, 504);
            until("the backend hears of it", || backend.resets.lock().expect("no panic").contains(&8).then_some(()));
        }
        assert_eq!(server.get("/app/bare").text(), "hi", "{mpm}");
        backend.close_all();
    }
}

/// `h2://`, with this server as its own backend.
#[test]
fn encrypted_connections_of_http2() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let (lines, _) = crate::harness::tls::lines(&site);
        let tls = lines.replace("*:8080", "*:9113");
        let lines = "SSLEngine on\nProtocols h2\nKeepAliveTimeout 300ms\nHeader set X-P expr=%{SERVER_PROTOCOL}\n";
        let tls = tls.replace("SSLEngine on\n", lines);
        let old = SecureOrigin::start(
            site.ip,
            2,
            Manner::tls(&Authority::new("a").made(7, &["localhost"], (2020, 2120)), None),
        );
        site.page("tell", "told");
        site.page("big", "x".repeat(500_000));
        let text = format!(
            "SSLProxyEngine on\nProxyPreserveHost On\nProxyPass /s/ h2://${{ADDR}}:9113/\nProxyPass /old/ h2://{}/\n\
             Listen ${{ADDR}}:9113\n{tls}",
            old.address
        );
        let server = Server::start(mpm, &site, &text);
        let mut client = server.client();
        for _ in 0..2 {
            let answer = client.get("/s/tell");
            assert_eq!((answer.text(), answer.field("X-P")), ("told".into(), Some("HTTP/2.0")), "{mpm}");
            assert_eq!(client.get("/s/big").body.len(), 500_000);
        }
        server.announce("AH02003: SSL Proxy connect failed: it does not speak h2 (ALPN)");
        server.announce("AH00898: Error during SSL Handshake with remote server");
        assert_eq!(client.get("/old/tell").status, 500, "{mpm}");
    }
}
