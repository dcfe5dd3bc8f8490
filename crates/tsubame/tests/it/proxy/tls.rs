//! Encrypted connections to servers behind this one: `https://` and `wss://`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::harness::frames::{Ended, Frames, request};
use crate::harness::mpm::{Mpm, test_name, under_every_mpm};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::proxy::secure_origin::{Authority, Made, Manner, SecureOrigin};

/// The host that clients ask for, and the name in the certificates.
const NAME: &str = "localhost";
const YEARS: (i32, i32) = (2020, 2120);
/// Apache's tests load mod_ssl only where they need it.
const COMMON: &str = "<IfModule !ssl_module>\nLoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n</IfModule>\n\
                      ProxyPreserveHost On\n";

/// The certificates of a test.
struct Certificates {
    authority: Authority,
    other: Authority,
    good: Made,
    client: Made,
}

impl Certificates {
    fn new() -> Certificates {
        let (authority, other) = (Authority::new("authority"), Authority::new("other"));
        let good = authority.made(7, &[NAME], YEARS);
        let client = authority.made(8, &["client.example"], YEARS);
        Certificates { authority, other, good, client }
    }

    /// Puts what configurations name into a place.
    fn write(&self, site: &Site) {
        site.file("conf/ca.pem", &self.authority.pem);
        site.file("conf/other.pem", &self.other.pem);
        site.file("conf/machine.pem", format!("{}{}", self.client.pem, self.client.key));
        site.file("conf/half.pem", &self.client.pem);
        site.file("conf/wrong.pem", format!("{}{}", self.client.pem, self.good.key));
        site.file("conf/none.crl", self.authority.list(&[]));
        site.file("conf/revoked.crl", self.authority.list(&[7]));
    }

    fn origin(&self, site: &Site) -> SecureOrigin {
        self.write(site);
        SecureOrigin::start(site.ip, 0, Manner::tls(&self.good, None))
    }
}

