//! Applications of WSGI in processes: their threads, their ends, and what streams.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::get;

const WORK: &str = include_str!("wsgi_applications/work.wsgi");

fn site() -> Site {
    let site = Site::new();
    let script = site.file("apps/work.wsgi", WORK);
    // Scripts leave marks beside themselves.
    let directory = script.parent().expect("a directory");
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("mode");
    site
}

/// The application at `/app`, in a group with these options.
fn configuration(options: &str) -> String {
    format!(
        "LoadModule wsgi_module modules/mod_wsgi.so\nWSGIDaemonProcess site {options}\n\
         WSGIScriptAlias /app ${{ROOT}}/apps/work.wsgi process-group=site\nWSGIScriptAlias /own ${{ROOT}}/apps/work.wsgi\n\
         <Directory ${{ROOT}}/apps>\nRequire all granted\n</Directory>\n"
    )
}

/// The process that has answered, and its count of requests.
fn counted(text: &str) -> (i32, u32) {
    let numbers = text.split_once(' ').and_then(|(process, count)| Some((process.parse().ok()?, count.parse().ok()?)));
    numbers.unwrap_or_else(|| panic!("{text:?}"))
}

fn is_gone(process: i32) -> bool {
    !Pid::new(process).is_some_and(Pid::exists)
}

/// Changes a script, so that its time differs, whatever the clock of the file system counts in.
fn change(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write");
    let file = std::fs::File::options().write(true).open(path).expect("open");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("time");
}

