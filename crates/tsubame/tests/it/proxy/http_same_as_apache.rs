//! What mod_proxy_http sends to a server behind it, and what it makes of the answers, compared with Apache.

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache, Case};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::Origin;
use crate::scripts::cgi_same_as_apache::{case, gets};

const CONFIGURATION: &str = "ProxyPass /app/ http://ORIGIN/inner/\nProxyPassReverse /app/ http://ORIGIN/inner/\n\
    ProxyPassReverse /app/ /inner/\nProxyPassReverseCookiePath /inner/ /app/\nProxyPassReverseCookieDomain in.example out.example\n\
    ProxyPass /app/not !\nProxyPass /nocanon/ http://ORIGIN/n/ nocanon\nProxyPass /noquery/ http://ORIGIN/q/ noquery\n\
    ProxyPass /closes/ http://ORIGIN/c/ disablereuse=on\n\
    ProxyPassMatch ^/match/(.*)$ http://ORIGIN/m/$1\n\
    SetEnvIf Request_URI ^/app/kept no-proxy\n\
    <Location /host/>\nProxyPass http://ORIGIN/h/\nProxyPassReverse http://ORIGIN/inner/\nProxyPreserveHost On\n</Location>\n\
    <Location /plain/>\nProxyPass http://ORIGIN/p/\nProxyAddHeaders Off\n</Location>\n\
    <Location /over/>\nProxyPass http://ORIGIN/o/\nProxyErrorOverride On 404 401\nErrorDocument 404 \"our own\"\n</Location>\n\
    <Location /headers/>\nProxyPass http://ORIGIN/d/\nHeader set X-A plain\nHeader always set X-B always\nRequestHeader set X-R set\nRequestHeader unset User-Agent\n</Location>\n\
    <Location /named/>\nProxyPass http://ORIGIN/s/\nHeader unset Server\nHeader always set Server backend-named\n</Location>\n\
    <Location /old/>\nProxyPass http://ORIGIN/f/\nSetEnv force-proxy-request-1.0 1\nSetEnv proxy-nokeepalive 1\n</Location>\n\
    <Location /length/>\nProxyPass http://ORIGIN/l/\nSetEnv proxy-sendcl 1\n</Location>\n\
    <Location /changed/>\nProxyPass http://ORIGIN/s/\nSetOutputFilter SUBSTITUTE\nSubstitute s/a/bb/\n</Location>\n\
    <Location /charset/>\nProxyPass http://ORIGIN/s/\nAddDefaultCharset utf-8\n</Location>\n\
    RewriteEngine On\nRewriteRule ^/rewritten/(.*) http://ORIGIN/r/$1 [P]\nRewriteRule ^/queried/(.*) http://ORIGIN/r/$1?z=1 [P,QSA]\n\
    <Location /handled>\nSetHandler \"proxy:http://ORIGIN/s\"\n</Location>\nTraceEnable On\n\
    ProxyPass /raw http://ORIGIN nocanon\n\
    <Directory ${DOCS}/section>\nRewriteEngine On\nRewriteRule ^(.*)$ http://ORIGIN/d/$1 [P]\n</Directory>\n";

