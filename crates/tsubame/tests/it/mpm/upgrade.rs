//! `-k upgrade`: a new program takes the place of the running one.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sys::process::{Pid, program_file};
use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::{Start, is_gone, notify_socket};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::mpm::balanced::AGENT;
use crate::mpm::control::{Daemon, pid_of, said};
use crate::mpm::load::{Load, TEXT};

/// The program under a name of the site's own.
fn installed(site: &Site) -> PathBuf {
    let path = site.root.join("httpd");
    replace(&path, Path::new(env!("CARGO_BIN_EXE_tsubame")));
    path
}

/// Puts another file in the place of one, as a package does: the old one is not written to. A process of its own copies: a
/// file that is open for writing here, or in a process that another test has just forked, could not be run.
fn replace(path: &Path, with: &Path) {
    let new = path.with_extension("new");
    assert!(std::process::Command::new("cp").arg(with).arg(&new).status().expect("cp").success());
    std::fs::rename(new, path).expect("rename");
}

/// Runs the installed program with `-k` and a word.
fn control(site: &Site, mpm: Mpm, program: &Path, word: &str) -> (String, String, Option<i32>) {
    said(&Start::new(site, mpm).program(program).arguments(&["-k", word]).command().output().expect("run"))
}

/// Starts the installed program as a daemon.
fn started(site: &Site, mpm: Mpm, program: &Path) -> Pid {
    assert_eq!(control(site, mpm, program, "start"), (String::new(), String::new(), Some(0)));
    until("it listens", || TcpStream::connect(site.address()).ok());
    until("the pid file", || pid_of(site))
}

fn logged(site: &Site, part: &str) {
    until(part, || site.read("logs/error_log").contains(part).then_some(()));
}

