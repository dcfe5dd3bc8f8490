//! Certificates that the server fetches from an authority (mod_md).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs::{CURL, PEBBLE};
use crate::harness::pebble::{NAMES_MANAGEMENT, Pebble, Wanted};
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::tls::{Secure, trusting};
use crate::harness::wait::until;

const HELLO: [(&str, &str); 1] = [("index.html", "hello\n")];
const NAME: &str = "one.example.org";
const HTTPS: u16 = 8443;
const TIDY: Wanted = Wanted { http_port: PORT, tls_port: HTTPS, life: 7_776_000 };

/// A site whose host for TLS is a managed domain, with these lines besides.
fn lines(site: &Site, more: &str) -> String {
    format!(
        "{}MDPortMap http:{PORT} https:{HTTPS}\nMDomain {NAME}\nListen ${{ADDR}}:{HTTPS}\n{more}\n\
         <VirtualHost *:{PORT}>\nServerName {NAME}\nServerAlias www.example.org\nRewriteEngine on\nRewriteRule ^ - [F]\n\
         <Location />\nRequire all denied\n</Location>\n</VirtualHost>\n\
         <VirtualHost *:{HTTPS}>\nServerName {NAME}\nSSLEngine on\n</VirtualHost>\n",
        Pebble::lines(site)
    )
}

fn start<'a>(mpm: Mpm, site: &'a Site, lines: &str) -> Server<'a> {
    let server = Server::start(mpm, site, lines);
    let usual = [
        "AH10085",
        "registered new account",
        "has new certificates, which are used from now on",
        "certificates were read again",
    ];
    usual.iter().for_each(|text| server.allow(*text));
    server
}

fn https(site: &Site) -> SocketAddr {
    (site.ip, HTTPS).into()
}

/// The certificate and answer that a client gets, once it gets any, if it trusts the authority.
fn served(site: &Site, client: &Arc<ClientConfig>) -> String {
    until("a certificate of the authority", || Secure::named(https(site), client, NAME).try_get("/").ok())
}

/// A client that trusts the temporary self-signed certificate.
fn believing_the_fallback(site: &Site) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let file = site.root.join("md/domains").join(NAME).join("fallback-pubcert.pem");
    roots.add(CertificateDer::from_pem_file(file).expect("a certificate")).expect("root");
    trusting(roots)
}

/// The certificate that the server has.
fn certificate(site: &Site) -> String {
    site.read("md/domains/one.example.org/pubcert.pem")
}

