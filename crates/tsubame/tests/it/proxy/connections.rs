//! Connections to servers behind this one: kept, lost, refused; and bodies in both directions.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait;
use crate::proxy::origin::Origin;

fn configuration(origin: &Origin) -> String {
    format!("ProxyPass /app/ http://{}/\nProxyPass /dead/ http://${{ADDR}}:1/\n", origin.address)
}

/// One connection after the other serves many requests, and a new one takes the place of one that the server has closed.
#[test]
fn connections_are_kept() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let text =
        configuration(&origin) + "StartServers 1\nMaxRequestWorkers 1\nServerLimit 1\nErrorDocument 404 /app/echo\n";
    let server = Server::start(Mpm::Prefork, &site, &text);
    let mut client = server.client();
    for _ in 0..20 {
        assert_eq!(client.get("/app/bare").text(), "hi");
    }
    assert_eq!(origin.connections.load(Ordering::Relaxed), 1);
    for turn in 2..5 {
        origin.close_all();
        assert_eq!(client.get("/app/bare").text(), "hi", "a lost connection is nothing that the client notices");
        assert_eq!(origin.connections.load(Ordering::Relaxed), turn);
    }
    // Whoever asks for a head only gets no body, and yet the page of an error is read to its end.
    let before = origin.connections.load(Ordering::Relaxed);
    for _ in 0..3 {
        client.send("HEAD /missing HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.response_to("HEAD").status, 200, "the status is that of the page");
    }
    assert_eq!(origin.connections.load(Ordering::Relaxed), before);
    // What nobody has asked for is no answer to the next request.
    assert_eq!(client.get("/app/end-extra").text(), "hi");
    assert_eq!(client.get("/app/chunked").text(), "abcde");
    assert_eq!(client.get("/app/both").text(), "hi");
    assert_eq!(client.get("/app/bare").text(), "hi");
    // A response without a body may be followed by one that it has announced.
    let before = origin.connections.load(Ordering::Relaxed);
    assert_eq!(client.get("/app/belied").status, 204);
    assert_eq!(client.get("/app/bare").text(), "hi");
    assert_eq!(origin.connections.load(Ordering::Relaxed), before + 1);
}

/// A server that is not there, or that nobody can understand.
#[test]
fn bad_servers() {
    for mpm in Mpm::ALL {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&origin));
        server.announce("AH00957: HTTP: attempt to connect to");
        server.announce("AH01114: HTTP: failed to make connection to backend");
        assert_eq!(server.get("/dead/x").status, 503);
        for (name, why) in [
            ("end-lengths", "its Content-Length is malformed, or given twice"),
            ("end-coding", "it has a transfer coding other than chunked"),
            ("end-page", "the status line is malformed"),
        ] {
            server.announce(why);
            server.announce("AH00898: Error reading from remote server");
            let response = server.get(&format!("/app/{name}"));
            assert_eq!((response.status, &*response.reason), (502, "Proxy Error"), "{name}");
            assert!(response.text().contains("Reason: <strong>Error reading from remote server</strong>"));
        }
        server.announce("AH01110: error reading response");
        assert_eq!(server.get("/app/end-chunks").status, 502);
        assert_eq!(server.get("/app/bare").text(), "hi");
    }
}

/// Interim responses go through, but not without end.
#[test]
fn interim_responses() {
    for mpm in Mpm::ALL {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&origin));
        let mut client = server.client();
        client.send("GET /app/hints HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (bytes, _) = client.rest();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.starts_with("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n"),
            "{text}"
        );
        server.announce("AH00898: Too many (11) interim responses from origin server");
        assert_eq!(server.get("/app/end-flood").status, 502);
    }
}

