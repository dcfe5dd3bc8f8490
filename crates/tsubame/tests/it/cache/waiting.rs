//! Requests for the same response at the same time: one asks the origin, the others get what is stored.

use super::{open_directories, word};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

/// A script that waits until it may answer, once there is a file `slow`.
const SCRIPT: &str = "#!/bin/sh\ncd \"${0%/*}/../run\"\n[ -e slow ] && { echo > begun; read x < gate; }\n\
    printf 'Cache-Control: %s\\nETag: \"%s\"\\nContent-Type: a/b\\n\\nrun %s\\n' \"$QUERY_STRING\" $$ $$\n";

/// Lines of the configuration, the response's `Cache-Control`, what a second request gets, and its warning.
const CASES: [(&str, &str, &str, &str); 4] = [
    ("CacheLock On", "max-age=0", "HIT", "110 Response is stale"),
    ("CacheLock On", "max-age=0,must-revalidate", "none", ""),
    ("", "max-age=0,stale-while-revalidate=0", "MISS", ""),
    ("", "max-age=0", "MISS", ""),
];

#[test]
fn one_request_asks_for_all() {
    for mpm in Mpm::chosen(test_name!()) {
        for (lines, control, expected, warning) in CASES {
            let site = Site::new();
            open_directories(&site, &["run", "run/cache"]);
            site.script("c", SCRIPT);
            let configuration = format!(
                "ScriptAlias /c ${{ROOT}}/cgi-bin/c\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n\
                 CacheRoot ${{ROOT}}/run/cache\nCacheEnable disk /\nCacheHeader On\nCacheLockPath ${{ROOT}}/run/locks\n{lines}\n"
            );
            let server = Server::start(mpm, &site, &configuration);
            let path = format!("/c?{control}");
            let first = server.get(&path);
            assert_eq!(word(&first), "MISS", "{mpm}: {control}");
            let gate = site.root.join("run/gate");
            let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&gate).status();
            assert!(made.expect("mkfifo").success());
            site.file("run/slow", "");
            let mut waiting = server.client();
            waiting.send(get(&path));
            until("the script", || site.root.join("run/begun").exists().then_some(()));
            std::fs::remove_file(site.root.join("run/slow")).expect("remove");
            let second = server.get(&path);
            assert_eq!(word(&second), expected, "{mpm}: {lines} {control}");
            assert_eq!(second.field("Warning").unwrap_or_default(), warning, "{mpm}: {lines} {control}");
            assert_eq!(second.body == first.body, expected == "HIT", "{mpm}: {lines} {control}");
            std::fs::write(&gate, "\n").expect("gate");
            let last = waiting.response();
            assert_eq!((last.status, word(&last)), (200, "MISS"), "{mpm}: {lines} {control}");
            assert_eq!(site.root.join("run/locks").exists(), expected != "MISS", "{lines} {control}");
        }
    }
}

/// How the first of several requests for a response ends of which nothing is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Its response is stored.
    Stored,
    /// Its response is not stored.
    Unstorable,
    /// Its client goes.
    Gone,
}

/// So many requests come while the first one waits for the script.
const BEHIND: usize = 3;

fn others_wait(mpm: Mpm, ending: Ending) {
    let site = gated("c", &SCRIPT.replace("cd \"${0%/*}/../run\"\n", "cd \"${0%/*}/../run\"\necho run >> runs\n"));
    let server = start(mpm, &site, "c");
    let gate = site.root.join("run/gate");
    let path = if ending == Ending::Unstorable { "/c?no-store" } else { "/c?max-age=60" };
    let mut first = begin(&site, &server, get(path));
    let mut others: Vec<Client> = (0..BEHIND).map(|_| server.client()).collect();
    others.iter_mut().for_each(|client| client.send(get(path)));
    until("requests that wait", || (server.log().matches("waits for another").count() >= BEHIND).then_some(()));
    assert_eq!(site.read("run/runs").lines().count(), 1, "{mpm}: {ending:?}");
    match ending {
        Ending::Gone => first.reset(),
        Ending::Stored | Ending::Unstorable => {
            std::fs::write(&gate, "\n").expect("gate");
            let response = first.response();
            assert_eq!((response.status, word(&response)), (200, "MISS"), "{mpm}: {ending:?}");
        }
    }
    let responses: Vec<_> = others.iter_mut().map(Client::response).collect();
    let said = |wanted: &str| {
        let of = |response: &&crate::harness::wire::Response| {
            response.field("Cache-Status").unwrap_or_default().contains(wanted)
        };
        responses.iter().filter(of).count()
    };
    assert!(responses.iter().all(|response| response.status == 200), "{mpm}: {ending:?}");
    let runs = site.read("run/runs").lines().count();
    match ending {
        Ending::Stored => assert_eq!((runs, said("fwd=uri-miss; collapsed; ttl=")), (1, BEHIND), "{mpm}"),
        Ending::Unstorable => assert_eq!((runs, said("collapsed=?0")), (1 + BEHIND, BEHIND), "{mpm}"),
        // The next one asks, and the others wait for that.
        Ending::Gone => {
            assert_eq!((runs, said("; stored; collapsed=?0"), said("; collapsed; ttl=")), (2, 1, BEHIND - 1), "{mpm}")
        }
    }
    // What is not stored is not waited for again soon.
    assert_eq!(server.get(path).status, 200);
}

