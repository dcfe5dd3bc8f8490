//! Limits of clients: `ClientLimit`.

use std::collections::BTreeMap;

use sys::signal::Signal;

use crate::cli::ctl::{ctl, json};
use crate::harness::mpm::{under_every_mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;

/// Rates are so low that nothing is paid for while a test runs.
const LIMITS: &str = "RemoteIPHeader X-From\n\
    <Location /metrics>\nSetHandler metrics\n</Location>\n\
    <Location /each>\nClientLimit 1/h burst=3\n</Location>\n\
    <Location /net>\nClientLimit 1/h burst=3 by=network\n</Location>\n\
    <Location /keys>\nClientLimit 1/h burst=2 by=%{HTTP:X-Key}\n</Location>\n\
    <Location /each/free>\nClientLimit none\n</Location>\n\
    <Location /seen>\nClientLimit 1/h burst=1 only-log\nHeader set X-Limited %{CLIENT_LIMITED}e env=CLIENT_LIMITED\n</Location>\n\
    <Location /secret>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user\n\
    ClientLimit 1/h burst=3 of=failed-logins\nErrorDocument 401 /each/free/page\n</Location>\n\
    <Location /own>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user\nClientLimit 1/h burst=2 by=user\n</Location>\n\
    <Location /any>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nSatisfy Any\nRequire valid-user\nClientLimit 1/h burst=1\n</Location>\n";

fn site() -> Site {
    let site = Site::new();
    for name in ["each", "net", "keys", "seen", "secret", "own", "any", "each/free"] {
        site.page(&format!("{name}/page"), "hello\n");
    }
    site.file("users", "joe:{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=\nann:{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=\n");
    site
}

fn ask(server: &Server<'_>, path: &str, fields: &str) -> Response {
    server.client().request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

fn ask_by(server: &Server<'_>, method: &str, path: &str, fields: &str) -> u16 {
    let mut client = server.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client.response_to(method).status
}

/// The statuses of so many requests, each on its own connection.
fn statuses(server: &Server<'_>, path: &str, fields: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| ask(server, path, fields).status).collect()
}

const WRONG: &str = "Authorization: Basic am9lOndyb25n\r\n";
const JOE: &str = "Authorization: Basic am9lOng=\r\n";
const ANN: &str = "Authorization: Basic YW5uOng=\r\n";

fn allow(server: &Server<'_>) {
    for part in
        ["AH01617: user joe: authentication failure", "AH01618: user joe not found", "reached MaxRequestWorkers"]
    {
        server.allow(part);
    }
}

under_every_mpm! {
    /// Children share what they know of each client, and clients do not share it.
    fn each_client_has_its_own(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, LIMITS);
        allow(&server);
        for from in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
            assert_eq!(statuses(&server, "/each/page", &format!("X-From: {from}\r\n"), 5), [200, 200, 200, 429, 429], "{from}");
        }
        assert_eq!(statuses(&server, "/each/page", "X-From: 2001:db8::2\r\n", 1), [429], "the same /64");
        assert_eq!(statuses(&server, "/each/free/page", "X-From: 192.0.2.1\r\n", 5), [200; 5], "none");
        for (from, expected) in [("198.51.100.1", 200), ("198.51.100.9", 200), ("198.51.100.77", 200), ("198.51.100.5", 429)] {
            assert_eq!(statuses(&server, "/net/page", &format!("X-From: {from}\r\n"), 1), [expected], "{from}");
        }
        assert_eq!(statuses(&server, "/keys/page", "X-Key: one\r\n", 3), [200, 200, 429]);
        assert_eq!(statuses(&server, "/keys/page", "X-Key: two\r\n", 3), [200, 200, 429]);
        assert_eq!(statuses(&server, "/keys/page", "", 4), [200; 4], "without a key there is no limit");

        let refused = ask(&server, "/each/page", "X-From: 192.0.2.1\r\n");
        let seconds: u64 = refused.field("Retry-After").expect("Retry-After").parse().expect("seconds");
        assert!((3500..=3600).contains(&seconds), "{seconds}");
        assert_eq!(refused.field("RateLimit-Policy"), Some("\"client\";q=3;w=10800"));
        assert_eq!(refused.field("RateLimit").map(str::to_string), Some(format!("\"client\";r=0;t={seconds}")));

        let seen: Vec<Option<String>> =
            (0..2).map(|_| ask(&server, "/seen/page", "").field("X-Limited").map(str::to_string)).collect();
        assert_eq!(seen, [None, Some("1/h".into())], "nobody is refused");
    }
}