/// Servers, by the names in the table below.
fn manners(all: &Certificates) -> [(&'static str, Manner); 7] {
    let made = |names: &[&str], years| Manner::tls(&all.authority.made(9, names, years), None);
    [
        ("good", Manner::tls(&all.good, None)),
        ("expired", made(&[NAME], (2019, 2020))),
        ("early", made(&[NAME], (2110, 2120))),
        ("misnamed", made(&["elsewhere.example"], YEARS)),
        ("asks", Manner::tls(&all.good, Some(&all.authority))),
        ("garbage", Manner::Garbage),
        ("silence", Manner::Silence),
    ]
}

const VERIFY: &str = "SSLProxyVerify require\nSSLProxyCACertificateFile conf/ca.pem\n";

/// Which server, lines in its section, the status; `VERIFY` stands for the lines above.
const TABLE: &[(&str, &str, u16)] = &[
    ("good", "", 200),
    ("good", "VERIFY", 200),
    ("good", "SSLProxyVerify require\n", 500),
    ("good", "SSLProxyVerify require\nSSLProxyCACertificateFile conf/other.pem\n", 500),
    ("good", "SSLProxyVerify optional\nSSLProxyCACertificateFile conf/other.pem\n", 500),
    ("good", "SSLProxyVerify optional_no_ca\nSSLProxyCACertificateFile conf/other.pem\n", 200),
    ("good", "SSLProxyCACertificateFile conf/other.pem\n", 200),
    ("good", "VERIFYSSLProxyVerifyDepth 0\n", 500),
    ("good", "VERIFYSSLProxyCARevocationCheck leaf\nSSLProxyCARevocationFile conf/none.crl\n", 200),
    ("good", "VERIFYSSLProxyCARevocationCheck leaf\nSSLProxyCARevocationFile conf/revoked.crl\n", 500),
    ("good", "VERIFYSSLProxyCARevocationCheck chain\nSSLProxyCARevocationFile conf/revoked.crl\n", 500),
    ("good", "SSLProxyCARevocationCheck leaf\nSSLProxyCARevocationFile conf/revoked.crl\n", 200),
    ("good", "SSLProxyProtocol TLSv1.2\n", 200),
    ("good", "SSLProxyEngine off\n", 500),
    ("expired", "", 500),
    ("expired", "SSLProxyCheckPeerExpire off\n", 200),
    ("expired", "VERIFYSSLProxyCheckPeerExpire off\n", 500),
    ("early", "", 500),
    ("misnamed", "", 500),
    ("misnamed", "VERIFY", 500),
    ("misnamed", "SSLProxyCheckPeerName off\n", 200),
    ("misnamed", "SSLProxyCheckPeerName off\nSSLProxyCheckPeerCN on\n", 500),
    ("misnamed", "SSLProxyCheckPeerCN off\n", 200),
    ("misnamed", "SSLProxyCheckPeerCN off\nSSLProxyCheckPeerName on\n", 500),
    ("asks", "", 502),
    ("asks", "SSLProxyMachineCertificateFile conf/machine.pem\n", 200),
    ("garbage", "", 500),
    ("silence", "", 500),
];

/// The statuses of the answers for each row of the table, from a server that `start` starts.
fn statuses<S>(site: &Site, all: &Certificates, start: impl FnOnce(&str) -> S) -> (S, Vec<u16>) {
    all.write(site);
    let origins: Vec<_> = (0..)
        .zip(manners(all))
        .map(|(number, (name, manner))| (name, SecureOrigin::start(site.ip, number, manner)))
        .collect();
    let mut text = format!("{COMMON}SSLProxyEngine on\n");
    for (row, (server, lines, _)) in TABLE.iter().enumerate() {
        let address = origins.iter().find(|(name, _)| name == server).expect("a server").1.address;
        let (url, lines) = (format!("https://{address}/{row}/"), lines.replace("VERIFY", VERIFY));
        // The others may be slow.
        let timeout = if *server == "silence" { " timeout=1" } else { "" };
        text += &format!("ProxyPass /{row}/ {url}{timeout}\n<Proxy {url}>\n{lines}</Proxy>\n");
    }
    let server = start(&text);
    let status = |row| Client::connect(site.address()).get(&format!("/{row}/x")).status;
    (server, (0..TABLE.len()).map(status).collect())
}

/// Which certificates are accepted is decided as by Apache.
#[test]
fn who_is_trusted() {
    let all = Certificates::new();
    let expected = |found: &[u16], who: &dyn std::fmt::Display| {
        let wrong = TABLE.iter().zip(found).filter(|((_, _, want), found)| want != *found);
        let wrong: Vec<_> = wrong.map(|(row, found)| format!("{row:?}: {found}")).collect();
        assert!(wrong.is_empty(), "{who}:\n{}", wrong.join("\n"));
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let (server, found) = statuses(&site, &all, |text| Server::start(mpm, &site, text));
        server.allow_everything("most of them are not trusted");
        expected(&found, &mpm);
        for text in [
            "AH02003: SSL Proxy connect failed: Certificate Verification: Error (20): unable to get local issuer certificate [",
            "AH02003: SSL Proxy connect failed: Certificate Verification: Error (23): certificate revoked [",
            "AH02003: SSL Proxy connect failed: Certificate Verification: Certificate Chain too long",
            "AH02003: SSL Proxy connect failed: it has been silent for too long",
            "AH02004: SSL Proxy: Peer certificate is expired",
            "AH02411: SSL Proxy: Peer certificate does not match for hostname localhost",
            "AH02005: SSL Proxy: Peer certificate CN mismatch: Certificate CN: made Requested hostname: localhost",
            "AH00898: Error during SSL Handshake with remote server returned by /3/x",
            "AH01961: failed to enable ssl support [Hint: if using mod_ssl, see SSLProxyEngine]",
        ] {
            server.logged(text);
        }
    }
    if oracle::is_there("who_is_trusted") {
        let site = Site::new();
        let (_apache, found) = statuses(&site, &all, |text| Apache::start(&site, text));
        expected(&found, &"Apache");
    }
}

/// One handshake serves many requests. Where chains are verified, each handshake is a whole one: nobody would judge the chain of a
/// resumed session again.
#[test]
fn connections_and_sessions_are_kept() {
    let (site, all) = (Site::new(), Certificates::new());
    let origin = all.origin(&site);
    let text = format!(
        "{COMMON}SSLProxyEngine on\n{VERIFY}ProxyPass /app/ https://{}/\nStartServers 1\nMaxRequestWorkers 1\nServerLimit 1\n",
        origin.address
    );
    let server = Server::start(Mpm::Prefork, &site, &text);
    let mut client = server.client();
    for _ in 0..20 {
        assert_eq!(client.get("/app/x").text(), "0 certificates\n");
    }
    assert_eq!(origin.counts(), (1, 0));
    assert_eq!(*origin.names.lock().expect("no panic"), [Some(NAME.to_string())]);
    origin.cut_all();
    assert_eq!(client.get("/app/x").status, 200, "a lost connection is nothing that the client notices");
    assert_eq!(origin.counts(), (2, 0));
    // The server ends the session after a response, and leaves the connection open.
    assert_eq!(client.get("/app/then-ends").text(), "hi");
    assert_eq!(client.get("/app/x").text(), "0 certificates\n");
    assert_eq!(origin.counts(), (3, 0));
}

/// Connections made with other settings, or for another name, are other connections.
#[test]
fn connections_are_not_shared_with_other_settings() {
    let (site, all) = (Site::new(), Certificates::new());
    let origin = all.origin(&site);
    let url = format!("https://{}", origin.address);
    let mut text = format!(
        "{COMMON}SSLProxyEngine on\nSSLProxyCheckPeerName off\nStartServers 1\nMaxRequestWorkers 1\nServerLimit 1\n"
    );
    for (name, lines) in
        [("a", ""), ("b", VERIFY), ("c", "SSLProxyMachineCertificateFile conf/machine.pem\n"), ("d", "")]
    {
        text += &format!("ProxyPass /{name}/ {url}/{name}/\n<Proxy {url}/{name}/>\n{lines}</Proxy>\n");
    }
    let server = Server::start(Mpm::Prefork, &site, &text);
    let mut client = server.client();
    for (path, host, count) in [
        ("/a/x", NAME, 1),
        ("/b/x", NAME, 2),
        ("/c/x", NAME, 3),
        ("/d/x", NAME, 3),
        ("/a/x", "other.example", 4),
        ("/a/x", NAME, 4),
        ("/b/x", NAME, 4),
        ("/a/x", "127.0.0.1", 5),
    ] {
        let answer = client.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((answer.status, origin.counts()), (200, (count, 0)), "{path} {host}");
    }
    let names = origin.names.lock().expect("no panic").clone();
    assert_eq!(names.last(), Some(&None), "an address is no name: {names:?}");
}

under_every_mpm! {
    /// Bodies go through in both directions, whatever their length.
    fn large_bodies(mpm: Mpm) {
        let (site, all) = (Site::new(), Certificates::new());
        let origin = all.origin(&site);
        let server = Server::start(
            mpm, &site, &format!("{COMMON}SSLProxyEngine on\n{VERIFY}ProxyPass /app/ https://{}/\n", origin.address)
        );
        let body = "x".repeat(3_000_000);
        let mut client = server.client();
        for _ in 0..2 {
            let head = format!("POST /app/x HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {}\r\n\r\n", body.len());
            let text = client.request(format!("{head}{body}")).text();
            assert!(text == format!("0 certificates\n{body}"), "{mpm}: {} bytes", text.len());
        }
        assert_eq!(origin.connections.load(Ordering::Relaxed), 1);
    }

    /// A response that only the end of the connection ends is complete if TLS says so. Anybody can cut a connection off.
    fn the_end_of_a_response(mpm: Mpm) {
        let (site, all) = (Site::new(), Certificates::new());
        let origin = all.origin(&site);
        let server = Server::start(
            mpm, &site, &format!("{COMMON}SSLProxyEngine on\nProxyPass /app/ https://{}/\n", origin.address)
        );
        assert_eq!(server.get("/app/ended").text(), "until the end");
        server.announce("AH01110: error reading response: it closed the connection without ending the TLS session");
        let mut client = server.client();
        client.send(format!("GET /app/cut HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
        let whole = client.beginning_to("GET").map(|(_, whole)| whole.is_ok());
        assert_ne!(whole.ok(), Some(true), "{mpm}");
    }

    fn web_sockets(mpm: Mpm) {
        let (site, all) = (Site::new(), Certificates::new());
        let origin = all.origin(&site);
        let text = format!(
            "{COMMON}Protocols h2c http/1.1\nH2WebSockets on\nSSLProxyEngine on\n{VERIFY}ProxyPass /ws/ wss://{0}/\n\
             ProxyPass /up/ https://{0}/a/ upgrade=websocket\n",
            origin.address
        );
        let server = Server::start(mpm, &site, &text);
        let long = "hello".repeat(50_000);
        for path in ["/ws/socket", "/up/socket"] {
            let mut client = server.client();
            let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: k\r\n\r\n";
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{fields}"));
            client.send(&long);
            client.half_close();
            let (bytes, _) = client.rest();
            let text = String::from_utf8_lossy(&bytes);
            let (head, said) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{mpm}: {head}");
            assert!(said == format!("first,{}bye", long.to_uppercase()), "{mpm}: {} bytes", said.len());
        }
        assert_eq!(server.get("/ws/x").text(), "0 certificates\n", "a request as any other");
        let mut client = Frames::connect(server.address(), &[]);
        let stream = client.ask(&[&request("CONNECT", "/ws/socket")[..], &[(":protocol", "websocket")]].concat(), false);
        assert!(client.send(0, 0, stream, b"hello") && client.send(0, 1, stream, b""), "data and its end");
        let Ended::Answered(200, body) = client.ended(stream) else { panic!("{mpm}: no tunnel") };
        assert_eq!(String::from_utf8_lossy(&body), "first,HELLObye", "{mpm}");
    }
}

/// A request for which several sections apply gets what all of them say, from files that were read at the start.
#[test]
fn sections_add_up() {
    let (site, all) = (Site::new(), Certificates::new());
    let origin = all.origin(&site);
    let url = format!("https://{}", origin.address);
    let section = |path: &str, lines: &str| format!("<Proxy {url}{path}>\n{lines}</Proxy>\n");
    let text = [
        format!("{COMMON}ProxyPass /a/ {url}/a/\nProxyPass /b/ {url}/b/\nProxyPass /c/ {url}/c/\n"),
        section("", "SSLProxyEngine on\n"),
        section("/a/", "SSLProxyVerify require\nSSLProxyCACertificateFile conf/other.pem\n"),
        section("/a/x", "SSLProxyCheckPeerName off\n"),
        section("/b/", VERIFY),
        section("/c/", "SSLProxyCACertificateFile conf/mime.types\n"),
    ]
    .concat();
    let server = Server::start(Mpm::Percore, &site, &text);
    server.announce("AH02003: SSL Proxy connect failed: Certificate Verification: Error (20)");
    server.announce("AH00898: Error during SSL Handshake with remote server returned by /a/x");
    server.announce("AH01895: Unable to configure verify locations (SSLProxyCACertificateFile): ");
    server.announce("AH00961: https: failed to enable ssl support for ");
    let statuses = ["/a/x", "/b/x", "/c/x"].map(|path| server.get(path).status);
    assert_eq!(statuses, [500, 200, 500]);
}

/// A server that does not answer the handshake keeps nobody else waiting.
#[test]
fn a_silent_server_holds_up_nobody() {
    for mpm in [Mpm::Percore, Mpm::Event] {
        let (site, all) = (Site::with([("a.txt", "a page")]), Certificates::new());
        let origin = all.origin(&site);
        let silent = SecureOrigin::start(site.ip, 1, Manner::Silence);
        let text = format!(
            "{COMMON}SSLProxyEngine on\nProxyTimeout 20\nProxyPass /app/ https://{}/\nProxyPass /silent/ https://{}/\n",
            origin.address, silent.address
        );
        let server = Server::start(mpm, &site, &text);
        server.allow_everything("clients give up");
        let waiting: Vec<Client> = (0..5)
            .map(|_| {
                let mut client = server.client();
                client.send(format!("GET /silent/x HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
                client
            })
            .collect();
        until("their connections", || (silent.counts().0 == waiting.len()).then_some(()));
        let begun = Instant::now();
        assert_eq!(server.get("/a.txt").text(), "a page");
        assert_eq!(server.get("/app/x").text(), "0 certificates\n");
        assert!(begun.elapsed() < Duration::from_secs(10), "{mpm}");
        silent.cut_all();
        for mut client in waiting {
            assert_eq!(client.response().status, 500, "{mpm}");
        }
    }
}

/// A configuration that cannot be served is refused at the start, with the line that is wrong.
#[test]
fn what_cannot_be_encrypted_is_refused() {
    let all = Certificates::new();
    for (lines, why) in [
        ("SSLProxyProtocol TLSv1 TLSv1.1", "AH02231: No SSL protocols available [hint: SSLProtocol] at "),
        (
            "SSLProxyProtocol TLSv1.2\nSSLProxyCipherSuite RC4-SHA",
            "AH01898: Unable to configure permitted SSL ciphers at ",
        ),
        ("SSLProxyCACertificateFile conf/mime.types", "AH01895: Unable to configure verify locations"),
        ("SSLProxyCARevocationCheck leaf", "AH01899: Host localhost:80: CRL checking has been enabled"),
        (
            "SSLProxyCARevocationCheck leaf\nSSLProxyCARevocationFile conf/mime.types",
            "AH01901: unable to configure X.509 CRL storage",
        ),
        ("SSLProxyMachineCertificateFile conf/half.pem", "AH02206: no client certs found for SSL proxy"),
        (
            "SSLProxyMachineCertificateFile conf/wrong.pem",
            "AH02326: proxy client certificate and private key do not match",
        ),
    ] {
        for text in [
            format!("SSLProxyEngine on\n{lines}\n"),
            format!("<Proxy https://a.example/>\nSSLProxyEngine on\n{lines}\n</Proxy>\n"),
        ] {
            let site = Site::new();
            all.write(&site);
            site.configure(Mpm::Percore, &text);
            let output = Start::new(&site, Mpm::Percore).command().output().expect("run");
            let said = format!("{}{}", String::from_utf8_lossy(&output.stderr), site.read("logs/error_log"));
            let place = site.root.join("conf/httpd.conf:");
            let line = said.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{text}: {said}"));
            assert!(line.contains(place.to_str().expect("a plain path")), "{text}: {line}");
            assert_eq!(output.status.code(), Some(1), "{text}: {said}");
        }
    }
    // Without encrypted connections nothing is read, as in Apache.
    let site = Site::with([("a.txt", "a page")]);
    let server = Server::start(Mpm::Percore, &site, "SSLProxyCACertificateFile conf/mime.types\n");
    assert_eq!(server.get("/a.txt").text(), "a page");
}
