//! Findings of `tsubame check`: a table of broken configurations, none of which ends the report at its first fault, and
//! the files that a configuration names.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::mpm::Mpm;
use crate::harness::site::{self, Site};

fn command(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(["check"]).args(arguments).args(["-d", site.path(), "-f", "conf/httpd.conf"]);
    command
}

/// The report for programs, of a run that ended by itself.
fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.is_empty() && output.status.code().is_some(), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A place with these lines, and its report.
fn check(text: &str) -> (Site, Value) {
    let site = Site::new();
    site.configure_with(&site::load_lines(Mpm::Event), text);
    let report = report(&command(&site, &["--json"]).output().expect("run"));
    (site, report)
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().expect("findings")
}

/// The one finding of a topic whose subject ends so.
fn find<'a>(report: &'a Value, topic: &str, subject: &str) -> &'a Value {
    let is_meant = |found: &&Value| found["topic"] == topic && text(found, "subject").ends_with(subject);
    findings(report).iter().find(is_meant).unwrap_or_else(|| panic!("no {topic} {subject} in {report:#}"))
}

fn text<'a>(found: &'a Value, key: &str) -> &'a str {
    found[key].as_str().unwrap_or_default()
}

/// Lines, the topic and subject of the first finding, and words of its message or its advice. An unknown directive
/// follows each of them, and must be found too.
const BROKEN: [(&str, &str, &str, &str); 39] = [
    ("Hader set X 1", "directive", "Hader", "Did you mean Header?"),
    ("RewriteRul ^a b", "directive", "RewriteRul", "Did you mean RewriteRule?"),
    ("Lsiten 80", "directive", "Lsiten", "Did you mean Listen?"),
    ("<Directry /x>\n</Directry>", "directive", "<Directry>", "Did you mean <Directory>?"),
    ("VirtualHost *:80", "directive", "VirtualHost", "Did you mean <VirtualHost>?"),
    ("NoSuchThing 1", "directive", "NoSuchThing", "No module has a directive of this name."),
    ("PythonHandler x", "directive", "PythonHandler", "uwsgi://"),
    ("SecRuleEngine On", "directive", "SecRuleEngine", "mod_security"),
    ("<LuaHookFixups x y>\n</LuaHookFixups>", "directive", "<LuaHookFixups>", "mod_lua"),
    ("LockFile x", "directive", "LockFile", "Mutex"),
    ("LoadModule nosuch_module x.so", "module", "nosuch_module", "<IfModule nosuch_module>"),
    ("LoadModule rewrit_module x.so", "module", "rewrit_module", "Did you mean rewrite_module?"),
    ("LoadModule example_hooks_module x.so", "module", "example_hooks_module", "mod_example_hooks"),
    ("LoadModule", "syntax", "LoadModule", "takes two arguments"),
    ("Listen", "syntax", "Listen", "requires 1 or 2 arguments"),
    ("Listen ${ADDR}:8080", "syntax", "Listen", "Cannot define multiple Listeners"),
    ("KeepAlive maybe", "syntax", "KeepAlive", "must be On or Off"),
    ("ErrorDocument 999 x", "syntax", "ErrorDocument", "999"),
    ("DocumentRoot /nosuch/dir", "syntax", "DocumentRoot", "is not a directory"),
    ("Alias /x", "syntax", "Alias", "two arguments"),
    ("</Directory>", "syntax", "</Directory>", "without matching"),
    ("<Directory /tmp>\n</Location>", "syntax", "</Location>", "Expected </Directory>"),
    ("<Directory /tmp\nRequire all granted\n</Directory>", "syntax", "<Directory>", "missing closing '>'"),
    ("<VirtualHost>\n</VirtualHost>", "syntax", "<VirtualHost>", "requires additional arguments"),
    ("<IfModule>\nUnread 1\n</IfModule>", "syntax", "<IfModule>", "requires additional arguments"),
    ("<IfVersion !!>\n</IfVersion>", "syntax", "<IfVersion>", "ersion"),
    ("Include nosuch.conf", "syntax", "Include", "No such file or directory"),
    ("Include conf/httpd.conf", "circular_include", "Include", "This file includes itself"),
    ("Use NoSuchMacro", "syntax", "Use", "undefined"),
    ("<Macro A $x $x>\n</Macro>", "syntax", "<Macro>", "argument name conflict"),
    ("<FilesMatch \"*.php\">\n</FilesMatch>", "syntax", "<FilesMatch>", "Regex could not be compiled"),
    ("RedirectMatch \"(\" /x", "syntax", "RedirectMatch", "could not be compiled"),
    ("RewriteRule ^a b [X]", "syntax", "RewriteRule", "unknown flag 'X'"),
    ("<If \"foo(\">\n</If>", "syntax", "<If>", "Cannot parse condition clause"),
    ("<Else>\n</Else>", "syntax", "<Else>", "without previous <If>"),
    ("<Directory /tmp>\nOptions Indexes +Includes\n</Directory>", "syntax", "Options", "must start with + or -"),
    ("<Directory /tmp>\nRequire foo\n</Directory>", "syntax", "Require", "Unknown Authz provider: foo"),
    ("AllowOverride All", "syntax", "AllowOverride", "not allowed here"),
    ("ServerAlias x", "syntax", "ServerAlias", "only used in <VirtualHost>"),
];

