//! `tsubame cache`: the stored responses, for people.

use std::process::Command;

use super::{open_directories, word};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;

/// What `tsubame cache` says, and whether all was well.
fn said(site: &Site, arguments: &[&str]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    let output =
        command.args(["cache", "-d", site.path(), "-f", "conf/httpd.conf"]).args(arguments).output().expect("run");
    let text = [&output.stdout[..], &output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

#[test]
fn responses_are_listed_removed_and_limited() {
    let site = Site::with([("a", "the page"), ("b", "another"), ("v", "varies"), ("large", &"x".repeat(5000))]);
    open_directories(&site, &["run", "run/cache"]);
    let lines = "CacheRoot ${ROOT}/run/cache\nCacheEnable disk /\nCacheHeader On\nCacheKeyBaseURL http://k.example:80\n\
        Header set Cache-Control max-age=600\nHeader set Vary X-V env=vary\nSetEnvIf Request_URI /v vary\n\
        Header set Cache-Control max-age=0 env=stale\nSetEnvIf Request_URI /b stale\n";
    let server = Server::start(Mpm::Event, &site, lines);
    let get = |path: &str, value: &str| {
        let mut client = server.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-V: {value}\r\n\r\n"));
        word(&client.response()).to_string()
    };
    let requests = [("/a", ""), ("/b", ""), ("/v", "1"), ("/v", "2"), ("/large", "")];
    for (path, value) in requests {
        assert_eq!(get(path, value), "MISS", "{path}");
    }
    let (text, done) = said(&site, &["list", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let all = all.as_array().expect("a list");
    let urls: Vec<&str> = all.iter().map(|one| one["url"].as_str().expect("a URL")).collect();
    let wanted = ["a", "b", "large", "v", "v"].map(|name| format!("http://k.example:80/{name}?"));
    assert!(done && urls == wanted, "{text}");
    let fresh: Vec<bool> = all.iter().map(|one| one["fresh"].as_i64().expect("a number") > 0).collect();
    assert_eq!(fresh, [true, false, true, true, true]);
    assert!(all.iter().all(|one| one["status"] == 200) && all[2]["bytes"].as_u64() > Some(5000), "{text}");
    let (text, _) = said(&site, &["list"]);
    assert!(text.lines().count() == 5 && text.contains("stale          http://k.example:80/b?"), "{text}");
    // All variants; the port and the question mark may be left out.
    assert_eq!(said(&site, &["purge", "http://k.example/v"]), ("removed: 2\n".into(), true));
    assert_eq!(said(&site, &["purge", "http://k.example/v"]), ("removed: 0\n".into(), true));
    assert_eq!([get("/v", "1"), get("/v", "2"), get("/a", "")], ["MISS", "MISS", "HIT"]);
    // What is stale goes first, then the oldest.
    let (text, done) = said(&site, &["clean", "-l", "6000"]);
    assert!(done && text.contains("removed: 2, left: 3"), "{text}");
    assert_eq!([get("/large", ""), get("/v", "1"), get("/a", "")], ["HIT", "HIT", "MISS"]);
    let (text, done) = said(&site, &["clean", "--limit", "0"]);
    assert!(done && text.contains("left: 0 (0 bytes)"), "{text}");
    assert_eq!(std::fs::read_dir(site.root.join("run/cache")).expect("directory").count(), 0);
}
