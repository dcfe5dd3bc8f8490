//! The first hour of somebody who is not root: the tutorial, restarts, the demonstration, a configuration of Debian's.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::Start;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::mpm::control::{Daemon, pid_of, said};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tsubame");
const NOBODY: u32 = 65534;

/// A command as an ordinary user, who may execute it: directories of a build may be closed.
fn as_nobody(site: &Site, words: &[&str]) -> (String, String, Option<i32>) {
    let program = site.root.join("tsubame");
    if !program.exists() {
        std::fs::copy(PROGRAM, &program).expect("copy");
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
    command.arg(program).args(words).env("HOME", site.path()).current_dir(site.root.join("first"));
    said(&command.output().expect("run"))
}

/// The tutorial's own configuration: no `ServerRoot`, so that it is the system's, and no `LoadModule`, so that all modules are on.
#[test]
fn the_tutorial_works_for_an_ordinary_user() {
    if !needs::ROOT.is_there("the_tutorial_works_for_an_ordinary_user") {
        return;
    }
    let page = include_str!("../../../../../docs/tutorial.md");
    let first = page.split("```apache\n").nth(1).and_then(|block| block.split("```").next()).expect("a block");
    let site = Site::new();
    let address = site.address().to_string();
    let text = first.replace("127.0.0.1:8081", &address);
    assert!(text.contains(&address), "{text}");
    site.file("first/conf/httpd.conf", &text);
    site.file("first/htdocs/index.html", "<h1>Hello</h1>\n");
    for name in ["first", "first/conf", "first/htdocs", "first/logs"] {
        std::fs::create_dir_all(site.root.join(name)).expect("directory");
        chown(site.root.join(name), Some(NOBODY), Some(NOBODY)).expect("chown");
    }
    let file = site.root.join("first/conf/httpd.conf");
    let file = file.to_str().expect("a plain path");
    assert_eq!(as_nobody(&site, &["-f", file, "-t"]), (String::new(), "Syntax OK\n".into(), Some(0)));
    assert_eq!(as_nobody(&site, &["-f", file, "-k", "start"]), (String::new(), String::new(), Some(0)));
    assert_eq!(Client::connect(site.address()).get("/").text(), "<h1>Hello</h1>\n");
    // What is new is there when the command ends, each time.
    for number in 0..6 {
        let more: String = (0..=number).map(|n| format!("Redirect 410 /gone{n}\n")).collect();
        site.file("first/conf/httpd.conf", format!("{text}\n{more}"));
        let word = if number % 2 == 0 { "graceful" } else { "restart" };
        assert_eq!(as_nobody(&site, &["-f", file, "-k", word]), (String::new(), String::new(), Some(0)));
        assert_eq!(Client::connect(site.address()).get(&format!("/gone{number}")).status, 410, "{word}");
    }
    assert_eq!(as_nobody(&site, &["-f", file, "-k", "stop"]).2, Some(0));
    until("its end", || (!site.root.join("first/logs/httpd.pid").exists()).then_some(()));

    // Without a place for its files, the check says what a start would.
    site.file("first/conf/httpd.conf", text.replace("ErrorLog ${HERE}/logs/error.log", "ErrorLog /dev/stderr"));
    let (_, errors, _) = as_nobody(&site, &["-f", file, "-t"]);
    assert!(errors.contains("the process manager cannot make its directory in /etc/apache2/logs"), "{errors}");
}

under_percore_and! { prefork:
    /// `-k graceful` says that it has failed, if the running server does not use the new configuration.
    fn a_restart_that_fails_is_a_failure(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        site.configure(mpm, "");
        let _guard = Daemon(&site);
        let run = |words: &[&str]| said(&Start::new(&site, mpm).arguments(words).command().output().expect("run"));
        assert_eq!(run(&["-k", "start"]).2, Some(0));
        let pid = pid_of(&site).expect("it serves");
        // Nothing of the configuration is wrong: somebody else has the port.
        let other = TcpListener::bind((site.ip, 0)).expect("listen");
        site.configure(mpm, &format!("Listen {}", other.local_addr().expect("address")));
        for word in ["graceful", "restart"] {
            let (output, errors, status) = run(&["-k", word]);
            assert_eq!((output.as_str(), status), ("", Some(1)), "{errors}");
            assert!(errors.contains("AH00072: make_sock: could not bind to"), "{errors}");
            assert!(errors.ends_with("the restart has failed\n"), "{errors}");
        }
        assert_eq!(Client::connect(site.address()).get("/").text(), "hello\n");
        drop(other);
        assert_eq!(run(&["-k", "graceful"]), (String::new(), String::new(), Some(0)));
        assert_eq!(run(&["-k", "stop"]).2, Some(0));
        until("its end", || (!pid.exists()).then_some(()));
    }
}

/// The demonstration on a free port, once it serves; and the lines of its standard error.
fn demonstration(site: &Site) -> (std::process::Child, impl Iterator<Item = String>) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["--port", &port]).env("TMPDIR", site.root.join("run")).process_group(0);
    let mut demo = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
    let mut lines = BufReader::new(demo.stderr.take().expect("errors")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("AH00094")), "it does not serve");
    (demo, lines)
}