/// A response that begins before the whole request has come reaches the client, whatever the client does with the rest.
#[test]
fn early_responses() {
    for mpm in Mpm::ALL {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &(configuration(&origin) + "Timeout 2\n"));
        server.allow_everything("the client owes its body");
        for fields in ["Content-Length: 50000000\r\n", "Content-Length: 5\r\nExpect: 100-continue\r\n"] {
            let mut client = server.client();
            client.patience(Duration::from_secs(1));
            client.send(format!("POST /app/early HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
            let response = client.response();
            assert_eq!((response.status, &*response.text()), (401, "abc"), "{mpm}: {fields}");
        }
    }
}

/// A server that answers early and reads on gets all of the request, in whatever form.
#[test]
fn bodies_that_come_after_their_response() {
    let body = "x".repeat(3_000_000);
    let length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let chunks = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&origin));
        let mut client = server.client();
        for request in [&length, &chunks] {
            let before = origin.read_late();
            let response = client.request(format!("POST /app/soon HTTP/1.1\r\nHost: localhost\r\n{request}"));
            assert_eq!((response.status, &*response.text()), (200, "abc"), "{mpm}");
            // The client's connection goes on when all of the body has gone out.
            assert_eq!(client.get("/app/bare").text(), "hi", "{mpm}");
            wait::until("the whole body", || (origin.read_late() - before >= body.len()).then_some(()));
        }
    }
}

/// A request on behalf of another has that one's fields, but not its body: nothing may wait for it.
#[test]
fn requests_on_behalf_of_others() {
    let site = Site::with([("page.shtml", "<!--#include virtual=\"/app/echo\" -->")]);
    let origin = Origin::start(site.ip);
    let text = configuration(&origin)
        + "ErrorDocument 404 /app/echo\n<Location /page.shtml>\nOptions +Includes\nSetOutputFilter INCLUDES\n</Location>\n";
    let server = Server::start(Mpm::Percore, &site, &text);
    let mut client = server.client();
    for path in ["/missing", "/page.shtml"] {
        let text = client
            .request(format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: x\r\nContent-Length: 3\r\n\r\nabc"
            ))
            .text();
        // Conditions are about the whole page.
        assert!(path == "/missing" || !text.contains("If-None-Match"), "{text}");
        assert!(text.contains("GET /echo HTTP/1.1\n") && !text.contains("\nContent-Length: 3\n"), "{path}: {text}");
    }
    assert_eq!(client.get("/app/bare").text(), "hi");
}

/// Bodies go through as they come, whatever their length.
#[test]
fn large_bodies() {
    for mpm in Mpm::ALL {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&origin));
        let body = "x".repeat(3_000_000);
        let mut client = server.client();
        let head = "POST /app/echo HTTP/1.1\r\nHost: localhost\r\n";
        let text = client.request(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).text();
        assert!(text.contains("\nContent-Length: 3000000\n") && text.ends_with(&body), "{mpm}");
        let text = client
            .request(format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
            .text();
        assert!(text.contains("\nTransfer-Encoding: chunked\n") && text.ends_with("0\r\n\r\n"), "{mpm}");
        let text = client.request(format!("{head}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")).text();
        assert!(text.contains("\nExpect: 100-continue\n") && text.ends_with("\n\nabc"), "{mpm}: {text}");
    }
}

/// Children of prefork need one connection if they need it one after the other.
#[test]
fn children_share_connections() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let text = configuration(&origin) + "StartServers 8\nMinSpareServers 1\nMaxRequestWorkers 8\nServerLimit 8\n";
    let mut server = Server::start(Mpm::Prefork, &site, &text);
    server.allow("server reached MaxRequestWorkers setting");
    // Each over a connection of its own, which any child accepts.
    let ask_all = |server: &Server<'_>| {
        for _ in 0..40 {
            assert_eq!(server.get("/app/bare").text(), "hi");
        }
        for _ in 0..6 {
            let post = "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na";
            let response = server.client().request(post);
            assert!(response.text().ends_with("\na"), "{}", response.text());
        }
    };
    // A second one, if a child is slow to give its own back, or a POST finds none that was in use a second ago.
    let made = |server: &Server<'_>| {
        let before = origin.connections.load(Ordering::Relaxed);
        ask_all(server);
        origin.connections.load(Ordering::Relaxed) - before
    };
    let few = 1..4;
    assert!(few.contains(&made(&server)));
    // The connections of a former configuration are not those of the next.
    server.restart(sys::signal::Signal::USR1);
    assert!(few.contains(&made(&server)));
    // All are lost at once.
    origin.close_all();
    assert!(few.contains(&made(&server)));
}
