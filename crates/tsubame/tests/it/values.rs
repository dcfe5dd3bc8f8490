//! Values that Apache refuses are refused, in its words, and those that it takes are taken.

use std::path::Path;

use crate::beside::{Call, Said, compare, modules};
use crate::oracle;
use crate::site::Site;

/// The core's limits, formats and addresses: one line each, `\n` between the lines of a section.
#[test]
fn values_of_the_core_are_checked_as_by_apache() {
    if !oracle::is_there("values_of_the_core_are_checked_as_by_apache") {
        return;
    }
    let lines: Vec<String> =
        include_str!("listing/core_lines.txt").lines().map(|line| line.replace("\\n", "\n")).collect();
    let base = format!(
        "ServerName localhost\nDefaultRuntimeDir run\nPidFile logs/pid\n{}",
        modules(&["mpm_event", "authz_core", "alias"])
    );
    compare(&lines, |line| {
        let site = Site::new();
        site.file("conf/httpd.conf", format!("{base}{line}\n"));
        let call = Call { site: &site, arguments: &["-t"], user: None };
        (line.clone(), call.both(Path::new(env!("CARGO_BIN_EXE_tsubame"))).map(without_resolver))
    });
}

/// What a resolver says of a name that it does not know depends on the machine.
fn without_resolver((out, errors, code): Said) -> Said {
    let line = |line: &str| match (line.find("(EAI"), line.find("AH00547")) {
        (Some(from), Some(to)) if from < to => format!("{}{}\n", &line[..from], &line[to..]),
        _ => format!("{line}\n"),
    };
    (out, errors.lines().map(line).collect(), code)
}
