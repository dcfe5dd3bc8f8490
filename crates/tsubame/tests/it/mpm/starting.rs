//! Reports to the user who starts a server: whether it serves, or why it does not.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::needs;
use crate::harness::server::Start;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::mpm::control::{Daemon, pid_of, said};

fn site() -> Site {
    Site::with([("index.html", "hello\n")])
}

fn run(site: &Site, mpm: Mpm, words: &[&str]) -> (String, String, Option<i32>) {
    said(&Start::new(site, mpm).arguments(words).command().arg0("httpd").output().expect("run"))
}

/// Both ways of starting a daemon.
const DAEMON: [&[&str]; 2] = [&["-k", "start"], &[]];

under_every_mpm! {
    /// When the command ends the daemon serves.
    fn a_daemon_serves_when_the_command_ends(mpm: Mpm) {
        for words in DAEMON {
            let site = site();
            site.configure(mpm, "");
            let _guard = Daemon(&site);
            assert_eq!(run(&site, mpm, words), (String::new(), String::new(), Some(0)));
            assert_eq!(Client::connect(site.address()).get("/").text(), "hello\n");
            let pid = pid_of(&site).expect("the pid file is there");
            assert_eq!(run(&site, mpm, &["-k", "stop"]).2, Some(0));
            until("its end", || (!pid.exists()).then_some(()));
        }
    }

    /// A daemon that cannot serve is a failure of the command, which says why: what fails before there is an error log, and
    /// what fails in a child.
    fn a_daemon_that_cannot_serve_is_a_failure(mpm: Mpm) {
        for words in DAEMON {
            let site = site();
            let began = Instant::now();
            site.configure(mpm, "");
            let other = TcpListener::bind(site.address()).expect("listen");
            let (output, errors, status) = run(&site, mpm, words);
            assert_eq!((output.as_str(), status), ("", Some(1)), "{errors}");
            assert!(errors.starts_with("(98)Address already in use: AH00072: make_sock: could not bind to"), "{errors}");
            drop(other);

            site.configure(mpm, "PidFile none/pid");
            let (_, errors, status) = run(&site, mpm, words);
            assert_eq!(status, Some(1), "{errors}");
            assert!(errors.contains("AH00099: could not create "), "{errors}");

            // Only with root do the children have another user.
            if !needs::ROOT.is_there("a_daemon_that_cannot_serve_is_a_failure") {
                continue;
            }
            let closed = site.root.join("closed");
            std::fs::create_dir(&closed).expect("directory");
            std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("mode");
            site.configure(mpm, "CoreDumpDirectory closed");
            let (_, errors, status) = run(&site, mpm, words);
            assert_eq!(status, Some(1), "{errors}");
            assert!(errors.contains("Permission denied: ") && errors.contains("a child cannot start"), "{errors}");
            assert!(site.read("logs/error_log").contains("a child cannot start"));
            assert!(began.elapsed().as_secs() < 30, "it does not wait for what has failed");
        }
    }
}

