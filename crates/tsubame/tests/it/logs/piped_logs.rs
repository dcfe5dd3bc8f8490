//! Programs that read logs: their parent process, and the server after such a program dies or stops reading.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::descriptors::clients_of;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, Start, children, is_gone};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::mpm::control::{Daemon, pid_of, said};

/// One log, and its program.
const LOG: &str = "LogLevel crit core:error\nCustomLog \"|/bin/sh ${ROOT}/reader\" \"%q\"";

fn site() -> Site {
    let site = Site::with([("index.html", "hello\n")]);
    // It becomes the program that reads, so that there is one process.
    site.file("reader", format!("exec cat >> {}/logs/piped\n", site.path()));
    // With -X the server is not root when it starts a program again.
    let lines = site.file("logs/piped", "");
    std::fs::set_permissions(lines, std::fs::Permissions::from_mode(0o666)).expect("mode");
    site
}

/// The programs that read logs among the children of a process.
fn readers(parent: Pid) -> BTreeSet<i32> {
    let is_reader = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"cat\0");
    children(parent).into_iter().filter(is_reader).collect()
}

/// The one program that reads the log.
fn reader(parent: Pid) -> Pid {
    until("a program that reads", || {
        let readers = readers(parent);
        readers.first().filter(|_| readers.len() == 1).and_then(|pid| Pid::new(*pid))
    })
}

fn ask(site: &Site, query: &str) {
    assert_eq!(Client::connect(site.address()).get(&format!("/?{query}")).status, 200);
}

fn has(site: &Site, query: &str) {
    let line = format!("?{query}");
    until(&line, || site.read("logs/piped").lines().any(|have| have == line).then_some(()));
}

/// A program that is killed comes back as a child of the same process, and no line is lost.
fn comes_back(site: &Site, parent: Pid) {
    ask(site, "before");
    has(site, "before");
    let killed = reader(parent);
    killed.kill(Signal::KILL).expect("kill");
    until("another program", || {
        // Without a process that waits for children, the server checks them after it has served a request.
        ask(site, "meanwhile");
        readers(parent).into_iter().find(|pid| *pid != killed.number())
    });
    ask(site, "after");
    has(site, "meanwhile");
    has(site, "after");
}

under_percore_and! { prefork:
    /// Whichever way the server starts, its programs are children of the parent.
    fn programs_are_children_of_the_parent(mpm: Mpm) {
        for how in ["-DFOREGROUND", "-DNO_DETACH", "-X"] {
            let site = site();
            site.configure(mpm, LOG);
            let mut server = Start::new(&site, mpm).arguments(&[how]).run();
            assert_eq!(server.get("/").status, 200);
            until("the end of the connection", || clients_of(server.pid()).is_empty().then_some(()));
            server.count_descriptors();
            server.announce("AH00106: piped log program");
            comes_back(&site, server.pid());
        }
    }

    /// The same of a daemon, and after a graceful restart, and of the program that takes its place.
    fn programs_are_children_of_the_daemon(mpm: Mpm) {
        let site = site();
        site.configure(mpm, LOG);
        let _guard = Daemon(&site);
        let run = |words: &[&str]| said(&Start::new(&site, mpm).arguments(words).command().output().expect("run"));
        assert_eq!(run(&["-k", "start"]), (String::new(), String::new(), Some(0)));
        let parent = pid_of(&site).expect("it serves");
        comes_back(&site, parent);
        let first = reader(parent);
        assert_eq!(run(&["-k", "graceful"]).2, Some(0));
        until("the program of the new configuration", || {
            let readers = readers(parent);
            (readers.len() == 1 && !readers.contains(&first.number())).then_some(())
        });
        comes_back(&site, parent);
        assert_eq!(run(&["-k", "upgrade"]).2, Some(0));
        let heir = pid_of(&site).expect("it serves");
        assert_ne!(heir, parent);
        comes_back(&site, heir);
        assert_eq!(run(&["-k", "stop"]).2, Some(0));
        until("its end", || (!heir.exists()).then_some(()));
    }
}

