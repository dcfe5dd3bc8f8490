//! A stored response that answers one request after the other, mostly without a look into the storage, is always the one that the
//! storage has, at its present age.
//!
//! `ForensicLog` writes a line for each request, so with it the storage is asked each time: the same configuration with and without
//! this line must answer alike.

use std::path::{Path, PathBuf};

use super::open_directories;
use crate::harness::asker::Asker;
use crate::harness::chance::{Chance, seeds};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;

const CONFIGURATION: &str = "Protocols h2c http/1.1\nMaxKeepAliveRequests 0\nCacheHeader On\nCacheDisable /app/never\nCacheIgnoreHeaders X-None\nCacheStorePrivate Off\n\
    CacheKeyBaseURL http://k.example\nCacheRoot ${ROOT}/run/cache\nCacheLockPath ${ROOT}/run/lock\nCacheSocache shmcb:x(1000000)\n\
    CacheEnable disk /app/disk\nCacheEnable socache /app/memory\nScriptAlias /app ${ROOT}/cgi-bin/app\n\
    <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\nLogFormat \"%U %{cache-status}e %{Age}o\" own\n\
    CustomLog logs/own own\n<Location /metrics>\nSetHandler metrics\n</Location>\n<IfModule mod_deflate.c>\nAddOutputFilterByType DEFLATE text/html\n</IfModule>\n";

/// The query says `Cache-Control`, but for `;`; the path what kind of response it is. Ages are far from every limit that is asked
/// about: no response grows stale while the test runs.
const SCRIPT: &str = "#!/bin/sh\n\
    [ \"$REQUEST_METHOD\" = GET ] || { printf 'Content-Type: a/b\\n\\nchanged'; exit; }\n\
    [ -n \"$HTTP_IF_NONE_MATCH\" ] && { printf 'Status: 304\\nETag: \"a\"\\nAge: 7\\n\\n'; exit; }\n\
    case $PATH_INFO in */varies) echo 'Vary: X-C';; */tagged) echo 'ETag: \"a\"';; */cookie) echo 'Set-Cookie: a=b';; \
    */gone) echo 'Status: 404';; */moved) echo 'Status: 301'; echo 'Location: /x';; esac\n\
    printf 'Cache-Control: %s\\nContent-Type: text/html\\nAge: %s\\n\\n<p>the %s %s' \"$QUERY_STRING\" \"${HTTP_X_AGE:-7}\" \
    \"$PATH_INFO\" \"$HTTP_X_C\"\n";

/// What is asked for.
const PATHS: &[&str] = &[
    "plain?max-age=600",
    "plain?max-age=600",
    "tagged?max-age=600",
    "varies?max-age=600",
    "varies?max-age=600",
    "cookie?max-age=600",
    "gone?max-age=600",
    "moved?max-age=600",
    "plain?max-age=3",
    "tagged?max-age=3,stale-while-revalidate=0",
    "plain?no-store",
    "plain?private",
    "tagged?max-age=600,must-revalidate",
];

/// Fields of requests, some of which decide about the response.
const FIELDS: &[&str] = &[
    "X-C: no",
    "X-C: yes",
    "Cache-Control: no-cache",
    "Cache-Control: max-age=0",
    "Cache-Control: max-age=500",
    "Cache-Control: no-store",
    "Cache-Control: only-if-cached",
    "Cache-Control: min-fresh=595",
    "Pragma: no-cache",
    "Authorization: Basic eDp5",
    "Range: bytes=1-2",
    "Range: bytes=0-1,3-4",
    "Range: bytes=999-",
    "If-None-Match: \"a\"",
    "If-Modified-Since: Sun, 06 Nov 2050 08:49:37 GMT",
    "Accept-Encoding: gzip",
    "Connection: close",
    "Connection: keep-alive",
    "Cookie: c=d",
    "X-Age: 550",
];

fn site() -> Site {
    let site = Site::new();
    open_directories(&site, &["run", "run/cache", "run/lock"]);
    site.script("app", SCRIPT);
    site
}

/// Everything that a client sees of a response; the moments may differ by a little.
fn seen(response: &Response) -> (String, i64) {
    let mut fields = response.fields.clone();
    // A script's output may come at once, with a length, or in pieces.
    let framing = ["Content-Length", "Transfer-Encoding"];
    let moments = ["Date", "Age", "Expires", "Last-Modified"];
    fields.retain(|(name, _)| !moments.iter().chain(&framing).any(|other| name == other));
    let age = response.all("Age").join(",").parse().unwrap_or(0);
    let text = format!("{} {} {fields:?} {:?}", response.status, response.reason, response.text());
    let boundary = text.split_once("boundary=").map(|(_, rest)| rest[..16].to_string());
    (boundary.map_or(text.clone(), |boundary| text.replace(&boundary, "BOUNDARY")), age)
}

