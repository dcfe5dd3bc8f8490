//! Responses in caches of objects: in shared memory, in Redis, in memcached, in files.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::{open_directories, word};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::object_servers::{MEMCACHED_PORT, ObjectServer, REDIS_PORT};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response, get};

const CONFIGURATION: &str = "CacheEnable socache /\nCacheHeader On\nCacheKeyBaseURL http://k.example\n\
    Header set Cache-Control max-age=600\nHeader set Vary X-V env=vary\nSetEnvIf Request_URI /v vary\n";

fn with(cache: &str) -> String {
    format!("{CONFIGURATION}CacheSocache {cache}\n")
}

fn redis(site: &Site) -> String {
    format!("redis:{}:{REDIS_PORT}", site.address().ip())
}

/// The answer to a request with another method or a field.
fn ask(server: &Server<'_>, method: &str, path: &str, field: &str) -> Response {
    let mut client = server.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n"));
    client.response_to(method)
}

/// What every kind of cache has to do.
fn check(mpm: Mpm, site: &Site, cache: &str) {
    let large = "x".repeat(150_000);
    let whole: String = "0123456789\r\n$5\r\nEND\r\n".chars().cycle().take(90_000).collect();
    for (name, text) in [("a", "the page\n"), ("v", "varies"), ("empty", ""), ("whole", &whole), ("large", &large)] {
        site.page(name, text);
    }
    let server = Server::start(mpm, site, &with(cache));
    let words = |requests: &[(&str, &str)]| -> Vec<String> {
        let one = |(path, field): &(&str, &str)| word(&ask(&server, "GET", path, field)).to_string();
        requests.iter().map(one).collect()
    };
    for path in ["/a", "/empty", "/whole"] {
        let (first, second) = (server.get(path), server.get(path));
        assert_eq!([word(&first), word(&second)], ["MISS", "HIT"], "{mpm}: {cache}: {path}");
        assert_eq!(first.body, second.body, "{mpm}: {cache}: {path}");
        assert_eq!(first.field("ETag"), second.field("ETag"));
    }
    assert_eq!(words(&[("/large", ""), ("/large", "")]), ["MISS", "MISS"], "{mpm}: {cache}");
    let part = ask(&server, "GET", "/whole", "Range: bytes=10-12\r\n");
    assert_eq!((part.status, word(&part), part.text().as_str()), (206, "HIT", "\r\n$"), "{mpm}: {cache}");
    assert_eq!(word(&ask(&server, "HEAD", "/a", "")), "HIT", "{mpm}: {cache}");
    // Another value, another response.
    let (one, other) = (("/v", "X-V: one\r\n"), ("/v", "X-V: other\r\n"));
    assert_eq!(words(&[one, other, one, other]), ["MISS", "MISS", "HIT", "HIT"], "{mpm}: {cache}");
    // None of the variants comes back once the next one is stored.
    assert_eq!(ask(&server, "PUT", "/v", "").status, 405);
    assert_eq!(ask(&server, "OPTIONS", "/v", "").status, 200);
    assert_eq!(words(&[one, other]), ["HIT", "HIT"], "{mpm}: {cache}");
    // The origin confirms what is there, and changes it.
    let fresh = ("/a", "Cache-Control: max-age=0\r\n");
    assert_eq!(words(&[fresh, ("/a", "")]), ["REVALIDATE", "HIT"], "{mpm}: {cache}");
    site.page("a", "another page\n");
    let (changed, stored) = (ask(&server, "GET", "/a", fresh.1), server.get("/a"));
    assert_eq!((word(&changed), changed.text().as_str()), ("MISS", "another page\n"), "{mpm}: {cache}");
    assert_eq!((word(&stored), stored.text().as_str()), ("HIT", "another page\n"), "{mpm}: {cache}");
}

#[test]
fn responses_in_shared_memory() {
    for mpm in Mpm::chosen(test_name!()) {
        check(mpm, &Site::new(), "shmcb:x(1000000)");
    }
}

#[test]
fn responses_in_redis() {
    if needs::REDIS.is_there("responses_in_redis") {
        for mpm in Mpm::chosen(test_name!()) {
            let site = Site::new();
            let _redis = ObjectServer::redis(&site);
            check(mpm, &site, &redis(&site));
        }
    }
}

#[test]
fn responses_in_memcached() {
    if needs::MEMCACHED.is_there("responses_in_memcached") {
        for mpm in Mpm::chosen(test_name!()) {
            let site = Site::new();
            let _memcached = ObjectServer::memcached(&site);
            check(mpm, &site, &format!("memcache:{}:{MEMCACHED_PORT}", site.address().ip()));
        }
    }
}

#[test]
fn responses_in_files_of_objects() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        open_directories(&site, &["run"]);
        check(mpm, &site, "dbm:run/responses");
        assert!(site.root.join("run/responses.objects").is_dir());
    }
}

/// A `POST` that succeeds makes all variants invalid; those of before stay invalid when there are new ones.
#[test]
fn invalid_variants_never_come_back() {
    let site = Site::new();
    site.script("v", "#!/bin/sh\nprintf 'Content-Type: a/b\\nVary: X-V\\nCache-Control: max-age=600\\n\\n%s' $$\n");
    let scripts = "ScriptAlias /c/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, &format!("{}{scripts}", with("shmcb")));
    let words = |values: &[&str]| -> Vec<String> {
        values
            .iter()
            .map(|value| word(&ask(&server, "GET", "/c/v", &format!("X-V: {value}\r\n"))).to_string())
            .collect()
    };
    assert_eq!(words(&["a", "b", "a", "b"]), ["MISS", "MISS", "HIT", "HIT"]);
    assert_eq!(word(&ask(&server, "POST", "/c/v", "Content-Length: 0\r\n")), "INVALIDATE");
    assert_eq!(words(&["a", "b", "a", "b"]), ["MISS", "MISS", "HIT", "HIT"]);
}

