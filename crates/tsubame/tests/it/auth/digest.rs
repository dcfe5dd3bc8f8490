//! Digest authentication (`AuthType Digest`), compared with Apache: `htdigest` creates the users, curl is a client.

use std::io::Write;
use std::process::{Command, Stdio};

use md5::Digest;
use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle;
use crate::harness::server::{Server, Start};
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

const CONFIGURATION: &str = "<Location /d>\nAuthType Digest\nAuthName x\nAuthDigestProvider file\nAuthUserFile ${ROOT}/conf/digests\n\
    AuthDigestDomain /d http://other/d\nRequire valid-user\n</Location>\n\
    <Location /counted>\nAuthType Digest\nAuthName x\nAuthUserFile ${ROOT}/conf/digests\nAuthDigestNcCheck On\n\
    Require user joe\n</Location>\n\
    <Location /once>\nAuthType Digest\nAuthName x\nAuthUserFile ${ROOT}/conf/digests\nAuthDigestNonceLifetime 0\n\
    Require valid-user\n</Location>\n\
    <Location /d/inner>\nAuthDigestQop auth\n</Location>\n\
    <Location /soon>\nAuthType Digest\nAuthName x\nAuthUserFile ${ROOT}/conf/digests\nAuthDigestNonceLifetime 29\n\
    Require valid-user\n</Location>";

fn build(site: &Site) {
    for place in ["d", "d/inner", "counted", "once", "soon"] {
        site.page(&format!("{place}/f.txt"), "x\n");
    }
    let path = site.file("conf/digests", "");
    for (realm, user, password) in [("x", "joe", "secret"), ("x", "ann", "other"), ("y", "joe", "different")] {
        htdigest(&path, realm, user, password);
    }
}