/// Debian's `DefaultRuntimeDir` is in `/run`, which is empty after a boot. One directory is made, and not those above it.
#[test]
fn the_runtime_directory_is_made() {
    let site = site();
    site.configure(Mpm::Percore, "DefaultRuntimeDir later");
    let _guard = Daemon(&site);
    assert_eq!(run(&site, Mpm::Percore, &["-t"]).1, "Syntax OK\n");
    assert!(!site.root.join("later").exists(), "nothing is made by looking");
    assert_eq!(run(&site, Mpm::Percore, &["-k", "start"]), (String::new(), String::new(), Some(0)));
    let made = site.root.join("later").metadata().expect("the directory");
    assert_eq!(made.mode() & 0o777, 0o755);
    let pid = pid_of(&site).expect("it serves");
    assert_eq!(run(&site, Mpm::Percore, &["-k", "stop"]).2, Some(0));
    until("its end", || (!pid.exists()).then_some(()));
    site.configure(Mpm::Percore, "DefaultRuntimeDir none/later");
    let (_, errors, status) = run(&site, Mpm::Percore, &["-k", "start"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("DefaultRuntimeDir must be a valid directory"), "{errors}");
}

/// A script's socket below a directory that is missing after a boot (Debian: `ScriptSock ${APACHE_RUN_DIR}/socks/cgisock`):
/// the directory is made for the user of the children, as `apache2ctl` makes it.
#[test]
fn the_directory_of_the_script_socket_is_made() {
    let site = site();
    site.script("hello", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'\n");
    let modules = crate::harness::site::load_lines(Mpm::Worker).replace("LoadModule cgi_module modules/cgi.so\n", "");
    let text = "ScriptSock ${ROOT}/run/deep/socks/cgisock\nScriptAlias /cgi/ ${ROOT}/cgi-bin/";
    site.configure_with(&modules, text);
    let _guard = Daemon(&site);
    assert_eq!(run(&site, Mpm::Worker, &["-k", "start"]), (String::new(), String::new(), Some(0)));
    assert_eq!(Client::connect(site.address()).get("/cgi/hello").text(), "ran\n");
    let made = site.root.join("run/deep/socks").metadata().expect("the directory");
    assert_eq!(made.mode() & 0o777, 0o755);
    if needs::ROOT.is_there("the_directory_of_the_script_socket_is_made") {
        let above = site.root.join("run/deep").metadata().expect("the directory");
        let user = sys::cred::user("www-data").expect("users").expect("www-data");
        assert_eq!((made.uid(), above.uid()), (user.uid, 0));
    }
    let pid = pid_of(&site).expect("it serves");
    assert_eq!(run(&site, Mpm::Worker, &["-k", "stop"]).2, Some(0));
    until("its end", || (!pid.exists()).then_some(()));

    // If it cannot be made, the command says so.
    site.file("run/file", "");
    site.configure_with(&modules, "ScriptSock ${ROOT}/run/file/cgisock");
    let (_, errors, status) = run(&site, Mpm::Worker, &["-k", "start"]);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("AH01242: Couldn't bind unix domain socket"), "{errors}");
}

/// A process that was to keep the log files of a parent which has ended meanwhile ends too: it does not take its own name for
/// a command line without arguments, and begin the demonstration.
#[test]
fn a_keeper_without_a_parent_ends() {
    let site = site();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    // No parent has this number.
    command.arg0("tsubame: logs").env("TSUBAME_LOG_KEEPER", "4194304 8 11").env("TMPDIR", site.root.join("run"));
    let mut keeper = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
    until("its end, or the files of the demonstration", || {
        let begun = std::fs::read_dir(site.root.join("run")).expect("a directory").count() > 0;
        (begun || keeper.try_wait().expect("its state").is_some()).then_some(())
    });
    let _ = keeper.kill();
    assert_eq!(keeper.wait().expect("its end").code(), Some(0));
}

/// A demo that cannot start names the obstacle and an alternative, and leaves nothing.
#[test]
fn a_demonstration_that_cannot_start() {
    let site = site();
    let other = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = other.local_addr().expect("address").port().to_string();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        command.arg0("tsubame").args(arguments).current_dir(&site.root).env("TMPDIR", site.root.join("run"));
        let (output, errors, status) = said(&command.output().expect("run"));
        assert_eq!((output.as_str(), status), ("", Some(1)), "{errors}");
        assert_eq!(std::fs::read_dir(site.root.join("run")).expect("directory").count(), 0, "{arguments:?}: {errors}");
        errors
    };
    let own = format!(" (pid {})", std::process::id());
    // A process that another test is about to start has the socket, too, until its program is executed.
    until("this process holds the port", || {
        let errors = start(&["--port", &port]);
        assert!(errors.starts_with("(98)Address already in use: AH00072: make_sock: could not bind to"), "{errors}");
        let [holder, help] = errors.lines().skip(3).collect::<Vec<_>>()[..] else { panic!("{errors}") };
        assert!(holder.starts_with(&format!("      = port {port} is held by ")), "{errors}");
        assert!(help.starts_with("      = help: try --port "), "{errors}");
        holder.ends_with(&own).then_some(())
    });
    assert!(start(&["./none"]).contains("(2)No such file or directory: cannot serve ./none"));
    assert!(start(&["htdocs/index.html"]).contains("(20)Not a directory: cannot serve htdocs/index.html"));
}

/// Ctrl-C reaches every process of a terminal. The demo ends, and reports nothing else.
#[test]
fn ctrl_c_ends_a_demonstration() {
    let site = site();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.arg0("tsubame").args(["--port", &port]).env("TMPDIR", site.root.join("run")).process_group(0);
    let mut demo = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
    let mut lines = BufReader::new(demo.stderr.take().expect("errors")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("AH00094")), "it does not serve");
    let group = format!("-{}", demo.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().expect("kill").success());
    let rest: Vec<String> = lines.collect();
    assert!(rest.len() == 1 && rest[0].ends_with("caught SIGTERM, shutting down"), "{rest:?}");
    assert_eq!(demo.wait().expect("its end").code(), Some(0));
}
