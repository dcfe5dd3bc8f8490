//! The processes of mod_fcgid: their number, their lifetime, and the requests that wait for them.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::fastcgi_programs::APPLICATION;
use crate::harness::mpm::under_percore_and;
use crate::harness::server::{Server, children};
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};
use crate::mpm::load::Load;
use crate::scripts::fcgid::{CONFIGURATION, post, site, who};

/// The processes of applications.
pub fn applications(server: &Server<'_>) -> BTreeSet<i32> {
    let is_one = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(".fcgi")
    };
    server.children().into_iter().filter_map(Pid::new).flat_map(children).filter(is_one).collect()
}

pub fn is_gone(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// The page with the number of waiting requests.
pub const METRICS: &str = "<Location /metrics>\nSetHandler metrics\n</Location>\n";

/// How many requests wait for a process.
pub fn waiting(server: &Server<'_>) -> usize {
    let text = server.get("/metrics").text();
    let lines = text.lines().filter(|line| line.contains("backend_requests_waiting{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as usize
}

/// A client that has asked already.
pub fn asks(server: &Server<'_>, path: &str) -> Client {
    let mut client = server.client();
    client.send(get(path));
    client
}

under_percore_and! {
    event:

    /// There are no more than there may be, and requests wait for them in the order in which they came.
    fn requests_wait_in_turn(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxProcessesPerClass 1\n{METRICS}"));
        let mut first = asks(&server, "/a.fcgi?wait=first");
        site.reached("first");
        // Each has come before the next one is sent: the queue is seen to grow.
        let mut clients: Vec<_> = (1..=12).map(|count| {
            let client = asks(&server, "/a.fcgi?nap");
            until("the queue", || (waiting(&server) == count).then_some(()));
            client
        }).collect();
        site.go_on("first");
        assert_eq!(first.response().status, 200);
        let turns: Vec<u32> = clients.iter_mut().map(|client| client.response().text().parse().expect("a number")).collect();
        assert_eq!(turns, (2..14).collect::<Vec<u32>>(), "one process has served one after the other");
        assert_eq!(applications(&server).len(), 1);
    }

    /// A process ends after its maximum of requests, and gets no further one although others wait.
    fn a_process_serves_so_many_requests(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxRequestsPerProcess 3\nFcgidMaxProcessesPerClass 1\n"));
        let mut clients: Vec<_> = (0..9).map(|_| asks(&server, "/a.fcgi?who")).collect();
        let mut served: Vec<(i32, u32)> = clients.iter_mut().map(|client| {
            let (pid, number, _) = who(&client.response());
            (pid, number)
        }).collect();
        served.sort_unstable();
        let processes: BTreeSet<i32> = served.iter().map(|(pid, _)| *pid).collect();
        assert_eq!(processes.len(), 3, "{served:?}");
        for pid in processes {
            let numbers: Vec<u32> = served.iter().filter(|one| one.0 == pid).map(|one| one.1).collect();
            assert_eq!(numbers, [1, 2, 3], "{served:?}");
        }
        until("the end of the last one", || applications(&server).is_empty().then_some(()));
    }

    /// A child keeps a process for its next request, but not when another one waits for it, nor longer than the process may serve;
    /// and a page shows that nobody is served by it.
    fn processes_are_kept_and_given_back(mpm: Mpm) {
        let Some(site) = site() else { return };
        let text = format!("{CONFIGURATION}{METRICS}FcgidMaxRequestsPerProcess 20\nFcgidMaxProcessesPerClass 1\n");
        let server = Server::start(mpm, &site, &text);
        // Under prefork, each connection has its own child.
        let mut clients = [server.client(), server.client()];
        let began = Instant::now();
        for count in 0..40 {
            // Several in a row over one connection, then over the other.
            let client = &mut clients[count / 5 % 2];
            client.send(get("/a.fcgi?who"));
            let (_, number, _) = who(&client.response());
            assert_eq!(number as usize, count % 20 + 1);
        }
        // The manager would look after a second whether a child still needs one.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // The client may have its answer a moment before the server has its end.
        until("all is counted", || {
            let text = server.get("/metrics").text();
            let is = |name: &str, end: &str| text.lines().any(|line| line.starts_with(name) && line.ends_with(end));
            (is("tsubame_backends_busy{", " 0") && is("tsubame_backend_requests_total{", " 40")).then_some(())
        });
    }

    /// A child does not ask the manager about a process that it keeps, even if that could not answer.
    fn a_kept_process_needs_no_manager(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        let (process, ..) = who(&client.get("/a.fcgi?who"));
        for _ in 1..20 {
            client.get("/a.fcgi?who");
        }
        let manager = server.children().into_iter().filter_map(Pid::new).find(|pid| children(*pid).contains(&process));
        let manager = manager.expect("the process manager");
        manager.kill(Signal::STOP).expect("a signal");
        for number in 21..26 {
            let (pid, served, _) = who(&client.get("/a.fcgi?who"));
            assert_eq!((pid, served), (process, number));
        }
        manager.kill(Signal::CONT).expect("a signal");
    }

    /// A child has no claim on its former process while another one has it, however long that takes.
    fn a_lease_that_was_taken_back_is_forgotten(mpm: Mpm) {
        let Some(site) = site() else { return };
        let text = format!("{CONFIGURATION}FcgidMaxProcessesPerClass 1\nFcgidBusyTimeout 1\n");
        let server = Server::start(mpm, &site, &text);
        let [mut before, mut client] = [server.client(), server.client()];
        let (process, ..) = who(&before.get("/a.fcgi?who"));
        for _ in 0..4 {
            before.get("/a.fcgi?who");
        }
        // POST requests are not repeated, so each shows the fate of its process.
        for _ in 0..50 {
            assert_eq!(client.request("POST /a.fcgi?nap HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").status, 200);
        }
        assert_eq!(who(&client.get("/a.fcgi?who")).0, process);
    }

    /// A class that needs the place of another gets it as soon as the present request of that is over.
    fn a_busy_class_makes_room(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxProcesses 1\n"));
        let mut busy = server.client();
        for _ in 0..5 {
            busy.get("/a.fcgi?nap");
        }
        let mut other = asks(&server, "/b.fcgi?who");
        let answered = thread::spawn(move || other.response().status);
        let mut count = 0;
        while !answered.is_finished() && count < 60 {
            assert_eq!(busy.get("/a.fcgi?nap").status, 200);
            count += 1;
        }
        assert_eq!(answered.join().expect("a thread"), 200);
        assert!(count < 20, "{count} requests of the busy class came first");
    }

    /// A process that ends while a child keeps it costs no request.
    fn a_kept_process_ends(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("was ended by signal 9");
        let mut client = server.client();
        for _ in 0..3 {
            client.send(get("/a.fcgi?who"));
            let (pid, _, _) = who(&client.response());
            client.send(get("/a.fcgi?who"));
            assert_eq!(who(&client.response()).0, pid);
            Pid::new(pid).expect("a process").kill(Signal::KILL).expect("a signal");
            until("its end", || is_gone(pid).then_some(()));
        }
        client.send(get("/a.fcgi?who"));
        assert_eq!(client.response().status, 200);
    }

    /// Idle processes end, except for the configured minimum.
    fn idle_processes_end(mpm: Mpm) {
        let Some(site) = site() else { return };
        let text = format!("{CONFIGURATION}FcgidIdleTimeout 1\nFcgidMinProcessesPerClass 1\n");
        let server = Server::start(mpm, &site, &text);
        let mut clients: Vec<_> = (0..3).map(|number| asks(&server, &format!("/a.fcgi?wait=w{number}"))).collect();
        (0..3).for_each(|number| { site.reached(&format!("w{number}")); });
        assert_eq!(applications(&server).len(), 3);
        (0..3).for_each(|number| site.go_on(&format!("w{number}")));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        until("the end of those that are not kept", || (applications(&server).len() == 1).then_some(()));
        assert_eq!(server.get("/a.fcgi?who").status, 200);
    }

    /// A process that has lived for so long ends.
    fn old_processes_end(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidProcessLifeTime 1\n"));
        let (first, ..) = who(&server.get("/a.fcgi?who"));
        until("its end", || is_gone(first).then_some(()));
        assert_ne!(who(&server.get("/a.fcgi?who")).0, first);
    }

    /// The limit on processes covers all classes; an idle one makes room for one that is needed.
    fn classes_share_what_there_may_be(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}FcgidMaxProcesses 1\n"));
        let (first, ..) = who(&server.get("/a.fcgi?who"));
        let mut other = asks(&server, "/b.fcgi?wait=b");
        let second = site.reached("b");
        assert!(is_gone(first) && first != second);
        let mut waits = asks(&server, "/a.fcgi?who");
        assert_eq!(applications(&server), BTreeSet::from([second]));
        site.go_on("b");
        assert_eq!(other.response().status, 200);
        assert_eq!(waits.response().status, 200);
    }

    /// After too many recent starts, requests wait for the existing processes.
    fn starts_are_limited_by_a_score(mpm: Mpm) {
        // `FcgidCmdOptions` has no option for that.
        for options in ["", "FcgidCmdOptions ${DOCS}/a.fcgi MinProcesses 0\n"] {
            let Some(site) = site() else { return };
            let text = "FcgidSpawnScore 1000\nFcgidTerminationScore 0\nFcgidTimeScore 1\nFcgidSpawnScoreUpLimit 1001\n";
            let text = CONFIGURATION.replace("FcgidSpawnScoreUpLimit 1000\n", text) + options;
            let server = Server::start(mpm, &site, &text);
            let mut first = asks(&server, "/a.fcgi?wait=w1");
            site.reached("w1");
            let mut others: Vec<_> = (2..=3).map(|number| asks(&server, &format!("/a.fcgi?wait=w{number}"))).collect();
            site.go_on("w2");
            site.go_on("w3");
            others.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
            assert_eq!(applications(&server).len(), 2, "the second has served both of them");
            site.go_on("w1");
            assert_eq!(first.response().status, 200);
        }
    }

    /// The environment of a process, and the variables of a request.
    fn environments(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("own.fcgi", "#!/usr/bin/perl\nmy %own = %ENV;\nuse FCGI;\nmy $r = FCGI::Request();\nwhile ($r->Accept() >= 0) { print \"\\n\", map { \"$_=$own{$_}\\n\" } sort keys %own }\n");
        site.program("its.fcgi", "#!/usr/bin/perl\nmy %own = %ENV;\nuse FCGI;\nmy $r = FCGI::Request();\nwhile ($r->Accept() >= 0) { print \"\\n\", map { \"$_=$own{$_}\\n\" } sort keys %own }\n");
        let text = format!("{CONFIGURATION}FcgidInitialEnv A 1\nFcgidInitialEnv EMPTY\nFcgidPassHeader Authorization\n\
            FcgidCmdOptions ${{DOCS}}/its.fcgi InitialEnv B=2 MaxRequestsPerProcess 1\n");
        let server = Server::start(mpm, &site, &text);
        let lines = |path: &str| {
            let text = server.get(path).text();
            text.lines().filter(|line| !line.starts_with("PATH=")).map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(lines("/own.fcgi"), ["A=1", "EMPTY="]);
        assert_eq!(lines("/its.fcgi"), ["B=2"]);
        let told = server.client().request("GET /a.fcgi?env HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic x\r\n\r\n").text();
        assert!(told.contains("\nHTTP_AUTHORIZATION=Basic x\n") && told.starts_with("Authorization=Basic x\n"), "{told}");
        until("the end of one that serves once", || (applications(&server).len() == 2).then_some(()));
    }

    /// A wrapper runs files; a virtual one also those that are not there.
    fn wrappers(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("wrapper.fcgi", APPLICATION);
        site.page("x.one", "");
        let text = format!("{CONFIGURATION}AddHandler fcgid-script .one .two\n\
            <Directory ${{DOCS}}>\nFcgidWrapper ${{DOCS}}/wrapper.fcgi .one\nFcgidWrapper ${{DOCS}}/wrapper.fcgi .two virtual\n</Directory>");
        let server = Server::start(mpm, &site, &text);
        let told = server.get("/x.one?env").text();
        assert!(told.contains(&format!("SCRIPT_FILENAME={}/htdocs/x.one\n", site.path())), "{told}");
        assert_eq!(server.get("/y.one?env").status, 404);
        assert_eq!(server.get("/y.two?env").status, 200);
        let one = who(&server.get("/x.one?who")).0;
        assert_eq!(who(&server.get("/y.two?who")).0, one, "they are of one class");
    }

    /// Programs that must not run are refused.
    fn refusals(mpm: Mpm) {
        let Some(site) = site() else { return };
        site.program("no/a.fcgi", APPLICATION);
        std::fs::create_dir_all(site.root.join("htdocs/d.fcgi")).expect("directory");
        let text = format!("{CONFIGURATION}<Directory ${{DOCS}}/no>\nOptions -ExecCGI\n</Directory>\n<Location /d.fcgi>\nSetHandler fcgid-script\n</Location>\n");
        let server = Server::start(mpm, &site, &text);
        for (path, status, text) in [
            ("/no/a.fcgi", 403, "does not have ExecCGI enabled"),
            ("/d.fcgi/", 403, "attempt to invoke directory as script"),
        ] {
            server.announce(text);
            assert_eq!(server.get(path).status, status, "{path}");
        }
    }

    /// A graceful restart under load: every request is answered, and the old processes end.
    fn a_graceful_restart_loses_no_request(mpm: Mpm) {
        let Some(site) = site() else { return };
        let mut server = Server::start(mpm, &site, CONFIGURATION);
        let (before, ..) = who(&server.get("/a.fcgi?who"));
        let mut held = asks(&server, "/a.fcgi?wait=held");
        site.reached("held");
        let load = Load::over(server.address(), 4, &["/a.fcgi?ten".to_string()]);
        load.goes_on(200);
        server.restart(Signal::USR1);
        load.goes_on(200);
        assert_eq!(load.end(), Vec::<String>::new());
        site.go_on("held");
        assert_eq!(held.response().status, 200);
        drop(held);
        until("the end of the one of before", || is_gone(before).then_some(()));
        assert_eq!(post(&server, "/a.fcgi?count", b"x").text(), "1 120");
    }

    /// A file that is replaced or rewritten gets new processes; the old ones end.
    fn a_file_that_changes(mpm: Mpm) {
        let Some(site) = site() else { return };
        let server = Server::start(mpm, &site, CONFIGURATION);
        let (first, ..) = who(&server.get("/a.fcgi?who"));
        let mut held = asks(&server, "/a.fcgi?wait=held");
        assert_eq!(site.reached("held"), first);
        site.program("new", &APPLICATION.replace("print 'ok'", "print 'new'"));
        std::fs::rename(site.root.join("htdocs/new"), site.root.join("htdocs/a.fcgi")).expect("rename");
        until("the new one", || (server.get("/a.fcgi").text() == "new").then_some(()));
        site.go_on("held");
        assert_eq!(held.response().text(), "ok", "a request that was under way is served to its end");
        until("the end of the first", || is_gone(first).then_some(()));
        site.program("a.fcgi", &APPLICATION.replace("print 'ok'", "print 'newer'"));
        until("the newest one", || (server.get("/a.fcgi").text() == "newer").then_some(()));
        until("one process", || (applications(&server).len() == 1).then_some(()));
        std::fs::remove_file(site.root.join("htdocs/a.fcgi")).expect("remove");
        until("404", || (server.get("/a.fcgi").status == 404).then_some(()));
        assert_eq!(server.get("/b.fcgi").text(), "ok", "the rest is unaffected");
    }
}
