//! HTTP/2: with curl and h2load as commonly installed, and with a client that sends what they would not.

use std::path::Path;
use std::process::Command;

use sys::signal::Signal;

use crate::harness::beside::{Call, compare, modules};
use crate::harness::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Ended, Frames, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, request,
};
use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::oracle::{self, both};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// The reasons of RFC 9113 section 7.
const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

const CONFIGURATION: &str = "Protocols h2 h2c http/1.1\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
    <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    LogFormat \"%r|%>s|%H|%B|%{HTTP2}x|%{H2_STREAM_ID}e\" h2\nCustomLog logs/access h2\n";

fn site() -> Site {
    let site = Site::with([("index.html", "hello\n")]);
    site.page("large", vec![b'x'; 1_000_000]);
    site.script("count", "#!/bin/sh\nn=$(wc -c)\nprintf 'Content-Type: text/plain\\n\\n%s' $n\n");
    site.script("env", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n");
    site.script("early", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nearly'\n");
    site.script("nph-own", "#!/bin/sh\nprintf 'HTTP/1.0 404 None\\r\\nContent-Type: text/plain\\r\\n\\r\\nown'\n");
    site
}

/// Curl's result: version, status, body.
fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--insecure",
            "--max-time",
            "30",
            "--write-out",
            "|%{http_version} %{http_code}",
        ])
        .args(arguments)
        .output()
        .expect("curl");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

