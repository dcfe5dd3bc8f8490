//! A proxied request that begins right before its handler, where an earlier one was, is answered and passed on like one that goes
//! through the phases.
//!
//! `ForensicLog` writes a line for each request, so with it none begins there: the same configuration with and without this line
//! must answer alike.

use std::sync::atomic::Ordering;

use crate::harness::asker::Asker;
use crate::harness::chance::{Chance, seeds};
use crate::harness::frames::{Ended, Frames, request};
use crate::harness::mpm::Mpm;
use crate::harness::open_metrics::counted;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;
use crate::proxy::origin::Origin;

/// What the sections of the proxied paths say.
const SECTIONS: &[&str] = &[
    "",
    "ProxyPreserveHost On\nProxyAddHeaders Off",
    "RequestHeader set X-A b\nRequestHeader unset Cookie\nHeader set X-B \"expr=%{HTTP:X-C}\"",
    "SetEnvIf User-Agent on a=b\nHeader set X-A yes env=a\nSetEnvIf X-C no proxy-nokeepalive",
    "Header edit Location inner outer\nHeader unset X-A\nHeader always set X-Always yes",
    "ProxyErrorOverride On",
    "ProxyErrorOverride On\nErrorDocument 404 /0/echo\nErrorDocument 401 /1/fields",
    "AddOutputFilterByType DEFLATE text/html",
    "<If \"%{HTTP:X-C} == 'no'\">\nRequire all denied\n</If>",
    "BrowserMatch one force-proxy-request-1.0\nAddDefaultCharset utf-8",
    "Header set X-Address %{REMOTE_ADDR}e\nRequire ip 127.0.0.0/8",
    "ProxyPassReverseCookiePath /inner/ /outer/\nProxyPassReverseCookieDomain in.example out.example",
    "SetOutputFilter SUBSTITUTE\nSubstitute s/i/o/\nLimitRequestBody 5",
];

/// What is asked for.
const PATHS: &[&str] = &[
    "echo",
    "echo",
    "echo",
    "echo?x=y",
    "fields",
    "cookies",
    "bare",
    "end-close",
    "missing",
    "unchanged",
    "nothing",
    "moved",
    "moved-path",
    "end-empty",
    "hints",
    "password",
    "encoded",
    "page",
    "bytes",
    "varies",
    "chunked",
    "a%20b",
    "dated",
    "dated",
    "dated",
    "dated-late",
    "dated-in-lengths",
    "dated-otherwise",
    "dated-by-number",
    "dated-in-parts",
    "dated-twice",
    "dated-and-gone",
    "dated-and-more",
    "dated-chunked",
    "dated-chunked-in-two",
    "dated-chunked-extended",
    "dated-chunked-padded",
    "dated-chunked-with-fields",
    "dated-chunked-longer",
    "dated-chunked-bare",
    "dated-chunked-and-more",
];

/// Fields of requests, some of which decide about the response.
const FIELDS: &[&str] = &[
    "X-C: no",
    "X-C: yes",
    "Cookie: a=b",
    "Cookie: c=d",
    "User-Agent: one",
    "User-Agent: two",
    "Accept-Encoding: gzip",
    "Connection: keep-alive",
    "Connection: X-C",
    "Max-Forwards: 3",
    "Max-Forwards: 0",
    "X-Forwarded-For: 192.0.2.1",
    "Via: 1.0 other",
    "Range: bytes=1-2",
    "If-None-Match: \"abc\"",
    "TE: trailers",
    "Content-Length: 0",
    "Expect: 100-continue",
];

/// Both protocols, and where the metrics are.
const COMMON: &str = "Protocols h2c http/1.1\nH2Upgrade off\n<Location /metrics>\nSetHandler metrics\n</Location>\n";

