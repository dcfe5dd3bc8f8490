//! Sessions, and logging in with a form. Every table holds for Apache too.

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::{Client, Response};

fn get(site: &Site, path: &str, cookie: &str) -> Response {
    let field = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
    Client::connect(site.address()).request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n"))
}

fn post(site: &Site, path: &str, media_type: &str, form: &str) -> Response {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n");
    Client::connect(site.address()).request(format!("{head}Content-Length: {}\r\n\r\n{form}", form.len()))
}

const FORM: &str = "application/x-www-form-urlencoded";

/// In so many seconds, as sessions have it.
fn end(seconds: u64) -> String {
    let now = sys::time::realtime();
    ((now.as_secs() + seconds) * 1_000_000).to_string()
}

/// The cookie of an answer, with `E` for an end in the future, each of which is about this many seconds ahead.
fn cookie(answer: &Response, ahead: u64) -> String {
    // Apache sends the one that takes a session away twice.
    let mut all = answer.all("Set-Cookie");
    all.dedup();
    assert!(all.len() < 2, "{answer:?}");
    let text = all.first().copied().unwrap_or_default();
    let Some((before, rest)) = text.split_once("expiry=") else { return text.to_string() };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let micros: u64 = rest[..digits].parse().expect("a number");
    let (low, high): (u64, u64) = (end(ahead - 10).parse().expect("one"), end(ahead + 10).parse().expect("one"));
    assert!((low..high).contains(&micros), "{text}");
    format!("{before}expiry=E{}", &rest[digits..])
}

#[test]
fn sessions_are_kept_in_cookies() {
    let build = |site: &Site| {
        for place in ["aged", "plain", "moved", "bare"] {
            site.page(&format!("{place}/f.txt"), "x\n");
        }
        site.script(
            "show",
            "#!/bin/sh\nprintf 'X-Session: a=2&b=new&c=\\n\\n%s %s' \"$HTTP_SESSION\" \"$HTTP_COOKIE\"\n",
        );
    };
    let configuration = "<Location /aged>\nSession On\nSessionCookieName s path=/;HttpOnly\nSessionMaxAge 100\n</Location>\n\
        <Location /plain>\nSession On\nSessionCookieName s path=/\nSessionExclude /plain/out\n</Location>\n\
        <Location /moved>\nSession On\nSessionCookieName s\nSessionMaxAge 100\nSessionExpiryUpdateInterval 50\n</Location>\n\
        <Location /bare>\nSession On\n</Location>\n\
        ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
        <Location /cgi>\nSession On\nSessionCookieName s path=/\nSessionHeader X-Session\nSessionEnv On\n\
        SessionCookieRemove On\n</Location>";
    oracle::both("sessions_are_kept_in_cookies", build, configuration, |site| {
        for (path, sent, want) in [
            ("/aged/f.txt", "", "s=expiry=E;Max-Age=100;path=/;HttpOnly"),
            ("/aged/f.txt", "o=1; s=a=1&b=2; p=2", "s=a=1&b=2&expiry=E;Max-Age=100;path=/;HttpOnly"),
            ("/aged/f.txt", "s=a%20b=1+2%26&c", "s=a+b=1+2%26&expiry=E;Max-Age=100;path=/;HttpOnly"),
            ("/aged/f.txt", "s=expiry=12&a=1", "s=expiry=E;Max-Age=100;path=/;HttpOnly"),
            ("/aged/f.txt", "s=a=1; s=b=1", "s=expiry=E;Max-Age=100;path=/;HttpOnly"),
            ("/aged/missing", "s=a=1", "s=a=1&expiry=E;Max-Age=100;path=/;HttpOnly"),
            ("/plain/f.txt", "s=a=1", ""),
            ("/plain/out.txt", "s=a=1", ""),
            ("/moved/f.txt", "", ""),
            ("/bare/f.txt", "s=a=1", ""),
        ] {
            assert_eq!(cookie(&get(site, path, sent), 100), want, "{path} {sent}");
        }
        for (seconds, want) in [(90, ""), (20, "s=a=1&expiry=E;Max-Age=100;HttpOnly;Secure;Version=1")] {
            let answer = get(site, "/moved/f.txt", &format!("s=a=1&expiry={}", end(seconds)));
            assert_eq!(cookie(&answer, 100), want, "{seconds}");
        }
        let answer = get(site, "/aged/f.txt", "s=a=1");
        assert_eq!(answer.field("Cache-Control"), Some("no-cache, private"));
        // Data that a script wants to store.
        let answer = get(site, "/cgi/show", "s=a=1&c=3; other=1");
        assert_eq!(cookie(&answer, 100), "s=a=2&b=new;path=/");
        assert!(answer.field("X-Session").is_none() && answer.text().starts_with("a=1&c=3 "), "{answer:?}");
        assert!(!answer.text().contains("s=a=1") && answer.text().contains("other=1"), "{answer:?}");
        let log = site.read("logs/error_log");
        for line in ["AH01815: session is enabled but no session modules have been configured", "AH00011: ap_cookie"] {
            assert!(log.contains(line), "{line}: {log}");
        }
    });
}

