//! FastCGI servers that decide about access (mod_authnz_fcgi). All checks are also run against Apache.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::auth::passwords::request;
use crate::harness::mpm::Mpm;
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::{Client, Response};

const PORT: u16 = 8300;

/// Answers as an authorizer, by the command in the query.
fn authorizer(site: &Site) {
    let listener = TcpListener::bind(SocketAddr::from((site.ip, PORT))).expect("bind");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
}

fn serve(mut stream: TcpStream) -> Option<()> {
    let (mut head, mut params, mut role) = ([0; 8], Vec::new(), 0);
    loop {
        stream.read_exact(&mut head).ok()?;
        let size = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; size + usize::from(head[6])];
        stream.read_exact(&mut content).ok()?;
        match (head[1], size) {
            (1, _) => role = content[1],
            (4, 0) => break,
            (4, _) => params.extend_from_slice(&content[..size]),
            _ => {}
        }
    }
    let text = String::from_utf8_lossy(&params).into_owned();
    let has = |part: &str| text.contains(part);
    let is_asked = role == 2 && has("FCGI_ROLEAUTHORIZER") && !has("SCRIPT_NAME");
    let answer = if !is_asked {
        "Status: 418 Not Asked\r\n\r\n"
    } else if has("REQUEST_URI") && has("?no") {
        "Status: 403 No\r\nX-Why: so\r\n\r\nbecause"
    } else if has("?bad") {
        "rubbish"
    } else if has("REMOTE_PASSWD") && !has("REMOTE_PASSWDsecret") {
        "Status: 401 Unauthorized\r\n\r\n"
    } else if has("FCGI_APACHE_ROLEAUTHORIZER") {
        if has("REMOTE_USERann") { "Variable-BY: ann\r\n\r\n" } else { "Status: 403 No\r\n\r\n" }
    } else {
        "Status: 200 OK\r\nVariable-WHO: jim\r\nX-Other: y\r\n\r\n"
    };
    let mut bytes = vec![1, 6, 0, 1, 0, u8::try_from(answer.len()).expect("short"), 0, 0];
    bytes.extend_from_slice(answer.as_bytes());
    bytes.extend_from_slice(&[1, 6, 0, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stream.write_all(&bytes).ok()
}

fn configuration() -> String {
    let section =
        |place: &str, lines: &str| format!("<Location /{place}>\nAuthType Basic\nAuthName x\n{lines}\n</Location>\n");
    let files = "AuthUserFile ${ROOT}/conf/passwords\n";
    format!(
        "AuthnzFcgiDefineProvider authn FCGI-N fcgi://${{ADDR}}:{PORT}/\n\
         AuthnzFcgiDefineProvider authz FCGI-Z fcgi://${{ADDR}}:{PORT}\n\
         AuthnzFcgiDefineProvider authnz FCGI-NZ fcgi://${{ADDR}}:{PORT}/\n\
         AuthnzFcgiDefineProvider authnz FCGI-DOWN fcgi://${{ADDR}}:1/\n"
    ) + &section("n", "AuthBasicProvider FCGI-N\nRequire valid-user")
        + &section("z", &format!("{files}Require FCGI-Z"))
        + &section("nz", "AuthBasicProvider FCGI-NZ\nRequire FCGI-NZ")
        + &section("down", "AuthBasicProvider FCGI-DOWN\nRequire valid-user")
        + &section("down-z", &format!("{files}Require FCGI-DOWN"))
        + &section(
            "check",
            "AuthnzFcgiCheckAuthnProvider FCGI-N RequireBasicAuth On UserExpr %{reqenv:WHO}\nRequire user jim",
        )
        + &section(
            "other",
            "AuthnzFcgiCheckAuthnProvider FCGI-N RequireBasicAuth On UserExpr %{reqenv:NOBODY}\nRequire valid-user",
        )
        + &section("nzc", "AuthnzFcgiCheckAuthnProvider FCGI-NZ RequireBasicAuth On\nRequire FCGI-NZ")
        + &section("tokens", "AuthnzFcgiCheckAuthnProvider FCGI-N UserExpr %{reqenv:WHO}\nRequire user jim")
        + &section("anybody", "AuthnzFcgiCheckAuthnProvider FCGI-N\nRequire all granted")
        + &section("nobody", "AuthnzFcgiCheckAuthnProvider FCGI-DOWN RequireBasicAuth On\nRequire valid-user")
        + &section("gone", "AuthnzFcgiCheckAuthnProvider FCGI-DOWN\nRequire valid-user")
        + &section("late", "AuthnzFcgiCheckAuthnProvider FCGI-NONE RequireBasicAuth On\nRequire valid-user")
        + "<Location /nameless>\nAuthType Basic\nAuthnzFcgiCheckAuthnProvider FCGI-N UserExpr %{reqenv:WHO}\n\
           Require user jim\n</Location>\n\
           <Location /nameless-on>\nAuthType Basic\nAuthnzFcgiCheckAuthnProvider FCGI-N RequireBasicAuth On\n\
           Require valid-user\n</Location>\n"
        + "<Location /typeless>\nAuthType Digest\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\n\
           AuthnzFcgiCheckAuthnProvider FCGI-N RequireBasicAuth On UserExpr %{reqenv:WHO}\nRequire user jim\n</Location>\n"
}

fn build(site: &Site) {
    for place in [
        "n",
        "z",
        "nz",
        "down",
        "down-z",
        "check",
        "other",
        "late",
        "nzc",
        "tokens",
        "anybody",
        "nobody",
        "gone",
        "nameless",
        "nameless-on",
        "typeless",
    ] {
        site.page(&format!("{place}/f.txt"), "x\n");
    }
    let secret = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    site.file("conf/passwords", format!("ann:{secret}\njoe:{secret}\n"));
    authorizer(site);
}

fn ask(site: &Site, path: &str, user: &str, password: &str) -> Response {
    Client::connect(site.address()).request(request(path, user, password))
}

#[test]
fn servers_are_asked() {
    oracle::both("servers_are_asked", build, &configuration(), |site| {
        for (path, user, password, status) in [
            ("/n/f.txt", "ann", "secret", 200),
            ("/n/f.txt", "ann", "wrong", 401),
            ("/n/f.txt?no", "ann", "secret", 401),
            ("/n/f.txt?bad", "ann", "secret", 500),
            ("/z/f.txt", "ann", "secret", 200),
            ("/z/f.txt", "ann", "wrong", 401),
            ("/z/f.txt", "joe", "secret", 401),
            ("/z/f.txt?bad", "ann", "secret", 500),
            ("/nz/f.txt", "ann", "secret", 200),
            // The server that has found the password right is not asked again.
            ("/nz/f.txt", "joe", "secret", 200),
            ("/nz/f.txt", "ann", "wrong", 401),
            ("/down/f.txt", "ann", "secret", 500),
            // A server for both that was not asked for the password says nothing of rights.
            ("/down-z/f.txt", "ann", "secret", 401),
            ("/nzc/f.txt", "joe", "secret", 200),
            ("/check/f.txt", "joe", "secret", 200),
            ("/check/f.txt", "joe", "wrong", 401),
            ("/check/f.txt?no", "joe", "secret", 403),
            ("/check/f.txt?bad", "joe", "secret", 500),
            ("/late/f.txt", "joe", "secret", 500),
        ] {
            assert_eq!(ask(site, path, user, password).status, status, "{path} {user} {password}");
        }
        let answer = ask(site, "/n/f.txt", "ann", "secret");
        assert_eq!((answer.field("X-Other"), answer.field("Variable-WHO")), (Some("y"), None));
        assert_eq!(ask(site, "/check/f.txt?no", "joe", "secret").field("X-Why"), Some("so"));
        for path in ["/n/f.txt", "/z/f.txt", "/check/f.txt"] {
            let answer = Client::connect(site.address()).get(path);
            assert_eq!((answer.status, answer.field("WWW-Authenticate")), (401, Some("Basic realm=\"x\"")), "{path}");
        }
        let log = site.read("logs/error_log");
        for line in
            ["AH02495: attempt to connect to ", "AH02518: fcgi_check_authn: can't find config for provider FCGI-NONE"]
        {
            assert!(log.contains(line), "{line}: {log}");
        }
    });
}

/// A server is asked about a client without a password, unless the section insists on one.
#[test]
fn a_password_is_not_needed() {
    oracle::both("a_password_is_not_needed", build, &configuration(), |site| {
        for (place, credentials, status, asks) in [
            ("tokens", "", 200, true),
            ("tokens", "Digest username=\"x\"", 200, true),
            ("tokens", "Basic am9lOnNlY3JldA==", 200, false),
            ("tokens", "Basic am9lOndyb25n", 401, false),
            ("check", "", 401, true),
            ("check", "Digest username=\"x\"", 401, true),
            ("check", "Basic am9lOnNlY3JldA==", 200, false),
            ("anybody", "", 200, false),
            ("nobody", "", 401, true),
            ("nobody", "Bearer x", 401, true),
            ("nobody", "Basic am9lOnNlY3JldA==", 500, false),
            ("gone", "", 500, true),
            ("gone", "Bearer x", 500, true),
            ("gone", "Basic am9lOnNlY3JldA==", 500, false),
            ("nameless", "", 200, false),
            ("nameless", "Basic am9lOndyb25n", 200, false),
            ("nameless-on", "", 500, false),
            ("typeless", "", 200, false),
            ("typeless", "Basic am9lOnNlY3JldA==", 200, false),
        ] {
            let field =
                if credentials.is_empty() { String::new() } else { format!("Authorization: {credentials}\r\n") };
            let request = format!("GET /{place}/f.txt HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
            let answer = Client::connect(site.address()).request(request);
            let is_asked = answer.field("WWW-Authenticate") == Some("Basic realm=\"x\"");
            assert_eq!((answer.status, is_asked), (status, asks), "{place} {credentials}");
        }
    });
}

/// Nobody is let in without a name where the configuration says how the server gives one.
#[test]
fn without_a_name_nobody_enters() {
    let site = Site::new();
    build(&site);
    let server = Server::start(Mpm::Event, &site, &configuration());
    server.announce("AH02520: fcgi_check_authn: Failure extracting user after calling authorizer");
    assert_eq!(ask(&site, "/other/f.txt", "ann", "secret").status, 500);
}