under_percore_and! {
    prefork:

    /// A program that does not read blocks neither requests nor restarts nor stops; the loss is reported.
    fn a_program_that_does_not_read_stops_nobody(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, LOG);
        ask(&site, "before");
        has(&site, "before");
        let stopped = reader(server.pid());
        stopped.kill(Signal::STOP).expect("stop");
        // More than the pipe and every child together keep.
        let query = format!("/?{}", "x".repeat(8000));
        let mut client = server.client();
        until("lost lines", || {
            for _ in 0..50 {
                if client.get(&query).status != 200 {
                    panic!("it does not serve");
                }
            }
            client = server.client();
            server.log().contains("lines for '|/bin/sh").then_some(())
        });
        server.announce("are lost: they are not read fast enough");
        drop(client);
        server.restart(Signal::USR1);
        ask(&site, "anew");
        has(&site, "anew");
        server.signal(Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
        assert!(is_gone(stopped), "it takes no more lines, and does not end");
    }

    /// The same of the error log.
    fn an_error_log_that_is_not_read_stops_nobody(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, "ErrorLog \"|/bin/sh ${ROOT}/reader\"");
        let stopped = reader(server.pid());
        stopped.kill(Signal::STOP).expect("stop");
        // A message for each request.
        let request = format!("GET /../{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(8000));
        for _ in 0..400 {
            assert_eq!(server.client().request(&request).status, 400);
        }
        server.signal(Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
        assert!(is_gone(stopped), "it takes no more lines, and does not end");
    }
}

/// Lines longer than an atomic write to a pipe are cut: lines of several processes would be torn. The text after a long
/// item is still there, and JSON stays valid.
#[test]
fn long_lines_are_whole() {
    let site = site();
    let format = "%q %{A}i %>s";
    let logs = format!(
        "CustomLog \"|/bin/sh ${{ROOT}}/reader\" \"{format}\"\nCustomLog logs/file \"{format}\"\n\
         ErrorLog \"|/bin/sh ${{ROOT}}/errors\"\nCustomLog \"|/bin/sh ${{ROOT}}/objects\" json\n"
    );
    for name in ["errors", "objects"] {
        site.file(name, format!("exec cat >> {}/logs/{name}\n", site.path()));
    }
    let server = Server::start(Mpm::Prefork, &site, &logs);
    let slow = until("the program", || {
        let to = site.root.join("logs/piped");
        let writes = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/fd/1")).is_ok_and(|path| path == to);
        readers(server.pid()).into_iter().find(writes).and_then(Pid::new)
    });
    // The pipe is full now and then, in the middle of any line.
    slow.kill(Signal::STOP).expect("stop");
    let letters: Vec<String> = ('a'..='f').map(|letter| letter.to_string().repeat(4000)).collect();
    let mut clients: Vec<Client> = letters.iter().map(|_| server.client()).collect();
    for round in 0..60 {
        for (client, text) in clients.iter_mut().zip(&letters) {
            let response = client.request(format!("GET /?{text} HTTP/1.1\r\nHost: a\r\nA: {text}\r\n\r\n"));
            assert_eq!(response.status, 200);
        }
        if round == 50 {
            slow.kill(Signal::CONT).expect("go on");
        }
    }
    let bad = format!("GET /../{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(7000));
    assert_eq!(server.client().request(bad).status, 400);
    let count = 60 * letters.len() + 1;
    until("all lines", || (site.read("logs/piped").lines().count() == count).then_some(()));
    for line in site.read("logs/piped").lines() {
        let letter = line.chars().nth(1).unwrap_or_default();
        let cut = letter.to_string().repeat(1024);
        assert!(line == " - 400" || line == format!("?{cut}... {cut}... 200"), "{line}");
    }
    until("the file", || (site.read("logs/file").lines().count() == count).then_some(()));
    assert!(site.read("logs/file").contains(&format!("?{0} {0} 200\n", letters[0])), "files take it all");
    until("the objects", || (site.read("logs/objects").lines().count() == count).then_some(()));
    for line in site.read("logs/objects").lines() {
        assert!(line.len() < 4096 && line.starts_with('{') && line.ends_with('}'), "{line}");
    }
    let long = |line: &str| line.len() == 4095 && line.ends_with("xxx...");
    until("the error", || site.read("logs/errors").lines().any(long).then_some(()));
}

/// A log to a named pipe without a reader blocks nothing, not even the start.
#[test]
fn a_pipe_without_a_reader_stops_nobody() {
    let site = site();
    let made = std::process::Command::new("mkfifo").arg(site.root.join("logs/pipe")).status().expect("mkfifo");
    assert!(made.success());
    let server = Server::start(Mpm::Percore, &site, "CustomLog logs/pipe \"%q\"");
    let mut client = server.client();
    let query = format!("/?{}", "x".repeat(8000));
    for _ in 0..100 {
        assert_eq!(client.get(&query).status, 200);
    }
    server.allow("are lost: they are not read fast enough");
}

/// A program that ends as soon as it starts is started again, but less and less often.
#[test]
fn a_program_that_cannot_run_is_not_started_all_the_time() {
    let site = site();
    let server = Server::start(Mpm::Percore, &site, "CustomLog \"|/bin/false\" \"%q\"");
    for pause in ["in 1 s", "in 2 s", "in 4 s"] {
        server.logged(&format!("'/bin/false' failed unexpectedly: it is started again {pause}"));
    }
    ask(&site, "");
    server.allow("it is started again in");
    server.allow("lines for '|/bin/false' are lost");
}

/// A program has died, and its pause has not passed when the server stops: the lines that wait are delivered.
#[test]
fn lines_for_a_program_between_two_lives_are_delivered_at_the_stop() {
    let site = site();
    let root = site.path();
    site.file("reader", format!("[ -e {root}/logs/died ] && exec cat >> {root}/logs/piped\n: > {root}/logs/died\n"));
    let made = std::fs::set_permissions(site.root.join("logs"), std::fs::Permissions::from_mode(0o777));
    made.expect("mode");
    let mut server = Server::start(Mpm::Percore, &site, LOG);
    server.logged("failed unexpectedly: it is started again in 1 s");
    ask(&site, "waits");
    server.signal(Signal::TERM);
    assert_eq!(server.ends().code(), Some(0));
    assert_eq!(site.read("logs/piped"), "?waits\n");
}

/// A program that neither reads nor ends is ended with the server, and its lines are counted.
#[test]
fn a_program_that_ignores_its_input_ends_with_the_server() {
    let site = site();
    site.file("reader", format!("trap '' TERM\necho $$ > {}/logs/piped\nexec sleep 1000\n", site.path()));
    let mut server = Server::start(Mpm::Percore, &site, LOG);
    let reader = until("the program", || site.read("logs/piped").trim().parse().ok().and_then(Pid::new));
    ask(&site, "one");
    ask(&site, "two");
    server.announce("2 lines for '|/bin/sh");
    server.signal(Signal::TERM);
    assert_eq!(server.ends().code(), Some(0));
    assert!(is_gone(reader));
}

/// The command lines of programs are split as Apache splits them: each tells its arguments.
#[test]
fn arguments_are_those_of_apache() {
    if !oracle::is_there("arguments_are_those_of_apache") {
        return;
    }
    // The words of the configuration file have an escape of their own.
    let lines = [
        ("|", r"a\ b c"),
        ("|", r"a\b a\\\\b"),
        ("|", r#"\"a b\"c 'd e'f"#),
        ("|", r#"a\"b 'c\"d'"#),
        ("|", r"'it\\'s' '' x"),
        ("|", r"'a\\\\' b'"),
        ("|", r"  a   b  "),
        ("|", r"a\\"),
        ("||", r"a\ b 'c d'"),
        ("|$", r#"a\ b 'c d' $((1 + 1)) \"e f\""#),
    ];
    let configuration: String = (0..)
        .zip(lines)
        .map(|(number, (pipe, line))| format!("CustomLog \"{pipe}${{ROOT}}/tell {number} {line}\" x\n"))
        .collect();
    let told = |start: &dyn Fn(&Site)| {
        let site = Site::with([("index.html", "hello\n")]);
        let text = format!(
            "#!/bin/sh\nprintf '[%s]' \"$@\" > {0}/logs/$1.new\nmv {0}/logs/$1.new {0}/logs/$1\nexec cat > /dev/null\n",
            site.path()
        );
        let program = site.file("tell", text);
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("mode");
        start(&site);
        (0..lines.len()).map(|number| site.read(&format!("logs/{number}"))).collect::<Vec<_>>()
    };
    let wait = |site: &Site| {
        for (number, (pipe, line)) in lines.iter().enumerate() {
            let path = site.root.join(format!("logs/{number}"));
            until(&format!("the arguments of {pipe}{line}"), || path.exists().then_some(()));
        }
    };
    let theirs = told(&|site| {
        let _apache = Apache::start(site, &configuration);
        wait(site);
    });
    let ours = told(&|site| {
        let _server = Server::start(Mpm::Event, site, &configuration);
        wait(site);
    });
    assert_eq!(ours, theirs);
}