#[test]
fn broken_configurations_are_reported_to_their_end() {
    let check_part = |part: &[(&str, &str, &str, &str)]| {
        for (lines, topic, subject, words) in part {
            let (_site, report) = check(&format!("{lines}\nLastOfAll 1"));
            assert_eq!(report["verdict"], "does_not_start", "{lines}");
            let found = find(&report, topic, subject);
            let said = format!("{} {}", text(found, "message"), text(found, "instead"));
            assert!(said.contains(words), "{lines}: {found:#}");
            assert!(found["places"][0]["line"].is_number(), "{lines}: {found:#}");
            find(&report, "directive", "LastOfAll");
            // One fault is one finding.
            assert_eq!(report["counts"]["stops"], 2, "{lines}: {report:#}");
        }
    };
    std::thread::scope(|scope| BROKEN.chunks(BROKEN.len() / 4).for_each(|part| drop(scope.spawn(|| check_part(part)))));
}

/// Faults of the whole, which have no line of their own, and which `-t` would find one by one.
#[test]
fn faults_of_the_whole_are_all_found() {
    let (_site, report) =
        check("TypesConfig /nosuch/mime.types\nErrorLog /nosuch/logs/error_log\nCustomLog /nosuch2/log x\n");
    assert_eq!(report["verdict"], "does_not_start");
    assert_eq!(find(&report, "log", "/nosuch/logs/")["instead"], "mkdir -p /nosuch/logs/");
    find(&report, "log", "/nosuch2/");
    let (_site, report) = check("TypesConfig /nosuch/mime.types");
    assert!(text(find(&report, "start", "TypesConfig"), "message").contains("AH01597"));
    let (_site, report) = check("DocumentRoot ${TSUBAME_NO_SUCH_VARIABLE}/x");
    let found = find(&report, "warning", "variable");
    assert!(
        text(found, "message").contains("TSUBAME_NO_SUCH_VARIABLE") && found["places"][0]["line"] == 2,
        "{found:#}"
    );
    let (_site, report) = check("LoadModule php_module modules/libphp.so\nPhpProgram /nosuch/php-cgi");
    assert_eq!(find(&report, "handler", "php")["weight"], "loses");
    let (_site, report) = check("LoadModule suexec_module modules/mod_suexec.so\nUserDir public_html");
    assert_eq!(find(&report, "script", "UserDir")["weight"], "loses");
}

