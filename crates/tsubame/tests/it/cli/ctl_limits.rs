//! Changes that a restart cannot make: `tsubame ctl` warns of them, and shows afterwards what runs.

use sys::signal::Signal;

use crate::cli::ctl::{ctl, json};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::{Site, load_lines};
use crate::harness::wait::until;

fn site() -> Site {
    Site::with([("index.html", "hello\n")])
}

/// `ServerLimit` keeps its value from the first start.
#[test]
fn limits_are_those_of_the_first_start() {
    let site = site();
    let text = |limit| format!("ServerLimit {limit}\nThreadsPerChild 5\nMaxRequestWorkers 10");
    let mut server = Server::start(Mpm::Event, &site, &text(2));
    assert!(ctl(&site, &["status"]).0.contains(", not restarted\n"));
    site.configure(Mpm::Event, &text(9).replace("Workers 10", "Workers 45"));
    let changes = json(&site, &["diff"]);
    let changes = changes["changes"].as_array().expect("changes");
    for change in changes {
        let line = change["line"].as_str().expect("line");
        assert_eq!(change["needs_start"], line.starts_with("ServerLimit"), "{line}");
    }
    assert_eq!(changes.len(), 4);
    assert!(ctl(&site, &["diff"]).0.contains("; needs a stop and a start"));

    for part in ["AH00501: changing ServerLimit to 9 from original value of 2", "AH00516: MaxRequestWorkers of 45"] {
        server.allow(part);
    }
    let (output, _, code) = ctl(&site, &["graceful"]);
    let said = "AH00501: changing ServerLimit to 9 from original value of 2 not allowed during restart";
    assert!(output.contains("a graceful restart begins") && output.contains(said) && code == Some(0), "{output}");
    server.ready();
    assert!(ctl(&site, &["status"]).0.contains(", restarted "));
    let (output, _, _) = ctl(&site, &["explain", "--mpm"]);
    assert!(output.contains("as at the first start: ServerLimit 2"), "{output}");
    let numbers = json(&site, &["explain", "--mpm"]);
    let row = numbers["directives"].as_array().expect("rows").iter().find(|row| row["name"] == "ServerLimit").cloned();
    assert_eq!(row.expect("ServerLimit")["runs"], 2, "{numbers}");
}

/// Each bucket of listening sockets has a child, however few are configured.
#[test]
fn buckets_raise_the_number_of_children() {
    let site = site();
    let text = "ListenCoresBucketsRatio 1\nServerLimit 1\nThreadsPerChild 2\nMaxRequestWorkers 2\nStartServers 1";
    let server = Server::start(Mpm::Event, &site, text);
    let buckets = std::thread::available_parallelism().expect("processors").get();
    server.allow("the server runs");
    let runs = |arguments: &[&str]| {
        let (output, errors, _) = ctl(&site, arguments);
        assert!(output.contains(&format!("{buckets} child")), "{output}{errors}");
    };
    runs(&["explain", "--mpm"]);
    // The process that answered may still be there.
    until("a child for each bucket", || (server.children().len() == buckets).then_some(()));
}

/// Another MPM needs a stop: that is known before the parent is asked. The order of `LoadModule` lines is no difference.
#[test]
fn another_mpm_is_refused() {
    let site = site();
    let lines = load_lines(Mpm::Event);
    site.configure_with(&lines, "");
    let mut server = crate::harness::server::Start::new(&site, Mpm::Event).run();
    let turned: String = lines.lines().rev().map(|line| format!("{line}\n")).collect();
    site.configure_with(&turned, "");
    assert_eq!(json(&site, &["diff"])["same"], true);

    site.configure(Mpm::Worker, "");
    for command in ["graceful", "restart"] {
        let (output, errors, code) = ctl(&site, &[command]);
        assert_eq!((output.as_str(), code), ("", Some(1)));
        assert!(errors.contains("changing mpm_event to mpm_worker needs a stop and a start"), "{errors}");
    }
    let changes = json(&site, &["diff"]);
    let changes = changes["changes"].as_array().expect("changes");
    let lines: Vec<&str> = changes.iter().filter_map(|change| change["line"].as_str()).collect();
    assert_eq!(lines, ["LoadModule mpm_event_module", "LoadModule mpm_worker_module"]);
    assert!(changes.iter().all(|change| change["needs_start"] == true));
    assert_eq!(json(&site, &["status"])["generation"], 0);
    site.configure(Mpm::Event, "");
    server.restart(Signal::USR1);
}