fn cases() -> Vec<Case> {
    let mut cases = gets(&[
        "/app/echo?a=b%20c&d",
        "/app/a%20b;x=%25'!",
        "/app/",
        "/app/not",
        "/app/%C3%A4?%C3%A4",
        "/nocanon/a%20b%3b;x=%25'!?q",
        "/noquery/a?b",
        "/closes/echo",
        "/match/a%20b?c",
        "/app/kept",
        "/host/echo",
        "/host/moved",
        "/plain/echo",
        "/over/missing",
        "/over/password",
        "/headers/fields",
        "/headers/missing",
        "/headers/echo",
        "/named/page",
        "/named/bare",
        "/old/echo",
        "/charset/page",
        "/rewritten/a%20b?q=1",
        "/queried/a?q=1",
        "/handled/a?q=1",
        "/raw",
        "/raw?q",
        "/raw/a%20b",
        "/section/a?q=1",
        "/section/a%20b",
        "/app/fields",
        "/app/cookies",
        "/app/bare",
        "/app/end-close",
        "/app/end-ten",
        "/app/missing",
        "/app/unchanged",
        "/app/nothing",
        "/app/moved",
        "/app/moved-path",
        "/app/moved-away",
        "/app/end-badline",
        "/app/end-empty",
        "/app/end-half",
        "/app/end-nine",
        "/app/end-badlength",
        "/app/end-short",
        "/app/continue",
        "/app/odd",
        "/app/reasonless",
        "/app/lines",
        "/app/end-extra",
        "/app/password",
        "/app/end-switched",
        "/app/encoded",
        "/app/page",
        "/app/bytes",
        "/app/control",
        "/app/varies",
        "/app/both",
    ]);
    let with = |line: &str, fields: &str, body: &str| case(line, fields, body);
    cases.extend([
        with("HEAD /app/page", "", ""),
        with("HEAD /app/missing", "", ""),
        with("HEAD /app/end-close", "", ""),
        // Nobody knows how long the page would be.
        with("HEAD /changed/page", "", ""),
        with("GET /app/page", "Range: bytes=0-2\r\n", ""),
        with("GET /app/page", "If-None-Match: \"abc\"\r\n", ""),
        with("GET /app/echo", "If-Modified-Since: Mon, 01 Jan 2001 00:00:00 GMT\r\nRange: bytes=0-2\r\nX_U: 1\r\nX-A: 1\r\nX-A: 2\r\n", ""),
        with("GET /app/echo", "Connection: X-Foo, X-Forwarded-For\r\nX-Foo: 1\r\nX-Forwarded-For: 6.6.6.6\r\nKeep-Alive: 3\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: foo\r\nProxy-Authorization: Basic x\r\nProxy-Connection: x\r\nProxy: y\r\n", ""),
        with("GET /app/echo", "Upgrade: websocket\r\nConnection: Upgrade\r\n", ""),
        with("GET /app/echo", "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Host: q\r\nX-Forwarded-Server: s\r\nVia: 1.0 fred\r\n", ""),
        with("GET /app/echo", "Max-Forwards: 5\r\n", ""),
        with("GET /app/echo", "Max-Forwards: 0\r\n", ""),
        with("GET /app/echo", "Max-Forwards: 4294967295\r\n", ""),
        with("GET /app/echo", "Max-Forwards: x\r\n", ""),
        with("OPTIONS /app/echo", "Max-Forwards: 5\r\n", ""),
        with("OPTIONS /app/echo", "", ""),
        with("DELETE /app/echo", "", ""),
        with("PROPFIND /app/echo", "", ""),
        with("POST /app/echo", "", ""),
        with("POST /app/echo", "Content-Length: 3\r\n", "a=b"),
        with("PUT /app/echo", "Content-Length: 0\r\n", ""),
        with("POST /app/missing", "Content-Length: 3\r\n", "a=b"),
        with("POST /app/echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        with("POST /length/echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        with("GET /app/echo", "Content-Length: 3\r\nContent-Type: a/b\r\n", "a=b"),
    ]);
    cases.push(Case { name: "HTTP/1.0".into(), bytes: b"GET /app/echo HTTP/1.0\r\n\r\n".to_vec() });
    cases.push(Case {
        name: "HTTP/1.0 with a host".into(),
        bytes: b"GET /app/echo HTTP/1.0\r\nHost: a.example:8\r\n\r\n".to_vec(),
    });
    cases
}

/// A group of the pattern follows the port.
const GROUPS: &str = "ProxyPassMatch ^/match/a(/.*)?$ http://ORIGIN$1\n";

/// Everything about the answers except what belongs to the place, or to the server's own software.
fn answers(site: &Site, origin: &Origin, cases: &[Case]) -> Vec<String> {
    let answer = |one: &Case| {
        let mut client = Client::connect(site.address());
        client.send(&one.bytes);
        let method = if one.bytes.starts_with(b"HEAD") { "HEAD" } else { "GET" };
        let (response, whole) = client.beginning_to(method).expect("an answer");
        let is_page = response.field("Content-Type") == Some("text/html; charset=iso-8859-1");
        let is_own = |name: &str, value: &str| match name.to_ascii_lowercase().as_str() {
            "date" => !value.contains("2001"),
            "server" => !value.contains("backend"),
            // Ours are complete more often.
            "transfer-encoding" | "content-length" => method != "HEAD",
            "accept-ranges" | "connection" | "expires" => true,
            _ => false,
        };
        let fields = response.fields.iter().filter(|(name, value)| !is_own(name, value));
        let mut lines: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
        lines.sort();
        let body = if is_page { String::new() } else { response.text() };
        // Apache opens a connection for each request where a line has groups.
        let body = if one.name.contains("/match/") { body.replace("Keep-Alive", "close") } else { body };
        // Our page of an error tells the reason in more cases.
        let reason = if response.status == 502 { "" } else { &*response.reason };
        let text = format!(
            "{} {reason} {:?}\n{}\n{body}{}",
            response.status,
            response.interim,
            lines.join("\n"),
            if whole.is_err() { ", cut" } else { "" }
        );
        text.replace(site.path(), "ROOT")
            .replace(&origin.address.to_string(), "ORIGIN")
            .replace(&site.ip.to_string(), "ADDR")
    };
    cases.iter().map(answer).collect()
}

#[test]
fn requests_and_responses() {
    if oracle::is_there("requests_and_responses") {
        compare(&Mpm::chosen(test_name!()), CONFIGURATION, &cases());
    }
}

#[test]
fn groups_behind_a_port() {
    if oracle::is_there("groups_behind_a_port") {
        let cases = gets(&["/match/a", "/match/a/echo?c", "/match/a/a%20b", "/match/ab/echo"]);
        compare(&[Mpm::Percore], GROUPS, &cases);
    }
}

/// Compares the answers of both servers. `ORIGIN` in the configuration: the address of the server behind them.
fn compare(mpms: &[Mpm], configuration: &str, cases: &[Case]) {
    let configuration = |origin: &Origin| configuration.replace("ORIGIN", &origin.address.to_string());
    let theirs = {
        let site = Site::with([("section/a.txt", "")]);
        let origin = Origin::start(site.ip);
        let _apache = Apache::start(&site, &configuration(&origin));
        answers(&site, &origin, cases)
    };
    for mpm in mpms {
        let site = Site::with([("section/a.txt", "")]);
        let origin = Origin::start(site.ip);
        let server = Server::start(*mpm, &site, &configuration(&origin));
        server.allow_everything("the answers say what went wrong");
        let ours = answers(&site, &origin, cases);
        let mut differences = Vec::new();
        for ((one, ours), theirs) in cases.iter().zip(ours).zip(&theirs) {
            if ours != *theirs {
                differences.push(format!("== {}\n-- ours\n{ours}\n-- Apache\n{theirs}", one.name));
            }
        }
        assert!(differences.is_empty(), "{mpm}: {} differences:\n{}", differences.len(), differences.join("\n"));
    }
}
