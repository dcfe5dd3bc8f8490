//! `SetHandler metrics`: text that a strict reader takes, numbers that are true.

use std::collections::BTreeMap;

use sys::signal::Signal;

use crate::mpm::{Mpm, under_every_mpm};
use crate::open_metrics::{Family, Format, parse};
use crate::server::Server;
use crate::site::Site;
use crate::wait::until;
use crate::wire::{Client, Response};

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n\
    </Directory>\n<Location /metrics>\nSetHandler metrics\n</Location>\nRedirect /gone-to http://elsewhere.example/\n";

fn ask(server: &Server<'_>, accept: &str) -> Response {
    server.client().request(format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}Connection: close\r\n\r\n"))
}

fn families(server: &Server<'_>) -> BTreeMap<String, Family> {
    parse(&ask(server, "").text(), Format::OpenMetrics)
}

/// The value of the line with this label, or of the only line.
fn value(families: &BTreeMap<String, Family>, name: &str, label: Option<(&str, &str)>) -> f64 {
    let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
    let of = |one: &&crate::open_metrics::Sample| label.is_none_or(|(name, value)| one.label(name) == Some(value));
    let found: Vec<f64> = family.samples.iter().filter(of).map(|one| one.value).collect();
    assert_eq!(found.len(), 1, "{name} {label:?}: {family:?}");
    found[0]
}

under_every_mpm! {
    /// The metrics equal the work done; a graceful restart keeps them, an ordinary one resets them.
    fn what_is_told_is_what_was_done(mpm: Mpm) {
        let site = Site::with([("a.txt", "0123456789")]);
        site.page("large", vec![b'x'; 1_000_000]);
        site.script("slow", "#!/bin/sh\nsleep 0.3\nprintf 'Content-Type: text/plain\\n\\nok'\n");
        site.script("broken", "#!/bin/sh\nexit 3\n");
        let mut server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("server seems busy");
        server.announce("End of script output before headers: broken");
        let statuses = ["/a.txt", "/a.txt", "/large", "/none", "/gone-to", "/cgi/slow", "/cgi/broken"].map(|path| {
            let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            server.client().request(text).status
        });
        assert_eq!(statuses, [200, 200, 200, 404, 302, 200, 500]);
        // A child may count a request after its client has the answer.
        let told = until("seven requests and some that ask", || {
            let told = families(&server);
            let counted = ["3xx", "4xx", "5xx"].map(|class| value(&told, "tsubame_responses", Some(("class", class))));
            let runs = value(&told, "tsubame_script_runs", None);
            (counted == [1.0; 3] && runs == 2.0).then_some(told)
        });
        let one = |name: &str| value(&told, name, None);
        assert!(one("tsubame_requests") >= 7.0);
        assert!((1_000_000.0..1_500_000.0).contains(&one("tsubame_sent_bytes")), "{}", one("tsubame_sent_bytes"));
        assert!((300.0..100_000.0).contains(&one("tsubame_received_bytes")));
        assert_eq!((one("tsubame_script_failures"), one("tsubame_script_refusals")), (1.0, 0.0));
        assert_eq!((one("tsubame_scripts_running"), one("tsubame_scripts_waiting")), (0.0, 0.0));
        assert!(one("tsubame_memory_available_bytes") <= one("tsubame_memory_limit_bytes"));
        assert!(one("tsubame_script_memory_reserved_bytes") <= one("tsubame_script_memory_limit_bytes"));
        let durations = &told["tsubame_request_duration_seconds"].samples;
        let below = |bound: &str| durations.iter().find(|one| one.label("le") == Some(bound)).expect("a bucket").value;
        let all = below("+Inf");
        assert!(below("0.2") <= all - 1.0 && below("50.0") == all && below("0.1") >= 5.0, "{durations:?}");
        assert!(value(&told, "tsubame_workers", Some(("state", "writing"))) >= 1.0);
        assert!(value(&told, "tsubame_children", Some(("life", "running"))) >= 1.0);
        let stages: f64 = told["tsubame_connections"].samples.iter().map(|one| one.value).sum();
        assert!(stages >= 1.0, "{:?}", told["tsubame_connections"]);
        let build = &told["tsubame_build"].samples[0];
        assert_eq!((build.label("mpm"), build.label("version").map(|text| &text[..8])), (Some(mpm.name()), Some("Tsubame/")));

        server.restart(Signal::USR1);
        let after = families(&server);
        assert_eq!(value(&after, "tsubame_restarts", None), 1.0);
        assert_eq!(value(&after, "tsubame_responses", Some(("class", "4xx"))), 1.0);
        assert!(value(&after, "tsubame_requests", None) > one("tsubame_requests"));
        assert_eq!(value(&after, "tsubame_start_time_seconds", None), one("tsubame_start_time_seconds"));
        server.restart(Signal::HUP);
        let after = families(&server);
        assert_eq!(value(&after, "tsubame_responses", Some(("class", "4xx"))), 0.0);
        assert_eq!(value(&after, "tsubame_script_runs", None), 2.0, "the gate stays");
    }
}

/// The lines do not depend on what is asked of the server.
#[test]
fn strangers_add_no_lines() {
    let site = Site::with([("a.txt", "0123456789")]);
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let names = || -> Vec<(String, Vec<(String, String)>)> {
        let all = families(&server);
        all.into_values().flat_map(|family| family.samples).map(|one| (one.name, one.labels)).collect()
    };
    let before = names();
    for path in ["/cgi/none", "/x\"y\\", "/%0a", "/a.txt?x=1", "*"] {
        let _ = server
            .client()
            .request(format!("GET {path} HTTP/1.1\r\nHost: {path}.example\r\nConnection: close\r\n\r\n"));
    }
    server.allow("");
    assert_eq!(names(), before);
}

#[test]
fn each_gets_the_format_that_it_reads() {
    let site = Site::with([("a.txt", "0123456789")]);
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let new = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2\r\n";
    for accept in ["", "Accept: */*\r\n", new] {
        let answer = ask(&server, accept);
        assert_eq!((answer.field("Content-Type"), answer.field("Vary")), (Some(open), Some("Accept")), "{accept}");
        parse(&answer.text(), Format::OpenMetrics);
    }
    for accept in ["Accept: text/plain\r\n", "Accept: text/plain;version=0.0.4;q=1,*/*;q=0.1\r\n"] {
        let answer = ask(&server, accept);
        assert_eq!(answer.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"), "{accept}");
        let families = parse(&answer.text(), Format::Plain);
        assert!(families.contains_key("tsubame_requests_total") && families.contains_key("tsubame_build_info"));
    }
    let head = server.client().request("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(head.field("Content-Type"), Some(open));
    let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert!(Client::connect(server.address()).request(post).status >= 400);
}
