//! `tsubame ctl`: the control socket of the running server.

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::{Site, load_lines};
use crate::harness::wait::until;
use crate::mpm::control::said;

pub fn command(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(["ctl", "-d", site.path(), "-f", "conf/httpd.conf"]).args(arguments).current_dir(&site.root);
    command
}

/// The server's answer to a command.
pub fn ctl(site: &Site, arguments: &[&str]) -> (String, String, Option<i32>) {
    said(&command(site, arguments).output().expect("run"))
}

/// The answer to a command, as programs have it.
pub fn json(site: &Site, arguments: &[&str]) -> Value {
    let (output, errors, status) = ctl(site, &[arguments, &["--json"]].concat());
    assert_eq!((errors.as_str(), status), ("", Some(0)), "{arguments:?}");
    serde_json::from_str(&output).expect("JSON")
}

fn site() -> Site {
    Site::with([("index.html", "hello\n")])
}

const GRANTED: &str = "<Directory ${DOCS}>\nRequire all granted\n</Directory>";

under_percore_and! { worker:
    /// What runs, how it was configured, and what a restart would change; then the restart itself.
    fn the_server_answers_and_obeys(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, GRANTED);
        server.get("/");
        let status = json(&site, &["status"]);
        assert_eq!((&status["pid"], &status["generation"]), (&server.pid().number().into(), &0.into()));
        assert_eq!(status["mpm"], mpm.name());
        let pids: Vec<i64> = status["children"].as_array().expect("list").iter().filter_map(|c| c["pid"].as_i64()).collect();
        assert!(!pids.is_empty() && pids.iter().all(|pid| server.children().contains(&i32::try_from(*pid).expect("pid"))));
        until("the request is counted", || (json(&site, &["status"])["requests"] == 1).then_some(()));
        assert_eq!(json(&site, &["diff"])["same"], true);
        assert_eq!(json(&site, &["config"])["server_root"], site.path());
        assert_eq!(json(&site, &["explain", "/index.html"])["answer"]["status"], 200);

        // The running configuration differs from the one on disk.
        site.configure(mpm, &format!("{GRANTED}\nAlias /x /tmp"));
        let changes = json(&site, &["diff"]);
        let list = changes["changes"].as_array().expect("changes");
        assert_eq!((list.len(), &list[0]["only"]), (1, &"disk".into()), "{changes}");
        assert!(list[0]["line"].as_str().is_some_and(|line| line == "Alias /x /tmp"));
        let (output, _, code) = ctl(&site, &["graceful"]);
        assert!(output.contains("a graceful restart begins") && code == Some(0), "{output}");
        server.ready();
        until("the next generation", || (json(&site, &["status"])["generation"] == 1).then_some(()));
        assert_eq!(json(&site, &["diff"])["same"], true);

        // Nothing is done with what cannot be used, and the server can still be asked.
        site.configure(mpm, "Bogus on");
        let (output, errors, code) = ctl(&site, &["graceful"]);
        assert_eq!((output.as_str(), code), ("", Some(1)));
        assert!(errors.contains("Invalid command 'Bogus'"), "{errors}");
        assert_eq!(json(&site, &["status"])["generation"], 1);
        let (output, _, code) = ctl(&site, &["graceful-stop"]);
        assert!(output.starts_with("the server stops") && code == Some(0), "{output}");
        assert_eq!(server.ends().code(), Some(0));
        assert!(!site.root.join("logs/pid.ctl").exists());
    }
}

