//! The input and the answers of scripts, compared with Apache.

use std::os::unix::fs::PermissionsExt;

use crate::harness::oracle::{Allowed, Case, both, compare};
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, within};
use crate::harness::wire::{Client, Response};

/// Directories of scripts.
pub const SECTIONS: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    <Directory ${DOCS}>\nOptions ExecCGI FollowSymLinks\nAddHandler cgi-script .cgi\n</Directory>";

/// Sends the script's whole input as a body, except for the port, which always differs.
const TELL: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; for a; do printf '[%s]' \"$a\"; done; pwd\n\
    env | grep -vE '^(REDIRECT_)*REMOTE_PORT=' | sort; cat\n";
/// The same as fields.
const TELL_HEAD: &str =
    "#!/bin/sh\nenv | grep = | grep -vE '^(REDIRECT_)*REMOTE_PORT=' | sed 's/^/X-Env-/; s/=/: /'; echo; echo\n";

/// How the end of a body is marked depends on timing, in Apache too.
fn allowed() -> Vec<Allowed> {
    let framing = ["content-length", "transfer-encoding"].map(|what| Allowed {
        case: "*",
        what,
        entry: "The length of a short CGI answer",
    });
    let fields = [Allowed { case: "*Keep-Alive: x*", what: "keep-alive", entry: "Keep-Alive, Date and Server" }];
    let none = ["*Status: 1000 *", "*Status: 99 *", "*Status: abc*", "*Status:\\n*", "*Status: 299 a*"];
    let status = |what| none.map(|case| Allowed { case, what, entry: "A status that does not exist" });
    framing.into_iter().chain(fields).chain(status("%s")).chain(status("%>s")).collect()
}

/// A request on its own connection: a line without version, the fields, and the bytes after them.
pub fn case(line: &str, fields: &str, body: &str) -> Case {
    Case {
        name: format!("{line} {fields}{body}").trim().replace("\r\n", " "),
        bytes: format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n{body}").into_bytes(),
    }
}

/// Plain requests for these paths.
pub fn gets(paths: &[&str]) -> Vec<Case> {
    paths.iter().map(|path| case(&format!("GET {path}"), "", "")).collect()
}

