//! AJP servers behind the proxy: what they get and what becomes of their answers, compared with Apache; connections; malformed packets.

use std::sync::atomic::Ordering;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache, Case};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::ajp_backend::AjpBackend;
use crate::scripts::cgi_same_as_apache::{case, gets};

const CONFIGURATION: &str = "ProxyPass /app/ ajp://${ADDR}:9108/inner/ secret=sesame\nProxyPass /ping/ ajp://${ADDR}:9108/p/ ping=5\n\
    ProxyPass /once/ ajp://${ADDR}:9108/once/ disablereuse=on\n\
    ProxyPassReverse /app/ http://${ADDR}:9108/inner/\nProxyPassReverseCookiePath /inner/ /app/\n\
    <Proxy balancer://b>\nBalancerMember ajp://${ADDR}:9108 route=r1\nProxySet stickysession=SID\n</Proxy>\nProxyPass /b/ balancer://b/\n\
    <Location /app/env>\nSetEnv AJP_foo bar\nSetEnv OTHER y\n</Location>\n\
    <Location /app/user>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\nRequire valid-user\n</Location>\n\
    <Location /over/>\nProxyPass ajp://${ADDR}:9108/o/\nProxyErrorOverride On 404\nErrorDocument 404 \"our own\"\n</Location>\n";

/// `me:secret`
const PASSWORDS: &str = "me:$apr1$6.wT7jKc$kh5sKhLQOCo/uhSp3JIhw0\n";

