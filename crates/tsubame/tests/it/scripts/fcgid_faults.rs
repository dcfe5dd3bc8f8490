//! Applications and clients that misbehave: the fate of the request, of the process, and of waiting requests.

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::fastcgi_programs::{APPLICATION, PUPPET};
use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::wait::until;
use crate::scripts::fcgid::{CONFIGURATION, site, who};
use crate::scripts::fcgid_pools::{METRICS, applications, asks, is_gone, waiting};

/// The process manager of a server.
fn manager(server: &Server<'_>) -> i32 {
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(": backend daemon")
    };
    until("the process manager", || server.children().into_iter().find(is_it))
}

fn kill(pid: i32) {
    Pid::new(pid).expect("a process").kill(Signal::KILL).expect("kill");
}

/// The puppet's command, the client's answer (a status and a body; `cut` if the end is missing), and the log lines.
const FAULTS: &[(&str, &str, &str)] = &[
    ("exit", "500", "ended before it answered"),
    ("out(qq(X-A: 1\\n)); exit", "500", "ended in the middle of its response"),
    ("out(qq(\\nhalf)); exit", "200 half, cut", "ended in the middle of its response"),
    ("close $c", "500", "ended before it answered"),
    ("out(qq(\\nhalf)); close $c", "200 half, cut", "ended in the middle of its response"),
    ("syswrite $c, qq(rubbish rubbish rubbish)", "500", "it speaks version 114 of FastCGI, or something else"),
    (
        "out(qq(\\nhalf)); syswrite $c, qq(rubbish!)",
        "200 half, cut",
        "it speaks version 114 of FastCGI, or something else",
    ),
    ("out(qq(no header\\n\\n)); end()", "500", "Bad header: no header"),
    ("end()", "500", "End of script output before headers"),
    ("record(3, qq(\\0\\0\\0\\0\\2\\0\\0\\0))", "503", "it is overloaded (OVERLOADED)"),
    ("record(3, qq(\\0\\0\\0\\0\\1\\0\\0\\0))", "503", "CANT_MPX_CONN"),
    ("record(3, qq(\\0))", "500", "the end of its response is too short"),
    ("out(qq(\\nall)); end(); exit", "200 all", ""),
    ("out(qq(\\nall)); syswrite $c, pack(q(CCnnCCNCxxx), 1, 3, 1, 8, 0, 0, 0, 0) . q(more)", "200 all", ""),
    ("err(q(complaint) x 1000 . qq(\\n)) for 1 .. 200; out(qq(\\nall)); end()", "200 all", "stderr: complaint"),
    ("out(qq(\\nall)); end(7)", "200 all", ""),
    ("select undef, undef, undef, 20", "504", "read data timeout in 1 seconds"),
    ("out(qq(\\nhalf)); select undef, undef, undef, 20", "200 half, cut", "read data timeout in 1 seconds"),
];

