//! The phases behind a protocol that is not HTTP/1: requests come as numbered lines, several at once, and each is answered
//! when its answer is there, whichever was asked for first. What it needs of the server is what HTTP/2 will need.
//!
//! Without the usual harness: the server under test is this program itself, and a parent must not have threads.

#[path = "../it/harness/frames.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod frames;
mod handlers;
mod multiplexed;
mod tunnels;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use sys::signal::Signal;

use multiplexed::{DIRECTORY, HTTP, MPM};

/// Everything that must happen does so within this time.
const DEADLINE: Duration = Duration::from_secs(30);

/// Its name, and what it does.
type Test = (&'static str, Wire, fn(&Site));

/// Which protocol the server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Lines,
    Http,
}

const TESTS: [Test; 8] = [
    ("answers_come_as_they_are_made", Wire::Lines, answers_come_as_they_are_made),
    ("phases_know_no_wire", Wire::Lines, phases_know_no_wire),
    ("each_exchange_is_accounted_for", Wire::Lines, each_exchange_is_accounted_for),
    ("handlers_know_no_wire", Wire::Lines, tunnels::handlers_know_no_wire),
    ("a_tunnel_carries_both_directions", Wire::Http, tunnels::carries_both_directions),
    ("a_tunnel_wants_to_be_asked_for", Wire::Http, tunnels::wants_to_be_asked_for),
    ("a_tunnel_is_one_stream_of_several", Wire::Http, tunnels::is_one_stream_of_several),
    ("a_tunnel_has_an_end", Wire::Http, tunnels::has_an_end),
];