under_every_mpm! {
    /// Programs take over again and again under load: no request fails, each has its predecessor's sockets, and nothing of the
    /// old ones is left.
    fn an_upgrade_loses_no_request(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, "MaxKeepAliveRequests 50");
        let program = installed(&site);
        let _guard = Daemon(&site);
        let mut running = started(&site, mpm, &program);
        let load = Load::start(site.address(), 4);
        for _ in 0..3 {
            load.goes_on(100);
            replace(&program, Path::new(env!("CARGO_BIN_EXE_tsubame")));
            let (output, errors, status) = control(&site, mpm, &program, "upgrade");
            let heir = pid_of(&site).expect("pid");
            assert_eq!(output, format!("httpd (pid {heir}) took over from pid {running}\n"));
            assert_eq!((errors.as_str(), status), ("", Some(0)));
            assert_eq!(program_file(heir).as_deref(), Some(&*program));
            let file = std::fs::read_link(format!("/proc/{heir}/exe")).expect("a file that is there");
            assert_eq!(file, program);
            load.goes_on(100);
            until("the old one has ended", || is_gone(running).then_some(()));
            running = heir;
        }
        assert_eq!(load.end(), Vec::<String>::new());
        assert!(!site.read("logs/error_log").contains("Unclean shutdown"));
        assert_eq!(control(&site, mpm, &program, "stop").2, Some(0));
        until("its end", || is_gone(running).then_some(()));
        assert!(!site.root.join("logs/pid").exists());
    }

    /// The old program finishes a long request while the new one serves all others; an idle connection is closed, or
    /// its client gets notice to close it.
    fn the_old_program_finishes_what_it_has(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, "");
        let program = installed(&site);
        let _guard = Daemon(&site);
        let old = started(&site, mpm, &program);
        let mut slow = Client::connect(site.address());
        slow.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n");
        assert_eq!(Client::connect(site.address()).get("/a.txt").status, 200);
        assert_eq!(control(&site, mpm, &program, "upgrade").2, Some(0));
        logged(&site, "serves: finishing requests");
        assert_eq!(Client::connect(site.address()).get("/a.txt").text(), TEXT);
        assert!(old.exists(), "it has a request to finish");
        slow.send("\r\n");
        assert_eq!(slow.response().text(), TEXT);
        slow.expect_end();
        drop(slow);
        until("the old one has ended", || is_gone(old).then_some(()));
    }

    /// A new program that fails changes nothing: the old one says how it ended, and serves on.
    fn a_broken_program_is_not_taken(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, "");
        let program = installed(&site);
        let _guard = Daemon(&site);
        let old = started(&site, mpm, &program);

        let broken = site.script("broken", "#!/bin/sh\necho it says why >&2\nexit 3\n");
        replace(&program, &broken);
        old.kill(Signal::USR2).expect("signal");
        logged(&site, "it says why");
        logged(&site, "ended with status 3 before it served: this one stays");
        std::fs::remove_file(&program).expect("remove");
        old.kill(Signal::USR2).expect("signal");
        logged(&site, "(2)No such file or directory: ");

        replace(&program, Path::new(env!("CARGO_BIN_EXE_tsubame")));
        site.configure(mpm, "Bogus on");
        let (_, errors, status) = control(&site, mpm, &program, "upgrade");
        assert!(errors.contains("Invalid command 'Bogus'"), "{errors}");
        assert_eq!(status, Some(1), "nothing is sent");
        old.kill(Signal::USR2).expect("signal");
        logged(&site, "Invalid command 'Bogus'");
        logged(&site, "ended with status 1 before it served");

        assert_eq!((pid_of(&site), Client::connect(site.address()).get("/a.txt").status), (Some(old), 200));
        site.configure(mpm, "");
        // From another directory, the installed program is started all the same, and a message says so.
        let elsewhere = Path::new(env!("CARGO_BIN_EXE_tsubame"));
        let (output, errors, status) = control(&site, mpm, elsewhere, "upgrade");
        assert!(output.contains("took over from pid"), "{output}");
        assert!(errors.contains(&format!("it runs {}, and not this program", program.display())), "{errors}");
        assert_eq!(status, Some(0));
        until("the old one has ended", || is_gone(old).then_some(()));
    }

    /// The new program has a pid file of another name: the old one's file is removed with it, without an error.
    fn the_pid_file_may_have_another_name(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, "");
        let program = installed(&site);
        let _guard = Daemon(&site);
        let old = started(&site, mpm, &program);
        site.configure(mpm, "PidFile logs/other");
        old.kill(Signal::USR2).expect("signal");
        until("the old one has ended", || is_gone(old).then_some(()));
        let heir = until("the pid file", || Pid::new(site.read("logs/other").trim().parse().ok()?));
        assert!(!site.root.join("logs/pid").exists());
        assert!(!site.read("logs/error_log").contains("Unclean shutdown"));
        assert_eq!(Client::connect(site.address()).get("/a.txt").status, 200);
        heir.kill(Signal::TERM).expect("signal");
        until("its end", || is_gone(heir).then_some(()));
    }

    /// The new program goes on to tell the watchdog that it lives, as the service manager now wants to hear from it.
    fn the_watchdog_follows(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, "");
        let program = installed(&site);
        let (notify, name) = notify_socket();
        let next = |wanted: &str| {
            let mut buffer = [0; 1000];
            let mut is_it = || {
                let length = notify.recv(&mut buffer).ok()?;
                String::from_utf8_lossy(&buffer[..length]).starts_with(wanted).then_some(())
            };
            until(wanted, &mut is_it);
        };
        let _guard = Daemon(&site);
        let itself = ["/bin/sh", "-c", "WATCHDOG_PID=$$; export WATCHDOG_PID; exec \"$@\"", "sh"].map(str::to_string);
        let start = Start::new(&site, mpm).program(&program).by(itself.into());
        let start = start.variable("NOTIFY_SOCKET", &name).variable("WATCHDOG_USEC", "30000000");
        let mut process = start.command().spawn().expect("start");
        next("WATCHDOG=1");
        assert_eq!(control(&site, mpm, &program, "upgrade").2, Some(0));
        next("MAINPID=");
        assert_eq!(process.wait().expect("wait").code(), Some(0));
        next("WATCHDOG=1");
    }

    /// Balancers hear the new program alone, while the old one still finishes a request.
    fn balancers_hear_the_new_program(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.script("slow", "#!/bin/sh\ntouch ../marks/began\nwhile [ -e ../hold ]; do sleep 0.02; done\necho\necho done\n");
        site.file("hold", "");
        let marks = site.root.join("marks");
        std::fs::create_dir(&marks).expect("directory");
        std::fs::set_permissions(&marks, PermissionsExt::from_mode(0o777)).expect("permissions");
        let more = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";
        site.configure(mpm, &format!("AgentListen {}:{AGENT}\n{more}", site.ip));
        let program = installed(&site);
        let _guard = Daemon(&site);
        let old = started(&site, mpm, &program);
        // Nothing where the old one closes its socket.
        let told = || {
            let mut line = String::new();
            let read = TcpStream::connect((site.ip, AGENT)).and_then(|mut agent| agent.read_to_string(&mut line));
            read.map_or_else(|_| String::new(), |_| line)
        };
        until("ready", || told().starts_with("ready up ").then_some(()));
        let mut slow = Client::connect(site.address());
        slow.send("GET /cgi/slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        until("the script", || marks.join("began").exists().then_some(()));
        assert_eq!(control(&site, mpm, &program, "upgrade").2, Some(0));
        // The old one's socket is gone once a balancer has come to it.
        let mut in_a_row = 0;
        until("the new one alone", || {
            let line = told();
            assert!(line.is_empty() || line.starts_with("ready up "), "{line}");
            in_a_row = if line.is_empty() { 0 } else { in_a_row + 1 };
            (in_a_row == 30).then_some(())
        });
        assert!(!is_gone(old));
        std::fs::remove_file(site.root.join("hold")).expect("hold");
        assert_eq!(slow.response().status, 200);
        until("the old one has ended", || is_gone(old).then_some(()));
    }

    /// What an administrator wants of balancers outlives the program.
    fn a_drain_goes_on(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, &format!("AgentListen {}:{AGENT}\n", site.ip));
        let program = installed(&site);
        let _guard = Daemon(&site);
        let old = started(&site, mpm, &program);
        assert_eq!(ctl(&site, &["drain"]).2, Some(0));
        assert_eq!(control(&site, mpm, &program, "upgrade").2, Some(0));
        until("the old one has ended", || is_gone(old).then_some(()));
        let told = || {
            let mut line = String::new();
            TcpStream::connect((site.ip, AGENT)).ok()?.read_to_string(&mut line).ok()?;
            Some(line).filter(|line| !line.is_empty())
        };
        assert_eq!(until("an answer", told), "drain\n");
        assert_eq!(ctl(&site, &["ready"]).2, Some(0));
        until("ready", || told().filter(|line| line.starts_with("ready up ")));
    }

    /// The service manager learns which process is the main one now, from the one that was.
    fn the_service_manager_follows(mpm: Mpm) {
        let site = Site::with([("a.txt", TEXT)]);
        site.configure(mpm, "");
        let program = installed(&site);
        let (notify, name) = notify_socket();
        let next = || {
            let mut buffer = [0; 1000];
            let length = until("a message", || notify.recv(&mut buffer).ok());
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let _guard = Daemon(&site);
        let start = Start::new(&site, mpm).program(&program).variable("NOTIFY_SOCKET", &name);
        let mut process = start.command().spawn().expect("start");
        assert!(next().contains("READY=1"));
        let old = until("the pid file", || pid_of(&site));
        assert_eq!(control(&site, mpm, &program, "upgrade").2, Some(0));
        let heir = pid_of(&site).expect("pid");
        assert!(next().contains("READY=1"));
        assert_eq!(next(), format!("MAINPID={heir}"));
        assert_eq!((process.wait().expect("wait").code(), heir == old), (Some(0), false));
        assert_eq!(Client::connect(site.address()).get("/a.txt").status, 200);
        heir.kill(Signal::TERM).expect("signal");
        assert!(next().contains("STOPPING=1"));
        until("its end", || is_gone(heir).then_some(()));
    }
}
