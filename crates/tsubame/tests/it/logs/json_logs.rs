//! Access logs in JSON: every line is valid JSON, whatever the request.

use serde_json::Value;

use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;

/// Sends each request over a connection of its own, and gives the lines that the log has then, in that order.
fn lines_of(server: &Server<'_>, requests: &[Vec<u8>]) -> Vec<String> {
    for (index, request) in requests.iter().enumerate() {
        let mut client = server.client();
        client.send(request);
        client.half_close();
        client.rest();
        until("its line", || (server.site.read("logs/access").lines().count() > index).then_some(()));
    }
    let bytes = std::fs::read(server.site.root.join("logs/access")).expect("log");
    String::from_utf8(bytes).expect("a log of JSON is UTF-8").lines().map(str::to_string).collect()
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
}

/// Arbitrary bytes, the same in every run.
struct Hostile(u64);

impl Hostile {
    fn number(&mut self, below: usize) -> usize {
        // Knuth's generator.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        const PIECES: [&[u8]; 20] = [
            b"\"",
            b"\\",
            b"\\\"",
            b"\",\"status\":999,\"x\":\"",
            b"}\\n{",
            b"\\u0022",
            b"%",
            b"{",
            b"\t",
            b"\x01",
            b"\x1b[2J",
            b"\x7f",
            b"\xc3",
            b"\xc2\x9b",
            b"\xed\xa0\x80",
            b"\xf4\x8f\xbd\x81",
            b"\xff",
            "é日\u{2028}".as_bytes(),
            b"/",
            b"a",
        ];
        let count = self.number(most);
        (0..count).flat_map(|_| PIECES[self.number(PIECES.len())]).copied().collect()
    }
}

/// Whatever a request contains, its line is JSON with the fields of `json`, and reports the bytes that were sent.
#[test]
fn every_line_is_json() {
    let site = Site::with([("index.html", "hello\n")]);
    let server = Server::start(Mpm::Percore, &site, "CustomLog logs/access json");
    server.allow_everything("a malformed request is refused, and the error log says so");
    let mut hostile = Hostile(17);
    let mut requests = Vec::new();
    let mut sent = Vec::new();
    for round in 0..300 {
        let length = if round % 50 == 0 { 1000 } else { 12 };
        let (query, referer, agent) = (hostile.bytes(length), hostile.bytes(length), hostile.bytes(length));
        let mut request = b"GET /".to_vec();
        if round % 3 == 0 {
            request.extend_from_slice(b"?");
            request.extend_from_slice(&query);
        }
        request.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\nReferer: ");
        request.extend_from_slice(&referer);
        request.extend_from_slice(b"\r\nUser-Agent: x");
        request.extend_from_slice(&agent);
        request.extend_from_slice(b"x\r\nConnection: close\r\n\r\n");
        requests.push(request);
        sent.push((referer, agent));
    }
    for nonsense in
        [&b"\"\\\x01\xff\r\n\r\n"[..], b"\"\xc3 /\" HTTP/9\"\r\n\r\n", b"GET /%22%5c%01?\" HTTP/1.0\r\n\r\n"]
    {
        requests.push(nonsense.to_vec());
    }
    let lines = lines_of(&server, &requests);
    assert_eq!(lines.len(), requests.len());
    let mut served = 0;
    for (index, line) in lines.iter().enumerate() {
        let value = parsed(line);
        let names: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        // The parser keeps them in the order of the alphabet.
        assert_eq!(
            names,
            [
                "bytes",
                "client",
                "duration_us",
                "method",
                "path",
                "protocol",
                "query",
                "referer",
                "request_id",
                "status",
                "time",
                "user",
                "user_agent",
                "vhost"
            ],
            "{line}"
        );
        assert!(["status", "bytes", "duration_us"].iter().all(|name| value[name].is_u64()), "{line}");
        assert!(
            ["time", "client", "vhost", "method", "path", "protocol"].iter().all(|name| value[name].is_string()),
            "{line}"
        );
        let Some((referer, agent)) = sent.get(index).filter(|_| value["status"] == 200) else { continue };
        served += 1;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let trimmed = text(referer).trim_matches([' ', '\t']).to_string();
        assert_eq!(value["referer"], trimmed, "{line}");
        assert_eq!(value["user_agent"], format!("x{}x", text(agent)), "{line}");
        assert_eq!(value["request_id"].as_str().map(str::len), Some(27), "{line}");
        assert_eq!(value["user"], Value::Null, "{line}");
    }
    // Control characters are refused, and there are many; but some must have got through.
    assert!(served > 30, "{served} of {} were served", requests.len());
}

