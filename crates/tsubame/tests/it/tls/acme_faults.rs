//! Obstacles between the server and its certificates: broken authorities, full disks, proxies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;

const NAME: &str = "one.example.org";
const HTTPS: u16 = 8443;

/// A wrong answer from an authority.
#[derive(Clone, Copy)]
struct Says<'a> {
    /// The name that is to be proven.
    name: &'a str,
    /// Whether it is proven already; or `stale`: no nonce is good enough for an order.
    status: &'a str,
    /// `Retry-After`
    later: &'a str,
}

/// An authority without TLS.
struct Authority {
    address: SocketAddr,
    /// How often it was asked for anything.
    asked: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Authority {
    fn start(site: &Site, says: Says<'_>) -> Authority {
        let listener = TcpListener::bind((site.ip, 0)).expect("bind");
        let address = listener.local_addr().expect("address");
        let (asked, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let answers = answers(address, says);
        let (count, end) = (asked.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            for client in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
                // A client that goes too early gets nothing.
                let _ = client.and_then(|client| answer(client, &answers));
            }
        });
        Authority { address, asked, is_over, thread: Some(thread) }
    }

    /// A server that has certificates ordered there.
    fn client<'a>(&self, site: &'a Site) -> Server<'a> {
        self.client_of(site, &self.address.to_string(), "")
    }

    /// The same with another name for it, and these lines besides.
    fn client_of<'a>(&self, site: &'a Site, authority: &str, more: &str) -> Server<'a> {
        let lines = format!(
            "MDCertificateAuthority http://{authority}/directory\nMDCertificateAgreement accepted\n\
             MDContactEmail admin@example.org\nMDStoreDir md\nMDPortMap http:{PORT} https:{HTTPS}\nMDomain {NAME}\n{more}\n\
             Listen ${{ADDR}}:{HTTPS}\n<VirtualHost *:{HTTPS}>\nServerName {NAME}\nSSLEngine on\n</VirtualHost>\n"
        );
        let server = Server::start(Mpm::Event, site, &lines);
        server.allow("AH10085");
        server.allow("registered new account");
        server
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Paths, and their resources, in RFC 8555's order.
fn answers(address: SocketAddr, says: Says<'_>) -> Vec<(&'static str, String)> {
    let Says { name, status, later } = says;
    let url = |path: &str| format!("http://{address}{path}");
    let of = |path: &str, fields: &str, body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nReplay-Nonce: nonce\r\nLocation: {}\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            url(path),
            body.len()
        )
    };
    let directory = format!(
        r#"{{"newNonce": "{}", "newAccount": "{}", "newOrder": "{}"}}"#,
        url("/nonce"),
        url("/account"),
        url("/orders")
    );
    let order = format!(
        r#"{{"status": "pending", "authorizations": ["{}"], "finalize": "{}"}}"#,
        url("/authorization"),
        url("/finalize")
    );
    let authorization = format!(
        r#"{{"identifier": {{"type": "dns", "value": "{name}"}}, "status": "{status}",
        "challenges": [{{"type": "http-01", "url": "{}", "token": "token", "status": "{status}"}}]}}"#,
        url("/challenge")
    );
    let later = format!("Retry-After: {later}\r\n");
    let ordered = match status {
        "stale" => {
            let problem = r#"{"type": "urn:ietf:params:acme:error:badNonce", "detail": "that one is stale"}"#;
            of("/orders", "", problem).replacen("200 OK", "400 Bad Request", 1)
        }
        _ => of("/order/1", "", &order),
    };
    vec![
        ("/directory", of("/directory", "", &directory)),
        ("/nonce", of("/nonce", "", "")),
        ("/account", of("/account/1", "", "{}")),
        ("/orders", ordered),
        ("/authorization", of("/authorization", &later, &authorization)),
        ("/order/1", of("/order/1", &later, &order)),
    ]
}