under_percore_and! { prefork:
    /// One process with threads serves requests at the same time, each once, and keeps its state.
    fn threads_of_a_process_serve_at_once(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1 threads=4"));
        let mut clients: Vec<_> = std::iter::repeat_with(|| server.client()).take(4).collect();
        clients.iter_mut().for_each(|client| client.send(get("/app/meet")));
        let mut seen: Vec<(i32, u32)> = clients.iter_mut().map(|client| counted(&client.response().text())).collect();
        seen.sort_unstable();
        let process = seen[0].0;
        assert_eq!(seen, [(process, 1), (process, 2), (process, 3), (process, 4)]);
        assert_ne!(counted(&server.get("/own/count").text()).0, process, "no group: other processes");
    }

    /// What an application does after its response never gets into the next one, which goes over the same connection.
    fn what_comes_late_is_no_part_of_the_next_response(mpm: Mpm) {
        let site = site();
        site.file(
            "apps/late.wsgi",
            "kept = []\nclass Body:\n    def __iter__(self):\n        return iter([b'a', b'b'])\n    def close(self):\n        \
             print('closing', file=kept[-1][0]['wsgi.errors'])\n        raise ValueError('in close')\n\
             def application(environ, start_response):\n    seen = []\n    for old, write in kept:\n        \
             for late in (old['wsgi.input'].read, lambda: write(b'late')):\n            try:\n                \
             late()\n            except RuntimeError as problem:\n                seen.append(str(problem))\n        \
             print('late', file=old['wsgi.errors'])\n    \
             write = start_response('200 OK', [('Seen', ','.join(seen))])\n    kept.append((environ, write))\n    return Body()\n",
        );
        let lines = "WSGIScriptAlias /late ${ROOT}/apps/late.wsgi process-group=site\n";
        let server = Server::start(mpm, &site, &format!("{}{lines}", configuration("processes=1 threads=1")));
        server.allow_everything("tracebacks have many lines");
        for count in 0..4 {
            let response = server.get("/late");
            assert_eq!((response.status, response.text()), (200, "ab".into()));
            let seen = vec!["the request is over"; 2 * count].join(",");
            assert!(response.field("Seen").is_some_and(|field| field == seen), "{response:?}");
        }
        server.logged("in close");
    }

    /// A script never decides about another user than the one who asks.
    fn a_user_with_a_zero_byte_is_nobody_else(mpm: Mpm) {
        let site = site();
        site.file("apps/users.py", "def check_password(environ, user, password):\n    return user == 'admin'\n");
        let lines = "<Location /app>\nAuthType Basic\nAuthName x\nAuthBasicProvider wsgi\n\
            WSGIAuthUserScript ${ROOT}/apps/users.py\nRequire valid-user\n</Location>\n";
        let server = Server::start(mpm, &site, &format!("{}{lines}", configuration("threads=1")));
        let ask = |credentials: &str| {
            let text = format!("GET /app/count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\r\n");
            server.client().request(text).status
        };
        // admin:x, and the same with a zero byte in the name.
        assert_eq!(ask("YWRtaW46eA=="), 200);
        server.allow_everything("who it is depends on where the name is refused");
        assert_ne!(ask("YWQAbWluOng="), 200);
    }

    /// Each request runs in a copy of one process that has loaded the script, and leaves no trace in the next one.
    fn copies_share_nothing_but_the_beginning(mpm: Mpm) {
        let site = site();
        let text = "import os\nmother = os.getpid()\ncount = 0\ndef application(environ, start_response):\n    \
            global count\n    count += 1\n    start_response('200 OK', [])\n    \
            return [b'%d %d %d' % (mother, os.getpid(), count)]\n";
        let script = site.file("apps/copy.wsgi", text);
        let lines = "Alias /copy ${ROOT}/apps/copy.wsgi\n<Location /copy>\nSetHandler python-fork\nOptions +ExecCGI\n</Location>\n";
        let server = Server::start(mpm, &site, &format!("{}{lines}", configuration("threads=1")));
        let numbers = || {
            let text = server.get("/copy").text();
            text.split(' ').map(|number| number.parse::<i32>().unwrap_or_else(|_| panic!("{text}"))).collect::<Vec<_>>()
        };
        let seen: Vec<_> = (0..20).map(|_| numbers()).collect();
        assert!(seen.iter().all(|one| one[0] == seen[0][0] && one[0] != one[1] && one[2] == 1), "{seen:?}");
        change(&script, text);
        assert_ne!(numbers()[0], seen[0][0], "a changed script is loaded again");
    }

    /// Copies whose clients have gone do not keep others from theirs for ever.
    fn copies_that_nobody_waits_for_end(mpm: Mpm) {
        let site = site();
        site.file(
            "apps/copy.wsgi",
            "import os, time\ndef application(environ, start_response):\n    start_response('200 OK', [])\n    \
             with open(os.path.dirname(__file__) + '/copies', 'a') as file:\n        file.write('%d\\n' % os.getpid())\n    \
             while environ['PATH_INFO'] == '/stays':\n        time.sleep(0.1)\n    return []\n",
        );
        let lines = "Alias /copy ${ROOT}/apps/copy.wsgi\n<Location /copy>\nSetHandler python-fork\nOptions +ExecCGI\n</Location>\n";
        let server = Server::start(mpm, &site, &format!("{}{lines}Timeout 1\n", configuration("threads=1")));
        server.allow("Script timed out before returning headers");
        server.allow("Timeout when reading response headers");
        let copies = || -> Vec<i32> {
            let text = std::fs::read_to_string(site.root.join("apps/copies")).unwrap_or_default();
            text.split_terminator('\n').filter_map(|line| line.parse().ok()).collect()
        };
        // One more than may run at once.
        let mut clients: Vec<_> = (0..=4 * sys::affinity::processors()).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.send(get("/copy/stays")));
        until("all copies", || (copies().len() == clients.len()).then_some(()));
        until("their ends", || copies().into_iter().all(is_gone).then_some(()));
        assert_eq!(server.get("/copy").status, 200);
    }

    /// A client that goes away in the middle of its upload costs no process.
    fn a_broken_upload_costs_no_process(mpm: Mpm) {
        let site = site();
        let lines = "WSGIScriptAlias /reads ${ROOT}/apps/reads.wsgi process-group=site\n";
        let server = Server::start(mpm, &site, &format!("{}{lines}", configuration("processes=1 threads=1")));
        site.file(
            "apps/reads.wsgi",
            "import os\ndef application(environ, start_response):\n    open(os.path.dirname(__file__) + '/reading', 'w').close()\n    \
             environ['wsgi.input'].read()\n    start_response('200 OK', [])\n    return [b'%d' % os.getpid()]\n",
        );
        let whole = "POST /reads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        server.announce("AH01225: Error reading request entity data");
        let process = server.client().request(whole).text();
        for _ in 0..5 {
            let _ = std::fs::remove_file(site.root.join("apps/reading"));
            let mut client = server.client();
            client.send("POST /reads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\nabc");
            until("the application reads", || site.root.join("apps/reading").exists().then_some(()));
            drop(client);
            assert_eq!(server.client().request(whole).text(), process);
        }
    }

    /// Pieces reach the client when they are made, and the response is closed.
    fn pieces_are_sent_when_they_are_made(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("threads=2"));
        let mut client = server.client();
        client.send(get("/app/stream"));
        let mut received = String::new();
        while !received.ends_with("first") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        assert!(!site.root.join("apps/closed").exists(), "{received}");
        site.file("apps/go", "");
        while !received.ends_with("second") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        until("the response is closed", || site.root.join("apps/closed").exists().then_some(()));
    }

    /// An exception is logged with its traceback, and the client can tell that it has not got everything.
    fn exceptions_are_reported(mpm: Mpm) {
        let site = site();
        let wrong = site.file("apps/wrong.wsgi", "def application(:\n");
        let lines = "WSGIScriptAlias /wrong ${ROOT}/apps/wrong.wsgi process-group=site\n";
        let server = Server::start(mpm, &site, &format!("{}{lines}", configuration("threads=2")));
        server.allow_everything("tracebacks have many lines");
        assert_eq!(server.get("/app/early").status, 500);
        server.logged("Exception occurred processing WSGI script");
        server.logged("ValueError: before the head");
        let mut client = server.client();
        client.send(get("/app/late"));
        let mut received = String::new();
        while !received.ends_with("first") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        site.file("apps/go", "");
        let (rest, _) = client.rest();
        assert!(received.contains("chunked") && !rest.ends_with(b"0\r\n\r\n"), "{received}{}", String::from_utf8_lossy(&rest));
        server.logged("ValueError: after the head");
        until("the response is closed", || site.root.join("apps/closed").exists().then_some(()));
        assert_eq!(server.get("/wrong").status, 500);
        server.logged("SyntaxError");
        change(&wrong, WORK);
        assert_eq!(server.get("/wrong/count").status, 200, "a changed script is loaded again");
    }

    /// A process that is killed, or hangs, fails its request and is replaced.
    fn lost_processes_are_replaced(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1 threads=2 request-timeout=1"));
        server.allow_everything("it says which process has ended, and how");
        let (first, _) = counted(&server.get("/app/count").text());
        assert_eq!(server.get("/app/kill").status, 500);
        let (second, count) = counted(&server.get("/app/count").text());
        assert!(second != first && count == 1, "{first} {second} {count}");
        let hanging = server.get("/app/sleep");
        assert!([500, 503, 504].contains(&hanging.status), "{}", hanging.status);
        until("the hanging process is gone", || is_gone(second).then_some(()));
        assert_eq!(counted(&server.get("/app/count").text()).1, 1);
    }

    /// A touched script gets new processes.
    fn a_touched_script_is_loaded_again(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("threads=2"));
        let (first, _) = counted(&server.get("/app/count").text());
        change(&site.root.join("apps/work.wsgi"), &WORK.replace("%d %d", "%d 7%d"));
        let (second, count) = counted(&server.get("/app/count").text());
        assert!(second != first && count == 71, "{first} {second} {count}");
        until("the old process is gone", || is_gone(first).then_some(()));
    }

    /// The application learns that its client has gone, and its response is closed.
    fn clients_may_go(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &configuration("processes=1 threads=2"));
        server.allow_everything("whether a client that goes is worth a line depends on when it goes");
        let (process, _) = counted(&server.get("/app/count").text());
        let mut client = server.client();
        client.send(get("/app/endless"));
        client.bytes(100_000);
        client.reset();
        until("the response is closed", || site.root.join("apps/closed").exists().then_some(()));
        assert_eq!(counted(&server.get("/app/count").text()), (process, 2), "its process goes on");
    }
}

