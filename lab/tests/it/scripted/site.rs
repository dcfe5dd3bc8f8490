//! Applications on a plain server that remembers what it was asked, and what tests of sessions need besides.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::listen;

/// A request as the server saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The number of its connection.
    pub connection: usize,
    pub method: String,
    pub path: String,
    pub fields: Vec<String>,
    pub body: String,
}

impl Seen {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|field| field.strip_prefix(name)?.strip_prefix(": "))
    }

    /// What is compared: method, path and body.
    pub fn told(&self) -> String {
        format!("{} {} {}", self.method, self.path, self.body).trim_end().to_owned()
    }
}

/// An application: answers each request with status and fields, and a body.
pub type App = fn(&Seen) -> (String, String);

/// A server, and the requests it has seen.
pub struct Site {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Site {
    pub fn new(app: App) -> Self {
        let (seen, connections) = (Arc::default(), AtomicUsize::new(0));
        let log = Arc::clone(&seen);
        let address = listen(move |mut stream| {
            serve(&mut stream, app, &log, connections.fetch_add(1, Ordering::Relaxed));
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("requests").clone()
    }

    /// Forgets what it has seen, and returns that.
    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().expect("requests")).iter().map(Seen::told).collect()
    }
}

/// Answers requests until the connection ends, or an answer says so.
pub fn serve(stream: &mut (impl Read + Write), app: App, log: &Mutex<Vec<Seen>>, connection: usize) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.is_empty()) {
            let mut line = String::new();
            match stream.read_line(&mut line) {
                Ok(1..) => lines.push(line.trim_end().to_owned()),
                _ => return,
            }
        }
        let (first, fields) = lines.split_first().expect("a request");
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
        let length = fields.iter().find_map(|field| field.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("text");
        let seen = Seen { connection, method, path, fields: fields.to_vec(), body };
        log.lock().expect("requests").push(seen.clone());
        if seen.path == "/gone" {
            return;
        }
        let (head, body) = app(&seen);
        let sent = if seen.method == "HEAD" { "" } else { &*body };
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{sent}", body.len());
        let is_sent = stream.get_mut().write_all(answer.as_bytes()).and_then(|()| stream.get_mut().flush()).is_ok();
        if !is_sent || head.contains("Connection: close") {
            return;
        }
    }
}

/// Answers what the path says.
pub fn echo(seen: &Seen) -> (String, String) {
    let head = match seen.path.as_str() {
        "/none" => "404 Not Found",
        "/close" => "200 OK\r\nConnection: close",
        "/cookie" => "200 OK\r\nSet-Cookie: a=1; path=/",
        "/lines" => "200 OK\r\nX-Next: http://localhost:1/",
        _ => "200 OK",
    };
    (head.to_owned(), if seen.path == "/lines" { "<a\r\nX-B: c>".to_owned() } else { "hello\nworld".to_owned() })
}

pub fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tsubame-lab"))
}

pub fn said(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file that is gone at the end.
pub struct File(PathBuf);

impl File {
    pub fn new(test: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tsubame-lab-{}-{test}", std::process::id()));
        std::fs::write(&path, text).expect("write a file");
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
