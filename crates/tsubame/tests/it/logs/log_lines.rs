//! Access and error logs.

use crate::harness::mpm::under_percore_and;
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

under_percore_and! { worker:
    /// Every request has its line, in the order of its connection, and none is lost at the end.
    fn every_request_is_logged(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let mut server = Server::start(mpm, &site, "CustomLog logs/access \"%q %>s %B\"");
        let mut client = server.client();
        for number in 0..100 {
            assert_eq!(client.get(&format!("/?{number}")).status, 200);
        }
        drop(client);
        server.signal(sys::signal::Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
        let expected: Vec<String> = (0..100).map(|number| format!("?{number} 200 6")).collect();
        assert_eq!(site.read("logs/access").lines().collect::<Vec<_>>(), expected);
    }

    /// A log that was moved away is opened again by a graceful restart; nothing is lost between the two files.
    fn logs_are_rotated(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let mut server = Server::start(mpm, &site, "CustomLog logs/access \"%q\"");
        // On a slow machine it sees by itself that the file is gone, before the signal comes.
        server.allow("log files were renamed or removed");
        assert_eq!(server.get("/?before").status, 200);
        let path = site.root.join("logs/access");
        std::fs::rename(&path, site.root.join("logs/access.1")).expect("rename");
        assert_eq!(server.get("/?between").status, 200);
        server.restart(sys::signal::Signal::USR1);
        assert_eq!(server.get("/?after").status, 200);
        until("the new log", || (site.read("logs/access") == "?after\n").then_some(()));
        let old = || {
            let log = site.read("logs/access.1");
            let mut lines: Vec<&str> = log.lines().collect();
            lines.sort_unstable();
            (lines == ["?before", "?between"]).then_some(())
        };
        until(&format!("the old log, which has {:?}", site.read("logs/access.1")), old);
    }

    /// A client that speaks TLS to a plain port is answered, and its hello makes a short line, the one that Apache makes of it
    /// (up to the first NUL).
    fn a_hello_of_tls_is_a_short_line(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let server = Server::start(mpm, &site, "CustomLog logs/access \"%r %>s\"");
        let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[0xc8; 400], b"\n"].concat();
        let mut client = server.client();
        client.send(&hello);
        assert_eq!(client.response().status, 400);
        until("the line", || (site.read("logs/access") == "\\x16\\x03\\x01\\x02 400\n").then_some(()));
    }

    /// Lines for a program: they arrive, and it ends with the server.
    fn a_program_takes_the_lines(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let server = Server::start(mpm, &site, "CustomLog \"|$cat >> ${ROOT}/logs/piped\" \"%q %>s\"");
        for number in 0..10 {
            assert_eq!(server.get(&format!("/?{number}")).status, 200);
        }
        until("all lines", || (site.read("logs/piped").lines().count() == 10).then_some(()));
    }

    /// A chunk that only ends a body has no bytes of it.
    fn an_empty_body_has_no_bytes(mpm: Mpm) {
        let site = Site::new();
        site.script("late", "#!/bin/sh\nprintf '\\n'; while [ ! -e ../enough ]; do sleep 0.05; done\n");
        let server = Server::start(mpm, &site, "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nCustomLog logs/access \"%b %B\"");
        let mut client = server.client();
        client.send(get("/cgi/late"));
        // Its head goes out before it is known that there is no body.
        assert_eq!(client.bytes(1), b"H");
        site.file("enough", "");
        client.half_close();
        let (rest, _) = client.rest();
        assert!(rest.ends_with(b"\r\n\r\n0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
        assert_eq!(until("the line", || site.read("logs/access").lines().next().map(str::to_string)), "- 0");
    }
}

/// Format items, one request and one line each. Text that depends on the place is removed.
#[test]
fn formats_are_those_of_apache() {
    let items = [
        "%%",
        "%a",
        "%h",
        "%A",
        "%l",
        "%u",
        "%m",
        "%U",
        "%q",
        "%H",
        "%s",
        "%>s",
        "%<s",
        "%b",
        "%B",
        "%O",
        "%I",
        "%S",
        "%k",
        "%X",
        "%p",
        "%{canonical}p",
        "%{local}p",
        "%v",
        "%V",
        "%f",
        "%R",
        "%r",
        "%L",
        "%{X-A}i",
        "%{x-a}i",
        "%{Content-Type}o",
        "%{Content-Language}o",
        "%{Content-Encoding}o",
        "%{Vary}o",
        "%{Nope}i",
        "%{Nope}o",
        "%{v}e",
        "%{nope}e",
        "%{n}n",
        "%{c}C",
        "%{Host}i",
        "%{User-agent}i",
        "%200{X-A}i",
        "%!200{X-A}i",
        "%404,200{X-A}i",
        "%!404{X-A}i",
        "%{begin:%Y}t",
        "%{%%}t",
        "%{c}a",
        "\\\"%r\\\"",
        "%{X-A}^ti",
        "%{X-A}^to",
        "%{X-Odd}i",
    ];
    let formats: String = items.iter().map(|item| format!("CustomLog logs/access \"{item}\"\n")).collect();
    let configuration = format!(
        "SetEnvIf Request_URI . v=value\nDefaultLanguage nl\nAddEncoding x-own .txt\nHeader set Vary Accept\n\
         Header append Vary X-Own\n{formats}"
    );
    let requests = [
        "GET /a.txt HTTP/1.1\r\nHost: localhost:99\r\nX-A: b\\\"c\r\nX-Odd: \t\u{e9}\"\\\r\nCookie: c=d; e=f\r\nUser-agent: x\r\n\
         Connection: close\r\n\r\n",
        "HEAD /none?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
        "GET /a%20b%22?%22 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /d HTTP/1.0\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nHost: b\r\nX-A: c\r\n\r\n",
    ];
    let lines = std::cell::RefCell::new(Vec::new());
    let build = |site: &Site| {
        site.page("a.txt", "0123456789");
        site.page("d/index.html", "d\n");
    };
    let ours = oracle::both("formats_are_those_of_apache", build, &configuration, |site| {
        let mut all = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let mut client = Client::connect(site.address());
            client.send(request);
            client.rest();
            drop(client);
            let count = (index + 1) * items.len();
            until("the lines", || (site.read("logs/access").lines().count() >= count).then_some(()));
            let text = site.read("logs/access").replace(&site.ip.to_string(), "ADDR").replace(site.path(), "ROOT");
            let new = text.lines().skip(index * items.len()).take(items.len());
            all.extend(items.iter().zip(new).map(|(item, line)| format!("{index} {item}: {line}")));
        }
        lines.borrow_mut().push(all);
    });
    let lines = lines.into_inner();
    let (ours, theirs) = lines.split_at(ours);
    for (ours, theirs) in ours.iter().flat_map(|ours| theirs.iter().map(move |theirs| (ours, theirs))) {
        assert_eq!(ours.len(), requests.len() * items.len());
        // The protocol of a line that is not a request is our guess; docs/differences.md has it. How long an answer is depends on the name of the server; an identifier is new each time.
        let skipped = |line: &&String| !["%O:", "%S:", "%L:", "%I:", "5 %H:"].iter().any(|item| line.contains(item));
        let different: Vec<String> = ours
            .iter()
            .zip(theirs)
            .filter(|(our, _)| skipped(our))
            .filter(|(our, their)| our != their)
            .map(|(our, their)| format!("    ours   {our}\n    Apache {their}"))
            .collect();
        assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
    }
}

/// An unknown argument is written unchanged, byte for byte.
#[test]
fn bytes_of_a_format_are_kept() {
    let build = |site: &Site| {
        site.file("conf/odd.conf", b"CustomLog logs/odd \"%{\xe9\xff}p %{\xc3\xa9\xe9}T\"\n");
    };
    oracle::both("bytes_of_a_format_are_kept", build, "Include conf/odd.conf", |site| {
        let mut client = Client::connect(site.address());
        client.send("GET / HTTP/1.0\r\n\r\n");
        client.rest();
        let read = || std::fs::read(site.root.join("logs/odd")).ok().filter(|bytes| bytes.ends_with(b"\n"));
        assert_eq!(until("the line", read), b"\xe9\xff \xc3\xa9\xe9\n");
    });
}

/// Which lines are written at all.
#[test]
fn conditions_choose_the_lines() {
    let configuration = "SetEnvIf Request_URI \"^/a\" a\n\
        CustomLog logs/with \"%U\" env=a\nCustomLog logs/without \"%U\" env=!a\n\
        CustomLog logs/expr \"%U\" \"expr=%{REQUEST_STATUS} == 404\"\nCustomLog logs/all \"%U\"";
    let build = |site: &Site| _ = site.page("a", "a\n");
    oracle::both("conditions_choose_the_lines", build, configuration, |site| {
        for path in ["/a", "/b", "/a/x"] {
            Client::connect(site.address()).get(path);
        }
        let sorted = |name: &str| {
            let mut lines: Vec<String> = site.read(name).lines().map(str::to_string).collect();
            lines.sort_unstable();
            lines
        };
        // Each log is written for itself.
        for (name, expected) in [
            ("logs/all", &["/a", "/a/x", "/b"][..]),
            ("logs/with", &["/a", "/a/x"]),
            ("logs/without", &["/b"]),
            ("logs/expr", &["/a/x", "/b"]),
        ] {
            until("the lines", || (sorted(name).len() >= expected.len()).then_some(()));
            assert_eq!(sorted(name), expected, "{name}");
        }
    });
}

/// `LogLevel`, for all, for a module, for a section; and the form of a line.
#[test]
fn levels_choose_the_messages() {
    let rows = [
        ("LogLevel warn", false),
        ("LogLevel info", true),
        ("LogLevel warn core:info", true),
        ("LogLevel info core:crit", false),
        ("LogLevel info\n<Directory \"${DOCS}\">\nLogLevel core:crit\n</Directory>", false),
        ("LogLevel crit\n<Directory \"${DOCS}\">\nLogLevel core:info\n</Directory>", true),
    ];
    for (configuration, expected) in rows {
        oracle::both(
            "levels_choose_the_messages",
            |_| {},
            configuration,
            |site| {
                assert_eq!(Client::connect(site.address()).get("/none").status, 404);
                assert_eq!(Client::connect(site.address()).request("GET / HTTP/1.1\r\n\r\n").status, 400);
                let log = site.read("logs/error_log");
                let line = log.lines().find(|line| line.contains("AH00128: File does not exist: "));
                assert_eq!(line.is_some(), expected, "{configuration}:\n{log}");
                if let Some(line) = line {
                    assert!(line.contains("] [core:info] [pid "), "{line}");
                    assert!(line.contains("] [client 127.0.0.1:"), "{line}");
                    assert!(line.ends_with("/htdocs/none"), "{line}");
                }
            },
        );
    }
}
