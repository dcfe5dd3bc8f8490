//! Databases that are asked: SQLite and PostgreSQL. Every table holds for Apache too.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::needs;
use crate::oracle;
use crate::passwords::request;
use crate::postgres::Postgres;
use crate::site::Site;
use crate::wire::{Client, Response};

/// What the tests' databases hold. The password is `secret`.
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

/// Runs statements with SQLite's own program, and gives what it says.
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

#[test]
fn passwords_come_from_sqlite() {
    if !needs::SQLITE.is_there("passwords_come_from_sqlite") {
        return;
    }
    let configuration = format!(
        "{SQLITE}ScriptAlias /in/ ${{ROOT}}/cgi-bin/\nScriptAlias /unset/ ${{ROOT}}/cgi-bin/\n{}{}",
        place("in", PASSWORDS),
        place("unset", "")
    );
    oracle::both("passwords_come_from_sqlite", sqlite_site, &configuration, passwords);
}

#[test]
fn passwords_come_from_postgres() {
    if !needs::POSTGRES.is_there("passwords_come_from_postgres") {
        return;
    }
    let postgres = Postgres::start();
    postgres.sql(TABLES);
    postgres.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC");
    let ways = ["scram", "md5", "trust"].map(|user| postgres.parameters(user));
    for parameters in ways.into_iter().chain([postgres.parameters_of_socket()]) {
        let configuration = format!(
            "DBDriver pgsql\n{parameters}ScriptAlias /in/ ${{ROOT}}/cgi-bin/\nScriptAlias /unset/ ${{ROOT}}/cgi-bin/\n{}{}",
            place("in", PASSWORDS),
            place("unset", "")
        );
        oracle::both(&format!("passwords_come_from_postgres: {parameters}"), pages, &configuration, passwords);
    }
}