fn main() -> ExitCode {
    if std::env::var_os(MPM).is_some() {
        return multiplexed::main();
    }
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let (mut passed, mut failed) = (0, 0);
    for (mpm, (name, wire, test)) in
        ["percore", "event", "worker", "prefork"].iter().flat_map(|mpm| TESTS.map(|test| (mpm, test)))
    {
        let name = format!("{name}_under_{mpm}");
        if !name.contains(&filter) {
            continue;
        }
        let ok = catch_unwind(AssertUnwindSafe(|| test(&Site::start(mpm, wire)))).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        *if ok { &mut passed } else { &mut failed } += 1;
    }
    println!("\n{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A server of its own directory: a page, a closed one, and a script that says when it runs and waits until it may go on.
struct Site {
    server: Child,
    directory: PathBuf,
    address: String,
    mpm: &'static str,
}

impl Site {
    fn start(mpm: &'static str, wire: Wire) -> Site {
        let directory = std::env::temp_dir().join(format!("tsubame-protocol-{}-{mpm}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let docs = directory.join("docs");
        std::fs::create_dir_all(docs.join("closed")).expect("directory");
        std::fs::write(docs.join("page.html"), "a page\n").expect("page");
        std::fs::write(docs.join("closed/page.html"), "not for everybody\n").expect("page");
        std::fs::write(docs.join("closed/.htaccess"), "Require all denied\nErrorDocument 403 /page.html\n")
            .expect("file");
        let script = docs.join("slow.cgi");
        let text = format!(
            "#!/bin/sh\necho > {0}/began\nread line < {0}/go\necho Content-Type: text/plain\necho\necho \"$line\"\n",
            directory.display()
        );
        std::fs::write(&script, text).expect("script");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
        for pipe in ["began", "go"] {
            let made = Command::new("mkfifo").arg(directory.join(pipe)).status().expect("mkfifo");
            assert!(made.success());
        }
        let mut server = Command::new(std::env::current_exe().expect("own name"))
            .env(MPM, mpm)
            .env(DIRECTORY, &directory)
            .envs((wire == Wire::Http).then_some((HTTP, "1")))
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().expect("output")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening ").unwrap_or_else(|| panic!("{line}")).to_string();
        Site { server, directory, address, mpm }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.address).expect("connect");
        stream.set_read_timeout(Some(DEADLINE)).expect("timeout");
        Client { stream: BufReader::new(stream) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let pid = sys::process::Pid::new(self.server.id().cast_signed()).expect("pid");
        let _ = pid.kill(Signal::TERM);
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer: its status, its fields, its body.
type Answer = (u16, BTreeMap<String, String>, String);

impl Client {
    /// Asks for several paths at once; the numbers are those of the answers.
    fn ask(&mut self, requests: &[(u32, &str)]) {
        let lines: String = requests.iter().map(|(number, path)| format!("{number} {path}\n")).collect();
        self.stream.get_mut().write_all(format!("{lines}.\n").as_bytes()).expect("write");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        line.trim_end().to_string()
    }

    fn answer(&mut self) -> (u32, Answer) {
        let line = self.line();
        let words: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap_or_else(|_| panic!("{line}"))).collect();
        let [number, status, length] = words[..] else { panic!("{line}") };
        let mut fields = BTreeMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            fields.insert(name.to_ascii_lowercase(), value.to_string());
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).expect("body");
        (number, (status as u16, fields, String::from_utf8(body).expect("text")))
    }
}

/// Opens a pipe for reading, and waits for its line.
fn hear(path: &Path) {
    File::open(path).and_then(|mut pipe| pipe.read(&mut [0; 8])).expect("a line");
}

fn tell(path: &Path, line: &str) {
    OpenOptions::new().write(true).open(path).and_then(|mut pipe| pipe.write_all(line.as_bytes())).expect("tell");
}

/// A request that waits holds up none that came behind it on the same connection.
fn answers_come_as_they_are_made(site: &Site) {
    let mut client = site.connect();
    client.ask(&[(1, "/slow.cgi"), (2, "/page.html"), (3, "/none")]);
    let early: BTreeMap<u32, Answer> = [client.answer(), client.answer()].into();
    assert_eq!(early.keys().copied().collect::<Vec<_>>(), [2, 3]);
    assert_eq!((early[&2].0, early[&2].2.as_str(), early[&3].0), (200, "a page\n", 404));
    hear(&site.path("began"));
    tell(&site.path("go"), "at last\n");
    let (number, (status, fields, body)) = client.answer();
    assert_eq!((number, status, body.as_str()), (1, 200, "at last\n"));
    assert_eq!(fields.get("content-type").map(String::as_str), Some("text/plain"));
    // The connection goes on.
    client.ask(&[(7, "/page.html")]);
    assert_eq!(client.answer().0, 7);
}

/// Access files, error documents, conditions and directories work as over HTTP/1, and nothing of HTTP/1 goes out.
fn phases_know_no_wire(site: &Site) {
    let mut client = site.connect();
    client.ask(&[(1, "/closed/page.html"), (2, "/closed"), (3, "/page.html?x=1")]);
    let answers: BTreeMap<u32, Answer> = [client.answer(), client.answer(), client.answer()].into();
    assert_eq!((answers[&1].0, answers[&1].2.as_str()), (403, "a page\n"));
    assert_eq!(answers[&2].0, 403);
    let (status, fields, _) = &answers[&3];
    assert_eq!(*status, 200);
    for name in ["date", "server", "last-modified", "etag", "content-type"] {
        assert!(fields.contains_key(name), "{name} in {fields:?}");
    }
    for name in ["connection", "keep-alive", "transfer-encoding", "content-length"] {
        assert!(!fields.contains_key(name), "{name} in {fields:?}");
    }
    let etag = &fields["etag"];
    client.ask(&[(4, &format!("/page.html if-none-match={etag}"))]);
    let (number, (status, _, body)) = client.answer();
    assert_eq!((number, status, body.as_str()), (4, 304, ""));
}

/// The access log has a line for each, with what the protocol says of itself.
fn each_exchange_is_accounted_for(site: &Site) {
    let mut client = site.connect();
    client.ask(&[(1, "/page.html"), (2, "/none")]);
    let _ = [client.answer(), client.answer()];
    // Lines are kept back until the server has nothing else to do: a further answer comes after them.
    client.ask(&[(3, "/page.html")]);
    let _ = client.answer();
    drop(client);
    let end = std::time::Instant::now() + DEADLINE;
    let wanted = ["GET /none HTTP/2.0 404 test.example", "GET /page.html HTTP/2.0 200 test.example"];
    loop {
        let log = std::fs::read_to_string(site.path("access")).unwrap_or_default();
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        if lines == wanted {
            return;
        }
        assert!(std::time::Instant::now() < end, "{log}");
        std::thread::yield_now();
    }
}
