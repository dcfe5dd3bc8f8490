//! Scripts started by daemons: the same answers, and the fate of scripts when a daemon, a child or the server ends.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::needs;
use crate::harness::server::{Server, Start, children, is_gone};
use crate::harness::site::{Site, load_lines};
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::scripts::admission::{counts, told};

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nCGIDScriptTimeout 2\nScriptSockDaemons 2\n\
    <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

fn site() -> Site {
    let site = Site::with([("a.txt", "0123456789")]);
    let scripts = [
        ("ok", "printf '\\nok'"),
        ("err", "echo to-stderr >&2; printf '\\nok'"),
        ("count", "printf '\\n'; wc -c"),
        ("env", "printf '\\n'; printf '%s ' \"$1\" \"$QUERY_STRING\" \"$LARGE\"; pwd | sed 's|.*/||'"),
        ("exit1", "exit 1"),
        ("slow", "sleep 60"),
        ("wait", "printf '\\n%s\\n' $$; sleep 60"),
        ("limit", "printf '\\n'; ulimit -v"),
    ];
    for (name, text) in scripts {
        site.script(name, &format!("#!/bin/sh\n{text}\n"));
    }
    site.script("badint", "#!/no/such/interpreter\n");
    site
}

fn start<'a>(mpm: Mpm, site: &'a Site, text: &str) -> Server<'a> {
    let modules: String =
        load_lines(mpm).lines().filter(|line| !line.contains(" cgi_module ")).collect::<Vec<_>>().join("\n");
    site.configure_with(&format!("{modules}\n"), &format!("{CONFIGURATION}{text}"));
    Start::new(site, mpm).run()
}

/// The daemons of a server.
fn daemons(server: &Server<'_>) -> BTreeSet<i32> {
    let title = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    server.children().into_iter().filter(|pid| title(pid).contains("cgid daemon")).collect()
}

fn two_daemons(server: &Server<'_>) -> BTreeSet<i32> {
    until("two daemons", || Some(daemons(server)).filter(|daemons| daemons.len() == 2))
}

/// The scripts that its daemons run.
fn scripts(server: &Server<'_>) -> usize {
    daemons(server).into_iter().filter_map(Pid::new).flat_map(children).count()
}

/// The sockets of a site's daemons.
fn sockets(site: &Site) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(site.root.join("run")).expect("directory").flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket())).map(|entry| entry.path()).collect()
}

/// Asks for a script that says who it is, and does not end.
fn waiting(server: &Server<'_>) -> (Client, Pid) {
    asked(server, "wait")
}

fn asked(server: &Server<'_>, name: &str) -> (Client, Pid) {
    let mut client = server.client();
    client.send(format!("GET /cgi/{name} HTTP/1.0\r\n\r\n"));
    let mut head = String::new();
    while !head.contains("\r\n\r\n") || !head.ends_with('\n') || head.ends_with("\r\n\r\n") {
        head.push(char::from(client.bytes(1)[0]));
    }
    let pid = head.lines().last().and_then(|line| line.parse().ok()).and_then(Pid::new);
    (client, pid.expect("a number"))
}

