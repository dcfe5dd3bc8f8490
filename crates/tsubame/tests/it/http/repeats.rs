//! Repeats: a request that asks what an earlier one asked gets the same response as if it went through the phases, and is logged
//! as its own.
//!
//! `ForensicLog` writes a line for each request, so with it nothing is repeated: the same configuration with and without this line
//! must answer alike.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use crate::harness::asker::Asker;
use crate::harness::chance::{Chance, seeds};
use crate::harness::frames::{Ended, Frames, WINDOW_UPDATE, request};
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::open_metrics::{count_in, counted};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::tls;
use crate::harness::wait::{until, within};
use crate::harness::wire::{Client, Response};

/// A directory with this section, and requests for a path in it, or elsewhere, with these fields.
struct Case {
    section: &'static str,
    method: &'static str,
    path: &'static str,
    fields: &'static str,
}

const fn case(section: &'static str, fields: &'static str) -> Case {
    Case { section, method: "GET", path: "a.html?x", fields }
}

/// A request for a path in the directory, or for one that begins with a slash.
const fn path(section: &'static str, path: &'static str) -> Case {
    Case { section, method: "GET", path, fields: "" }
}

const fn method(section: &'static str, method: &'static str, fields: &'static str) -> Case {
    Case { section, method, path: "a.html", fields }
}

/// What depends on nothing but the head, the file and the access files.
const REPEATED: [Case; 34] = [
    case("", ""),
    path("DirectoryIndex a.html", ""),
    path("DirectoryIndex a.html none\nAllowOverride All\nHeader set X-A b", "?x"),
    path("", "/moved/x?y"),
    path("", "/gone/x"),
    case("", "User-Agent: x\r\nAccept: */*\r\nCookie: a=b\r\n"),
    case("", "Connection: keep-alive\r\n"),
    case("", "If-None-Match: *\r\n"),
    case("", "If-None-Match: \"other\"\r\nIf-Modified-Since: Sat, 01 Jan 2050 00:00:00 GMT\r\n"),
    case("", "If-Modified-Since: Sat, 01 Jan 2022 00:00:00 GMT\r\n"),
    case("", "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n"),
    case("", "Range: bytes=1-2\r\n"),
    case("", "Range: bytes=-3\r\nIf-Range: Sun, 09 Sep 2001 01:46:40 GMT\r\n"),
    method("", "HEAD", ""),
    method("Header set X-A b", "HEAD", "Range: bytes=1-1\r\n"),
    case("AllowOverride All", ""),
    case("Header set X-A \"%{a}e\"\nSetEnv a b", ""),
    case("Header set X-A expr=%{HTTP:User-Agent}", "User-Agent: one\r\n"),
    case("Header set X-A expr=%{REQUEST_URI}|%{HTTPS}|%{SERVER_NAME}", ""),
    case("Header edit ETag \"$\" x\nHeader append Vary X", ""),
    case("RequestHeader unset Proxy\nRequestHeader set X-B c\nHeader echo ^X-", "X-A: b\r\nProxy: evil\r\n"),
    case("Header echo ^X-", "X-A: b\r\n"),
    case("SetEnvIf User-Agent on a=b\nHeader set X-A yes env=a", "User-Agent: one\r\n"),
    case(
        "BrowserMatch \"^on[a-f]\" a=b\nBrowserMatchNoCase MORE !a c=d\nHeader set X-A \"%{a}e %{c}e\"",
        "User-Agent: one more\r\n",
    ),
    case("BrowserMatch \"(o[^ ]*)\" a=$1\nHeader set X-A %{a}e", "User-Agent: one\r\n"),
    case("BrowserMatch one nokeepalive", "User-Agent: one\r\nConnection: keep-alive\r\n"),
    case("<If \"%{HTTP:X-A} == 'b'\">\nHeader set X-If yes\n</If>", "X-A: b\r\n"),
    case("<Files *.html>\nForceType text/x\nAddDefaultCharset utf-8\n</Files>", ""),
    case("AddOutputFilterByType DEFLATE text/html", ""),
    case("Require all granted\nAllowMethods GET", ""),
    case("<RequireAny>\nRequire method GET\nRequire ip 127.0.0.0/8\n</RequireAny>", ""),
    case("AddLanguage de .html\nAddCharset utf-8 .html\nAddType text/y .html", "Accept-Language: de\r\n"),
    case("FileETag None\nMaxRanges none", "Range: bytes=1-2\r\n"),
    case("Options Indexes FollowSymLinks MultiViews Includes ExecCGI", ""),
];

