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

/// A command of ours that stands behind options is told its place; Apache's name knows no such command.
#[test]
fn commands_stand_before_options() {
    let site = Site::new();
    let said = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let output = command.arg0(name).args(arguments).current_dir(&site.root).output().expect("run");
        (String::from_utf8(output.stderr).expect("text"), output.status.code())
    };
    for (command, arguments) in [
        ("explain", &["-f", "conf/httpd.conf", "explain", "--method", "GET", "/"][..]),
        ("explain", &["-f", "conf/httpd.conf", "explain", "/"]),
        ("explain", &["-f", "conf/httpd.conf", "explain"]),
        ("ctl", &["-f", "conf/httpd.conf", "ctl", "status"]),
        ("ctl", &["-d", ".", "-Dx", "ctl"]),
        ("check", &["-f", "conf/httpd.conf", "check"]),
    ] {
        let want = format!(
            "tsubame: {command} is a command and stands before all options: tsubame {command} -f FILE ...\n\
             `tsubame {command} --help` says how it is used.\n"
        );
        assert_eq!(said("tsubame", arguments), (want, Some(1)), "{arguments:?}");
        let (errors, code) = said("apache2", arguments);
        assert!(errors.contains("Usage: apache2 [-D name]") && !errors.contains("stands before"), "{errors}");
        assert_eq!(code, Some(1));
    }
    for arguments in [&["--port"][..], &["--port", "x"], &["--port", "65536", "."]] {
        let want = "tsubame: --port takes a number up to 65535: tsubame --port 8000 DIR\n";
        assert_eq!(said("tsubame", arguments), (want.into(), Some(1)), "{arguments:?}");
    }
    let (errors, code) = said("tsubame", &["none"]);
    assert_eq!((errors.as_str(), code), ("tsubame: (2)No such file or directory: cannot serve none\n", Some(1)));
    // What is no command is none.
    let (errors, _) = said("tsubame", &["-f", "conf/httpd.conf", "elsewhere"]);
    assert!(errors.starts_with("Usage: tsubame [-D name]"), "{errors}");
}

/// Where nobody reads any more (`tsubame -V | head -1`) nothing panics, on either output.
#[test]
fn nobody_has_to_read() {
    let site = Site::new();
    site.configure(Mpm::Percore, "<VirtualHost *:80>\nServerName a.example\n</VirtualHost>");
    let closed = || {
        let (reads, writes) = std::io::pipe().expect("pipe");
        drop(reads);
        writes
    };
    let configured: [&[&str]; 10] = [
        &["-V"],
        &["-S"],
        &["-M"],
        &["-L"],
        &["-l"],
        &["-v"],
        &["-h"],
        &["-t"],
        &["-t", "-DDUMP_INCLUDES"],
        &["-k", "stop"],
    ];
    let place = ["-d", site.path(), "-f", "conf/httpd.conf"];
    let of_file = configured.map(|arguments| [&place, arguments].concat());
    let others: [&[&str]; 8] = [
        &["--help"],
        &["--version"],
        &["--nonsense"],
        &["explain", "--help"],
        &["ctl", "--help"],
        &["explain"],
        &["ctl"],
        &["/no/such/directory"],
    ];
    let explained: Vec<Vec<&str>> = [&["--mpm"][..], &["--config"], &["/"], &["--json", "/"]]
        .iter()
        .map(|words| [&["explain"][..], &place, words].concat())
        .collect();
    for arguments in of_file.into_iter().chain(others.map(<[&str]>::to_vec)).chain(explained) {
        let log = site.root.join("logs/said");
        let file = || std::fs::File::create(&log).expect("file");
        let command = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
            command.arg0("tsubame").args(arguments).current_dir(&site.root);
            command
        };
        let status = command(&arguments).stdout(closed()).stderr(file()).status().expect("run");
        assert!(status.code().is_some_and(|code| code < 2), "{arguments:?}: {status}: {}", site.read("logs/said"));
        let status = command(&arguments).stdout(closed()).stderr(closed()).status().expect("run");
        assert!(status.code().is_some_and(|code| code < 2), "{arguments:?}: {status}");
    }
}
