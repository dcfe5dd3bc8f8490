//! Starting, stopping and restarting: signals, `-k`, the pid file, the service manager.

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_every_mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::{Server, Start, children, is_gone, notify_socket};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

fn site() -> Site {
    Site::with([("index.html", "hello\n")])
}

/// The output of a command, and its exit status.
pub fn said(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// Runs the program with these arguments on the site's configuration.
fn run(site: &Site, mpm: Mpm, arguments: &[&str]) -> (String, String, Option<i32>) {
    said(&Start::new(site, mpm).arguments(arguments).command().arg0("httpd").output().expect("run"))
}

/// The parent that the pid file names.
pub fn pid_of(site: &Site) -> Option<Pid> {
    Pid::new(site.read("logs/pid").trim().parse().ok()?)
}

/// A server in the background; it ends with the test, however that ends.
pub struct Daemon<'a>(pub &'a Site);

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if let Some(pid) = pid_of(self.0).filter(|pid| pid.exists()) {
            for child in children(pid) {
                let _ = Pid::new(child).map(|child| child.kill(Signal::KILL));
            }
            let _ = pid.kill(Signal::KILL);
        }
    }
}

under_percore_and! { prefork:
    /// A service manager with a watchdog hears each second that the parent lives.
    fn the_watchdog_is_told(mpm: Mpm) {
        let site = site();
        site.configure(mpm, "");
        let mut server = Start::new(&site, mpm).variable("WATCHDOG_USEC", "30000000").run();
        for _ in 0..2 {
            until("a sign of life", || (server.notified() == "WATCHDOG=1").then_some(()));
        }
    }
}

