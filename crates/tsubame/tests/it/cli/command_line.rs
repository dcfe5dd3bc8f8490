//! The command line, compared with Apache's: output, errors, and the exit status.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::harness::beside;
use crate::harness::mpm::Mpm;
use crate::harness::oracle;
use crate::harness::site::{self, Site};

/// Standard output, standard error and exit status.
type Output = (String, String, Option<i32>);

fn run(program: &str, site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg0("apache2").args(["-d", site.path(), "-f", "conf/httpd.conf"]).args(arguments);
    let output = command.output().expect("run");
    // Mutexes come in the order of a hash, and the modules decide which exist.
    let kept = |line: &&str| !line.starts_with("Mutex ") && !line.contains("stands in for it");
    let clean = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).replace(site.path(), "ROOT");
        beside::without_help(&text.replace(&site.ip.to_string(), "ADDR")).filter(kept).collect::<Vec<_>>().join("\n")
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

/// A command of ours after options: the message says where it belongs. Apache's name knows no such command.
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
            "tsubame: '{command}' is a command: put it before all options, as in tsubame {command} -f FILE ...\n"
        );
        let (errors, code) = said("tsubame", arguments);
        assert!(errors.starts_with(&want) && code == Some(1), "{arguments:?}: {errors}");
        let (errors, code) = said("apache2", arguments);
        assert!(errors.contains("Usage: apache2 [-D name]") && !errors.contains("is a command"), "{errors}");
        assert_eq!(code, Some(1));
    }
}

/// Error messages for the command line: what is wrong, which name was probably meant, the usage, and where to read
/// more.
#[test]
fn a_wrong_command_line_is_explained() {
    let site = Site::new();
    for (arguments, reason, status) in [
        (&["--prot", "8000"][..], "unknown option '--prot': did you mean '--port'?", 1),
        (&["-Z"], "unknown option '-Z'", 1),
        (&["--port"], "option '--port' needs a number", 1),
        (&["--port", "abc"], "'abc' is not a port: --port takes a number from 1 to 65535", 1),
        (&["--port", "65536", "."], "'65536' is not a port: --port takes a number from 1 to 65535", 1),
        (&["--port", "0"], "'0' is not a port: --port takes a number from 1 to 65535", 1),
        (
            &["--port", "80", "-t"],
            "--port and a directory cannot be combined with a configuration (-f, -d, -C, -c, -D, -k, -t)",
            1,
        ),
        (&["-f"], "option '-f' needs a value", 1),
        (&["-k", "gracefull"], "unknown word after -k 'gracefull': did you mean 'graceful'?", 1),
        (&["-k"], "option '-k' needs one of start, stop, restart, graceful, graceful-stop, upgrade", 1),
        (&["-t", "-e", "debgu"], "unknown level 'debgu': did you mean 'debug'?", 1),
        (&["chekc", "-f", "conf/httpd.conf"], "unknown command 'chekc': did you mean 'check'?", 1),
        (&["chekc"], "unknown command 'chekc': did you mean 'check'?", 1),
        (&["none"], "unknown command 'none', and no directory has this name", 1),
        (&["configtest"], "unknown command 'configtest': write `tsubame -t -f FILE`", 1),
        (&["status", "-f", "conf/httpd.conf"], "unknown command 'status': write `tsubame ctl -f FILE status`", 1),
        (&["help", "chekc"], "unknown command 'chekc': did you mean 'check'?", 1),
        (&["-k", "reload"], "unknown word after -k 'reload': did you mean 'graceful'?", 1),
        (&["completions", "tcsh"], "'tcsh' is none of the shells: bash, zsh, fish", 1),
        (&["completions"], "name one shell: bash, zsh or fish", 1),
        (&["conf", "logs"], "unexpected word 'logs'", 1),
        (&["check", "--jsn"], "unknown option '--jsn': did you mean '--json'?", 2),
        (&["check", "here"], "unexpected word 'here'", 2),
        (&["explain", "--methd", "GET", "/"], "unknown option '--methd': did you mean '--method'?", 1),
        (&["explain", "--host"], "option '--host' needs a value", 1),
        (&["ctl", "statu"], "unknown command 'statu': did you mean 'status'?", 1),
        (&["ctl"], "a command is missing", 1),
        (&["cache", "lst"], "write list, purge URL or clean --limit SIZE", 1),
        (&["cache", "clean"], "clean needs --limit SIZE", 1),
        (&["cache", "clean", "-l", "5x"], "a size is a number of bytes, or one with K, M or G", 1),
        (&["ctl", "--sokcet", "x", "status"], "unknown option '--sokcet': did you mean '--socket'?", 1),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let output = command.arg0("tsubame").args(arguments).current_dir(&site.root).output().expect("run");
        let errors = String::from_utf8(output.stderr).expect("text");
        let called = match arguments[0] {
            command @ ("cache" | "check" | "explain" | "ctl" | "completions") => format!("tsubame {command}"),
            _ => "tsubame".into(),
        };
        assert!(errors.starts_with(&format!("{called}: {reason}\nUsage: tsubame ")), "{arguments:?}: {errors}");
        assert!(errors.ends_with(&format!("`{called} --help` says more.\n")), "{arguments:?}: {errors}");
        assert!(errors.lines().count() <= 5, "{arguments:?}: {errors}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    for (words, page) in [
        (&["help"][..], "tsubame: a web server"),
        (&["help", "ctl"], "tsubame ctl: ask"),
        (&["help", "completions"], "tsubame completions: "),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let output = command.arg0("tsubame").args(words).current_dir(&site.root).output().expect("run");
        assert!(output.stdout.starts_with(page.as_bytes()), "{words:?}");
        assert_eq!((output.stderr.len(), output.status.code()), (0, Some(0)));
    }
}

/// If the reader has gone (`tsubame -V | head -1`), nothing panics, on either output.
#[test]
fn nobody_has_to_read() {
    let site = Site::new();
    site.configure(Mpm::Percore, "<VirtualHost *:80>\nServerName a.example\n</VirtualHost>");
    let closed = || {
        let (reads, writes) = std::io::pipe().expect("pipe");
        drop(reads);
        writes
    };
    let configured: [&[&str]; 11] = [
        &["-V"],
        &["-S"],
        &["-M"],
        &["-L"],
        &["-l"],
        &["-v"],
        &["-h"],
        &["-t"],
        &["-t", "-DDUMP_INCLUDES"],
        &["-t", "-DDUMP_CONFIG"],
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