/// What asks for more, or may not be repeated for another reason.
const ASKED: [Case; 46] = [
    path("DirectoryIndex none a.html", ""),
    path("DirectoryIndex a.html\nDirectoryIndexRedirect On", ""),
    path("DirectoryIndex a.html\nRequire ip 127.0.0.0/8", ""),
    path("DirectoryIndex /text", ""),
    path("DirectoryIndex a.html\nRequire expr \"%{LAST_MODIFIED} =~ /GMT/\"", ""),
    path("DirectoryIndex disabled\nOptions Indexes", ""),
    path("Redirect 302 /none /text", "none"),
    path("", "none"),
    path("", "/moved-by-client"),
    path("", "/text/x"),
    case("Require ip 127.0.0.0/8", ""),
    case("Require local", ""),
    case("Require expr %{REMOTE_ADDR} =~ /127/", ""),
    case("Order deny,allow\nDeny from 10.0.0.0/8", ""),
    case("Header set X-A expr=%{REMOTE_ADDR}|%{TIME_YEAR}", ""),
    case("<If \"-f '${DOCS}/none'\">\nHeader set X-A b\n</If>", ""),
    case("<If \"file('${DOCS}/text') == 'x'\">\nHeader set X-A b\n</If>", ""),
    case("<If \"-F '/text'\">\nHeader set X-A b\n</If>", ""),
    case("SetEnvIf Remote_Addr 127 a=b\nHeader set X-A yes env=a", ""),
    case("SetEnvIfExpr \"%{REMOTE_ADDR} == '10.0.0.1'\" a=b", ""),
    case("Header set X-A %l", ""),
    case("Header set X-A %i", ""),
    case("<If \"filesize('${DOCS}/text') == 5\">\nHeader set X-A b\n</If>", ""),
    case("Header set X-A z\nHeader set X-A expr=%{reqenv:UNIQUE_ID} env=NONE\nSetEnvIf UNIQUE_ID none a", ""),
    case("ExpiresActive On\nExpiresDefault \"access plus 1 day\"", ""),
    case("RewriteEngine On\nRewriteRule nothing /none", ""),
    case("Options SymLinksIfOwnerMatch", ""),
    case("SetOutputFilter SUBSTITUTE\nSubstitute s/none/x/", ""),
    case("SetOutputFilter INCLUDES\nOptions Includes", ""),
    case("AddOutputFilterByType DEFLATE text/html", "Accept-Encoding: gzip\r\n"),
    case("SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 400", ""),
    case("SetHandler type-map", ""),
    case(
        "AuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user",
        "Authorization: Basic am9lOng=\r\n",
    ),
    case("AuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user", ""),
    case("Require all denied", ""),
    case("Redirect 302 / /text", ""),
    case("Session On\nSessionCookieName s", ""),
    case("HostnameLookups On", ""),
    case("", "If-Modified-Since: Sat, 01 Jan 2050 00:00:00 GMT\r\n"),
    case("", "Range: bytes=0-0,2-2\r\n"),
    case("", "Range: bytes=1000-\r\n"),
    case("", "Content-Length: 0\r\n"),
    case("", "Expect: 100-continue\r\n"),
    method("", "HEAD", "Range: bytes=0-0,2-2\r\n"),
    method("", "OPTIONS", ""),
    method("", "POST", ""),
];

/// When the files were last changed, in seconds since 1970: tags and dates are the same everywhere.
const CHANGED: u64 = 1_000_000_000;
const PAGE: &str =
    "<p>a page, long enough to be compressed: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</p>\n";

/// As in every real configuration: without `AllowOverride None`, children that watch no directories look for access files again
/// and again. Each thread has a memory of its own, so there are few.
const COMMON: &str = "Protocols h2 h2c http/1.1\nH2Upgrade off\n<Directory />\nAllowOverride None\n</Directory>\n<Location /metrics>\nSetHandler metrics\n</Location>\n\
    Redirect /moved http://elsewhere/\nRedirectMatch permanent ^/gone/(.*) http://elsewhere/$1\n\
    <Location /moved-by-client>\nRedirect 302 http://elsewhere/%{REMOTE_ADDR}\n</Location>\n\
    <IfModule worker.c>\nStartServers 1\nServerLimit 1\nThreadsPerChild 3\nMaxRequestWorkers 3\nMinSpareThreads 1\n</IfModule>\n";

/// A page of that time below `htdocs`.
fn page(site: &Site, name: &str, text: &str) {
    let file = File::options().write(true).open(site.page(name, text)).expect("the page");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(CHANGED)).expect("a time");
}

