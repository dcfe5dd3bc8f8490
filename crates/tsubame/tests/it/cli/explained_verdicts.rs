//! The first thing that `tsubame explain` says: what the client gets, and why, in a line or two.

use std::process::Command;

use serde_json::Value;

use crate::cli::ctl;
use crate::cli::explain::explain;
use crate::config::debian;
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::mpm::control::said;

/// Nobody scrolls for an answer.
const LINES_MAX: usize = 25;

const CONFIGURATION: &str = "\
<Directory ${DOCS}>
AllowOverride All
Require all granted
</Directory>
<Directory ${DOCS}/private>
Require all denied
</Directory>
<Directory ${DOCS}/members>
AuthType Basic
AuthName members
AuthUserFile ${ROOT}/conf/users
Require valid-user
</Directory>
<Directory ${DOCS}/office>
<RequireAny>
Require ip 192.0.2.0/24
Require host example.org
</RequireAny>
</Directory>
<Location /old>
Redirect 301 https://new.example/
</Location>
Redirect gone /gone
RewriteEngine On
RewriteRule ^/hidden - [F]
RewriteRule ^/moved/(.*) http://elsewhere.example/$1 [R=302,L]
ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/
TraceEnable Off
<Location /limited>
AllowMethods GET
</Location>
ErrorDocument 410 /sorry.html
<Location /away>
ErrorDocument 404 http://errors.example/lost
</Location>
<Location /status>
SetHandler server-status
</Location>
<Location /small>
LimitRequestBody 10
</Location>
";

fn site() -> Site {
    let site = Site::with([
        ("index.html", "hello\n"),
        ("sorry.html", "sorry\n"),
        ("private/x.html", "no\n"),
        ("members/x.html", "members\n"),
        ("office/x.html", "office\n"),
        ("limited/x.html", "limited\n"),
        ("small/x.html", "small\n"),
        ("empty/x", "x\n"),
        ("broken/.htaccess", "SetEnv A b\nBogus on\n"),
        ("broken/x.html", "x\n"),
    ]);
    site.file("conf/users", "");
    site.script("env.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nok\\n'\n");
    site
}

/// The lines of the verdict, without the site's own paths.
fn verdict(text: &str, site: &Site) -> String {
    let lines = text.lines().take_while(|line| !line.is_empty());
    let verdict: Vec<String> = lines.map(|line| line.replace(site.path(), "ROOT")).collect();
    verdict.join("\n")
}

