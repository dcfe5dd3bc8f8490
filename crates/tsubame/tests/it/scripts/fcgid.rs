//! FastCGI applications started by mod_fcgid: their input, their answers, and which requests they serve.

use crate::harness::fastcgi_programs::{APPLICATION, C, CGI_FAST};
use crate::harness::mpm::under_percore_and;
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;

/// Applications end in `.fcgi`, and no minimum of idle ones is kept.
pub const CONFIGURATION: &str = "LoadModule fcgid_module modules/mod_fcgid.so\nFcgidMinProcessesPerClass 0\nFcgidSpawnScoreUpLimit 1000\n<Directory ${DOCS}>\n\
    Options +ExecCGI\nAddHandler fcgid-script .fcgi\nRequire all granted\n</Directory>\n";

/// Large and not all the same.
pub fn megabytes(count: usize) -> Vec<u8> {
    (0..count * 1_000_000).map(|number| (number * 7 + number / 251) as u8).collect()
}

pub fn site() -> Option<Site> {
    if !needs::PERL.is_there("every test of FastCGI") {
        return None;
    }
    let site = Site::new();
    site.program("a.fcgi", APPLICATION);
    site.program("b.fcgi", APPLICATION);
    Some(site)
}

pub fn post(server: &Server<'_>, path: &str, body: &[u8]) -> Response {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    server.client().request([head.as_bytes(), body].concat())
}

/// The process number and the count of served requests, from an answer to `who`.
pub fn who(response: &Response) -> (i32, u32, String) {
    let text = response.text();
    let mut words = text.splitn(3, ' ');
    let mut next = || words.next().unwrap_or_else(|| panic!("{response:?}"));
    (next().parse().expect("a process"), next().parse().expect("a number"), next().to_string())
}

under_percore_and! {
    worker:

    /// One process serves request after request, over one connection.
    fn a_process_stays_and_so_does_its_connection(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        let (first, one, connection) = who(&server.get("/a.fcgi?who"));
        let mut client = server.client();
        for number in 2..10 {
            assert_eq!(who(&client.get("/a.fcgi?who")), (first, number, connection.clone()));
        }
        assert_eq!(one, 1);
        assert_ne!(who(&server.get("/b.fcgi?who")).0, first, "another file is another class");
    }

    /// Bodies of any length pass unchanged in both directions, and so do variables.
    fn everything_arrives(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxRequestLen 100000000\nLimitRequestFieldSize 100000\nLimitRequestLine 100000"));
        let body = megabytes(8);
        let sum: u64 = body.iter().copied().map(u64::from).sum();
        assert_eq!(post(&server, "/a.fcgi?count", &body).text(), format!("{} {sum}", body.len()));
        assert_eq!(post(&server, "/a.fcgi?echo", &body).body, body, "both ways at once");
        assert_eq!(server.get("/a.fcgi?big=8000000").body.len(), 8_000_000);
        assert_eq!(post(&server, "/a.fcgi?count", b"x").text(), "1 120");
        assert_eq!(server.get("/a.fcgi?count").text(), "0 0");
        for length in [126, 127, 128, 255, 256, 65_530, 90_000] {
            let request = format!("GET /a.fcgi?env HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "v".repeat(length));
            let line = format!("HTTP_X_LONG={}\n", "v".repeat(length));
            assert!(server.client().request(request).text().contains(&line), "{length}");
        }
        let (_, served, _) = who(&server.get("/a.fcgi?who"));
        assert_eq!(served, 13, "one process has served all of that");
    }

    /// A body without a length is measured first: applications rely on `CONTENT_LENGTH`.
    fn a_body_in_chunks_has_a_length(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        let chunked = |path: &str, pieces: &[&[u8]]| {
            let mut bytes = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
            for piece in pieces {
                bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                bytes.extend_from_slice(piece);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            server.client().request(bytes)
        };
        assert!(chunked("/a.fcgi?env", &[b"ab", b"c"]).text().contains("CONTENT_LENGTH=3\n"));
        assert_eq!(chunked("/a.fcgi?echo", &[b"ab", b"c"]).text(), "abc");
        let large = vec![b'x'; 100_000];
        assert_eq!(chunked("/a.fcgi?echo", &[&large, b"y"]).body.len(), 100_001, "more than is kept in memory");
        server.announce("(so far) exceeds MaxRequestLen (131072)");
        assert_eq!(chunked("/a.fcgi?echo", &[&large, &large]).status, 500);
        assert!(server.get("/a.fcgi?env").text().contains("CONTENT_LENGTH=0\n"), "as mod_fcgid has it");
    }

    /// An application's error output is logged.
    fn complaints_are_logged(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.announce("mod_fcgid: stderr: look-out");
        assert_eq!(server.get("/a.fcgi?err=look-out").status, 200);
        until("the line", || server.log().contains("stderr: look").then_some(()));
    }

    /// As many processes serve as there are requests, and one that is free is taken before another one is started.
    fn several_serve_at_once(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut clients: Vec<_> = (0..3).map(|number| {
            let mut client = server.client();
            client.send(crate::harness::wire::get(&format!("/a.fcgi?wait=w{number}")));
            client
        }).collect();
        let mut processes: Vec<i32> = (0..3).map(|number| site.reached(&format!("w{number}"))).collect();
        processes.sort_unstable();
        processes.dedup();
        assert_eq!(processes.len(), 3);
        (0..3).for_each(|number| site.go_on(&format!("w{number}")));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        assert!(processes.contains(&who(&server.get("/a.fcgi?who")).0));
    }

    /// Other libraries: CGI::Fast, libfcgi, and php-cgi with a wrapper.
    fn programs_that_others_wrote(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("fast.fcgi", CGI_FAST);
        let wrapper = if needs::PHP.is_there("programs_that_others_wrote") {
            site.page("hello.php", "<?php echo 'hello ', $_GET['name'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', file_get_contents('php://input');");
            "AddHandler fcgid-script .php\n<Directory ${DOCS}>\nFcgidWrapper /usr/bin/php-cgi .php\n</Directory>"
        } else {
            ""
        };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{wrapper}"));
        assert_eq!(server.get("/fast.fcgi?b=2&a=1").text(), "a=1,b=2");
        assert_eq!(post(&server, "/fast.fcgi", b"x=1").status, 200);
        if !wrapper.is_empty() {
            assert_eq!(server.get("/hello.php?name=you").text(), "hello you /hello.php  ");
            assert_eq!(post(&server, "/hello.php/x/y?name=me", b"body").text(), "hello me /hello.php /x/y body");
        }
        if needs::LIBFCGI.is_there("programs_that_others_wrote") {
            site.compile("c.fcgi", C);
            let body = megabytes(1);
            for (number, length) in [(1, 9), (2, 100_000)] {
                let sum = body[..length].iter().fold(0, |sum: u64, byte| (sum * 31 + u64::from(*byte)) % 1_000_003);
                let text = format!("{number} POST {length} {sum}");
                assert_eq!(post(&server, "/c.fcgi", &body[..length]).text(), text);
            }
            server.announce("exceeds MaxRequestLen (131072)");
            assert_eq!(post(&server, "/c.fcgi", &body).status, 500);
        }
    }
}
