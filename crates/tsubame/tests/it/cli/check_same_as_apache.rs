//! Directives of Apache 2.2 and earlier: `-t` answers like Apache 2.4, and `tsubame check` explains the answer.

use std::path::Path;
use std::process::Command;

use modules::manual::REMOVED;
use serde_json::Value;

use crate::harness::beside::{Call, compare, modules};
use crate::harness::oracle;
use crate::harness::site::Site;

const MODULES: [&str; 7] = ["mpm_event", "authz_core", "authn_core", "alias", "autoindex", "rewrite", "ssl"];

/// Lines that Apache 2.4 renamed, accepts with a warning, or refuses for its own reason; `\n` separates lines.
const CHANGED: [&str; 24] = [
    "NameVirtualHost *:80",
    "NameVirtualHost",
    "DefaultType text/plain",
    "DefaultType none",
    "DefaultType",
    "MaxClients 150",
    "MaxClients x",
    "MaxRequestsPerChild 0",
    "MaxRequestWorkers 150",
    "Port 80",
    "FancyIndexing on",
    "SSLLog logs/ssl",
    "SSLLogLevel info",
    "Order allow,deny",
    "<Directory /tmp>\\nOrder deny,allow\\nDeny from all\\nSatisfy any\\n</Directory>",
    "<Directory /tmp>\\nAuthName x\\nAuthType Basic\\nAuthUserFile /x\\nRequire valid-user\\n</Directory>",
    "<Directory /tmp>\\nRequire group x\\n</Directory>",
    "<Limit GET POST>\\nOrder allow,deny\\n</Limit>",
    "Options Indexes +FollowSymLinks",
    "Mutex default",
    "AcceptFilter http none",
    "SSLMutex file:logs/mutex",
    "<IfModule !mod_access.c>\\nRewriteLog logs/rewrite\\n</IfModule>",
    "ProxyPass / http://127.0.0.1/",
];

fn site(lines: &str) -> Site {
    let site = Site::new();
    let text = format!(
        "ServerName localhost\nDefaultRuntimeDir run\nPidFile logs/pid\n{}{}\nListen 127.0.0.1:9\n",
        modules(&MODULES),
        lines.replace("\\n", "\n")
    );
    site.file("conf/httpd.conf", text);
    site
}

/// Arguments for a directive that no longer exists; it is refused with any of them.
fn gone() -> impl Iterator<Item = String> {
    REMOVED.iter().map(|removed| format!("{} on", removed.name))
}

#[test]
fn old_directives_get_apaches_answer() {
    if !oracle::is_there("old_directives_get_apaches_answer") {
        return;
    }
    let lines: Vec<String> = CHANGED.iter().map(ToString::to_string).chain(gone()).collect();
    compare(&lines, |line| {
        let site = site(line);
        let call = Call { site: &site, arguments: &["-t"], user: None };
        (line.clone(), call.both(Path::new(env!("CARGO_BIN_EXE_tsubame"))))
    });
}

/// All removed directives in one configuration: each has its own line in the report, with the replacement.
#[test]
fn old_directives_are_explained_all_at_once() {
    let site = site(&gone().collect::<Vec<_>>().join("\n"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(["check", "--json", "-d", site.path(), "-f", "conf/httpd.conf"]);
    let output = command.output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    for removed in REMOVED.iter() {
        let found = findings.iter().find(|found| found["subject"] == removed.name).expect(removed.name);
        let message = format!("Apache {} was the last version that had it.", removed.last);
        assert_eq!(found["message"], message, "{}", removed.name);
        assert_eq!(found["instead"], removed.instead, "{}", removed.name);
        assert!(found["does"].is_string() && found["loss"].is_string(), "{found:#}");
    }
}