/// Adds a user with Apache's own tool, or as it does.
fn htdigest(path: &std::path::Path, realm: &str, user: &str, password: &str) {
    let tool =
        Command::new("htdigest").arg(path).args([realm, user]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    if let Ok(mut tool) = tool {
        let mut input = tool.stdin.take().expect("input");
        write!(input, "{password}\n{password}\n").expect("written");
        drop(input);
        assert!(tool.wait().expect("htdigest").success());
    } else {
        let line = format!("{user}:{realm}:{}\n", hex(&md5::Md5::digest(format!("{user}:{realm}:{password}"))));
        std::fs::OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("written");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A client that answers challenges, honestly or not.
#[derive(Clone)]
struct User {
    name: &'static str,
    password: &'static str,
    realm: &'static str,
    nonce: String,
    opaque: Option<String>,
    nc: String,
    /// The text after the parameters.
    more: &'static str,
    qop: &'static str,
    uri: String,
    sha256: bool,
}

/// A parameter of a challenge.
fn parameter<'a>(field: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = field.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

impl User {
    /// Joe, after a challenge from a place.
    fn joe(site: &Site, path: &str) -> User {
        User::of(&ask(site, path, ""), path)
    }

    fn of(answer: &Response, path: &str) -> User {
        assert_eq!(answer.status, 401, "{path}");
        let field = answer.field("WWW-Authenticate").expect("a challenge");
        User {
            name: "joe",
            password: "secret",
            realm: "x",
            nonce: parameter(field, "nonce").expect("a nonce").to_string(),
            opaque: parameter(field, "opaque").map(str::to_string),
            nc: "00000001".into(),
            more: "",
            qop: "auth",
            uri: path.to_string(),
            sha256: false,
        }
    }

    fn field(&self) -> String {
        let hash = |text: String| match self.sha256 {
            true => hex(&sha2::Sha256::digest(text)),
            false => hex(&md5::Md5::digest(text)),
        };
        let secret = hash(format!("{}:{}:{}", self.name, self.realm, self.password));
        let place = hash(format!("GET:{}", self.uri));
        let response = hash(format!("{secret}:{}:{}:c:{}:{place}", self.nonce, self.nc, self.qop));
        let opaque = self.opaque.as_ref().map(|opaque| format!(", opaque=\"{opaque}\"")).unwrap_or_default();
        let qop = if self.qop.is_empty() { String::new() } else { format!(", qop={}", self.qop) };
        format!(
            "Authorization: Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{}\", response=\"{response}\"{qop}, \
             nc={}, cnonce=\"c\"{opaque}{}\r\n",
            self.name, self.realm, self.nonce, self.uri, self.nc, self.more
        )
    }

    /// Asks for a path with this answer.
    fn ask(&self, site: &Site, path: &str) -> Response {
        ask(site, path, &self.field())
    }
}

fn ask(site: &Site, path: &str, field: &str) -> Response {
    Client::connect(site.address()).request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n"))
}

/// Whether a challenge says that only the nonce was wrong.
fn is_stale(answer: &Response) -> bool {
    answer.status == 401 && answer.field("WWW-Authenticate").is_some_and(|field| field.contains("stale=true"))
}

#[test]
fn digests_are_asked_for_and_checked() {
    oracle::both("digests_are_asked_for_and_checked", build, CONFIGURATION, |site| {
        let challenge = ask(site, "/d/f.txt", "");
        let field = challenge.field("WWW-Authenticate").expect("a challenge");
        let nonce = parameter(field, "nonce").expect("a nonce");
        assert_eq!(nonce.len(), 52);
        let rest = field.replace(nonce, "N");
        let want = r#"Digest realm="x", nonce="N", algorithm=MD5, domain="/d http://other/d", qop="auth""#;
        assert_eq!(rest, want);
        // A section with any digest directive inherits none.
        let inner = ask(site, "/d/inner/f.txt", "");
        assert!(!inner.field("WWW-Authenticate").expect("a challenge").contains("domain"), "{inner:?}");

        let joe = User::joe(site, "/d/f.txt");
        let answer = joe.ask(site, "/d/f.txt");
        assert_eq!(answer.status, 200);
        let info = answer.field("Authentication-Info").expect("a confirmation");
        let a1 = hex(&md5::Md5::digest("joe:x:secret"));
        let a2 = hex(&md5::Md5::digest(":/d/f.txt"));
        let own = hex(&md5::Md5::digest(format!("{a1}:{}:00000001:c:auth:{a2}", joe.nonce)));
        assert_eq!(info, format!("rspauth=\"{own}\", cnonce=\"c\", nc=00000001, qop=auth"));
        // Without counting, a count may come again.
        assert_eq!(joe.ask(site, "/d/f.txt").status, 200);

        let refused = [
            User { password: "wrong", ..joe.clone() },
            User { name: "nobody", ..joe.clone() },
            User { realm: "y", password: "different", ..joe.clone() },
            User { qop: "", ..joe.clone() },
            User { qop: "auth-int", ..joe.clone() },
            User { more: ", algorithm=SHA-256", ..joe.clone() },
            User { nonce: "short".into(), ..joe.clone() },
        ];
        for user in refused {
            let answer = user.ask(site, "/d/f.txt");
            assert!(answer.status == 401 && !is_stale(&answer), "{}: {answer:?}", user.field());
        }
        let forged = format!("{}{}", &joe.nonce[..51], if joe.nonce.ends_with('0') { "1" } else { "0" });
        assert!(is_stale(&User { nonce: forged, ..joe.clone() }.ask(site, "/d/f.txt")));
        // The signed URI must be the request's own.
        let (elsewhere, quoted) =
            (User { uri: "/d/other.txt".into(), ..joe.clone() }, User { uri: "/d/%66.txt".into(), ..joe });
        assert_eq!((elsewhere.ask(site, "/d/f.txt").status, quoted.ask(site, "/d/f.txt").status), (400, 200));
        assert_eq!(ask(site, "/d/f.txt", "Authorization: Basic am9lOnNlY3JldA==\r\n").status, 401);
        assert_eq!(ask(site, "/d/f.txt", "Authorization: Digest username=\"joe\"\r\n").status, 401);

        // Authorization is a separate question.
        let ann = User { name: "ann", password: "other", ..User::joe(site, "/counted/f.txt") };
        assert_eq!(ann.ask(site, "/counted/f.txt").status, 401);
    });
}

#[test]
fn counts_rise_and_nonces_end() {
    oracle::both("counts_rise_and_nonces_end", build, CONFIGURATION, |site| {
        let joe = User::joe(site, "/counted/f.txt");
        assert!(joe.opaque.is_some());
        let count = |nc: &str| User { nc: nc.into(), ..joe.clone() }.ask(site, "/counted/f.txt");
        // A connection for each: all children share the state.
        assert_eq!(count("00000001").status, 200);
        assert!(count("00000001").status == 401, "the same again");
        assert_eq!(count("00000002").status, 200);
        assert_eq!(count("0000000a").status, 200, "some may have got lost");
        assert_eq!(count("00000009").status, 401);
        // Of two at once with one count, a single one is served.
        let statuses = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| count("00000100").status)).collect();
            all.into_iter().map(|one| one.join().expect("an answer")).collect::<Vec<_>>()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        let unknown = User { opaque: Some("7fffff".into()), ..joe.clone() };
        assert_eq!(unknown.ask(site, "/counted/f.txt").status, 401);

        let joe = User::joe(site, "/once/f.txt");
        let answer = joe.ask(site, "/once/f.txt");
        let next =
            parameter(answer.field("Authentication-Info").expect("a confirmation"), "nextnonce").expect("a nonce");
        assert_eq!(answer.status, 200);
        let again = User { nc: "00000002".into(), ..joe.clone() };
        assert!(is_stale(&again.ask(site, "/once/f.txt")));
        assert_eq!(User { nonce: next.into(), ..joe }.ask(site, "/once/f.txt").status, 200);

        // It ends within half a minute, so the next one is named.
        let soon = User::joe(site, "/soon/f.txt").ask(site, "/soon/f.txt");
        assert!(soon.status == 200 && soon.field("Authentication-Info").is_some(), "{soon:?}");
    });
}

/// A client that was not made for this.
#[test]
fn curl_logs_in() {
    oracle::both("curl_logs_in", build, CONFIGURATION, |site| {
        for (user, path, status) in [
            ("joe:secret", "/d/f.txt", "200"),
            ("joe:secret", "/counted/f.txt", "200"),
            ("joe:secret", "/once/f.txt", "200"),
            ("joe:wrong", "/d/f.txt", "401"),
            ("ann:other", "/d/f.txt?a=%20b", "200"),
        ] {
            let url = format!("http://{}{path}", site.address());
            // Twice over one connection: the second time with the nonce of the first.
            let output = Command::new("curl")
                .args([
                    "-s",
                    "-o",
                    "/dev/null",
                    "-o",
                    "/dev/null",
                    "-w",
                    "%{http_code} ",
                    "--digest",
                    "-u",
                    user,
                    &url,
                    &url,
                ])
                .output()
                .expect("curl");
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{status} {status} "), "{user} {path}");
        }
    });
}

/// RFC 7616's better digest, which Apache does not have. A file may have both.
#[test]
fn sha_256() {
    let both = hex(&sha2::Sha256::digest("joe:x:secret"));
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        build(&site);
        let digests = site.read("conf/digests");
        site.file("conf/digests", format!("{digests}joe:x:{both}\n"));
        let server = Server::start(
            mpm,
            &site,
            &format!("{CONFIGURATION}\n<Location /d>\nAuthDigestAlgorithm SHA-256\n</Location>"),
        );
        server.allow("auth_digest:error");
        let challenge = ask(&site, "/d/f.txt", "");
        assert!(challenge.field("WWW-Authenticate").expect("a challenge").contains("algorithm=SHA-256"), "{mpm}");
        let joe = User { sha256: true, more: ", algorithm=SHA-256", ..User::of(&challenge, "/d/f.txt") };
        assert_eq!(joe.ask(&site, "/d/f.txt").status, 200, "{mpm}");
        assert_eq!(User { password: "wrong", ..joe.clone() }.ask(&site, "/d/f.txt").status, 401, "{mpm}");
        assert_eq!(User { sha256: false, more: "", ..joe }.ask(&site, "/d/f.txt").status, 401, "{mpm}");
        assert_eq!(User::joe(&site, "/counted/f.txt").ask(&site, "/counted/f.txt").status, 200, "{mpm}");
    }
}

