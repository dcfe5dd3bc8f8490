//! Requests hidden in others, and responses hidden in others, on their way through the proxy.
//!
//! Requests as chance has them go to a server that reads them in one way only, and remembers all that could be read in another. It has
//! to see as many requests as clients get responses of. The seed is fixed; `TSUBAME_SEEDS=80` sends more than 20 000.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::harness::chance::{Chance, seeds};
use crate::harness::frames::{DATA, END_STREAM, Ended, Frames};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::get;
use crate::proxy::origin::{Listening, PORT};
use crate::proxy::recorder::Recorder;

/// How many requests a seed makes.
const REQUESTS: usize = 250;

const CONFIGURATION: &str = "\
ProxyPass /app/ http://ORIGIN/in/\nProxyPass /raw/ http://ORIGIN/in/ nocanon\nProxyPassMatch ^/match/(.*)$ http://ORIGIN/in/$1\n\
ProxyPass /any/ http://ORIGIN/in/ upgrade=ANY\nProxyPass /one/ http://ORIGIN/in/ disablereuse=on\n\
RewriteEngine On\nRewriteRule ^/rule/(.*) http://ORIGIN/in/$1 [P]\nRewriteRule ^/plain/(.*) http://ORIGIN/in/$1 [P,NE]\n\
RewriteRule ^/b/(.*) http://ORIGIN/in/$1 [P,B]\n<Location /kept/>\nProxyPreserveHost On\n</Location>\nProxyPass /kept/ http://ORIGIN/in/\n\
<Location /sendcl/>\nSetEnv proxy-sendcl 1\n</Location>\nProxyPass /sendcl/ http://ORIGIN/in/\n\
AllowEncodedSlashes NoDecode\nLogLevel crit\n";

/// The request that hides in bodies.
const HIDDEN: &str = "GET /app/hidden HTTP/1.1\r\nHost: hidden\r\n\r\n";