/// The site and its configuration for these cases, one directory each.
fn site(cases: &[&Case]) -> (Site, String) {
    let site = Site::new();
    page(&site, "text", "text\n");
    site.file("users", "joe:{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=\n");
    let mut text = String::from(COMMON);
    for (number, case) in cases.iter().enumerate() {
        page(&site, &format!("{number}/a.html"), PAGE);
        text += &format!("<Directory \"${{DOCS}}/{number}\">\n{}\n</Directory>\n", case.section);
    }
    (site, text)
}

/// How many requests a server has repeated.
fn repeated(server: &Server<'_>) -> u64 {
    counted(server, "requests_repeated")
}

/// A server that was asked so many requests. A child counts a request after its client has the response, so a count of all of them is
/// waited for.
struct Asked<'a> {
    server: &'a Server<'a>,
    requests: Cell<u64>,
}

impl Asked<'_> {
    fn new<'a>(server: &'a Server<'a>) -> Asked<'a> {
        Asked { server, requests: Cell::new(0) }
    }

    fn answer(&self, client: &mut Asker, method: &str, head: &str) -> Response {
        self.requests.set(self.requests.get() + 1);
        answer(client, method, head)
    }

    /// How many of all requests until now were repeated.
    fn repeated(&self) -> u64 {
        until("a count of all requests", || {
            let page = self.server.get("/metrics").text();
            let before = self.requests.replace(self.requests.get() + 1);
            (count_in(&page, "requests") == before).then(|| count_in(&page, "requests_repeated"))
        })
    }
}

fn head(case: &Case, number: usize) -> String {
    let path = if case.path.starts_with('/') { case.path.to_string() } else { format!("/{number}/{}", case.path) };
    format!("{} {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", case.method, case.fields)
}

/// The response, without its dates. A filter's output may come in chunks or at once: the body counts.
fn answer(client: &mut Asker, method: &str, head: &str) -> Response {
    let mut response = client.response(method, head);
    let before = response.fields.len();
    response.fields.retain(|(name, _)| name != "Date");
    assert_eq!(response.fields.len() + 1, before, "one date");
    let varies =
        |name: &str| name == "Expires" || method != "HEAD" && ["Content-Length", "Transfer-Encoding"].contains(&name);
    // How busy the machine and the server are varies, too.
    let is_load = |value: &str| ["l=", "i="].iter().any(|load| value.starts_with(load));
    response.fields.retain(|(name, value)| !varies(name) && !is_load(value));
    response
}

/// Everything that a client sees of a response; the boundary of its parts is always another one.
fn seen(response: &Response) -> String {
    let text = format!("{} {} {:?} {}", response.status, response.reason, response.fields, response.text());
    let boundary = response.field("Content-Type").and_then(|text| text.split("boundary=").nth(1));
    boundary.map_or(text.clone(), |boundary| text.replace(boundary, "BOUNDARY"))
}

