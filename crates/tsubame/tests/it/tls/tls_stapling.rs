//! Answers of certificate authorities at handshakes, with `openssl ocsp` as the responder and `openssl s_client` as the client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sys::signal::Signal;

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::object_servers::{ObjectServer, REDIS_PORT};
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;

/// Runs openssl in the site's directory of certificates.
fn openssl(site: &Site, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(site.root.join("conf")).output().expect("openssl");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a certificate of it with the number 5, of X.509 version 1, as openssl makes it when it is asked for nothing else.
fn certificates(site: &Site) {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let root = ["req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "90"];
    openssl(site, &[&root[..], &curve].concat());
    openssl(site, &[&["req", "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=localhost"][..], &curve].concat());
    let sign =
        ["x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "5", "-days", "90"];
    openssl(site, &[&sign[..], &["-out", "leaf.pem"]].concat());
    site.file("conf/tls.pem", format!("{}{}", site.read("conf/leaf.pem"), site.read("conf/ca.pem")));
}

/// A responder; dropping it ends it. With its port.
pub struct Responder(Child, pub u16);

impl Responder {
    /// One that says this of the certificate: V or R, and since when it has been revoked.
    fn start(site: &Site, state: &str) -> Responder {
        Responder::signing(site, state, "ca")
    }

    /// The same with the signature of another key and certificate.
    fn signing(site: &Site, state: &str, signer: &str) -> Responder {
        site.file("conf/index", format!("{state}\t05\tunknown\t/CN=localhost\n"));
        let (signer, key) = (format!("{signer}.pem"), format!("{signer}.key"));
        Responder::run(
            site,
            "conf",
            &["-index", "index", "-rsigner", &signer, "-rkey", &key, "-CA", "ca.pem", "-ndays", "1"],
        )
    }

    /// `openssl ocsp` with these arguments in a directory of the site.
    pub fn run(site: &Site, directory: &str, arguments: &[&str]) -> Responder {
        let mut process = Command::new("openssl")
            .args(["ocsp", "-port", "0"])
            .args(arguments)
            .current_dir(site.root.join(directory))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        // `ACCEPT [::]:12345 PID=1`
        let mut lines = BufReader::new(process.stdout.take().expect("output")).lines().map_while(Result::ok);
        let port = |line: String| line.strip_prefix("ACCEPT ")?.split(' ').next()?.rsplit(':').next()?.parse().ok();
        let port = lines.find_map(port);
        std::thread::spawn(move || lines.for_each(drop));
        Responder(process, port.expect("a port"))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Passes questions on to a responder, one after the other, and counts them.
struct Counter {
    port: u16,
    asked: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Counter {
    fn before(to: u16) -> Counter {
        let (asked, end) = <(Arc<AtomicUsize>, Arc<AtomicBool>)>::default();
        let between = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = between.local_addr().expect("address").port();
        let (count, is_over) = (asked.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            for client in between.incoming().map_while(Result::ok).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                count.fetch_add(1, Ordering::Relaxed);
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                std::thread::scope(|scope| {
                    scope.spawn(|| std::io::copy(&mut &client, &mut &server));
                    let _ = std::io::copy(&mut &server, &mut &client);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Counter { port, asked, end, thread: Some(thread) }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

const GOOD: &str = "OCSP Response Status: successful (0x0)";

fn configuration(port: u16) -> String {
    format!(
        "<VirtualHost *:{PORT}>\nSSLEngine on\nSSLCertificateFile conf/tls.pem\nSSLCertificateKeyFile conf/tls.key\n\
         SSLUseStapling on\nSSLStaplingForceURL http://127.0.0.1:{port}/ocsp\n</VirtualHost>"
    )
}

/// The stapled OCSP status that a client gets with its handshake.
fn status(server: &Server<'_>) -> String {
    let address = server.address().to_string();
    let arguments = ["s_client", "-connect", &address, "-servername", "localhost", "-status"];
    let output = Command::new("openssl").args(arguments).stdin(Stdio::null()).output().expect("openssl");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |start: &str| said.lines().map(str::trim).find(|line| line.starts_with(start)).map(str::to_string);
    line("OCSP Response Status").or_else(|| line("OCSP response:")).unwrap_or_default()
}

#[test]
fn answers_of_the_authority_are_stapled() {
    if !needs::OPENSSL.is_there("answers_of_the_authority_are_stapled") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "V\t350101000000Z\t");
    let server = Server::start(Mpm::Event, &site, &configuration(responder.1));
    until("a stapled response", || (status(&server) == "OCSP Response Status: successful (0x0)").then_some(()));
    // It is cached: there is no request to the responder for each handshake.
    drop(responder);
    assert_eq!(status(&server), "OCSP Response Status: successful (0x0)");
}

/// Handshakes continue without it: stapling a response that revokes the certificate helps no client.
#[test]
fn nothing_is_stapled_where_there_is_nothing_good() {
    if !needs::OPENSSL.is_there("nothing_is_stapled_where_there_is_nothing_good") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "R\t350101000000Z\t260101000000Z");
    let server = Server::start(Mpm::Percore, &site, &configuration(responder.1));
    server.announce("AH01980: OCSP response for the certificate");
    until("the log's line", || server.log().contains("the certificate has been revoked").then_some(()));
    assert_eq!(status(&server), "OCSP response: no response sent");
}

/// A response counts if the authority or a responder that it has appointed has signed it, whoever sent it.
#[test]
fn only_what_the_authority_has_signed_is_stapled() {
    if !needs::OPENSSL.is_there("only_what_the_authority_has_signed_is_stapled") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    site.file("conf/purposes", "[ocsp]\nextendedKeyUsage=OCSPSigning\n[none]\nbasicConstraints=CA:FALSE\n");
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    for (name, authority, purpose) in
        [("appointed", "ca", "ocsp"), ("unappointed", "ca", "none"), ("foreign", "other", "ocsp")]
    {
        let (key, csr, own, own_key) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{authority}.pem"), format!("{authority}.key"));
        let root =
            ["req", "-x509", "-keyout", "other.key", "-out", "other.pem", "-subj", "/CN=authority", "-days", "90"];
        openssl(&site, &[&root[..], &curve].concat());
        openssl(&site, &[&["req", "-keyout", &key, "-out", &csr, "-subj", "/CN=responder"][..], &curve].concat());
        let sign = ["x509", "-req", "-in", &csr, "-CA", &own, "-CAkey", &own_key, "-set_serial", "7", "-days", "90"];
        let pem = format!("{name}.pem");
        openssl(&site, &[&sign[..], &["-extfile", "purposes", "-extensions", purpose, "-out", &pem]].concat());
    }
    for (signer, problem) in [
        ("appointed", None),
        ("unappointed", Some("it is signed with a certificate that is not for signing responses (id-kp-OCSPSigning)")),
        ("foreign", Some("it is signed by a responder whose certificate the authority has not issued")),
        ("other", Some("it is signed by a responder whose certificate the authority has not issued")),
    ] {
        let responder = Responder::signing(&site, "V\t350101000000Z\t", signer);
        let server = Server::start(Mpm::Event, &site, &configuration(responder.1));
        // Lines of an earlier server are still in the log.
        server.allow("AH01980");
        let Some(problem) = problem else {
            until("a stapled response", || (status(&server) == "OCSP Response Status: successful (0x0)").then_some(()));
            continue;
        };
        until("the log's line", || server.log().contains(problem).then_some(()));
        assert_eq!(status(&server), "OCSP response: no response sent", "{signer}");
    }
}

/// The next generation has the responses from its first handshake on, even if the responder is gone. So has the next
/// process, if the one that asks is killed.
#[test]
fn responses_survive_a_reload() {
    if !needs::OPENSSL.is_there("responses_survive_a_reload") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "V\t350101000000Z\t");
    let mut server = Server::start(Mpm::Event, &site, &configuration(responder.1));
    let good = "OCSP Response Status: successful (0x0)";
    until("a stapled response", || (status(&server) == good).then_some(()));
    drop(responder);
    for signal in [Signal::USR1, Signal::HUP, Signal::USR1] {
        server.restart(signal);
        for _ in 0..3 {
            assert_eq!(status(&server), good, "{signal:?}");
        }
    }
}

/// Each responder has a queue of its own.
#[test]
fn a_silent_responder_holds_up_no_other() {
    if !needs::OPENSSL.is_there("a_silent_responder_holds_up_no_other") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "V\t350101000000Z\t");
    let silent: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").expect("bind")).collect();
    let mute = |(index, listener): (usize, &TcpListener)| {
        let url = format!("http://127.0.0.1:{}/ocsp", listener.local_addr().expect("address").port());
        format!(
            "<VirtualHost *:{PORT}>\nServerName silent{index}\nSSLEngine on\nSSLCertificateFile conf/tls.pem\n\
             SSLCertificateKeyFile conf/tls.key\nSSLUseStapling on\nSSLStaplingResponderTimeout 600\nSSLStaplingForceURL {url}\n</VirtualHost>\n"
        )
    };
    let hosts: String = silent.iter().enumerate().map(mute).collect();
    let own = configuration(responder.1).replace("SSLEngine", "ServerName localhost\nSSLEngine");
    let server = Server::start(Mpm::Event, &site, &format!("{hosts}{own}"));
    server.allow("AH01909");
    until("a stapled response", || (status(&server) == "OCSP Response Status: successful (0x0)").then_some(()));
    // The process that asks lets go.
    drop(silent);
    server.announce("AH01980");
    until("the ends of the questions", || (server.log().matches("AH01980").count() == 6).then_some(()));
}

/// Hosts with the same certificate ask once, and again as soon as they are told to.
#[test]
fn responders_are_asked_as_often_as_configured() {
    if !needs::OPENSSL.is_there("responders_are_asked_as_often_as_configured") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    certificates(&site);
    let responder = Responder::start(&site, "V\t350101000000Z\t");
    let counter = Counter::before(responder.1);
    let (port, asked) = (counter.port, &counter.asked);
    let own = "ServerName host\nSSLStaplingStandardCacheTimeout 1\nSSLEngine";
    let hosts: String = (0..20)
        .map(|index| configuration(port).replace("SSLEngine", &own.replace("host", &format!("host{index}"))) + "\n")
        .collect();
    {
        let server = Server::start(Mpm::Event, &site, &hosts);
        ["AH01909", "AH01980"].iter().for_each(|text| server.allow(*text));
        until("a stapled response", || (status(&server) == "OCSP Response Status: successful (0x0)").then_some(()));
        until("further questions", || (asked.load(Ordering::Relaxed) >= 4).then_some(()));
        assert!(asked.load(Ordering::Relaxed) < 20, "hosts share an answer");
    }
}

/// One machine asks, the others take its response. A store that is gone, or holds something else, costs a question and no handshake.
#[test]
fn machines_share_responses() {
    const NAME: &str = "machines_share_responses";
    if !needs::OPENSSL.is_there(NAME) || !needs::REDIS.is_there(NAME) {
        return;
    }
    let sites = [(); 4].map(|()| Site::with([("index.html", "hello\n")]));
    certificates(&sites[0]);
    for site in &sites[1..] {
        for name in ["conf/tls.pem", "conf/tls.key"] {
            site.file(name, sites[0].read(name));
        }
    }
    let responder = Responder::start(&sites[0], "V\t350101000000Z\t");
    let counter = Counter::before(responder.1);
    let store = ObjectServer::redis(&sites[0]);
    let redis = SocketAddr::new(sites[0].address().ip(), REDIS_PORT);
    let lines = format!("SSLStaplingCache redis:{redis}\nRedisTimeout 500ms\n{}", configuration(counter.port));
    let good = |server: &Server<'_>| until("a stapled response", || (status(server) == GOOD).then_some(()));
    let one = Server::start(Mpm::Percore, &sites[0], &lines);
    good(&one);
    assert_eq!(counter.asked(), 1);
    let other = Server::start(Mpm::Event, &sites[1], &lines);
    good(&other);
    assert_eq!(counter.asked(), 1, "the second server has the response of the first");

    // Something else in its place is not believed.
    let spoil = "for _, key in ipairs(redis.call('KEYS', 'ssl-stapling:*')) do redis.call('SETRANGE', key, 60, 'nonsense') end return 1";
    let mut told = TcpStream::connect(redis).expect("the store");
    write!(told, "EVAL \"{spoil}\" 0\r\nQUIT\r\n").expect("told");
    let mut reply = String::new();
    told.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with(":1"), "{reply}");
    let third = Server::start(Mpm::Percore, &sites[2], &lines);
    good(&third);
    assert_eq!(counter.asked(), 2);

    store.freeze(true);
    let fourth = Server::start(Mpm::Percore, &sites[3], &lines);
    fourth.announce("SSLStaplingCache: this server asks the responders itself meanwhile");
    good(&fourth);
    assert_eq!(counter.asked(), 3);
    store.freeze(false);
}
