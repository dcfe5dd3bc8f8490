//! The gate: how many scripts run at once, which requests wait, which are refused, and how their use is accounted.

use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n\
    </Directory>\n<Location /status>\nSetHandler server-status\n</Location>\n<IfModule prefork.c>\nMinSpareServers 12\n\
    StartServers 12\n</IfModule>\n";

/// Says how many of its kind run with it, and runs until it may end. `memory` is what it takes, in MiB. It is seen as running
/// once it has counted.
fn script(memory: u32) -> String {
    format!(
        "#!/usr/bin/perl\nmy $all = ''; vec($all, {memory} * 1024 * 1024, 8) = 1;\nopen(F, \">../begun/$$\"); \
         my @n = glob(\"../begun/*\");\nopen(F, \">../running/$$\");\n\
         select(undef, undef, undef, 0.01) while -e '../hold';\nunlink(\"../running/$$\", \"../begun/$$\");\n\
         print \"Content-Type: text/plain\\n\\n\" . scalar(@n);\n"
    )
}

/// A place with two scripts, one of which needs much.
fn site() -> Site {
    let site = Site::with([("a.txt", "0123456789")]);
    site.script("small", &script(1));
    site.script("large", &script(60));
    for name in ["begun", "running"] {
        std::fs::create_dir_all(site.root.join(name)).expect("directory");
        open(&site, name);
    }
    open(&site, "");
    site
}

/// Scripts run as another user.
fn open(site: &Site, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(site.root.join(name), std::fs::Permissions::from_mode(0o777)).expect("mode");
}

fn hold(site: &Site) {
    site.file("hold", "");
}

fn let_go(site: &Site) {
    std::fs::remove_file(site.root.join("hold")).expect("hold");
}

fn start<'a>(mpm: crate::harness::mpm::Mpm, site: &'a Site, text: &str) -> Server<'a> {
    let server = Server::start(mpm, site, &format!("{CONFIGURATION}{text}"));
    server.allow("server seems busy");
    server
}