under_percore_and! { worker:
    /// Each case is answered alike with and without repeats, and repeated only if it asks for nothing else.
    fn cases_are_answered_alike(mpm: Mpm) {
        let cases: Vec<&Case> = REPEATED.iter().chain(&ASKED).collect();
        let ((one, text), (other, _)) = (site(&cases), site(&cases));
        let with = Server::start(mpm, &one, &text);
        let without = Server::start(mpm, &other, &format!("{text}ForensicLog logs/forensic\n"));
        for server in [&with, &without] {
            server.allow("AH01630: client denied by server configuration");
            server.allow("AH01797: client denied by server configuration");
            server.allow("AH00690: no acceptable variant");
            server.allow("is within MinSpareThreads of MaxRequestWorkers");
        }
        let (with, without) = (Asked::new(&with), Asked::new(&without));
        let mut wrong = Vec::new();
        for (is_http2, (number, case)) in [false, true].into_iter().flat_map(|way| cases.iter().enumerate().map(move |case| (way, case))) {
            // HTTP/2 has no such fields, or they mean a body that is not there.
            if is_http2 && ["Connection", "Expect", "Content-Length"].iter().any(|name| case.fields.contains(name)) {
                continue;
            }
            let head = head(case, number);
            let before = with.repeated();
            let should = number < REPEATED.len();
            for round in 0..12 {
                if should && round > 3 && with.repeated() > before {
                    break;
                }
                let (mut ours, mut theirs) = (Asker::new(with.server, is_http2), Asker::new(without.server, is_http2));
                for _ in 0..4 {
                    let ours = with.answer(&mut ours, case.method, &head);
                    let theirs = without.answer(&mut theirs, case.method, &head);
                    assert_eq!(seen(&ours), seen(&theirs), "{} | {head}, round {round}", case.section);
                    if ours.closes() {
                        break;
                    }
                }
            }
            let does = with.repeated() > before;
            if does != should {
                wrong.push(format!("{} | {}: repeated: {does}, HTTP/2: {is_http2}", case.section, case.fields));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(without.repeated(), 0);
    }
}

under_percore_and! { event:
    /// The thread that meets a request first remembers it, even if another one ends it: a filter that may compress has a worker
    /// of event's.
    fn filters_cost_no_repeats(mpm: Mpm) {
        const REQUESTS: u64 = 200;

        let site = Site::new();
        page(&site, "a.html", PAGE);
        let server = Server::start(mpm, &site, &format!("{COMMON}MaxKeepAliveRequests 0\nAddOutputFilterByType DEFLATE text/html\n"));
        let mut client = server.client();
        for _ in 0..REQUESTS {
            assert_eq!(client.request("GET /a.html HTTP/1.1\r\nHost: localhost\r\n\r\n").text(), PAGE);
        }
        // The first requests are remembered, and a young file is not kept yet.
        let most = || (repeated(&server) > REQUESTS / 2).then_some(());
        assert!(within(Duration::from_secs(2), most).is_some(), "{} repeats", repeated(&server));
    }
}

under_percore_and! { event:
    /// Each repeat is logged with its own client, connection and count, and counts towards `MaxKeepAliveRequests`.
    fn each_is_logged_as_its_own(mpm: Mpm) {
        let site = Site::new();
        page(&site, "a.html", PAGE);
        let text = "MaxKeepAliveRequests 9\nCustomLog logs/access \"%{remote}p %k %>s %b %O %{User-Agent}i %X %H %U%q %m %{Cookie}i %I\"\n\
            CustomLog logs/ids \"%{UNIQUE_ID}e\"\nCustomLog logs/fixed \"%{UNIQUE_ID}e\" env=fixed\n\
            SetEnvIf X-Id (.+) UNIQUE_ID=$1 fixed\n";
        let mut server = Server::start(mpm, &site, &format!("{COMMON}{text}"));
        // A young file is not kept yet.
        until("a repeat", || {
            server.get("/a.html");
            (repeated(&server) > 0).then_some(())
        });
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        // Nobody asks for the cookie, so it may be another one each time.
        let cookie = |count: u32, port: u16| match count % 3 {
            0 => "same".to_string(),
            _ => format!("{}{port}", "x".repeat(count as usize)),
        };
        let request = |count: u32, port: u16| {
            format!(
                "GET /a.html?q HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\nUser-Agent: one\r\nConnection: keep-alive\r\n\r\n",
                cookie(count, port)
            )
        };
        for count in 0..10 {
            for client in &mut clients {
                let port = client.address().port();
                let response = client.request(request(count, port));
                let expected = match 9 - count {
                    0 => (None, Some("close")),
                    _ => (Some(format!("timeout=5, max={}", 9 - count)), Some("Keep-Alive")),
                };
                assert_eq!((response.field("Keep-Alive").map(str::to_string), response.field("Connection")), expected);
                assert_eq!((response.status, response.text().as_str()), (200, PAGE));
            }
        }
        until("repeats", || (repeated(&server) > 30).then_some(()));
        until("a repeat", || {
            let before = repeated(&server);
            server.client().request("GET /a.html HTTP/1.1\r\nHost: localhost\r\nX-Id: mine\r\n\r\n");
            (repeated(&server) > before).then_some(())
        });
        let ports: Vec<u16> = clients.iter().map(|client| client.address().port()).collect();
        clients.iter_mut().for_each(Client::expect_end);
        server.signal(sys::signal::Signal::TERM);
        server.ends();
        let ids: Vec<String> = site.read("logs/ids").lines().map(str::to_string).collect();
        let own: Vec<&String> = ids.iter().filter(|id| *id != "mine").collect();
        assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len(), "each request has an id of its own");
        let fixed = site.read("logs/fixed");
        assert!(fixed.lines().count() >= 2 && fixed.lines().all(|id| id == "mine"), "{fixed}");
        let log = site.read("logs/access");
        for port in ports {
            let lines: Vec<&str> = log.lines().filter(|line| line.starts_with(&format!("{port} "))).collect();
            assert_eq!(lines.len(), 10, "{log}");
            for (count, line) in lines.iter().enumerate() {
                let (sent, state) = (line.split(' ').nth(4).expect("a number"), if count < 8 { "+" } else { "-" });
                assert!(sent.parse::<u64>().is_ok_and(|sent| sent > 200), "{line}");
                let count = count as u32;
                let (cookie, received) = (cookie(count, port), request(count, port).len());
                let expected =
                    format!("{port} {count} 200 {} {sent} one {state} HTTP/1.1 /a.html?q GET {cookie} {received}", PAGE.len());
                assert_eq!(*line, expected);
            }
        }
    }
}

/// A file that changes or goes away is served as it is from the next request on, as an index of its directory too.
#[test]
fn changes_of_the_file_count_at_once() {
    let site = Site::new();
    let server = Server::start(Mpm::Percore, &site, &format!("{COMMON}DirectoryIndex a.html b.html"));
    server.allow("AH01276: Cannot serve directory");
    let root = format!("{}/htdocs", site.path());
    for path in ["/a.html", "/"] {
        let changes: [(&str, &dyn Fn()); 4] = [
            ("other\n", &|| page(&site, "a.html", "other\n")),
            ("", &|| std::fs::remove_file(format!("{root}/a.html")).expect("removed")),
            ("new\n", &|| {
                page(&site, "c.html", "new\n");
                std::fs::rename(format!("{root}/c.html"), format!("{root}/a.html")).expect("renamed");
            }),
            ("", &|| page(&site, "a.html", "")),
        ];
        for (expected, change) in changes {
            page(&site, "a.html", PAGE);
            let (before, mut client) = (repeated(&server), server.client());
            until("a repeat", || {
                let response = client.get(path);
                assert_eq!(response.text(), PAGE);
                if response.closes() {
                    client = server.client();
                }
                (repeated(&server) > before).then_some(())
            });
            change();
            let response = client.get(path);
            match std::fs::exists(format!("{root}/a.html")).expect("known") {
                true => assert_eq!((response.status, response.text().as_str()), (200, expected), "{path}"),
                false => assert!(matches!(response.status, 403 | 404), "{path}: {}", response.status),
            }
        }
    }
    page(&site, "a.html", PAGE);
    let (before, mut client) = (repeated(&server), server.client());
    until("a repeat", || {
        client = server.client();
        assert_eq!((0..4).map(|_| client.get("/").text()).collect::<String>(), PAGE.repeat(4));
        (repeated(&server) > before).then_some(())
    });
    page(&site, "b.html", "b\n");
    std::fs::remove_file(format!("{root}/a.html")).expect("removed");
    assert_eq!(client.get("/").text(), "b\n");
}

/// Fields that decide about a response, and some that do not.
const FIELDS: [&str; 23] = [
    "If-None-Match: *",
    "If-None-Match: \"e-35e0b7c2a0000\"",
    "If-Match: \"none\"",
    "If-Modified-Since: Sat, 01 Jan 2022 00:00:00 GMT",
    "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT",
    "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT",
    "Range: bytes=1-2",
    "Range: bytes=3-",
    "Range: bytes=5000-",
    "Range: bytes=0-0,5-6",
    "If-Range: \"none\"",
    "If-Range: Sun, 09 Sep 2001 01:46:40 GMT",
    "Connection: keep-alive",
    "User-Agent: one",
    "User-Agent: two",
    "User-Agent: one more",
    "User-Agent: another one",
    "User-Agent: once more",
    "X-A: b",
    "Accept-Encoding: gzip",
    "Accept-Language: de",
    "Cookie: a=b",
    "Authorization: Basic am9lOng=",
];

/// Requests as chance has them, while files change: always the answers of a server that repeats nothing.
///
/// The seed is fixed; `TSUBAME_SEEDS=20` compares that many times as much.
#[test]
fn by_chance_answers_are_alike() {
    let cases: Vec<&Case> = REPEATED.iter().chain(&ASKED).collect();
    for mpm in Mpm::chosen("by_chance_answers_are_alike") {
        let ((one, text), (other, _)) = (site(&cases), site(&cases));
        let with = Server::start(mpm, &one, &text);
        let without = Server::start(mpm, &other, &format!("{text}ForensicLog logs/forensic\n"));
        [&with, &without].into_iter().for_each(|server| server.allow_everything("refused requests are logged"));
        for (seed, is_http2) in seeds(1).flat_map(|seed| [(seed, false), (seed, true)]) {
            let mut chance = Chance::new(seed);
            let asker = |server| Asker::new(server, is_http2);
            let (mut ours, mut theirs) = (asker(&with), asker(&without));
            let mut heads: Vec<(&str, String)> = Vec::new();
            for step in 0..300 {
                if chance.one_in(60) {
                    // Both sites change alike, and the file's time is the same as before.
                    let (number, large) = (chance.below(cases.len() as u64), chance.one_in(4));
                    let text = if large { "x".repeat(20_000) } else { format!("<p>{step}</p>\n") };
                    [&one, &other].into_iter().for_each(|site| page(site, &format!("{number}/a.html"), &text));
                }
                let again = !heads.is_empty() && !chance.one_in(4);
                let (method, head) = match again {
                    // With another field, at times: perhaps one that nobody asks for.
                    true => {
                        let (method, head) = heads[chance.below(heads.len() as u64) as usize].clone();
                        let noise = format!("Referer: http://{step}/");
                        let (line, rest) = head.split_once("\r\n").expect("a line");
                        match chance.below(4) {
                            0 => (method, format!("{line}\r\n{noise}\r\n{rest}")),
                            1 => (method, format!("{line}\r\n{}\r\n{rest}", chance.of(&FIELDS))),
                            _ => (method, head),
                        }
                    }
                    false => {
                        let (number, method) =
                            (chance.below(cases.len() as u64), chance.of(&["GET", "GET", "GET", "HEAD"]));
                        let version = if chance.one_in(8) { "1.0" } else { "1.1" };
                        let path = if chance.one_in(3) { cases[number as usize].path } else { "a.html" };
                        let path = if path.starts_with('/') { path.to_string() } else { format!("/{number}/{path}") };
                        let mut text = format!("{method} {path} HTTP/{version}\r\nHost: localhost\r\n");
                        for _ in 0..chance.below(4) {
                            text += &format!("{}\r\n", chance.of(&FIELDS));
                        }
                        heads.push((method, text + "\r\n"));
                        if heads.len() > 24 {
                            heads.swap_remove(0);
                        }
                        heads[heads.len() - 1].clone()
                    }
                };
                let (mine, yours) = (answer(&mut ours, method, &head), answer(&mut theirs, method, &head));
                assert_eq!(seen(&mine), seen(&yours), "step {step} of seed {seed}: {head}");
                if mine.closes() {
                    (ours, theirs) = (asker(&with), asker(&without));
                }
            }
        }
        assert!(repeated(&with) > 50 && repeated(&without) == 0, "{} repeats", repeated(&with));
    }
}

under_percore_and! { worker:
    /// Over HTTP/2 each repeat has its own stream in variables and logs.
    fn each_stream_is_its_own(mpm: Mpm) {
        let site = Site::new();
        page(&site, "a.html", PAGE);
        let text = "CustomLog logs/access \"%{remote}p %{H2_STREAM_ID}e %{HTTP2}x %>s %b %H %{a}i %r\"\n";
        let mut server = Server::start(mpm, &site, &format!("{COMMON}{text}"));
        let fields = |value| [&request("GET", "/a.html")[..], &[("a", value)]].concat();
        until("a repeat", || {
            let mut client = Frames::connect(server.address(), &[]);
            (0..4).for_each(|_| assert_eq!(client.response(&fields("b")).2, PAGE.as_bytes()));
            (repeated(&server) > 0).then_some(())
        });
        let before = repeated(&server);
        let mut client = Frames::connect(server.address(), &[]);
        let values = ["b", "b", "c", "d", "b", "d", "d", "c", "b"];
        // Several at once, in windows that do not hold all of them.
        for _ in 0..20 {
            // Nobody asks for the field.
            let streams: Vec<u32> = values.map(|value| client.ask(&fields(value), true)).into();
            let expected = Ended::Answered(200, PAGE.as_bytes().to_vec());
            assert!(client.all(&streams).into_iter().all(|ended| ended == expected));
        }
        until("repeats", || (repeated(&server) > before + 90).then_some(()));
        let port = client.address().port();
        drop(client);
        server.signal(sys::signal::Signal::TERM);
        server.ends();
        let log = site.read("logs/access");
        let mut streams: Vec<u32> = Vec::new();
        for line in log.lines().filter(|line| line.starts_with(&format!("{port} "))) {
            let stream = line.split(' ').nth(1).expect("a stream");
            let number: u32 = stream.parse().expect("a number");
            let field = values[number as usize / 2 % values.len()];
            assert_eq!(line, format!("{port} {stream} on 200 {} HTTP/2.0 {field} GET /a.html HTTP/2.0", PAGE.len()));
            streams.push(number);
        }
        streams.sort_unstable();
        assert!(streams.into_iter().eq((0..180).map(|number| number * 2 + 1)), "{log}");
    }
}

/// Of a browser's name nothing counts but which patterns it matches.
#[test]
fn browsers_that_match_alike_are_alike() {
    let site = Site::new();
    page(&site, "a.html", PAGE);
    let text = format!(
        "{COMMON}ServerLimit 1\nMaxKeepAliveRequests 0\nBrowserMatch \"^Old/[0-3]\" old\n\
         <Location /a.html>\nBrowserMatch robot !old robot\nHeader set X-Old yes env=old\nHeader set X-Robot yes env=robot\n</Location>\n"
    );
    let server = Server::start(Mpm::Percore, &site, &text);
    let mut client = server.client();
    // A page that has just been made is not remembered.
    until("a repeat", || {
        assert_eq!(client.get("/a.html").status, 200);
        (repeated(&server) > 0).then_some(())
    });
    let before = repeated(&server);
    for number in 0..40 {
        for (agent, old, robot) in [("Old/1", true, false), ("New/1", false, false), ("Old/2 robot", false, true)] {
            client.send(format!("GET /a.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent} {number}\r\n\r\n"));
            let response = client.response_to("GET");
            let has = |name: &str| response.field(name).is_some();
            assert_eq!((response.status, has("X-Old"), has("X-Robot")), (200, old, robot), "{agent} {number}");
        }
    }
    let repeats = repeated(&server) - before;
    assert!(repeats > 60, "{repeats}");
}

/// Where one thread serves all connections, it remembers a site of some hundred files.
#[test]
fn a_site_is_remembered_as_a_whole() {
    let site = Site::new();
    (0..400).for_each(|number| page(&site, &format!("{number}.txt"), &format!("{number}\n")));
    let server = Server::start(Mpm::Percore, &site, &format!("{COMMON}ServerLimit 1\nMaxKeepAliveRequests 0\n"));
    let mut client = server.client();
    let mut rounds = [0; 4].map(|_| {
        let before = repeated(&server);
        for number in 0..400 {
            assert_eq!(client.get(&format!("/{number}.txt")).text(), format!("{number}\n"));
        }
        repeated(&server) - before
    });
    assert_eq!(rounds[0], 0);
    rounds.sort_unstable();
    // A set may be full of others.
    assert!(rounds[3] > 320, "{rounds:?}");
}

/// Heads that are too large for one part of the machinery are neither taken for others, nor sent without what does not fit.
#[test]
fn large_heads_are_whole_or_not_repeated() {
    let site = Site::new();
    page(&site, "a.html", PAGE);
    page(&site, "long/a.html", PAGE);
    page(&site, "many/a.html", PAGE);
    let cookies: String = (0..110).map(|number| format!("Header add Set-Cookie c{number}=v\n")).collect();
    let (long, target) = ("v".repeat(4500), "t".repeat(4200));
    let text = format!(
        "{COMMON}LimitRequestFields 10\nLimitRequestFieldSize 500\nRedirect /far http://elsewhere/{target}\n\
         <Location /long>\nHeader set X-Long {long}\nHeader set X-After yes\n</Location>\n\
         <Location /many>\n{cookies}</Location>\n"
    );
    let server = Server::start(Mpm::Percore, &site, &text);
    for (path, name, values) in [
        ("/a.html", "etag", 1),
        ("/long/a.html", "x-after", 1),
        ("/many/a.html", "set-cookie", 110),
        ("/far", "location", 1),
    ] {
        for _ in 0..6 {
            let mut client = Frames::connect(server.address(), &[]);
            for _ in 0..4 {
                let (_, fields, _) = client.response(&request("GET", path));
                let named = |name: &str| fields.iter().filter(|(other, _)| other == name).count();
                assert_eq!((named(name), named("content-length"), named("content-type")), (values, 1, 1), "{path}");
            }
        }
    }
    // The rest of a head that is too large is not read.
    let large = "v".repeat(16_220);
    let fields = [&request("GET", "/a.html")[..], &[("x", &large), ("range", "bytes=0-1")]].concat();
    for _ in 0..6 {
        let mut client = Frames::connect(server.address(), &[]);
        assert_eq!(client.response(&request("GET", "/a.html")).0, 200);
        assert_eq!(client.response(&fields).0, 431);
    }
    assert!(repeated(&server) > 0);
}

/// What stands for a head of HTTP/2 in the memory of the server is no head in HTTP/1.
#[test]
fn lines_of_http2_are_no_request_of_http1() {
    let site = Site::new();
    page(&site, "a.html", PAGE);
    let server = Server::start(Mpm::Percore, &site, &format!("{COMMON}ServerLimit 1\nStartServers 1\n"));
    server.allow_everything("refused requests are logged");
    let fields = request("GET", "/a.html");
    until("a repeat", || {
        let mut client = Frames::connect(server.address(), &[]);
        (0..4).for_each(|_| assert_eq!(client.response(&fields).2, PAGE.as_bytes()));
        (repeated(&server) > 0).then_some(())
    });
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    for _ in 0..4 {
        let mut client = server.client();
        assert_eq!(client.get("/a.html").text(), PAGE);
        assert_eq!(client.request(&lines).status, 400);
    }
}

/// A client whose windows are small gets repeats all the same, as fast as it reads.
#[test]
fn small_windows_hold_repeats_too() {
    let site = Site::new();
    page(&site, "a.html", &"x".repeat(10_000));
    let server = Server::start(Mpm::Percore, &site, COMMON);
    until("a repeat", || {
        let mut client = Frames::connect(server.address(), &[]);
        (0..4).for_each(|_| assert_eq!(client.response(&request("GET", "/a.html")).2.len(), 10_000));
        (repeated(&server) > 0).then_some(())
    });
    // SETTINGS_INITIAL_WINDOW_SIZE
    for window in [0, 500, 9_999, 10_000] {
        let mut client = Frames::connect(server.address(), &[(4, window)]);
        let streams: Vec<u32> = (0..3).map(|_| client.get("/a.html")).collect();
        if window == 0 {
            assert!(streams.iter().all(|stream| client.send(WINDOW_UPDATE, 0, *stream, &10_000_u32.to_be_bytes())));
        }
        let ended = client.all(&streams);
        assert!(ended.iter().all(|ended| *ended == Ended::Answered(200, vec![b'x'; 10_000])), "{window}");
    }
}

/// Over TLS a response counts for the host that the client has named in its handshake, and what asks for more of the session
/// is never repeated.
#[test]
fn what_a_handshake_names_counts() {
    let site = Site::new();
    page(&site, "a.html", PAGE);
    page(&site, "version/a.html", PAGE);
    page(&site, "certificate/a.html", PAGE);
    // Makes the certificate.
    let _ = tls::lines(&site);
    let host = |name: &str| {
        format!(
            "<VirtualHost *:8443>\nServerName {name}.example\nHeader set X-Host {name}\nSSLEngine on\n\
             SSLCertificateFile conf/tls.pem\nSSLCertificateKeyFile conf/tls.key\n</VirtualHost>\n"
        )
    };
    let text = format!(
        "{COMMON}SSLVHostSNIPolicy strict\nListen ${{ADDR}}:8443\n{}{}{}\
         <Location /version>\nSSLOptions +StdEnvVars\nHeader set X-Version %{{SSL_PROTOCOL}}e\n</Location>\n\
         <Location /certificate>\nRequire ssl-verify-client\n</Location>\n",
        host("a"),
        host("b"),
        "CustomLog logs/tls \"%{SSL_TLS_SNI}e %{HTTPS}e %>s %{X-Host}o\"\n"
    );
    let server = Server::start(Mpm::Percore, &site, &text);
    server.allow_everything("refused requests are logged");
    let ask = |protocol: &str, named: &str, host: &str, path: &str, more: &[&str]| {
        let url = format!("https://{named}.example:8443{path}");
        let mut curl = Command::new("curl");
        curl.args(["-sk", protocol, "-H", &format!("Host: {host}.example"), "-w", " %{http_code}\n", "--resolve"]);
        curl.arg(format!("{named}.example:8443:{}", site.ip)).args(more);
        for _ in 0..5 {
            curl.args(["-o", "/dev/null", "-D", "-"]).arg(&url);
        }
        let output = curl.output().expect("curl");
        String::from_utf8_lossy(&output.stdout).to_lowercase()
    };
    for protocol in ["--http1.1", "--http2"] {
        let before = repeated(&server);
        until("a repeat", || {
            for name in ["a", "b"] {
                let said = ask(protocol, name, name, "/a.html", &[]);
                assert_eq!(said.matches(&format!("x-host: {name}")).count(), 5, "{said}");
            }
            (repeated(&server) > before + 4).then_some(())
        });
        for (named, host) in [("a", "b"), ("b", "a"), ("a", "b")] {
            let said = ask(protocol, named, host, "/a.html", &[]);
            assert_eq!(said.matches(" 421\n").count(), 5, "{said}");
        }
        let before = repeated(&server);
        for version in ["1.2", "1.3"] {
            for _ in 0..3 {
                let said =
                    ask(protocol, "a", "a", "/version/a.html", &[&format!("--tlsv{version}"), "--tls-max", version]);
                assert_eq!(said.matches(&format!("x-version: tlsv{version}")).count(), 5, "{said}");
                let said = ask(protocol, "a", "a", "/certificate/a.html", &[]);
                assert_eq!(said.matches(" 403\n").count(), 5, "{said}");
            }
        }
        assert_eq!(repeated(&server), before);
    }
    let log = site.read("logs/tls");
    let known = ["a.example on 200 a", "b.example on 200 b", "- - 200 -"];
    let refused = |line: &str| line.contains(" 403 ") || line.contains(" 421 ");
    assert!(log.lines().all(|line| known.contains(&line) || refused(line)), "{log}");
    assert!(known.iter().all(|line| log.lines().any(|other| other == *line)), "{log}");
}
