//! A server behind the proxy: the last part of a request's path says what it answers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// It, as tests see it.
#[derive(Clone)]
pub struct Origin {
    pub address: SocketAddr,
    /// How many connections have been made to it.
    pub connections: Arc<AtomicUsize>,
    /// How many requests have come, whatever became of them.
    pub requests: Arc<AtomicUsize>,
    held: Arc<Mutex<Vec<TcpStream>>>,
    is_silent: Arc<AtomicBool>,
    read_late: Arc<AtomicUsize>,
    /// `None`: for the thread that listens.
    _listening: Option<Arc<Listening>>,
}

/// A socket that listens until nobody needs it: another test may have the same address later.
pub struct Listening(pub TcpListener);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = sys::socket::shutdown(&self.0);
    }
}

/// Its port. Children keep their connections to it.
pub const PORT: u16 = 9108;
/// What stands in the answers where the address of the server belongs.
const SELF: &str = "SELF";

/// Whole answers by their names; those whose names begin with `end-` end with the connection.
const ANSWERS: &[(&str, &[u8])] = &[
    ("fields", b"HTTP/1.1 200 OK\r\nServer: backend/1\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\nContent-Type: Text/X-A\r\nContent-Length: 3\r\nX-A: 1\r\nX-A: 2\r\nKeep-Alive: timeout=9\r\nConnection: keep-alive, X-Hop\r\nX-Hop: z\r\nProxy-Authenticate: Basic\r\n\r\nabc"),
    ("cookies", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b; Path=/inner/; Domain=in.example; Secure\r\nSet-Cookie: c=d; path=/other\r\nSet-Cookie: e=f; domain=In.Example\r\n\r\n"),
    ("bare", b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nhi"),
    ("end-close", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end"),
    ("end-ten", b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold"),
    ("missing", b"HTTP/1.1 404 Gone Away\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n\r\nnope"),
    ("unchanged", b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
    ("nothing", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ("moved", b"HTTP/1.1 302 Found\r\nLocation: http://SELF/inner/there?x\r\nContent-Location: /inner/cl\r\nURI: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"),
    ("moved-path", b"HTTP/1.1 302 Found\r\nLocation: /inner/there\r\nContent-Length: 0\r\n\r\n"),
    ("moved-away", b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/inner/\r\nContent-Length: 0\r\n\r\n"),
    ("end-badline", b"HTTP/1.1 200 OK\r\nthis is bad\r\nContent-Length: 2\r\n\r\nhi"),
    ("end-empty", b""),
    ("end-half", b"HTTP/1.1 200 OK\r\nX: y\r\n"),
    ("end-nine", b"<html>nine</html>"),
    ("end-badlength", b"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nhi"),
    ("end-short", b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi"),
    ("hints", b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    ("continue", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    ("odd", b"HTTP/1.1 600 No\r\nContent-Length: 2\r\n\r\nhi"),
    ("reasonless", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi"),
    ("lines", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"),
    ("end-extra", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiEXTRA"),
    ("password", b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nhi"),
    ("end-switched", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    ("encoded", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Language: de\r\nContent-Length: 2\r\nContent-Type: text/html\r\n\r\nhi"),
    ("page", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLast-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r\nETag: \"abc\"\r\nContent-Length: 10\r\n\r\n0123456789"),
    ("bytes", b"HTTP/1.1 200 OK\r\nX-U: caf\xc3\xa9\r\nX-L: caf\xe9\r\nContent-Length: 2\r\n\r\nhi"),
    ("control", b"HTTP/1.1 200 OK\r\nX-C: a\x01b\r\nContent-Length: 2\r\n\r\nhi"),
    ("varies", b"HTTP/1.1 200 OK\r\nVary: Cookie\r\nCache-Control: max-age=3\r\nExpires: 0\r\nContent-Length: 2\r\n\r\nhi"),
    ("belied", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
    // Tests of our own: two readings are possible, or none.
    ("end-page", b"<html>\n<title>a page</title>\n"),
    ("end-lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!"),
    ("end-coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    ("end-chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhi"),
    ("chunked", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: v\r\n\r\n"),
    ("both", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
];

impl Origin {
    /// Starts one at this address.
    pub fn start(ip: Ipv4Addr) -> Origin {
        let listener = TcpListener::bind((ip, PORT)).expect("bind");
        let address = listener.local_addr().expect("address");
        let listening = Arc::new(Listening(listener.try_clone().expect("clone")));
        let origin = Origin {
            address,
            connections: Arc::default(),
            requests: Arc::default(),
            held: Arc::default(),
            is_silent: Arc::default(),
            read_late: Arc::default(),
            _listening: Some(listening),
        };
        let it = Origin { _listening: None, ..origin.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                it.connections.fetch_add(1, Ordering::Relaxed);
                let it = it.clone();
                it.held.lock().expect("no panic").push(stream.try_clone().expect("clone"));
                std::thread::spawn(move || it.serve(stream));
            }
        });
        origin
    }

    /// Closes all connections, as a server does that finds them idle.
    pub fn close_all(&self) {
        for stream in self.held.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Leaves the next request without an answer.
    pub fn be_silent_once(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    /// How much it has read of bodies of requests for `soon`, which it answers before.
    pub fn read_late(&self) -> usize {
        self.read_late.load(Ordering::Relaxed)
    }

    /// Answers a request for `early` before its body has come, and reads no further; `None`: it is for something else.
    fn early(&self, stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Option<()>> {
        while !buffer.windows(4).any(|part| part == b"\r\n\r\n") {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).ok().filter(|count| *count > 0);
            let Some(count) = count else { return Some(None) };
            buffer.extend_from_slice(&piece[..count]);
        }
        buffer.starts_with(b"POST /early ").then(|| {
            stream.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nabc").ok()?;
            // Until the proxy gives up.
            std::io::copy(stream, &mut std::io::sink()).ok().map(drop)
        })
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut buffer = Vec::new();
        loop {
            if let Some(answer) = self.early(&mut stream, &mut buffer) {
                return answer;
            }
            if buffer.starts_with(b"POST /soon ") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").ok()?;
            }
            let (head, body) = request(&mut stream, &mut buffer)?;
            if head.starts_with("POST /soon ") {
                self.read_late.fetch_add(body.len(), Ordering::Relaxed);
                continue;
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            let target = head.split(' ').nth(1).unwrap_or_default().to_string();
            let name = target.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            if name == "socket" && head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n") {
                return shout(stream, &head);
            }
            if self.is_silent.swap(false, Ordering::Relaxed) {
                // Until the proxy gives up.
                return std::io::copy(&mut stream, &mut std::io::sink()).ok().map(drop);
            }
            let count = self.count();
            let answer = match ANSWERS.iter().find(|(known, _)| *known == name) {
                Some((_, answer)) => answer.to_vec(),
                None if name.starts_with("dated") => dated(name, count, &head),
                None if name == "end-flood" => b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000),
                // The request itself.
                None => {
                    let body = String::from_utf8_lossy(&body).into_owned();
                    let text = format!("{}{body}", head.replace("\r\n", "\n"));
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
                }
            };
            let is_text = std::str::from_utf8(&answer).is_ok();
            let answer = match is_text {
                true => String::from_utf8(answer).ok()?.replace(SELF, &self.address.to_string()).into_bytes(),
                false => answer,
            };
            let ends = name.starts_with("end-");
            let end = answer.windows(4).position(|part| part == b"\r\n\r\n").map(|at| at + 4);
            let length = end.filter(|_| head.starts_with("HEAD ")).unwrap_or(answer.len());
            if name == "dated-in-parts" {
                stream.set_nodelay(true).ok()?;
                answer[..length].chunks(1 + count % 90).try_for_each(|part| stream.write_all(part)).ok()?;
            } else {
                stream.write_all(&answer[..length]).ok()?;
            }
            if ends || name == "dated-and-gone" && count.is_multiple_of(4) {
                // Another descriptor of it is held.
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return None;
            }
        }
    }
}

/// An answer with a date and a content of its own, each time.
fn dated(name: &str, count: usize, head: &str) -> Vec<u8> {
    let mut body = format!("{:02}", count % 100);
    let mut fields = String::new();
    match name {
        "dated-in-lengths" if count.is_multiple_of(3) => body.push_str("longer"),
        "dated-otherwise" if count.is_multiple_of(3) => fields.push_str("Set-Cookie: third=one\r\n"),
        "dated-by-number" => fields = format!("X-Number: {count}\r\n"),
        "dated-twice" => fields.push_str("Date: Mon, 01 Jan 2001 00:00:00 GMT\r\n"),
        "dated-echo" => body = head.replace("\r\n", "\n"),
        "dated-and-more" if count.is_multiple_of(5) => body.push_str("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        _ => {}
    }
    let second = count % 60;
    if name.starts_with("dated-chunked") {
        let head = format!(
            "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2001 00:00:{second:02} GMT\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        return (head + &chunks(name, count, &body)).into_bytes();
    }
    let length = if name == "dated-and-more" { 2 } else { body.len() };
    let date = format!("Date: Mon, 01 Jan 2001 00:00:{second:02} GMT\r\n");
    let first = if name == "dated-late" { "Server: backend/1\r\nX-A: b\r\n" } else { "" };
    format!("HTTP/1.1 200 OK\r\n{first}{date}{fields}Content-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// These two bytes in chunks, of which every fourth answer has others.
fn chunks(name: &str, count: usize, two: &str) -> String {
    let (one, other) = two.split_at(1);
    let usual = format!("2\r\n{two}\r\n0\r\n\r\n");
    match name {
        _ if !count.is_multiple_of(4) => usual,
        "dated-chunked-in-two" => format!("1\r\n{one}\r\n1\r\n{other}\r\n0\r\n\r\n"),
        "dated-chunked-extended" => format!("2;a=b\r\n{two}\r\n0\r\n\r\n"),
        "dated-chunked-padded" => format!("002  \r\n{two}\r\n000\r\n\r\n"),
        "dated-chunked-with-fields" => format!("2\r\n{two}\r\n0\r\nX-T: v\r\n\r\n"),
        "dated-chunked-longer" => format!("8\r\n{two}longer\r\n0\r\n\r\n"),
        "dated-chunked-bare" => format!("2\n{two}\n0\n\n"),
        "dated-chunked-long" => format!("1\r\n{two}\r\n0\r\n\r\n"),
        "dated-chunked-short" => format!("3\r\n{two}\r\n0\r\n\r\n"),
        "dated-chunked-signed" => format!("+2\r\n{two}\r\n0\r\n\r\n"),
        "dated-chunked-and-more" => format!("{usual}HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"),
        _ => usual,
    }
}

/// Becomes a WebSocket, as far as a proxy knows of one: says its request, and then everything again, louder.
fn shout(mut stream: TcpStream, head: &str) -> Option<()> {
    let accept = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: proof\r\nX-E: 1\r\n\r\n";
    stream.write_all(format!("HTTP/1.1 101 Switching\r\n{accept}{}", head.replace("\r\n", "\n")).as_bytes()).ok()?;
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        piece.make_ascii_uppercase();
        stream.write_all(&piece[..count]).ok()?;
    }
    stream.write_all(b"bye").ok()?;
    stream.shutdown(std::net::Shutdown::Both).ok()
}

/// Reads a request, with its body as it came.
fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let more = |stream: &mut TcpStream, buffer: &mut Vec<u8>| {
        let mut piece = [0; 65536];
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        buffer.extend_from_slice(&piece[..count]);
        Some(())
    };
    let end = loop {
        match buffer.windows(4).position(|part| part == b"\r\n\r\n") {
            Some(at) => break at + 4,
            None => more(stream, buffer)?,
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    let value = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
        Some(line[name.len()..].trim().to_string())
    };
    if value("expect:").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let length = match (value("content-length:"), value("transfer-encoding:")) {
        (Some(length), _) => length.parse().ok()?,
        (None, None) => 0,
        (None, Some(_)) => loop {
            match buffer.windows(5).position(|part| part == b"0\r\n\r\n") {
                Some(at) => break at + 5,
                None => more(stream, buffer)?,
            }
        },
    };
    while buffer.len() < length {
        more(stream, buffer)?;
    }
    Some((head, buffer.drain(..length).collect()))
}