#[test]
fn the_ready_made_format_says_what_happened() {
    let site = Site::with([("index.html", "hello\n")]);
    let server = Server::start(Mpm::Percore, &site, "CustomLog logs/access JSON\nErrorDocument 404 /index.html");
    let line = |text: &str| format!("{text}\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes();
    let requests = [line("GET /index.html?a=%22b HTTP/1.1"), line("HEAD /no%20ne?q HTTP/1.1")];
    let lines = lines_of(&server, &requests);
    let (first, second) = (parsed(&lines[0]), parsed(&lines[1]));
    let expected = [
        ("client", "127."),
        ("vhost", "localhost"),
        ("method", "GET"),
        ("path", "/index.html"),
        ("query", "?a=%22b"),
        ("protocol", "HTTP/1.1"),
    ];
    for (name, start) in expected {
        assert!(first[name].as_str().is_some_and(|value| value.starts_with(start)), "{name} in {first}");
    }
    assert_eq!((first["status"].as_u64(), first["bytes"].as_u64()), (Some(200), Some(6)));
    assert!(first["referer"].is_null() && first["user_agent"].is_null(), "{first}");
    // 2026-11-22T09:33:34.123456Z
    let time = first["time"].as_str().unwrap_or_default();
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000000Z");
    // The path that the client requested, though another page was the answer.
    assert_eq!((second["method"].as_str(), second["path"].as_str()), (Some("HEAD"), Some("/no ne")));
    assert_eq!((second["query"].as_str(), second["status"].as_u64()), (Some("?q"), Some(404)));
}

/// An item inside a string is a part of it; any other is a value of its own: number, string or `null`.
#[test]
fn custom_formats() {
    let site = Site::with([("index.html", "hello\n")]);
    let configuration = r#"
        LogFormat '{"in":"<%{Referer}i> %b %{Nope}i","alone":%{Referer}i,"none":%{Nope}i,"first":%^FB,"exit":%{exit}G,"ms":%{msec_frac}t,"odd":%{a"b}p,"time":"%{%Y"}t","clf":%t,"never":%404D,"line":%r,"connection":%X,"status":%>s,"nothing":%b,"sec":%{sec}t}' mine escape=json
        CustomLog logs/access mine"#;
    let server = Server::start(Mpm::Percore, &site, configuration);
    let request = b"GET /empty HTTP/1.1\r\nHost: localhost\r\nReferer: a\"\xff\\\r\nConnection: close\r\n\r\n".to_vec();
    site.page("empty", "");
    let lines = lines_of(&server, &[request]);
    let value = parsed(&lines[0]);
    let year = &value["time"].as_str().unwrap_or_default()[..4];
    assert!(year.parse::<u32>().is_ok_and(|year| year >= 2024), "{value}");
    assert_eq!(value["in"], "<a\"\u{FFFD}\\> - -");
    assert_eq!(value["alone"], "a\"\u{FFFD}\\");
    assert_eq!(value["odd"], "a\"b");
    assert_eq!(value["line"], "GET /empty HTTP/1.1");
    assert_eq!(value["connection"], "-");
    assert_eq!(value["status"], 200);
    assert!(value["ms"].as_str().is_some_and(|text| text.len() == 3), "{value}");
    assert!(value["clf"].as_str().is_some_and(|text| text.starts_with('[')), "{value}");
    assert!(value["sec"].is_u64(), "{value}");
    for name in ["none", "first", "exit", "never", "nothing"] {
        assert!(value[name].is_null(), "{name} in {value}");
    }
}

/// A format of that name in the configuration wins, in the virtual host that has it.
#[test]
fn json_may_be_defined() {
    let site = Site::with([("index.html", "hello\n")]);
    let configuration = "CustomLog logs/access json\n\
        <VirtualHost *:8080>\nServerName other\nLogFormat \"own %>s\" Json\nCustomLog logs/access json\n</VirtualHost>\n\
        <VirtualHost *:8080>\nServerName third\n</VirtualHost>";
    let server = Server::start(Mpm::Percore, &site, configuration);
    let to = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes();
    let lines = lines_of(&server, &[to("other"), to("third")]);
    assert_eq!(lines[0], "own 200");
    assert_eq!(parsed(&lines[1])["vhost"], "third");
}