/// Processes end after their number of requests, and when nobody needs them.
#[test]
fn processes_end_as_configured() {
    let site = site();
    let server = Server::start(Mpm::Event, &site, &configuration("processes=1 threads=1 maximum-requests=3"));
    let seen: Vec<(i32, u32)> = (0..6).map(|_| counted(&server.get("/app/count").text())).collect();
    let counts: Vec<u32> = seen.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [1, 2, 3, 1, 2, 3], "{seen:?}");
    drop(server);
    let server = Server::start(Mpm::Event, &site, &configuration("processes=1 threads=2 inactivity-timeout=1"));
    let (process, _) = counted(&server.get("/app/count").text());
    until("the idle process is gone", || is_gone(process).then_some(()));
    assert_ne!(counted(&server.get("/app/count").text()).0, process);
}

/// Long bodies arrive whole, however they are read, and so do long files.
#[test]
fn long_bodies_arrive_whole() {
    let site = site();
    let body: String = (0..60_000).map(|number| format!("line {number} of a long body\n")).collect();
    site.file("apps/large", body.repeat(3));
    let server = Server::start(Mpm::Percore, &site, &configuration("threads=2"));
    let sum: usize = body.bytes().map(usize::from).sum();
    for way in ["all", "pieces", "lines", "line", "list", "short"] {
        let head = format!("POST /app/sum?{way} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut client = server.client();
        assert_eq!(client.request(head + &body).text(), format!("{} {sum}", body.len()), "{way}");
        // Nothing of the body is taken for a request.
        assert_eq!(client.get("/app/count").status, 200, "{way}");
    }
    let file = server.get("/app/file");
    assert_eq!((file.field("Content-Length"), file.body.len()), (Some(&*(3 * body.len()).to_string()), 3 * body.len()));
    assert!(file.body == body.repeat(3).into_bytes());
}

/// What an application prints is logged with the client of its request, and the interface is that of the standard.
#[test]
fn output_is_logged_and_the_interface_is_valid() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, &configuration("threads=2"));
    assert_eq!(server.get("/app/say").status, 200);
    for text in ["to standard output", "to standard error", "to the errors"] {
        let line = server.logged(text);
        assert!(line.contains("[client 127.") && line.contains("[wsgi:error]"), "{line}");
    }
    server.announce("] valid");
    assert_eq!(server.get("/app/valid").text(), "valid");
    server.logged("] valid");
}

