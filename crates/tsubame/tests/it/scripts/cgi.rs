//! CGI scripts: their input, their answers, and how they end.

use std::net::TcpStream;

use crate::harness::mpm::under_percore_and;
use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::server::{Server, children};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, End, Framing};

/// A directory of scripts, and one that may not run them.
const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nAlias /x/ ${ROOT}/cgi-bin/\n\
    <Location /x/>\nSetHandler cgi-script\n</Location>\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";

/// The scripts of the capture, and others; [`cgi_faults`](crate::scripts::cgi_faults) has the scripts that misbehave.
const SCRIPTS: &[(&str, &str)] = &[
    ("ok", "echo Content-Type: text/plain; echo; echo ok"),
    ("empty", ""),
    ("err", "echo to-stderr >&2; echo Content-Type: text/plain; echo; echo ok"),
    ("status", "echo Status: 418 Teapot; echo; echo t"),
    ("status404", "printf 'Status: 404 Away\\nContent-Type: text/plain\\n\\nmine'"),
    ("status200", "printf 'Status: 200 Fine\\nETag: \"e\"\\n\\nmine'"),
    ("status204", "printf 'Status: 204 Nix\\n\\nx'"),
    ("statusx", "printf 'Status: 418Tea\\n\\nx'"),
    ("loc", "echo Location: /cgi/ok; echo"),
    ("locq", "printf 'Location: /cgi/args?a+b\\nX-A: 1\\nSet-Cookie: a=1\\nSet-Cookie: b=2\\n\\nx'"),
    ("locabs", "echo Location: http://h.example/; echo X-A: 1; echo; echo x"),
    ("locrel", "printf 'Location: other/x\\n\\n'"),
    ("loc201", "echo Status: 201; echo Location: http://h.example/new; echo; echo made"),
    ("nph-x", "printf 'HTTP/1.0 299 Own\\r\\nX-Own: 1\\r\\n\\r\\nraw\\n'"),
    ("crlf", "printf 'Content-Type: text/plain\\r\\nX-A: 1\\r\\n\\r\\nbody'"),
    ("cl", "printf 'Content-Type: text/plain\\nContent-Length: 3\\n\\nabcdef'"),
    ("te", "printf 'Transfer-Encoding: chunked\\n\\nabcdef'"),
    ("twice", "printf 'X-A: 1\\nX-A: 2\\nSet-Cookie: a=1\\nSet-Cookie: b=2\\n\\nx'"),
    ("nomod", "printf 'Content-Type: text/plain\\nLast-Modified: Sat, 01 Jan 2000 00:00:00 GMT\\nETag: \"e\"\\n\\nx'"),
    ("args", "printf '\\n'; for a; do printf '[%s]' \"$a\"; done; pwd | sed 's|.*/||'"),
    (
        "env",
        "printf '\\n'; env | grep -E '^(AUTH_|CONTENT_|GATEWAY|HTTP_|PATH_INFO|QUERY|REDIRECT|REMOTE_ADDR|REQUEST_|\
         SCRIPT_NAME|SERVER_PORT|SERVER_PROTOCOL|SERVER_NAME)' | sort; cat",
    ),
    ("count", "printf '\\n'; wc -c"),
    ("echo", "printf '\\n'; exec cat"),
];

fn build(site: &Site) {
    for (name, text) in SCRIPTS {
        site.script(name, &format!("#!/bin/sh\n{text}\n"));
    }
    std::fs::create_dir_all(site.root.join("cgi-bin/dir")).expect("directory");
}

fn site() -> Site {
    let site = Site::new();
    build(&site);
    site
}

/// The scripts that the children of a server run.
fn scripts(server: &Server<'_>) -> Vec<i32> {
    let pids = server.children().into_iter().filter_map(sys::process::Pid::new);
    pids.flat_map(children).collect()
}

#[test]
fn scripts_answer_as_under_apache() {
    let case = |line: &str, fields: &str| Case {
        name: format!("{line} {fields}").trim().replace("\r\n", " "),
        bytes: format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n").into_bytes(),
    };
    let names = SCRIPTS.iter().map(|(name, _)| *name).filter(|name| *name != "nph-x");
    let mut cases: Vec<Case> =
        names.chain(["none", "dir", "dir/"]).map(|name| case(&format!("GET /cgi/{name}"), "")).collect();
    cases.extend([
        case("GET /x/ok", ""),
        case("GET /cgi/nomod", "If-None-Match: \"e\"\r\n"),
        case("GET /cgi/nomod", "If-Match: \"z\"\r\n"),
        case("GET /cgi/status200", "If-None-Match: \"e\"\r\n"),
        case("GET /cgi/args?a+b%20c;d++%3e", ""),
        case("GET /cgi/args?a=b+c", ""),
        case("GET /cgi/env/p%20i%3f/x?q", "X-Y: z\r\nX_Y: no\r\nX-Y: w\r\nProxy: no\r\nAuthorization: Basic eDp5\r\n"),
        case("POST /cgi/env?a=b", "Content-Type: a/b\r\nContent-Length: 4\r\n\r\nx=1&"),
        case("POST /cgi/env", "Transfer-Encoding: chunked\r\n\r\n4\r\nx=1&\r\n0\r\n"),
        case("POST /cgi/locq", "Content-Length: 4\r\n\r\nx=1&"),
        case("OPTIONS /cgi/ok", ""),
        case("DELETE /cgi/env", ""),
    ]);
    // How the end of a body is marked depends on timing, in Apache too.
    let framing = |what| Allowed { case: "*", what, entry: "The length of a short CGI answer" };
    let status = |what| Allowed { case: "GET /cgi/statusx", what, entry: "A status that does not exist" };
    // Apache logs a broken pipe if the script has ended before its input was written.
    let unread = Allowed {
        case: "POST /cgi/locq *",
        what: "error log",
        entry: "A script may answer before its input is complete",
    };
    let allowed = [framing("content-length"), framing("transfer-encoding"), status("%s"), status("%>s"), unread];
    compare("scripts_answer_as_under_apache", build, CONFIGURATION, &cases, &allowed);
}