fn configuration(origin: &Origin) -> String {
    let mut text =
        format!("{COMMON}ErrorDocument 502 /none\nErrorDocument 404 \"nothing there\"\nUseCanonicalName Off\n");
    for (number, section) in SECTIONS.iter().enumerate() {
        text += &format!(
            "ProxyPass /{number}/ http://{}/\n<Location /{number}/>\nProxyPassReverse http://{}/inner/\n{section}\n</Location>\n",
            origin.address, origin.address
        );
    }
    text
}

/// Everything that a client sees of a response, without what differs between two servers. A body may come in any pieces.
fn seen(response: &Response, server: &Server<'_>) -> String {
    let mut fields = response.fields.clone();
    let varies = |name: &str| ["Date", "Content-Length", "Transfer-Encoding"].contains(&name);
    fields.retain(|(name, value)| !varies(name) || name == "Date" && value.contains("2001"));
    let text = format!("{} {} {fields:?} {}", response.status, response.reason, response.text());
    text.replace(&server.address().to_string(), "SERVER").replace(&server.address().ip().to_string(), "ADDRESS")
}

/// Requests as chance has them: always the answers of a server that prepares none.
///
/// The seed is fixed; `TSUBAME_SEEDS=20` compares that many times as much.
#[test]
fn by_chance_they_are_answered_alike() {
    for mpm in [Mpm::Percore, Mpm::Event] {
        let (one, other) = (Site::new(), Site::new());
        let (origin, its) = (Origin::start(one.ip), Origin::start(other.ip));
        let with = Server::start(mpm, &one, &configuration(&origin));
        let without = format!("{}ForensicLog logs/forensic\n", configuration(&its));
        let without = Server::start(mpm, &other, &without);
        [&with, &without]
            .into_iter()
            .for_each(|server| server.allow_everything("bad answers of the backend are logged"));
        for (seed, is_http2) in seeds(1).flat_map(|seed| [(seed, false), (seed, true)]) {
            let mut chance = Chance::new(seed);
            let asker = |server| Asker::new(server, is_http2);
            let (mut ours, mut theirs) = (asker(&with), asker(&without));
            let mut heads: Vec<(&str, String)> = Vec::new();
            for step in 0..if is_http2 { 200 } else { 500 } {
                if heads.is_empty() || chance.one_in(4) {
                    let method = chance.of(&["GET", "GET", "GET", "HEAD", if is_http2 { "GET" } else { "POST" }]);
                    let number = chance.below(SECTIONS.len() as u64);
                    let version = if chance.one_in(8) { "1.0" } else { "1.1" };
                    // A POST may meet a connection whose end is still on its way, and is not sent twice; and the client of HTTP/1 takes
                    // no early hints.
                    let path = match chance.of(PATHS) {
                        "dated-and-gone" if !is_http2 => "dated",
                        "hints" if !is_http2 => "echo",
                        path => path,
                    };
                    // The origin ends its answer to HEAD after the first head, which is not the last.
                    let method = if path == "hints" { "GET" } else { method };
                    let mut text = format!("{method} /{number}/{path} HTTP/{version}\r\nHost: localhost\r\n");
                    let mut fields: Vec<_> = (0..chance.below(4)).map(|_| chance.of(FIELDS)).collect();
                    fields.retain(|field| method != "POST" || !field.starts_with("Content-Length"));
                    if fields.iter().filter(|field| field.starts_with("Content-Length")).count() > 1 {
                        fields.clear();
                    }
                    fields.iter().for_each(|field| text += &format!("{field}\r\n"));
                    text += if method == "POST" { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
                    heads.push((method, text));
                    if heads.len() > 20 {
                        heads.swap_remove(0);
                    }
                }
                let (method, mut head) = heads[chance.below(heads.len() as u64) as usize].clone();
                if chance.one_in(4) {
                    // The head of another browser: it goes to the backend as it is.
                    let (line, rest) = head.split_once("\r\n").expect("a line");
                    head = format!("{line}\r\nX-Step: {step}\r\nReferer: http://{step}/\r\n{rest}");
                }
                let [mine, yours] = [&mut ours, &mut theirs].map(|client| client.response(method, &head));
                let [mine_seen, yours_seen] = [seen(&mine, &with), seen(&yours, &without)];
                assert_eq!(mine_seen, yours_seen, "{mpm}: step {step} of seed {seed}, HTTP/2: {is_http2}: {head}");
                // A request that met a connection which the origin has closed came twice.
                let most = origin.count().max(its.count());
                [&origin, &its].into_iter().for_each(|origin| origin.requests.store(most, Ordering::Relaxed));
                if !is_http2 && (mine.closes() || yours.closes()) || chance.one_in(30) {
                    (ours, theirs) = (asker(&with), asker(&without));
                }
            }
            let prepared = counted(&with, "requests_prepared");
            assert!(prepared > 100, "{mpm}: {prepared}, HTTP/2: {is_http2}");
        }
        assert_eq!(counted(&without, "requests_prepared"), 0, "{mpm}");
    }
}

/// Each client's address goes to the backend, and each request has its own line in the log, though all begin where the first was.
#[test]
fn each_is_its_own() {
    for (mpm, is_http2) in [Mpm::Percore, Mpm::Event].into_iter().flat_map(|mpm| [(mpm, false), (mpm, true)]) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = format!(
            "{COMMON}ProxyPass /app/ http://{}/\nLogFormat \"%a %{{X-Number}}i %s %U %{{H2_STREAM_ID}}e\" own\nCustomLog logs/own own\n",
            origin.address
        );
        let server = Server::start(mpm, &site, &text);
        let mut clients: Vec<_> = (0..4).map(|_| Asker::new(&server, is_http2)).collect();
        let mut expected = Vec::new();
        for number in 0..40 {
            let path = ["echo", "missing"][number % 2];
            let head = format!("GET /app/{path} HTTP/1.1\r\nHost: localhost\r\nX-Number: {number}\r\n\r\n");
            let text = clients[number % 4].response("GET", &head).text();
            let is_its = text.to_lowercase().contains(&format!("\nx-number: {number}\n"));
            assert!(path == "missing" || is_its, "{mpm}: {text}");
            let status = if path == "missing" { 404 } else { 200 };
            let stream = if is_http2 { (number / 4 * 2 + 1).to_string() } else { "-".to_string() };
            expected.push(format!("127.0.0.1 {number} {status} /app/{path} {stream}"));
        }
        expected.sort();
        let lines = until("all lines of the log", || {
            let mut lines: Vec<String> = site.read("logs/own").lines().map(str::to_string).collect();
            lines.sort();
            (lines.len() == expected.len()).then_some(lines)
        });
        assert_eq!(lines, expected, "{mpm}, HTTP/2: {is_http2}");
    }
}

/// Streams of one connection begin where an earlier request was, all at once, and each has its own answer.
#[test]
fn streams_begin_at_once() {
    for mpm in [Mpm::Percore, Mpm::Event] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &format!("{COMMON}ProxyPass /app/ http://{}/\n", origin.address));
        let mut client = Frames::connect(server.address(), &[]);
        for round in 0..10 {
            let values: Vec<String> = (0..9).map(|number| format!("{round}-{}", number % 5)).collect();
            let ask =
                |value: &String| client.ask(&[&request("GET", "/app/echo")[..], &[("x-number", value)]].concat(), true);
            let streams: Vec<u32> = values.iter().map(ask).collect();
            for (value, ended) in values.iter().zip(client.all(&streams)) {
                let Ended::Answered(200, body) = ended else { panic!("{mpm}: {ended:?}") };
                let text = String::from_utf8_lossy(&body).to_lowercase();
                assert!(text.contains(&format!("\nx-number: {value}\n")), "{mpm}: {text}");
            }
        }
        // Those of the first rounds go through the phases.
        let prepared = counted(&server, "requests_prepared");
        assert!(prepared >= 50, "{mpm}: {prepared}");
    }
}
