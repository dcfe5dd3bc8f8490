//! Small runs, from outside: interrupted by both signals, continued, and refused under other settings; and two
//! configurations compared.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_tsubame-lab");

/// A directory that is removed with this value.
pub(crate) struct TestDirectory(PathBuf);

impl TestDirectory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tsubame-lab-{name}-{}", std::process::id()));
        for name in ["scratch", "out"] {
            std::fs::create_dir_all(path.join(name)).expect("a directory");
        }
        Self(path)
    }

    fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// Where a run may keep its files.
    pub(crate) fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    fn results(&self) -> Value {
        let text = std::fs::read_to_string(self.out().join("results.json")).expect("results");
        serde_json::from_str(&text).expect("JSON")
    }

    /// One round of an experiment, of this many seconds.
    pub(crate) fn experiment(&self, arguments: &[&str], seconds: &str) -> Command {
        let tsubame = Path::new(LAB).with_file_name("tsubame");
        assert!(tsubame.exists(), "cargo build -p tsubame");
        let mut command = Command::new(LAB);
        command.arg("run").args(arguments).args(["--rounds", "1", "--seconds", seconds, "--tsubame"]).arg(tsubame);
        command.env("TMPDIR", self.scratch()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// The floor and tsubame's event.
    fn run(&self, seconds: &str) -> Child {
        let arguments = ["event-vs-worker", "--workloads", "threads-close", "--subjects", "tsubame-event", "--out"];
        let mut command = self.experiment(&[&arguments[..], &[&self.out().to_string_lossy()]].concat(), seconds);
        command.spawn().expect("the laboratory")
    }

    /// The directories in /proc of the processes that work in the scratch directory: servers.
    pub(crate) fn servers(&self) -> Vec<PathBuf> {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten().map(|process| process.path());
        let is_here =
            |path: &PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.scratch()));
        processes.filter(is_here).collect()
    }

    fn await_server(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.servers().is_empty() {
            assert!(Instant::now() < deadline, "no server was started");
            std::thread::yield_now();
        }
    }

    /// Asserts that a run with that number has removed everything.
    pub(crate) fn assert_clean(&self, pid: u32, when: &str) {
        assert!(self.servers().is_empty(), "{when}: servers are left");
        assert_eq!(std::fs::read_dir(self.scratch()).expect("a directory").count(), 0, "{when}: files are left");
        assert!(groups_of(pid).is_empty(), "{when}: control groups are left");
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads until the measurement of that number begins.
pub(crate) fn await_step(child: &mut Child, step: &str) -> BufReader<std::process::ChildStderr> {
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut all = String::new();
    while !all.lines().any(|line| line.starts_with(step)) {
        assert_ne!(said.read_line(&mut all).expect("text"), 0, "it ended before {step}: {all}");
    }
    said
}

pub(crate) fn interrupt(
    mut child: Child,
    mut said: BufReader<impl std::io::Read>,
    signal: &str,
) -> (ExitStatus, String) {
    let id = child.id().to_string();
    // Twice, as `timeout` sends it.
    assert!(Command::new("kill").args([signal, &id, &id]).status().expect("kill").success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    (child.wait().expect("its end"), rest)
}

fn groups_of(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("tsubame-lab.{pid}.");
    let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    found.push(entry.path());
                }
                left.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn an_interrupted_run_leaves_nothing_behind_and_goes_on() {
    let place = TestDirectory::new("runs");

    // The floor is interrupted by one of them, tsubame by the other.
    for (signal, step, kept) in [("-INT", "[1/2]", 0), ("-TERM", "[2/2]", 1)] {
        let mut child = place.run("1");
        let pid = child.id();
        let said = await_step(&mut child, step);
        place.await_server();
        let (status, rest) = interrupt(child, said, signal);
        assert_eq!(status.code(), Some(1), "{signal}: {rest}");
        assert!(rest.contains("the run was interrupted"), "{rest}");
        place.assert_clean(pid, signal);
        if kept > 0 {
            assert_eq!(place.results()["samples"].as_array().map(Vec::len), Some(kept), "{signal}");
            assert_eq!(place.results()["failures"].as_array().map(Vec::len), Some(0), "{signal}");
        }
    }

    let first = place.results()["samples"][0].clone();
    let done = place.run("1").wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("1 measurements of this run already"), "{said}");
    let results = place.results();
    assert_eq!(results["experiment"], "event-vs-worker");
    assert_eq!(results["samples"][0], first, "what was measured is not measured again");
    let subjects: Vec<&str> = results["samples"]
        .as_array()
        .expect("samples")
        .iter()
        .map(|sample| {
            assert!(sample["measure"]["requests"].as_u64() > Some(0), "{sample}");
            assert!(sample["measure"]["server_cpu_seconds"].as_f64() > Some(0.0), "{sample}");
            let intervals = sample["measure"]["intervals"].as_array().expect("intervals");
            assert!(intervals.len() >= 3 && intervals.iter().any(|it| it["answers"].as_f64() > Some(0.0)), "{sample}");
            let machine = sample["measure"]["averages"]["machine"].as_object().expect("averages of the machine");
            let all: f64 = machine.values().filter_map(Value::as_f64).sum();
            assert!((99.0..101.0).contains(&all), "{sample}");
            sample["subject"].as_str().expect("a name")
        })
        .collect();
    assert_eq!(subjects, ["floor", "tsubame-event"]);
    let configuration = &results["subjects"][1]["configurations"][0]["files"][0][1];
    assert!(configuration.as_str().is_some_and(|text| text.contains("ThreadsPerChild")), "{configuration}");
    let page = std::fs::read_to_string(place.0.join("out/report.html")).expect("a page");
    assert!(page.contains("The same as fast as ab can, without keep-alive") && page.contains("answers/s"), "{page}");
    for name in ["raw.csv", "setup.txt", "report.md"] {
        assert!(place.0.join("out").join(name).exists(), "{name}");
    }

    let refused = place.run("2").wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("seconds then: 1; now: 2"), "{said}");
}