/// A redirect inside the server and a look-up are the same request: its nonce, good once, holds for them.
#[test]
fn one_nonce_serves_a_whole_request() {
    let configuration = "ScriptAlias /once/ ${ROOT}/cgi-bin/\n\
        <LocationMatch ^/(once|then)>\nAuthType Digest\nAuthName x\nAuthUserFile ${ROOT}/conf/digests\n\
        AuthDigestNonceLifetime 0\nRequire valid-user\n</LocationMatch>\n<Location /then>\nAddType text/plain .x\n</Location>";
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        build(&site);
        site.script("lead", "#!/bin/sh\nprintf 'Location: /then/f.txt\\n\\n'\n");
        site.page("then/f.txt", "then\n");
        let _server = Server::start(mpm, &site, configuration);
        let joe = User::joe(&site, "/once/lead");
        let answer = joe.ask(&site, "/once/lead");
        assert_eq!((answer.status, answer.text().as_str()), (200, "then\n"), "{mpm}");
        assert!(is_stale(&joe.ask(&site, "/once/lead")), "{mpm}");
    }
}

/// Two servers with one secret accept each other's nonces; with secrets of their own they ask again.
#[test]
fn servers_with_one_secret() {
    for (secrets, expected) in [([b'a', b'a'], 200), ([b'a', b'b'], 401)] {
        let sites = [Site::new(), Site::new()];
        let text = format!("{CONFIGURATION}\nAuthDigestSecretFile ${{ROOT}}/secret");
        let servers: Vec<Server<'_>> = std::iter::zip(&sites, secrets)
            .map(|(site, secret)| {
                build(site);
                site.file("secret", [secret; 48]);
                let server = Server::start(Mpm::Percore, site, &text);
                server.allow("AH01776: invalid nonce");
                server
            })
            .collect();
        let joe = User::joe(&sites[0], "/d/f.txt");
        let answers = sites.each_ref().map(|site| joe.ask(site, "/d/f.txt").status);
        assert_eq!(answers, [200, expected]);
        drop(servers);
    }
    let site = Site::new();
    build(&site);
    site.file("secret", [7; 31]);
    site.configure(Mpm::Percore, "AuthDigestSecretFile ${ROOT}/secret");
    let output = Start::new(&site, Mpm::Percore).command().output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &site.read("logs/error_log");
    assert!(!output.status.success() && said.contains("it has fewer than 32 bytes"), "{said}");
}

/// A configuration that is refused changes nothing: children that are forked later still know the nonces of the others.
#[test]
fn a_refused_configuration_leaves_the_secret() {
    let site = Site::new();
    build(&site);
    site.file("secret", [b'a'; 48]);
    let text = format!("{CONFIGURATION}\nAuthDigestSecretFile ${{ROOT}}/secret");
    let server = Server::start(Mpm::Percore, &site, &text);
    let joe = User::joe(&site, "/d/f.txt");
    site.file("secret", [b'b'; 48]);
    // An obstacle that is found last.
    let host = format!("<VirtualHost *:{PORT}>\nSSLEngine on\nSSLCertificateFile ${{ROOT}}/secret\n</VirtualHost>");
    site.configure(Mpm::Percore, &format!("{text}\n{host}"));
    server.allow_everything("a refused configuration, and killed children");
    server.signal(Signal::USR1);
    server.logged("the new configuration is not used");
    let before = server.children();
    for child in &before {
        let _ = Pid::new(*child).expect("a pid").kill(Signal::KILL);
    }
    until("other children", || Some(server.children()).filter(|now| !now.is_empty() && now.is_disjoint(&before)));
    assert_eq!(joe.ask(&site, "/d/f.txt").status, 200);
}
