//! The places where directives may stand, compared with Apache, if `-L` does not show them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::harness::beside::without_help;
use crate::harness::mpm::Mpm;
use crate::harness::oracle;
use crate::harness::site::{self, Site};

/// Standard output, the last line of standard error, and the exit status.
fn run(program: &str, site: &Site, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(program);
    command.arg0("apache2").args(["-d", site.path(), "-f", "conf/httpd.conf"]).args(arguments);
    let output = command.output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    let last = without_help(&said).last().unwrap_or_default().replace(site.path(), "ROOT");
    (String::from_utf8_lossy(&output.stdout).into_owned(), last, output.status.code())
}

/// `-L` does not tell what may not stand in a virtual host; and some lines need no argument.
#[test]
fn lines_are_taken_where_apache_takes_them() {
    if !oracle::is_there("lines_are_taken_where_apache_takes_them") {
        return;
    }
    let (ours, theirs) = (Site::new(), Site::new());
    let in_a_host = |line: &str| format!("<VirtualHost *:80>\n{line}\n</VirtualHost>");
    let lines = [
        "AcceptFilter http none",
        "BufferedLogs On",
        "CoreDumpDirectory logs",
        "ExtendedStatus On",
        "GlobalLog logs/x %h",
        "Listen 8080",
        "MaxMemFree 100",
        "Mutex default",
        "NameVirtualHost *",
        "PidFile logs/x",
        "RegisterHttpMethod X",
        "ScriptSock logs/x",
        "ServerPath /x",
        "ServerTokens Prod",
        "Suexec Off",
        "TypesConfig conf/mime.types",
        "UnDefine X",
        "User root",
    ];
    let mut texts: Vec<String> = lines.iter().map(|line| in_a_host(line)).collect();
    texts.extend(
        ["MacroIgnoreEmptyArgs", "MacroIgnoreBadNesting", "MacroIgnoreEmptyArgs On", "ServerAlias x"].map(String::from),
    );
    let mut differences = Vec::new();
    for text in texts {
        ours.configure_with(&site::load_lines(Mpm::Event), &text);
        theirs.configure_with(&oracle::load_lines(), &text);
        let our = run(env!("CARGO_BIN_EXE_tsubame"), &ours, &["-t"]);
        let their = run(oracle::APACHE, &theirs, &["-t"]);
        if our != their {
            differences.push(format!("{text}\n    ours   {our:?}\n    Apache {their:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
