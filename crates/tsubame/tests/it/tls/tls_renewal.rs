//! Certificates of a server that runs: new ones without a restart, sessions that go on, those that expire, and who cannot read keys.

use std::io::Read;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::tls::NAME;
use crate::harness::wait::until;
use crate::mpm::control::said;
use crate::tls::tls_certificates::{LEAF, ask, client, connect, host, make, openssl, site};

/// Requests over connections of their own, as fast as possible, until it is dropped.
struct Load {
    end: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(address: SocketAddr, config: &Arc<ClientConfig>) -> Load {
        let (end, answered) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let client = |_| {
            let (end, answered, config) = (end.clone(), answered.clone(), config.clone());
            std::thread::spawn(move || {
                let mut failures = Vec::new();
                while !end.load(Ordering::Relaxed) {
                    match ask(address, &config) {
                        Ok((answer, ..)) if answer.ends_with("hello\n") => _ = answered.fetch_add(1, Ordering::Relaxed),
                        Ok((answer, ..)) => failures.push(answer),
                        Err(why) => failures.push(why),
                    }
                }
                failures
            })
        };
        let clients = (0..3).map(client).collect();
        Load { end, answered, clients }
    }

    /// Waits until so many more were answered.
    fn goes_on(&self, count: usize) {
        let wanted = self.answered.load(Ordering::Relaxed) + count;
        until("answers", || (self.answered.load(Ordering::Relaxed) >= wanted).then_some(()));
    }

    fn end(self) -> Vec<String> {
        self.end.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    }
}

under_percore_and! { prefork:
    /// Without a failed request, and in all children. A set that cannot be used changes nothing.
    fn new_certificates_are_taken_in_without_a_restart(mpm: Mpm) {
        let Some(site) = site() else { return };
        make(&site, "second", "rsa:2048", LEAF);
        let put = |name: &str| {
            for end in ["pem", "key"] {
                site.file(format!("current.{end}"), site.read(&format!("{name}.{end}")));
            }
        };
        put("rsa");
        let mut server = Server::start(mpm, &site, &host(&[("current.pem", "current.key")], ""));
        // Each time a handshake of its own: a session that goes on has the certificate that it began with.
        let mut config = (*client(&site, &["rsa.pem", "ec.pem", "second.pem"])).clone();
        config.resumption = rustls::client::Resumption::disabled();
        let config = Arc::new(config);
        let shown = || ask(site.address(), &config).expect("an answer").2;
        let first = shown();
        let children = server.children();
        let load = Load::start(server.address(), &config);
        load.goes_on(20);
        let mut before = first.clone();
        for name in ["ec", "second", "rsa"] {
            put(name);
            let (output, errors, status) = ctl(&site, &["reload-certificates"]);
            let words = "1 certificate of 1 virtual host in effect\n";
            assert_eq!((output.as_str(), errors.as_str(), status), (words, "", Some(0)), "{name}");
            load.goes_on(20);
            // Whichever child it is: each looks with its next handshake.
            let now = shown();
            assert_ne!(now, before, "{name}");
            assert!((0..8).all(|_| shown() == now), "{name}");
            before = now;
        }
        assert_eq!(before, first);
        for (file, text, number) in
            [("current.pem", site.read("ec.pem"), "AH02565"), ("current.pem", "junk\n".into(), "AH02562")]
        {
            site.file(file, text);
            let (output, errors, status) = ctl(&site, &["reload-certificates"]);
            assert_eq!((output.as_str(), status), ("", Some(1)));
            assert!(errors.contains(number), "{errors}");
            server.announce(format!("certificates were not read again: {number}"));
            assert_eq!(shown(), first);
        }
        let failures = load.end();
        assert!(failures.is_empty(), "{failures:?}");
        assert!(children.is_subset(&server.children()), "no child was replaced");
        server.announce("certificates were read again: 1 certificate of 1 virtual host in effect");
        put("ec");
        server.restart(Signal::USR1);
        until("the new generation", || (shown() != first).then_some(()));
    }

    /// Not from files, which only root may read, and not from the memory of the processes that serve, whose user they have.
    fn scripts_cannot_read_keys(mpm: Mpm) {
        let test = "scripts_cannot_read_keys";
        let Some(site) = site().filter(|_| needs::ROOT.is_there(test) && needs::CURL.is_there(test)) else { return };
        let text = format!(
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
             for p in $(echo $QUERY_STRING | tr + ' '); do head -c1 /proc/$p/mem /proc/$p/maps 2>&1; done\n\
             head -c1 {0}/rsa.key && echo read\nid -un\n",
            site.path()
        );
        site.script("look", &text);
        let more = "ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";
        let server = Server::start(mpm, &site, &host(&[("rsa.pem", "rsa.key")], more));
        server.allow("Permission denied");
        let processes: Vec<String> = server.children().iter().chain([&server.pid().number()]).map(i32::to_string).collect();
        let seen = curl(server.address(), &format!("/cgi-bin/look?{}", processes.join("+")));
        assert!(seen.ends_with("www-data\n") && !seen.contains("read\n"), "{seen}");
        let denied = seen.lines().filter(|line| line.contains("Permission denied")).count();
        assert_eq!(denied, 2 * processes.len(), "{seen}");
    }

    /// By tickets, whichever child made them, also before a graceful restart; none where tickets are off.
    fn sessions_go_on(mpm: Mpm) {
        let Some(site) = site() else { return };
        let mut server = Server::start(mpm, &site, &host(&[("ec.pem", "ec.key")], ""));
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let config = only(&site, version);
            let mut first = connect(server.address(), &config).expect("a connection");
            first.read_exact(&mut [0]).expect("an answer");
            assert_eq!(first.conn.handshake_kind(), Some(HandshakeKind::Full));
            // Under prefork this is another child: the first one has a connection.
            let (_, kind, _) = ask(server.address(), &config).expect("an answer");
            assert_eq!(kind, HandshakeKind::Resumed, "{version:?}");
            drop(first);
            server.restart(Signal::USR1);
            let (_, kind, _) = ask(server.address(), &config).expect("an answer");
            assert_eq!(kind, HandshakeKind::Resumed, "{version:?} after a graceful restart");
        }
        site.configure(mpm, &host(&[("ec.pem", "ec.key")], "SSLSessionTickets off"));
        server.restart(Signal::USR1);
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let config = only(&site, version);
            let kinds = [(); 2].map(|()| ask(server.address(), &config).expect("an answer").1);
            assert_eq!(kinds, [HandshakeKind::Full; 2], "{version:?} without tickets");
        }
    }
}