under_percore_and! { prefork:
    /// Rules and access control do not block the authority's request for the proof, no restart is needed, and a second
    /// start orders nothing.
    fn the_first_certificate_comes_by_http(mpm: Mpm) {
        if !PEBBLE.is_there("the_first_certificate_comes_by_http") {
            return;
        }
        let site = Site::with(HELLO);
        let lines = lines(&site, "");
        let pebble = Pebble::start(&site, &TIDY);
        let server = start(mpm, &site, &lines);
        let before = server.children();
        let answer = served(&site, &pebble.client());
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello\n"), "{answer}");
        let restarted = "Graceful restart";
        assert!(!server.log().contains(restarted), "{}", server.log());
        if mpm == Mpm::Percore {
            assert_eq!(server.children(), before);
        }
        let proof = server.client().request(format!("GET /x HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
        assert_eq!(proof.status, 403, "what is no proof is refused as before");
        drop(server);
        let names: BTreeSet<&str> = [NAME, "www.example.org"].into();
        let about: serde_json::Value = serde_json::from_str(&site.read("md/domains/one.example.org/md.json")).expect("JSON");
        assert_eq!(about["domains"].as_array().expect("names").iter().filter_map(|name| name.as_str()).collect::<BTreeSet<_>>(), names);
        let orders = Pebble::orders(&site);
        let server = start(mpm, &site, &lines);
        assert!(served(&site, &pebble.client()).ends_with("hello\n"));
        drop(server);
        assert_eq!(Pebble::orders(&site), orders, "the certificate is kept");
    }
}

/// A certificate that arrives costs the other domains nothing: no key is made, no file is written.
#[test]
fn a_certificate_that_arrives_leaves_the_others_alone() {
    if !PEBBLE.is_there("a_certificate_that_arrives_leaves_the_others_alone") {
        return;
    }
    let site = Site::with(HELLO);
    let other = |index: usize| {
        format!(
            "<MDomainSet other{index}.example.org>\nMDRenewMode manual\n</MDomainSet>\n\
             <VirtualHost *:{HTTPS}>\nServerName other{index}.example.org\nSSLEngine on\n</VirtualHost>\n"
        )
    };
    let lines = lines(&site, "") + &(0..3).map(other).collect::<String>();
    // Files that were written again are other ones.
    let files = || {
        let file = |index: usize, stem: &str| format!("md/domains/other{index}.example.org/fallback-{stem}.pem");
        let one = |file: String| (std::fs::metadata(site.root.join(&file)).expect("a file").ino(), site.read(&file));
        (0..3).flat_map(|index| ["pubcert", "privkey"].map(|stem| one(file(index, stem)))).collect::<Vec<_>>()
    };
    let mut server = start(Mpm::Event, &site, &lines);
    server.allow("AH10056");
    let before = files();
    let pebble = Pebble::start(&site, &TIDY);
    server.restart(Signal::USR1);
    assert!(served(&site, &pebble.client()).ends_with("hello\n"));
    assert_eq!(files(), before);
    let answer = Secure::named(https(&site), &pebble.client(), "other1.example.org").try_get("/");
    assert!(answer.is_err(), "its certificate is its own");
}

/// Programs that watch Apache's domains find the same names and types of values; the times and the digits are the
/// certificate's.
#[test]
fn domains_are_shown_as_by_apache() {
    let test = "domains_are_shown_as_by_apache";
    if !PEBBLE.is_there(test) {
        return;
    }
    let site = Site::with(HELLO);
    let status = "MDPrivateKeys secp256r1\n<Location /md-status>\nSetHandler md-status\n</Location>\n";
    let lines =
        lines(&site, status).replace("RewriteRule ^ - [F]", "").replace("Require all denied", "Require all granted");
    let show = |server: &Server<'_>, path: &str| {
        let response = server.get(path);
        assert_eq!((response.status, response.field("Content-Type")), (200, Some("application/json")), "{path}");
        serde_json::from_str::<serde_json::Value>(&response.text()).expect("JSON")
    };
    let server = start(Mpm::Event, &site, &lines);
    server.allow("AH10056");
    let failed = |about: &serde_json::Value| about["renewal"]["errors"].as_u64().is_some_and(|errors| errors > 0);
    let about = until("a failure", || Some(show(&server, "/md-status/one.example.org")).filter(failed));
    assert_eq!((&about["state"], &about["cert"]), (&1.into(), &serde_json::json!({})), "{about}");
    drop(server);
    let pebble = Pebble::start(&site, &TIDY);
    let server = start(Mpm::Event, &site, &lines);
    // The line of the server before.
    server.allow("AH10056");
    served(&site, &pebble.client());
    let all = show(&server, "/md-status");
    let [about] = &all["managed-domains"].as_array().expect("domains")[..] else { panic!("{all}") };
    assert_eq!(about, &show(&server, "/md-status/one.example.org"));
    assert_eq!(
        (&about["name"], &about["state"], &about["renew-mode"]),
        (&NAME.into(), &2.into(), &1.into()),
        "{about}"
    );
    assert_eq!(about["domains"], serde_json::json!([NAME, "www.example.org"]));
    assert_eq!(about["privkey"], serde_json::json!({ "type": "EC", "curve": "secp256r1" }));
    let der = CertificateDer::from_pem_slice(site.read("md/domains/one.example.org/pubcert.secp256r1.pem").as_bytes());
    let digest = <sha2::Sha256 as sha2::Digest>::digest(der.expect("a certificate"));
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(about["cert"]["secp256r1"]["sha256-fingerprint"], digits);
    let until = about["cert"]["valid"]["until"].as_str().expect("a time");
    assert!(until.ends_with(" GMT") && about["renew-at"].is_string(), "{about}");
    let refused = server.client().request("POST /md-status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(refused.status, 501);
}

#[test]
fn the_first_certificate_comes_by_tls() {
    if !PEBBLE.is_there("the_first_certificate_comes_by_tls") {
        return;
    }
    let site = Site::with(HELLO);
    let lines = lines(&site, "Protocols http/1.1 acme-tls/1\nMDPrivateKeys secp256r1 RSA");
    let lines = lines.replace("MDPortMap http:8080", "MDPortMap http:-");
    let pebble = Pebble::start(&site, &TIDY);
    let server = start(Mpm::Event, &site, &lines);
    assert!(served(&site, &pebble.client()).ends_with("hello\n"));
    assert!(!server.log().contains("Graceful restart"), "{}", server.log());
    for name in ["pubcert.pem", "privkey.pem", "pubcert.secp256r1.pem", "privkey.secp256r1.pem"] {
        let meta = std::fs::metadata(site.root.join("md/domains").join(NAME).join(name)).expect(name);
        assert_eq!(meta.mode() & 0o777, 0o600, "{name}");
    }
    for name in ["accounts", "domains", "staging"] {
        let meta = std::fs::metadata(site.root.join("md").join(name)).expect(name);
        assert_eq!(meta.mode() & 0o777, 0o700, "{name}");
    }
    assert!(!site.root.join("md/challenges").join(NAME).exists(), "the proof is taken away");
}

/// Certificates of twenty seconds, renewed after three: all handshakes succeed, and all requests.
fn renewed_under_load(mpm: Mpm) {
    let site = Site::with(HELLO);
    let lines = lines(&site, "MDRenewWindow 17s\nMDWarnWindow 1s");
    let pebble = Pebble::start(&site, &Wanted { life: 20, ..TIDY });
    let server = start(mpm, &site, &lines);
    let client = pebble.client();
    assert!(served(&site, &client).ends_with("hello\n"));
    let first = certificate(&site);
    let (end, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // A handshake with a session that goes on shows no certificate.
                let mut client = (*client).clone();
                client.resumption = rustls::client::Resumption::disabled();
                let client = Arc::new(client);
                while !end.load(Ordering::Relaxed) {
                    let answer = Secure::named(https(&site), &client, NAME).get("/");
                    assert!(answer.ends_with("hello\n"), "{answer}");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let second =
            until("a second certificate", || Some(certificate(&site)).filter(|now| *now != first && !now.is_empty()));
        until("a third", || Some(certificate(&site)).filter(|now| *now != second && !now.is_empty()));
        end.store(true, Ordering::Relaxed);
    });
    assert!(count.load(Ordering::Relaxed) > 10);
    assert!(!server.log().contains("Graceful restart"), "{}", server.log());
}

#[test]
fn renewal_fails_no_request_under_percore() {
    if PEBBLE.is_there("renewal_fails_no_request_under_percore") {
        renewed_under_load(Mpm::Percore);
    }
}

#[test]
fn renewal_fails_no_request_under_worker() {
    if PEBBLE.is_there("renewal_fails_no_request_under_worker") {
        renewed_under_load(Mpm::Worker);
    }
}

/// Only the process that asks an authority waits for it. Meanwhile the host answers 503 with a temporary certificate,
/// and other hosts serve. When the authority is back, the host gets its certificate.
#[test]
fn an_authority_that_is_down_holds_up_nobody() {
    if !PEBBLE.is_there("an_authority_that_is_down_holds_up_nobody") {
        return;
    }
    let site = Site::with(HELLO);
    let server = start(Mpm::Event, &site, &lines(&site, "MDRetryDelay 1s"));
    let failure = server.logged("AH10056: processing one.example.org");
    assert!(failure.contains("Connection refused"), "{failure}");
    let answer = Secure::named(https(&site), &believing_the_fallback(&site), NAME).get("/");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_eq!(server.get("/").status, 403, "the other host answers as it is told to");
    let pebble = Pebble::start(&site, &TIDY);
    assert!(served(&site, &pebble.client()).ends_with("hello\n"));
}

/// The authority finds no proof where it looks: the server reports that, and does not ask again before the next try is
/// due.
#[test]
fn a_refused_proof_is_told_and_not_tried_at_once() {
    if !PEBBLE.is_there("a_refused_proof_is_told_and_not_tried_at_once") {
        return;
    }
    let site = Site::with(HELLO);
    let lines = lines(&site, "MDRetryDelay 3600s");
    let _pebble = Pebble::start(&site, &Wanted { http_port: 1, ..TIDY });
    let mut server = start(Mpm::Event, &site, &lines);
    let failure = server.logged("AH10056: processing one.example.org");
    assert!(failure.contains("CA considers answer to challenge invalid"), "{failure}");
    let job: serde_json::Value = serde_json::from_str(&site.read("md/staging/one.example.org/job.json")).expect("JSON");
    let now = sys::time::realtime().as_secs().cast_signed();
    assert!(job["next-run"].as_i64().expect("a time") > now + 3000 && job["errors"] == 1, "{job}");
    let orders = Pebble::orders(&site);
    assert_eq!(orders, 1);
    let answer = Secure::named(https(&site), &believing_the_fallback(&site), NAME).get("/");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    // A restart may follow a repair: there is one more try.
    server.restart(Signal::USR1);
    until("a second order", || (Pebble::orders(&site) == 2).then_some(()));
}

/// The administrator's program changes the DNS, and others are notified; none of them is root.
#[test]
fn names_with_an_asterisk_come_by_dns() {
    if !PEBBLE.is_there("names_with_an_asterisk_come_by_dns") || !CURL.is_there("names_with_an_asterisk_come_by_dns") {
        return;
    }
    let site = Site::with(HELLO);
    let url = format!("http://{}:{NAMES_MANAGEMENT}", site.ip);
    let change = format!(
        "#!/bin/sh\ncase $1 in\nsetup) what=set-txt data=\"{{\\\"host\\\": \\\"_acme-challenge.$2.\\\", \\\"value\\\": \\\"$3\\\"}}\" ;;\n\
         *) what=clear-txt data=\"{{\\\"host\\\": \\\"_acme-challenge.$2.\\\"}}\" ;;\nesac\n\
         exec curl -sf -d \"$data\" {url}/$what\n"
    );
    let tell = format!("#!/bin/sh\necho \"$(id -un) $*\" >> {}/logs/events\n", site.path());
    let (change, tell) = (site.script("change", &change), site.script("tell", &tell));
    let events = site.file("logs/events", "");
    std::fs::set_permissions(events, std::fs::Permissions::from_mode(0o666)).expect("mode");
    let (change, tell) = (change.display(), tell.display());
    let more =
        format!("MDChallengeDns01 {change}\nMDMessageCmd {tell} event\nMDNotifyCmd {tell} notify\nMDMembers manual");
    let lines = lines(&site, &more).replace(&format!("MDomain {NAME}"), "MDomain example.org *.example.org");
    let pebble = Pebble::start(&site, &TIDY);
    let server = start(Mpm::Percore, &site, &lines);
    assert!(served(&site, &pebble.client()).ends_with("hello\n"));
    let told = until("the last event", || Some(site.read("logs/events")).filter(|told| told.contains(" notify ")));
    assert!(!sys::cred::is_root() || told.lines().all(|line| line.starts_with("www-data ")), "{told}");
    let told: Vec<&str> = told.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert_eq!(told, ["event renewing example.org", "event renewed example.org", "notify example.org"]);
    drop(server);
}

/// `MDRequireHttps`, with what Apache 2.4.71 answers.
#[test]
fn plain_requests_are_sent_to_https() {
    if !PEBBLE.is_there("plain_requests_are_sent_to_https") {
        return;
    }
    let site = Site::with(HELLO);
    let lines = lines(&site, "MDRequireHttps permanent");
    let pebble = Pebble::start(&site, &TIDY);
    let server = start(Mpm::Event, &site, &lines);
    let answer = served(&site, &pebble.client());
    assert!(answer.contains("\r\nStrict-Transport-Security: max-age=15768000\r\n"), "{answer}");
    let mut client = server.client();
    for (method, target, status, path) in [
        ("GET", "/x%20y?z=1", 301, "/x%20y?z=1"),
        ("HEAD", "/x", 301, "/x"),
        ("POST", "/x", 308, "/x"),
        ("GET", "http://one.example.org/y", 301, "/y"),
        ("GET", "/.well-known/other", 403, ""),
    ] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 0\r\n\r\n");
        let response = client.request(request);
        let location = response.field("Location").unwrap_or_default();
        let want = if status == 403 { String::new() } else { format!("https://{NAME}{path}") };
        assert_eq!((response.status, location), (status, want.as_str()), "{method} {target}");
    }
}

/// Two machines share a store: one of them orders, whichever has the lock; the machine that the authority asks shows the proof, and both
/// serve the same certificate.
#[test]
fn machines_share_a_store() {
    if !PEBBLE.is_there("machines_share_a_store") {
        return;
    }
    let (site, other) = (Site::with(HELLO), Site::with(HELLO));
    let lines = lines(&site, "MDStoreLocks on");
    let pebble = Pebble::start(&site, &TIDY);
    let shared = |line: &str| line.replace("MDStoreDir md", &format!("MDStoreDir {}/md", site.path()));
    let at_other = shared(&lines).replace("MDCACertificateFile ca", &format!("MDCACertificateFile {}/ca", site.path()));
    let _servers = [start(Mpm::Percore, &site, &lines), start(Mpm::Percore, &other, &at_other)];
    for machine in [&site, &other] {
        assert!(served(machine, &pebble.client()).ends_with("hello\n"));
    }
    let orders = [&site, &other].map(|machine| machine.read("logs/error_log").matches("new certificates").count());
    assert_eq!(orders.iter().sum::<usize>(), 1, "{orders:?}");
}