/// A script is loaded when its processes start, before there is a request; and the server's page replaces that of an error.
#[test]
fn scripts_are_imported_and_errors_overridden() {
    let site = site();
    let text = "import os\nopen(__file__ + '.' + str(os.getpid()), 'w').close()\n\
        def application(environ, start_response):\n    start_response('404 Not Found', [])\n    return [str(os.getpid()).encode()]\n";
    site.file("apps/import.wsgi", text);
    let groups = "process-group=site application-group=%{GLOBAL}\n";
    let lines = format!(
        "WSGIScriptAlias /import ${{ROOT}}/apps/import.wsgi {groups}WSGIImportScript ${{ROOT}}/apps/import.wsgi {groups}\
         <Location /import/page>\nWSGIErrorOverride On\nErrorDocument 404 \"our page\"\n</Location>\n"
    );
    let server = Server::start(Mpm::Event, &site, &format!("{}{lines}", configuration("processes=1 threads=2")));
    let imported = || {
        let names = std::fs::read_dir(site.root.join("apps")).expect("directory").filter_map(Result::ok);
        names.filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("import.wsgi.")?.to_string())).next()
    };
    let process = until("the script is loaded", imported);
    assert_eq!(server.get("/import").text(), process, "the request is served by the process that has loaded it");
    assert_eq!(server.get("/import/page").text(), "our page");
}

/// A process that never rests ends all the same once it has served its requests, and finishes those it has.
#[test]
fn busy_processes_are_replaced() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, &configuration("processes=1 threads=3 maximum-requests=3"));
    server.allow_everything("it says which process has ended, and how");
    let mut client = server.client();
    client.send(get("/app/stream"));
    let mut received = String::new();
    while !received.ends_with("first") {
        received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
    }
    let first = counted(&server.get("/app/count").text()).0;
    until("another process", || Some(counted(&server.get("/app/count").text()).0).filter(|process| *process != first));
    assert!(!is_gone(first), "it serves its last request");
    site.file("apps/go", "");
    while !received.ends_with("second") {
        received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
    }
    until("the old process is gone", || is_gone(first).then_some(()));
}

