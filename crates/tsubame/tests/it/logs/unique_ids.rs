//! Request ids: mod_unique_id's, and those of log lines.

use std::collections::BTreeSet;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, Start};
use crate::harness::site::{Site, load_lines};
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

/// How long an id is: the letters of 20 bytes.
pub const LENGTH: usize = 27;

pub fn is_id(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

under_percore_and! { worker:
    /// No id comes twice, whichever children and threads serve the requests, before and after a restart.
    fn no_two_requests_have_the_same_id(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let children = if mpm == Mpm::Percore { "" } else { "StartServers 3" };
        let mut server = Server::start(mpm, &site, &format!("{children}\nCustomLog logs/access %{{UNIQUE_ID}}e"));
        let (address, mut count) = (server.address(), 0);
        for round in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(move || {
                        for _ in 0..4 {
                            let mut client = Client::connect(address);
                            (0..10).for_each(|_| assert_eq!(client.get("/").status, 200));
                        }
                    });
                }
            });
            count += 8 * 4 * 10;
            until("all lines", || (site.read("logs/access").lines().count() == count).then_some(()));
            if round == 0 {
                server.restart(sys::signal::Signal::HUP);
            }
        }
        let log = site.read("logs/access");
        assert!(log.lines().all(is_id), "{log}");
        assert_eq!(log.lines().collect::<BTreeSet<_>>().len(), count);
    }
}

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s' \"$UNIQUE_ID\" \"$REDIRECT_UNIQUE_ID\" \"$REQUEST_URI\"\n";

/// A script gets its request's id, an error document the id of the original request, and log lines show the same.
#[test]
fn an_id_stays_with_its_request() {
    let build = |site: &Site| {
        site.page("a.txt", "a\n");
        site.page("dir/index.html", "index\n");
        site.script("show", SCRIPT);
    };
    let configuration = "LogLevel core:info\nScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\nErrorDocument 404 /cgi-bin/show\n\
        <Directory ${ROOT}/cgi-bin>\nOptions +ExecCGI\nRequire all granted\n</Directory>\n\
        ErrorLogFormat \"id=%L connection=%{c}L %M\"\n\
        CustomLog logs/access \"%{UNIQUE_ID}e %{REDIRECT_UNIQUE_ID}e %L %{x}L %{c}L %{UNIQUE_ID}n %U\"";
    oracle::both("an_id_stays_with_its_request", build, configuration, |site| {
        let lines = || site.read("logs/access").lines().map(str::to_string).collect::<Vec<_>>();
        let mut client = Client::connect(site.address());
        let script = client.get("/cgi-bin/show").text();
        let error = client.get("/none").text();
        assert_eq!(client.get("/dir/").status, 200);
        assert_eq!(client.get("/%zz").status, 400);
        drop(client);
        let lines = until("four lines", || Some(lines()).filter(|lines| lines.len() == 4));
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();

        // Nothing was logged about the first request, nor about its connection until then.
        assert!(is_id(words[0][0]), "{lines:?}");
        assert_eq!(words[0][1..], ["-", "-", "-", "-", "-", "/cgi-bin/show"]);
        assert_eq!(script, format!("{}  /cgi-bin/show", words[0][0]));

        let (id, connection) = (words[1][0], words[1][4]);
        assert!(is_id(id) && id != words[0][0], "{lines:?}");
        assert_eq!(words[1], [id, id, id, id, connection, "-", "/none"]);
        assert_eq!(error, format!("{id} {id} /none"));
        assert_eq!(connection.len(), 11, "{connection}");
        let log = site.read("logs/error_log");
        let said = format!("id={id} connection={connection} AH00128: File does not exist");
        assert!(log.contains(&said), "no {said:?} in:\n{log}");

        // From then on the connection's lines have an id, which the next request also shows.
        assert!(is_id(words[2][0]), "{lines:?}");
        assert_eq!(words[2][1..5], ["-", "-", "-", connection]);

        // The error log speaks of the last one before there is a variable.
        assert!(is_id(words[3][2]), "{lines:?}");
        assert!(log.contains(&format!("id={} connection={connection} AH10244", words[3][2])), "{log}");
    });
}

/// Without mod_unique_id a request has an id if the error log speaks of it, whatever the form of its lines.
#[test]
fn ids_of_log_lines_need_no_module() {
    let configuration = "LogLevel core:info\nErrorLogFormat \"%L %M\"\n\
        SetEnvIfExpr \"'%{REQUEST_LOG_ID}|%{CONN_LOG_ID}' =~ /(.*)/\" seen=$1\n\
        <Directory ${DOCS}/secret>\n<Files index.html>\nRequire all denied\n</Files>\n</Directory>\n\
        CustomLog logs/access \"%L %{c}L %{seen}e %>s\"";
    let build = |site: &Site| {
        site.page("a.txt", "0123456789");
        site.page("secret/index.html", "secret\n");
    };
    let check = |site: &Site| {
        let mut client = Client::connect(site.address());
        // Several ranges, which make a boundary, say nothing in the error log.
        let ranges = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1,4-5\r\n\r\n";
        for request in [get("/a.txt"), get("/none"), get("/a.txt"), ranges.to_string(), get("/secret/")] {
            client.request(request);
        }
        drop(client);
        let log = until("five lines", || {
            let log = site.read("logs/access");
            (log.lines().count() == 5).then_some(log)
        });
        let words: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
        let (id, connection, denied) = (words[1][0], words[1][1], words[4][0]);
        for id in [id, connection, denied] {
            assert_eq!(id.len(), 11, "{log}");
        }
        assert!(id != connection && id != denied, "{log}");
        let shape = log.replace(id, "ID").replace(connection, "CONNECTION").replace(denied, "DENIED");
        assert_eq!(
            shape,
            "- - | 200\nID CONNECTION | 404\n- CONNECTION |CONNECTION 200\n- CONNECTION |CONNECTION 206\n\
             DENIED CONNECTION |CONNECTION 403\n"
        );
        let errors = site.read("logs/error_log");
        // Messages from the search for an index carry the request's id, too.
        for said in [format!("{id} AH00128"), format!("{denied} AH01630")] {
            assert!(errors.contains(&said), "no {said:?} in:\n{errors}");
        }
    };
    let without = |lines: String| -> String {
        lines.lines().filter(|line| !line.contains("unique_id")).map(|line| format!("{line}\n")).collect()
    };
    let site = Site::new();
    build(&site);
    site.configure_with(&without(load_lines(Mpm::Percore)), configuration);
    let ours = Start::new(&site, Mpm::Percore).run();
    ours.allow_everything("the test itself checks the log");
    check(&site);
    drop(ours);
    if oracle::is_there("ids_of_log_lines_need_no_module") {
        let site = Site::new();
        build(&site);
        let _theirs = Apache::start_with(&site, &without(oracle::load_lines()), configuration);
        check(&site);
    }
}