/// No cache stores what was made with a session, nor a refusal that came before the session was read.
#[test]
fn responses_with_sessions_are_private() {
    let build = |site: &Site| {
        for place in ["kept", "hidden", "plain"] {
            site.page(&format!("{place}/f.txt"), "x\n");
        }
        site.page("closed/f.txt", "x\n");
        site.script("show", "#!/bin/sh\nprintf '\\n%s' \"$HTTP_COOKIE\"\n");
    };
    let session = "Session On\nSessionCookieName s path=/\n";
    let section = |place: &str, lines: &str| format!("<Location /{place}>\n{session}{lines}\n</Location>\n");
    let configuration = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nRedirect /kept/server http://h/\n".to_string()
        + &section("kept", "<If \"%{REQUEST_URI} =~ /denied/\">\nRequire all denied\n</If>")
        + &section("hidden", "SessionCookieRemove On")
        + &section("closed", "Require all denied")
        + &section("aged", "SessionMaxAge 100")
        + &section("set", "Header set Cache-Control max-age=5\nErrorDocument 404 /plain/f.txt")
        + &section("again", "ErrorDocument 404 /kept/f.txt")
        + &section("anew", "ErrorDocument 404 /hidden/f.txt")
        + &section("late", "Require all denied\nErrorDocument 403 /kept/f.txt")
        + &section("cgi", "SessionCookieRemove On")
        + "<Location /none>\nSession On\n</Location>\n";
    oracle::both("responses_with_sessions_are_private", build, &configuration, |site| {
        for (method, path, status, is_private) in [
            ("GET", "/kept/f.txt", 200, true),
            ("HEAD", "/kept/f.txt", 200, true),
            ("OPTIONS", "/kept/f.txt", 200, true),
            ("GET", "/kept/missing", 404, false),
            ("HEAD", "/kept/missing", 404, false),
            ("GET", "/kept/server", 302, true),
            ("GET", "/kept/denied", 403, true),
            ("GET", "/hidden/f.txt", 200, true),
            ("GET", "/hidden/missing", 404, true),
            ("GET", "/closed/f.txt", 403, true),
            ("GET", "/aged/missing", 404, false),
            ("GET", "/set/missing", 404, false),
            ("GET", "/again/missing", 404, false),
            ("GET", "/anew/missing", 404, true),
            ("GET", "/late/f.txt", 403, true),
            ("GET", "/none/missing", 404, false),
            ("GET", "/plain/f.txt", 200, false),
        ] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nCookie: s=a=1\r\n\r\n");
            let answer = Client::connect(site.address()).request(request);
            // Apache says it twice where the cookie is hidden.
            let mut told = answer.all("Cache-Control");
            told.dedup();
            let want: &[&str] = if is_private { &["no-cache, private"] } else { &[] };
            assert_eq!((answer.status, told.as_slice()), (status, want), "{method} {path}");
        }
        let hidden = get(site, "/cgi/show", "s=a=1; o=1");
        assert_eq!((hidden.status, hidden.text().trim()), (200, "o=1"));
    });
}

