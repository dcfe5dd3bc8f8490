//! The special purpose environment variables of Apache's manual do here what they do there.

use std::os::unix::fs::PermissionsExt;

use crate::harness::oracle::{Allowed, Case, both, compare};
use crate::harness::site::Site;
use crate::harness::wire::Client;

fn build(site: &Site) {
    let long = "a line of text that is worth compressing\n".repeat(100);
    site.page("long.txt", &long);
    site.page("long.html", &long);
    site.page("d/index.html", "d\n");
    for language in ["de", "en", "fr"] {
        site.page(&format!("m/p.html.{language}"), format!("{language}\n"));
    }
    site.page("m/z.html.en", "plain\n");
    site.page("m/z.html.en.gz", "packed\n");
    site.page("share/c/f.txt", "f\n");
    // Both servers write there as their own user.
    let locks = site.root.join("locks");
    std::fs::create_dir(&locks).expect("directory");
    std::fs::set_permissions(&locks, std::fs::Permissions::from_mode(0o777)).expect("mode");
    site.script("tell", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; echo $SERVER_PROTOCOL\n");
}

const BASE: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/
<Directory ${ROOT}/cgi-bin>
Require all granted
</Directory>
<Directory ${DOCS}/m>
Options +MultiViews
AddLanguage de .de
AddLanguage en .en
AddLanguage fr .fr
AddEncoding x-gzip .gz
LanguagePriority en de fr
ForceLanguagePriority Prefer Fallback
</Directory>
<Directory ${DOCS}/share>
Dav On
</Directory>
DavLockDB ${ROOT}/locks/db
AddOutputFilterByType DEFLATE text/plain text/html
AddDefaultCharset utf-8
Redirect /moved http://x.example/
Header merge Vary X-Kind
";

/// Each variable of the manual's list, and requests whose answers it may change.
const VARIABLES: [(&str, &[&str]); 18] = [
    ("downgrade-1.0", &["GET /long.txt", "GET /cgi/tell", "GET /cgi/tell|Connection: keep-alive"]),
    ("force-gzip", &["GET /long.txt", "GET /long.txt|Accept-Encoding: gzip;q=0", "GET /d/"]),
    (
        "force-no-vary",
        &[
            "GET /d/",
            "GET /d/|Connection: keep-alive",
            "GET /long.txt|Accept-Encoding: gzip",
            "GET /cgi/tell",
            "GET /m/p|Accept-Language: de",
            "GET /moved",
            "GET /none",
            "HEAD /d/",
        ],
    ),
    ("force-response-1.0", &["GET /d/", "GET /cgi/tell"]),
    ("gzip-only-text/html", &["GET /long.txt|Accept-Encoding: gzip", "GET /long.html|Accept-Encoding: gzip"]),
    ("no-gzip", &["GET /long.txt|Accept-Encoding: gzip", "GET /m/z|Accept-Encoding: gzip"]),
    ("no-cache", &["GET /d/"]),
    ("nokeepalive", &["GET /d/", "GET /cgi/tell"]),
    ("prefer-language=fr", &["GET /m/p", "GET /m/p|Accept-Language: de", "GET /m/p|Accept-Language: de, fr;q=0.1"]),
    ("redirect-carefully", &["GET /d", "HEAD /d", "POST /d", "OPTIONS /d", "OPTIONS /share/c"]),
    ("suppress-error-charset", &["GET /none", "GET /moved"]),
    ("force-proxy-request-1.0", &["GET /d/"]),
    ("proxy-nokeepalive", &["GET /d/"]),
    ("proxy-sendchunked", &["GET /d/"]),
    ("proxy-sendcl", &["GET /d/"]),
    ("proxy-chain-auth", &["GET /d/"]),
    ("proxy-interim-response=RFC", &["GET /d/"]),
    ("proxy-initial-not-pooled", &["GET /d/"]),
];

/// The request as one of HTTP/1.0 that wants to keep the connection.
fn older(case: &Case) -> Case {
    let text = String::from_utf8_lossy(&case.bytes);
    let text = text.replace(" HTTP/1.1\r\n", " HTTP/1.0\r\nConnection: keep-alive\r\n");
    Case { name: format!("{} HTTP/1.0", case.name), bytes: text.into_bytes() }
}

#[test]
fn each_of_them() {
    for (variable, requests) in VARIABLES {
        let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).flat_map(|c| [older(&c), c]).collect();
        let configuration = format!("{BASE}SetEnvIf Host . {variable}\n");
        compare(&format!("each_of_them: {variable}"), build, &configuration, &cases, &ALLOWED);
    }
}

/// Clients of WebDAV follow no redirect.
#[test]
fn collections_without_their_slash() {
    let configuration = format!("{BASE}SetEnvIf User-Agent ^old redirect-carefully\n");
    both("collections_without_their_slash", build, &configuration, |site| {
        for (request, agent, status) in [
            ("PROPFIND", "old", 207),
            ("PROPFIND", "new", 301),
            ("MKCOL", "old", 405),
            ("MKCOL", "new", 301),
            ("GET", "old", 301),
        ] {
            let fields = format!("Host: localhost\r\nUser-Agent: {agent}\r\nDepth: 0\r\nConnection: close");
            let mut client = Client::connect(site.address());
            client.send(format!("{request} /share/c HTTP/1.1\r\n{fields}\r\n\r\n"));
            assert_eq!(client.response().status, status, "{request} of {agent}");
        }
    });
}

const ALLOWED: [Allowed; 4] = [
    Allowed { case: "GET /long.*", what: "body", entry: "Compressed bytes" },
    Allowed { case: "GET /long.*", what: "content-length", entry: "Compressed bytes" },
    Allowed { case: "GET /m/*", what: "etag", entry: "The closing quote of a negotiated ETag" },
    Allowed { case: "HEAD /d*", what: "content-length", entry: "The length of an error page" },
];

/// The guide describes each of them.
#[test]
fn each_is_described() {
    let text = include_str!("../../../../../docs/configuration.md");
    for (variable, _) in VARIABLES {
        let name = variable.split('=').next().unwrap_or(variable);
        assert!(text.contains(&format!("`{name}`")), "docs/configuration.md does not say what {name} does");
    }
}
