//! The files of stored responses: those of Apache, complete or not there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{open_directories, word};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

const CONFIGURATION: &str = "CacheRoot ${ROOT}/run/cache\nCacheEnable disk /\nCacheHeader On\nCacheKeyBaseURL http://k.example\n\
    Header set Cache-Control max-age=600\nHeader set Vary X-V env=vary\nSetEnvIf Request_URI /v vary\nFileETag None\n\
    ScriptAlias /c/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

/// The files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("entry").path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

fn cache(site: &Site) -> PathBuf {
    site.root.join("run/cache")
}

#[test]
fn files_are_shared_with_apache() {
    if !oracle::is_there("files_are_shared_with_apache") {
        return;
    }
    let site = Site::with([("a.txt", "a"), ("v.txt", "v"), ("b.txt", "b"), ("vb.txt", "vb")]);
    open_directories(&site, &["run", "run/cache"]);
    let words = |paths: &[&str]| -> Vec<String> {
        let ask = |path: &&str| word(&Client::connect(site.address()).get(path)).to_string();
        paths.iter().map(ask).collect()
    };
    {
        let _apache = Apache::start(&site, CONFIGURATION);
        assert_eq!(words(&["/a.txt", "/v.txt"]), ["MISS", "MISS"]);
    }
    {
        let server = Server::start(Mpm::Event, &site, CONFIGURATION);
        assert_eq!(words(&["/a.txt", "/v.txt", "/b.txt", "/vb.txt"]), ["HIT", "HIT", "MISS", "MISS"]);
        assert_eq!(server.get("/v.txt").text(), "v");
    }
    {
        let _apache = Apache::start(&site, CONFIGURATION);
        assert_eq!(words(&["/b.txt", "/vb.txt", "/a.txt", "/v.txt"]), ["HIT"; 4]);
        assert_eq!(Client::connect(site.address()).get("/vb.txt").text(), "vb");
    }
    let clean = |arguments: &[&str]| {
        let output = Command::new("htcacheclean").args(arguments).arg("-p").arg(cache(&site)).output();
        String::from_utf8(output.expect("htcacheclean").stdout).expect("text")
    };
    let mut listed: Vec<String> = clean(&["-a"]).lines().map(str::to_string).collect();
    listed.sort();
    assert_eq!(listed, ["a", "b", "v", "vb"].map(|name| format!("http://k.example/{name}.txt?")));
    clean(&["-t", "-l1B"]);
    assert_eq!(files(&cache(&site)), Vec::<PathBuf>::new());
}

/// Paths, and the most that is stored in bytes. The first two are sent from memory and from a file, the others in pieces.
const BODIES: [(&str, usize); 5] =
    [("/small", 100), ("/file", 300_000), ("/large", 3_000_000), ("/c/short", 1000), ("/c/long", 1_000_000)];

#[test]
fn bodies_of_all_kinds() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        open_directories(&site, &["run", "run/cache"]);
        for (path, length) in BODIES {
            let text: String =
                (0..).flat_map(|n: u64| format!("{n} ").into_bytes()).take(length).map(char::from).collect();
            match path.strip_prefix("/c/") {
                None => drop(site.page(&path[1..], text)),
                Some(name) => {
                    let body = site.file(format!("{name}.txt"), text);
                    let end = format!("printf 'Content-Type: a/b\\n\\n'; exec cat {}\n", body.display());
                    site.script(name, &format!("#!/bin/sh\n{end}"));
                }
            }
        }
        let more =
            "CacheMaxFileSize 3000000\nCacheReadSize 100000\n<Location /c/short>\nCacheMaxFileSize 999\n</Location>\n";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{more}"));
        for (path, length) in BODIES {
            let first = server.get(path);
            let second = server.get(path);
            assert_eq!((word(&first), first.body.len()), ("MISS", length), "{mpm}: {path}");
            let expected = if path == "/c/short" { "MISS" } else { "HIT" };
            assert_eq!((word(&second), second.body == first.body), (expected, true), "{mpm}: {path}");
            if expected == "HIT" {
                let mut client = server.client();
                client.send(get(path).replace("\r\n\r\n", "\r\nRange: bytes=90-99\r\n\r\n"));
                assert_eq!(client.response().body, first.body[90..100], "{mpm}: {path}");
            }
        }
    }
}

#[test]
fn a_client_that_goes_leaves_nothing() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        open_directories(&site, &["run", "run/cache"]);
        site.script("endless", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n'; exec yes\n");
        let more = "CacheMaxFileSize 1000000000000\n";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{more}"));
        let mut client = server.client();
        client.send(get("/c/endless"));
        until("a file that is being written", || files(&cache(&site)).into_iter().next());
        client.reset();
        until("no file", || files(&cache(&site)).is_empty().then_some(()));
    }
}

#[test]
fn a_removal_of_nothing_touches_nothing() {
    let site = Site::with([("a.txt", "a")]);
    open_directories(&site, &["run", "run/cache"]);
    site.script("ok", "#!/bin/sh\nprintf '\\nok'\n");
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let changed = || std::fs::metadata(cache(&site)).and_then(|meta| meta.modified()).expect("a directory");
    let before = changed();
    let post = "POST /c/ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(word(&server.client().request(post)), "INVALIDATE");
    assert_eq!(changed(), before);
}

#[test]
fn broken_files_are_no_responses() {
    let site = Site::with([("a", "the page")]);
    open_directories(&site, &["run", "run/cache"]);
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, CONFIGURATION);
    // Each child says what it finds first.
    server.allow("AH00706: Cannot read header file");
    server.allow("AH00708: Cannot open data file");
    let ask = || {
        let response = server.get("/a");
        assert_eq!((response.status, response.text()), (200, "the page".into()));
        word(&response).to_string()
    };
    assert_eq!([ask(), ask()], ["MISS", "HIT"]);
    let stored = files(&cache(&site));
    let [data, header] = &stored[..] else { panic!("{stored:?}") };
    for (path, length) in [(header, 0), (header, 60), (header, 121), (data, 3)] {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("file");
        file.set_len(length).expect("length");
        assert_eq!([ask(), ask()], ["MISS", "HIT"], "{} of {length} bytes", path.display());
    }
    // Another body has the name of this one.
    let other = site.file("run/other", "the page");
    std::fs::rename(other, data).expect("rename");
    assert_eq!([ask(), ask()], ["MISS", "HIT"]);
    std::fs::remove_file(data).expect("remove");
    assert_eq!([ask(), ask()], ["MISS", "HIT"]);
}

#[test]
fn a_directory_that_is_gone_only_costs_time() {
    let site = Site::with([("a", "the page")]);
    open_directories(&site, &["run", "run/cache"]);
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, CONFIGURATION);
    server.announce("a response cannot be stored");
    std::fs::remove_dir(cache(&site)).expect("remove");
    for _ in 0..10 {
        let response = server.get("/a");
        assert_eq!((response.status, word(&response)), (200, "MISS"));
    }
    // Each process says so.
    assert!(server.log().matches("cannot be stored").count() < 10);
    open_directories(&site, &["run/cache"]);
    assert_eq!([word(&server.get("/a")), word(&server.get("/a"))], ["MISS", "HIT"]);
}