#[test]
fn two_configurations_are_compared_and_their_servers_gone() {
    let place = TestDirectory::new("compare");
    let write = |name: &str, text: String| std::fs::write(place.0.join(name), text).expect("a file");
    write("index.html", "hello".to_owned());
    // Both use the same port, so they cannot run at the same time.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let here = place.0.display();
    for (name, more) in [("a.conf", ""), ("b.conf", "MaxKeepAliveRequests 1\n"), ("broken.conf", "Nonsense on\n")] {
        let text = format!(
            "ServerRoot {here}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {here}/pid\n\
             ErrorLog {here}/error.log\nDocumentRoot {here}\n{more}"
        );
        write(name, text);
    }
    let compare = |a: &str, b: &str| {
        let tsubame = Path::new(LAB).with_file_name("tsubame");
        Command::new(LAB)
            .args(["compare", "--json", "-d", "100ms", "-c", "2", "--rounds", "2", "--path", "/index.html", "--server"])
            .arg(tsubame)
            .args(["--", a, b])
            .current_dir(&place.0)
            .env("TMPDIR", place.scratch())
            .output()
            .expect("the laboratory")
    };

    let output = compare("a.conf", "b.conf");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let order: Vec<&str> = said.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(order, ["[1/2] a.conf", "[1/2] b.conf", "[2/2] b.conf", "[2/2] a.conf"]);
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["failures"], serde_json::json!([0, 0]), "{results}");
    let rates = &results["figures"][1];
    assert_eq!(rates["name"], "answers per second");
    assert!(rates["a"].as_array().is_some_and(|rounds| rounds.len() == 2), "{results}");

    let output = compare("broken.conf", "b.conf");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Invalid command 'Nonsense'"), "{said}");
    let said = String::from_utf8_lossy(&compare("a.conf", "none.conf").stderr).into_owned();
    assert!(said.contains("a.conf is a file and none.conf is not"), "{said}");

    assert!(place.servers().is_empty(), "servers are left");
    assert_eq!(std::fs::read_dir(place.scratch()).expect("a directory").count(), 0, "files are left");
}