/// Asks for a script, and does not wait for the answer.
fn ask(server: &Server<'_>, name: &str) -> Client {
    let mut client = server.client();
    client.send(format!("GET /cgi/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    client
}

/// How many scripts run.
fn running(site: &Site) -> usize {
    std::fs::read_dir(site.root.join("running")).expect("directory").count()
}

/// A number that the status page tells.
pub fn told(server: &Server<'_>, field: &str) -> u64 {
    let page = server.get("/status?auto").text();
    let value = page.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Runs that have ended, and those that go on. Neither says alone that all is over: a script that has closed its output
/// no longer counts as running while its end is still to be noticed, and gives its place back just after it is counted.
pub fn counts(server: &Server<'_>) -> (u64, u64) {
    (told(server, "ScriptRuns"), told(server, "ScriptsRunning"))
}

/// How many ran at most, as the scripts counted themselves.
fn most(answers: impl IntoIterator<Item = Response>) -> u64 {
    let count = |answer: Response| {
        assert_eq!(answer.status, 200);
        answer.text().parse::<u64>().expect("a number")
    };
    answers.into_iter().map(count).max().expect("an answer")
}

under_percore_and! {
    event:

    /// As many scripts run as memory allows: one while its needs are unknown, then two; the others take turns. Files
    /// are served meanwhile.
    fn memory_decides_how_many_run(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "AdmissionMemory 150M");
        hold(&site);
        let began = Instant::now();
        let mut first: Vec<Client> = (0..3).map(|_| ask(&server, "large")).collect();
        until("one that runs", || (running(&site) == 1).then_some(()));
        // After a second, its needs are estimated by its current use.
        let is_known = || began.elapsed() > Duration::from_secs(1) && running(&site) == 2;
        until("two that wait", || (told(&server, "ScriptsWaiting") == 2 || is_known()).then_some(()));
        assert_eq!(server.get("/a.txt").status, 200);
        let_go(&site);
        most(first.iter_mut().map(Client::response));
        hold(&site);
        let mut then: Vec<Client> = (0..6).map(|_| ask(&server, "large")).collect();
        until("two that run", || (running(&site) == 2).then_some(()));
        until("four that wait", || (told(&server, "ScriptsWaiting") == 4).then_some(()));
        assert_eq!((running(&site), server.get("/a.txt").status), (2, 200));
        let_go(&site);
        assert_eq!(most(then.iter_mut().map(Client::response)), 2);
        // A script that has closed its output makes room at once, but is counted when it has been reaped.
        until("the end of all", || (counts(&server) == (9, 0)).then_some(()));
        assert_eq!(told(&server, "ScriptFailures"), 0);
    }

    /// `AdmissionLimit`: the maximum number of runs of one script, whatever its needs; it does not affect another
    /// script.
    fn a_script_may_have_a_limit(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "<Files small>\nAdmissionLimit 1\n</Files>");
        let mut clients: Vec<Client> = (0..6).map(|_| ask(&server, "small")).collect();
        assert_eq!(most(clients.iter_mut().map(Client::response)), 1);
        hold(&site);
        let mut one = ask(&server, "small");
        until("one that runs", || (running(&site) == 1).then_some(()));
        let mut other = ask(&server, "large");
        until("another one", || (running(&site) == 2).then_some(()));
        let_go(&site);
        assert_eq!((one.response().status, other.response().status), (200, 200));
    }

    /// With a full queue or after a long wait, the answer is 503 with `Retry-After`, and the log lists what is running.
    fn a_full_queue_or_a_long_wait_is_a_503(mpm: Mpm) {
        let site = site();
        let text = "AdmissionQueue 1\nAdmissionTimeout 700ms\n<Files small>\nAdmissionLimit 1\n</Files>";
        let server = start(mpm, &site, text);
        assert_eq!(ask(&server, "small").response().status, 200);
        hold(&site);
        let mut runs = ask(&server, "small");
        until("one that runs", || (running(&site) == 1).then_some(()));
        let mut waits = ask(&server, "small");
        until("one that waits", || (told(&server, "ScriptsWaiting") == 1).then_some(()));
        let refused = ask(&server, "small").response();
        assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
        server.logged("cgi-bin/small is not started: 1 requests are already waiting for scripts: it needs ");
        let late = waits.response();
        assert_eq!((late.status, late.field("Retry-After")), (503, Some("1")));
        let line = server.logged("cgi-bin/small is not started: waited 700ms for its turn");
        assert!(line.contains("running: 1 of ") && line.contains("cgi-bin/small with "), "{line}");
        let_go(&site);
        assert_eq!((runs.response().status, told(&server, "ScriptsRefused")), (200, 2));
    }

    /// A killed child releases its requests' shares: waiting requests at once, a running script when it has ended.
    fn the_dead_hold_nothing(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "<Files small>\nAdmissionLimit 1\n</Files>");
        server.announce("exit signal Killed (9)");
        server.allow("children die as soon as they start");
        hold(&site);
        let _runs = ask(&server, "small");
        until("one that runs", || (running(&site) == 1).then_some(()));
        for child in server.children() {
            let _ = Pid::new(child).expect("pid").kill(Signal::KILL);
        }
        let mut waits = until("a child", || {
            let mut client = Client::over(std::net::TcpStream::connect(server.address()).ok()?);
            client.send("GET /cgi/small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            Some(client)
        });
        until("one that waits", || (told(&server, "ScriptsWaiting") == 1).then_some(()));
        assert_eq!(running(&site), 1, "the script of the dead child runs on");
        let_go(&site);
        assert_eq!(waits.response().status, 200);
    }

    /// Requests whose processes were killed while they waited keep no places, although the queue is full of them.
    fn the_dead_do_not_wait(mpm: Mpm) {
        for restart in [false, true] {
            let site = site();
            let server = start(mpm, &site, "AdmissionQueue 1\n<Files small>\nAdmissionLimit 1\n</Files>");
            server.allow("exit signal Killed (9)");
            server.allow("children die as soon as they start");
            hold(&site);
            let _runs = ask(&server, "small");
            until("one that runs", || (running(&site) == 1).then_some(()));
            let _waits = ask(&server, "small");
            until("one that waits", || (told(&server, "ScriptsWaiting") == 1).then_some(()));
            match restart {
                true => server.signal(Signal::HUP),
                false => server.children().into_iter().filter_map(Pid::new).for_each(|child| drop(child.kill(Signal::KILL))),
            }
            let_go(&site);
            server.allow("is not started: 1 requests are already waiting for scripts");
            until("a script", || {
                let mut client = Client::over(std::net::TcpStream::connect(server.address()).ok()?);
                client.send("GET /cgi/small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                let (bytes, _) = client.rest();
                bytes.starts_with(b"HTTP/1.1 200").then_some(())
            });
        }
    }

    /// A queue that is full of requests for one script keeps out no other, whether that can run at once or has to wait.
    fn a_full_queue_is_fair(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "AdmissionQueue 3\n<FilesMatch .>\nAdmissionLimit 1\n</FilesMatch>");
        hold(&site);
        let mut runs = ask(&server, "small");
        until("one that runs", || (running(&site) == 1).then_some(()));
        let mut wait: Vec<Client> = (1..=3)
            .map(|number| {
                let client = ask(&server, "small");
                until("one more that waits", || (told(&server, "ScriptsWaiting") == number).then_some(()));
                client
            })
            .collect();
        let mut other = ask(&server, "large");
        until("another script", || (running(&site) == 2).then_some(()));
        let mut next = ask(&server, "large");
        // The last of those who wait for the script that most wait for.
        assert_eq!(wait.remove(2).response().status, 503);
        server.logged("gave way to requests for other scripts, because too many are waiting");
        let_go(&site);
        let all = [&mut runs, &mut other, &mut next].into_iter().chain(&mut wait);
        assert!(all.map(|client| client.response().status).all(|status| status == 200));
    }

    /// A client that leaves frees its place in the queue.
    fn a_client_that_goes_leaves_the_queue(mpm: Mpm) {
        let site = site();
        let server = start(mpm, &site, "<Files small>\nAdmissionLimit 1\n</Files>");
        hold(&site);
        let mut runs = ask(&server, "small");
        until("one that runs", || (running(&site) == 1).then_some(()));
        let waits = ask(&server, "small");
        until("one that waits", || (told(&server, "ScriptsWaiting") == 1).then_some(()));
        waits.reset();
        until("nobody who waits", || (told(&server, "ScriptsWaiting") == 0).then_some(()));
        let_go(&site);
        assert_eq!(runs.response().status, 200);
        until("the end of the run", || (counts(&server) == (1, 0)).then_some(()));
    }

    /// A script that has ended holds no memory, however slowly its client reads.
    fn a_slow_reader_holds_no_memory(mpm: Mpm) {
        let site = site();
        site.script("much", "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\" . 'x' x 2000000;\nopen(F, '>../ended');\n");
        let server = start(mpm, &site, "<Files much>\nAdmissionLimit 1\n</Files>");
        let slow = ask(&server, "much");
        // The script has written all of it as soon as the server has read most of that.
        let mut then = ask(&server, "much");
        assert_eq!(then.response().status, 200);
        drop(slow);
    }

    /// If waiting requests hold workers, one worker in four remains for files.
    fn files_find_a_worker(mpm: Mpm) {
        let site = site();
        let workers = "<IfModule !percore.c>\nMaxRequestWorkers 8\n</IfModule>\n\
            <IfModule prefork.c>\nServerLimit 8\nStartServers 8\nMinSpareServers 1\nMaxSpareServers 8\n</IfModule>\n<IfModule worker.c>\nThreadsPerChild 8\n</IfModule>\n\
            <IfModule event.c>\nThreadsPerChild 8\n</IfModule>\n<Files small>\nAdmissionLimit 2\n</Files>";
        let server = start(mpm, &site, workers);
        server.allow("server is within MinSpareThreads of MaxRequestWorkers");
        server.allow("ServerLimit");
        server.allow("is not started: ");
        assert_eq!(ask(&server, "small").response().status, 200);
        // One that still ends would take a place from those that come.
        until("nothing that runs", || (told(&server, "ScriptsRunning") == 0).then_some(()));
        hold(&site);
        let mut clients: Vec<Client> = (0..12).map(|_| ask(&server, "small")).collect();
        until("two that run", || (running(&site) == 2).then_some(()));
        until("four that wait", || (told(&server, "ScriptsWaiting") >= 4).then_some(()));
        assert_eq!(server.get("/a.txt").status, 200);
        let_go(&site);
        let served = clients.iter_mut().filter_map(|client| Some(client.response().status).filter(|status| *status == 200));
        assert!(served.count() >= 6);
    }

    /// If waiting requests need no worker, all workers remain for others, however many wait.
    fn those_who_wait_hold_no_worker(mpm: Mpm) {
        if matches!(mpm, Mpm::Prefork | Mpm::Worker) {
            return;
        }
        let site = site();
        let workers = "<IfModule event.c>\nStartServers 1\nServerLimit 1\nThreadsPerChild 2\nMaxRequestWorkers 2\n\
            MinSpareThreads 1\nMaxSpareThreads 4\n</IfModule>\n<Files small>\nAdmissionLimit 1\n</Files>";
        let server = start(mpm, &site, workers);
        server.allow("server is within MinSpareThreads of MaxRequestWorkers");
        hold(&site);
        let mut clients: Vec<Client> = (0..20).map(|_| ask(&server, "small")).collect();
        until("one that runs", || (running(&site) == 1).then_some(()));
        until("all others wait", || (told(&server, "ScriptsWaiting") == 19).then_some(()));
        assert_eq!(server.get("/a.txt").status, 200);
        // The one that runs, and the one that tells.
        if mpm == Mpm::Event {
            assert_eq!((told(&server, "BusyWorkers"), told(&server, "IdleWorkers")), (2, 0));
        }
        let_go(&site);
        assert_eq!(most(clients.iter_mut().map(Client::response)), 1);
    }

    /// The next script starts when one has ended, even if its end was not reported.
    fn a_place_is_free_at_once(mpm: Mpm) {
        let site = site();
        site.script("brief", "#!/bin/sh\necho; echo x\n");
        let text = "CustomLog logs/access \"%{queue}G\"\n<Files brief>\nAdmissionLimit 1\n</Files>";
        let mut server = start(mpm, &site, text);
        assert!((0..40).all(|_| ask(&server, "brief").response().text() == "x\n"));
        server.signal(Signal::TERM);
        server.ends();
        let log = site.read("logs/access");
        let long = log.lines().filter(|line| line.parse::<u64>().expect("a number") > 90_000).count();
        assert!(long < 10, "{log}");
    }

    /// The access log and the status page show what a script has cost.
    fn costs_are_accounted_for(mpm: Mpm) {
        let site = site();
        site.script("fails", "#!/bin/sh\nprintf '\\nx'\nexit 3\n");
        let text = "CustomLog logs/access \"%U %{queue}G %{spawn}G %{cpu}G %{memory}G %{exit}G\"";
        let mut server = start(mpm, &site, text);
        for name in ["large", "fails"] {
            assert_eq!(ask(&server, name).response().status, 200);
        }
        assert_eq!(server.get("/a.txt").status, 200);
        until("the runs", || (told(&server, "ScriptRuns") == 2).then_some(()));
        let page = server.get("/status").text();
        assert!(page.contains("<h2>Scripts</h2>") && page.contains("cgi-bin/large</td>"), "{page}");
        // The shell needs less than a child of the server has: how much less is not known.
        assert!(page.contains("<td>-</td>"), "{page}");
        assert_eq!(told(&server, "ScriptFailures"), 1);
        server.signal(Signal::TERM);
        server.ends();
        let log = site.read("logs/access");
        let line = |name: &str| {
            let line = log.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {log}"));
            line.split(' ').skip(1).map(|word| word.parse::<i64>().ok()).collect::<Vec<_>>()
        };
        let large = line("/cgi/large");
        assert!(large[0].is_some() && large[1] > Some(0), "{log}");
        assert!(large[2] > Some(1000) && large[3] > Some(60 * 1024) && large[4] == Some(0), "{log}");
        assert_eq!(line("/cgi/fails")[4], Some(3), "{log}");
        assert_eq!(line("/a.txt"), [None; 5]);
    }
}

/// A script that ended with its child is not shown as running, even if no request waits for a script.
#[test]
fn the_dead_are_not_told_as_running() {
    let site = site();
    let server = start(Mpm::Percore, &site, "");
    server.announce("exit signal Killed (9)");
    server.allow("children die as soon as they start");
    hold(&site);
    let _client = ask(&server, "small");
    until("it runs", || (running(&site) == 1 && told(&server, "ScriptsRunning") == 1).then_some(()));
    let script = std::fs::read_dir(site.root.join("running")).expect("directory").next().expect("one").expect("name");
    let script =
        script.file_name().to_str().and_then(|number| number.parse().ok()).and_then(Pid::new).expect("a number");
    let children = server.children();
    for child in children.iter().copied().filter_map(Pid::new).chain([script]) {
        child.kill(Signal::KILL).expect("it is there");
    }
    until("new children", || server.children().is_disjoint(&children).then_some(()));
    until("nothing that runs", || (told(&server, "ScriptsRunning") == 0).then_some(()));
}

/// Clients that send their bodies slowly start no more scripts than there is room for, however much memory there is.
#[test]
fn slow_bodies_do_not_start_scripts_without_end() {
    let site = site();
    site.script("reads", "#!/bin/sh\nread line\nprintf '\\n%s' \"$line\"\n");
    // A user that has no other processes: the limit counts those of a user, and their threads.
    let user = 1_000_000 + std::process::id();
    site.configure(Mpm::Percore, &format!("{CONFIGURATION}User #{user}\nGroup #{user}\n"));
    // Three quarters of it, at four processes for a script. Nothing but the gate looks at it: it is not reached.
    let server = Start::new(&site, Mpm::Percore).by(vec!["prlimit".into(), "--nproc=480:".into()]).run();
    let post = |body: &str| {
        let mut client = server.client();
        client.send(format!(
            "POST /cgi/reads HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\n{body}"
        ));
        client
    };
    assert_eq!(post("ab\n").response().text(), "ab");
    let mut slow: Vec<Client> = (0..100).map(|_| post("a")).collect();
    until("as many as there is room for", || {
        let counts = (told(&server, "ScriptsRunning"), told(&server, "ScriptsWaiting"));
        assert!(counts.0 <= 90, "{counts:?}");
        (counts == (90, 10)).then_some(())
    });
    assert_eq!(server.get("/a.txt").status, 200);
    for client in &mut slow {
        client.send("b\n");
    }
    assert!(slow.iter_mut().all(|client| client.response().text() == "ab"), "each has its turn");
}
