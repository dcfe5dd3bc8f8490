//! A small search with a real Apache, from outside: it leaves a configuration that Apache accepts, and nothing else.
//! Needs root.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_tsubame-lab");

/// Debian's modules of Apache, which these tests need.
const MODULES: &str = "/usr/lib/apache2/modules";

/// A site with a configuration in two files; it is removed with this value.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tsubame-lab-{name}-{}", std::process::id()));
        for name in ["scratch", "www"] {
            std::fs::create_dir_all(path.join(name)).expect("a directory");
        }
        let place = Self(path);
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let here = place.0.display();
        let main = format!(
            "ServerRoot {here}\nServerName localhost\nLoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
             LoadModule authz_core_module {MODULES}/mod_authz_core.so\nUser www-data\nGroup www-data\n\
             Listen 127.0.0.1:{port}\nPidFile {here}/httpd.pid\nErrorLog {here}/error.log\nDocumentRoot {here}/www\n\
             Include mpm/*.conf\n"
        );
        place.write("www/index.html", "hello");
        place.write("httpd.conf", &main);
        std::fs::create_dir(place.0.join("mpm")).expect("a directory");
        place.write("mpm/event.conf", "StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 50\n");
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("a file");
    }

    fn tune(&self, more: &[&str]) -> Child {
        self.tune_of("httpd.conf", "apache2", more)
    }

    fn tune_of(&self, configuration: &str, server: &str, more: &[&str]) -> Child {
        // The process that runs the tests may ignore SIGHUP.
        Command::new("env")
            .args(["--default-signal=HUP", LAB])
            .args(["tune", configuration, "--server", server, "--path", "/index.html", "-c", "8", "-d", "100ms"])
            .args(["--warm-up", "20ms", "--out", "out"])
            .args(more)
            .current_dir(&self.0)
            .env("TMPDIR", self.0.join("scratch"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the laboratory")
    }

    /// Nothing may be left: neither server, nor files, nor a changed configuration.
    fn is_as_before(&self) {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let is_here = |path: PathBuf| std::fs::read_link(path).is_ok_and(|cwd| cwd.starts_with(&self.0));
        assert_eq!(processes.filter(|process| is_here(process.path().join("cwd"))).count(), 0, "servers are left");
        assert_eq!(std::fs::read_dir(self.0.join("scratch")).expect("a directory").count(), 0, "files are left");
        assert!(!self.0.join("httpd.pid").exists(), "the server's own file was written");
        let kept = std::fs::read_to_string(self.0.join("mpm/event.conf")).expect("a file");
        assert!(kept.contains("MaxRequestWorkers 50"), "{kept}");
    }

    fn findings(&self) -> Value {
        let text = std::fs::read_to_string(self.0.join("out/tune.json")).expect("findings");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_search_ends_with_a_verdict_and_with_settings_that_apache_accepts() {
    let place = TestDirectory::new("tune");
    let output = place.tune(&["--budget", "10s", "--rounds", "2"]).wait_with_output().expect("its end");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("event: answers per second") && text.contains("Measured in turn"), "{text}");
    place.is_as_before();

    let findings = place.findings();
    assert_eq!(
        findings["present"],
        serde_json::json!({
            "mpm": "event", "first": 2, "children": 2, "threads": 25, "connections": 150
        })
    );
    assert!(findings["memory"]["child_kib"].as_u64() > Some(0), "{findings}");
    let tried = findings["tried"].as_array().expect("what was tried");
    let measured = tried.iter().filter(|one| one["measurements"][0]["answers"].as_u64() > Some(0)).count();
    // Their number depends on the other load of the machine; the search waits for quiet.
    assert!(measured > 2, "{findings}");
    let best = tried.iter().find(|one| !one["setting"].is_null()).expect("a setting");
    let seen = best["measurements"][0]["processes"].as_u64();
    assert_eq!(seen, best["comes_to"]["children"].as_u64().map(|children| children + 1), "{best}");

    let page = std::fs::read_to_string(place.0.join("out/tune.html")).expect("a page");
    assert!(page.contains("tile best"), "{page}");
    let mut reader = quick_xml::Reader::from_str(page.trim_start_matches("<!DOCTYPE html>"));
    while !matches!(reader.read_event().expect("every element is closed"), quick_xml::events::Event::Eof) {}

    // Such a short search may prove either result, which decides whether there is anything to write.
    let fragment = place.0.join("out/fragment.conf");
    assert_eq!(fragment.exists(), findings["outcome"] == "change", "{findings}");
    if fragment.exists() {
        place.write("mpm/event.conf", &std::fs::read_to_string(&fragment).expect("a fragment"));
        let check = Command::new("/usr/sbin/apache2").args(["-t", "-f"]).arg(place.0.join("httpd.conf")).output();
        let check = check.expect("apache2");
        assert!(check.status.success(), "{}", said(&check));
    }
}

/// nginx looks for includes beside a copy, so there are links to the user's files. Nothing is written through them.
#[test]
fn files_beside_a_configuration_of_nginx_stay_as_they_are() {
    let place = TestDirectory::new("tune-nginx");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let here = place.0.display();
    place.write("pages.inc", &format!("listen 127.0.0.1:{port};\nroot {here}/www;\n"));
    place.write(
        "nginx.conf",
        &format!(
            "error_log {here}/error.log;\npid {here}/own.pid;\nevents {{}}\nhttp {{ access_log off; server {{ include pages.inc; }} }}\n"
        ),
    );
    let names = ["present.conf", "candidate.conf", "pid", "pages.inc", "nginx.conf"];
    names[..3].iter().for_each(|name| place.write(name, "mine\n"));
    let before = names.map(|name| std::fs::read_to_string(place.0.join(name)).expect("a file"));
    // A machine with other work may need long for a few measurements, so the search ends when some are there.
    let child = place.tune_of("nginx.conf", "nginx", &["--budget", "10m"]);
    let (_, text) = interrupted(child, "[3/");
    assert!(text.contains("Nothing is proved (it was interrupted)"), "{text}");
    assert_eq!(names.map(|name| std::fs::read_to_string(place.0.join(name)).expect("a file")), before, "{text}");
    assert_eq!(std::fs::read_dir(place.0.join("scratch")).expect("a directory").count(), 0, "files are left");
}

/// Interrupts a search once it has printed a line that begins with `at`. Its end, and all that it printed.
fn interrupted(mut child: Child, at: &str) -> (Output, String) {
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut all = String::new();
    while !all.lines().any(|line| line.starts_with(at)) {
        assert_ne!(lines.read_line(&mut all).expect("text"), 0, "it ended too early: {all}");
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id, &id]).status().expect("kill").success());
    lines.read_to_string(&mut all).expect("text");
    let output = child.wait_with_output().expect("its end");
    let text = said(&output) + &all;
    (output, text)
}

#[test]
fn an_interrupted_search_says_what_it_knows_and_leaves_nothing() {
    let place = TestDirectory::new("tune-interrupted");
    let (output, text) = interrupted(place.tune(&["--budget", "10m"]), "[3/");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Nothing is proved (it was interrupted): the best so far is event"), "{text}");
    place.is_as_before();
    assert_eq!(place.findings()["outcome"], "open");
    assert!(!Path::new(&place.0.join("out/fragment.conf")).exists());
}