under_every_mpm! {
    fn a_usual_client_is_served(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("AH02651: Error writing request body to script");
        let upload = site.file("upload", vec![b'u'; 500_000]);
        let upload = format!("@{}", upload.display());
        let ask = |path: &str, arguments: &[&str]| {
            let url = format!("http://{}{path}", server.address());
            curl(&[&["--http2-prior-knowledge", &url], arguments].concat())
        };
        assert_eq!(ask("/", &[]), "hello\n|2 200");
        assert_eq!(ask("/large", &["--output", "/dev/null", "--write-out", "%{size_download}"]), "1000000");
        assert!(ask("/none", &[]).ends_with("</html>\n|2 404"));
        assert_eq!(ask("/cgi/count", &["--data-binary", &upload]), "500000|2 200");
        assert_eq!(ask("/cgi/count", &["--data-binary", "abc", "--header", "Expect: 100-continue"]), "3|2 200");
        // A script that does not want the body, and a file.
        assert_eq!(ask("/cgi/early", &["--data-binary", &upload]), "early|2 200");
        assert_eq!(ask("/", &["--data-binary", &upload]), "hello\n|2 200");
        assert_eq!(ask("/cgi/nph-own", &[]), "own|2 404");
        assert_eq!(ask("/", &["--head", "--output", "/dev/null"]), "|2 200");
        let env = ask("/cgi/env", &["--header", "Cookie: a=b", "--header", "Cookie: c=d", "--header", "X: blank \t"]);
        for line in [
            "SERVER_PROTOCOL=HTTP/2.0", "HTTP2=on", "H2_STREAM_ID=1", "HTTP_COOKIE=a=b; c=d", "HTTP_X=blank", "H2_PUSH=off",
        ] {
            assert!(env.lines().any(|other| other == line), "{line} in {env}");
        }
        let logged = until("the access log", || Some(site.read("logs/access")).filter(|log| log.lines().count() == 10));
        for line in ["GET / HTTP/2.0|200|HTTP/2.0|6|on|1", "POST /cgi/count HTTP/2.0|200|HTTP/2.0|6|on|1"] {
            assert!(logged.lines().any(|other| other == line), "{line} in {logged}");
        }
        // Other clients still speak HTTP/1.1, over the same port.
        assert_eq!(server.get("/").text(), "hello\n");
    }

    fn a_client_chooses_in_its_handshake(mpm: Mpm) {
        let site = site();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost", "-days", "365", "-addext", "basicConstraints=critical,CA:FALSE"])
            .current_dir(&site.root)
            .output()
            .expect("openssl");
        assert!(made.status.success(), "{made:?}");
        let tls = |port: u16, more: &str| {
            format!(
                "Listen ${{ADDR}}:{port}\n<VirtualHost *:{port}>\nSSLEngine on\nSSLCertificateFile ${{ROOT}}/cert.pem\n\
                 SSLCertificateKeyFile ${{ROOT}}/key.pem\n{more}\n</VirtualHost>\n"
            )
        };
        let text = [
            tls(8443, ""),
            tls(8444, "Protocols http/1.1"),
            tls(8445, "Protocols http/1.1 h2\nProtocolsHonorOrder off"),
            tls(8446, "Protocols http/1.1 h2"),
        ];
        let _server = Server::start(mpm, &site, &format!("{CONFIGURATION}{}", text.concat()));
        let version = |port: u16, how: &str| {
            let answer = curl(&[how, &format!("https://{}:{port}/", site.ip)]);
            answer.strip_prefix("hello\n|").unwrap_or(&answer).to_string()
        };
        assert_eq!((version(8443, "--http2"), version(8443, "--http1.1")), ("2 200".into(), "1.1 200".into()));
        assert_eq!(version(8444, "--http2"), "1.1 200", "the virtual host does not speak it");
        // curl prefers HTTP/2.
        assert_eq!((version(8445, "--http2"), version(8446, "--http2")), ("2 200".into(), "1.1 200".into()));
    }

    fn many_clients_with_many_streams(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for (path, count) in [("/", "3000"), ("/large", "60"), ("/cgi/early", "60")] {
            let url = format!("http://{}{path}", server.address());
            let output = Command::new("h2load").args(["-n", count, "-c", "5", "-m", "20", &url]).output().expect("h2load");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let want = format!("{count} succeeded, 0 failed, 0 errored, 0 timeout");
            assert!(said.contains(&want) && said.contains(&format!("{count} 2xx")), "{said}");
        }
    }

    /// Streams are served at once, and one that is given up disturbs no other.
    fn streams_do_not_wait_for_each_other(mpm: Mpm) {
        let site = site();
        std::fs::create_dir(site.root.join("shared")).expect("directory");
        Command::new("chmod").args(["777", "shared"]).current_dir(&site.root).status().expect("chmod");
        // Each waits until all three are there.
        let script = format!(
            "#!/bin/sh\ncd {}/shared; touch $QUERY_STRING; while ! [ -e a -a -e b -a -e c ]; do sleep 0.01; done\n\
             printf 'Content-Type: text/plain\\n\\nall'\n",
            site.path()
        );
        site.script("together", &script);
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = Frames::connect(server.address(), &[]);
        let streams = ["a", "b", "c"].map(|name| client.get(&format!("/cgi/together?{name}")));
        let given_up = client.get("/cgi/together?d");
        client.send(RST_STREAM, 0, given_up, &CANCEL.to_be_bytes());
        let large = client.get("/large");
        assert_eq!(client.ended(large), Ended::Answered(200, vec![b'x'; 1_000_000]), "while the others wait");
        let _ = streams;
    }

    /// A client that opens no window, or sends half a body, is waited for as long as over HTTP/1.
    fn slow_clients_are_not_waited_for_without_end(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}Timeout 1\nLogLevel http2:info\n"));
        server.allow("the client no longer reads the response (Timeout): resetting its stream");
        server.allow("AH01225");
        server.allow("timed out");
        // SETTINGS_INITIAL_WINDOW_SIZE
        let mut client = Frames::connect(server.address(), &[(4, 0)]);
        let stream = client.get("/");
        assert_eq!(client.ended(stream), Ended::Reset(CANCEL));
        let mut client = Frames::connect(server.address(), &[]);
        let stream = client.ask(&request("POST", "/cgi/count"), false);
        client.send(DATA, 0, stream, b"half");
        match client.ended(stream) {
            Ended::Answered(status, _) => assert_eq!(status, 408),
            other => panic!("{other:?}"),
        }
        // A client that says nothing at all has less.
        let mut silent = Frames::silent(server.address());
        silent.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        silent.end();
    }

    fn broken_rules_are_refused(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}H2MaxStreamErrors 0\n"));
        server.allow("AH01225: Error reading request entity data");
        let get = request("GET", "/");
        let with = |more: &[(&'static str, &'static str)]| [&get[..], more].concat();
        let without = |name: &str| get.into_iter().filter(|(other, _)| *other != name).collect::<Vec<_>>();
        let reset = Ended::Reset(PROTOCOL_ERROR);
        let refused = |fields: &[(&str, &str)]| {
            let mut client = Frames::connect(server.address(), &[]);
            let stream = client.ask(fields, true);
            client.ended(stream)
        };
        for field in [
            ("connection", "close"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("Upper", "case"),
            (":protocol", " blank before"),
            ("x", "line\r\nbreak"),
            ("x y", "name"),
            (":path", "/again"),
            (":unknown", "x"),
            ("content-length", "5"),
        ] {
            // Some of this ends the connection at once.
            let is_refused = [reset.clone(), Ended::Gone(Some(PROTOCOL_ERROR))].contains(&refused(&with(&[field])));
            assert!(is_refused, "{field:?}");
        }
        for name in [":method", ":scheme", ":path"] {
            assert_eq!(refused(&without(name)), reset, "{name}");
        }
        let status = |fields: &[(&str, &str)]| match refused(fields) {
            Ended::Answered(status, _) => status,
            other => panic!("{fields:?}: {other:?}"),
        };
        assert_eq!(status(&with(&[("host", "localhost"), ("te", "trailers")])), 200);
        assert_eq!(status(&with(&[("host", "localhost"), ("host", "localhost")])), 400, "two Host fields");
        let env = request("GET", "/cgi/env");
        match refused(&[&env[..], &[("host", "other")]].concat()) {
            Ended::Answered(200, body) => {
                let body = String::from_utf8_lossy(&body);
                assert!(body.lines().any(|line| line == "HTTP_HOST=localhost") && !body.contains("other"), "{body}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(status(&with(&[("x", " blank before"), ("x", "blank behind\t")])), 200);
        assert_eq!(status(&without(":authority")), 400, "no host");
        assert_eq!(status(&with(&[("a\"b", "c")])), 400, "no name");
        let host = [&without(":authority")[..], &[("host", "localhost")]].concat();
        assert_eq!(status(&host), 200, "the field will do");
        assert_eq!(status(&[&without(":authority")[..], &[(":authority", "a..b")]].concat()[..]), 400, "no host name");
        let other = get.map(|(name, value)| if name == ":scheme" { (name, "ftp") } else { (name, value) });
        assert_eq!(status(&other), 400, "a scheme of others");
        // Apache's limits: 8190 bytes for a target, and for a line with all values of a field.
        let text = "v".repeat(9000);
        for (length, expected) in [(8188, 200), (8189, 414), (9000, 414)] {
            assert_eq!(status(&request("GET", &format!("/?{}", &text[..length]))), expected, "a target with {length}");
        }
        for (lengths, expected) in
            [(&[8187][..], 200), (&[8188], 431), (&[9000], 431), (&[4000, 4185], 200), (&[4000, 4186], 431)]
        {
            let values: Vec<(&str, &str)> = lengths.iter().map(|length| ("x", &text[..*length])).collect();
            assert_eq!(status(&[&get[..], &values].concat()), expected, "a field with {lengths:?}");
        }
        let names: Vec<String> = (0..101).map(|number| format!("x{number}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        assert_eq!(status(&[&get[..], &many].concat()), 431);
        // A length that is said twice is one.
        let mut client = Frames::connect(server.address(), &[]);
        let twice = [("content-length", "3"), ("content-length", "3")];
        let stream = client.ask(&[&request("POST", "/cgi/env")[..], &twice].concat(), false);
        client.send(DATA, END_STREAM, stream, b"abc");
        let Ended::Answered(200, env) = client.ended(stream) else { panic!("it is answered") };
        assert!(String::from_utf8_lossy(&env).contains("\nCONTENT_LENGTH=3\n"));
        // More of a body than was announced, and less.
        for (sent, ends) in [(&b"more than"[..], false), (b"less", true)] {
            let mut client = Frames::connect(server.address(), &[]);
            let stream = client.ask(&[&request("POST", "/cgi/count")[..], &[("content-length", "5")]].concat(), false);
            client.send(DATA, u8::from(ends), stream, sent);
            assert_eq!(client.ended(stream), reset);
        }
    }

    /// Trailers are read, and not mixed with the head.
    fn trailers_follow_a_body(mpm: Mpm) {
        let site = site();
        let text = format!("{CONFIGURATION}LogFormat \"%{{check}}^ti %{{check}}i\" t\nCustomLog logs/t t\n");
        let server = Server::start(mpm, &site, &text);
        let mut client = Frames::connect(server.address(), &[]);
        let stream = client.ask(&request("POST", "/cgi/count"), false);
        client.send(DATA, 0, stream, b"body");
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("check", "sum")]));
        assert_eq!(client.ended(stream), Ended::Answered(200, b"4".to_vec()));
        until("the log", || Some(site.read("logs/t")).filter(|log| log == "sum -\n"));
    }

    /// Floods of frames that request nothing end the connection after a while.
    fn floods_end_the_connection(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let get = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&request("GET", "/")));
        let post = |stream: u32| frame(HEADERS, END_HEADERS, stream, &block(&request("POST", "/cgi/count")));
        let flood = |begin: Vec<u8>, mut each: Box<dyn FnMut(u32) -> Vec<u8>>, named: &str| {
            let mut client = Frames::connect(server.address(), &[]);
            client.raw(&begin);
            // Sent ahead of what the server has read, until it hears no more.
            let gone = (1..20_000).any(|round| !client.raw(&each(round)));
            let _ = gone;
            let why = client.end();
            assert!(matches!(why, None | Some(ENHANCE_YOUR_CALM)), "{named}: {why:?}");
            server.announce(named);
            server.logged(named);
        };
        let again = |bytes: Vec<u8>| Box::new(move |_| bytes.clone()) as Box<dyn FnMut(u32) -> Vec<u8>>;
        flood(get.clone(), again(frame(PING, 0, 0, b"12345678")), "floods the connection with PING frames");
        flood(get.clone(), again(frame(SETTINGS, 0, 0, b"")), "floods the connection with SETTINGS frames");
        flood(get, again(frame(2, 0, 1, b"12345")), "floods the connection with PRIORITY frames");
        flood(post(1), again(frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())), "floods the connection with WINDOW_UPDATE frames");
        let reset = Box::new(move |round: u32| {
            let stream = round * 2 + 1;
            [post(stream), frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())].concat()
        });
        // Whichever of ours and the library's limits comes first.
        server.allow("the client floods the connection");
        server.allow("AH01225: Error reading request entity data");
        let mut client = Frames::connect(server.address(), &[]);
        let mut reset = reset as Box<dyn FnMut(u32) -> Vec<u8>>;
        let _ = (1..20_000).any(|round| !client.raw(&reset(round)));
        assert!(matches!(client.end(), None | Some(ENHANCE_YOUR_CALM)));
        // Others are served.
        let mut client = Frames::connect(server.address(), &[]);
        let stream = client.get("/");
        assert_eq!(client.ended(stream), Ended::Answered(200, b"hello\n".to_vec()));
    }

    fn a_head_without_end_ends_the_connection(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("the client floods the connection");
        let mut client = Frames::connect(server.address(), &[]);
        client.send(HEADERS, END_STREAM, 1, &block(&request("GET", "/")));
        let piece = block(&[("x", &"y".repeat(1000))]);
        let _ = (0..20_000).any(|_| !client.send(CONTINUATION, 0, 1, &piece));
        assert!(matches!(client.end(), None | Some(ENHANCE_YOUR_CALM | PROTOCOL_ERROR)));
        let mut client = Frames::connect(server.address(), &[]);
        let stream = client.get("/");
        assert_eq!(client.ended(stream), Ended::Answered(200, b"hello\n".to_vec()));
    }

    /// A child that leaves tells its clients which requests to send again; no request fails.
    fn a_graceful_restart_fails_no_request(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = Frames::connect(server.address(), &[]);
        let first = client.get("/");
        assert_eq!(client.ended(first), Ended::Answered(200, b"hello\n".to_vec()));
        server.restart(Signal::USR1);
        // The connection is the old child's, which serves what comes until the client has heard of it.
        let second = client.get("/");
        assert_eq!(client.ended(second), Ended::Answered(200, b"hello\n".to_vec()));
        let mut told = Vec::new();
        while let Some(frame) = client.frame() {
            match frame.kind {
                GOAWAY => told.push(u32::from_be_bytes([frame.payload[4], frame.payload[5], frame.payload[6], frame.payload[7]])),
                PING if frame.flags == 0 => drop(client.send(PING, 1, 0, &frame.payload)),
                _ => {}
            }
        }
        assert!(told.iter().all(|why| *why == NO_ERROR) && !told.is_empty(), "{told:?}");
    }
}