const METHODS: &[&str] = &[
    "GET", "GET", "POST", "POST", "POST", "PUT", "DELETE", "get", "PoSt", "OPTIONS", "PATCH", "M-X", "G ET", "GET\t",
    "",
];
const PREFIXES: &[&str] = &[
    "/app/", "/app/", "/app/", "/raw/", "/match/", "/any/", "/one/", "/rule/", "/plain/", "/b/", "/kept/", "/sendcl/",
];
const TAILS: &[&str] = &[
    "x",
    "x",
    "x",
    "x?a=b",
    "",
    "..",
    "../x",
    "%2e%2e/x",
    "%2E%2e%2fx",
    "a/../b",
    "a/%2e%2e/b",
    "a//b",
    "/b",
    ";x",
    "..;/x",
    "a;b=c/d",
    "a\\b",
    "..\\x",
    "..%5cx",
    "a%00b",
    "a%0d%0aX:%20y",
    "a%20HTTP/1.1%0d%0aHost:%20evil%0d%0a%0d%0aGET%20/in/hidden",
    "a%0ab",
    "a%20b",
    "a b",
    "a\tb",
    "a%09b",
    "a#b",
    "a%23b",
    "a?b?c",
    "a%3fb",
    "a%",
    "a%zz",
    "a?%0d%0aX:y",
    "a?b c",
    "a%c3%a9",
    "a%ff",
    "a%7f",
    "[a]",
    "a|b",
    "a\"b",
    "<a>",
    "{a}",
    "a`b^",
];
const VERSIONS: &[&str] = &[
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "HTTP/0.9",
    "http/1.1",
    "HTTP/1.1 ",
    "HTTP/1.1\t",
    "HTTP/01.1",
    "",
];
const HOSTS: &[&str] = &[
    "Host: localhost\r\n",
    "Host: localhost\r\n",
    "Host: localhost\r\n",
    "Host: localhost\r\n",
    "",
    "Host:\r\n",
    "Host: a\r\nHost: b\r\n",
    "host: localhost\r\nHOST: localhost\r\n",
    "Host: a b\r\n",
    "Host: a@b\r\n",
    "Host: a/b\r\n",
    "Host: a,b\r\n",
    "Host: [::1]\r\n",
    "Host: localhost:x\r\n",
    "Host : localhost\r\n",
    "Host: a\x0bb\r\n",
    "Host: a%0d%0a\r\n",
    "Host: a;b\r\n",
    "Host: \"a\"\r\n",
    "Host: a:80:80\r\n",
    "Host: a\\b\r\n",
    "Host:\tlocalhost\t\r\n",
];
/// Fields that frame a body, and whether the one that follows, with a hidden request, is a part of the request: a fault if the hidden one
/// is served. `#` is the length of the body.
const FRAMINGS: &[(&str, bool)] = &[
    ("Content-Length: #\r\n", true),
    ("Content-Length: #\r\n", true),
    ("Content-Length: 0\r\n", false),
    ("", false),
    ("Transfer-Encoding: chunked\r\n", true),
    ("Transfer-Encoding: chunked\r\n", true),
    ("Content-Length: #\r\nContent-Length: 0\r\n", true),
    ("Content-Length: 0\r\nContent-Length: #\r\n", true),
    ("Content-Length: #\r\nContent-Length: #\r\n", true),
    ("Content-Length: +#\r\n", true),
    ("Content-Length: #,#\r\n", true),
    ("Content-Length: 0, #\r\n", true),
    ("Content-Length: #;\r\n", true),
    ("Content-Length: 0x#\r\n", true),
    ("Content-Length: 00000000#\r\n", true),
    ("Content-Length: -0\r\n", true),
    ("Content-Length: 18446744073709551616\r\n", true),
    ("Content-Length:#\r\n", true),
    ("Content-Length : #\r\n", true),
    ("Content-Length\t: #\r\n", true),
    ("Content-Length:\x0b#\r\n", true),
    ("Content-Length: #\x0b\r\n", true),
    ("Content-Length:\r\n #\r\n", true),
    ("X: y\r\n Content-Length: 0\r\nContent-Length: #\r\n", true),
    (" Content-Length: #\r\n", true),
    ("Content-Length: #\n", true),
    ("Content-Length: #\r", true),
    ("X: y\rContent-Length: #\r\n", true),
    ("Content-Length: 1e1\r\n", true),
    ("Content-Length: # #\r\n", true),
    ("Content-Length: #\0\r\n", true),
    ("Content-Length: \"#\"\r\n", true),
    ("Content-Length: #\r\nTransfer-Encoding: chunked\r\n", true),
    ("Transfer-Encoding: chunked\r\nContent-Length: #\r\n", true),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", true),
    ("Transfer-Encoding: xchunked\r\n", true),
    ("Transfer-Encoding: chunked, identity\r\n", true),
    ("Transfer-Encoding: identity, chunked\r\n", true),
    ("Transfer-Encoding: chunked, chunked\r\n", true),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", true),
    ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", true),
    ("Transfer-Encoding:\tchunked\r\n", true),
    ("Transfer-Encoding:\x0bchunked\r\n", true),
    ("Transfer-Encoding: chunked \r\n", true),
    ("Transfer-Encoding: chunked\x0b\r\n", true),
    ("Transfer-Encoding : chunked\r\n", true),
    ("Transfer-Encoding: CHUNKED\r\n", true),
    ("Transfer-Encoding: chunked;q=1\r\n", true),
    ("Transfer-Encoding: \"chunked\"\r\n", true),
    ("Transfer-Encoding: 'chunked'\r\n", true),
    ("Transfer-Encoding: gzip, chunked\r\n", true),
    ("Transfer-Encoding: ,chunked\r\n", true),
    ("Transfer-Encoding: chunked,\r\n", true),
    ("Transfer-Encoding:\r\n chunked\r\n", true),
    ("Transfer-Encoding: chun\r\n ked\r\n", true),
    ("X: y\nTransfer-Encoding: chunked\r\n", true),
    ("Transfer_Encoding: chunked\r\nContent-Length: #\r\n", true),
    ("Content_Length: 0\r\nContent-Length: #\r\n", true),
    ("Transfer-Encoding: chunked\0\r\n", true),
    ("Transfer-Encoding\0: chunked\r\n", true),
    ("transfer-encoding: Chunked\r\n", true),
];
const FIELDS: &[&str] = &[
    "",
    "",
    "",
    "X-A: b\r\n",
    "Connection: Content-Length\r\n",
    "Connection: Host\r\n",
    "Connection: X-Forwarded-For\r\nX-Forwarded-For: 1.2.3.4\r\n",
    "Connection: Transfer-Encoding\r\n",
    "Connection: close, Host, Content-Length\r\n",
    "Connection: keep-alive\r\n",
    "Connection: close\r\n",
    "Keep-Alive: timeout=5\r\n",
    "Proxy-Connection: keep-alive\r\n",
    "X-Forwarded-For: evil\r\nX-Forwarded-For: more\r\n",
    "X-Forwarded-Host: evil\r\n",
    "TE: trailers\r\n",
    "TE: gzip, chunked\r\n",
    "Trailer: X-T\r\n",
    "Upgrade: websocket\r\nConnection: Upgrade\r\n",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    "Expect: 100-continue\r\n",
    "Expect: 100-Continue, x\r\n",
    "Expect: x\r\n",
    "X-A: b\r\n c\r\n",
    "X-A:\r\n",
    "X-A\r\n",
    ": x\r\n",
    "X A: b\r\n",
    "X-A: b\0c\r\n",
    "X-A: b\rc\r\n",
    "X-A: b\nc: d\r\n",
    "X-A: b\r\r\n",
    "X-A: b\x08\r\n",
    "X-A: b\x7f\r\n",
    "X-\u{e9}: b\r\n",
    "X-A: \u{e9}\r\n",
    "\tX-A: b\r\n",
    "X-A:b\r\n",
    "X-A : b\r\n",
    "Max-Forwards: 0\r\n",
    "Max-Forwards: x\r\n",
    "Via: 1.1 x\r\n",
    "Forwarded: for=x\r\n",
    "Connection: ,,,\r\n",
    "Connection: X-A\r\nX-A: b\r\n",
    "Connection: Connection\r\n",
    "Connection: Upgrade\r\n",
    "If-None-Match: *\r\n",
];
/// Bodies in chunks, with a hidden request in them; `#` is its length in hexadecimal, `@` itself.
const CHUNKS: &[&str] = &[
    "#\r\n@\r\n0\r\n\r\n",
    "#\r\n@\r\n0\r\n\r\n",
    "#;a=b\r\n@\r\n0\r\n\r\n",
    "#;a=\"b\r\nc\"\r\n@\r\n0\r\n\r\n",
    "0x#\r\n@\r\n0\r\n\r\n",
    "# \r\n@\r\n0\r\n\r\n",
    " #\r\n@\r\n0\r\n\r\n",
    "+#\r\n@\r\n0\r\n\r\n",
    "-1\r\n@\r\n0\r\n\r\n",
    "#\n@\n0\n\n",
    "#\r@\r0\r\r",
    "#\r\n@\n0\r\n\r\n",
    "#\r\n@0\r\n\r\n",
    "#\r\n@\r\n0\r\nX-T: y\r\n\r\n",
    "#\r\n@\r\n0\r\nContent-Length: 3\r\n\r\n",
    "#\r\n@\r\n0\r\nX\r\n\r\n",
    "#\r\n@\r\n00000\r\n\r\n",
    "00000000000000000#\r\n@\r\n0\r\n\r\n",
    "1000000000000000#\r\n@\r\n0\r\n\r\n",
    "ffffffffffffffff\r\n@\r\n0\r\n\r\n",
    "8000000000000000\r\n@\r\n0\r\n\r\n",
    "#;\r\n@\r\n0;x\r\n\r\n",
    "#\x0b\r\n@\r\n0\r\n\r\n",
    "#\t;a\r\n@\r\n0\r\n\r\n",
    "#;a\nb\r\n@\r\n0\r\n\r\n",
    "#\0\r\n@\r\n0\r\n\r\n",
    "\r\n#\r\n@\r\n0\r\n\r\n",
    "",
    "#\r\n@\r\n",
    "0\r\n\r\n",
    "2\r\nab\r\n#\r\n@\r\n0\r\n\r\n",
    "#\r\n@\r\n0\r\n",
    "#, #\r\n@\r\n0\r\n\r\n",
    "1_0\r\n@\r\n0\r\n\r\n",
];
/// Bytes that readers take in different ways.
const NASTY: &[u8] = b"\r\n\0\t \x0b\x0c:;,/\\.%?#@=\"'0+-x\x7f\x80\xff";

