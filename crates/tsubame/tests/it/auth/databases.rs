//! Databases that are asked: SQLite and PostgreSQL. Every table holds for Apache too.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use md5::Digest;

use crate::auth::passwords::request;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::oracle;
use crate::harness::postgres::Postgres;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

/// The contents of the tests' databases. The password is `secret`.
const TABLES: &str = "
CREATE TABLE users(name text PRIMARY KEY, pw text, full_name text, age int);
INSERT INTO users VALUES('joe', '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=', 'Joe X', 42);
INSERT INTO users VALUES('nil', NULL, NULL, NULL);
CREATE TABLE groups(name text, grp text);
INSERT INTO groups VALUES('joe', 'staff'), ('joe', 'editors'), ('nil', NULL);
CREATE TABLE map(k text, v text);
INSERT INTO map VALUES('a', 'one'), ('b', 'x'), ('b', 'y'), ('n', NULL), ('e', '');
CREATE TABLE session(id text PRIMARY KEY, value text, expiry bigint);
";

/// Runs statements with SQLite's own program, and returns its output.
fn sqlite(path: &Path, sql: &str) -> String {
    let mut child = Command::new("sqlite3")
        .args(["-cmd", ".timeout 10000"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sqlite3");
    child.stdin.take().expect("a pipe").write_all(sql.as_bytes()).expect("statements");
    let output = child.wait_with_output().expect("sqlite3");
    assert!(output.status.success(), "{sql}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_string()
}

/// A database that children may write to.
fn sqlite_site(site: &Site) {
    let path = site.file("data/test.db", "");
    sqlite(&path, TABLES);
    for (path, mode) in [(site.root.join("data"), 0o777), (path, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }
    pages(site);
}

fn pages(site: &Site) {
    site.page("f.txt", "x\n");
    site.script("show", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; env | grep ^AUTHENTICATE_ | sort\n");
}

const SQLITE: &str = "DBDriver sqlite3\nDBDParams ${ROOT}/data/test.db\n";

fn get(site: &Site, path: &str, user: &str, password: &str) -> Response {
    Client::connect(site.address()).request(request(path, user, password))
}

/// Directives of a place for those who log in.
fn place(path: &str, lines: &str) -> String {
    format!(
        "<Location /{path}>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbd\n{lines}\nRequire valid-user\n</Location>\n"
    )
}

const PASSWORDS: &str =
    "AuthDBDUserPWQuery \"SELECT pw, full_name, age AS \\\"the age\\\" FROM users WHERE name = %s\"";

fn passwords(site: &Site) {
    for (path, user, password, status) in [
        ("/in/show", "joe", "secret", 200),
        ("/in/show", "joe", "wrong", 401),
        ("/in/show", "bob", "secret", 401),
        ("/in/show", "nil", "", 401),
        ("/in/show", "' OR 'a'='a", "secret", 401),
        ("/in/show", "", "", 401),
        ("/unset/show", "joe", "secret", 500),
    ] {
        assert_eq!(get(site, path, user, password).status, status, "{path} {user}");
    }
    assert_eq!(
        get(site, "/in/show", "joe", "secret").text(),
        "AUTHENTICATE_FULL_NAME=Joe X\nAUTHENTICATE_THE_AGE=42\n"
    );
    let log = site.read("logs/error_log");
    assert!(log.contains("AH01654: No AuthDBDUserPWQuery has been specified"), "{log}");
}

/// Runs the same check with SQLite and with PostgreSQL, on both servers. `%DATABASE` stands for the lines that name the
/// database, and `reset` runs statements.
fn both(test: &str, configuration: &str, check: impl Fn(&Site, &dyn Fn(&str) -> String)) {
    if needs::SQLITE.is_there(test) {
        let configuration = configuration.replace("%DATABASE", SQLITE);
        oracle::both(test, sqlite_site, &configuration, |site| {
            check(site, &|sql| sqlite(&site.root.join("data/test.db"), sql));
        });
    }
    if needs::POSTGRES.is_there(test) {
        let postgres = filled();
        let lines = format!("DBDriver pgsql\n{}", postgres.parameters("trust"));
        let configuration = configuration.replace("%DATABASE", &lines);
        let build = |site: &Site| {
            pages(site);
            postgres.sql("TRUNCATE session; DELETE FROM map WHERE k = 'new'; UPDATE users SET age = 42");
        };
        oracle::both(test, build, &configuration, |site| check(site, &|sql| postgres.sql(sql)));
    }
}

/// With the tests' tables.
fn filled() -> Postgres {
    let postgres = Postgres::start();
    postgres.sql(TABLES);
    postgres.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC");
    postgres
}

fn places() -> String {
    format!(
        "ScriptAlias /in/ ${{ROOT}}/cgi-bin/\nScriptAlias /unset/ ${{ROOT}}/cgi-bin/\n{}{}",
        place("in", PASSWORDS),
        place("unset", "")
    )
}

#[test]
fn passwords_come_from_sqlite() {
    if needs::SQLITE.is_there("passwords_come_from_sqlite") {
        let configuration = format!("{SQLITE}{}", places());
        oracle::both("passwords_come_from_sqlite", sqlite_site, &configuration, passwords);
    }
}

#[test]
fn passwords_come_from_postgres() {
    if !needs::POSTGRES.is_there("passwords_come_from_postgres") {
        return;
    }
    let postgres = filled();
    let ways = ["scram", "md5", "trust"].map(|user| postgres.parameters(user));
    for parameters in ways.into_iter().chain([postgres.parameters_of_socket()]) {
        let configuration = format!("DBDriver pgsql\n{parameters}{}", places());
        oracle::both(&format!("passwords_come_from_postgres: {parameters}"), pages, &configuration, passwords);
    }
}

#[test]
fn digests_come_from_a_database() {
    let digest: String = md5::Md5::digest("joe:x:secret").iter().map(|byte| format!("{byte:02x}")).collect();
    let configuration = format!(
        "%DATABASE<Location />\nAuthType Digest\nAuthName x\nAuthDigestProvider dbd\n\
         AuthDBDUserRealmQuery \"SELECT '{digest}' FROM users WHERE name = %s AND 'x' = %s\"\nRequire valid-user\n</Location>"
    );
    both("digests_come_from_a_database", &configuration, |site, _| {
        for (credentials, status) in [("joe:secret", "200"), ("joe:wrong", "401"), ("bob:secret", "401")] {
            let url = format!("http://{}/f.txt", site.address());
            let curl = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--digest", "-u", credentials, &url];
            let output = Command::new("curl").args(curl).output().expect("curl");
            assert_eq!(String::from_utf8_lossy(&output.stdout), status, "{credentials}");
        }
    });
}

/// mod_authn_socache remembers the answer to an earlier query.
#[test]
fn passwords_of_databases_are_remembered() {
    let configuration = format!(
        "%DATABASEAuthnCacheSOCache shmcb\n<Location />\nAuthType Basic\nAuthName x\nAuthBasicProvider socache dbd\n\
         AuthnCacheProvideFor dbd\n{PASSWORDS}\nRequire valid-user\n</Location>"
    );
    both("passwords_of_databases_are_remembered", &configuration, |site, sql| {
        assert_eq!(get(site, "/f.txt", "joe", "secret").status, 200);
        sql("UPDATE users SET pw = 'gone' WHERE name = 'joe'");
        let statuses = [get(site, "/f.txt", "joe", "secret").status, get(site, "/f.txt", "joe", "wrong").status];
        sql("UPDATE users SET pw = '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=' WHERE name = 'joe'");
        assert_eq!(statuses, [200, 401]);
    });
}

#[test]
fn groups_and_logins() {
    let with = |path: &str, lines: &str| {
        format!(
            "Alias /{path} ${{DOCS}}\n<Location /{path}>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbd\n{PASSWORDS}\n\
             {lines}\n</Location>\n"
        )
    };
    let groups = "AuthzDBDQuery \"SELECT grp FROM groups WHERE name = %s\"\nRequire dbd-group";
    let login = "AuthzDBDQuery \"UPDATE users SET age = age + 1 WHERE name = %s\"\nRequire dbd-login";
    let configuration = String::from("%DATABASE")
        + &with("staff", &format!("{groups} none staff"))
        + &with("asked", &format!("{groups} %{{HTTP:X-Group}}"))
        + &with("others", &format!("{groups} others"))
        + &with("unset", "Require dbd-group staff")
        + &with("bad", "AuthzDBDQuery \"SELECT 'x' || 1 / (length(%s) - 3)\"\nRequire dbd-group x")
        + &with("login", login)
        + &with("referer", &format!("AuthzDBDLoginToReferer On\n{login}"))
        + &with(
            "out",
            "AuthzDBDQuery \"UPDATE users SET age = 0 WHERE name = %s\"\nRequire dbd-logout\n\
                 AuthzDBDRedirectQuery \"SELECT '/bye/' || age FROM users WHERE name = %s\"",
        )
        + &with("nobody", "AuthzDBDQuery \"UPDATE users SET age = 0 WHERE name = %s || 'x'\"\nRequire dbd-login")
        + &with("none", "Require dbd-login");
    both("groups_and_logins", &configuration, |site, sql| {
        sql("UPDATE users SET age = 5");
        for (path, status) in [("staff", 200), ("asked", 200), ("others", 401), ("unset", 500), ("none", 401)] {
            let asked =
                request(&format!("/{path}/f.txt"), "joe", "secret").replace("Host:", "X-Group: editors\r\nHost:");
            assert_eq!(Client::connect(site.address()).request(asked).status, status, "{path}");
        }
        assert_eq!(get(site, "/asked/f.txt", "joe", "secret").status, 401);
        assert_eq!(get(site, "/staff/f.txt", "joe", "wrong").status, 401);
        let age = || sql("SELECT age FROM users WHERE name = 'joe'");
        assert_eq!((get(site, "/login/f.txt", "joe", "secret").status, age().as_str()), (200, "6"));
        let asked = request("/referer/f.txt", "joe", "secret").replace("Host:", "Referer: http://h/before\r\nHost:");
        let answer = Client::connect(site.address()).request(asked);
        assert_eq!((answer.status, answer.field("Location"), age().as_str()), (302, Some("http://h/before"), "7"));
        let answer = get(site, "/referer/f.txt", "joe", "secret");
        assert_eq!((answer.status, answer.field("Location"), age().as_str()), (200, None, "8"));
        let answer = get(site, "/out/f.txt", "joe", "secret");
        assert_eq!((answer.status, answer.field("Location"), age().as_str()), (302, Some("/bye/0"), "0"));
        assert_eq!(get(site, "/nobody/f.txt", "joe", "secret").status, 200);
        let log = site.read("logs/error_log");
        for line in [
            "AH01649: No query configured for dbd-group!",
            "AH01642: No query configured for login!",
            "AH01644: authz_dbd: login of user joe updated 0 rows",
        ] {
            assert!(log.contains(line), "{line}: {log}");
        }
    });
}

const SESSIONS: &str = "
DBDPrepareSQL \"DELETE FROM session WHERE id = %s\" deletesession
DBDPrepareSQL \"UPDATE session SET value = %s, expiry = %lld, id = %s WHERE id = %s\" updatesession
DBDPrepareSQL \"INSERT INTO session (value, expiry, id) VALUES (%s, %lld, %s)\" insertsession
DBDPrepareSQL \"SELECT value FROM session WHERE id = %s AND (expiry = 0 OR expiry > %lld)\" selectsession
DBDPrepareSQL \"SELECT value FROM session WHERE id = %s OR 1 = %lld\" other
";

/// The cookie that an answer sets: the part up to the first semicolon, and the rest.
fn cookie(answer: &Response) -> Option<(String, String)> {
    // Apache sends it twice.
    let mut all = answer.all("Set-Cookie");
    all.dedup();
    assert!(all.len() < 2, "{answer:?}");
    let (first, rest) = all.first()?.split_once(';')?;
    Some((first.to_string(), rest.to_string()))
}

#[test]
fn sessions_are_kept_in_a_database() {
    let place = |path: &str, lines: &str| {
        format!(
            "ScriptAlias /{path}/ ${{ROOT}}/cgi-bin/\n<Location /{path}>\nSession On\nSessionEnv On\nSessionHeader X-Session\n\
             {lines}\n</Location>\n"
        )
    };
    let log_in = "AuthType Basic\nAuthName x\nAuthBasicProvider dbd\nRequire valid-user";
    let configuration = format!("%DATABASE{SESSIONS}")
        + &place("anon", "SessionDBDCookieName s path=/")
        + &place("plain", "SessionDBDCookieName s")
        + &place("kept", "SessionDBDCookieName s path=/\nSessionDBDCookieRemove Off\nSessionDBDSelectLabel other")
        + &place("aged", "SessionDBDCookieName s path=/\nSessionMaxAge 100")
        + &place("user", &format!("SessionDBDPerUser On\n{log_in}\n{PASSWORDS}"))
        + &place("lost", "SessionDBDCookieName s path=/\nSessionDBDUpdateLabel missing")
        + &place("zero", "SessionDBDCookieName s path=/\nSessionDBDInsertLabel updatesession")
        + &place("free", "SessionDBDPerUser On")
        + &place("closed", "SessionDBDCookieName s path=/\nRequire all denied")
        + &place("again", "SessionDBDCookieName s path=/\nErrorDocument 404 /anon/say");
    both("sessions_are_kept_in_a_database", &configuration, |site, sql| {
        site.script(
            "say",
            "#!/bin/sh\n[ -n \"$QUERY_STRING\" ] && echo \"X-Session: $QUERY_STRING\"\n\
             printf 'Content-Type: text/plain\\n\\n%s|%s' \"$HTTP_SESSION\" \"$HTTP_COOKIE\"\n",
        );
        let rows = || sql("SELECT id, value, expiry FROM session ORDER BY id");
        let ask = |path: &str, cookie: &str| {
            let field = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
            let text = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
            Client::connect(site.address()).request(text)
        };
        let answer = ask("anon/say", "");
        assert_eq!((answer.text().as_str(), cookie(&answer), rows().as_str()), ("|", None, ""));
        let private = Some("no-cache, private");
        assert_eq!(answer.field("Cache-Control"), private);
        for (path, status, told) in [
            ("anon/missing", 404, None),
            ("user/say", 401, None),
            ("closed/say", 403, private),
            ("again/missing", 404, private),
            ("free/say", 200, None),
        ] {
            let answer = ask(path, "");
            assert_eq!((answer.status, answer.field("Cache-Control")), (status, told), "{path}");
        }
        let answer = ask("anon/say?a=1", "");
        let (first, attributes) = cookie(&answer).expect("a cookie");
        assert_eq!(attributes, "path=/");
        let id = |cookie: &str| cookie.strip_prefix("s=").expect("a name").to_string();
        assert_eq!(rows(), format!("{}|a=1|0", id(&first)));
        assert_eq!(id(&first).len(), 36, "{first}");
        assert_eq!(cookie(&ask("plain/say?b=2", "")).expect("a cookie").1, "HttpOnly;Secure;Version=1");
        sql("DELETE FROM session WHERE value = 'b=2'");
        // It is read, and hidden from the script; it stays the same as long as nothing changes.
        let answer = ask("anon/say", &format!("o=1; {first}; p=2"));
        assert_eq!(cookie(&answer), None);
        assert!(answer.text().starts_with("a=1|o=1;") && !answer.text().contains(&first), "{}", answer.text());
        assert_eq!(ask("kept/say", &first).text(), format!("a=1|{first}"));
        // A change is a new key for the same row.
        let (second, _) = cookie(&ask("anon/say?b=2", &first)).expect("a cookie");
        assert!(second != first && rows() == format!("{}|a=1&b=2|0", id(&second)), "{}", rows());
        assert_eq!(ask("anon/say", &first).text(), "|");
        // With an end, which moves.
        let (third, attributes) = cookie(&ask("aged/say", &second)).expect("a cookie");
        assert_eq!((third.as_str(), attributes.as_str()), (second.as_str(), "Max-Age=100;path=/"));
        assert!(rows().starts_with(&format!("{}|a=1&b=2&expiry=", id(&second))), "{}", rows());
        sql("UPDATE session SET expiry = 1");
        assert_eq!(ask("anon/say", &second).text(), "|");
        sql("UPDATE session SET expiry = 0, value = 'a=1'");
        // Without values it ends.
        cookie(&ask("anon/say?a=", &second)).expect("a cookie");
        assert_eq!(rows(), "");
        for wrong in ["s=garbage", "s=x; s=y", "s=' OR ''='", "s=0a0b0c0d-0000-4000-8000-000000000000"] {
            let answer = ask("anon/say", wrong);
            assert!(answer.status == 200 && answer.text().starts_with('|'), "{wrong}: {answer:?}");
        }
        // Data that cannot be stored.
        for path in ["lost/say?a=1", "zero/say?a=1"] {
            let answer = ask(path, "");
            assert_eq!((answer.status, cookie(&answer), rows().as_str()), (200, None, ""), "{path}");
        }
        // A user's own data.
        let user = |path: &str| get(site, path, "joe", "secret");
        assert_eq!((user("/user/say?a=1").text().as_str(), rows().as_str()), ("|", "joe|a=1|0"));
        let answer = user("/user/say?b=2");
        assert_eq!((answer.text().as_str(), cookie(&answer), rows().as_str()), ("a=1|", None, "joe|a=1&b=2|0"));
        assert_eq!(ask("free/say?a=1", "").text(), "|");
        let log = site.read("logs/error_log");
        for line in [
            "AH01852: failed to find the prepared statement called 'missing'",
            "AH01860: the session insert query did not cause any rows to be added to the database for session",
            "AH01822: error while saving the session, session not saved: /lost/say",
            "AH01815: session is enabled but no session modules have been configured, session not loaded: /free/say",
        ] {
            assert!(log.contains(line), "{line}: {log}");
        }
    });
}

#[test]
fn maps_are_databases() {
    let configuration = "%DATABASERewriteEngine On
        RewriteMap d \"dbd:SELECT v FROM map WHERE k = %s\"
        RewriteMap f \"fastdbd:SELECT v FROM map WHERE k = %s\"
        RewriteRule ^/d/(.*)$ /${d:$1|none} [R,L]
        RewriteRule ^/f/(.*)$ /${f:$1|none} [R,L]
        ";
    both("maps_are_databases", configuration, |site, sql| {
        let ask = |path: &str| {
            let answer = Client::connect(site.address()).get(path);
            answer.field("Location").unwrap_or_default().rsplit('/').next().unwrap_or_default().to_string()
        };
        for map in ["d", "f"] {
            for (key, value) in [("a", "one"), ("zz", "none"), ("", "none"), ("'%20OR%20''='", "none")] {
                assert_eq!(ask(&format!("/{map}/{key}")), value, "{map} {key}");
            }
            let values: std::collections::BTreeSet<_> = (0..5).map(|_| ask(&format!("/{map}/b"))).collect();
            assert!(values.iter().all(|value| ["x", "y"].contains(&value.as_str())), "{values:?}");
        }
        assert_eq!(ask("/d/e"), "");
        sql("INSERT INTO map VALUES('new', 'here')");
        assert_eq!(ask("/d/new"), "here");
        sql("DELETE FROM map WHERE k = 'new'");
        assert_eq!(ask("/d/new"), "none");
    });
}

/// A map remembers an answer until the process ends.
#[test]
fn a_fast_map_remembers() {
    if !needs::SQLITE.is_there("a_fast_map_remembers") {
        return;
    }
    let configuration = format!(
        "{SQLITE}RewriteEngine On\nRewriteMap f \"fastdbd:SELECT v FROM map WHERE k = %s\"\n\
         RewriteRule ^/f/(.*)$ /${{f:$1|none}} [R,L]\nStartServers 1\nServerLimit 1\nMaxRequestWorkers 25\n"
    );
    let site = Site::new();
    sqlite_site(&site);
    let server = Server::start(Mpm::Event, &site, &configuration);
    let ask = |key: &str| server.get(&format!("/f/{key}")).field("Location").unwrap_or_default().to_string();
    let (known, unknown) = (ask("a"), ask("zz"));
    assert!(known.ends_with("/one") && unknown.ends_with("/none"), "{known} {unknown}");
    assert!(ask("n").ends_with("/none"), "what is null is nothing");
    sqlite(
        &site.root.join("data/test.db"),
        "UPDATE map SET v = 'two' WHERE k = 'a'; INSERT INTO map VALUES('zz', 'here')",
    );
    assert_eq!((ask("a"), ask("zz")), (known, unknown));
}

under_percore_and! { worker:
/// A database that ends is a 500; when it is back, so are the answers, also for connections of before.
fn a_database_that_goes_away(mpm: Mpm) {
    if !needs::POSTGRES.is_there("a_database_that_goes_away") {
        return;
    }
    let mut postgres = filled();
    let site = Site::new();
    pages(&site);
    let configuration = format!("DBDMin 0\nDBDriver pgsql\n{}{}", postgres.parameters("scram"), place("in", PASSWORDS));
    let server = Server::start(mpm, &site, &format!("Alias /in ${{DOCS}}\n{configuration}"));
    let ask = || get(&site, "/in/f.txt", "joe", "secret").status;
    assert_eq!(ask(), 200);
    postgres.stop();
    postgres.run();
    assert_eq!([ask(), ask()], [200, 200], "another connection is made");
    postgres.stop();
    server.allow("AH00629: Can't connect to pgsql: ");
    server.allow("AH01653: Failed to acquire database connection to look up user 'joe'");
    assert_eq!([ask(), ask()], [500, 500], "nobody knows whether the password is right");
    server.logged("Connection refused");
    postgres.run();
    assert_eq!(ask(), 200);
}
}

under_percore_and! {
    event:

/// A database that accepts a connection and never answers delays only its own requests, for a limited time.
fn a_database_that_hangs(mpm: Mpm) {
    if !needs::POSTGRES.is_there("a_database_that_hangs") {
        return;
    }
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("address").port();
    let site = Site::new();
    pages(&site);
    let configuration = format!(
        "Timeout 2\nDBDriver pgsql\nDBDMin 0\nDBDParams \"host=127.0.0.1 port={port} user=joe\"\nAlias /in ${{DOCS}}\n{}",
        place("in", PASSWORDS)
    );
    let server = Server::start(mpm, &site, &configuration);
    server.allow("AH00629: Can't connect to pgsql: the database has not answered in time");
    server.allow("AH01653: Failed to acquire database connection to look up user 'joe'");
    let mut waiting = server.client();
    waiting.send(request("/in/f.txt", "joe", "secret"));
    let _held = until("a connection", || silent.accept().ok());
    assert_eq!(server.get("/f.txt").status, 200);
    assert_eq!(waiting.response().status, 500);
}

/// A statement that never ends is ended.
fn a_statement_that_never_ends(mpm: Mpm) {
    if !needs::SQLITE.is_there("a_statement_that_never_ends") {
        return;
    }
    let site = Site::new();
    sqlite_site(&site);
    let endless = "AuthDBDUserPWQuery \"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) \
        SELECT max(n) FROM t WHERE 'joe' = %s\"";
    let lines = format!("Timeout 1\n{SQLITE}Alias /in ${{DOCS}}\n{}", place("in", endless));
    let server = Server::start(mpm, &site, &lines);
    server.allow("AH01656: Query execution error looking up 'joe' in database [interrupted]");
    let mut waiting = server.client();
    waiting.send(request("/in/f.txt", "joe", "secret"));
    assert_eq!(server.get("/f.txt").status, 200);
    assert_eq!(waiting.response().status, 500);
}

/// There are no more connections than `DBDMax` for each child; requests wait for their turn.
fn requests_wait_for_a_connection(mpm: Mpm) {
    if !needs::POSTGRES.is_there("requests_wait_for_a_connection") {
        return;
    }
    let postgres = filled();
    let site = Site::new();
    pages(&site);
    let slow = PASSWORDS.replace("FROM users", "FROM users, (SELECT pg_sleep(0.1)) AS slow");
    let configuration = format!(
        "DBDriver pgsql\n{}DBDMax 1\nDBDMin 0\nStartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n\
         MinSpareThreads 1\nMaxSpareThreads 32\nAlias /in ${{DOCS}}\n{}",
        postgres.parameters("trust"),
        place("in", &slow)
    );
    let configuration = match mpm {
        Mpm::Prefork => configuration.replace("ServerLimit 1\nThreadsPerChild 8", "ServerLimit 8"),
        _ => configuration,
    };
    let configuration = match mpm {
        Mpm::Prefork => configuration.replace("MinSpareThreads 1\nMaxSpareThreads 32\n", ""),
        _ => configuration,
    };
    let server = Server::start(mpm, &site, &configuration);
    let mut clients: Vec<_> = (0..5).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.send(request("/in/f.txt", "joe", "secret")));
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    let connections = postgres.log().matches("authorized: user=trust").count();
    assert!(connections <= server.children().len(), "{connections} connections");
}
}

/// If PostgreSQL requires encryption, nothing is sent in clear text.
#[test]
fn a_connection_that_has_to_be_secret() {
    if !needs::POSTGRES.is_there("a_connection_that_has_to_be_secret") {
        return;
    }
    let postgres = filled();
    let site = Site::new();
    pages(&site);
    let parameters = postgres.parameters("scram").replace("dbname=", "sslmode=require dbname=");
    let lines = format!("DBDMin 0\nDBDriver pgsql\n{parameters}Alias /in ${{DOCS}}\n{}", place("in", PASSWORDS));
    let server = Server::start(Mpm::Event, &site, &lines);
    server.allow("does not support SSL, but SSL was required");
    server.allow("AH01653");
    assert_eq!(get(&site, "/in/f.txt", "joe", "secret").status, 500);
    server.logged("does not support SSL, but SSL was required");
}

/// Virtual hosts that say the same share a pool; others have statements and databases of their own.
#[test]
fn virtual_hosts_have_databases_of_their_own() {
    let with = |lines: &str| {
        format!("<Location />\nAuthType Basic\nAuthName x\nAuthBasicProvider dbd\n{lines}\n</Location>\n")
    };
    let configuration = format!(
        "%DATABASE{}<VirtualHost *:8080>\nServerName one\n</VirtualHost>\n<VirtualHost *:8080>\nServerName two\n{}</VirtualHost>\n\
         <VirtualHost *:8080>\nServerName three\nDBDriver sqlite3\nDBDParams ${{ROOT}}/none/there.db\n</VirtualHost>\n",
        with(&format!("{PASSWORDS}\nRequire valid-user")),
        with("AuthDBDUserPWQuery \"SELECT pw FROM users WHERE name = %s AND 'x' = 'y'\"")
    );
    both("virtual_hosts_have_databases_of_their_own", &configuration, |site, _| {
        for (host, status) in [("one", 200), ("two", 401), ("three", 500)] {
            let asked = request("/f.txt", "joe", "secret").replace("localhost", host);
            assert_eq!(Client::connect(site.address()).request(asked).status, status, "{host}");
        }
    });
}

/// An answer of any length takes no more memory than one that is taken.
#[test]
fn a_long_answer_is_not_gathered() {
    if !needs::POSTGRES.is_there("a_long_answer_is_not_gathered") {
        return;
    }
    let postgres = filled();
    let site = Site::new();
    pages(&site);
    let long = "AuthDBDUserPWQuery \"SELECT repeat('x', 1000), %s FROM generate_series(1, 300000)\"";
    let lines = format!("DBDriver pgsql\n{}Alias /in ${{DOCS}}\n{}", postgres.parameters("trust"), place("in", long));
    let server = Server::start(Mpm::Percore, &site, &lines);
    server.announce("AH01656: Query execution error looking up 'joe' in database [the answer is too long]");
    assert_eq!(server.client().request(request("/in/f.txt", "joe", "secret")).status, 500);
    for child in server.children() {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).expect("a process");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(peak < 96 << 10, "{peak} KiB");
    }
}
