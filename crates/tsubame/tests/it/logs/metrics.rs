//! `SetHandler metrics`: text that a strict reader takes, numbers that are true.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use sys::signal::Signal;

use crate::harness::frames::{Ended, Frames};
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::open_metrics::{Family, Format, parse};
use crate::harness::server::{Server, Start};
use crate::harness::site::{PORT, Site};
use crate::harness::tls::{self, NAME, Secure};
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

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
    let of =
        |one: &&crate::harness::open_metrics::Sample| label.is_none_or(|(name, value)| one.label(name) == Some(value));
    let found: Vec<f64> = family.samples.iter().filter(of).map(|one| one.value).collect();
    assert_eq!(found.len(), 1, "{name} {label:?}: {family:?}");
    found[0]
}

under_percore_and! { event:
    /// The metrics equal the work done; a graceful restart keeps them, an ordinary one resets them.
    fn counts_match_the_work_done(mpm: Mpm) {
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
    server.allow_everything("each refused request is logged");
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
    assert_eq!(Client::connect(server.address()).request(post).status, 405);
}

/// Whoever may write `.htaccess` gets no metrics where the module is not loaded.
#[test]
fn a_server_that_does_not_load_them_has_none() {
    let site = Site::with([("a.txt", "x"), (".htaccess", "SetHandler metrics\n")]);
    let modules = "LoadModule mpm_percore_module x\nLoadModule authz_core_module x\n";
    std::fs::write(
        site.root.join("conf/httpd.conf"),
        format!(
            "ServerRoot {0}\n{modules}Listen {1}\nServerName localhost\nErrorLog logs/error_log\nPidFile run/httpd.pid\nDocumentRoot {0}/htdocs\n\
             <Directory {0}/htdocs>\nAllowOverride All\nRequire all granted\n</Directory>\n",
            site.path(),
            site.address()
        ),
    )
    .expect("a configuration");
    let server = Start::new(&site, Mpm::Percore).run();
    server.allow("nothing handles metrics, which needs mod_metrics");
    assert_eq!(server.get("/a.txt").status, 500);
}

/// Handshakes are counted by version, protocol and session; the live page has the same numbers, and the certificates.
#[test]
fn handshakes_are_counted() {
    let site = Site::with([("a.txt", "0123456789")]);
    let (lines, config) = tls::lines(&site);
    let pages = "Protocols h2 http/1.1\n<Location /status>\nSetHandler server-status\n</Location>\n";
    let server = Server::start(Mpm::Event, &site, &format!("{CONFIGURATION}{pages}{lines}"));
    let get = |config: &Arc<ClientConfig>, path: &str| Secure::to(server.address(), config).try_get(path);
    for _ in 0..2 {
        assert!(get(&config, "/a.txt").expect("an answer").ends_with("0123456789"));
    }
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(site.root.join("conf/tls.pem"));
    roots.add(certificate.expect("certificate")).expect("root");
    let old = ClientConfig::builder_with_provider(config.crypto_provider().clone())
        .with_protocol_versions(&[&rustls::version::TLS12]);
    let old = Arc::new(old.expect("versions").with_root_certificates(roots).with_no_client_auth());
    assert!(get(&old, "/a.txt").expect("an answer").ends_with("0123456789"));
    let mut h2 = (*config).clone();
    h2.alpn_protocols = vec![b"h2".to_vec()];
    h2.resumption = rustls::client::Resumption::disabled();
    assert!(
        !get(&Arc::new(h2), "/a.txt").unwrap_or_default().ends_with("0123456789"),
        "a request of HTTP/1 over HTTP/2"
    );
    assert_eq!(server.get("/a.txt").status, 400, "HTTP without TLS");

    let new = [("1.3", "http/1.1"), ("1.2", "http/1.1"), ("1.3", "h2"), ("1.2", "h2")];
    let told = until("all of them", || {
        let text = get(&config, "/metrics").expect("metrics");
        let told = parse(text.split_once("\r\n\r\n").expect("a head").1, Format::OpenMetrics);
        (value(&told, "tsubame_tls_handshake_failures", None) == 1.0).then_some(told)
    });
    let of = |version: &str, protocol: &str, session: &str| {
        let labels = [("version", version), ("protocol", protocol), ("session", session)];
        let mut samples = told["tsubame_tls_handshakes"].samples.iter();
        let is = |one: &&crate::harness::open_metrics::Sample| {
            labels.iter().all(|(name, value)| one.label(name) == Some(value))
        };
        samples.find(is).unwrap_or_else(|| panic!("{labels:?}")).value
    };
    assert_eq!(new.map(|(version, protocol)| of(version, protocol, "new")), [1.0, 1.0, 1.0, 0.0]);
    assert!(of("1.3", "http/1.1", "resumed") >= 2.0, "the second request, and metrics");
    let page = get(&config, "/status?live").expect("a snapshot");
    let data = page.split_once("data: ").expect("an event").1;
    let live: Value = serde_json::from_str(data).expect("JSON");
    let count = |name: &str| live["handshakes"]["of"][name].as_u64().expect("a count");
    assert_eq!((count("new"), count("1.2"), count("h2")), (3, 1, 1));
    assert_eq!(live["handshakes"]["completed"], count("1.2") + count("1.3"));
    assert_eq!(live["handshakes"]["failed"], 1);
    assert_eq!(live["certificates"][0]["host"], format!("{NAME}:{PORT}"));
}

under_percore_and! { event:
    /// Connections of HTTP/2 and their streams are counted as long as they exist.
    fn streams_are_counted(mpm: Mpm) {
        let site = Site::with([("hold", "")]);
        site.script("held", "#!/bin/sh\nwhile [ -e ../htdocs/hold ]; do sleep 0.05; done\nprintf 'Content-Type: text/plain\\n\\nok'\n");
        let server = Server::start(mpm, &site, &format!("Protocols h2c http/1.1\n{CONFIGURATION}"));
        server.allow("server seems busy");
        let now = || {
            let told = families(&server);
            ["tsubame_http2_connections", "tsubame_http2_streams"].map(|name| value(&told, name, None))
        };
        assert_eq!(now(), [0.0, 0.0]);
        let mut client = Frames::connect(server.address(), &[]);
        let streams = [(); 3].map(|()| client.get("/cgi/held"));
        until("three streams", || (now() == [1.0, 3.0]).then_some(()));
        std::fs::remove_file(site.root.join("htdocs/hold")).expect("hold");
        let ended = client.all(&streams);
        assert!(ended.iter().all(|one| *one == Ended::Answered(200, b"ok".to_vec())), "{ended:?}");
        until("no stream", || (now() == [1.0, 0.0]).then_some(()));
        drop(client);
        until("no connection", || (now() == [0.0, 0.0]).then_some(()));
    }
}