under_percore_and! { prefork:
    /// A script that speaks to the client itself is not in its way.
    fn nph_scripts(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        client.send("GET /cgi/nph-x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (bytes, end) = client.rest();
        assert_eq!((&bytes[..], end), (&b"HTTP/1.0 299 Own\r\nX-Own: 1\r\n\r\nraw\n"[..], End::Closed));
    }

    /// A short answer is one with a length, over a connection that stays.
    fn short_answers_have_a_length(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        let lengths = (0..20).filter(|_| {
            let response = client.get("/cgi/ok");
            assert_eq!((response.status, response.text().as_str()), (200, "ok\n"));
            response.framing == Framing::Length
        });
        assert!(lengths.count() > 0);
        until("the end of the last zombie", || scripts(&server).is_empty().then_some(()));
    }

    /// Bodies of any length pass in both directions at once.
    fn bodies_pass_through(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let body = "0123456789".repeat(100_000);
        let head = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let response = server.client().request(format!("{}{body}", head("/cgi/count")));
        assert_eq!(response.text().trim(), "1000000");
        let stream = TcpStream::connect(server.address()).expect("connect");
        let (mut sender, mut client) = (Client::over(stream.try_clone().expect("clone")), Client::over(stream));
        let response = std::thread::scope(|scope| {
            scope.spawn(|| sender.send(format!("{}{body}", head("/cgi/echo"))));
            client.response()
        });
        assert_eq!(response.body.len(), 1_000_000);
    }

    /// A path that a script names may come from its client: it is decoded and cleaned as one of a request line.
    fn local_redirects_stay_inside(mpm: Mpm) {
        let site = site();
        site.script("goto", "#!/bin/sh\nprintf 'Location: %s\\n\\n' \"$QUERY_STRING\"\n");
        site.page("a b.txt", "a b");
        site.page("secret/s.txt", "secret");
        site.page("place/s.txt", "secret");
        site.file("outside.txt", "outside");
        let sections = "<Directory ${DOCS}/secret>\nRequire all denied\n</Directory>\n\
            <Location /place>\nRequire all denied\n</Location>\n<Location /cgi>\nRequire all granted\n</Location>";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}\n{sections}"));
        server.allow("AH10244: invalid URI path");
        server.allow("AH01630: client denied by server configuration");
        let cases = [
            ("/a%20b.txt", 200),
            ("/../outside.txt", 400),
            ("/secret/../../outside.txt", 400),
            ("/secret/s.txt", 403),
            ("//secret//s.txt", 403),
            ("/x/../secret/s.txt", 403),
            ("/secre%74/s.txt", 403),
            ("//place/s.txt", 403),
            ("/x/../place/s.txt", 403),
        ];
        for (path, status) in cases {
            assert_eq!(server.get(&format!("/cgi/goto?{path}")).status, status, "{path}");
        }
    }

    /// A script with endless error output delays only its own client.
    fn complaints_without_end(mpm: Mpm) {
        let site = site();
        let text = "yes complaint >&2 & while [ ! -e ../enough ]; do sleep 0.1; done; kill $!";
        site.script("complain", &format!("#!/bin/sh\nprintf '\\n'; {text}\n"));
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}\nErrorLog /dev/null"));
        let mut complaining: Vec<_> = (0..8).map(|_| server.client()).collect();
        complaining.iter_mut().for_each(|client| client.send("GET /cgi/complain HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        until("the scripts", || (scripts(&server).len() >= 4).then_some(()));
        for _ in 0..4 {
            assert_eq!(server.get("/cgi/ok").status, 200);
        }
        site.file("enough", "");
        until("the end of the scripts", || scripts(&server).is_empty().then_some(()));
    }

    /// The path after a script's name may be arbitrarily deep.
    fn deep_paths_after_a_script(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for depth in [1, 6, 7, 8, 9, 100, 1000] {
            let info = "/x".repeat(depth);
            let text = server.get(&format!("/cgi/env{info}")).text();
            assert!(text.lines().any(|line| line == format!("PATH_INFO={info}")), "{depth}: {text}");
        }
        assert_eq!(server.get(&"/y".repeat(1000)).status, 404);
    }

    /// The client would take the next answer for that to its request.
    fn no_answer_follows_an_interim_one(mpm: Mpm) {
        let site = site();
        site.script("interim", "#!/bin/sh\nprintf 'Status: 102 Early\\n\\nx'\n");
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        client.send(["interim", "ok"].map(|name| format!("GET /cgi/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n")).concat());
        let (bytes, _) = client.rest();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("HTTP/1.1 102 Early\r\n") && !text.contains("200 OK"), "{text}");
    }
}
