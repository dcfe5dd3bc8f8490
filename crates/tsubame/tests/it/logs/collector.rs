//! A collector of traces for tests: takes OpenTelemetry's JSON over HTTP, and answers what a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

/// What it answers.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A whole response.
    With(&'static str),
    /// Nothing, and the connection stays open.
    Nothing,
}

pub const TAKEN: Answer = Answer::With(
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"partialSuccess\":{}}",
);

/// Dropping it closes its port.
pub struct Collector {
    pub address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    requests: Mutex<Vec<Value>>,
    answers: Mutex<Vec<Answer>>,
    ends: AtomicBool,
}

impl Collector {
    /// Answers each request with the next of these, and with the last one from then on.
    pub fn start(ip: IpAddr, answers: &[Answer]) -> Collector {
        Collector::start_at((ip, 0).into(), answers)
    }

    pub fn start_at(address: SocketAddr, answers: &[Answer]) -> Collector {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("an address");
        let answers = answers.iter().rev().copied().collect();
        let state = State { requests: Mutex::default(), answers: Mutex::new(answers), ends: AtomicBool::new(false) };
        let state = Arc::new(state);
        let thread = {
            let state = state.clone();
            std::thread::spawn(move || state.serve(&listener))
        };
        Collector { address, state, thread: Some(thread) }
    }

    /// The bodies of all requests.
    pub fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().expect("requests").clone()
    }

    /// All spans.
    pub fn spans(&self) -> Vec<Value> {
        self.requests().iter().flat_map(spans_of).collect()
    }

    /// The span of a path, once it has come.
    pub fn span(&self, path: &str) -> Option<Value> {
        self.spans().into_iter().find(|span| attribute(span, "url.path").as_deref() == Some(path))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("the collector"));
    }
}

impl State {
    fn serve(&self, listener: &TcpListener) {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let mut stream = stream.expect("a connection");
            let Some(body) = read(&stream) else { continue };
            self.requests.lock().expect("requests").push(body);
            let answer = {
                let mut answers = self.answers.lock().expect("answers");
                if answers.len() > 1 { answers.pop() } else { answers.last().copied() }
            };
            match answer.expect("an answer") {
                Answer::With(text) => _ = stream.write_all(text.as_bytes()),
                Answer::Nothing => held.push(stream),
            }
        }
    }
}

/// Reads a request as the protocol wants it. `None`: the connection has ended before.
fn read(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_ascii_lowercase()),
        }
    }
    assert_eq!(head[0], "post /v1/traces http/1.1");
    assert!(head.contains(&"content-type: application/json".to_string()), "{head:?}");
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).expect("JSON"))
}

pub fn spans_of(request: &Value) -> Vec<Value> {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}

/// The value of an attribute of a span or a resource, as a text.
pub fn attribute(of: &Value, key: &str) -> Option<String> {
    let value = &of["attributes"].as_array()?.iter().find(|one| one["key"] == key)?["value"];
    let text = value["stringValue"].as_str().or_else(|| value["intValue"].as_str()).map(str::to_string);
    text.or_else(|| value["doubleValue"].as_f64().map(|number| number.to_string()))
}
