//! Requests as spans for a collector: `TraceExport`.

use std::time::{Duration, Instant};

use serde_json::Value;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::open_metrics::{Format, parse};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::logs::collector::{Answer, Collector, TAKEN, attribute, spans_of};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn configuration(collector: &Collector, more: &str) -> String {
    format!(
        "TraceContext on\nTraceExport http://{} {more}\nMaxKeepAliveRequests 0\n<Location /metrics>\nSetHandler metrics\n</Location>\n\
         ScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n",
        collector.address
    )
}

fn get(server: &Server<'_>, path: &str, fields: &str) -> u16 {
    server.client().request(format!("GET {path} HTTP/1.1\r\nHost: www.example.org\r\n{fields}\r\n")).status
}

/// How many spans were sent, and how many lost. The question makes no span: its trace is not recorded.
fn counts(server: &Server<'_>) -> [f64; 2] {
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-00");
    let page = server.client().request(format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{parent}\r\n\r\n")).text();
    let families = parse(&page, Format::OpenMetrics);
    ["sent", "lost"].map(|word| {
        let samples = &families["tsubame_trace_spans"].samples;
        samples.iter().find(|one| one.label("outcome") == Some(word)).expect("a line").value
    })
}

/// Asks for so much that neither the pipe nor the exporter has room for all of it.
fn flood(server: &Server<'_>) {
    let request =
        format!("GET /{}/a.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: {}\r\n\r\n", "p/".repeat(500), "u".repeat(1000));
    let mut client = server.client();
    for _ in 0..1500 {
        assert_eq!(client.request(&request).status, 404);
    }
}

under_percore_and! { worker:
    /// Spans have the ids of their traces, and say what happened.
    fn requests_become_spans(mpm: Mpm) {
        let site = Site::with([("a.txt", "0123456789")]);
        site.script("ok", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nok'\n");
        site.script("broken", "#!/bin/sh\nexit 3\n");
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let server = Server::start(mpm, &site, &configuration(&collector, "service=shop"));
        server.announce("End of script output before headers: broken");
        let parent = |flags| format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\r\nUser-Agent: it/1 \"\u{e9}\"\r\n");
        let before = sys::time::realtime().as_nanos();
        assert_eq!(get(&server, "/a.txt?secret=1", &parent("01")), 200);
        assert_eq!(get(&server, "/unrecorded", &parent("00")), 404);
        assert_eq!(get(&server, "/cgi/ok", ""), 200);
        assert_eq!(get(&server, "/cgi/broken", ""), 500);
        let span = |path: &str| until(path, || collector.span(path));
        let (file, script, broken) = (span("/a.txt"), span("/cgi/ok"), span("/cgi/broken"));
        let of = |span: &Value, key: &str| attribute(span, key).unwrap_or_default();

        assert_eq!([&file["traceId"], &file["parentSpanId"], &file["name"]], [TRACE, SPAN, "GET"]);
        assert!(file["spanId"].as_str().is_some_and(|id| id.len() == 16 && id != SPAN), "{file}");
        let time = |name: &str| file[name].as_str().and_then(|text| text.parse::<u128>().ok()).expect("a time");
        let (begin, end) = (time("startTimeUnixNano"), time("endTimeUnixNano"));
        let earliest = before - Duration::from_secs(1).as_nanos();
        assert!(earliest < begin && begin < end && end < sys::time::realtime().as_nanos(), "{file}");
        assert_eq!(file["kind"], 2);
        let port = server.address().port().to_string();
        for (key, expected) in [
            ("http.request.method", "GET"),
            ("url.path", "/a.txt"),
            ("url.scheme", "http"),
            ("http.response.status_code", "200"),
            ("http.response.body.size", "10"),
            ("server.address", "www.example.org"),
            ("server.port", &port),
            ("network.protocol.version", "1.1"),
            ("user_agent.original", "it/1 \"\u{e9}\""),
        ] {
            assert_eq!(of(&file, key), expected, "{key}");
        }
        assert!(of(&file, "client.address").starts_with("127."), "{file}");
        assert!(!file.to_string().contains("secret"), "queries stay here");

        assert_eq!(script["name"], "GET cgi-script");
        assert!(script.get("parentSpanId").is_none() && script.get("status").is_none(), "{script}");
        assert!(!of(&script, "tsubame.script.started").is_empty(), "{script}");
        assert_eq!((of(&broken, "error.type").as_str(), &broken["status"]["code"]), ("500", &2.into()));
        assert_ne!(script["traceId"], broken["traceId"]);
        assert!(collector.span("/unrecorded").is_none());

        let resource = &collector.requests()[0]["resourceSpans"][0]["resource"];
        assert_eq!(of(resource, "service.name"), "shop");
        assert!(!of(resource, "host.name").is_empty() && !of(resource, "service.version").is_empty());
        until("three spans are counted", || (counts(&server)[0] >= 3.0 && counts(&server)[1] == 0.0).then_some(()));
    }
}

/// Behind an internal redirect it is still the client's request, and a server behind this one is known.
#[test]
fn the_span_is_that_of_the_client_s_request() {
    let site = Site::with([("sub/index.html", "index")]);
    let collector = Collector::start(site.ip.into(), &[TAKEN]);
    let more =
        format!("ErrorDocument 404 /sub/index.html\nProxyPass /via/ http://{}/ disablereuse=on\n", site.address());
    let server = Server::start(Mpm::Percore, &site, &(configuration(&collector, "") + &more));
    let post = "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(server.client().request(post).status, 404);
    assert_eq!(get(&server, "/via/sub/index.html", ""), 200);
    let missing = until("the first", || collector.span("/none"));
    let status = attribute(&missing, "http.response.status_code");
    assert_eq!((missing["name"].as_str(), status.as_deref()), (Some("POST"), Some("404")));
    let (before, behind) =
        until("both", || Some((collector.span("/via/sub/index.html")?, collector.span("/sub/index.html")?)));
    assert_eq!(before["name"], "GET proxy-server");
    let asked = collector.spans().into_iter().find(|span| span["spanId"] == behind["parentSpanId"]).expect("a child");
    assert_eq!((&asked["parentSpanId"], &behind["traceId"]), (&before["spanId"], &before["traceId"]));
    assert!(attribute(&before, "tsubame.upstream.first_byte").is_some(), "{before}");
}

/// New traces are recorded as the share says, and the server behind this one hears of it.
#[test]
fn a_share_of_new_traces_is_recorded() {
    for (share, range) in [("0%", 0..=0), ("50%", 20..=180), ("100%", 200..=200)] {
        let site = Site::with([("a.txt", "x")]);
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let mut server = Server::start(Mpm::Percore, &site, &configuration(&collector, &format!("sample={share}")));
        let mut client = server.client();
        for _ in 0..200 {
            assert_eq!(client.request("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        }
        drop(client);
        server.signal(Signal::TERM);
        assert!(server.ends().success());
        assert!(range.contains(&collector.spans().len()), "{share}: {}", collector.spans().len());
    }
}

under_percore_and! { event:
    /// Nobody waits for a collector that is away, and when it is back, spans arrive.
    fn a_collector_may_be_away(mpm: Mpm) {
        let site = Site::with([("a.txt", "x")]);
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let server = Server::start(mpm, &site, &configuration(&collector, ""));
        server.announce("does not take spans, and some may be lost: (111)Connection refused");
        server.allow("takes spans again");
        let address = collector.address;
        drop(collector);
        flood(&server);
        until("spans are lost", || (counts(&server)[1] > 0.0).then_some(()));
        assert_eq!(get(&server, "/a.txt", ""), 200);
        let collector = Collector::start_at(address, &[TAKEN]);
        let asked = || get(&server, "/back", "");
        until("a new span", || (asked() == 404 && collector.span("/back").is_some()).then_some(()));
        server.logged("takes spans again");
    }
}

under_percore_and! { prefork:
    /// Nobody waits for a collector that does not answer; a stop waits a moment at most.
    fn a_collector_may_be_silent(mpm: Mpm) {
        let site = Site::with([("a.txt", "x")]);
        let collector = Collector::start(site.ip.into(), &[Answer::Nothing]);
        let mut server = Server::start(mpm, &site, &configuration(&collector, ""));
        server.allow("does not take spans");
        assert_eq!(get(&server, "/a.txt", ""), 200);
        until("a request", || (!collector.requests().is_empty()).then_some(()));
        flood(&server);
        until("spans are lost", || (counts(&server)[1] > 0.0).then_some(()));
        let begun = Instant::now();
        assert_eq!(get(&server, "/a.txt", ""), 200);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let begun = Instant::now();
        server.signal(Signal::WINCH);
        assert!(server.ends().success());
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

/// A collector that is full is asked again when it says; what it refuses is lost.
#[test]
fn a_collector_may_refuse() {
    const LATER: Answer = Answer::With("HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    const NEVER: Answer = Answer::With("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
    const PARTLY: Answer = Answer::With(
        "HTTP/1.1 200 OK\r\nContent-Length: 66\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"too old\"} }\n",
    );
    let site = Site::with([("a.txt", "x")]);
    let collector = Collector::start(site.ip.into(), &[LATER, TAKEN, NEVER, PARTLY, TAKEN]);
    let server = Server::start(Mpm::Event, &site, &configuration(&collector, ""));
    server.announce("does not take spans, and some may be lost: it answers with status 429");
    server.announce("does not take spans, and some may be lost: it answers with status 400");
    server.allow("takes spans again");
    let after = |path: &str, expected: [f64; 2]| {
        assert_eq!(get(&server, path, ""), 404);
        until(path, || (counts(&server) == expected).then_some(()));
    };
    after("/later", [1.0, 0.0]);
    let [first, second, ..] = &collector.requests()[..] else { panic!("it is sent again") };
    assert_eq!(spans_of(first), spans_of(second));
    after("/never", [1.0, 1.0]);
    after("/partly", [1.0, 2.0]);
    after("/taken", [2.0, 2.0]);
}

under_percore_and! { prefork:
    /// What is left is sent at the end, and restarts lose nothing.
    fn the_end_sends_what_is_left(mpm: Mpm) {
        let site = Site::with([("a.txt", "x")]);
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let mut server = Server::start(mpm, &site, &configuration(&collector, ""));
        for (path, signal) in [("/graceful", Signal::USR1), ("/hard", Signal::HUP)] {
            assert_eq!(get(&server, path, ""), 404);
            server.restart(signal);
            until(path, || collector.span(path));
        }
        assert_eq!(get(&server, "/last", ""), 404);
        server.signal(Signal::WINCH);
        assert!(server.ends().success());
        assert!(collector.span("/last").is_some(), "{:?}", collector.spans());
    }
}

/// Another one takes the place of an exporter that dies.
#[test]
fn an_exporter_may_die() {
    let site = Site::with([("a.txt", "x")]);
    let collector = Collector::start(site.ip.into(), &[TAKEN]);
    let server = Server::start(Mpm::Percore, &site, &configuration(&collector, ""));
    server.announce("traces daemon process died");
    let exporter = || {
        let is_it = |process: &i32| crate::harness::server::title(*process).contains(": traces daemon");
        server.children().into_iter().find(is_it).and_then(sys::process::Pid::new)
    };
    until("the exporter", exporter).kill(Signal::KILL).expect("killed");
    assert_eq!(get(&server, "/after", ""), 404);
    until("its span", || collector.span("/after"));
}

/// Without the line there is no process for spans, and no count of them.
#[test]
fn without_the_line_there_is_nothing() {
    let site = Site::with([("a.txt", "x")]);
    let server =
        Server::start(Mpm::Percore, &site, "TraceContext on\n<Location /metrics>\nSetHandler metrics\n</Location>\n");
    assert_eq!(get(&server, "/a.txt", ""), 200);
    assert!(!server.get("/metrics").text().contains("trace_spans"));
    let titles = server.children().into_iter().map(crate::harness::server::title);
    assert!(titles.into_iter().all(|title| !title.contains("traces")));
}

/// A line that exports nothing is worth a warning.
#[test]
fn nothing_to_export_is_worth_a_warning() {
    let site = Site::with([("a.txt", "x")]);
    let server = Server::start(Mpm::Percore, &site, "TraceExport http://127.0.0.1:4318\n");
    let warning = "TraceExport: there are no traces, since TraceContext is off for all virtual hosts";
    server.allow(warning);
    assert!(site.read("logs/stderr").contains(warning), "{}", site.read("logs/stderr"));
    assert_eq!(get(&server, "/a.txt", ""), 200);
}
