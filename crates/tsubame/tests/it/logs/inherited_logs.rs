//! `/dev/stderr` and the like are what the server was started with, also where that cannot be opened by a name: a socket, as
//! under systemd, or another user's file.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::server::{Start, notify_socket};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// A server whose output is the test's.
struct Running(Child);

impl Running {
    /// Starts it, and waits until it serves.
    fn start(start: &Start<'_>, output: impl Into<Stdio>, errors: impl Into<Stdio>) -> Running {
        let (notify, name) = notify_socket();
        let mut command = start.command();
        command.env("NOTIFY_SOCKET", name).stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut running = Running(command.spawn().expect("start"));
        let mut said = [0; 4096];
        until("the server serves", || {
            let status = running.0.try_wait().expect("wait");
            assert!(status.is_none(), "it ended with {status:?}");
            let length = notify.recv(&mut said).ok()?;
            String::from_utf8_lossy(&said[..length]).contains("READY=1").then_some(())
        });
        running
    }

    /// Ends it as an administrator would.
    fn stop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::new).expect("pid");
        pid.kill(Signal::TERM).expect("signal");
        assert!(self.0.wait().expect("wait").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has mostly ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server's end and the test's.
fn pair() -> (OwnedFd, UnixStream) {
    let (theirs, ours) = UnixStream::pair().expect("sockets");
    ours.set_read_timeout(Some(Duration::from_millis(20))).expect("timeout");
    (theirs.into(), ours)
}

/// Reads until a line has come.
fn wait_for(socket: &mut UnixStream, part: &str) -> String {
    let mut said = String::new();
    until(part, || {
        let mut buffer = [0; 4096];
        let length = socket.read(&mut buffer).unwrap_or(0);
        said.push_str(&String::from_utf8_lossy(&buffer[..length]));
        said.contains(part).then(|| said.clone())
    })
}

#[test]
fn sockets_get_lines() {
    let site = Site::with([("index.html", "hello\n")]);
    for names in [["/dev/stderr", "/dev/stdout"], ["/dev/fd/2", "/proc/self/fd/1"]] {
        let [errors, accesses] = names;
        site.configure(Mpm::Event, &format!("ErrorLog {errors}\nCustomLog {accesses} \"%U %>s\""));
        let ((error_end, mut errors), (access_end, mut accesses)) = (pair(), pair());
        let mut running = Running::start(&Start::new(&site, Mpm::Event), access_end, error_end);
        wait_for(&mut errors, "resuming normal operations");
        assert_eq!(Client::connect(site.address()).get("/index.html").status, 200);
        assert_eq!(wait_for(&mut accesses, "\n"), "/index.html 200\n");
        running.stop();
        wait_for(&mut errors, "caught SIGTERM, shutting down");
    }
}

/// A full socket blocks nothing: lines are dropped instead, and the server goes on.
#[test]
fn nobody_waits_for_a_socket_that_nobody_reads() {
    let site = Site::with([("index.html", "hello\n")]);
    let line = "x".repeat(4000);
    site.configure(
        Mpm::Percore,
        &format!("ErrorLog logs/error_log\nCustomLog /dev/stdout \"{line}\"\nMaxKeepAliveRequests 0"),
    );
    let (theirs, _ours) = pair();
    let mut running = Running::start(&Start::new(&site, Mpm::Percore), theirs, Stdio::null());
    let mut client = Client::connect(site.address());
    for _ in 0..400 {
        assert_eq!(client.get("/index.html").status, 200);
    }
    drop(client);
    running.stop();
}

#[test]
fn a_file_of_another_user_gets_lines() {
    if !needs::ROOT.is_there("a_file_of_another_user_gets_lines") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    let path = site.file("logs/roots", "before\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("mode");
    let file = std::fs::OpenOptions::new().append(true).open(&path).expect("file");
    site.configure(Mpm::Event, "ErrorLog /dev/stderr\nControlSocket none");
    std::fs::set_permissions(site.root.join("logs"), PermissionsExt::from_mode(0o777)).expect("mode");
    std::fs::create_dir_all(site.root.join("run")).expect("directory");
    std::fs::set_permissions(site.root.join("run"), PermissionsExt::from_mode(0o777)).expect("mode");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(String::from).to_vec();
    let mut running = Running::start(&Start::new(&site, Mpm::Event).by(nobody), Stdio::null(), file);
    running.stop();
    let text = site.read("logs/roots");
    assert!(text.starts_with("before\n") && text.contains("resuming normal operations"), "{text}");
}