/// However it ends, it leaves nothing: when its terminal goes, and when it is killed.
#[test]
fn a_demonstration_ends_with_its_terminal_and_leaves_nothing() {
    let site = Site::new();
    for signal in ["-HUP", "-KILL"] {
        let (mut demo, _lines) = demonstration(&site);
        let home = std::fs::read_dir(site.root.join("run")).expect("directory").flatten().next().expect("its files");
        let status = Command::new("kill").args([signal, &demo.id().to_string()]).status().expect("kill");
        assert!(status.success());
        assert_eq!(demo.wait().expect("its end").code(), (signal == "-HUP").then_some(0), "{signal}");
        until("the end of its files", || (!home.path().exists()).then_some(()));
    }
}

/// The banner's commands work as they are printed.
#[test]
fn the_banner_names_commands_that_work() {
    let site = Site::new();
    let (mut demo, _lines) = demonstration(&site);
    let output = BufReader::new(demo.stdout.take().expect("output")).lines().map_while(Result::ok);
    let banner: Vec<String> = output.take_while(|line| !line.starts_with("Ctrl-C")).collect();
    // What cannot be printed shows as an escape.
    assert!(!banner.iter().any(|line| line.contains('\\')), "{banner:?}");
    let commands: Vec<&String> = banner.iter().filter(|line| line.trim_start().starts_with(PROGRAM)).collect();
    assert_eq!(commands.len(), 4, "{banner:?}");
    let explain = commands.iter().find(|line| line.contains("explain /")).expect("a command");
    let end = explain.find("explain /").expect("its end") + "explain /".len();
    let output = Command::new("/bin/sh").args(["-c", &explain[..end]]).output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(Command::new("kill").arg(demo.id().to_string()).status().expect("kill").success());
    assert_eq!(demo.wait().expect("its end").code(), Some(0));
}

/// The variables of Debian's shell file are there without a shell; those that are set win. Under Apache's name nothing is.
#[test]
fn envvars_beside_the_configuration_is_read() {
    let site = Site::new();
    site.configure(Mpm::Event, "PidFile ${APACHE_PID_FILE}\nDefine X ${APACHE_RUN_DIR}\nServerAdmin ${APACHE_ADMIN}");
    let root = site.path();
    site.file(
        "conf/envvars",
        format!("export APACHE_PID_FILE={root}/logs/pid$SUFFIX\nexport APACHE_RUN_DIR={root}/run\nAPACHE_ADMIN=a@b\n"),
    );
    let run = |name: &str, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg0(name).args(words).env("APACHE_ADMIN", "c@d").env_remove("APACHE_PID_FILE");
        said(&command.output().expect("run"))
    };
    let place = ["-d", root, "-f", "conf/httpd.conf"];
    let told =
        format!("{root}/conf/envvars was read for variables that are not set: APACHE_PID_FILE, APACHE_RUN_DIR\n");
    let (_, errors, status) = run("tsubame", &[&place[..], &["-t"]].concat());
    assert_eq!((errors, status), (told + "Syntax OK\n", Some(0)));
    let (config, _, _) = run("tsubame", &[&["explain"][..], &place, &["--config"]].concat());
    assert!(config.contains(&format!("{root}/logs/pid")) && config.contains("c@d"), "{config}");
    let (_, errors, _) = run("apache2", &[&place[..], &["-t"]].concat());
    assert!(errors.contains("Config variable ${APACHE_PID_FILE} is not defined"), "{errors}");
}

/// A relative path that leads to a file here and not below `ServerRoot`: one error, and what to write.
#[test]
fn check_names_the_file_that_was_meant() {
    let site = Site::new();
    site.configure(Mpm::Event, "");
    let mut command = Command::new(PROGRAM);
    command.args(["check", "-f", "conf/httpd.conf"]).arg0("tsubame").current_dir(&site.root);
    let (text, _, status) = said(&command.output().expect("run"));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status, Some(2), "{text}");
    assert!(words.contains("Would not start: 1 reason"), "{text}");
    assert!(words.contains(&format!("write -f {}/conf/httpd.conf", site.path())), "{text}");
    assert!(!words.contains("mkdir"), "{text}");
}