under_every_mpm! {
    /// A script's input and answer do not depend on the process that starts it.
    fn scripts_answer(mpm: Mpm) {
        let site = site();
        let large = "x".repeat(100_000);
        let server = start(mpm, &site, &format!("SetEnv LARGE {large}\nRLimitMEM 1000000000 1000000000\n"));
        assert_eq!(server.get("/cgi/ok").text(), "ok");
        assert_eq!(server.get("/cgi/env?a+b").text(), format!("a a+b {large} cgi-bin\n"));
        assert_eq!(server.get("/cgi/limit").text().trim(), "976562");
        let body = "0123456789".repeat(100_000);
        let request = format!("POST /cgi/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(server.client().request(request).text().trim(), "1000000");
        let path = site.path();
        let cases = [
            ("none", 404, format!("AH01264: stderr from {path}/cgi-bin/none: script not found or unable to stat")),
            ("badint", 500, format!("(2)No such file or directory: exec of '{path}/cgi-bin/badint' failed")),
            ("exit1", 500, "End of script output before headers: exit1".to_string()),
            ("slow", 504, "[cgid:warn]".to_string()),
            ("err", 200, format!("AH01215: stderr from {path}/cgi-bin/err: to-stderr")),
        ];
        server.allow("End of script output before headers: badint");
        server.allow("timed out before returning headers: slow");
        for (name, status, line) in cases {
            server.announce(line);
            assert_eq!(server.get(&format!("/cgi/{name}")).status, status, "{name}");
        }
        until("the end of the last script", || (scripts(&server) == 0).then_some(()));
        two_daemons(&server);
    }

    /// A daemon that dies is replaced. The only requests that fail are those that it had already been given. A connection to
    /// it that a child has kept is noticed to be dead.
    fn a_daemon_dies(mpm: Mpm) {
        let site = site();
        // After early deaths one daemon is restarted at once, the others after 1, 2 … seconds.
        let server = start(mpm, &site, "CGIDScriptTimeout 20\n");
        for _ in 0..2 {
            let before = two_daemons(&server);
            for daemon in before.iter().filter_map(|pid| Pid::new(*pid)) {
                server.announce("cgid daemon process died (signal Killed (9)), restarting the cgid daemon");
                daemon.kill(Signal::KILL).expect("kill");
                until("the end of a daemon", || is_gone(daemon).then_some(()));
            }
            // A request that arrives now waits for the next daemon.
            assert_eq!(server.get("/cgi/ok").text(), "ok");
            // One that was killed may need a moment to be gone.
            until("two other daemons", || two_daemons(&server).is_disjoint(&before).then_some(()));
        }
        assert_eq!(server.get("/a.txt").text(), "0123456789");
    }

    /// A child's daemon survives it, and ends the scripts whose clients were lost.
    fn a_child_dies(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "");
        let before = two_daemons(&server);
        server.allow("exit signal Killed (9)");
        server.allow("children die as soon as they start");
        server.allow("server seems busy");
        let (mut client, script) = waiting(&server);
        for child in server.children().difference(&before).filter_map(|pid| Pid::new(*pid)) {
            child.kill(Signal::KILL).expect("kill");
        }
        client.rest();
        until("the end of the script", || is_gone(script).then_some(()));
        until("a new child", || (server.get("/cgi/ok").text() == "ok").then_some(()));
        assert_eq!(daemons(&server), before);
    }

    /// A script that was heard before its daemon had named its process keeps its place as any other does: until it ends, even if
    /// the child that asked for it dies.
    fn a_script_that_speaks_first_keeps_its_place(mpm: Mpm) {
        let site = site();
        let text = "#!/bin/sh\ntrap '' TERM\nprintf '\\n%s\\n' $$\nsleep 0.3\necho more\nwhile :; do sleep 100; done\n";
        site.script("stubborn", text);
        let server = start(mpm, &site, "CGIDScriptTimeout 60\n<Files stubborn>\nAdmissionLimit 1\n</Files>\n");
        let daemons = two_daemons(&server);
        server.allow("exit signal Killed (9)");
        server.allow("children die as soon as they start");
        let (mut client, first) = asked(&server, "stubborn");
        assert_eq!(client.bytes(5), b"more\n");
        for child in server.children().difference(&daemons).filter_map(|pid| Pid::new(*pid)) {
            child.kill(Signal::KILL).expect("kill");
        }
        client.rest();
        let (second, _) = asked(&server, "stubborn");
        assert!(is_gone(first));
        drop(second);
    }

    /// If the costs of a script can no longer be found out, the request does not wait for them.
    fn a_daemon_dies_before_its_script(mpm: Mpm) {
        let site = site();
        site.script("lingers", "#!/bin/sh\nprintf '\\n%s\\n' $$; exec >/dev/null 2>&1; sleep 60\n");
        let server = start(mpm, &site, "CustomLog logs/access \"%U %{exit}G\"\nScriptSockDaemons 1\n");
        server.announce("cgid daemon process died (signal Killed (9))");
        let (mut client, script) = asked(&server, "lingers");
        let daemon = daemons(&server).pop_first().and_then(Pid::new).expect("a daemon");
        daemon.kill(Signal::KILL).expect("kill");
        client.rest();
        assert_eq!((server.get("/a.txt").status, server.get("/cgi/ok").status), (200, 200));
        script.kill_group(Signal::KILL).expect("kill");
    }

    /// The server's end is the end of all scripts, also of those that ignore signals.
    fn a_stop_ends_scripts(mpm: Mpm) {
        let site = site();
        site.script("wait", "#!/bin/sh\ntrap '' TERM\nprintf '\\n%s\\n' $$; while :; do sleep 60; done\n");
        let mut server = start(mpm, &site, "CGIDScriptTimeout 60\n");
        let (_client, script) = waiting(&server);
        server.signal(Signal::TERM);
        assert!(server.ends().success());
        until("the end of the script", || is_gone(script).then_some(()));
    }

    /// A client that goes takes its script with it.
    fn a_client_goes(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "CGIDScriptTimeout 60\n");
        site.script("yes", "#!/bin/sh\nprintf '\\n%s\\n' $$; exec yes\n");
        let mut client = server.client();
        client.send("GET /cgi/yes HTTP/1.0\r\n\r\n");
        client.bytes(100_000);
        until("the script", || (scripts(&server) == 1).then_some(()));
        drop(client);
        until("the end of the script", || (scripts(&server) == 0).then_some(()));
    }

    /// A script that is starting keeps its place at the gate until it ends, even if its client does not wait for it.
    fn a_start_keeps_its_place(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "ScriptSockDaemons 1\nCGIDScriptTimeout 60\nCustomLog logs/access \"%U %X\"\n\
            <Location /status>\nSetHandler server-status\n</Location>\n<Files ok>\nAdmissionLimit 1\n</Files>\n");
        let daemon = until("a daemon", || daemons(&server).pop_first().and_then(Pid::new));
        daemon.kill(Signal::STOP).expect("stop");
        let ask = || {
            let mut client = server.client();
            client.send("GET /cgi/ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            client
        };
        let first = ask();
        until("a start", || (told(&server, "ScriptsRunning") == 1).then_some(()));
        first.reset();
        let noticed = || std::fs::read_to_string(site.root.join("logs/access")).unwrap_or_default().contains("/cgi/ok X");
        until("the end of the request", || noticed().then_some(()));
        let mut second = ask();
        until("one that waits for its place", || (told(&server, "ScriptsWaiting") == 1).then_some(()));
        assert_eq!(told(&server, "ScriptsRunning"), 1);
        daemon.kill(Signal::CONT).expect("continue");
        assert_eq!(second.response().text(), "ok");
        until("the end of both", || (counts(&server) == (2, 0)).then_some(()));
        assert_eq!(told(&server, "ScriptFailures"), 1, "one was never started");
    }

    /// Each configuration has its own daemons; old ones stay until the last request of their configuration is answered.
    fn a_restart_leaves_scripts_alone(mpm: Mpm) {
        let site = site();
        let mut server = start(mpm, &site, "CGIDScriptTimeout 60\n");
        let before = two_daemons(&server);
        assert_eq!(sockets(&site).len(), 1);
        let (client, script) = waiting(&server);
        server.restart(Signal::USR1);
        until("the daemons of both", || (daemons(&server).len() == 4).then_some(()));
        assert_eq!((sockets(&site).len(), server.get("/cgi/ok").text().as_str()), (2, "ok"));
        assert!(!is_gone(script));
        script.kill_group(Signal::KILL).expect("kill");
        drop(client);
        until("the end of the old ones", || daemons(&server).is_disjoint(&before).then_some(()));
        until("the end of their socket", || (sockets(&site).len() == 1).then_some(()));
        server.signal(Signal::TERM);
        assert!(server.ends().success());
        assert!(sockets(&site).is_empty());
    }
}