/// A client that speaks one version.
fn only(site: &Site, version: &'static rustls::SupportedProtocolVersion) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    openssl(site, "x509 -in ec.pem -outform DER -out one.der");
    roots.add(CertificateDer::from(std::fs::read(site.root.join("one.der")).expect("DER"))).expect("root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

/// In the log, on the status page, among the metrics, and by `check`.
#[test]
fn certificates_that_expire_are_reported() {
    let Some(site) = site().filter(|_| needs::CURL.is_there("certificates_that_expire_are_reported")) else { return };
    make(&site, "soon", "ec", &LEAF.replace("90", "5"));
    let mut old = rcgen::CertificateParams::new(vec![NAME.to_string()]).expect("a name");
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    old.not_before = rcgen::date_time_ymd(2019, 1, 1);
    let key = rcgen::KeyPair::generate().expect("key");
    site.file("old.pem", old.self_signed(&key).expect("certificate").pem());
    site.file("old.key", key.serialize_pem());
    let pages = "<Location /status>\nSetHandler server-status\n</Location>\n<Location /metrics>\nSetHandler metrics\n</Location>";
    let pairs = [("rsa.pem", "rsa.key"), ("soon.pem", "soon.key"), ("old.pem", "old.key")];
    let server = Server::start(Mpm::Event, &site, &host(&pairs, pages));
    let root = site.path();
    server.announce("[ssl:warn]");
    server.announce("[ssl:error]");
    let soon = format!("certificate {NAME}:{PORT}:1 from {root}/soon.pem expires in ");
    let line = server.logged(&soon);
    assert!(line.ends_with("expires in 5 days") || line.ends_with("expires in 4 days"), "{line}");
    let line = server.logged(&format!("certificate {NAME}:{PORT}:2 from {root}/old.pem expired "));
    assert!(line.ends_with(" days ago: clients refuse it"), "{line}");
    let page = |path: &str| curl(server.address(), path);
    let text = page("/status?auto");
    assert!(text.contains("\nCertificates: 3\nCertificatesExpiring: 2\nCertificateNextExpiry: 1577836800\n"), "{text}");
    let text = page("/status");
    assert!(text.contains("<h2>Certificates</h2>") && text.contains("<td>2</td><td>Wednesday, 01-Jan-2020"), "{text}");
    let text = page("/metrics");
    let line =
        format!("tsubame_certificate_expiry_timestamp_seconds{{host=\"{NAME}:{PORT}\",index=\"2\"}} 1577836800\n");
    assert!(text.contains(&line), "{text}");
    let checked = Command::new(env!("CARGO_BIN_EXE_tsubame"))
        .args(["check", "-d", root, "-f", "conf/httpd.conf", "--no-files"])
        .output()
        .expect("run");
    let text = said(&checked).0;
    assert!(text.contains("It expires in ") && text.contains("It expired "), "{text}");
    assert_eq!(server.log().matches(&soon).count(), 1);
}

/// A page, whatever the certificate is.
fn curl(address: SocketAddr, path: &str) -> String {
    let url = format!("https://{address}{path}");
    let output = Command::new("curl").args(["-sk", &url]).output().expect("curl");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
