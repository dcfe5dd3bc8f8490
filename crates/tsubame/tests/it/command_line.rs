//! The command line beside Apache's: what is printed, where, and the exit status.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::mpm::Mpm;
use crate::oracle;
use crate::site::{self, Site};

/// Standard output, standard error and exit status.
type Said = (String, String, Option<i32>);

fn run(program: &str, site: &Site, arguments: &[&str]) -> Said {
    let mut command = Command::new(program);
    command.arg0("apache2").args(["-d", site.path(), "-f", "conf/httpd.conf"]).args(arguments);
    let output = command.output().expect("run");
    // The order of mutexes is that of a hash, and which there are depends on the modules.
    let kept = |line: &&str| !line.starts_with("Mutex ") && !line.contains("stands in for it");
    let further = |line: &&str| !line.starts_with("  included from") && !line.starts_with("  did you mean");
    let clean = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).replace(site.path(), "ROOT");
        text.replace(&site.ip.to_string(), "ADDR").lines().filter(kept).filter(further).collect::<Vec<_>>().join("\n")
    };
    (clean(&output.stdout), clean(&output.stderr), output.status.code())
}

/// Everything that does not name versions or modules.
#[test]
fn options_are_those_of_apache() {
    if !oracle::is_there("options_are_those_of_apache") {
        return;
    }
    let text = "Define A\nDefine B c\n<VirtualHost *:80>\nServerName a.example\n</VirtualHost>";
    let (ours, theirs) = (Site::new(), Site::new());
    ours.configure_with(&site::load_lines(Mpm::Prefork), text);
    theirs.configure_with(&oracle::load_lines(), text);
    let lists: [&[&str]; 17] = [
        &["-h"],
        &["-Z"],
        &["-t"],
        &["-T", "-t"],
        &["-t", "-DDUMP_VHOSTS"],
        &["-t", "-D", "DUMP_RUN_CFG"],
        &["-t", "-D", "DUMP_INCLUDES"],
        &["-S"],
        &["-k", "nonsense"],
        &["-k"],
        &["word"],
        &["-e", "nonsense", "-t"],
        &["-d"],
        &["-C"],
        &["-f", "/nonexistent", "-t"],
        &["-t", "-C", "Bogus"],
        &["-t", "-c", "Bogus on", "-c", "x"],
    ];
    let mut differences = Vec::new();
    for arguments in lists {
        let our = run(env!("CARGO_BIN_EXE_tsubame"), &ours, arguments);
        let their = run(oracle::APACHE, &theirs, arguments);
        if our != their {
            differences.push(format!("{arguments:?}\n    ours   {our:?}\n    Apache {their:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