#[test]
fn objects_are_shared_with_apache() {
    const NAME: &str = "objects_are_shared_with_apache";
    if !oracle::is_there(NAME) || !needs::REDIS.is_there(NAME) {
        return;
    }
    let site = Site::with([("a.txt", "a"), ("v.txt", "v"), ("b.txt", "b"), ("vb.txt", "vb"), ("h.txt", "h")]);
    let _redis = ObjectServer::redis(&site);
    let configuration = format!("{}FileETag None\n", with(&redis(&site)));
    let words = |paths: &[&str]| -> Vec<String> {
        let ask = |path: &&str| word(&Client::connect(site.address()).get(path)).to_string();
        paths.iter().map(ask).collect()
    };
    let head = || {
        let mut client = Client::connect(site.address());
        client.send("HEAD /h.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        word(&client.response_to("HEAD")).to_string()
    };
    {
        let _apache = Apache::start(&site, &configuration);
        assert_eq!((words(&["/a.txt", "/v.txt"]), head().as_str()), (vec!["MISS".into(), "MISS".into()], "MISS"));
    }
    {
        let server = Server::start(Mpm::Event, &site, &configuration);
        assert_eq!(words(&["/a.txt", "/v.txt", "/b.txt", "/vb.txt"]), ["HIT", "HIT", "MISS", "MISS"]);
        assert_eq!((server.get("/v.txt").text(), head()), ("v".into(), "HIT".into()));
    }
    {
        let _apache = Apache::start(&site, &configuration);
        assert_eq!(words(&["/b.txt", "/vb.txt", "/a.txt", "/v.txt"]), ["HIT"; 4]);
        assert_eq!(Client::connect(site.address()).get("/vb.txt").text(), "vb");
    }
}

/// A server that is killed only makes responses slower; the log says so once in a while, and a new one is used.
#[test]
fn a_server_that_is_killed_only_costs_time() {
    if !needs::REDIS.is_there("a_server_that_is_killed_only_costs_time") {
        return;
    }
    let site = Site::with([("a", "the page")]);
    let running = ObjectServer::redis(&site);
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, &with(&redis(&site)));
    server.announce("the shared object cache is out of reach");
    server.allow("a response cannot be stored");
    let ask = || {
        let response = server.get("/a");
        assert_eq!((response.status, response.text().as_str()), (200, "the page"));
        word(&response).to_string()
    };
    assert_eq!([ask(), ask()], ["MISS", "HIT"]);
    drop(running);
    assert!((0..10).all(|_| ask() == "MISS"));
    // Each process says so.
    assert!(server.log().matches("out of reach").count() < 10);
    let _running = ObjectServer::redis(&site);
    until("the new server is used", || (ask() == "HIT").then_some(()));
}

/// Replies that no Redis sends, whatever they are about.
const HOSTILE: [&[u8]; 12] = [
    b"",
    b"\r\n",
    b"$5\r\nab",
    b"$99999999999999999999\r\nx",
    b"$-7\r\n",
    b"$4294967295\r\nx",
    b"$2\r\nabcdef\r\n",
    b"*1000000000\r\n*1000000000\r\n",
    b"-ERR \x1b[31m \xff\r\n",
    b":1\r\n:1\r\n:1\r\n",
    b"+OK\r\n$-1\r\n",
    b"$12\r\n\x02\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\r\n",
];

#[test]
fn a_hostile_server_only_costs_time() {
    let site = Site::with([("a", "the page")]);
    let listener = TcpListener::bind((site.address().ip(), REDIS_PORT)).expect("a port");
    // It ends with the process of the tests.
    std::thread::spawn(move || {
        // The last one has no end.
        for number in (0..=HOSTILE.len()).cycle() {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = stream.read(&mut [0; 4096]);
            match HOSTILE.get(number) {
                Some(bytes) => drop(stream.write_all(bytes)),
                None => while stream.write_all(&[b'x'; 65536]).is_ok() {},
            }
        }
    });
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, &with(&redis(&site)));
    server.allow("the shared object cache is out of reach");
    server.allow("a response cannot be stored");
    let children = server.children();
    for _ in 0..60 {
        let response = server.get("/a");
        assert_eq!((response.status, response.text().as_str()), (200, "the page"));
    }
    assert_eq!(server.children(), children);
}

/// Where nothing says which cache, nothing is stored, and nothing breaks.
#[test]
fn a_storage_without_a_cache_stores_nothing() {
    let site = Site::with([("a", "the page")]);
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, CONFIGURATION);
    server.announce("Cannot cache responses without a CacheSocache specified.");
    let mut client = server.client();
    client.send(get("/a"));
    assert_eq!(word(&client.response()), "MISS");
    assert_eq!(word(&server.get("/a")), "MISS");
}

/// What others may write to would be taken for objects of the server's own.
#[test]
fn a_directory_of_others_is_refused() {
    let site = Site::new();
    open_directories(&site, &["run/x.objects"]);
    site.configure(Mpm::Event, &with("dbm:run/x"));
    let output = crate::harness::server::Start::new(&site, Mpm::Event).command().output().expect("run");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stderr), site.read("logs/error_log"));
    assert!(!output.status.success() && said.contains("nobody else may write to"), "{said}");
}