under_percore_and! { prefork:
    /// Passwords cannot be tried without end, and whoever knows one is let in until then.
    fn failed_log_ins_count(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, LIMITS);
        allow(&server);
        assert_eq!(statuses(&server, "/secret/page", JOE, 5), [200; 5], "who has the password is not limited");
        assert_eq!(statuses(&server, "/secret/page", "", 5), [401; 5], "nor who has not tried one");
        assert_eq!(statuses(&server, "/secret/page", WRONG, 5), [401, 401, 401, 429, 429]);
        assert_eq!(statuses(&server, "/secret/page", JOE, 1), [429], "not even with the right one");
        assert_eq!(statuses(&server, "/secret/page", &format!("X-From: 192.0.2.1\r\n{JOE}"), 1), [200], "others are let in");

        assert_eq!(statuses(&server, "/own/page", JOE, 3), [200, 200, 429]);
        assert_eq!(statuses(&server, "/own/page", ANN, 3), [200, 200, 429]);
        assert_eq!(statuses(&server, "/any/page", JOE, 2), [200, 429], "Satisfy Any lets nobody past");

        let metrics = server.get("/metrics").text();
        let counted = |outcome: &str| {
            let name = format!("tsubame_client_limit_requests_total{{outcome=\"{outcome}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&name)).map(str::to_string)
        };
        assert_eq!([counted("refused"), counted("logged")], [Some("6".into()), Some("0".into())]);
    }
}

under_percore_and! { event:
    /// A response that is remembered does not get past a limit, and explain takes nothing.
    fn repeats_and_explanations(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, LIMITS);
        allow(&server);
        for _ in 0..5 {
            let explained = json(&site, &["explain", "/each/page"]);
            assert_eq!(explained["answer"]["status"], 200, "{explained:#}");
        }
        let mut client = server.client();
        let mut seen: BTreeMap<u16, usize> = BTreeMap::new();
        for _ in 0..20 {
            *seen.entry(client.request("GET /each/page HTTP/1.1\r\nHost: localhost\r\n\r\n").status).or_default() += 1;
        }
        assert_eq!(seen, BTreeMap::from([(200, 3), (429, 17)]));
        let (text, ..) = ctl(&site, &["explain", "/each/page"]);
        assert!(text.contains("ClientLimit 1/h") && text.contains("429"), "{text}");
    }
}

/// Requests that reach a limited page by internal redirects.
const LED: &str = "<Location /limited>\nClientLimit 1/h burst=2\n</Location>\n\
    <Location /start>\nClientLimit 1/h burst=2\n</Location>\n\
    <Directory ${ROOT}/htdocs/files>\n<Files index.html>\nClientLimit 1/h burst=2\n</Files>\n</Directory>\n\
    <Directory ${ROOT}/htdocs/logins>\n<Files index.html>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user\n\
    ClientLimit 1/h burst=2 of=failed-logins\n</Files>\n</Directory>\n\
    <Directory ${ROOT}/htdocs/rewritten>\nRewriteEngine on\nRewriteRule ^ /limited/page [L]\n</Directory>\n\
    <Location /missing>\nErrorDocument 404 /limited/page\n</Location>\n\
    ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\nRemoteIPHeader X-From\n";