under_every_mpm! {
    /// The service manager hears of everything.
    fn the_service_manager_is_notified(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, "");
        server.signal(Signal::USR1);
        let reloading = server.notified();
        assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
        let ready = server.notified();
        assert!(ready.contains("READY=1") && ready.contains("STATUS=Serving with "), "{ready}");
        server.signal(Signal::TERM);
        assert!(server.notified().contains("STOPPING=1"));
        assert_eq!(server.ends().code(), Some(0));
    }

    /// The pid file has the parent's number and a line end, everybody may read it, and it goes with the server.
    fn the_pid_file_names_the_parent(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, "");
        let path = site.root.join("logs/pid");
        assert_eq!(site.read("logs/pid"), format!("{}\n", server.pid()));
        assert_eq!(path.metadata().expect("pid file").permissions().mode() & 0o777, 0o644);
        for signal in [Signal::USR1, Signal::HUP] {
            server.restart(signal);
            assert_eq!(site.read("logs/pid"), format!("{}\n", server.pid()));
        }
        server.signal(Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
        assert!(!path.exists());
    }

    /// A stale pid file is overwritten, with a warning.
    fn a_stale_pid_file_is_overwritten(mpm: Mpm) {
        let site = site();
        site.file("logs/pid", "999999999\n");
        let server = Server::start(mpm, &site, "");
        server.announce("overwritten -- Unclean shutdown of previous Apache run?");
        assert_eq!(server.get("/").status, 200);
    }

    /// SIGTERM, SIGINT and SIGWINCH end the server; the log says only that.
    fn signals_end_the_server(mpm: Mpm) {
        for signal in [Signal::TERM, Signal::INT, Signal::WINCH] {
            let site = site();
            let mut server = Server::start(mpm, &site, "");
            assert_eq!(server.get("/").status, 200);
            server.signal(signal);
            assert_eq!(server.ends().code(), Some(0), "{signal:?}");
            assert!(!site.root.join("logs/pid").exists());
        }
    }

    /// A graceful stop lets a request end, and takes no new ones.
    fn a_graceful_stop_finishes_what_was_begun(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, "");
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
        assert_eq!(server.get("/").status, 200);
        server.signal(Signal::WINCH);
        until("the pid file is gone", || (!site.root.join("logs/pid").exists()).then_some(()));
        let refused = || std::net::TcpStream::connect(site.address()).is_err().then_some(());
        until("the listening sockets are closed", refused);
        client.send("\r\n");
        assert_eq!(client.response().status, 200);
        client.expect_end();
        drop(client);
        assert_eq!(server.ends().code(), Some(0));
    }

    /// A graceful stop does not wait for clients that might send another request.
    fn a_graceful_stop_closes_idle_connections(mpm: Mpm) {
        let site = site();
        let mut server = Server::start(mpm, &site, "KeepAliveTimeout 600");
        let mut client = server.client();
        assert_eq!(client.get("/").status, 200);
        server.signal(Signal::WINCH);
        client.expect_end();
        assert_eq!(server.ends().code(), Some(0));
    }

    /// Connections that wait to be accepted at a graceful stop are served, however often the stop is ordered.
    fn a_graceful_stop_serves_waiting_clients(mpm: Mpm) {
        let site = site();
        let one = "ServerLimit 1\nStartServers 1\nMaxRequestWorkers 1\nMinSpareServers 1\nMaxSpareServers 2";
        let mut server = Server::start(mpm, &site, if mpm.is_one_connection_a_process() { one } else { "" });
        let mut busy = server.client();
        assert_eq!(busy.get("/").status, 200);
        busy.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
        let mut waiting = server.client();
        waiting.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        server.signal(Signal::WINCH);
        let refused = || std::net::TcpStream::connect(site.address()).is_err().then_some(());
        until("the listening sockets are closed", refused);
        server.signal(Signal::WINCH);
        busy.send("\r\n");
        assert_eq!(busy.response().status, 200);
        drop(busy);
        assert_eq!(waiting.response().status, 200);
        drop(waiting);
        assert_eq!(server.ends().code(), Some(0));
    }

    /// A new configuration that has errors never stops a running server.
    fn a_broken_configuration_is_not_taken(mpm: Mpm) {
        for signal in [Signal::USR1, Signal::HUP] {
            let site = site();
            let mut server = Server::start(mpm, &site, "");
            let before = server.children();
            let mut kept = server.client();
            assert_eq!(kept.get("/").status, 200);
            site.configure(mpm, "Bogus on");
            server.restart(signal);
            server.announce("Syntax error on line 2 of");
            server.announce("Invalid command 'Bogus'");
            server.announce("the new configuration is not used");
            assert_eq!(kept.get("/").status, 200, "a connection that was open");
            assert_eq!(server.get("/").status, 200, "a new connection");
            assert!(before.is_subset(&server.children()), "nobody was ended");
            site.configure(mpm, "ErrorDocument 404 \"it was read\"");
            server.restart(signal);
            assert_eq!(server.get("/none").text(), "it was read");
        }
    }

    /// A restart reads the configuration anew: other files, other addresses.
    fn a_restart_takes_the_new_configuration(mpm: Mpm) {
        for signal in [Signal::USR1, Signal::HUP] {
            let site = site();
            site.file("other/index.html", "other\n");
            let mut server = Server::start(mpm, &site, "");
            assert_eq!(server.get("/").text(), "hello\n");
            site.configure(mpm, "DocumentRoot ${ROOT}/other");
            server.restart(signal);
            assert_eq!(server.get("/").text(), "other\n");
        }
    }

    /// `-k start` returns when the server runs, lets go of its output, and the other words tell the server what to do.
    fn the_command_line_controls_a_daemon(mpm: Mpm) {
        let site = site();
        site.configure(mpm, "");
        let _guard = Daemon(&site);
        // Both pipes are read to their end: a server that kept one open would hold us here.
        assert_eq!(run(&site, mpm, &["-k", "start"]), (String::new(), String::new(), Some(0)));
        let pid = until("the pid file", || pid_of(&site));
        let serves = || std::net::TcpStream::connect(site.address()).ok();
        until("it listens", serves);
        assert_eq!(Client::connect(site.address()).get("/").text(), "hello\n");
        let again = (format!("httpd (pid {pid}) already running\n"), String::new(), Some(0));
        assert_eq!(run(&site, mpm, &["-k", "start"]), again);

        let log = |part: &str| until(part, || site.read("logs/error_log").contains(part).then_some(()));
        assert_eq!(run(&site, mpm, &["-k", "graceful"]).2, Some(0));
        log("raceful restart");
        assert_eq!(run(&site, mpm, &["-k", "restart"]).2, Some(0));
        log("SIGHUP received.  Attempting to restart");
        assert_eq!(pid_of(&site), Some(pid));

        // With an error in the configuration nothing is sent.
        site.configure(mpm, "Bogus on");
        let (_, errors, status) = run(&site, mpm, &["-k", "stop"]);
        assert!(errors.contains("Invalid command 'Bogus'"), "{errors}");
        assert_eq!((status, pid.exists()), (Some(1), true));

        site.configure(mpm, "");
        assert_eq!(run(&site, mpm, &["-k", "stop"]), (String::new(), String::new(), Some(0)));
        until("its end", || is_gone(pid).then_some(()));
        assert!(!site.root.join("logs/pid").exists());
    }

    /// The messages of `-k` if no server runs.
    fn the_command_line_without_a_server(mpm: Mpm) {
        let site = site();
        site.configure(mpm, "");
        for word in ["stop", "graceful-stop"] {
            let said = ("httpd (no pid file) not running\n".to_string(), String::new(), Some(0));
            assert_eq!(run(&site, mpm, &["-k", word]), said);
            site.file("logs/pid", "999999999\n");
            let said = ("httpd (pid 999999999?) not running\n".to_string(), String::new(), Some(0));
            assert_eq!(run(&site, mpm, &["-k", word]), said);
            std::fs::remove_file(site.root.join("logs/pid")).expect("pid file");
        }
        for word in ["restart", "graceful"] {
            let _guard = Daemon(&site);
            let (output, errors, status) = run(&site, mpm, &["-k", word]);
            assert!(output.contains("httpd not running, trying to start\n"), "{output}");
            assert_eq!((errors.as_str(), status), ("", Some(0)));
            let pid = until("the pid file", || pid_of(&site));
            assert_eq!(run(&site, mpm, &["-k", "graceful-stop"]).2, Some(0));
            until("its end", || is_gone(pid).then_some(()));
        }
        assert_eq!(run(&site, mpm, &["-k", "nonsense"]).2, Some(1));
    }

    /// A socket from the service manager is used: clients that connected before the start are served.
    fn a_socket_of_the_service_manager_is_taken(mpm: Mpm) {
        let site = site();
        site.configure(mpm, "");
        let listener = TcpListener::bind(site.address()).expect("listen");
        let mut early = Client::connect(site.address());
        early.send(crate::harness::wire::get("/"));
        let program = env!("CARGO_BIN_EXE_tsubame");
        let (notify, name) = notify_socket();
        let mut process = std::process::Command::new("/bin/sh")
            .args(["-c", "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh", program])
            .args(["-d", site.path(), "-f", "conf/httpd.conf", "-DFOREGROUND"])
            .env("NOTIFY_SOCKET", name)
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .spawn()
            .expect("start");
        assert_eq!(early.response().text(), "hello\n");
        let mut buffer = [0; 1000];
        until("READY", || notify.recv(&mut buffer).ok());
        drop(early);
        let pid = i32::try_from(process.id()).ok().and_then(Pid::new).expect("pid");
        pid.kill(Signal::TERM).expect("signal");
        assert_eq!(process.wait().expect("wait").code(), Some(0));
        assert!(!site.read("logs/error_log").contains(":error"), "{}", site.read("logs/error_log"));
    }

    /// `-X`: no children, no daemon.
    fn one_process_serves_alone(mpm: Mpm) {
        let site = site();
        site.configure(mpm, "");
        let mut server = Start::new(&site, mpm).arguments(&["-X"]).run();
        assert_eq!(server.get("/").text(), "hello\n");
        assert_eq!(server.children().len(), 0);
        server.signal(Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
    }
}