/// A change is shown with its enclosing sections, each once, and with the lines that included its file.
#[test]
fn changes_are_reported_with_their_sections() {
    let site = site();
    let text = |grant: &str, method: &str, timeout: &str| {
        let hosts = "<VirtualHost *:81>\nServerName one.example\n<Directory /srv>\nRequire all denied\n\
                     <Limit POST>\nRequire METHOD\n</Limit>\nRequire GRANT\n</Directory>\n</VirtualHost>\n\
                     <VirtualHost *:TIMEOUT>\n<Directory /srv>\nRequire GRANT\n</Directory>\n</VirtualHost>\n";
        site.file(
            "conf/hosts.conf",
            hosts.replace("GRANT", grant).replace("METHOD", method).replace("TIMEOUT", timeout),
        );
        site.configure(Mpm::Percore, &format!("{GRANTED}\nInclude conf/hosts.conf"));
    };
    text("all granted", "user a", "82");
    let _server = Start::new(&site, Mpm::Percore).run();
    text("all denied", "user b", "83");
    let (output, errors, code) = ctl(&site, &["diff"]);
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    let output = output.replace(&format!("{}/conf/hosts.conf", site.path()), "hosts");
    let want = "\
- in effect
+ on disk: in effect after a restart
  <VirtualHost *:81>
    <Directory /srv>
      <Limit POST>
-       Require user a  # hosts:6
+       Require user b  # hosts:6
-     Require all granted  # hosts:8
+     Require all denied  # hosts:8
- <VirtualHost *:82>  # hosts:11
+ <VirtualHost *:83>  # hosts:11
    <Directory /srv>
-     Require all granted  # hosts:13
+     Require all denied  # hosts:13
";
    assert_eq!(output, want);
    let changes = json(&site, &["diff"])["changes"].take();
    let about = |index: usize| (changes[index]["only"].clone(), changes[index]["section"].clone());
    let inner = ["<VirtualHost *:81>", "<Directory /srv>", "<Limit POST>"];
    assert_eq!(about(0), ("running".into(), inner.as_slice().into()));
    assert_eq!(about(2), ("running".into(), inner[..2].into()));
    assert_eq!(about(4), ("running".into(), Value::Array(Vec::new())));
    // The sections come from the side that has the line.
    assert_eq!(about(6), ("running".into(), ["<VirtualHost *:82>", "<Directory /srv>"].as_slice().into()));
    assert_eq!(about(7), ("disk".into(), ["<VirtualHost *:83>", "<Directory /srv>"].as_slice().into()));
    let origin = &changes[0]["origin"];
    let (file, outer) = (origin["file"].as_str().expect("file"), origin["included_from"][0].as_str().expect("outer"));
    assert!(file.ends_with("conf/hosts.conf") && origin["line"] == 6 && outer.contains("httpd.conf:"), "{origin}");

    // The text before the first line has no place.
    site.configure(Mpm::Percore, &format!("{GRANTED}\nInclude conf/hosts.conf\nDefine NEW"));
    let first = json(&site, &["diff"])["changes"][0].take();
    let found = (&first["line"], &first["origin"], &first["section"]);
    assert_eq!(found, (&"Define NEW".into(), &Value::Null, &Value::Array(Vec::new())));
}

/// Options may stand before or after the command.
#[test]
fn options_have_no_place_of_their_own() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, GRANTED);
    let socket = site.root.join("logs/pid.ctl");
    let socket = socket.to_str().expect("path");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        said(&command.arg("ctl").args(arguments).current_dir(&site.root).output().expect("run"))
    };
    let here = ["-d", site.path(), "-f", "conf/httpd.conf"];
    let beside = format!("--socket={socket}");
    for arguments in [
        &[&here[..], &["--json", "status"]].concat()[..],
        &[&["--json"], &here[..], &["status"]].concat(),
        &[&["status", "--json"], &here[..]].concat(),
        &[&["status"], &here[..], &["-DX", "--json"]].concat(),
        &["status", "--socket", socket, "--json"],
        &["--json", "status", &beside],
    ] {
        let (output, errors, code) = run(arguments);
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{arguments:?}");
        let status: Value = serde_json::from_str(&output).expect("JSON");
        assert_eq!(status["pid"], server.pid().number(), "{arguments:?}");
    }
    // The words of explain are its own.
    let words = ["explain", "--method=HEAD", "--header", "Accept: */*", "/index.html", "--json"];
    for arguments in [[&words[..], &here[..]].concat(), [&here[..], &words[..]].concat()] {
        let (output, errors, _) = run(&arguments);
        assert_eq!(errors, "", "{arguments:?}");
        let explained: Value = serde_json::from_str(&output).expect("JSON");
        assert_eq!(explained["request"]["method"], "HEAD", "{explained}");
    }
    let (output, _, code) = run(&[&["explain", "-h"], &here[..]].concat());
    assert!(output.starts_with("tsubame explain:") && code == Some(0), "{output}");
    for (arguments, want) in [
        (&["status", "--all"][..], "status: unexpected word '--all'"),
        (&["status", "-q"], "unknown option '-q'"),
        (&["--all", "status"], "unknown option '--all'"),
        (&["--json"], "a command is missing"),
    ] {
        let (output, errors, code) = run(&[&here[..], arguments].concat());
        assert!(errors.contains(want) && output.is_empty() && code == Some(1), "{arguments:?}: {errors}");
    }
}