under_percore_and! { worker:
    /// No internal redirect leads around a limit, and none makes a request count twice.
    fn redirects_lead_to_limits(mpm: Mpm) {
        let site = site();
        for name in ["limited/page", "files/index.html", "logins/index.html", "rewritten/page", "start/index.html"] {
            site.page(name, "hello\n");
        }
        site.script("local", "#!/bin/sh\necho Location: /limited/page\necho\n");
        let server = Server::start(mpm, &site, LED);
        allow(&server);
        for (from, path, expected) in [
            (1, "/limited/page", [200, 200, 429, 429]),
            (2, "/rewritten/page", [200, 200, 429, 429]),
            (3, "/cgi/local", [200, 200, 429, 429]),
            (4, "/files/", [200, 200, 429, 429]),
            (5, "/start/", [200, 200, 429, 429]),
            (6, "/logins/", [401, 401, 429, 429]),
            // As ever, the first error counts, but its document does not run.
            (7, "/missing/page", [404; 4]),
        ] {
            let fields = format!("X-From: 192.0.2.{from}\r\n{WRONG}");
            assert_eq!(statuses(&server, path, &fields, 4), expected, "{path}");
        }
        let text = |from| ask(&server, "/missing/page", &format!("X-From: 192.0.2.{from}\r\n")).text();
        assert!(text(8) == "hello\n" && text(7) != "hello\n");
    }

    /// A line with another rate is another limit: nobody is refused for what the old one would have made of it.
    fn another_rate_begins_anew(mpm: Mpm) {
        let site = site();
        let lines = |rate: &str| format!("<Location /each>\nClientLimit {rate}\n</Location>\n");
        let mut server = Server::start(mpm, &site, &lines("2/d"));
        assert_eq!(statuses(&server, "/each/page", "", 3), [200, 200, 429]);
        server.restart(Signal::USR1);
        assert_eq!(statuses(&server, "/each/page", "", 1), [429], "a restart forgives nothing");
        site.configure(mpm, &lines("1000/s"));
        server.replace(Signal::USR1);
        assert_eq!(statuses(&server, "/each/page", "", 3), [200; 3]);
    }

    /// Who has got more than a limit of bytes waits until that is paid for, on whatever connection.
    fn bytes_are_counted(mpm: Mpm) {
        let site = site();
        site.page("files/large", [b'x'; 100_000]);
        let server = Server::start(mpm, &site, "<Location /files>\nClientLimit 1K/h burst=250K of=bytes\n</Location>\nRemoteIPHeader X-From\n");
        allow(&server);
        for from in ["192.0.2.1", "192.0.2.2"] {
            // Counted once they have been sent: the client may be faster.
            let fields = format!("X-From: {from}\r\n");
            let seen: Vec<u16> = (0..3).map(|_| {
                let mut client = server.client();
                let status = client.request(format!("GET /files/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n")).status;
                client.expect_end();
                status
            }).collect();
            assert_eq!(seen, [200; 3], "{from}");
            let refused = until("a refusal", || Some(ask(&server, "/files/large", &fields)).filter(|answer| answer.status == 429));
            assert_eq!(refused.field("RateLimit-Policy"), Some("\"client\";q=256000;qu=\"content-bytes\";w=900000"));
            let wait: u64 = refused.field("Retry-After").expect("a time").parse().expect("seconds");
            assert!((40 * 3600..60 * 3600).contains(&wait), "{wait}");
            let again = ask(&server, "/files/large", &fields).field("Retry-After").map(str::to_string);
            assert!(again.is_some_and(|again| again.parse::<u64>().expect("seconds") <= wait), "being refused costs nothing");
        }
        // What is on its way counts already, and what does not arrive is given back.
        let fields = "X-From: 192.0.2.3\r\n";
        let head = |method: &str| ask_by(&server, method, "/files/large", fields);
        assert_eq!([head("HEAD"), head("HEAD"), head("HEAD"), head("HEAD")], [200; 4]);
        assert_eq!(statuses(&server, "/files/large", fields, 3), [200; 3]);
        assert_eq!(statuses(&server, "/files/large", fields, 1), [429], "at once");
        let (text, ..) = ctl(&site, &["explain", "/files/large"]);
        assert!(text.contains("256000 more may come at once") || text.contains("255999 more"), "{text}");
    }

    /// Attempts at the same moment are all paid for, one after the other.
    fn simultaneous_failures_count(mpm: Mpm) {
        let site = site();
        // Each takes its time.
        site.file("users", "slow:$2y$10$WrkxiQFZ1WxbSz4qdXLjUeeEe3eCfvVxQVmBR/5YmRHNeP0iIh.xW\n");
        let server = Server::start(mpm, &site, LIMITS);
        allow(&server);
        server.allow("user slow: authentication failure");
        let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send("GET /secret/page HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic c2xvdzp3cm9uZw==\r\n\r\n");
        }
        let failed = clients.iter_mut().map(|client| client.response().status).filter(|status| *status == 401).count();
        let wait: usize = ask(&server, "/secret/page", JOE).field("Retry-After").expect("refused").parse().expect("seconds");
        assert_eq!(wait.div_ceil(3600), failed - 2, "{wait}");
    }
}
