//! What takes a request's time, as child spans of its span.

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::logs::collector::{Collector, TAKEN, attribute};

/// Says which span it was told to be a part of.
const TELLS: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$HTTP_TRACEPARENT\"\n";

fn configuration(site: &Site, collector: &Collector, more: &str) -> String {
    format!(
        "LoadModule perl_module modules/mod_perl.so\nTraceContext on\nTraceExport http://{}\nAdmissionLimit 1\n\
         ScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\nAlias /perl/ ${{ROOT}}/cgi-bin/\n\
         <Directory ${{ROOT}}/cgi-bin>\nOptions +ExecCGI\nRequire all granted\n</Directory>\n\
         <Location /perl>\nSetHandler perl-script\nPerlResponseHandler ModPerl::Registry\nPerlOptions +ParseHeaders\n</Location>\n\
         <Proxy balancer://two>\nBalancerMember http://{}:{} lbset=0\nBalancerMember http://{} lbset=1 disablereuse=on\n</Proxy>\n\
         ProxyPass /via/ balancer://two/\n{more}",
        collector.address,
        site.ip,
        PORT + 7,
        site.address()
    )
}

fn ask(server: &Server<'_>, path: &str) -> Client {
    let mut client = server.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

/// The spans within one, in the order of their beginnings. They lie within its time.
fn children(collector: &Collector, parent: &Value) -> Vec<Value> {
    let all = collector.spans().into_iter().filter(|span| span["parentSpanId"] == parent["spanId"]);
    let mut all: Vec<Value> = all.filter(|span| span["kind"] != 2).collect();
    all.sort_by_key(begin);
    for child in &all {
        assert_eq!(child["traceId"], parent["traceId"]);
        let nests = begin(parent) <= begin(child) && begin(child) <= end(child) && end(child) <= end(parent);
        assert!(nests, "{child} is not within {parent}");
    }
    all
}

fn time(span: &Value, name: &str) -> u128 {
    span[name].as_str().and_then(|text| text.parse().ok()).expect("a time")
}

fn begin(span: &Value) -> u128 {
    time(span, "startTimeUnixNano")
}

fn end(span: &Value) -> u128 {
    time(span, "endTimeUnixNano")
}

/// What a span's own work is told: that it belongs to that span.
fn told(span: &Value) -> String {
    let text = |name: &str| span[name].as_str().expect("an id").to_string();
    format!("00-{}-{}-01", text("traceId"), text("spanId"))
}

under_percore_and! { worker:
    /// A script belongs to a span of its own, whatever runs it; one that fails is an error, and the page about that another span.
    fn scripts_have_spans(mpm: Mpm) {
        let site = Site::new();
        site.script("tells", TELLS);
        site.script("perl", "print \"Content-Type: text/plain\\n\\n$ENV{HTTP_TRACEPARENT}\";\n");
        site.script("broken", "#!/bin/sh\nexit 3\n");
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let server = Server::start(mpm, &site, &configuration(&site, &collector, "ErrorDocument 500 /cgi/tells\n"));
        server.announce("End of script output before headers: broken");
        for (path, name, file) in [
            ("/cgi/tells", "run cgi-script", "tells"),
            ("/perl/perl", "run perl-script", "perl"),
        ] {
            let page = ask(&server, path).response().text();
            let span = until(path, || collector.span(path));
            let [child] = &children(&collector, &span)[..] else { panic!("{path}: {:?}", collector.spans()) };
            assert_eq!((page, &child["name"], &child["kind"]), (told(child), &name.into(), &1.into()));
            assert!(attribute(child, "tsubame.script.file").is_some_and(|path| path.ends_with(&format!("cgi-bin/{file}"))));
            assert_eq!(attribute(child, "http.response.status_code").as_deref(), Some("200"));
            assert!(child.get("status").is_none(), "{child}");
        }
        let page = ask(&server, "/cgi/broken").response().text();
        let span = until("the failure", || collector.span("/cgi/broken"));
        let [broken, error_page] = &children(&collector, &span)[..] else { panic!("{:?}", collector.spans()) };
        assert_eq!(page, told(error_page));
        assert_eq!((&broken["status"]["code"], attribute(broken, "error.type").as_deref()), (&2.into(), Some("500")));
        assert!(end(broken) <= begin(error_page));
    }
}

under_percore_and! { prefork:
    /// The wait for a turn is a span within the script's.
    fn a_wait_is_a_span(mpm: Mpm) {
        let site = Site::new();
        let (go, runs) = (fifo(&site, "go"), fifo(&site, "runs"));
        let (go_name, runs_name) = (go.display(), runs.display());
        let text = format!("#!/bin/sh\necho > {runs_name}\nread x < {go_name}\nprintf 'Content-Type: text/plain\\n\\nok'\n");
        site.script("waits", &text);
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let more = "<Location /status>\nSetHandler server-status\n</Location>\n";
        let server = Server::start(mpm, &site, &configuration(&site, &collector, more));
        let waiting = || server.get("/status?auto").text().contains("ScriptsWaiting: 1\n").then_some(());
        let goes_on = |client: &mut Client| {
            std::fs::write(&go, "go\n").expect("the script reads");
            assert_eq!(client.response().status, 200);
        };
        let mut first = ask(&server, "/cgi/waits?1");
        std::fs::read(&runs).expect("it runs");
        let mut second = ask(&server, "/cgi/waits?2");
        until("one waits", waiting);
        let waited = sys::time::realtime().as_nanos();
        goes_on(&mut first);
        std::fs::read(&runs).expect("it runs");
        goes_on(&mut second);
        let spans = || collector.spans().into_iter().filter(|span| span["name"] == "run cgi-script").collect::<Vec<_>>();
        let mut scripts = until("both", || Some(spans()).filter(|spans| spans.len() == 2));
        scripts.sort_by_key(end);
        let [wait] = &children(&collector, &scripts[1])[..] else { panic!("{:?}", collector.spans()) };
        assert_eq!((&wait["name"], &wait["kind"]), (&"wait".into(), &1.into()));
        assert!(begin(wait) < waited && waited < end(wait), "{wait}");
    }
}

under_percore_and! { event:
    /// Each server that is asked is a span, and the one that answers belongs to its own.
    fn each_attempt_is_a_span(mpm: Mpm) {
        let site = Site::with([("a.txt", "0123456789")]);
        let collector = Collector::start(site.ip.into(), &[TAKEN]);
        let more = "ProxyPass /away/ http://127.0.0.1:1/\n";
        let server = Server::start(mpm, &site, &configuration(&site, &collector, more));
        server.allow("AH00957");
        server.allow("AH01114");
        server.allow("AH00959");
        assert_eq!(ask(&server, "/via/a.txt").response().text(), "0123456789");
        let (span, behind) = until("both", || Some((collector.span("/via/a.txt")?, collector.span("/a.txt")?)));
        let [lost, answered] = &children(&collector, &span)[..] else { panic!("{:?}", collector.spans()) };
        let of = |span: &Value, key: &str| attribute(span, key).unwrap_or_default();
        for (child, attempt, status, port) in [(lost, "1", "503", PORT + 7), (answered, "2", "200", PORT)] {
            assert_eq!((&child["name"], &child["kind"]), (&"GET".into(), &3.into()));
            assert_eq!((of(child, "tsubame.upstream.attempt"), of(child, "http.response.status_code")), (attempt.into(), status.into()));
            assert!(of(child, "tsubame.upstream.address").ends_with(&format!(":{port}")), "{child}");
        }
        assert_eq!(lost["status"]["code"], 2);
        assert!(!of(answered, "tsubame.upstream.first_byte").is_empty() && answered.get("status").is_none(), "{answered}");
        assert_eq!((&behind["parentSpanId"], &behind["traceId"]), (&answered["spanId"], &span["traceId"]));

        assert_eq!(ask(&server, "/away/").response().status, 503);
        let span = until("the failure", || collector.span("/away/"));
        let [away] = &children(&collector, &span)[..] else { panic!("{:?}", collector.spans()) };
        assert_eq!((of(away, "error.type"), of(away, "tsubame.upstream.attempt")), ("503".into(), "1".into()));
    }
}

/// A field that the configuration removes or replaces stays as the configuration wants it; a trace that is not recorded has the
/// request's own span.
#[test]
fn the_field_stays_the_configuration_s() {
    let site = Site::new();
    site.script("tells", TELLS);
    let collector = Collector::start(site.ip.into(), &[TAKEN]);
    let more = "<Location /cgi/tells/none>\nRequestHeader unset traceparent\n</Location>\n\
                <Location /cgi/tells/own>\nRequestHeader set traceparent own\n</Location>\n\
                <Location /cgi/tells>\nHeader set X-Span %{SPAN_ID}e\n</Location>\n";
    let server = Server::start(Mpm::Percore, &site, &configuration(&site, &collector, more));
    assert_eq!(ask(&server, "/cgi/tells/none").response().text(), "");
    assert_eq!(ask(&server, "/cgi/tells/own").response().text(), "own");
    let parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let answer = server.client().request(format!("GET /cgi/tells HTTP/1.1\r\nHost: a\r\n{parent}\r\n\r\n"));
    let own = answer.field("X-Span").expect("an id");
    assert_eq!(answer.text(), format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{own}-00"));
    until("what is recorded", || collector.span("/cgi/tells/none").and(collector.span("/cgi/tells/own")));
    assert!(collector.span("/cgi/tells").is_none());
}

fn fifo(site: &Site, name: &str) -> PathBuf {
    let path = site.root.join(name);
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&path).status().expect("mkfifo");
    assert!(made.success());
    path
}
