//! The place of the cache among filters, access control and logs.

use std::time::{Duration, UNIX_EPOCH};

use super::{open_directories, word};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::{Response, get};
use crate::proxy::origin::Origin;

const CACHE: &str = "CacheRoot ${ROOT}/run/cache\nCacheEnable disk /\nCacheHeader On\n";

fn site() -> Site {
    let site = Site::with([("a.html", "<!--#echo var=\"WHO\" -->!"), ("b.txt", "b")]);
    open_directories(&site, &["run", "run/cache"]);
    // An old page is taken to be fresh for a while.
    let page = std::fs::File::options().write(true).open(site.root.join("htdocs/a.html")).expect("page");
    page.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("time");
    site
}

fn ask(server: &Server<'_>, path: &str, fields: &str) -> Response {
    let mut client = server.client();
    client.send(get(path).replace("\r\n\r\n", &format!("\r\n{fields}\r\n\r\n")));
    client.response()
}

/// What stands before the mark is stored, what stands behind it works on every response.
#[test]
fn a_mark_divides_the_filters() {
    const LINES: &str = "CacheQuickHandler Off\nOptions +Includes\nSetEnvIf X-Who (.*) WHO=$1\n\
        <Location />\nSSILastModified On\n</Location>\nCacheIgnoreNoLastMod On\nHeader set X-After %{WHO}e\n";
    for mpm in Mpm::chosen(test_name!()) {
        for (filters, expected, after) in [
            (
                "CACHE;INCLUDES",
                [("MISS", "me!", "me"), ("HIT", "you!", "you"), ("REVALIDATE", "they!", "they")],
                "CACHE;INCLUDES",
            ),
            (
                "INCLUDES;CACHE",
                [("MISS", "me!", "me"), ("HIT", "me!", "you"), ("REVALIDATE", "me!", "they")],
                "INCLUDES;CACHE",
            ),
        ] {
            let site = site();
            let server =
                Server::start(mpm, &site, &format!("{CACHE}{LINES}AddOutputFilterByType {filters} text/html\n"));
            let requests = ["X-Who: me", "X-Who: you", "X-Who: they\r\nCache-Control: max-age=0"];
            for (fields, (outcome, body, field)) in requests.into_iter().zip(expected) {
                let response = ask(&server, "/a.html", fields);
                assert_eq!((word(&response), &*response.text()), (outcome, body), "{mpm}: {after}, {fields}");
                assert_eq!(response.field("X-After"), Some(field), "{mpm}: {after}, {fields}");
            }
        }
    }
}

/// A filter has seen nothing of a page that is not sent, so nobody knows how long it would be.
#[test]
fn filters_leave_no_length_to_head() {
    for filters in ["CACHE;SUBSTITUTE", "SUBSTITUTE;CACHE"] {
        let site = site();
        let origin = Origin::start(site.ip);
        let lines = format!(
            "CacheQuickHandler Off\nProxyPass /app/ http://{}/\nSetOutputFilter {filters}\nSubstitute s/0/00/\n",
            origin.address
        );
        let server = Server::start(Mpm::chosen(test_name!())[0], &site, &format!("{CACHE}{lines}"));
        for outcome in ["MISS", "HIT"] {
            let mut client = server.client();
            client.send("HEAD /app/page HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let response = client.response_to("HEAD");
            assert_eq!((word(&response), response.field("Content-Length")), (outcome, None), "{filters}");
        }
    }
}

/// Before the phases nobody asks who may see what is stored: as in Apache, and only there.
#[test]
fn access_is_checked_only_after_the_phases() {
    const LINES: &str = "SetEnvIf X-Key . may\n<Directory ${DOCS}>\nRequire env may\n</Directory>\nHeader set Cache-Control max-age=60\n";
    for (quick, statuses) in [("On", [403, 200, 200]), ("Off", [403, 200, 403])] {
        let site = site();
        let server =
            Server::start(Mpm::chosen(test_name!())[0], &site, &format!("{CACHE}{LINES}CacheQuickHandler {quick}\n"));
        server.announce("AH01630");
        let asked = ["X-No: 1", "X-Key: 1", "X-No: 1"].map(|fields| ask(&server, "/b.txt", fields).status);
        assert_eq!(asked, statuses, "{quick}");
        assert_eq!(word(&ask(&server, "/b.txt", "X-Key: 1")), "HIT");
    }
}

#[test]
fn logs_tell_what_the_cache_has_done() {
    const LINES: &str = "Header set Cache-Control max-age=60\nLogFormat \"%U %>s %B %{cache-status}e\" c\n\
        CustomLog logs/hits c env=cache-hit\nCustomLog logs/misses c env=cache-miss\n<Location /b.txt/no>\nSetEnv no-cache 1\n</Location>\n";
    let site = site();
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, &format!("{CACHE}{LINES}"));
    let words = [0, 1].map(|_| word(&server.get("/b.txt")).to_string());
    assert_eq!(words, ["MISS", "HIT"]);
    drop(server);
    assert_eq!(site.read_lines("logs/misses"), "/b.txt 200 1 cache miss: attempting entity save\n");
    assert_eq!(site.read_lines("logs/hits"), "/b.txt 200 1 cache hit\n");
}

#[test]
fn the_check_finds_rules_that_are_bypassed() {
    let site = site();
    let lines = "<Directory ${DOCS}/in>\nRequire user me\n</Directory>\n<Location /out>\nRequire all denied\n</Location>\n\
        <Location /x>\nCacheEnable disk\nRequire ip 127.0.0.1\n</Location>\n";
    for (quick, count) in [("On", 2), ("Off", 0)] {
        site.configure(Mpm::Event, &format!("{CACHE}CacheQuickHandler {quick}\n{lines}"));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let output = command.args(["check", "-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let found =
            ["A stored response goes out", "has no effect while the cache"].map(|text| said.matches(text).count());
        assert_eq!(found.iter().sum::<usize>(), count, "{said}");
    }
}
