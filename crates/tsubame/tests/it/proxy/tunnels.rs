//! WebSockets to servers behind this one.

use crate::harness::frames::{Ended, Frames, request};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::proxy::origin::Origin;

const HANDSHAKE: &str = "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: k\r\n\r\n";

fn configuration(origin: &Origin) -> String {
    let address = origin.address;
    format!(
        "Protocols h2c http/1.1\nH2WebSockets on\nProxyPass /ws/ ws://{address}/\nProxyPass /up/ http://{address}/a/ upgrade=websocket\n\
         ProxyPass /any/ http://{address}/b/ upgrade=ANY\nProxyPass /none/ http://{address}/c/\n"
    )
}

#[test]
fn web_sockets() {
    for mpm in Mpm::ALL {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&origin));
        for path in ["/ws/socket", "/up/socket", "/any/socket"] {
            let mut client = server.client();
            client.send(format!("GET {path} HTTP/1.1\r\n{HANDSHAKE}"));
            client.send("hello");
            client.half_close();
            let (bytes, _) = client.rest();
            let text = String::from_utf8_lossy(&bytes);
            let (head, said) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{mpm}: {text}");
            for line in ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: proof", "X-E: 1"] {
                assert!(head.lines().any(|have| have == line), "{mpm}, {line}: {head}");
            }
            let (asked, shouted) = said.split_once("\n\n").expect("the request");
            for line in ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: k"] {
                assert!(asked.lines().any(|have| have == line), "{mpm}, {line}: {asked}");
            }
            assert_eq!(shouted, "HELLObye", "{mpm}");
        }
        // Without permission, or for a request that asks for no such thing, it is a request as any other.
        let mut client = server.client();
        assert!(!client.request(format!("GET /none/socket HTTP/1.1\r\n{HANDSHAKE}")).text().contains("Upgrade"));
        assert_eq!(client.get("/ws/bare").text(), "hi");
    }
}

/// Over HTTP/2 the client sends no key (RFC 8441 section 5); the server behind us gets one all the same.
#[test]
fn web_sockets_over_http2() {
    for mpm in Mpm::ALL {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&origin));
        let mut client = Frames::connect(server.address(), &[]);
        let fields = [&request("CONNECT", "/ws/socket")[..], &[(":protocol", "websocket")]].concat();
        let stream = client.ask(&fields, false);
        assert!(client.send(0, 0, stream, b"hello"), "data");
        assert!(client.send(0, 1, stream, b""), "its end");
        let Ended::Answered(200, body) = client.ended(stream) else { panic!("{mpm}: no tunnel") };
        let said = String::from_utf8_lossy(&body).into_owned();
        assert!(said.starts_with("GET /socket HTTP/1.1\n") && said.contains("\nSec-WebSocket-Key: "), "{mpm}: {said}");
        assert!(said.ends_with("\n\nHELLObye"), "{mpm}: {said}");
    }
}