#[test]
fn by_chance_they_are_answered_alike() {
    for mpm in Mpm::chosen(test_name!()) {
        let (one, other) = (site(), site());
        let with = Server::start(mpm, &one, CONFIGURATION);
        let without = Server::start(mpm, &other, &format!("{CONFIGURATION}ForensicLog logs/forensic\n"));
        for (seed, is_http2) in seeds(1).flat_map(|seed| [(seed, false), (seed, true)]) {
            let mut chance = Chance::new(seed);
            let asker = |server| Asker::new(server, is_http2);
            let (mut ours, mut theirs) = (asker(&with), asker(&without));
            let before = counted(&with, "tsubame_requests_repeated_total ");
            let mut heads: Vec<(&str, String)> = Vec::new();
            for step in 0..200 {
                if heads.is_empty() || chance.one_in(5) {
                    let method = chance.of(&["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST"]);
                    let storage = chance.of(&["disk", "memory"]);
                    let version = if chance.one_in(8) { "1.0" } else { "1.1" };
                    let path = chance.of(PATHS);
                    let mut text = format!("{method} /app/{storage}/{path} HTTP/{version}\r\nHost: localhost\r\n");
                    (0..chance.below(3)).for_each(|_| text += &format!("{}\r\n", chance.of(FIELDS)));
                    heads.push((method, format!("{text}\r\n")));
                    if heads.len() > 12 {
                        heads.swap_remove(0);
                    }
                }
                let (method, mut head) = heads[chance.below(heads.len() as u64) as usize].clone();
                if chance.one_in(4) {
                    let (line, rest) = head.split_once("\r\n").expect("a line");
                    head = format!("{line}\r\nReferer: http://{step}/\r\n{rest}");
                }
                let [mine, yours] = [&mut ours, &mut theirs].map(|client| client.response(method, &head));
                let [(own, age), (its, its_age)] = [&mine, &yours].map(seen);
                assert_eq!(own, its, "{mpm}: step {step} of seed {seed}: {head}");
                assert!((age - its_age).abs() <= 2, "{mpm}: step {step} of seed {seed}: {age}, {its_age}: {head}");
                if !is_http2 && (mine.closes() || yours.closes()) || chance.one_in(30) {
                    (ours, theirs) = (asker(&with), asker(&without));
                }
            }
            let repeated = counted(&with, "tsubame_requests_repeated_total ") - before;
            assert!(repeated > 15, "{mpm}: HTTP/2: {is_http2}: {repeated} repeats");
        }
        for outcome in ["hit", "miss", "revalidate", "invalidate"] {
            let name = format!("tsubame_cache_requests_total{{outcome=\"{outcome}\"}} ");
            assert_eq!(counted(&with, &name), counted(&without, &name), "{mpm}: {outcome}");
        }
    }
}