#[test]
fn each_status_has_its_reason() {
    let site = site();
    site.configure(Mpm::Event, CONFIGURATION);
    let cases: &[(&[&str], &str)] = &[
        (&["/"], "200: ROOT/htdocs/index.html, text/html, by the default handler"),
        (&["/status"], "200: the handler server-status, text/html; charset=ISO-8859-1, by mod_status"),
        (&["/nosuch"], "404: ROOT/htdocs/nosuch does not exist"),
        (&["/index.html/more"], "404: ROOT/htdocs/index.html is a file, so /more is not below it"),
        (&["/private/x.html"], "403: Require all denied (conf/httpd.conf:7) forbids ROOT/htdocs/private/x.html"),
        (
            &["/office/x.html"],
            "403: Require host example.org (conf/httpd.conf:18) and another line do not let 127.0.0.1 in",
        ),
        (
            &["/members/x.html"],
            "401: Require valid-user (conf/httpd.conf:13) asks for a user, and the request names none",
        ),
        (&["--header", "Authorization: Basic YTpi", "/members/x.html"], "401: the user a is unknown"),
        (&["/old"], "301 to https://new.example/: Redirect (conf/httpd.conf:22)"),
        (&["/gone"], "410: Redirect (conf/httpd.conf:24)\n  with the page /sorry.html"),
        (&["/hidden"], "403: RewriteRule ^/hidden (conf/httpd.conf:26)"),
        (&["/moved/a"], "302 to http://elsewhere.example/a: RewriteRule ^/moved/(.*) (conf/httpd.conf:27)"),
        (
            &["/away/x"],
            "302 to http://errors.example/lost: ErrorDocument 404 (conf/httpd.conf:35)\n  \
             instead of 404: ROOT/htdocs/away/x does not exist",
        ),
        (
            &["/empty"],
            "301 to http://localhost/empty/: the slash at the end is missing: ROOT/htdocs/empty is a directory",
        ),
        (&["/empty/"], "403: ROOT/htdocs/empty/ has no index page, and Options do not allow a listing"),
        (
            &["/broken/x.html"],
            "500: ROOT/htdocs/broken/.htaccess:2: Invalid command 'Bogus', perhaps misspelled or defined by a module not included in the server configuration",
        ),
        (&["--method", "TRACE", "/"], "405: TraceEnable Off (conf/httpd.conf:29) forbids TRACE"),
        (&["--method", "PUT", "/"], "405: no module handles PUT for ROOT/htdocs/index.html"),
        (
            &["--method", "POST", "/limited/x.html"],
            "405: AllowMethods GET HEAD (conf/httpd.conf:31) does not allow POST",
        ),
        (&["--header", "Expect: more", "/"], "417: Expect: more is not an expectation that a server can meet"),
        (
            &["--header", "Range: bytes=99-", "/index.html"],
            "416: Range: bytes=99- begins after the end of the response, which has 6 bytes",
        ),
        (&["--header", "If-Match: \"other\"", "/index.html"], "412: If-Match does not hold"),
        (&["--header", "If-None-Match: *", "/index.html"], "304: If-None-Match says that the client has this already"),
        (
            &["--header", "Content-Length: 11", "/small/x.html"],
            "413: LimitRequestBody 10 (conf/httpd.conf:41) is less than the 11 bytes of the request's body",
        ),
        (&["/%2e%2e/x"], "400: /%2e%2e/x: the path is not absolute or leads above the root"),
        (&["/a%2fb"], "404: AllowEncodedSlashes Off forbids the %2F in /a%2fb"),
        (&["/cgi-bin/env.cgi"], "mod_cgi would run ROOT/cgi-bin/env.cgi, which chooses the status"),
        (&["/cgi-bin/none.cgi"], "404: ROOT/cgi-bin/none.cgi does not exist"),
    ];
    let mut wrong = Vec::new();
    for (arguments, want) in cases {
        let (text, errors, status) = explain(&site, arguments);
        let got = verdict(&text, &site);
        if got != *want || status != Some(0) || !errors.is_empty() {
            wrong.push(format!("{arguments:?}\n  want {want}\n  got  {got}\n{errors}"));
        }
        let count = text.lines().count();
        if count > LINES_MAX {
            wrong.push(format!("{arguments:?}: {count} lines\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The directives that decided, each with its place, and none of those that did not.
#[test]
fn the_deciding_line_is_named() {
    let site = site();
    site.configure(Mpm::Event, CONFIGURATION);
    let (text, ..) = explain(&site, &["/private/x.html"]);
    let text = text.replace(site.path(), "ROOT");
    let (_, rest) = text.split_once("\nWhat decided\n").expect("a heading");
    let (decided, rest) = rest.split_once("\n\n").expect("an end");
    assert_eq!(
        decided.lines().last().map(str::trim_end),
        Some("  Require all denied  ROOT/conf/httpd.conf:7"),
        "{text}"
    );
    assert!(!decided.contains("valid-user") && !decided.contains("granted"), "{text}");
    assert!(rest.contains("authz_core ends the request with 403 (access without a user)"), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.starts_with("--all shows every step, ")), "{text}");
    let (all, ..) = explain(&site, &["--all", "/private/x.html"]);
    assert!(all.lines().count() > 3 * text.lines().count() && all.contains("Directives\n"), "{all}");
    let (defaults, ..) = explain(&site, &["--defaults", "/private/x.html"]);
    assert!(defaults.lines().count() > 2 * all.lines().count(), "{defaults}");
    assert_eq!(verdict(&all, &site), verdict(&text, &site));
}

/// The running server says the same, and programs find it under a name.
#[test]
fn the_running_server_says_the_same() {
    let site = site();
    let _server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let (text, ..) = explain(&site, &["/private/x.html"]);
    let (running, errors, _) = ctl::ctl(&site, &["explain", "/private/x.html"]);
    assert_eq!((running, errors), (text.clone(), String::new()));
    let told: Value = ctl::json(&site, &["explain", "/gone"]);
    assert_eq!(told["verdict"], "410: Redirect (conf/httpd.conf:24); with the page /sorry.html");
    let reason = &told["reason"];
    assert_eq!((&reason["module"], &reason["cause"]), (&"alias".into(), &"Redirect".into()));
    assert_eq!(reason["origin"]["line"], 24);
}

/// Debian's tree, with a status for each of its parts.
#[test]
fn debians_tree_in_a_screenful() {
    if !debian::is_there("debians_tree_in_a_screenful") {
        return;
    }
    let site = Site::new();
    debian::copy(&site);
    let cases: &[(&[&str], &str)] = &[
        (&["/"], "200: ROOT/htdocs/index.html, text/html, by the default handler"),
        (&["/nosuch"], "404: ROOT/htdocs/nosuch does not exist"),
        (&["/.htaccess"], "403: Require all denied (apache2.conf:LINE) forbids ROOT/htdocs/.htaccess"),
        (
            &["/icons/"],
            "403: /usr/share/apache2/icons/ has no index page, and Options (mods-enabled/alias.conf:LINE) do not allow a listing",
        ),
        (&["/icons/blank.png"], "200: /usr/share/apache2/icons/blank.png, image/png, by the default handler"),
        (&["/icons/nosuch.png"], "404: /usr/share/apache2/icons/nosuch.png does not exist"),
        (&["/server-status"], "200: the handler server-status, text/html; charset=ISO-8859-1, by mod_status"),
        (
            &["--from", "192.0.2.1", "/server-status"],
            "403: Require local (mods-enabled/status.conf:LINE) does not let 192.0.2.1 in",
        ),
        (&["--method", "PUT", "/x"], "405: no module handles PUT for ROOT/htdocs/x"),
    ];
    for (arguments, want) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        command
            .args(["explain", "-d", &format!("{}/etc", site.path())])
            .args(*arguments)
            .envs(debian::variables(&site));
        let (text, errors, status) = said(&command.output().expect("run"));
        let got = verdict(&text, &site).replace(&format!("localhost:{PORT}"), "localhost:8080");
        // The lines of Debian's files are Debian's.
        let got = match got.split_once(".conf:") {
            Some((before, rest)) => {
                format!("{before}.conf:LINE{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => got,
        };
        assert_eq!((got.as_str(), status), (*want, Some(0)), "{arguments:?}: {text}{errors}");
        let count = text.lines().count();
        assert!(count <= LINES_MAX, "{arguments:?}: {count} lines\n{text}");
    }
}