/// The same early hints as Apache's, and the same variables.
#[test]
fn hints_are_those_of_apache() {
    let configuration = "<IfModule !http2_module>\nLoadModule http2_module /usr/lib/apache2/modules/mod_http2.so\n</IfModule>\n\
        Protocols h2c http/1.1\nH2EarlyHints on\n<Location /hint>\nH2EarlyHint Link \"</a.css>; rel=preload\"\nH2EarlyHint X-Foo bar\n\
        H2PushResource /b.js\nH2PushResource add /c.js critical\n</Location>\nHeader set X-Early x early\n\
        Header set Link \"</d.css>\" early\n";
    let build = |site: &Site| {
        site.page("hint", "hint\n");
        site.page("plain", "plain\n");
    };
    both("hints_are_those_of_apache", build, configuration, |site| {
        let get = |name: &str| {
            let url = format!("http://{}/{name}", site.address());
            let output = Command::new("curl").args(["--silent", "--include", "--http2-prior-knowledge", &url]).output();
            let text = String::from_utf8_lossy(&output.expect("curl").stdout).replace('\r', "");
            let mut parts = text.split("\n\n").map(|part| {
                let mut lines: Vec<String> = part.lines().map(str::to_string).collect();
                lines.retain(|line| ["HTTP/", "link", "x-"].iter().any(|start| line.starts_with(start)));
                lines.sort();
                lines
            });
            [parts.next().unwrap_or_default(), parts.next().unwrap_or_default()]
        };
        let links = "</d.css>, </b.js>; rel=preload, </c.js>; rel=preload; critical, </a.css>; rel=preload";
        assert_eq!(
            get("hint")[0],
            ["HTTP/2 103 ".into(), format!("link: {links}"), "x-early: x".into(), "x-foo: bar".into()]
        );
        assert_eq!(get("hint")[1], ["HTTP/2 200 "]);
        assert_eq!(get("plain")[0], ["HTTP/2 200 ", "link: </d.css>", "x-early: x"]);
    });
}

