//! Reports for a browser: each begins with its verdict, and loads nothing from elsewhere.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use quick_xml::events::Event;
use rustix::process::{Pid, Signal, kill_process};

use crate::scripted;

/// A plain server, which reports every connection.
fn serve() -> (SocketAddr, Receiver<()>) {
    let (sender, connections) = channel();
    let attend = move |mut stream: TcpStream| {
        // A test that has seen enough does not listen any more.
        let _ = sender.send(());
        scripted::attend(&mut stream);
    };
    (scripted::listen(attend), connections)
}

/// The page of a load, in a file that is gone at the end.
struct Page(PathBuf);

impl Page {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tsubame-lab-{}-{test}.html", std::process::id())))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"));
        command.args(arguments).arg("--html").arg(&self.0);
        command
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("a page")
    }

    /// Its text, after a check that every element is closed, and that nothing is loaded from elsewhere.
    fn complete(&self) -> String {
        let text = self.text();
        let mut reader = quick_xml::Reader::from_str(&text);
        let (mut names, mut open) = (Vec::new(), 0);
        loop {
            match reader.read_event().expect("every element is closed") {
                Event::Start(tag) => {
                    open += 1;
                    names.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned());
                }
                Event::Empty(tag) => names.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned()),
                Event::End(_) => open -= 1,
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(open, 0, "{text}");
        assert!(!names.iter().any(|name| ["script", "img", "link", "iframe"].contains(&name.as_str())), "{names:?}");
        assert!(!text.contains("url(") && !text.contains("href="), "{text}");
        text
    }

    /// Runs the laboratory, and returns its exit status and the verdict of its page.
    fn verdict_on(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let Output { status, .. } = self.command(arguments).output().expect("the laboratory");
        (status.code(), self.verdict())
    }

    /// The text of the first paragraph, which nothing but the heading precedes.
    fn verdict(&self) -> String {
        let text = self.text();
        let (_, rest) = text.split_once("</h1>\n<p class=\"verdict\">").expect("a verdict below the heading");
        let (verdict, _) = rest.split_once("</p>").expect("its end");
        verdict.replace("&gt;", ">")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_load_has_a_page_that_is_complete_in_itself() {
    let ((address, _), page) = (serve(), Page::new("complete"));
    let url = format!("http://{address}/");
    let (status, verdict) = page.verdict_on(&["load", &url, "-c", "2", "-d", "1500ms", "-H", "X-A: it's"]);
    assert_eq!(status, Some(0));
    assert!(verdict.starts_with("Asked by 2 connections for "), "{verdict}");
    assert!(verdict.contains(&format!("{url} gave ")) && verdict.contains("and no request failed"), "{verdict}");
    let text = page.complete();
    for told in [
        "<h3>Requests answered within</h3>",
        "<h3>Answers over time</h3>",
        "<h3>Latency over time</h3>",
        "<td class=\"text\">2xx</td>",
        &format!(" load {url} -c 2 -d 1500ms -H 'X-A: it'\\''s' --html "),
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn the_verdict_says_whether_limits_were_kept() {
    let ((address, _), page) = (serve(), Page::new("limits"));
    let (good, none) = (format!("http://{address}/"), format!("http://{address}/none"));
    let (status, verdict) = page.verdict_on(&["load", &good, "-n", "20", "--fail-if", "errors > 0"]);
    assert!(status == Some(0) && verdict.starts_with("Passed: asked by 20 connections "), "{verdict}");
    let (status, verdict) = page.verdict_on(&[
        "load",
        &none,
        "-n",
        "20",
        "--fail-if",
        "errors > 0",
        "--fail-if",
        "4xx > 5%",
        "--fail-if",
        "5xx > 0",
    ]);
    let failed = "Failed, because errors > 0 (it is 20) and 4xx > 5% (it is 100.00 %): asked by ";
    assert!(status == Some(99) && verdict.starts_with(failed), "{verdict}");
    // So short a load may keep a thread of the generator busy throughout, which the verdict then adds.
    assert!(verdict.contains(", but 20 responses had the wrong status or body"), "{verdict}");
}

#[test]
fn the_verdict_counts_requests_that_failed() {
    let ((address, _), page) = (serve(), Page::new("failures"));
    let (status, verdict) = page.verdict_on(&["load", &format!("http://{address}/gone"), "-n", "20", "-c", "2"]);
    let told = " gave no response, but 20 of 20 requests failed (read: 20)";
    assert!(status == Some(1) && verdict.contains(told), "{verdict}");
}

#[test]
fn the_verdict_says_why_to_doubt_it() {
    let ((address, connections), page) = (serve(), Page::new("doubts"));
    let mut load = page.command(&["load", &format!("http://{address}/"), "-c", "1", "-d", "60s"]);
    let load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the laboratory");
    connections.recv().expect("a connection");
    let pid = Pid::from_raw(i32::try_from(load.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::INT).expect("a signal");
    load.wait_with_output().expect("its end");
    let verdict = page.verdict();
    assert!(verdict.contains("; these figures are doubtful, because the load was interrupted"), "{verdict}");
}

#[test]
fn a_comparison_has_a_page_too() {
    let ((address, _), page) = (serve(), Page::new("compare"));
    let urls = ["/", "/none"].map(|path| format!("http://{address}{path}"));
    let (status, verdict) = page.verdict_on(&["compare", "--rounds", "2", "-n", "50", "-c", "2", &urls[0], &urls[1]]);
    assert_eq!(status, Some(0));
    assert!(verdict.contains("answers per ") && verdict.contains(", while 100 requests of B failed"), "{verdict}");
    assert!(verdict.contains("to doubt that."), "{verdict}");
    let text = page.complete();
    for told in ["A and B are the same server", "<h3>p99 ms</h3>", "<td class=\"text\">failed (none is best)</td>"] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

/// A report that cannot be written costs no results.
#[test]
fn results_are_shown_before_they_are_written() {
    let (address, _) = serve();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_tsubame-lab"));
    lab.args(["load", "-n", "5", "-c", "1", &format!("http://{address}/"), "--html", "/no/such/directory/load.html"]);
    let Output { status, stdout, stderr } = lab.output().expect("the laboratory");
    let (told, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(1), "{error}");
    assert!(
        told.contains("Latency in milliseconds") && error.contains("cannot write /no/such/directory"),
        "{told}{error}"
    );
}