fn build(site: &Site) {
    site.script("tell", TELL);
    site.script("head", TELL_HEAD);
    site.script("nothing", "#!/bin/sh\n");
    for name in ["a.cgi", "index.cgi", "d/x.cgi", "d/index.cgi", "s p/ä.cgi", "own/b.cgi"] {
        let path = site.page(name, TELL);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    }
    site.page("own/.htaccess", "SetEnv OWN htaccess\nCGIPassAuth On\nCGIVar REQUEST_URI current-uri\n");
    site.page("secret/x", "x");
    site.file("users", "me:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
}

#[test]
fn variables_of_scripts() {
    let mut cases = gets(&[
        "/cgi/tell",
        "/cgi/tell?",
        "/cgi/tell?a=b&c",
        "/cgi/tell?a+b%20c;d++%3e",
        "/cgi/tell?%3d+%26",
        "/cgi/tell/",
        "/cgi/tell/p%20i%3f/../x//y?q",
        "//cgi//tell/a",
        "/cgi/tell/%c3%a4",
        "/a.cgi",
        "/a.cgi/info",
        "/",
        "/?q=1",
        "/d/",
        "/d/x.cgi/y/z",
        "/d",
        "/s%20p/%c3%a4.cgi/x",
        "/own/b.cgi/x?y",
        "/none?a=b",
        "/cgi/nothing?a=b",
        "/secret/x",
        "http://Other.example.:81/cgi/tell/x?y",
        "http://[::1]:81/cgi/tell",
        "http://other/cgi/tell",
        "/cgi/head/x?y",
    ]);
    let auth = "Authorization: Basic bWU6cGFzc3dvcmQ=\r\nProxy-Authorization: Basic eDp5\r\n";
    cases.extend([
        case("HEAD /cgi/head/x?y", "", ""),
        case("GET /cgi/tell", &format!("{auth}X-Y: z\r\nX_Y: no\r\nX-Y: w\r\nx-y: v\r\nProxy: no\r\nCookie: a=1\r\nCookie: b=2\r\nX.Z: no\r\nX-Empty:\r\n"), ""),
        case("GET /own/b.cgi", auth, ""),
        case("GET /secret/x", auth, ""),
        case("GET /cgi/tell", "Content-Type: text/x\r\nContent-Length: 0\r\n", ""),
        case("POST /cgi/tell?a=b", "Content-Type: a/b; c=d\r\nContent-Length: 4\r\n", "x=1&"),
        case("POST /cgi/tell", "Transfer-Encoding: chunked\r\n", "4\r\nx=1&\r\n0\r\n\r\n"),
        case("POST /none", "Content-Type: a/b\r\nContent-Length: 4\r\n", "x=1&"),
        case("POST /cgi/nothing", "Content-Type: a/b\r\nContent-Length: 4\r\n", "x=1&"),
        case("PUT /cgi/tell/x", "Content-Length: 4\r\n", "x=1&"),
        case("DELETE /none", "", ""),
        case("DELETE /cgi/", "", ""),
        case("PUT /cgi/?x=y", "Content-Length: 4\r\n", "x=1&"),
        case("FOO /cgi/tell", "", ""),
        case("OPTIONS /cgi/tell", "", ""),
    ]);
    for (name, line) in [
        ("without Host", "GET /cgi/tell/x?y HTTP/1.0\r\n\r\n"),
        ("another host", "GET /cgi/tell HTTP/1.1\r\nHost: WWW.Example.com.:8081\r\nConnection: close\r\n\r\n"),
        ("an address", "GET /cgi/tell HTTP/1.1\r\nHost: [::1]:99\r\nConnection: close\r\n\r\n"),
    ] {
        cases.push(Case { name: name.into(), bytes: line.into() });
    }
    let documents = "ErrorDocument 404 /cgi/tell/missing?e\nErrorDocument 500 /cgi/tell\nErrorDocument 401 /cgi/head\n\
        ErrorDocument 405 /a.cgi\nDirectoryIndex index.cgi tell";
    let secret =
        "<Location /secret>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>";
    let configurations = [
        "",
        "UseCanonicalName On\nServerName canon.example:99\nServerAdmin me@x.example\nServerSignature EMail",
        "ServerSignature On\nUseCanonicalName DNS\nUseCanonicalPhysicalPort On",
        "UseCanonicalPhysicalPort On\nServerName canon.example:99",
        "<Location />\nCGIPassAuth On\n</Location>\nCGIVar REQUEST_URI current-uri\nQualifyRedirectURL On",
        "SetEnv A 1\nSetEnv MY-ODD.NAME 2\nSetEnv 1X 3\nSetEnv EMPTY\nSetEnv SCRIPT_NAME mine\nSetEnv PATH /usr/bin:/bin\nSetEnv HTTP_X_Y mine\n\
         SetEnv TZ Europe/Berlin\nPassEnv HOME\nSetEnvIf Request_URI . IF=1 A=2 !B\nUnsetEnv GATEWAY_INTERFACE\nSetEnv REMOTE_USER x",
        "<LocationMatch \"^/cgi/(?<Name>[a-z]+)\">\nSetEnv M %{env:MATCH_NAME}\n</LocationMatch>\nAcceptPathInfo Off",
        "SetEnvIf Authorization \"(.+)\" HTTP_AUTHORIZATION=$1\nAcceptPathInfo On\nServerAdmin you\nKeepAlive Off",
    ];
    for configuration in configurations {
        println!("with {configuration}");
        let configuration = format!(
            "{SECTIONS}\n{documents}\n{secret}\n<Directory ${{DOCS}}/own>\nAllowOverride All\n</Directory>\n{configuration}"
        );
        let mut allowed = allowed();
        let body = "POST /none Content-Type: a/b Content-Length: 4 x=1&";
        allowed.push(Allowed { case: body, what: "body", entry: "A script that is an error document" });
        let unread = "POST /cgi/nothing Content-Type: a/b Content-Length: 4 x=1&";
        allowed.push(Allowed {
            case: unread,
            what: "error log",
            entry: "A script may answer before its input is complete",
        });
        // A script that takes no path cannot be the error document `/cgi/tell/missing` either.
        if configuration.contains("AcceptPathInfo Off") {
            let sent = ["%b", "%{Content-Type}o"];
            allowed.extend(sent.map(|what| Allowed { case: "*", what, entry: "An error document that fails" }));
        }
        compare("variables_of_scripts", build, &configuration, &cases, &allowed);
    }
}

/// The answers of scripts, as `printf` formats.
const ANSWERS: &[&str] = &[
    r"Status: 200\n\nx",
    r"Status: 404\n\nx",
    r"Status: 404 Away\n\nx",
    r"Status: 299 Odd  Reason\n\nx",
    r"Status: 299 \n\nx",
    r"Status:\n\nx",
    r"Status: abc\n\nx",
    r"Status: 99 Low\n\nx",
    r"Status: 600 High\n\nx",
    r"Status: 1000 Long\n\nx",
    r"Status: +200 OK\n\nx",
    r"Status: 200OK\n\nx",
    r"Status: 0200 OK\n\nx",
    r"Status: 404 One\nStatus: 403 Two\n\nx",
    r"Status: 404 a\001b\n\nx",
    r"Status: 200 a\033[31mb\n\nx",
    r"Status: 299 a\177b\n\nx",
    r"Status: 404 a\tb\n\nx",
    r"Status: 404 \303\244 \344\n\nx",
    r"Status: 204 Nix\nX-A: 1\n\nx",
    r"Status: 204\nContent-Type: text/plain\nContent-Language: de\nContent-Encoding: gzip\n\n",
    r"Status: 304 Same\nX-A: 1\n\nx",
    r"Status: 304\nETag: \042e\042\nContent-Type: text/plain\n\n",
    r"Status: 401 Who\nWWW-Authenticate: Basic realm=x\n\nx",
    r"Status: 302 Else\n\nx",
    r"Status: 405\nAllow: X\n\nx",
    r"Status: 416\n\nx",
    r"Location: /told.txt\n\n",
    r"Location: /told.txt?q#f\n\n",
    r"Location: /cgi/tell/x?q=1\nContent-Type: text/x\nX-A: 1\nSet-Cookie: a=1\n\nx",
    r"Location: /untyped\nContent-Type: text/x\n\nx",
    r"Location: /none\n\n",
    r"Location: /dir\n\n",
    r"Location: /told txt\n\n",
    r"Location: //told.txt\n\n",
    r"Location: other\n\n",
    r"Location: \n\n",
    r"Location: http://h.example/<x>&\n\nbody",
    r"Location: HTTP://h.example/\nContent-Type: text/plain\n\nbody",
    r"Location: http://h.example/\nStatus: 301 Moved\n\nbody",
    r"Location: http://h.example/\nStatus: 200 OK\n\nbody",
    r"Location: /told.txt\nStatus: 302 Found\n\nbody",
    r"Location: /told.txt\nStatus: 200 OK\n\nbody",
    r"Location: /told.txt\nStatus: 404 No\n\nbody",
    r"Location: mailto:x@h.example\n\nbody",
    r"Content-Type: Text/PLAIN; Charset=X\n\nx",
    r"Content-Type:\n\nx",
    r"Content-Type: text/html\nContent-Type: text/plain\n\nx",
    r"\nx",
    r"\r\nx",
    r"X-A: 1\r\nX-B: 2\n\r\nx",
    r"X-A:1\nX-A: 2 \nX-B:   3\t\n\nx",
    r"Set-Cookie: a\nSet-Cookie: b\nset-cookie: c\n\nx",
    r"Cache-Control: no-cache\nCache-Control: private\n\nx",
    r"Content-Length: 3\n\nabcdef",
    r"Content-Length: 9\n\nabc",
    r"Transfer-Encoding: chunked\n\nabc",
    r"Connection: close\nKeep-Alive: x\nDate: x\nServer: mine\n\nx",
    r"Content-Encoding: gzip\nContent-Language: fr\nContent-Location: /x\n\nx",
    r"Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT\nETag: \042e\042\n\nx",
    r"Last-Modified: nonsense\nETag: nonsense\nExpires: nonsense\n\nx",
    r"Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT\nExpires: Sat, 01 Jan 2000 00:00:00 GMT\n\nx",
    r"Content-Range: bytes 0-1/9\nStatus: 206 Part\n\nxy",
    r"Accept-Ranges: none\n\nxyz",
    r"X-A: \344\n\n\344",
    r"Content-Type: text/plain\n\n",
    r"X-Long: 1\n 2\n\nx",
];

#[test]
fn how_scripts_answer() {
    let build = |site: &Site| {
        for (number, text) in ANSWERS.iter().enumerate() {
            site.script(&number.to_string(), &format!("#!/bin/sh\ncat >/dev/null; printf '{text}'\n"));
        }
        site.script("tell", TELL);
        site.page("told.txt", "told\n");
        site.page("untyped", "untyped\n");
        site.page("dir/index.html", "dir\n");
    };
    let mut cases = Vec::new();
    for (number, text) in ANSWERS.iter().enumerate() {
        for (method, fields, body) in [
            ("GET", "", ""),
            ("HEAD", "", ""),
            ("POST", "Content-Length: 3\r\n", "abc"),
            ("GET", "If-None-Match: \"e\"\r\nIf-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n", ""),
            ("GET", "If-Match: \"z\"\r\n", ""),
        ] {
            // Apache judges a redirect by the conditions of the request.
            if text.contains("Location: ") && fields.starts_with("If-Match") {
                continue;
            }
            let mut case = case(&format!("{method} /cgi/{number}"), fields, body);
            case.name = format!("{method} {fields}{text}").replace("\r\n", " ");
            cases.push(case);
        }
    }
    compare("how_scripts_answer", build, SECTIONS, &cases, &allowed());
    compare(
        "how_scripts_answer",
        build,
        &format!("{SECTIONS}\nErrorDocument 404 /told.txt\nErrorDocument 500 \"five\""),
        &cases,
        &allowed(),
    );
}

/// Scripts whose answers are available at once.
const WHOLE: &[(&str, &str)] = &[
    ("plain", r"printf 'Content-Type: text/plain\n\nhello, world\n'"),
    ("reason", r"printf 'Status: 200 Fine\n\nhello, world\n'"),
    ("wrong", r"printf 'Content-Length: 5\n\nhello, world\n'"),
    ("none", r"printf 'X-A: 1\n\n'"),
    ("missing", r"printf 'Status: 404 No\n\nhello, world\n'"),
    ("part", r"printf 'Status: 206 Part\nContent-Range: bytes 0-4/13\n\nhello'"),
    ("range", r"printf 'Content-Range: bytes 0-12/100\n\nhello, world\n'"),
    ("tagged", r#"printf 'ETag: "e"\n\nhello, world\n'"#),
    ("headless", r"printf 'X-A: 1\n\n'; [ $REQUEST_METHOD = HEAD ] || printf '%077d' 7"),
    ("trusted/headless", r"printf 'Content-Length: 77\n\n'; [ $REQUEST_METHOD = HEAD ] || printf '%077d' 7"),
];

/// A script, the method, more fields; status line, length and body.
type Whole = (&'static str, &'static str, &'static str, &'static str, Option<&'static str>, &'static str);

#[rustfmt::skip]
const ASKED: &[Whole] = &[
    ("plain", "GET", "", "200 OK", Some("13"), "hello, world\n"),
    ("plain", "HEAD", "", "200 OK", Some("13"), ""),
    ("wrong", "GET", "", "200 OK", Some("13"), "hello, world\n"),
    ("wrong", "HEAD", "", "200 OK", Some("13"), ""),
    ("none", "HEAD", "", "200 OK", None, ""),
    ("headless", "HEAD", "", "200 OK", None, ""),
    ("trusted/headless", "HEAD", "", "200 OK", Some("77"), ""),
    ("plain", "GET", "Range: bytes=0-4\r\n", "206 Partial Content", Some("5"), "hello"),
    ("plain", "GET", "Range: bytes=-3\r\n", "206 Partial Content", Some("3"), "ld\n"),
    ("plain", "GET", "Range: bytes=7-\r\n", "206 Partial Content", Some("6"), "world\n"),
    ("plain", "GET", "Range: nonsense\r\n", "200 OK", Some("13"), "hello, world\n"),
    ("plain", "HEAD", "Range: bytes=0-4\r\n", "206 Partial Content", Some("5"), ""),
    ("reason", "GET", "Range: bytes=0-4\r\n", "206 Partial Content", Some("5"), "hello"),
    ("missing", "GET", "Range: bytes=0-4\r\n", "404 No", Some("13"), "hello, world\n"),
    ("part", "GET", "Range: bytes=0-1\r\n", "206 Part", Some("5"), "hello"),
    ("range", "GET", "Range: bytes=0-4\r\n", "200 OK", Some("13"), "hello, world\n"),
    ("tagged", "GET", "Range: bytes=0-4\r\nIf-Range: \"e\"\r\n", "206 Partial Content", Some("5"), "hello"),
    ("tagged", "GET", "Range: bytes=0-4\r\nIf-Range: \"z\"\r\n", "200 OK", Some("13"), "hello, world\n"),
];

/// If DEFLATE collects a short answer, as in Debian's configuration, Apache knows its length too.
#[test]
fn lengths_and_ranges_of_answers_that_are_whole() {
    let build = |site: &Site| {
        std::fs::create_dir_all(site.root.join("cgi-bin/trusted")).expect("directory");
        for (name, text) in WHOLE {
            site.script(name, &format!("#!/bin/sh\n{text}\n"));
        }
    };
    let configuration = format!(
        "{SECTIONS}\n<LocationMatch \"^/cgi/[a-z]+$\">\nSetOutputFilter DEFLATE\n</LocationMatch>\n\
         <Location /cgi/trusted>\nSetEnv ap_trust_cgilike_cl 1\n</Location>"
    );
    let check = |site: &Site| {
        for (script, method, fields, status, length, body) in ASKED {
            let ask = || {
                let mut client = Client::connect(site.address());
                client.send(format!("{method} /cgi/{script} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
                client.response_to(method)
            };
            let is_as_wanted = |answer: &Response| {
                let line = format!("{} {}", answer.status, answer.reason);
                let content_length = answer.field("Content-Length");
                line == *status && content_length == *length && answer.text() == *body
            };
            // Whether an answer is available at once depends on timing, too.
            let last = std::cell::RefCell::default();
            let wanted = within(DEADLINE, || {
                let answer = ask();
                let done = is_as_wanted(&answer).then_some(());
                *last.borrow_mut() = format!("{answer:?}");
                done
            });
            assert!(wanted.is_some(), "{method} {script} {fields}: {}", last.into_inner());
        }
        let mut client = Client::connect(site.address());
        client.send("GET /cgi/reason HTTP/1.1\r\nHost: localhost\r\nRange: bytes=50-\r\n\r\n");
        let answer = client.response();
        assert_eq!((answer.status, answer.reason.as_str()), (416, "Requested Range Not Satisfiable"));
    };
    both("lengths_and_ranges_of_answers_that_are_whole", build, &configuration, check);
}

#[test]
fn a_redirect_goes_on_without_the_body() {
    let build = |site: &Site| {
        site.script("loop", "#!/bin/sh\nprintf 'Location: /cgi/loop\\n\\n'\n");
        site.script("away", "#!/bin/sh\nprintf 'Location: /cgi/count?%s\\n\\n' \"$QUERY_STRING\"\n");
        site.script("count", "#!/bin/sh\nprintf '\\n%s %s %s.' \"$REQUEST_METHOD\" \"$CONTENT_LENGTH\" \"$(wc -c)\"\n");
    };
    let check = |site: &Site| {
        let length = 300_000;
        let body = "x".repeat(length);
        let chunk = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
        let framings = [(format!("Content-Length: {length}"), body), ("Transfer-Encoding: chunked".into(), chunk)];
        for (framing, body) in framings {
            let mut client = Client::connect(site.address());
            client.send(format!("POST /cgi/away?q HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n{body}"));
            let answer = client.response();
            assert_eq!((answer.status, answer.text().as_str()), (200, "GET  0."), "{framing}");
            // The connection is at its next request.
            client.send("GET /cgi/count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            assert_eq!(client.response().text(), "GET  0.", "after {framing}");
        }
        let mut client = Client::connect(site.address());
        let endless = client.get("/cgi/loop");
        assert_eq!((endless.status, endless.field("Location")), (500, None));
    };
    both("a_redirect_goes_on_without_the_body", build, SECTIONS, check);
}

/// Scripts that speak to the client themselves, how they are asked, and every byte of what comes.
const NPH: &[(&str, &str, &str, &str)] = &[
    ("nph-empty", "GET", "", ""),
    ("nph-text", "GET", "printf 'just text'", "just text"),
    ("nph-stderr", "GET", "echo complaint >&2; printf 'HTTP/1.0 200 OK\\n\\nx'", "HTTP/1.0 200 OK\n\nx"),
    ("nph-location", "GET", "printf 'Location: /a.txt\\n\\n'", "Location: /a.txt\n\n"),
    ("nph-status", "GET", "printf 'Status: 404\\n\\nx'", "Status: 404\n\nx"),
    ("nph-head", "HEAD", "printf 'HTTP/1.1 200 OK\\n\\nbody'", "HTTP/1.1 200 OK\n\nbody"),
    ("nph-echo", "POST", "printf \"$REQUEST_METHOD $CONTENT_LENGTH $SERVER_PROTOCOL \"; cat", "POST 3 HTTP/1.1 abc"),
    ("nph-killed", "GET", "printf 'HTTP/1.1 200 OK\\n\\nhalf'; kill -9 $$", "HTTP/1.1 200 OK\n\nhalf"),
    ("nph-hangs", "GET", "printf 'HTTP/1.1 200 OK\\n\\nhalf'; exec sleep 30", "HTTP/1.1 200 OK\n\nhalf"),
];

#[test]
fn scripts_that_speak_themselves() {
    let build = |site: &Site| {
        for (name, _, script, _) in NPH {
            site.script(name, &format!("#!/bin/sh\n{script}\n"));
        }
    };
    let check = |site: &Site| {
        for (name, method, _, want) in NPH {
            let mut client = Client::connect(site.address());
            let fields = if *method == "POST" { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
            client.send(format!("{method} /cgi/{name} HTTP/1.1\r\nHost: localhost\r\n{fields}"));
            let (bytes, _) = client.rest();
            assert_eq!(String::from_utf8_lossy(&bytes), *want, "{name}");
        }
    };
    both("scripts_that_speak_themselves", build, &format!("{SECTIONS}\nCGIScriptTimeout 1"), check);
}