/// Each directive of the table with none to four words, outside sections and inside.
#[test]
fn every_directive_takes_what_it_takes_in_apache() {
    if !oracle::is_there("every_directive_takes_what_it_takes_in_apache") {
        return;
    }
    let infos = crate::config::tables::infos();
    let info = infos.iter().find(|info| info.id == "http2_module").expect("mod_http2");
    let words = [
        "",
        " 1",
        " 0",
        " -1",
        " x",
        " on",
        " 5000",
        " 70000",
        " a b",
        " a 5",
        " '' x",
        " a b c",
        " a after 5",
        " 1 2 3 4",
    ];
    let lines = info.directives.iter().flat_map(|row| words.map(|words| format!("{}{words}", row.name)));
    let inside = info.directives.iter().map(|row| format!("<Directory />\n{} 1\n</Directory>", row.name));
    let cases: Vec<String> = lines.chain(inside).collect();
    compare(&cases, |line| {
        let site = Site::new();
        let wanted = modules(&["mpm_event", "authz_core", "http2"]);
        site.file(
            "conf/httpd.conf",
            format!(
                "ServerName localhost\nDefaultRuntimeDir run\nPidFile logs/pid\n{wanted}{line}\nListen 127.0.0.1:9\n"
            ),
        );
        let call = Call { site: &site, arguments: &["-t"], user: None };
        (line.clone(), call.both(Path::new(env!("CARGO_BIN_EXE_tsubame"))))
    });
}