#[test]
fn a_module_is_switched_off_in_debian_s_way() {
    let site = Site::new();
    site.file("mods-enabled/hooks.load", "LoadModule example_hooks_module modules/mod_example_hooks.so\n");
    site.configure_with(&site::load_lines(Mpm::Event), "Include mods-enabled/*.load");
    let report = report(&command(&site, &["--json"]).output().expect("run"));
    assert!(text(find(&report, "module", "example_hooks_module"), "instead").starts_with("Run `a2dismod hooks`"));
}

#[test]
fn a_section_that_is_not_closed_does_not_hide_what_stands_inside() {
    let (_site, report) = check("<Directory /tmp>\nFoo 1\n<Files x>\nBar 1");
    assert!(text(find(&report, "syntax", "<Directory>"), "message").contains("<Files> was not closed"));
    find(&report, "directive", "Foo");
    find(&report, "directive", "Bar");
}

/// A main file that does not exist is an error like any other.
#[test]
fn a_missing_file_is_reported() {
    let site = Site::new();
    let report = report(&command(&site, &["--json"]).output().expect("run"));
    assert_eq!(report["verdict"], "does_not_start");
    assert!(text(&findings(&report)[0], "message").contains("No such file or directory"), "{report:#}");
}

/// A certificate of a day in 2020 to the first of 2021.
const EXPIRED: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBDzCBtgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwHhcN\n\
    MjAwMTAxMDAwMDAwWhcNMjEwMTAxMDAwMDAwWjAUMRIwEAYDVQQDDAlsb2NhbGhv\n\
    c3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARzsAeURffAVmkUVVGqZKudIEu/\n\
    Rv7exKrp1snDYXMr0ndEwZFi7g+CSvEF87n8kgWOMHZKojNzPx3OvEPk3oHuMAoG\n\
    CCqGSM49BAMCA0gAMEUCIQDuHUye0gOIYJYbMYlkfNVGsxBJsBWdgzP4lSdyuo5u\n\
    EgIgDVE717SMdNdAfurZncKfHxs0hddtsh/kAr6WQcsWR5s=\n\
    -----END CERTIFICATE-----\n";

#[test]
fn files_of_ssl_are_looked_into() {
    let host = |name: &str, files: &str| format!("<VirtualHost *:8080>\nServerName {name}\n{files}</VirtualHost>\n");
    let text_of = [
        host("a", "SSLCertificateFile conf/expired.pem\nSSLCertificateKeyFile conf/open.key\n"),
        host("b", "SSLCertificateFile conf/none.pem\nSSLCertificateKeyFile conf/nothing.key\n"),
        host("c", "SSLCertificateFile conf/missing.pem\n"),
        host("d", "SSLCertificateKeyFile conf/secret.key\n"),
    ];
    let site = Site::new();
    site.configure_with(&site::load_lines(Mpm::Event), &text_of.concat());
    site.file("conf/expired.pem", EXPIRED);
    let key = "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n";
    let mode = |name: &str, mode| {
        let path = site.file(name, key);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
    };
    mode("conf/open.key", 0o644);
    mode("conf/secret.key", 0o000);
    site.file("conf/none.pem", "hello\n");
    site.file("conf/nothing.key", "hello\n");
    let mut command = command(&site, &["--json"]);
    if sys::cred::is_root() {
        // Nothing is unreadable for root.
        command.uid(65534).gid(65534);
    }
    let report = report(&command.output().expect("run"));
    let says = |topic: &str, subject: &str, weight: &str, words: &str| {
        let found = find(&report, topic, subject);
        assert!(found["weight"] == weight && text(found, "message").contains(words), "{found:#}");
    };
    says("certificate", "expired.pem", "loses", "It expired");
    says("certificate", "open.key", "harmless", "everybody may read (its mode is 644)");
    says("certificate", "none.pem", "stops", "There is no certificate in it.");
    says("certificate", "nothing.key", "stops", "There is no key in it.");
    says("certificate", "secret.key", "harmless", "You may not read it");
    says("syntax", "SSLCertificateFile", "stops", "missing.pem' does not exist");
}

