//! The answers predicted by `tsubame explain` are the ones that clients get.

use serde_json::Value;

use crate::cli::explain::{CONFIGURATION, explain, json, site};
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;

/// The status that is foretold is the status that comes.
#[test]
fn explanations_match_real_answers() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    server.allow("AH01630: client denied by server configuration");
    server.allow("Invalid command 'Bogus'");
    server.allow("Options not allowed here");
    server.allow("script not found or unable to stat");
    server.allow("Options ExecCGI is off in this directory");
    server.allow("attempt to invoke directory as script");
    server.allow("AcceptPathInfo off disallows user's path");
    server.allow("exec of '");
    server.allow("End of script output before headers");
    server.allow("AH10244: invalid URI path");
    let foretold = |host: &str, path: &str| {
        let explained = json(&site, &["--host", host, "--to", &site.address().to_string(), path]);
        match explained["answer"]["runs"].as_bool() {
            // The answer of a script that can be started is known only to the script.
            Some(true) => 200,
            _ => u16::try_from(explained["answer"]["status"].as_u64().expect("status")).expect("status"),
        }
    };
    let mut wrong = Vec::new();
    let paths = [
        ("/", 200),
        ("/private/x.html", 403),
        ("/sub/", 200),
        ("/sub", 301),
        ("/other/page.foo", 200),
        ("/old/thing", 301),
        ("/gone", 410),
        ("/missing", 404),
        ("/broken/x.html", 500),
        ("/limited/x.html", 500),
        ("/cgi-bin/env.cgi", 200),
        ("/cgi-bin/none.cgi", 404),
        ("/cgi-bin/sub/", 403),
        ("/cgi-bin/dull.cgi", 500),
        ("/scripts/no.cgi", 403),
        ("/more/strict.cgi/info", 404),
        ("/%2e%2e/x", 400),
    ];
    for host in ["one.example", "a.two.example", "nobody.example"] {
        for (path, _) in paths {
            let mut client = server.client();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
            let got = client.response().status;
            let told = foretold(host, path);
            if told != got {
                wrong.push(format!("{host}{path}: foretold {told}, got {got}"));
            }
        }
    }
    for (path, want) in paths {
        let got = server.get(path).status;
        if got != want {
            wrong.push(format!("{path}: wanted {want}, got {got}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The predicted answer: the status and the type, also if they depend on the request's fields, and on changes by
/// filters.
#[test]
fn status_and_type_are_foretold() {
    let site = Site::with([
        ("index.html", "hello\n"),
        ("sub/index.html", "sub\n"),
        ("sub/page.foo", "foo\n"),
        ("neg/p.html.de", "de\n"),
        ("neg/p.txt.en", "en\n"),
    ]);
    site.page("long.css", "a { color: red }\n".repeat(400));
    let text = "SetOutputFilter DEFLATE\nAddOutputFilterByType DEFLATE text/css\n\
                <Location /status>\nSetHandler server-status\n</Location>\n\
                <Location /metrics>\nSetHandler metrics\n</Location>\n\
                <Location /info>\nSetHandler server-info\n</Location>\n\
                <Location /sub>\nAddDefaultCharset utf-8\nDirectoryIndex none.html page.foo index.html\n</Location>\n\
                <Files page.foo>\nRequire all denied\n</Files>\n\
                <If \"%{HTTP:X-Ask} == 'no'\">\nRequire all denied\n</If>\n\
                <Directory ${DOCS}/neg>\nOptions +MultiViews\nAddLanguage de .de\nAddLanguage en .en\n</Directory>";
    let server = Server::start(Mpm::Percore, &site, text);
    server.allow("AH01630: client denied by server configuration");
    server.allow("AH00690: no acceptable variant");
    let (first, behind) = ("Range: bytes=0-1", "Range: bytes=9999999-");
    // Method, path, fields beside Host; the status.
    let cases: [(&str, &str, &[&str], u16); 30] = [
        ("GET", "/status", &[], 200),
        ("GET", "/status?auto", &[], 200),
        ("GET", "/status?live", &[], 200),
        ("GET", "/status?live.js", &[], 200),
        ("POST", "/status", &["Content-Length: 0"], 404),
        ("GET", "/metrics", &[], 200),
        ("GET", "/metrics", &["Accept: text/plain"], 200),
        ("GET", "/info?server", &[], 200),
        ("GET", "/", &[first], 206),
        ("HEAD", "/", &[first], 206),
        ("GET", "/", &[behind], 416),
        ("GET", "/", &["Range: lines=1-2"], 200),
        ("GET", "/", &[first, "If-Range: \"other\""], 200),
        ("GET", "/missing", &[first], 404),
        ("GET", "/long.css", &["Accept-Encoding: gzip"], 200),
        ("GET", "/long.css", &["Accept-Encoding: gzip", first], 206),
        ("GET", "/long.css", &["Accept-Encoding: gzip", "Range: bytes=5000-"], 416),
        ("GET", "/long.css", &["Range: bytes=5000-"], 206),
        ("GET", "/", &["If-Match: \"other\""], 412),
        ("GET", "/", &["Expect: 100-continue"], 200),
        ("GET", "/", &["Expect: more"], 417),
        ("TRACE", "/missing", &[], 200),
        ("TRACE", "/", &[first], 200),
        ("PUT", "/", &["Content-Length: 0"], 405),
        ("OPTIONS", "/", &[], 200),
        ("GET", "/sub/", &[], 200),
        ("GET", "/sub/index.html", &[], 200),
        ("GET", "/", &["X-Ask: no"], 403),
        ("GET", "/neg/p", &["Accept-Language: de"], 200),
        ("GET", "/neg/p", &["Accept-Language: en", "Accept: text/html"], 406),
    ];
    for (method, path, fields, status) in cases {
        let mut client = server.client();
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n"));
        let got = client.response_to(method);
        let mut arguments = vec!["--method", method, "--host", "localhost", path];
        arguments.extend(fields.iter().flat_map(|field| ["--header", field]));
        let told = &json(&site, &arguments)["answer"];
        let told = (told["status"].as_u64(), told["type"].as_str());
        assert_eq!(told, (Some(got.status.into()), got.field("Content-Type")), "{method} {path} {fields:?}");
        assert_eq!(got.status, status, "{method} {path} {fields:?}");
    }
}

/// A request that no client can send is answered with a warning first; the two addresses of a connection are of one kind.
#[test]
fn unreachable_requests_get_a_warning() {
    let site = Site::with([("index.html", "hello\n")]);
    site.configure(Mpm::Percore, "Listen [::1]:8503");
    let ip = site.ip.to_string();
    let base = format!("no Listen line has port 80; the server listens at {ip}:8080 (");
    let (port80, elsewhere) = (base.as_str(), "no Listen line has 192.0.2.1:8503; the server listens at ");
    let (from6, to6) = (["--from", "2001:db8::1"], ["--to", "[::1]:8503"]);
    let (to, mixed) = (format!("{ip}:8080"), format!("a client at 2001:db8::1 cannot connect to {ip}:8080"));
    // Options and URL; the beginning of the warning, the client and the server that are supposed.
    let cases: [(Vec<&str>, Option<&str>, &str, &str); 8] = [
        (vec!["/"], None, "127.0.0.1", &to),
        (vec!["http://x:8503/"], None, "::1", "[::1]:8503"),
        (vec!["http://x/"], Some(port80), "127.0.0.1", "127.0.0.1:80"),
        (vec!["http://192.0.2.1:8503/"], Some(elsewhere), "127.0.0.1", "192.0.2.1:8503"),
        ([&to6[..], &["/"]].concat(), None, "::1", "[::1]:8503"),
        ([&from6[..], &["/"]].concat(), None, "2001:db8::1", "[::1]:8503"),
        ([&from6[..], &["--to", &to, "/"]].concat(), Some(&mixed), "2001:db8::1", &to),
        (vec!["--to", "[::1]:80", "/"], Some(port80), "::1", "[::1]:80"),
    ];
    for (arguments, warning, client, server) in cases {
        let told = json(&site, &arguments);
        let request = (told["request"]["client"].as_str(), told["request"]["server"].as_str());
        assert_eq!(request, (Some(client), Some(server)), "{arguments:?}");
        let (have, status) = (told["never_arrives"].as_str(), &told["answer"]["status"]);
        let is_right = warning.map_or(have.is_none(), |want| have.is_some_and(|have| have.starts_with(want)));
        assert!(is_right && *status == 200, "{arguments:?}: {have:?}, {status}");
    }
    let (text, _, status) = explain(&site, &["http://x/"]);
    let first = format!("Warning: such a request never arrives: {base}");
    assert!(text.starts_with(&first) && text.contains("\n200: ") && status == Some(0), "{text}");
}

/// A path alone is requested with the server's name, and an empty name stands for a client that sends none.
#[test]
fn a_client_may_send_no_host() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, &format!("{CONFIGURATION}\nUseCanonicalName On"));
    let mut client = server.client();
    client.send("GET /sub HTTP/1.0\r\n\r\n");
    let got = client.response();
    let told = json(&site, &["--host", "", "/sub"]);
    assert_eq!((told["answer"]["status"].as_u64(), &told["request"]["host"]), (Some(got.status.into()), &Value::Null));
    assert_eq!(told["answer"]["location"].as_str(), got.field("Location"));
    assert_eq!(got.field("Location"), Some("http://one.example/sub/"));
    assert_eq!(json(&site, &["/sub"])["request"]["host"], "localhost");
    let (text, ..) = explain(&site, &["--host", "", "/sub"]);
    assert!(text.contains(", Host: - (HTTP/1.0), from 127.0.0.1 to "), "{text}");
}