/// A 200 to an extended CONNECT is an open tunnel (RFC 8441): no page is taken for one.
#[test]
fn a_page_is_no_tunnel() {
    let site = site();
    let text = format!("{CONFIGURATION}H2WebSockets on\n<Location /closed>\nRequire all denied\n</Location>\n");
    let server = Server::start(Mpm::Percore, &site, &text);
    server.allow("AH01630");
    let ask = |protocol: &str, path: &str| {
        let mut client = Frames::connect(server.address(), &[]);
        let fields = [&request("CONNECT", path)[..], &[(":protocol", protocol)]].concat();
        let stream = client.ask(&fields, false);
        match client.ended(stream) {
            Ended::Answered(status, body) => Ok((status, body.is_empty())),
            Ended::Reset(reason) => Err(reason),
            Ended::Gone(reason) => Err(reason.unwrap_or(u32::MAX)),
        }
    };
    for path in ["/", "/large", "/cgi/early"] {
        assert_eq!(ask("websocket", path), Ok((502, false)), "{path}");
        assert_eq!(ask("connect-udp", path), Ok((501, false)), "{path}");
    }
    assert_eq!(ask("websocket", "/none"), Ok((404, false)));
    assert_eq!(ask("websocket", "/closed"), Ok((403, false)));
    for protocol in ["", "web\u{1}socket", "web socket", "websocket\u{7f}"] {
        assert_eq!(ask(protocol, "/"), Err(PROTOCOL_ERROR), "{protocol:?}");
    }
}