/// However many requests wait for the only process, none is turned away before its time.
#[test]
fn requests_wait_for_their_turn() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, &configuration("processes=1 threads=1 listen-backlog=10"));
    let mut clients: Vec<_> = std::iter::repeat_with(|| server.client()).take(130).collect();
    clients.iter_mut().for_each(|client| client.send(get("/app/count")));
    let mut counts: Vec<u32> = clients.iter_mut().map(|client| counted(&client.response().text()).1).collect();
    counts.sort_unstable();
    assert!(counts.into_iter().eq(1..=130), "each is served once");
}

/// A child that stands still while it is given a process finds, when it goes on, that another child has the process by now: what
/// arrives from there is not for its client.
#[test]
fn a_response_reaches_only_its_own_client() {
    let site = site();
    site.file(
        "apps/slow.wsgi",
        "import os, time\nHERE = os.path.dirname(__file__)\ndef wait_for(name):\n    while not os.path.exists(HERE + '/' + name):\n        \
         time.sleep(0.005)\ndef application(environ, start_response):\n    name = environ['PATH_INFO'][1:]\n    \
         start_response('200 OK', [('Content-Type', 'text/plain')])\n    if name == 'own':\n        yield b'own'\n        return\n    \
         open(HERE + '/' + name + '-began', 'w').close()\n    wait_for(name)\n    yield b'of ' + name.encode()\n    \
         open(HERE + '/' + name + '-sent', 'w').close()\n    wait_for(name + '-end')\n    yield b', the end'\n",
    );
    site.file("htdocs/x.txt", "x");
    let lines = "WSGIScriptAlias /slow ${ROOT}/apps/slow.wsgi process-group=site\nLogFormat \"%P %U%q\" processes\n\
        CustomLog logs/processes processes\n<Location /status>\nSetHandler server-status\n</Location>\n\
        StartServers 5\nMinSpareServers 5\n";
    let server = Server::start(Mpm::Prefork, &site, &format!("{}{lines}", configuration("processes=1 threads=1")));
    let exists = |name: &str| until(name, || site.root.join("apps").join(name).exists().then_some(()));
    // A client, and the child that has its connection.
    let connect = |name: &str| {
        let mut client = server.client();
        client.send(format!("GET /x.txt?{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.response().text(), "x");
        let line = until("its child", || {
            let log = site.read("logs/processes");
            log.lines().find(|line| line.ends_with(&format!("?{name}"))).map(str::to_string)
        });
        let process = line.split(' ').next().and_then(|process| process.parse().ok()).and_then(Pid::new);
        (client, process.unwrap_or_else(|| panic!("{line}")))
    };
    let (mut first, _) = connect("first");
    first.send(get("/slow/first"));
    exists("first-began");
    let (mut stopped, child) = connect("stopped");
    stopped.send(get("/slow/own"));
    until("the question of the child", || {
        server.get("/status?auto").text().contains("BackendRequestsWaiting: 1").then_some(())
    });
    child.kill(Signal::STOP).expect("stop");
    for name in ["first", "first-end"] {
        site.file(format!("apps/{name}"), "");
    }
    assert_eq!(first.response().text(), "of first, the end");
    let (mut other, its_child) = connect("other");
    other.send(get("/slow/other"));
    exists("other-began");
    its_child.kill(Signal::STOP).expect("stop");
    site.file("apps/other", "");
    exists("other-sent");
    child.kill(Signal::CONT).expect("go on");
    until("its next question", || {
        server.get("/status?auto").text().contains("BackendRequestsWaiting: 1").then_some(())
    });
    its_child.kill(Signal::CONT).expect("go on");
    site.file("apps/other-end", "");
    assert_eq!((other.response().text(), stopped.response().text()), ("of other, the end".into(), "own".into()));
}