#[test]
fn sections_that_never_match_are_named() {
    let (_site, report) = check(
        "<Directory /nosuch/place>\nRequire all granted\n</Directory>\n\
         <IfModule rewrit_module>\nFoo 1\n</IfModule>\n\
         <Directory /tmp>\nOptions None\n</Directory>\n<Directory /tmp>\nOptions All\n</Directory>\n\
         <Directory /var>\nOptions None\n</Directory>\n\
         <VirtualHost *:8080>\n<Directory /var>\nOptions All\n</Directory>\n</VirtualHost>\n",
    );
    assert_eq!(report["verdict"], "starts", "{report:#}");
    let found: Vec<(&str, &Value)> = findings(&report)
        .iter()
        .filter(|found| found["topic"] == "never_matches")
        .map(|found| (text(found, "subject"), &found["places"][0]["line"]))
        .collect();
    let named = |subject: &str, line: u64| found.iter().any(|(have, at)| *have == subject && at.as_u64() == Some(line));
    assert!(named("<Directory>", 2) && named("<IfModule rewrit_module>", 5) && named("<Directory>", 8), "{found:?}");
    // The section of /var counts in the main server.
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn lines_that_are_said_twice_are_named() {
    let (_site, report) = check(
        "Timeout 3\nTimeout 4\nAlias /x /tmp\nAlias /x /tmp\nRewriteEngine On\nRewriteRule ^/a /b\nRewriteRule ^/b /c\n\
         AddType text/x .x\nAddType text/y .y\n",
    );
    let twice: Vec<&str> = findings(&report)
        .iter()
        .filter(|found| found["topic"] == "twice")
        .map(|found| text(found, "subject"))
        .collect();
    assert_eq!(twice, ["Timeout", "Alias"], "{report:#}");
    assert!(text(find(&report, "twice", "Timeout"), "message").contains("Replaced by `Timeout 4`"));
}

#[test]
fn hosts_that_hide_each_other_are_named() {
    let (_site, report) = check(
        "<VirtualHost *:8080>\nServerName a\nServerAlias b\n</VirtualHost>\n<VirtualHost *:8080>\nServerName B\n</VirtualHost>\n\
         <VirtualHost *:81>\nServerName c\n</VirtualHost>\n<VirtualHost *:8080>\nServerName d\nServerAlias a\n</VirtualHost>\n",
    );
    let lines = |message: &str| -> Vec<u64> {
        let found = findings(&report).iter().filter(|found| text(found, "message").contains(message));
        found.filter_map(|found| found["places"][0]["line"].as_u64()).collect()
    };
    assert_eq!(lines("No request gets here"), [6], "{report:#}");
    assert_eq!(lines("Nothing listens on its address (c)"), [9]);
    assert_eq!(lines("a belongs to the virtual host at"), [12]);
}

#[test]
fn scripts_that_cannot_run_are_named_with_the_remedy() {
    let site = Site::new();
    site.configure_with(&site::load_lines(Mpm::Event), "ScriptAlias /cgi-bin/ cgi-bin/");
    site.script("right", "#!/bin/sh\n");
    site.file("cgi-bin/no-bit", "#!/bin/sh\n");
    site.script("no-interpreter", "#!/no/such/program\n");
    site.script("no-line", "echo\n");
    site.script("dos", "#!/bin/sh\r\n");
    let output = command(&site, &["--json"]).output().expect("run");
    assert_eq!(output.status.code(), Some(1));
    let report = report(&output);
    for (name, remedy) in [
        ("no-bit", "chmod +x "),
        ("no-interpreter", "Install /no/such/program"),
        ("no-line", "#!/bin/sh"),
        ("dos", "sed -i "),
    ] {
        let found = find(&report, "script", &format!("/{name}"));
        assert!(text(found, "instead").contains(remedy), "{found:#}");
    }
    assert_eq!(report["counts"]["loses"], 4, "{report:#}");
}

/// The walk ends: at its limit, which the report names, and where links lead in circles.
#[test]
fn a_big_tree_is_looked_at_within_limits() {
    let site = Site::new();
    site.configure_with(&site::load_lines(Mpm::Event), "<Directory />\nAllowOverride All\n</Directory>\n");
    for i in 0..40 {
        site.file(format!("htdocs/{i:02}/.htaccess"), "NoSuchThing 1\n");
        symlink("../", site.root.join(format!("htdocs/{i:02}/up"))).expect("link");
    }
    let whole = report(&command(&site, &["--json"]).output().expect("run"));
    assert_eq!((&whole["read"]["directories"], &whole["read"]["access_files"]), (&42.into(), &40.into()), "{whole:#}");
    assert_eq!(find(&whole, "access_file", "NoSuchThing")["places"].as_array().map(Vec::len), Some(40));
    assert_eq!(whole["limits"], Value::Array(Vec::new()));
    let part = report(&command(&site, &["--json", "--directories", "10"]).output().expect("run"));
    assert_eq!(part["read"]["directories"], 10);
    assert_eq!(part["limits"][0], "there are more than 10 directories");
    let told = command(&site, &["--directories", "10"]).output().expect("run");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("Not everything was looked at: there are more than 10 directories."), "{told}");
}