/// curl stops sending once it is refused, and ends the body before its length: it still gets the page that says why.
#[test]
fn a_refused_client_may_stop_sending() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let mut client = Frames::connect(server.address(), &[]);
    for _ in 0..2 {
        let fields = [&request("POST", "/")[..], &[("content-length", "5"), ("expect", "nonsense")]].concat();
        let stream = client.ask(&fields, false);
        while client.frame().expect("a head").kind != HEADERS {}
        assert_eq!(client.head()[0].1, "417");
        client.send(DATA, END_STREAM, stream, b"abc");
        let Ended::Answered(_, page) = client.ended(stream) else { panic!("the page is lost") };
        assert!(page.ends_with(b"</html>\n"), "{}", String::from_utf8_lossy(&page));
    }
}

/// Cookies in several fields are one; a field without a value holds none.
#[test]
fn cookies_are_joined() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    for (values, joined) in [
        (&["a=b", "c=d"][..], "a=b; c=d"),
        (&["a=b", "c=d", ""], "a=b; c=d"),
        (&["", "a=b", "", "c=d"], "a=b; c=d"),
        (&["", "a=b"], "a=b"),
        (&["", ""], ""),
    ] {
        let mut client = Frames::connect(server.address(), &[]);
        let cookies: Vec<(&str, &str)> = values.iter().map(|value| ("cookie", *value)).collect();
        let stream = client.ask(&[&request("GET", "/cgi/env")[..], &cookies].concat(), true);
        let Ended::Answered(200, env) = client.ended(stream) else { panic!("it is answered") };
        let env = String::from_utf8_lossy(&env).into_owned();
        assert!(env.contains(&format!("\nHTTP_COOKIE={joined}\n")), "{values:?}: {env}");
    }
}