under_percore_and! {
    prefork:

    /// Each fault has its answer and its line in the log, and the next request is served.
    fn faults_of_applications(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("puppet.fcgi", PUPPET);
        let text = format!("{CONFIGURATION}FcgidIOTimeout 1\nFcgidSpawnScoreUpLimit 1000000\nLimitRequestFieldSize 20000\n");
        let server = Server::start(mpm, &site, &text);
        server.allow_everything("the test itself waits for the line of each fault; the log also says that processes end");
        for (deed, expected, logged) in FAULTS {
            let seen = server.log().len();
            let mut client = server.client();
            client.send(format!("GET /puppet.fcgi HTTP/1.1\r\nHost: localhost\r\nX-Do: {deed};;\r\n\r\n"));
            let outcome = match client.beginning_to("GET") {
                Ok((response, whole)) => {
                    let body = if response.status == 200 { format!(" {}", response.text()) } else { String::new() };
                    format!("{}{body}{}", response.status, if whole.is_err() { ", cut" } else { "" })
                }
                Err(why) => why,
            };
            assert_eq!(outcome, *expected, "{deed}");
            until(&format!("a line about {deed}; there is {}", &server.log()[seen..]), || server.log()[seen..].contains(logged).then_some(()));
            let again = server.client().request("GET /puppet.fcgi HTTP/1.1\r\nHost: localhost\r\nX-Do: out(qq(\\nwell)); end();;\r\n\r\n");
            assert_eq!(again.text(), "well", "after {deed}");
        }
        assert_eq!(who(&server.get("/a.fcgi?who")).1, 1);
    }

    /// A process that has served and exits with status 0 is not at fault, however soon it ends: while it is idle, or
    /// before its answer has been read to the end.
    fn processes_that_have_served_may_end(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("puppet.fcgi", PUPPET);
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidInitialEnv MARKS ${{DOCS}}/../marks\nSendBufferSize 4096\n"));
        let asks = |deed: &str| {
            let mut client = server.client();
            client.send(format!("GET /puppet.fcgi HTTP/1.1\r\nHost: localhost\r\nX-Do: {deed};;\r\n\r\n"));
            client
        };
        asks("$SIG{USR1} = sub { exit }; out(qq(\\nwell)); end()").response();
        let process = applications(&server).into_iter().next().and_then(Pid::new).expect("a process");
        process.kill(Signal::USR1).expect("kill");
        until("its end", || is_gone(process.number()).then_some(()));
        // More than a client is sent that does not read; and often enough to be given up, if this were a failure.
        for number in 0..4 {
            let mark = format!("m{number}");
            let mut client = asks(&format!("stay(q({mark})); out(qq(\\n) . q(x) x 150000); end(); exit"));
            let process = site.reached(&mark);
            site.go_on(&mark);
            until("its end", || is_gone(process).then_some(()));
            assert_eq!(client.response().body.len(), 150_000);
        }
        // One that has not served is at fault.
        server.announce("ended before it answered");
        assert_eq!(asks("exit").response().status, 500);
    }

    /// A request that takes too long ends with its process.
    fn a_request_may_take_so_long(mpm: Mpm) {
        // `FcgidCmdOptions` has no option for that.
        for options in ["", "FcgidCmdOptions ${DOCS}/a.fcgi MinProcesses 0\n"] {
            let Some(site) = site() else { return };
            let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidBusyTimeout 1\n{options}"));
            server.announce("has served a request for 1s, which is too long");
            server.announce("ended before it answered");
            // It has served before: a request that it had lost would be given to another one.
            assert_eq!(server.get("/a.fcgi").text(), "ok");
            let mut client = asks(&server, "/a.fcgi?wait=w");
            let process = site.reached("w");
            assert_eq!(client.response().status, 500);
            until("its end", || is_gone(process).then_some(()));
            assert!(applications(&server).is_empty(), "no other one has served it");
            assert_eq!(server.get("/a.fcgi").text(), "ok");
        }
    }

    /// The same holds for a question to an authorizer: it is not asked a second time.
    fn a_question_may_take_so_long(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("judge.fcgi", APPLICATION);
        site.page("asked/page", "allowed");
        let text = "FcgidBusyTimeout 1\n<Location /asked/>\nFcgidAccessChecker ${DOCS}/judge.fcgi\n</Location>\n";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{text}"));
        server.announce("has served a request for 1s, which is too long");
        server.announce("ended before it answered");
        // It has served before: a question that it had lost would be put to another one.
        assert_eq!(server.get("/asked/page").text(), "allowed");
        let mut client = asks(&server, "/asked/page?wait=w");
        let process = site.reached("w");
        assert_eq!(client.response().status, 500);
        until("its end", || is_gone(process).then_some(()));
        assert!(applications(&server).is_empty(), "no other one was asked");
        assert_eq!(server.get("/asked/page").text(), "allowed");
    }

    /// Programs that cannot be started.
    fn programs_that_cannot_be_started(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("interpreter.fcgi", "#!/no/such/interpreter\n");
        site.program("text.fcgi", "no program\n");
        site.page("mode.fcgi", "#!/bin/sh\n");
        site.program("ends.fcgi", "#!/bin/sh\nexit 1\n");
        let server = Server::start(mpm, &site, CONFIGURATION);
        for (path, text) in [
            ("/interpreter.fcgi", "cannot be started: (2)No such file or directory"),
            ("/text.fcgi", "cannot be started: (8)Exec format error"),
            ("/mode.fcgi", "cannot be started: (13)Permission denied"),
            ("/ends.fcgi", "ended before it answered"),
        ] {
            server.announce(text);
            server.allow(path);
            assert_eq!(server.get(path).status, 500, "{path}");
            assert_eq!(server.get("/a.fcgi").text(), "ok");
        }
    }

    /// Clients that go: while they wait, before the answer, and in the middle of it.
    fn clients_that_go(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxProcessesPerClass 1\n{METRICS}"));
        let mut first = asks(&server, "/a.fcgi?wait=first");
        let process = site.reached("first");
        let gone = asks(&server, "/a.fcgi?who");
        until("the queue", || (waiting(&server) == 1).then_some(()));
        let mut stays = asks(&server, "/a.fcgi?who");
        until("the queue", || (waiting(&server) == 2).then_some(()));
        gone.reset();
        until("that it has left the queue", || (waiting(&server) == 1).then_some(()));
        site.go_on("first");
        assert_eq!(first.response().status, 200);
        let (by, number, _) = who(&stays.response());
        assert_eq!((by, number), (process, 2), "the one that went was never served");
        // Nobody waits for this one any more: its process is free once it has ended, or is another one.
        let gone = asks(&server, "/a.fcgi?wait=second");
        site.reached("second");
        gone.reset();
        site.go_on("second");
        assert_eq!(server.get("/a.fcgi").text(), "ok");
        let gone = asks(&server, "/a.fcgi?big=50000000");
        gone.reset();
        assert_eq!(server.get("/a.fcgi").text(), "ok");
        // A body that never ends has no process.
        let mut slow = server.client();
        slow.send("POST /a.fcgi?count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nbeginning");
        assert_eq!(server.get("/a.fcgi").text(), "ok");
        slow.reset();
        assert_eq!(server.get("/a.fcgi").text(), "ok");
        assert!(applications(&server).len() <= 1);
        server.allow("can't get data from http client");
        server.allow("the backend");
    }

    /// The process manager is killed: its applications end, the next one serves.
    fn the_manager_is_killed(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("backend daemon");
        server.allow("the backend");
        server.allow("signal");
        let (process, ..) = who(&server.get("/a.fcgi?who"));
        let first = manager(&server);
        kill(first);
        until("the end of its application", || is_gone(process).then_some(()));
        let answer = server.get("/a.fcgi?who");
        assert_eq!(answer.status, 200, "{}", server.log());
        assert_ne!(manager(&server), first);
    }

    /// A child is killed in the middle of a request: its application is ended, and others are served.
    fn a_child_is_killed(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxProcessesPerClass 1\n"));
        server.allow("signal");
        server.allow("children die as soon as they start");
        let _client = asks(&server, "/a.fcgi?wait=w");
        let process = site.reached("w");
        let manager = manager(&server);
        for child in server.children().into_iter().filter(|child| *child != manager) {
            kill(child);
        }
        until("the end of its application", || is_gone(process).then_some(()));
        let answer = until("an answer", || {
            let mut client = server.client();
            client.send(crate::harness::wire::get("/a.fcgi"));
            client.try_response_to("GET").ok()
        });
        assert_eq!(answer.text(), "ok");
    }
}