/// An address that is taken is an error in Apache's words.
#[test]
fn a_taken_address_is_an_error() {
    let site = site();
    site.configure(Mpm::Percore, "");
    let _other = TcpListener::bind(site.address()).expect("listen");
    let (output, errors, status) = run(&site, Mpm::Percore, &["-DFOREGROUND"]);
    assert_eq!((output.as_str(), status), ("", Some(1)));
    let address = site.address();
    let expected = format!(
        "(98)Address already in use: AH00072: make_sock: could not bind to address {address}\n\
         no listening sockets available, shutting down\nAH00015: Unable to open logs\n      = port {} is held by ",
        address.port()
    );
    let holder = errors.strip_prefix(&expected).unwrap_or_else(|| panic!("{errors}"));
    assert!(holder.ends_with(&format!(" (pid {})\n", std::process::id())), "{errors}");
}

/// The program says in its messages the name it was called by.
#[test]
fn the_name_is_the_one_it_was_called_by() {
    let site = site();
    site.configure(Mpm::Percore, "<Directory \"x\">");
    for name in ["httpd", "apache2", "tsubame"] {
        let link = site.root.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tsubame"), &link).expect("link");
        let start = Start::new(&site, Mpm::Percore).program(&link).arguments(&["-t"]);
        let (_, errors, status) = said(&start.command().output().expect("run"));
        assert!(errors.starts_with(&format!("{name}: Syntax error on line 2 of ")), "{errors}");
        assert_eq!(status, Some(1));
    }
}

/// A daemon has no terminal and no open output: its descriptors 0 to 2 are the null device or its log.
#[test]
fn a_daemon_lets_go_of_everything() {
    let site = site();
    site.configure(Mpm::Percore, "");
    let _guard = Daemon(&site);
    let mut start = Start::new(&site, Mpm::Percore).arguments(&["-k", "start"]).command();
    let mut process = start.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    assert_eq!(process.wait().expect("wait").code(), Some(0));
    let mut text = String::new();
    process.stdout.take().expect("output").read_to_string(&mut text).expect("read");
    process.stderr.take().expect("output").read_to_string(&mut text).expect("read");
    assert_eq!(text, "");
    let pid = until("the pid file", || pid_of(&site));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    assert_eq!((fields[3], fields[4]), (pid.to_string().as_str(), "0"), "session and terminal: {stat}");
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).expect("cwd").to_str(), Some("/"));
}

/// The server refuses to start with `ChrootDir`, since it would serve without the restriction.
#[test]
fn another_root_is_refused() {
    if !needs::ROOT.is_there("another_root_is_refused") {
        return;
    }
    let site = site();
    site.configure(Mpm::Percore, "ChrootDir ${ROOT}");
    let (output, errors, status) = run(&site, Mpm::Percore, &["-DFOREGROUND"]);
    assert_eq!((output.as_str(), status), ("", Some(1)));
    assert!(errors.contains("httpd.conf:2: the server cannot change its root directory"), "{errors}");
    let (_, told, status) = run(&site, Mpm::Percore, &["-t"]);
    assert_eq!((told, status), (errors, Some(1)), "-t says what will not start");
}