/// Without encryption the first answer offers HTTP/2, and a client that asks for it gets it: as Apache does.
#[test]
fn a_client_changes_from_http1_to_http2() {
    const ASKS: &str = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    let build = |site: &Site| drop(site.page("index.html", "hello\n"));
    both("a_client_changes_from_http1_to_http2", build, "Protocols h2c http/1.1", |site| {
        // Fields of the answers on one connection.
        let offers = |requests: &[&str]| {
            let mut client = Client::connect(site.address());
            let each = requests.iter().map(|request| {
                let answer = client.request(format!("{request}\r\n"));
                let of = |name: &str| answer.field(name).unwrap_or("-").to_string();
                format!("{} {} {}", answer.status, of("Upgrade"), of("Connection"))
            });
            each.collect::<Vec<_>>()
        };
        let plain = "GET / HTTP/1.1\r\nHost: localhost\r\n";
        assert_eq!(offers(&[plain, plain]), ["200 h2c Upgrade", "200 - -"]);
        assert_eq!(offers(&["GET / HTTP/1.0\r\n"]), ["200 h2c Upgrade, close"]);
        let keeps = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n";
        assert_eq!(offers(&[keeps]), ["200 h2c Upgrade, Keep-Alive"]);
        assert_eq!(offers(&["GET /none HTTP/1.1\r\nHost: localhost\r\n"]), ["404 - -"]);
        assert_eq!(offers(&["OPTIONS * HTTP/1.1\r\nHost: localhost\r\n"]), ["200 h2c Upgrade"]);
        // Requests that do not ask for it as they should are served as they are.
        for (from, to) in [
            ("HTTP2-Settings: AAMAAABkAAQAAP__\r\n", ""),
            (", HTTP2-Settings\r\n", "\r\n"),
            ("Connection: Upgrade, ", "Connection: "),
            ("h2c", "h2"),
            ("h2c", "H2C"),
        ] {
            let asks = ASKS.replace(from, to);
            assert_eq!(offers(&[&format!("{plain}{asks}")]), ["200 - -"], "{asks}");
        }
        let post = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{ASKS}Content-Length: 3\r\n\r\nabc");
        assert_eq!(Client::connect(site.address()).request(post).status, 200);
        // curl changes the protocol.
        let url = format!("http://{}/", site.address());
        assert_eq!(curl(&["--http2", &url]), "hello\n|2 200");
        assert_eq!(curl(&["--http2", "--head", "-o", "/dev/null", &url]), "|2 200");
        // So does one that sends everything at once; its settings are acknowledged once.
        let mut frames = Frames::silent(site.address());
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let second =
            [frame(SETTINGS, 0, 0, b""), frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&request("GET", "/none")))];
        frames.raw(&[format!("{plain}{ASKS}\r\n{preface}").as_bytes(), &second.concat()].concat());
        let head = frames.http1_head();
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        let (mut acknowledged, mut ended) = (0, Vec::new());
        while ended.len() < 2 {
            let frame = frames.frame().expect("a frame");
            acknowledged += usize::from((frame.kind, frame.flags) == (SETTINGS, 1));
            if [DATA, HEADERS].contains(&frame.kind) && frame.flags & END_STREAM != 0 {
                ended.push(frame.stream);
            }
        }
        ended.sort_unstable();
        assert_eq!((acknowledged, ended), (1, vec![1, 3]));
    });
    // A second request of curl, which it often does not manage with Apache.
    let site = site();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let url = format!("http://{}/", server.address());
    let two = ["--http2", &url, &format!("{url}none?a=b"), "-o", "/dev/null", "-o", "/dev/null"];
    assert_eq!(curl(&two), "|2 200|2 404");
}