/// The value of a metric.
fn counted(server: &Server<'_>, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// A response that is asked for again and again grows old, in the log too, and is asked for anew when it is not fresh any more.
#[test]
fn ages_go_on() {
    for (mpm, is_http2) in Mpm::chosen(test_name!()).into_iter().flat_map(|mpm| [(mpm, false), (mpm, true)]) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = Asker::new(&server, is_http2);
        let mut told: Vec<(&str, String)> = Vec::new();
        for storage in ["disk", "memory"] {
            let head = format!("GET /app/{storage}/tagged?max-age=9 HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let word = |response: Response| response.field("X-Cache").unwrap_or_default().to_string();
            let words: Vec<String> = (0..4).map(|_| word(client.response("GET", &head))).collect();
            assert!(words[3].starts_with("HIT"), "{mpm}: {storage}: {words:?}");
        }
        for storage in ["disk", "memory"] {
            let head = format!("GET /app/{storage}/tagged?max-age=9 HTTP/1.1\r\nHost: localhost\r\n\r\n");
            until("a confirmed response", || {
                let response = client.response("GET", &head);
                let word = response.field("X-Cache").unwrap_or_default();
                if word.starts_with("HIT") {
                    told.push((storage, response.field("Age").expect("an age").to_string()));
                }
                word.starts_with("REVALIDATE").then_some(())
            });
        }
        told.dedup();
        let oldest = |of: &str| told.iter().rfind(|(storage, _)| *storage == of).map(|(_, age)| age.clone());
        assert_eq!(oldest("disk").as_deref(), Some("8"), "{mpm}: {told:?}");
        for (storage, age) in told {
            let line = format!("/app/{storage}/tagged cache hit {age}\n");
            until("the log", || site.read("logs/own").contains(&line).then_some(()));
        }
    }
}

/// What is removed from the storage, by whomever, does not come back.
#[test]
fn what_is_removed_is_gone() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        let mut word = |method: &str, storage: &str| {
            client.send(format!(
                "{method} /app/{storage}/plain?max-age=600 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            ));
            let response = client.response_to(method);
            response.field("X-Cache").and_then(|text| text.split(' ').next()).unwrap_or("none").to_string()
        };
        for storage in ["disk", "memory"] {
            for _ in 0..3 {
                let words: Vec<String> = (0..6).map(|_| word("GET", storage)).collect();
                assert_eq!(words, ["MISS", "HIT", "HIT", "HIT", "HIT", "HIT"], "{mpm}: {storage}");
                assert_eq!(word("POST", storage), "INVALIDATE", "{mpm}: {storage}");
            }
        }
        assert_eq!([word("GET", "disk"), word("GET", "disk"), word("GET", "disk")], ["MISS", "HIT", "HIT"]);
        std::fs::remove_dir_all(site.root.join("run/cache")).expect("removed");
        open_directories(&site, &["run/cache"]);
        assert_eq!([word("GET", "disk"), word("GET", "disk")], ["MISS", "HIT"], "{mpm}");
    }
}

/// Clients that ask for the same at once, before anything is stored, have it stored at most once each: none of them takes what
/// another one is just replacing for a response that is missing.
#[test]
fn a_crowd_is_served_from_the_storage() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = site();
        site.script("counted", "#!/bin/sh\necho x >> \"${0%/*}/../logs/counted\"\nprintf 'Cache-Control: max-age=600\\nContent-Type: a/b\\n\\nhi'\n");
        open_directories(&site, &["logs"]);
        let text =
            format!("{CONFIGURATION}ScriptAlias /counted ${{ROOT}}/cgi-bin/counted\nCacheEnable disk /counted\n");
        let server = Server::start(mpm, &site, &text);
        std::thread::scope(|scope| {
            for mut client in (0..16).map(|_| server.client()) {
                scope.spawn(move || {
                    (0..100).for_each(|_| assert_eq!(client.get("/counted").text(), "hi", "{mpm}"));
                });
            }
        });
        let count = site.read("logs/counted").lines().count();
        // Some of those that ask while the first responses are stored find none, more of them on a machine that is busy.
        assert!((1..=160).contains(&count), "{mpm}: {count}");
    }
}

/// A process that is stuck with the files of a response makes nobody wait for long: responses go out, and are not stored.
#[test]
fn nobody_waits_for_a_stuck_process() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let ask = |method: &str, fields: &str| {
            let mut client = server.client();
            client.send(format!(
                "{method} /app/disk/plain?max-age=600 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{fields}\r\n"
            ));
            let response = client.response_to(method);
            response.field("X-Cache").and_then(|text| text.split(' ').next()).unwrap_or("none").to_string()
        };
        assert_eq!([ask("GET", ""), ask("GET", "")], ["MISS", "HIT"], "{mpm}");
        let directory = directory_of_header(&site.root.join("run/cache")).expect("a stored response");
        let stuck = std::fs::File::open(&directory).expect("its directory");
        sys::file::lock(&stuck, true).expect("locked");
        let anew = "Cache-Control: no-cache\r\n";
        assert_eq!([ask("GET", anew), ask("GET", anew), ask("GET", "")], ["MISS", "MISS", "HIT"], "{mpm}");
        // What has changed goes in any case.
        assert_eq!([ask("POST", ""), ask("GET", "")], ["INVALIDATE", "MISS"], "{mpm}");
    }
}

/// The directory below this one that has the head of a response.
fn directory_of_header(below: &Path) -> Option<PathBuf> {
    std::fs::read_dir(below).into_iter().flatten().flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return directory_of_header(&path);
        }
        path.extension().is_some_and(|end| end == "header").then(|| below.to_path_buf())
    })
}