/// If both modules are loaded, the first one runs the scripts, as in Apache.
#[test]
fn the_module_that_was_loaded_first_runs_scripts() {
    for (first, second, number) in [("cgi", "cgid", "AH02811"), ("cgid", "cgi", "AH01264")] {
        let site = site();
        let others = load_lines(Mpm::Prefork);
        let others = others.lines().filter(|line| !line.contains(" cgi"));
        let both = [first, second].map(|name| format!("LoadModule {name}_module modules/mod_{name}.so"));
        let modules = both.iter().map(String::as_str).chain(others).fold(String::new(), |all, line| all + line + "\n");
        site.configure_with(&modules, CONFIGURATION);
        let server = Start::new(&site, Mpm::Prefork).run();
        server.announce(number);
        assert_eq!((server.get("/cgi/none").status, server.get("/cgi/ok").status), (404, 200));
        if first == "cgid" {
            two_daemons(&server);
        } else {
            assert_eq!(daemons(&server), BTreeSet::new());
        }
    }
}

/// Only the server's own children may use a daemon.
#[test]
fn strangers_are_not_answered() {
    if !needs::ROOT.is_there("strangers_are_not_answered") {
        return;
    }
    let site = site();
    let server = start(Mpm::Percore, &site, "");
    server.announce("a process of user 0 asked for a script, and was refused");
    let path = sockets(&site).remove(0);
    let mut stranger = std::os::unix::net::UnixStream::connect(path).expect("root may connect");
    assert_eq!(std::io::Read::read(&mut stranger, &mut [0; 8]).ok(), Some(0));
    assert_eq!(server.get("/cgi/ok").text(), "ok");
}