/// An entry of a table, mostly the first.
fn mostly(chance: &mut Chance, list: &[&'static str]) -> &'static str {
    if chance.one_in(5) { chance.of(list) } else { list[0] }
}

/// A request, and whether a hidden one in it must not be served.
fn request(chance: &mut Chance) -> (Vec<u8>, bool) {
    let odd = mostly(chance, METHODS);
    let method = chance.of(&["GET", "POST", "PUT", odd]);
    let path = format!("{}{}", chance.of(PREFIXES), mostly(chance, TAILS));
    let target = match chance.below(30) {
        0 => format!("http://localhost{path}"),
        1 => format!("http://other:81{path}"),
        2 => format!("http://user@localhost{path}"),
        3 => format!("//{path}"),
        _ => path,
    };
    let usual = ["Content-Length: #\r\n", "Transfer-Encoding: chunked\r\n", ""];
    let (framing, covers) = match chance.one_in(3) {
        true => FRAMINGS[chance.below(FRAMINGS.len() as u64) as usize],
        false => {
            let framing = chance.of(&usual);
            (framing, !framing.is_empty())
        }
    };
    let is_chunked = framing.to_ascii_lowercase().contains("chunked");
    let body = match is_chunked {
        true => mostly(chance, CHUNKS).replace('#', &format!("{:x}", HIDDEN.len())).replace('@', HIDDEN),
        false => HIDDEN.to_string(),
    };
    let framing = framing.replace('#', &body.len().to_string());
    // What follows the end of a chunked body is another request.
    let covers = covers && (!is_chunked || body.is_empty() || body.len() > 5);
    let (version, host) = (mostly(chance, VERSIONS), mostly(chance, HOSTS));
    let mut fields =
        [mostly(chance, FIELDS).to_string(), framing, host.to_string(), mostly(chance, FIELDS).to_string()];
    let turn = chance.below(4) as usize;
    fields.rotate_left(turn);
    let fields = fields.concat();
    let end = mostly(chance, &["\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n\r\n"]);
    let line = mostly(chance, &["\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n"]);
    let text = format!("{method} {target} {version}{line}{fields}{end}{body}");
    // A character above U+007F stands for one byte.
    let mut bytes: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    let mut is_certain = covers && end == "\r\n";
    for _ in 0..[0, 0, 0, 0, 0, 1, 1, 3][chance.below(8) as usize] {
        mutate(chance, &mut bytes);
        is_certain = false;
    }
    (bytes, is_certain)
}

/// Changes a byte.
fn mutate(chance: &mut Chance, bytes: &mut Vec<u8>) {
    let at = chance.below(bytes.len() as u64) as usize;
    let byte = NASTY[chance.below(NASTY.len() as u64) as usize];
    match chance.below(3) {
        0 => bytes.insert(at, byte),
        1 => bytes[at] = byte,
        _ => drop(bytes.remove(at)),
    }
}

/// Whether a path leads out of a directory.
fn climbs(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    path.to_ascii_lowercase().replace("%2e", ".").split('/').any(|part| part == "..")
}

/// The numbers of the requests whose responses are among these bytes.
fn numbers(bytes: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(bytes);
    let ends = text.split("[[").skip(1).filter_map(|rest| rest.split_once("]]"));
    ends.filter_map(|(number, _)| number.parse().ok()).collect()
}

#[test]
fn no_request_hides_in_another() {
    let site = Site::new();
    let recorder = Recorder::start(site.ip);
    let configuration = CONFIGURATION.replace("ORIGIN", &recorder.address.to_string());
    let server = Server::start(Mpm::Percore, &site, &configuration);
    server.allow_everything("requests are malformed");
    let (mut answered, mut sent, mut wrong) = (BTreeSet::new(), 0, Vec::new());
    for seed in seeds(1) {
        let mut chance = Chance::new(seed);
        for _ in 0..REQUESTS {
            let (mut bytes, mut is_certain) = request(&mut chance);
            if chance.one_in(4) {
                // One after the other over a connection.
                let (second, is_too) = request(&mut chance);
                bytes.extend(second);
                is_certain = is_certain && is_too;
            }
            sent += 1;
            let shown = || bytes.escape_ascii().to_string();
            let mut client = server.client();
            client.send(&bytes);
            client.half_close();
            let (received, _) = client.rest();
            let new = numbers(&received);
            let seen = recorder.take();
            if let Some(fault) = seen.faults.first() {
                wrong.push(format!("seed {seed}, {fault}\nof {}", shown()));
            }
            answered.extend(new.iter().copied());
            if answered != seen.numbers {
                let more: Vec<_> = seen.numbers.symmetric_difference(&answered).copied().collect();
                wrong.push(format!(
                    "seed {seed}, {more:?} seen or answered, not both: {}\nof {}",
                    received.escape_ascii(),
                    shown()
                ));
                answered.extend(seen.numbers);
            }
            if is_certain && seen.targets.iter().any(|target| target == "/in/hidden") {
                wrong.push(format!("seed {seed}, the hidden request is served: {:?}\nof {}", seen.targets, shown()));
            }
            // With nocanon, the path is the client's own.
            let is_raw = bytes.windows(4).any(|part| part == b"/raw");
            if !is_raw && seen.targets.iter().any(|target| climbs(target)) {
                wrong.push(format!("seed {seed}, a path climbs: {:?}\nof {}", seen.targets, shown()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {sent}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(answered.len() > sent / 10, "of {sent} requests {} got through", answered.len());
}

/// Parts of heads of HTTP/2.
const H2_METHODS: &[&str] = &[
    "GET",
    "GET",
    "POST",
    "POST",
    "GET /in/hidden HTTP/1.1\r\nHost: x\r\n\r\nGET",
    "",
    "G T",
    "get",
    "GET\t",
    "OPTIONS",
];
const H2_PATHS: &[&str] = &[
    "/app/x",
    "/app/x",
    "/app/x",
    "/app/x HTTP/1.1\r\nHost: y\r\n\r\nGET /in/hidden",
    "/app/a b",
    "/plain/a%0d%0aX:y",
    "/plain/a%20b",
    "app/x",
    "*",
    "",
    "/app/x#y",
    "http://other/app/x",
    "/app/../x",
    "/app/\u{e9}",
    "/app/a\0b",
];
const H2_AUTHORITIES: &[&str] =
    &["localhost", "localhost", "localhost", "", "a b", "a\r\nX: y", "user@localhost", "localhost:80:80", "a/b", "a,b"];
const H2_FIELDS: &[(&str, &str)] = &[
    ("x", "a"),
    ("x", "a\r\nInjected: y"),
    ("x", "a\nb"),
    ("x", "a\rb"),
    ("x", "a\0b"),
    ("x", " a "),
    ("x\r\ny", "z"),
    ("x: y", "z"),
    ("X-Upper", "a"),
    ("", "x"),
    ("connection", "close"),
    ("connection", "x, host, content-length"),
    ("transfer-encoding", "chunked"),
    ("content-length", "5"),
    ("content-length", "5"),
    ("content-length", "0"),
    ("content-length", "9"),
    ("content-length", "5, 5"),
    ("content-length", "+5"),
    ("content-length", "99999999999999999999"),
    ("host", "other"),
    ("host", "a b"),
    ("te", "gzip"),
    ("te", "trailers"),
    ("upgrade", "websocket"),
    ("keep-alive", "x"),
    ("proxy-connection", "x"),
    (":path", "/app/y"),
    (":authority", "b"),
    (":method", "GET"),
    (":odd", "x"),
    ("expect", "100-continue"),
    ("x-forwarded-for", "evil"),
    ("trailer", "x"),
    ("cookie", "a=b"),
];

/// The same with clients that speak HTTP/2.
#[test]
fn no_request_hides_in_one_of_http2() {
    let site = Site::new();
    let recorder = Recorder::start(site.ip);
    let configuration = CONFIGURATION.replace("ORIGIN", &recorder.address.to_string());
    let text = format!("Protocols h2c http/1.1\n{configuration}");
    let server = Server::start(Mpm::Percore, &site, &text);
    server.allow_everything("requests are malformed");
    let (mut got_through, mut known, mut wrong) = (0, BTreeSet::new(), Vec::new());
    let (mut cut, mut unanswered) = (0, 0);
    for seed in seeds(1) {
        let mut chance = Chance::new(seed);
        for _ in 0..REQUESTS / 2 {
            let pseudo = [
                (":method", mostly(&mut chance, H2_METHODS)),
                (":scheme", mostly(&mut chance, &["http", "https", "", "a\r\nb"])),
                (":path", mostly(&mut chance, H2_PATHS)),
                (":authority", mostly(&mut chance, H2_AUTHORITIES)),
            ];
            let count = chance.below(3);
            let more = (0..count).map(|_| H2_FIELDS[chance.below(H2_FIELDS.len() as u64) as usize]);
            let fields: Vec<(&str, &str)> = pseudo.into_iter().chain(more).collect();
            let bodies: [&[&str]; 5] = [&[], &["abcde"], &["ab", "cde"], &["abcdefghi"], &[""]];
            let body = bodies[chance.below(5) as usize];
            let mut frames = Frames::connect(server.address(), &[]);
            let stream = frames.ask(&fields, body.is_empty());
            for (number, piece) in body.iter().enumerate() {
                let flags = if number + 1 == body.len() { END_STREAM } else { 0 };
                frames.send(DATA, flags, stream, piece.as_bytes());
            }
            let ended = frames.ended(stream);
            let answered = match &ended {
                Ended::Answered(_, body) => numbers(body),
                _ => Vec::new(),
            };
            let seen = recorder.take();
            let new: Vec<usize> = seen.numbers.difference(&known).copied().collect();
            // What is longer than it says is found out once that much has gone through, perhaps after the stream has ended.
            cut += usize::from(fields.iter().any(|(name, _)| *name == "content-length") && answered.is_empty());
            unanswered += new.iter().filter(|number| !answered.contains(number)).count();
            if !seen.faults.is_empty() || answered.len() > 1 || !answered.iter().all(|number| new.contains(number)) {
                wrong.push(format!("seed {seed}: {fields:?} {body:?}: {ended:?} {new:?} {:?}", seen.faults));
            }
            got_through += answered.len();
            known = seen.numbers;
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(unanswered <= cut, "{unanswered} requests have come that got no response, and {cut} were cut");
    assert!(got_through > REQUESTS / 20, "{got_through} got through");
}

/// Responses that two readers could read differently, or that go on after their end; whether the connection ends with them. `@` is the
/// number of the request.
const RESPONSES: &[(&str, bool)] = &[
    ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false),
    ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 50\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi", true),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        false,
    ),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000002\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nX: a\rInjected: b\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nX: a\r\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nX: a\n\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", true),
    ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nhi", false),
    ("HTTP/1.1 200 a\rb\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nevil", false),
    ("HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n", false),
    ("HTTP/1.1 100 Continue\r\nContent-Length: 4\r\n\r\nevilHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false),
    ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nevil", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nhi", true),
    ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
    ("HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 0200 OK\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 2 OK\r\n\r\n", true),
    ("evil", true),
    ("\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nConnection: close, Content-Length\r\nContent-Length: 2\r\n\r\nhi", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTrailer: x\r\n\r\nhi", false),
];

/// A server that means harm: `/in/N` gets the response of that number, mutated by chance, and other paths themselves.
fn start_hostile(ip: Ipv4Addr) -> Listening {
    let listener = TcpListener::bind((ip, PORT)).expect("bind");
    let listening = Listening(listener.try_clone().expect("clone"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || harm(stream));
        }
    });
    listening
}

fn harm(mut stream: TcpStream) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
            buffer.extend_from_slice(&piece[..count]);
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end);
        let path = head.split(' ').nth(1)?.trim_start_matches("/in/");
        let mut words = path.split('-');
        let number = words.next()?.parse::<usize>().ok();
        let (mut bytes, ends) = match number.and_then(|number| RESPONSES.get(number)) {
            Some((text, ends)) => (text.as_bytes().to_vec(), *ends),
            None if path == "flood" => (b"HTTP/1.1 103 Hints\r\n\r\n".repeat(1000), true),
            None if path == "endless" => {
                let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
                bytes.extend(b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(40_000));
                (bytes, true)
            }
            None => (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).into_bytes(), false),
        };
        let seed = words.next().and_then(|word| word.parse().ok());
        if let (Some(_), Some(seed)) = (number, seed) {
            let mut chance = Chance::new(seed);
            mutate(&mut chance, &mut bytes);
        }
        stream.write_all(&bytes).ok()?;
        if ends || seed.is_some() {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            return None;
        }
    }
}

/// No response hides in another, and none goes to a request that it does not belong to.
#[test]
fn no_response_hides_in_another() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let _hostile = start_hostile(site.ip);
        let text = format!("ProxyPass /app/ http://{}:{PORT}/in/\nLogLevel crit\n", site.ip);
        let server = Server::start(mpm, &site, &text);
        server.allow_everything("responses are malformed");
        let plain = (0..RESPONSES.len()).map(|number| number.to_string());
        let mut chance = Chance::new(7);
        let mutated: Vec<String> = seeds(1)
            .flat_map(|seed| (0..60).map(move |turn| seed * 1000 + turn))
            .map(|seed| format!("{}-{seed}", chance.below(RESPONSES.len() as u64)))
            .collect();
        let (mut next, mut refused) = (0, 0);
        for path in plain.chain(["flood".into(), "endless".into()]).chain(mutated) {
            let mut client = server.client();
            client.send(get(&format!("/app/{path}")));
            let beginning = client.beginning_to("GET");
            let is_whole = matches!(&beginning, Ok((_, Ok(()))));
            if let Ok((response, Ok(()))) = &beginning {
                refused += usize::from(response.status == 502);
                assert!(!response.text().contains("evil") || response.status == 200, "{path}: {response:?}");
                assert!(response.closes() || client.is_silent(), "{path}: more than one response");
            }
            // Whoever comes next, over whatever connection, gets its own response.
            for _ in 0..2 {
                next += 1;
                let name = format!("good{next}");
                assert_eq!(server.get(&format!("/app/{name}")).text(), name, "after {path}");
            }
            if is_whole && beginning.is_ok_and(|(response, _)| !response.closes()) {
                assert_eq!(client.get("/app/last").text(), "last", "after {path}");
            }
        }
        assert!(refused > 20, "{refused} were refused");
    }
}
