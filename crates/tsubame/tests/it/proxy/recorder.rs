//! A server behind the proxy that reads requests in one way only, and remembers all that could be read in another.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::proxy::origin::{Listening, PORT};

/// What it remembers.
#[derive(Default)]
pub struct Seen {
    /// The numbers of the whole requests that have come.
    pub numbers: BTreeSet<usize>,
    /// What the last requests asked for.
    pub targets: Vec<String>,
    /// What could be read in another way, with all that had come over its connection.
    pub faults: Vec<String>,
}

/// It, as tests see it. Its responses hold `[[number]]`.
pub struct Recorder {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _listening: Listening,
}

impl Recorder {
    pub fn start(ip: Ipv4Addr) -> Recorder {
        let listener = TcpListener::bind((ip, PORT)).expect("bind");
        let address = listener.local_addr().expect("address");
        let listening = Listening(listener.try_clone().expect("clone"));
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let it = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let it = it.clone();
                std::thread::spawn(move || serve(stream, &it));
            }
        });
        Recorder { address, seen, _listening: listening }
    }

    /// What has come since this was asked last.
    pub fn take(&self) -> Seen {
        let mut seen = self.seen.lock().expect("no panic");
        Seen {
            numbers: seen.numbers.clone(),
            targets: std::mem::take(&mut seen.targets),
            faults: std::mem::take(&mut seen.faults),
        }
    }
}

/// Why a request is not read to its end.
enum Stop {
    /// The proxy has ended the connection between two requests, or within a body.
    End,
    Fault(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Fault(why)
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Seen>) {
    let mut reader = Reader { stream: stream.try_clone().expect("clone"), buffer: Vec::new(), all: Vec::new() };
    loop {
        match reader.request() {
            Ok(target) => {
                let mut seen = seen.lock().expect("no panic");
                let number = seen.numbers.last().map_or(0, |last| last + 1);
                seen.numbers.insert(number);
                seen.targets.push(target);
                drop(seen);
                let body = format!("[[{number}]]");
                let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                if stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
            Err(Stop::End) => return,
            Err(Stop::Fault(why)) => {
                let all = reader.all.escape_ascii();
                seen.lock().expect("no panic").faults.push(format!("{why}: {all}"));
                return;
            }
        }
    }
}

/// Reads strictly (RFC 9112).
struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// All that has come of this request.
    all: Vec<u8>,
}

impl Reader {
    /// A request; its target.
    fn request(&mut self) -> Result<String, Stop> {
        if !self.buffer.is_empty() {
            return Err(Stop::Fault(format!("bytes after a request: {}", self.buffer.escape_ascii())));
        }
        self.all.clear();
        let head = self.head()?;
        let mut lines = head.split("\r\n");
        let target = target(lines.next().unwrap_or_default())?;
        let fields: Vec<(String, &str)> = lines.map(field).collect::<Result<_, _>>()?;
        let all = |name: &str| -> Vec<&str> {
            fields.iter().filter(|(one, _)| one == name).map(|(_, value)| *value).collect()
        };
        let host = all("host");
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%~".contains(&byte);
        if !matches!(host[..], [host] if host.bytes().all(is_host)) {
            return Err(Stop::Fault(format!("Host: {host:?}")));
        }
        let is_connection = |value: &str| ["Keep-Alive", "close", "Upgrade"].contains(&value);
        if !matches!(all("connection")[..], [value] if is_connection(value)) {
            return Err(Stop::Fault("its Connection is not the proxy's".into()));
        }
        for name in ["keep-alive", "proxy-connection", "trailer"] {
            if !all(name).is_empty() {
                return Err(Stop::Fault(format!("{name} is not for the next server")));
            }
        }
        if !all("upgrade").is_empty() && all("connection") != ["Upgrade"] {
            return Err(Stop::Fault("Upgrade without Connection".into()));
        }
        if !matches!(all("x-forwarded-for")[..], [value] if value.rsplit(", ").next() == Some("127.0.0.1")) {
            return Err(Stop::Fault(format!("X-Forwarded-For: {:?}", all("x-forwarded-for"))));
        }
        if !all("expect").is_empty() {
            // The proxy may have gone.
            let _ = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        match (&all("content-length")[..], &all("transfer-encoding")[..]) {
            ([], []) => {}
            ([length], []) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
                let length: usize = length.parse().map_err(|_| format!("Content-Length: {length}"))?;
                self.bytes(length)?;
            }
            ([], ["chunked"]) => self.chunks()?,
            (lengths, codings) => return Err(Stop::Fault(format!("{lengths:?} and {codings:?}"))),
        }
        Ok(target)
    }

    fn fill(&mut self) -> Result<(), Stop> {
        let mut piece = [0; 65536];
        match self.stream.read(&mut piece) {
            Ok(0) | Err(_) => Err(Stop::End),
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                self.all.extend_from_slice(&piece[..count]);
                Ok(())
            }
        }
    }

    /// A head without its last empty line.
    fn head(&mut self) -> Result<String, Stop> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..at + 4).take(at).collect();
                let is_plain = |byte: &u8| !matches!(byte, 0..=8 | 11 | 12 | 14..=31 | 127);
                let text = String::from_utf8_lossy(&head).into_owned();
                if !head.iter().all(is_plain) || text.replace("\r\n", "").contains(['\r', '\n']) {
                    return Err(Stop::Fault("a control character in the head".into()));
                }
                return Ok(text);
            }
            if let Err(end) = self.fill() {
                return Err(if self.buffer.is_empty() { end } else { Stop::Fault("half a head".into()) });
            }
        }
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Stop> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn chunks(&mut self) -> Result<(), Stop> {
        loop {
            let mut line = String::new();
            while !line.ends_with("\r\n") {
                line.push(char::from(self.bytes(1)?[0]));
            }
            let size = line.trim_end_matches("\r\n");
            if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) || size.len() > 8 {
                return Err(Stop::Fault(format!("the chunk size {line:?}")));
            }
            let size = usize::from_str_radix(size, 16).map_err(|_| "a chunk size".to_string())?;
            self.bytes(size)?;
            if self.bytes(2)? != b"\r\n" {
                return Err(Stop::Fault("no end of a chunk".into()));
            }
            if size == 0 {
                return Ok(());
            }
        }
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn target(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { return Err(format!("the request line {line:?}")) };
    // A rule with the flag NE may pass on any byte of a path, as in Apache, except for these.
    let is_plain = |c: char| !c.is_ascii() || c.is_ascii_graphic();
    let is_target = target.starts_with("/in/") && target.chars().all(is_plain);
    match is_token(method) && is_target {
        true => Ok(target.to_string()),
        false => Err(format!("the request line {line:?}")),
    }
}

/// The name, in lower case, and the value.
fn field(line: &str) -> Result<(String, &str), String> {
    let (name, value) = line.split_once(": ").ok_or_else(|| format!("the field {line:?}"))?;
    match is_token(name) && value.trim_matches([' ', '\t']) == value {
        true => Ok((name.to_ascii_lowercase(), value)),
        false => Err(format!("the field {line:?}")),
    }
}