/// Scripts are shown with their duration. One that could not be started has failed; one whose client left has not.
#[test]
fn scripts_are_reported_with_times_and_failures() {
    for other in [" cgi_module ", " cgid_module "] {
        let site = site();
        site.script("slow", "#!/bin/sh\nwhile test -e ../hold; do sleep 0.01; done; sleep 0.25; printf '\\nok'\n");
        site.script("endless", "#!/bin/sh\necho; while :; do echo more; sleep 0.01; done\n");
        site.script("broken", "#!/no/such/interpreter\n");
        site.file("hold", "");
        let modules = load_lines(Mpm::Percore);
        let modules: String = modules.lines().filter(|line| !line.contains(other)).map(|l| format!("{l}\n")).collect();
        let places =
            "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";
        site.configure_with(&modules, places);
        let server = Start::new(&site, Mpm::Percore).run();
        let about = |name: &str, what: &str| {
            let scripts = json(&site, &["scripts"])["scripts"].take();
            let list = scripts.as_array().expect("list");
            let has_name = |one: &&Value| one["file"].as_str().is_some_and(|file| file.ends_with(name));
            list.iter().find(has_name).map_or(Value::Null, |one| one[what].clone())
        };
        let times = |name: &str| ["median_seconds", "p99_seconds"].map(|what| about(name, what));
        let row = |name: &str| {
            let text = ctl(&site, &["scripts"]).0;
            let line = text.lines().find(|line| line.ends_with(name)).expect("a line");
            line.split_whitespace().map(str::to_string).collect::<Vec<_>>()
        };
        // Nothing is known of its times before it has ended.
        let began = Instant::now();
        let mut client = server.client();
        client.send("GET /cgi/slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        until("it runs", || (about("slow", "running") == 1).then_some(()));
        assert_eq!(times("slow"), [Value::Null, Value::Null]);
        assert_eq!(row("slow")[7..9], ["-", "-"]);
        std::fs::remove_file(site.root.join("hold")).expect("remove");
        assert_eq!(client.response().status, 200);
        until("its end", || (about("slow", "runs") == 1).then_some(()));
        // One run is known exactly.
        let most = began.elapsed().as_secs_f64();
        for time in times("slow") {
            assert!(time.as_f64().is_some_and(|time| (0.25..=most).contains(&time)), "{time}, at most {most}");
        }
        assert!(row("slow")[7].ends_with("ms"), "{:?}", row("slow"));

        // A script that was ended because its client left has not failed.
        let mut client = server.client();
        client.send("GET /cgi/endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until("it runs", || (about("endless", "running") == 1).then_some(()));
        drop(client);
        until("its end", || (about("endless", "runs") == 1).then_some(()));
        assert_eq!(about("endless", "failures"), 0);

        server.announce("exec of");
        server.announce("End of script output before headers: broken");
        assert_eq!(server.get("/cgi/broken").status, 500);
        assert_eq!((about("broken", "runs"), about("broken", "failures")), (1.into(), 1.into()));
        assert_eq!((times("broken"), about("slow", "failures")), ([Value::Null, Value::Null], 0.into()));
    }
}

/// The socket is private to the server: other users cannot connect, and no input disturbs it.
#[test]
fn only_the_owner_may_ask() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, GRANTED);
    let path = site.root.join("logs/pid.ctl");
    let meta = path.metadata().expect("socket");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    if needs::ROOT.is_there("only_the_owner_may_ask") {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("mode");
        let program = site.root.join("tsubame");
        let copied = Command::new("cp").args([env!("CARGO_BIN_EXE_tsubame").as_ref(), program.as_os_str()]).status();
        assert!(copied.expect("cp").success());
        let mut stranger = Command::new(&program);
        stranger.args(["ctl", "--socket"]).arg(&path).arg("status").uid(65534).gid(65534).current_dir("/");
        let (output, errors, code) = said(&stranger.output().expect("run"));
        assert_eq!((output.as_str(), code), ("", Some(1)));
        // The server refused it; the system, which would report an error number, let it through.
        assert!(errors.ends_with("ctl: only root and the user who started the server may ask it\n"), "{errors}");
    }
    // No word, half a word, too much, no end.
    for bytes in [&b""[..], b"status", &[b'x'; 100_000], b"\0", b"nonsense\0\0", b"\xff\xfe\0\0"] {
        let mut stream = UnixStream::connect(&path).expect("connect");
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"ok\n"), "{bytes:?}");
    }
    assert_eq!(json(&site, &["status"])["pid"], server.pid().number());
    let (_, errors, code) = ctl(&site, &["frobnicate"]);
    assert!(errors.contains("unknown command 'frobnicate'") && code == Some(1), "{errors}");
    assert_eq!(server.get("/").status, 200);
}