/// `.htaccess` below the directories of `Alias` and `AliasMatch`, by the rules of the host that has it.
#[test]
fn aliased_directories_are_looked_at_too() {
    for alias in ["Alias /app {root}/app", "AliasMatch ^/(.)pp/(.*)$ {root}/app/x$1/$2"] {
        let site = Site::new();
        let root = site.path();
        let alias = alias.replace("{root}", root);
        let text_of = format!(
            "<VirtualHost *:8080>\n{alias}\n<Directory {root}/app>\nAllowOverride FileInfo\n</Directory>\n</VirtualHost>\n"
        );
        site.configure_with(&site::load_lines(Mpm::Event), &text_of);
        site.file("app/.htaccess", "Require all denied\n");
        let report = report(&command(&site, &["--json"]).output().expect("run"));
        let found = find(&report, "access_file", "Require");
        assert_eq!(found["instead"], "AllowOverride AuthConfig", "{found:#}");
    }
}

/// The keys that docs/check.md promises, and no others.
#[test]
fn the_report_for_programs_has_the_keys_of_its_description() {
    let keys = |value: &Value| -> Vec<String> { value.as_object().expect("an object").keys().cloned().collect() };
    let (_site, report) = check("Include conf/more.conf\nLuaHookFixups /x.lua f");
    assert_eq!(keys(&report), ["counts", "file", "findings", "limits", "read", "verdict"]);
    assert_eq!(keys(&report["counts"]), ["harmless", "loses", "stops"]);
    assert_eq!(keys(&report["read"]), ["access_files", "directories", "files", "virtual_hosts"]);
    let described = include_str!("../../../../../docs/check.md");
    for found in findings(&report) {
        assert_eq!(keys(found), ["does", "instead", "loss", "message", "places", "subject", "topic", "weight"]);
        assert!(described.contains(&format!("`{}`", text(found, "topic"))), "{found:#}");
        for place in found["places"].as_array().expect("places") {
            assert_eq!(keys(place), ["file", "included_from", "line"]);
        }
    }
    let found = find(&report, "directive", "LuaHookFixups");
    assert_eq!(found["loss"], "feature");
}

#[test]
fn the_exit_status_is_the_verdict() {
    let status = |text: &str| {
        let site = Site::new();
        site.configure_with(&site::load_lines(Mpm::Event), text);
        command(&site, &[]).output().expect("run").status.code()
    };
    assert_eq!(status("Timeout 3"), Some(0));
    assert_eq!(status("<VirtualHost *:81>\n</VirtualHost>"), Some(1));
    assert_eq!(status("Timout 3"), Some(2));
}
