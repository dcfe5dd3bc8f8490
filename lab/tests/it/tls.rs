//! Loads over TLS and HTTP/2, against scripted servers: the results are counted exactly.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::scripted::{Encrypted, Identity, Manner, attend, attend_http2, listen};
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

fn load(arguments: &[&str]) -> (Value, Output) {
    let output = Command::new(env!("CARGO_BIN_EXE_tsubame-lab")).args(["load", "--json"]).args(arguments).output();
    let output = output.expect("the laboratory");
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}")), output)
}

fn results(arguments: &[&str]) -> Value {
    load(arguments).0
}

/// A server that reads a request, and writes `answer`.
fn written(identity: &Identity, answer: &'static str, end: fn(&mut Encrypted)) -> String {
    let address = identity.serve(&[], false, move |stream| {
        let mut request = [0; 4096];
        if stream.read(&mut request).is_ok_and(|length| length > 0) {
            stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).expect("write an answer");
            end(stream);
        }
    });
    format!("https://localhost:{}/", address.port())
}

/// Announces the end.
fn goodbye(stream: &mut Encrypted) {
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

#[test]
fn handshakes_are_counted_and_sessions_go_on() {
    let identity = Identity::new("counted", false);
    let server = identity.serve(&["http/1.1"], true, |stream| {
        attend(stream);
        goodbye(stream);
    });
    let url = format!("https://localhost:{}/", server.port());
    let ca = identity.certificate.to_str().expect("a path");
    let kept = results(&["-n", "40", "-c", "4", "--cacert", ca, &url]);
    assert_eq!((&kept["answers"], &kept["good"], &kept["failures"]), (&40.into(), &40.into(), &json!({})), "{kept}");
    assert_eq!((&kept["connections"], &kept["verified"]), (&4.into(), &true.into()));
    assert_eq!(kept["handshakes"], json!({"full": 4, "resumed": 0}));
    assert_eq!(kept["tls"]["version"], "TLSv1.3", "{kept}");
    assert_eq!((&kept["tls"]["key_bits"], &kept["tls"]["group"]), (&256.into(), &"X25519 253 bits".into()));
    assert!(kept["handshake"]["min_us"].as_u64() > Some(0), "{kept}");

    for version in ["1.2", "1.3"] {
        let closed = results(&["-n", "20", "-c", "1", "--close", "--tls", version, &url]);
        assert_eq!(closed["handshakes"], json!({"full": 1, "resumed": 19}), "{version}: {closed}");
        assert_eq!((&closed["answers"], &closed["verified"]), (&20.into(), &false.into()));
        let full = results(&["-n", "20", "-c", "1", "--close", "--no-resume", "--tls", version, &url]);
        assert_eq!(full["handshakes"], json!({"full": 20, "resumed": 0}), "{version}: {full}");
    }
    let chosen = results(&["-n", "1", "--tls", "1.2", "--ciphers", "AES128", "--groups", "P-384", &url]);
    assert_eq!(chosen["tls"]["suite"], "ECDHE-ECDSA-AES128-GCM-SHA256", "{chosen}");
    assert_eq!(chosen["tls"]["group"], "ECDH secp384r1 384 bits", "{chosen}");
    let text =
        Command::new(env!("CARGO_BIN_EXE_tsubame-lab")).args(["load", "-n", "1", &url]).output().expect("a load");
    assert!(String::from_utf8_lossy(&text.stdout).contains("; the certificate is not verified"), "{text:?}");
}

#[test]
fn untrusted_servers_get_no_request() {
    let (identity, stranger) = (Identity::new("believed", false), Identity::new("stranger", false));
    let server = identity.serve(&[], false, |stream| {
        attend(stream);
        assert!(stream.conn.is_handshaking() || stream.conn.alpn_protocol().is_none());
    });
    let (url, ca) = (format!("https://localhost:{}/", server.port()), stranger.certificate.to_str().expect("a path"));
    let (unknown, output) = load(&["-n", "5", "--cacert", ca, &url]);
    assert_eq!((&unknown["answers"], &unknown["failures"]), (&0.into(), &json!({"tls": 5})), "{unknown}");
    assert!(!output.status.success());
    // A different name from that in the certificate.
    let ca = identity.certificate.to_str().expect("a path");
    let named = results(&["-n", "2", "--cacert", ca, "--sni", "example.org", &url]);
    assert_eq!(named["failures"], json!({"tls": 2}), "{named}");
    let nobody = results(&["-n", "1", "--verify", &url]);
    assert_eq!(nobody["failures"], json!({"tls": 1}), "{nobody}");
}

#[test]
fn servers_may_ask_who_comes() {
    let identity = Identity::new("asks", true);
    let server = identity.serve(&[], false, attend);
    let url = format!("https://localhost:{}/", server.port());
    let shown = results(&["-n", "10", "-c", "2", "--cert", identity.both.to_str().expect("a path"), &url]);
    assert_eq!((&shown["answers"], &shown["failures"]), (&10.into(), &json!({})), "{shown}");
    let hidden = results(&["-n", "3", "-c", "1", "--tls", "1.2", &url]);
    assert_eq!((&hidden["answers"], &hidden["failures"]), (&0.into(), &json!({"tls": 3})), "{hidden}");
}

#[test]
fn servers_without_tls_are_reported() {
    let plain = listen(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let url = format!("https://localhost:{}/", plain.port());
    let wrong = results(&["-n", "3", "-c", "1", &url]);
    assert_eq!((&wrong["answers"], &wrong["failures"]), (&0.into(), &json!({"tls": 3})), "{wrong}");
    let silent = listen(|mut stream| {
        // Until the client gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let url = format!("https://localhost:{}/", silent.port());
    let late = results(&["-n", "2", "-c", "1", "--timeout", "100ms", &url]);
    assert_eq!(late["failures"], json!({"timeout": 2}), "{late}");
}

/// An end without an announcement may be an attacker's (RFC 8446 section 6.1).
#[test]
fn truncation_and_resets_are_failures() {
    let identity = Identity::new("truncated", false);
    let whole = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end";
    let good = results(&["-n", "5", "-c", "1", &written(&identity, whole, goodbye)]);
    assert_eq!(
        (&good["good"], &good["failures"], &good["bytes"]["body"]),
        (&5.into(), &json!({}), &65.into()),
        "{good}"
    );
    let cut = results(&["-n", "5", "-c", "1", &written(&identity, whole, |_| {})]);
    assert_eq!((&cut["answers"], &cut["failures"]), (&0.into(), &json!({"read": 5})), "{cut}");
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello";
    for end in [goodbye, |_: &mut Encrypted| {}] {
        let short = results(&["-n", "5", "-c", "1", &written(&identity, short, end)]);
        assert_eq!((&short["answers"], &short["failures"]), (&0.into(), &json!({"read": 5})), "{short}");
    }
    let reset = written(&identity, short, |stream| {
        set_socket_linger(&stream.sock, Some(std::time::Duration::ZERO)).expect("an end without waiting");
    });
    let reset = results(&["-n", "5", "-c", "1", &reset]);
    assert_eq!((&reset["answers"], &reset["failures"]), (&0.into(), &json!({"reset": 5})), "{reset}");
    // A whole answer counts, whatever comes after it.
    let complete = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let complete = results(&["-n", "5", "-c", "1", &written(&identity, complete, |_| {})]);
    assert_eq!((&complete["answers"], &complete["failures"]), (&5.into(), &json!({})), "{complete}");
}

#[test]
fn streams_are_as_many_as_a_server_takes() {
    let manner = Manner { streams: 7, answers: usize::MAX, refuses: usize::MAX };
    let clear = listen(move |mut stream| attend_http2(&mut stream, manner));
    let url = format!("http://localhost:{}/", clear.port());
    let all = results(&["-n", "500", "-c", "3", "--h2c", "-m", "100", &url]);
    assert_eq!((&all["good"], &all["failures"], &all["connections"]), (&500.into(), &json!({}), &3.into()), "{all}");
    assert_eq!(all["bytes"]["body"], 2500, "{all}");

    // Over TLS, and not if the server does not speak it.
    let identity = Identity::new("streams", false);
    let server = identity.serve(&["h2"], false, move |stream| attend_http2(stream, manner));
    let url = format!("https://localhost:{}/", server.port());
    let all = results(&["-n", "500", "-c", "3", "--http2", "--streams", "5", &url]);
    assert_eq!((&all["good"], &all["failures"]), (&500.into(), &json!({})), "{all}");
    let old = identity.serve(&[], false, attend);
    let (none, output) = load(&["-n", "2", "-c", "1", "--http2", &format!("https://localhost:{}/", old.port())]);
    assert_eq!((&none["answers"], &none["failures"]), (&0.into(), &json!({"tls": 2})), "{none}");
    assert!(!output.status.success());
    let output =
        Command::new(env!("CARGO_BIN_EXE_tsubame-lab")).args(["load", "--http2", "http://localhost/"]).output();
    let output = output.expect("the laboratory");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--h2c"), "{output:?}");
}

#[test]
fn servers_refuse_streams_and_leave() {
    let refuses = Manner { streams: 100, answers: usize::MAX, refuses: 10 };
    let server = listen(move |mut stream| attend_http2(&mut stream, refuses));
    let url = format!("http://localhost:{}/", server.port());
    let some = results(&["-n", "100", "-c", "1", "--h2c", "-m", "8", &url]);
    assert_eq!((&some["answers"], &some["failures"]), (&90.into(), &json!({"stream": 10})), "{some}");
    // Requests that a leaving server has not answered are repeated on the next connection.
    let leaves = Manner { streams: 100, answers: 10, refuses: usize::MAX };
    let server = listen(move |mut stream| {
        attend_http2(&mut stream, leaves);
        // Later input must not become a reset.
        let _ = stream.shutdown(std::net::Shutdown::Write).and_then(|()| stream.read_to_end(&mut Vec::new()));
    });
    let url = format!("http://localhost:{}/", server.port());
    let all = results(&["-n", "100", "-c", "1", "--h2c", "-m", "8", &url]);
    assert_eq!((&all["answers"], &all["failures"]), (&100.into(), &json!({})), "{all}");
    assert_eq!(all["connections"], 10, "{all}");
    let closed = results(&["-n", "20", "-c", "2", "--h2c", "--close", &url]);
    assert_eq!((&closed["answers"], &closed["connections"]), (&20.into(), &20.into()), "{closed}");
}

/// A part of a crowd in a separate process: it gathers, reports its losses on request, and ends with its input.
#[test]
fn crowds_may_be_elsewhere() {
    let identity = Identity::new("crowd", false);
    let leaving = Arc::new(Barrier::new(4));
    let leaves = leaving.clone();
    let server = identity.serve(&[], false, move |stream| {
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).expect("a request") > 0);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        stream.write_all(answer).and_then(|()| stream.flush()).expect("an answer");
        leaves.wait();
    });
    let tls = json!({
        "name": "localhost", "tells_name": true, "resumes": false, "versions": "Both", "suites": null, "groups": null,
        "protocols": [], "trust": "Any", "identity": null,
    });
    let party = json!({"manner": "Idle", "address": server, "tls": tls, "count": 3});
    let mut copy = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"));
    let mut copy = copy.arg("idle-copy").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a copy");
    let (mut orders, news) = (copy.stdin.take().expect("a pipe"), copy.stdout.take().expect("a pipe"));
    let mut news = BufReader::new(news).lines();
    let mut tell = |order: &Value| -> Value {
        writeln!(orders, "{order}").expect("give an order");
        serde_json::from_str(&news.next().expect("news").expect("a line")).expect("JSON")
    };
    assert_eq!(tell(&party), json!({"failed": 0, "all": 0}));
    assert_eq!(tell(&Value::Null), json!({"failed": 0, "all": 0}));
    leaving.wait();
    let deadline = Instant::now() + Duration::from_secs(30);
    while tell(&Value::Null) != json!({"failed": 0, "all": 3}) {
        assert!(Instant::now() < deadline, "nobody sees that they are gone");
    }
    drop(orders);
    assert!(copy.wait().expect("its end").success());
}
