//! `top` without a terminal, beside a server with a scripted status page and a load on it.

#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

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
struct Place(PathBuf);

impl Place {
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

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_server_and_its_machine_are_seen() {
    let (address, place) = (serve(), Place::new("top"));
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
    let (address, place) = (serve(), Place::new("page"));
    let text = place.top(&format!("{address}/other"), &[]);
    assert!(text.contains("answers 404") && text.contains("--url") && text.contains("cpu  ["), "{text}");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").to_string();
    let seen = place.json(&free);
    assert!(seen["page"]["problem"].as_str().is_some_and(|why| why.contains("start the server")), "{seen}");
    assert_eq!(seen["processes"], Value::Null);
}

#[test]
fn a_load_shows_up_by_itself_and_leaves_nothing() {
    let (address, place) = (serve(), Place::new("load"));
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
        let place = Place::new(&format!("terminal-{signal}"));
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