/// Answers one request, and one to a proxy in front of it as if there were one.
fn answer(client: TcpStream, answers: &[(&str, String)]) -> std::io::Result<()> {
    let mut reader = BufReader::new(&client);
    let mut head = head(&mut reader)?;
    if let Some(wanted) = head.strip_prefix("CONNECT ") {
        if !wanted.starts_with("authority.invalid:") {
            return (&client).write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n");
        }
        (&client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        head = self::head(&mut reader)?;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
    reader.read_exact(&mut vec![0; length])?;
    let path = head.split(' ').nth(1).unwrap_or_default();
    let found = answers.iter().find(|(known, _)| *known == path);
    let text = found.map_or("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", |(_, text)| text.as_str());
    (&client).write_all(text.as_bytes())
}

/// Reads a head up to its end or the end of the connection.
fn head(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && reader.read_until(b'\n', &mut head)? > 0 {}
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Names that were not ordered become no paths: the process that asks is root.
#[test]
fn an_authority_names_no_directories() {
    for name in ["../../kept", "/kept", "other.example.org", ""] {
        let site = Site::new();
        let kept = site.file("kept/file", "kept");
        let name = if name == "/kept" { format!("{}/kept", site.path()) } else { name.into() };
        let authority = Authority::start(&site, Says { name: &name, status: "pending", later: "0" });
        let server = authority.client(&site);
        let failure = server.logged("AH10056: processing one.example.org: ");
        assert!(failure.contains("which was not ordered"), "{failure}");
        assert_eq!(std::fs::read_dir(site.root.join("kept")).expect("directory").count(), 1, "{name}");
        assert!(kept.exists() && !site.root.join("md/challenges/other.example.org").exists(), "{name}");
    }
}

/// An authority may refuse a nonce at any time, which is no failure of the order (RFC 8555 section 6.5): with one refusal in twenty,
/// three in a row are not rare enough to wait for half a minute after them.
#[test]
fn stale_nonces_are_replaced_at_once() {
    let site = Site::new();
    let authority = Authority::start(&site, Says { name: NAME, status: "stale", later: "0" });
    let server = authority.client(&site);
    let failure = server.logged("AH10056: processing one.example.org: ");
    assert!(failure.contains("that one is stale"), "{failure}");
    let asked = authority.asked.load(Ordering::Relaxed);
    assert!((12..40).contains(&asked), "{asked} questions, of which at least twelve are orders");
}

/// The longest time that there is to say.
#[test]
fn an_authority_may_ask_for_any_patience() {
    let site = Site::new();
    let says = Says { name: NAME, status: "valid", later: "18446744073709551615" };
    let authority = Authority::start(&site, says);
    let server = authority.client(&site);
    let failure = server.logged("AH10056: processing one.example.org: ");
    assert!(failure.contains("the authority takes too long"), "{failure}");
    let job: serde_json::Value = serde_json::from_str(&site.read("md/staging/one.example.org/job.json")).expect("JSON");
    let (next, now) = (job["next-run"].as_i64().expect("a time"), sys::time::realtime().as_secs().cast_signed());
    let days = (next - now) / (24 * 60 * 60);
    assert!((6..=7).contains(&days), "it is obeyed for a week: {days}");
}

/// If the server cannot store its progress, it orders nothing: otherwise it would contact the authority all the time.
#[test]
fn nothing_is_ordered_without_a_place_to_keep_it() {
    let site = Site::new();
    site.file("md/staging/one.example.org/job.json/in-the-way", "");
    let authority = Authority::start(&site, Says { name: NAME, status: "valid", later: "0" });
    let server = authority.client(&site);
    server.logged("a md daemon cannot go on");
    server.logged("restarting the md daemon");
    assert_eq!(authority.asked.load(Ordering::Relaxed), 0);
}

/// `MDHttpProxy`: the authority's name is looked for by the proxy, which may refuse to lead there.
#[test]
fn a_proxy_leads_to_the_authority() {
    let site = Site::new();
    let authority = Authority::start(&site, Says { name: "another.example.org", status: "pending", later: "0" });
    let proxy = format!("MDHttpProxy http://{}", authority.address);
    let server = authority.client_of(&site, "authority.invalid", &proxy);
    let failure = server.logged("AH10056: processing one.example.org: ");
    // What it answers to the first request leads away from the name that the proxy knows.
    assert!(failure.contains("the proxy (MDHttpProxy) answers 403"), "{failure}");
    assert!(authority.asked.load(Ordering::Relaxed) > 1);
}

/// A temporary certificate is kept as long as it fits; proofs that a killed order has left are cleared away.
#[test]
fn a_start_keeps_what_fits_and_clears_what_is_over() {
    let site = Site::new();
    let authority = Authority::start(&site, Says { name: "another.example.org", status: "pending", later: "0" });
    let files = || ["pubcert", "privkey"].map(|stem| site.read(&format!("md/domains/{NAME}/fallback-{stem}.pem")));
    // Each try fails, perhaps before the end of the server.
    let start = |more: &str| {
        let server = authority.client_of(&site, &authority.address.to_string(), more);
        server.allow("AH10056");
        server
    };
    drop(start(""));
    let first = files();
    site.file(format!("md/challenges/{NAME}/acme-tls-alpn-01.cert.pem"), "left over");
    {
        let _server = start("");
        let is_gone = || !site.root.join("md/challenges").join(NAME).join("acme-tls-alpn-01.cert.pem").exists();
        until("the end of the proof", || is_gone().then_some(()));
    }
    assert_eq!(files(), first);
    // Another name, and a key that is not the certificate's.
    let more = format!(
        "<VirtualHost *:{HTTPS}>\nServerName two.example.org\nServerAlias {NAME}\nSSLEngine on\n</VirtualHost>"
    );
    drop(start(&more));
    let second = files();
    assert!(second.iter().zip(&first).all(|(now, before)| now != before), "it does not have the new name");
    site.file(format!("md/domains/{NAME}/fallback-privkey.pem"), &first[1]);
    drop(start(""));
    assert!(files()[1] != first[1], "the pair is made anew");
}

/// Each authority has a queue of its own.
#[test]
fn a_silent_authority_holds_up_no_other() {
    let site = Site::new();
    let silent = TcpListener::bind((site.ip, 0)).expect("bind");
    let authority = Authority::start(&site, Says { name: "another.example.org", status: "pending", later: "0" });
    let mute = |index: usize| {
        format!(
            "<MDomainSet silent{index}.example.org>\nMDCertificateAuthority http://{}/directory\nMDRenewMode always\n</MDomainSet>\n",
            silent.local_addr().expect("address")
        )
    };
    let others: String = (0..3).map(mute).collect();
    let lines = format!(
        "MDCertificateAuthority http://{}/directory\nMDCertificateAgreement accepted\n\
         MDContactEmail admin@example.org\nMDStoreDir md\nMDPortMap http:{PORT} https:{HTTPS}\n{others}MDomain {NAME}\n\
         Listen ${{ADDR}}:{HTTPS}\n<VirtualHost *:{HTTPS}>\nServerName {NAME}\nSSLEngine on\n</VirtualHost>\n",
        authority.address
    );
    let server = Server::start(Mpm::Event, &site, &lines);
    ["AH10085", "registered new account"].iter().for_each(|text| server.allow(*text));
    let (asked, _) = silent.accept().expect("a question to the silent one");
    server.logged("AH10056: processing one.example.org: ");
    assert!(!server.log().contains("processing silent"), "{}", server.log());
    // The process that asks lets go.
    drop((asked, silent));
    (0..3).for_each(|index| drop(server.logged(&format!("AH10056: processing silent{index}.example.org: "))));
}
