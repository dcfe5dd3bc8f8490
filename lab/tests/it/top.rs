//! `top` without a terminal, beside a server with a scripted status page and a load on it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, LocalModes, Winsize, tcflow, tcgetattr, tcsetwinsize};
use serde_json::Value;

/// Has served a hundred more requests at each look at its page; any other page is missing.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    let answer = |mut stream: TcpStream, looks: &AtomicU64| {
        let mut lines = BufReader::new(stream.try_clone().expect("the same")).lines().map_while(Result::ok);
        while let Some(first) = lines.next() {
            let is_last = lines.by_ref().take_while(|line| !line.is_empty()).any(|line| line == "Connection: close");
            let is_status = first.starts_with("GET /server-status?auto ");
            let requests = 100 * looks.fetch_add(u64::from(is_status), Relaxed);
            let page = format!(
                "ServerMPM: event\nBusyWorkers: 2\nIdleWorkers: 1\nTotal Accesses: {requests}\nScoreboard: WK_.\n"
            );
            let status = if is_status { "200 OK" } else { "404 Not Found" };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", page.len());
            if stream.write_all((head + &page).as_bytes()).is_err() || is_last {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        let looks = Arc::new(AtomicU64::new(0));
        for stream in listener.incoming() {
            let (stream, looks) = (stream.expect("a connection"), Arc::clone(&looks));
            std::thread::spawn(move || answer(stream, &looks));
        }
    });
    address
}

/// A directory for the bulletins of loads.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tsubame-lab-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.0).env("TMPDIR", &self.0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the laboratory")
    }

    fn top(&self, url: &str, more: &[&str]) -> String {
        let arguments = [&["top", "--interval", "200ms", "--url", url], more].concat();
        let Output { status, stdout, stderr } = self.start(&arguments).wait_with_output().expect("its end");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).expect("text")
    }

    fn json(&self, url: &str) -> Value {
        serde_json::from_str(&self.top(url, &["--json"])).expect("JSON")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_server_and_its_machine_are_seen() {
    let (address, place) = (serve(), TestDirectory::new("top"));
    let seen = place.json(&address.to_string());
    assert_eq!(seen["page"]["status"]["scoreboard"], "WK_.", "{seen}");
    // The number depends on how late the looks were.
    assert!(seen["page"]["traffic"]["requests"].as_f64() > Some(1.0), "{seen}");
    assert!(seen["machine"]["cores"].as_array().is_some_and(|cores| !cores.is_empty()), "{seen}");
    let own = u64::from(std::process::id());
    let processes = seen["processes"]["list"].as_array().expect("the processes of this test");
    assert!(processes.iter().any(|process| process["pid"] == own && process["role"] == "parent"), "{seen}");
    let text = place.top(&address.to_string(), &[]);
    for told in
        ["cpu  [", "workers  2 busy  1 idle  4 max", "\nWK_.\n_ waiting 1   W sending 1   K keep-alive 1   . free 1\n"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn other_pages_than_a_status_page_are_reported() {
    let (address, place) = (serve(), TestDirectory::new("page"));
    let text = place.top(&format!("{address}/other"), &[]);
    assert!(text.contains("answers 404") && text.contains("--url") && text.contains("cpu  ["), "{text}");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").to_string();
    let seen = place.json(&free);
    assert!(seen["page"]["problem"].as_str().is_some_and(|why| why.contains("start the server")), "{seen}");
    assert_eq!(seen["processes"], Value::Null);
}

#[test]
fn a_load_shows_up_by_itself_and_leaves_nothing() {
    let (address, place) = (serve(), TestDirectory::new("load"));
    let url = format!("http://{address}/x");
    let load = place.start(&["load", &url, "-c", "2", "-d", "60s"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    let seen = loop {
        let seen = place.json(&address.to_string());
        if seen["loads"].as_array().is_some_and(|loads| !loads.is_empty()) {
            break seen;
        }
        assert!(Instant::now() < deadline, "the load is not seen: {seen}");
    };
    let told = &seen["loads"][0];
    assert_eq!((&told["pid"], &told["url"]), (&load.id().into(), &url.as_str().into()));
    assert!(told["latest"]["answers"].as_u64() > Some(0) && told["latest"]["p99_us"].as_u64() > Some(0), "{told}");
    assert!(Command::new("kill").args(["-INT", &load.id().to_string()]).status().expect("kill").success());
    let said = load.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("Latency in milliseconds"), "an interrupted load tells what it has: {text}");
    let left = |path: &Path| std::fs::read_dir(path).expect("a directory").count();
    assert_eq!(left(&place.0), 0, "files are left");
}

/// When the terminal goes, so does the picture: no processor is busy with a terminal that nobody has.
#[test]
fn it_ends_with_its_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("not tried: script is not installed (apt-get install bsdutils)");
        return;
    }
    for signal in ["KILL", "TERM"] {
        let place = TestDirectory::new(&format!("terminal-{signal}"));
        let pid = place.0.join("pid");
        let program = env!("CARGO_BIN_EXE_tsubame-lab");
        let shell = format!("echo $$ >{}; exec {program} top --url http://{}/server-status", pid.display(), serve());
        let mut terminal = Command::new("script")
            .args(["-qec", &shell, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a terminal");
        // It has begun to draw.
        let mut drawn = terminal.stdout.take().expect("its output");
        let mut seen = Vec::new();
        while seen.len() < 100 {
            let mut piece = [0; 4096];
            match drawn.read(&mut piece).expect("a picture") {
                0 => break,
                count => seen.extend_from_slice(&piece[..count]),
            }
        }
        let number = std::fs::read_to_string(&pid).expect("a process").trim().to_string();
        let target = if signal == "KILL" { terminal.id().to_string() } else { number.clone() };
        assert!(Command::new("kill").args([&format!("-{signal}"), &target]).status().expect("kill").success());
        let stat = Path::new("/proc").join(&number).join("stat");
        // Nobody may wait for it: then its record stays (proc(5), state Z).
        let is_there = || std::fs::read_to_string(&stat).is_ok_and(|line| !line.contains(") Z "));
        let begin = Instant::now();
        while is_there() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{signal}: it is still there");
            std::thread::yield_now();
        }
        let _ = terminal.kill();
        let _ = terminal.wait();
    }
}

/// A terminal: the side of a user, and that of programs.
fn terminal() -> (File, File) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&user).and_then(|()| unlockpt(&user)).expect("its other side");
    let name = ptsname(&user, Vec::new()).expect("its name");
    let programs = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("its other side");
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&programs, size).expect("a size");
    (user.into(), programs.into())
}

