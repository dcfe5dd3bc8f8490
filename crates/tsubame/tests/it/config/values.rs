//! Values that Apache refuses are refused, in its words, and those that it takes are taken.

use std::path::Path;

use crate::harness::beside::{Call, Output, compare, modules};
use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wire::Client;

/// The core's limits, formats and addresses: one line each, `\n` between the lines of a section.
#[test]
fn values_of_the_core_are_checked_as_by_apache() {
    if !oracle::is_there("values_of_the_core_are_checked_as_by_apache") {
        return;
    }
    let lines: Vec<String> =
        include_str!("../listing/core_lines.txt").lines().map(|line| line.replace("\\n", "\n")).collect();
    let base = format!(
        "ServerName localhost\nListen 127.0.0.1:9\nDefaultRuntimeDir run\nPidFile logs/pid\n{}",
        modules(&["mpm_event", "authz_core", "alias"])
    );
    compare(&lines, |line| {
        let site = Site::new();
        site.file("conf/httpd.conf", format!("{base}{line}\n"));
        let call = Call { site: &site, arguments: &["-t"], user: None };
        (line.clone(), call.both(Path::new(env!("CARGO_BIN_EXE_tsubame"))).map(without_resolver))
    });
}

/// -1 is no limit, in Apache as here; a number beside it is one.
#[test]
fn a_negative_limit_of_scripts_means_no_limit() {
    let build = |site: &Site| {
        site.script("limit", "#!/bin/sh\nprintf '\\n'\nulimit -Sv\n");
    };
    for (limit, said) in [("-1", "unlimited"), ("-1 -1", "unlimited"), ("1000000000 -1", "976562")] {
        let configuration = format!(
            "ScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\nRLimitMEM {limit}"
        );
        oracle::both("a_negative_limit_of_scripts_means_no_limit", build, &configuration, |site| {
            let mut client = Client::connect(site.address());
            client.send("GET /cgi/limit HTTP/1.0\r\n\r\n");
            let answer = String::from_utf8_lossy(&client.rest().0).into_owned();
            assert_eq!(answer.lines().last(), Some(said), "{limit}: {answer}");
        });
    }
}

/// Removes the resolver's message for an unknown name, which depends on the machine.
fn without_resolver((out, errors, code): Output) -> Output {
    let line = |line: &str| match (line.find("(EAI"), line.find("AH00547")) {
        (Some(from), Some(to)) if from < to => format!("{}{}\n", &line[..from], &line[to..]),
        _ => format!("{line}\n"),
    };
    (out, errors.lines().map(line).collect(), code)
}