/// Encrypted data differs each time, so each server gets back its own cookie.
#[test]
fn sessions_are_encrypted() {
    let build = |site: &Site| {
        for place in ["one", "two", "three"] {
            site.page(&format!("{place}/f.txt"), "x\n");
        }
        site.file("conf/phrases", "new\n\n  old  \n");
        site.script("show", "#!/bin/sh\nprintf 'X-Session: a=secret\\n\\n%s' \"$HTTP_SESSION\"\n");
    };
    let session = "Session On\nSessionCookieName s path=/\nSessionEnv On\nSessionHeader X-Session\n";
    let configuration = format!(
        "ScriptAlias /one/ ${{ROOT}}/cgi-bin/\nScriptAlias /two/ ${{ROOT}}/cgi-bin/\nScriptAlias /three/ ${{ROOT}}/cgi-bin/\n\
         <Location /one>\n{session}SessionCryptoPassphrase old\n</Location>\n\
         <Location /two>\n{session}SessionCryptoPassphraseFile ${{ROOT}}/conf/phrases\n</Location>\n\
         <Location /three>\n{session}SessionCryptoPassphrase other\n</Location>"
    );
    oracle::both("sessions_are_encrypted", build, &configuration, |site| {
        let kept = |answer: &Response| {
            let text = answer.field("Set-Cookie").unwrap_or_default().to_string();
            text.split(';').next().unwrap_or_default().to_string()
        };
        let (first, second) = (get(site, "/one/show", ""), get(site, "/one/show", ""));
        assert_eq!((first.status, first.text().as_str()), (200, ""));
        let sealed = kept(&first);
        assert!(sealed.len() > 40 && !sealed.contains("secret") && sealed != kept(&second), "{sealed}");
        // The old passphrase is still good for reading.
        for path in ["/one/show", "/two/show"] {
            assert_eq!(get(site, path, &sealed).text(), "a=secret", "{path}");
        }
        // Another key, a changed text, a text in clear: none is accepted.
        let (name, text) = sealed.split_once('=').expect("a cookie");
        let mut changed = text.to_string();
        changed.replace_range(40..41, if &text[40..41] == "A" { "B" } else { "A" });
        for (path, cookie) in [
            ("/three/show", sealed.clone()),
            ("/one/show", format!("{name}={changed}")),
            ("/one/show", format!("{name}=a=forged")),
        ] {
            let answer = get(site, path, &cookie);
            assert_eq!((answer.status, answer.text().as_str()), (200, ""), "{path} {cookie}");
        }
        assert!(site.read("logs/error_log").contains("AH01842: decrypt session failed, wrong passphrase?"));
    });
}

const LOGIN: &str = "AuthType form\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\nAuthFormProvider file\n\
    Session On\nSessionCookieName login path=/\n";

fn forms() -> String {
    let section = |path: &str, lines: &str| format!("<Location {path}>\n{LOGIN}{lines}\n</Location>\n");
    section("/form", "Require valid-user\nErrorDocument 401 /login.html")
        + &section(
            "/sent",
            "Require valid-user\nAuthFormLoginRequiredLocation http://h/login?%{REQUEST_URI}\n\
             AuthFormLoginSuccessLocation http://h/ok\nAuthFormUsername who\nAuthFormPassword word",
        )
        + &section("/site", "Require valid-user\nAuthFormSitePassphrase sitesecret")
        + &section("/in", "Require all granted\nSetHandler form-login-handler")
        + &section(
            "/in2",
            "Require all granted\nSetHandler form-login-handler\nAuthFormLoginRequiredLocation http://h/login\n\
             AuthFormLoginSuccessLocation http://h/ok",
        )
        + &section("/out", "Require all granted\nSetHandler form-logout-handler")
        + &section("/out2", "Require all granted\nSetHandler form-logout-handler\nAuthFormLogoutLocation http://h/out")
        + &section("/other", "Require user bob")
}