/// Whether the tests run under `nohup`, which lets a program continue without its terminal.
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("our status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a mask of signals");
    u64::from_str_radix(ignored, 16).expect("a mask") & 1 == 1
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "in vain: {what}");
        std::thread::yield_now();
    }
}

/// A signal ends it, and leaves the terminal as it was, also one that takes no output: then the picture is held up in
/// a write.
#[test]
fn a_signal_restores_the_terminal() {
    let server = serve().to_string();
    let signals = [Signal::TERM, Signal::INT, Signal::HUP].into_iter();
    for signal in signals.filter(|signal| *signal != Signal::HUP || !hang_ups_are_ignored()) {
        for is_stopped in [false, true] {
            let (mut user, programs) = terminal();
            let modes = || tcgetattr(&programs).expect("modes").local_modes;
            let before = modes();
            let other = || Stdio::from(programs.as_fd().try_clone_to_owned().expect("the same terminal"));
            let mut top = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"))
                .args(["top", "--interval", "100ms", "--url", &server])
                .env("TERM", "xterm")
                .stdin(other())
                .stdout(other())
                .stderr(Stdio::null())
                .spawn()
                .expect("the laboratory");
            let pid = Pid::from_child(&top);
            let mut drawn = Vec::new();
            while drawn.len() < 1000 {
                let mut piece = [0; 4096];
                let length = user.read(&mut piece).expect("a picture");
                drawn.extend_from_slice(&piece[..length]);
            }
            assert!(!modes().contains(LocalModes::ICANON), "keys are read at once");
            if is_stopped {
                tcflow(&programs, Action::OOff).expect("a terminal that stops");
                // The number of a system call, then its first argument: standard output.
                let call = format!("/proc/{}/syscall", top.id());
                let call =
                    || std::fs::read_to_string(&call).expect("what it is doing (as its parent, we may see that)");
                until("a write that does not end", || call().split(' ').nth(1) == Some("0x1"));
            }
            kill_process(pid, signal).expect("a signal");
            until("its end", || top.try_wait().expect("its state").is_some());
            assert_eq!(modes(), before, "{signal:?} {is_stopped}");
            drop(programs);
            let mut rest = Vec::new();
            // A terminal without programs ends with an error.
            let _ = user.read_to_end(&mut rest);
            let has_left = String::from_utf8_lossy(&rest).contains("\x1b[?1049l");
            assert!(has_left || is_stopped, "{signal:?}: the picture stays");
        }
    }
}