/// A level that is changed while the server runs holds at once in all processes, until the next restart.
#[test]
fn log_levels_change_at_run_time() {
    let site = site();
    let mut server = Server::start(Mpm::Prefork, &site, GRANTED);
    server.get("/");
    assert!(!server.log().contains("AH01626"));
    let (output, errors, code) = ctl(&site, &["log-level", "authz_core", "debug"]);
    assert_eq!((output.as_str(), errors.as_str(), code), ("authz_core debug\n", "", Some(0)));
    server.get("/");
    server.logged("AH01626: authorization result of Require all granted: granted");
    server.allow("AH01626");
    let before = server.log().matches("AH01626").count();
    assert_eq!(json(&site, &["log-level"])["log_levels"]["authz_core"], "debug");
    server.restart(Signal::USR1);
    assert_eq!(ctl(&site, &["log-level"]).0, "all levels are those of the configuration\n");
    server.get("/");
    assert_eq!(server.log().matches("AH01626").count(), before);
    for arguments in [&["log-level", "nomodule", "debug"][..], &["log-level", "core", "loud"], &["log-level", "core"]] {
        assert_eq!(ctl(&site, arguments).2, Some(1), "{arguments:?}");
    }
}

/// Modules have the names of `LogLevel`, and a level for all counts for each that had one.
#[test]
fn log_levels_have_the_names_of_the_directive() {
    let site = site();
    let names = ["alias", "alias_module", "mod_alias.c", "core.c", "ALIAS", "Mod_Alias.c", "mod_nothing.c"];
    let levels = "LogLevel warn authz_core:debug";
    let server = Server::start(Mpm::Percore, &site, &format!("{GRANTED}\n{levels}"));
    server.allow("AH01626");
    for name in names {
        let command = format!("LogLevel {name}:info");
        let checked = Start::new(&site, Mpm::Percore).arguments(&["-t", "-c", &command]).command().output();
        let accepted = checked.expect("run").status.success();
        assert_eq!(ctl(&site, &["log-level", name, "info"]).2, Some(i32::from(!accepted)), "{name}");
    }
    assert_eq!(ctl(&site, &["log-level"]).0, "alias info\ncore info\n");
    assert_eq!(ctl(&site, &["log-level", "*", "error"]).0, "* error\n");
    server.get("/");
    assert_eq!(ctl(&site, &["log-level", "core_module", "debug"]).0, "core debug\n* error\n");
    assert_eq!(ctl(&site, &["log-level", "reset"]).0, "all levels are those of the configuration\n");
    assert!(!server.log().contains("AH01626"));
    server.get("/");
    server.logged("AH01626");
}

/// The socket's place is configurable, and a server also runs without one.
#[test]
fn the_socket_is_configured() {
    let site = site();
    let mut server = Server::start(Mpm::Percore, &site, "ControlSocket run/asked");
    assert_eq!(json(&site, &["status"])["pid"], server.pid().number());
    assert!(site.root.join("run/asked").exists() && !site.root.join("logs/pid.ctl").exists());
    site.configure(Mpm::Percore, "ControlSocket none");
    server.restart(Signal::USR1);
    until("the socket is gone", || (!site.root.join("run/asked").exists()).then_some(()));
    let (_, errors, code) = ctl(&site, &["status"]);
    assert!(errors.contains("has no control socket") && code == Some(1), "{errors}");
    site.configure(Mpm::Percore, "");
    let (_, errors, code) = ctl(&site, &["status"]);
    assert!(errors.contains("no server runs there") && code == Some(1), "{errors}");
    // The parent has one descriptor less than it began with.
    server.restart(Signal::USR1);
}