fn cases() -> Vec<Case> {
    let mut cases = gets(&[
        "/app/a%20b;x=%25'!?q=%20&r",
        "/app/env?",
        "/app/fields",
        "/app/missing",
        "/over/missing",
        "/app/unchanged",
        "/app/nothing",
        "/app/bare",
        "/app/pieces",
        "/once/last",
        "/ping/bare",
        "/b/%C3%A4?%C3%A4",
    ]);
    let with = |line: &str, fields: &str, body: &str| case(line, fields, body);
    cases.extend([
        with("HEAD /app/bare", "", ""),
        with("HEAD /app/head", "", ""),
        with("GET /app/user", "Authorization: Basic bWU6c2VjcmV0\r\n", ""),
        with("GET /b/x", "Cookie: SID=foo.r1\r\n", ""),
        with("GET /app/x", "Host: other.example:99\r\n", ""),
        with("PATCH /app/x", "", ""),
        with("PROPFIND /app/x", "Depth: 1\r\n", ""),
        with("FOO /app/x", "", ""),
        with("OPTIONS /app/x", "Max-Forwards: 5\r\n", ""),
        with("GET /app/x", "Accept: a\r\naccept-charset: b\r\nAccept-Encoding: c\r\nAccept-Language: d\r\nConnection: X-Foo\r\nCookie: e=f\r\nCookie2: g\r\nPragma: h\r\nReferer: i\r\nUser-Agent: j\r\nX-Foo: k\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\nVia: 1.0 fred\r\nX-Forwarded-For: 6.6.6.6\r\n", ""),
        with("POST /app/echo", "Content-Length: 3\r\nContent-Type: a/b\r\n", "a=b"),
        with("POST /app/bare", "Content-Length: 3\r\n", "a=b"),
        with("POST /app/bare", "Content-Length: 0\r\n", ""),
        with("POST /app/echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        with("PUT /app/late", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ]);
    cases
}

/// Packets as text, without what belongs to the place.
fn shown(packets: Vec<Vec<u8>>, site: &Site) -> String {
    let show = |packet: Vec<u8>| {
        // The port that the client has is chance.
        let text = packet.escape_ascii().to_string();
        match text.split_once("AJP_REMOTE_PORT\\x00\\x00\\x05") {
            Some((before, after)) => format!("{before}PORT{}", &after[5..]),
            None => text,
        }
    };
    let lines: Vec<String> = packets.into_iter().map(show).collect();
    lines.join("\n").replace(&site.ip.to_string(), "ADDR")
}

/// What the backend gets, and what the client gets.
fn answers(site: &Site, backend: &AjpBackend, cases: &[Case]) -> Vec<String> {
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
        let text = format!("{} {} {}\n{}", response.status, response.reason, lines.join(", "), response.text());
        format!("{}\n{}", shown(backend.packets(), site), text.replace(&site.ip.to_string(), "ADDR"))
    };
    cases.iter().map(answer).collect()
}

fn place() -> Site {
    let site = Site::new();
    site.file("conf/passwords", PASSWORDS);
    site
}

#[test]
fn packets_and_responses_of_ajp() {
    if !oracle::is_there("packets_and_responses_of_ajp") {
        return;
    }
    let cases = cases();
    let theirs = {
        let site = place();
        let backend = AjpBackend::start(site.ip);
        let _apache = Apache::start(&site, CONFIGURATION);
        answers(&site, &backend, &cases)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let backend = AjpBackend::start(site.ip);
        let _server = Server::start(mpm, &site, CONFIGURATION);
        let ours = answers(&site, &backend, &cases);
        for ((one, ours), theirs) in cases.iter().zip(ours).zip(&theirs) {
            assert!(ours == *theirs, "{mpm}: {}\n-- ours\n{ours}\n-- Apache\n{theirs}", one.name);
        }
    }
}

/// One connection carries many requests, and a new one takes the place of one that the backend has closed. A request that must not
/// arrive twice is not sent twice.
#[test]
fn connections_of_ajp() {
    let site = place();
    let backend = AjpBackend::start(site.ip);
    let text = CONFIGURATION.to_string() + "StartServers 1\nMaxRequestWorkers 1\nServerLimit 1\n";
    let server = Server::start(Mpm::Prefork, &site, &text);
    let connections = || backend.connections.load(Ordering::Relaxed);
    let mut client = server.client();
    let large = "x".repeat(30_000);
    for _ in 0..3 {
        assert_eq!(client.get("/app/bare").text(), "hi");
        assert_eq!(client.get("/app/pieces").text(), "abcd");
        client.send("HEAD /app/head HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.response_to("HEAD").status, 200);
        let post =
            format!("POST /app/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{large}", large.len());
        assert_eq!(client.request(post).text(), large);
    }
    assert_eq!(connections(), 1);
    backend.close_all();
    assert_eq!(client.get("/app/bare").text(), "hi", "a lost connection is nothing that the client notices");
    assert_eq!(connections(), 2);
    // What nobody has asked for is no answer to the next request.
    assert_eq!(client.get("/app/extra").text(), "hi");
    assert_eq!(client.get("/app/bare").text(), "hi");
    assert_eq!(connections(), 3);
    assert_eq!(client.get("/app/last").text(), "hi");
    assert_eq!(client.get("/app/bare").text(), "hi");
    assert_eq!(connections(), 4);
    assert_eq!(client.get("/once/bare").text(), "hi");
    assert_eq!(client.get("/once/bare").text(), "hi");
    let before = connections();
    server.announce("AH00878: read response failed from");
    server.announce("AH00898: Error reading from remote server");
    backend.packets();
    let post = "POST /app/empty HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(client.request(post).status, 502);
    assert_eq!((connections() - before, backend.packets().len()), (0, 2), "the request, and its body");
    backend.close_all();
}

/// A backend that nobody can understand.
#[test]
fn bad_backends_of_ajp() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let backend = AjpBackend::start(site.ip);
        let text = format!("{CONFIGURATION}ProxyPass /dead/ ajp://${{ADDR}}:1/\n");
        let server = Server::start(mpm, &site, &text);
        for (name, why) in [
            ("empty", "it closed the connection"),
            ("signature", "a packet begins with 5858 instead of AB"),
            ("unknown", "a packet has the unknown code 99"),
            ("long", "a packet of 65539 bytes is too long"),
            ("short", "a packet is shorter than its content"),
            ("early", "the response's body comes before its head"),
            ("headless", "the response ends before its head"),
            ("two-heads", "the response has two heads"),
            ("more", "the response's body is longer than it says"),
            ("less", "the response's body is shorter than it says"),
        ] {
            server.announce(format!("AH00878: read response failed from {}:9108: {why}", site.ip));
            server.announce("AH00898: Error reading from remote server");
            assert_eq!(server.get(&format!("/app/{name}")).status, 502, "{name}");
        }
        server.announce("AH00957: AJP: attempt to connect to");
        server.announce("AH00896: failed to make connection to backend");
        assert_eq!(server.get("/dead/").status, 503);
        server.announce("AH00868: request failed to");
        let large = format!("GET /app/bare HTTP/1.1\r\nHost: localhost\r\nX: {0}\r\nY: {0}\r\n\r\n", "x".repeat(5000));
        assert_eq!(server.client().request(large).status, 400);
        backend.close_all();
    }
}