fn build_forms(site: &Site) {
    for place in ["form", "sent", "site", "other"] {
        site.page(&format!("{place}/f.txt"), "inside\n");
    }
    site.page("login.html", "log in!\n");
    site.file("conf/passwords", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
}

#[test]
fn forms_log_in_and_out() {
    oracle::both("forms_log_in_and_out", build_forms, &forms(), |site| {
        let good = "httpd_username=ann&httpd_password=secret";
        let asked = get(site, "/form/f.txt", "");
        assert_eq!(
            (asked.status, asked.text().as_str(), asked.field("Cache-Control")),
            (401, "log in!\n", Some("no-store"))
        );
        let known = "login=x-user=ann&x-pw=secret";
        let entered = get(site, "/form/f.txt", known);
        assert_eq!((entered.status, entered.text().as_str()), (200, "inside\n"));
        for cookie in [
            "login=x-user=ann&x-pw=wrong",
            "login=x-user=bob&x-pw=secret",
            "login=x-user=ann",
            "login=y-user=ann&y-pw=secret",
        ] {
            assert_eq!(get(site, "/form/f.txt", cookie).status, 401, "{cookie}");
        }
        assert_eq!(get(site, "/other/f.txt", known).status, 401, "that user may not");

        // In place of the page.
        let cases: [(&str, &str, u16, Option<&str>, &str); 14] = [
            ("/form/f.txt", good, 200, None, "login=x-user=ann&x-pw=secret;path=/"),
            ("/form/f.txt", "httpd_username=ann&httpd_password=wrong", 401, None, ""),
            ("/form/f.txt", "httpd_username=bob&httpd_password=secret", 401, None, ""),
            ("/form/f.txt", "httpd_username=ann", 401, None, ""),
            ("/form/f.txt", "", 401, None, ""),
            (
                "/form/f.txt",
                "httpd_location=%2fa+b&httpd_username=a%6en&httpd_password=secret",
                302,
                Some("/a b"),
                "login=x-user=ann&x-pw=secret;path=/",
            ),
            ("/sent/f.txt", good, 302, Some("http://h/login?/sent/f.txt"), ""),
            ("/sent/f.txt", "who=ann&word=secret", 302, Some("http://h/ok"), "login=x-user=ann&x-pw=secret;path=/"),
            (
                "/site/f.txt",
                good,
                200,
                None,
                "login=x-user=ann&x-pw=secret&x-site=7c4b2d8f3f3ba9d5ed3aa4bf5ba4bb68;path=/",
            ),
            ("/in", good, 200, None, "login=x-user=ann&x-pw=secret;path=/"),
            ("/in", "httpd_username=ann&httpd_password=wrong", 401, None, ""),
            ("/in2", good, 302, Some("http://h/ok"), "login=x-user=ann&x-pw=secret;path=/"),
            ("/in2", "httpd_username=ann&httpd_password=wrong", 302, Some("http://h/login"), ""),
            (
                "/in2",
                "httpd_username=ann&httpd_password=secret&httpd_location=/there",
                302,
                Some("/there"),
                "login=x-user=ann&x-pw=secret;path=/",
            ),
        ];
        for (path, form, status, location, kept) in cases {
            let answer = post(site, path, FORM, form);
            let kept = kept.replace("7c4b2d8f3f3ba9d5ed3aa4bf5ba4bb68", &site_hash());
            assert_eq!((answer.status, answer.field("Location")), (status, location), "{path} {form}");
            assert_eq!(cookie(&answer, 100), kept, "{path} {form}");
        }
        assert_eq!(post(site, "/form/f.txt", "text/plain", good).status, 401);
        let long = format!("{good}&x={}", "a".repeat(9000));
        assert_eq!([post(site, "/in", FORM, &long).status, post(site, "/form/f.txt", FORM, &long).status], [413; 2]);
        assert_eq!(get(site, "/in", "").status, 405);

        // The site vouches for a user, whatever the password.
        for (hash, status) in [(site_hash(), 200), ("0".repeat(32), 401)] {
            let answer = get(site, "/site/f.txt", &format!("login=x-user=ann&x-pw=z&x-site={hash}"));
            assert_eq!(answer.status, status, "{hash}");
        }

        let out = get(site, "/out", known);
        assert_eq!((out.status, cookie(&out, 100).as_str()), (200, "login=;Max-Age=0;path=/"));
        assert_eq!(out.all("Cache-Control").first(), Some(&"no-store"));
        let out = get(site, "/out2", "login=x-user=ann&x-pw=secret&a=b");
        assert_eq!((out.status, out.field("Location")), (307, Some("http://h/out")));
        assert_eq!(cookie(&out, 100), "login=a=b;path=/");
        let log = site.read("logs/error_log");
        for line in [
            "AH01807: user 'ann': authentication failure for \"/form/f.txt\": password Mismatch",
            "AH01808: user 'bob' not found: /form/f.txt",
            "AH01811: the form-login-handler",
        ] {
            assert!(log.contains(line), "{line}: {log}");
        }
    });
}

/// The hash for ann with `AuthFormSitePassphrase`.
fn site_hash() -> String {
    use md5::Digest;
    md5::Md5::digest("ann:sitesecret").iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The user of a log-in is also known after an internal redirect, and backends get the name.
#[test]
fn a_login_outlives_a_redirect() {
    let configuration = format!(
        "ScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n<Location /cgi>\nCGIPassAuth On\n{LOGIN}Require valid-user\n\
         AuthFormFakeBasicAuth On\n</Location>"
    );
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        build_forms(&site);
        site.page("then.txt", "then\n");
        site.script("lead", "#!/bin/sh\nprintf 'Location: /then.txt\\n\\n'\n");
        site.script("show", "#!/bin/sh\nprintf '\\n%s %s' \"$REMOTE_USER\" \"$HTTP_AUTHORIZATION\"\n");
        let _server = Server::start(mpm, &site, &configuration);
        let good = "httpd_username=ann&httpd_password=secret";
        let answer = post(&site, "/cgi/lead", FORM, good);
        assert_eq!((answer.status, answer.text().as_str()), (200, "then\n"), "{mpm}");
        assert_eq!(cookie(&answer, 100), "login=x-user=ann&x-pw=secret;path=/", "{mpm}");
        let answer = get(&site, "/cgi/show", "login=x-user=ann&x-pw=secret");
        assert_eq!(answer.text(), "ann Basic YW5uOnNlY3JldA==", "{mpm}");
    }
}

/// What a client sends leads nobody to another site.
#[test]
fn a_form_leads_to_no_other_site() {
    let site = Site::new();
    build_forms(&site);
    let server = Server::start(Mpm::Percore, &site, &forms());
    server.allow("leads to another site");
    let own = "http://localhost/";
    for (location, kept) in [
        ("/a?b=http://h/", true),
        ("a.html", true),
        ("?a:b", true),
        (own, true),
        ("http://h/a", false),
        ("//h/a", false),
        (" //h/a", false),
        ("/\\h/a", false),
        ("\\\\h", false),
        ("/\t/h/a", false),
        ("javascript:x", false),
        (&own.replace("http://", "http://x@"), false),
        (&format!("{}.h/", own.trim_end_matches('/')), false),
    ] {
        let form =
            format!("httpd_username=ann&httpd_password=secret&httpd_location={}", http::uri::escape_query(location));
        let answer = post(&site, "/in", FORM, &form);
        let want = if kept { (302, Some(location)) } else { (200, None) };
        assert_eq!((answer.status, answer.field("Location")), want, "{location}");
    }
    assert!(server.log().contains("leads to another site after the login (http://h/a)"));
}