/// A site with a script, and the gate at which that may wait.
fn gated(name: &str, script: &str) -> Site {
    let site = Site::new();
    open_directories(&site, &["run", "run/cache"]);
    site.script(name, script);
    site.file("run/runs", "");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(site.root.join("run/runs"), everybody).expect("mode");
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(site.root.join("run/gate")).status();
    assert!(made.expect("mkfifo").success());
    site
}

/// A server for such a site.
fn start<'a>(mpm: Mpm, site: &'a Site, name: &str) -> Server<'a> {
    let configuration = format!(
        "ScriptAlias /c ${{ROOT}}/cgi-bin/{name}\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n\
         CacheRoot ${{ROOT}}/run/cache\nCacheEnable disk /\nCacheHeader On\nCacheStatusHeader On\nCacheLock On\n\
         CacheLockMaxAge 60\nCacheLockPath ${{ROOT}}/run/locks\nLogLevel cache:debug\n"
    );
    let server = Server::start(mpm, site, &configuration);
    server.allow_everything("what the cache does is logged");
    server
}

/// Sends a request whose script waits at the gate, unlike those after it.
fn begin(site: &Site, server: &Server<'_>, request: impl AsRef<[u8]>) -> Client {
    site.file("run/slow", "");
    let mut client = server.client();
    client.send(request);
    until("the script", || site.root.join("run/begun").exists().then_some(()));
    ["run/slow", "run/begun"].iter().for_each(|name| std::fs::remove_file(site.root.join(name)).expect("remove"));
    client
}

/// Fields that make a request one of its own.
const OWN: [&str; 4] = [
    "Range: bytes=0-1",
    "Authorization: Basic YTpi",
    "If-None-Match: \"x\"",
    "Connection: Upgrade\r\nUpgrade: websocket",
];

fn own_requests_join_no_queue(mpm: Mpm) {
    let site = gated("c", SCRIPT);
    let server = start(mpm, &site, "c");
    let mut first = begin(&site, &server, get("/c?no-store"));
    for field in OWN {
        let text = format!("GET /c?no-store HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n");
        let status = server.client().request(text).status;
        assert!([200, 206].contains(&status), "{mpm}: {field}: {status}");
    }
    let mut client = server.client();
    client.send("HEAD /c?no-store HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200, "{mpm}");
    std::fs::write(site.root.join("run/gate"), "\n").expect("gate");
    assert_eq!(first.response().status, 200, "{mpm}");
    // Nor does anybody wait for them.
    let mut first = begin(&site, &server, "GET /c?max-age=60 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1\r\n\r\n");
    let other = server.get("/c?max-age=60");
    let said = other.field("Cache-Status").unwrap_or_default();
    assert!(said.ends_with("; fwd=uri-miss; stored"), "{mpm}: {said}");
    std::fs::write(site.root.join("run/gate"), "\n").expect("gate");
    assert!([200, 206].contains(&first.response().status), "{mpm}");
    assert!(!server.log().contains("waits for another"), "{mpm}");
}

/// A script that waits in the middle of its response, head included.
const NPH: &str = "#!/bin/sh\ncd \"${0%/*}/../run\"\n\
    printf 'HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\nstart '\n[ -e slow ] && { echo > begun; read x < gate; }\necho end\n";

fn nobody_waits_for_a_connection(mpm: Mpm) {
    let site = gated("nph-c", NPH);
    let server = start(mpm, &site, "nph-c");
    let mut first = begin(&site, &server, get("/c"));
    let mut second = server.client();
    second.send(get("/c"));
    assert!(second.rest().0.ends_with(b"start end\n"), "{mpm}");
    std::fs::write(site.root.join("run/gate"), "\n").expect("gate");
    assert!(first.rest().0.ends_with(b"start end\n"), "{mpm}");
}

/// A script that waits in the middle of its body.
const SLOW_BODY: &str = "#!/bin/sh\ncd \"${0%/*}/../run\"\n\
    printf 'Cache-Control: max-age=60\\nContent-Type: a/b\\n\\nstart '\n[ -e slow ] && { echo > begun; read x < gate; }\necho end\n";

fn nobody_waits_long_for_a_body(mpm: Mpm) {
    let site = gated("c", SLOW_BODY);
    let server = start(mpm, &site, "c");
    let mut first = begin(&site, &server, get("/c"));
    let second = server.get("/c");
    let said = second.field("Cache-Status").unwrap_or_default();
    assert!(said.ends_with("; stored; collapsed=?0"), "{mpm}: {said}");
    std::fs::write(site.root.join("run/gate"), "\n").expect("gate");
    assert_eq!(first.response().text(), second.text(), "{mpm}");
}

crate::harness::mpm::under_percore_and! {
    prefork:

    /// The others get the response to the first one.
    fn what_is_stored_goes_to_all(mpm: Mpm) {
        others_wait(mpm, Ending::Stored);
    }

    /// They are let go as soon as it is known that there will be none.
    fn what_is_not_stored_holds_up_nobody(mpm: Mpm) {
        others_wait(mpm, Ending::Unstorable);
    }

    fn a_client_that_goes_leaves_its_turn(mpm: Mpm) {
        others_wait(mpm, Ending::Gone);
    }

    /// A request whose response others could not use neither waits nor lets others wait.
    fn requests_of_their_own(mpm: Mpm) {
        own_requests_join_no_queue(mpm);
    }

    fn responses_with_a_head_of_their_own(mpm: Mpm) {
        nobody_waits_for_a_connection(mpm);
    }

    fn slow_bodies(mpm: Mpm) {
        nobody_waits_long_for_a_body(mpm);
    }
}
