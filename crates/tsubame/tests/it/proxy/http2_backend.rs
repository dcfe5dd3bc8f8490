//! An HTTP/2 server behind the proxy, made of raw frames: the last part of a request's path says what it answers.

use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::harness::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, PING, PUSH_PROMISE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, frame,
};
use crate::proxy::origin::{Listening, PORT};

/// It, as tests see it.
#[derive(Clone)]
pub struct Http2Backend {
    /// How many connections have been made to it.
    pub connections: Arc<AtomicUsize>,
    /// How many of them have ended.
    pub ended: Arc<AtomicUsize>,
    /// How many requests have come to their end, or have been refused.
    pub requests: Arc<AtomicUsize>,
    /// The reasons of streams that were reset.
    pub resets: Arc<Mutex<Vec<u32>>>,
    /// The requests for `held` that wait for [`let_go`](Http2Backend::let_go), as connections and streams.
    waiting: Arc<Mutex<Vec<(TcpStream, u32)>>>,
    /// How many requests for `leaves-thrice` were not processed.
    left: Arc<AtomicUsize>,
    held: Arc<Mutex<Vec<TcpStream>>>,
    settings: &'static [(u16, u32)],
    ip: Ipv4Addr,
    /// `None`: for the thread that listens.
    _listening: Option<Arc<Listening>>,
}

/// A request, as far as it has come.
#[derive(Default)]
struct Asked {
    stream: u32,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    trailers: Vec<(String, String)>,
}

impl Asked {
    fn path(&self) -> &str {
        self.fields.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path)
    }

    /// All of it as text.
    fn text(&self) -> Vec<u8> {
        let line = |(name, value): &(String, String)| format!("{name}: {value}\n");
        let fields: String = self.fields.iter().map(line).collect();
        let trailers: String = self.trailers.iter().map(line).collect();
        [fields.as_bytes(), b"\n", &self.body, b"\n", trailers.as_bytes()].concat()
    }
}

const WHOLE: u8 = END_HEADERS | END_STREAM;

fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags, stream, &block(fields))
}

fn plain(stream: u32, length: &str) -> Vec<u8> {
    head(stream, END_HEADERS, &[(":status", "200"), ("content-type", "text/plain"), ("content-length", length)])
}

fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, bytes)
}

/// The frames of an answer. `None`: nobody has said what they are.
fn answer(name: &str, stream: u32, here: &str) -> Option<Vec<u8>> {
    let location = format!("http://{here}/inner/there?x");
    let ok = (":status", "200");
    let many = [
        ok,
        ("content-type", "Text/X-A"),
        ("x-a", "1"),
        ("x-a", "2"),
        ("content-language", "de"),
        ("location", &location),
        ("set-cookie", "a=b; Path=/inner/"),
        ("set-cookie", "c=d"),
        ("etag", "\"x\""),
        ("server", "engine"),
        ("www-authenticate", "Basic realm=\"x\""),
        ("content-length", "3"),
    ];
    let hints = || head(stream, END_HEADERS, &[(":status", "103"), ("link", "</x>; rel=preload")]);
    let bad = |fields: &[(&str, &str)]| [head(stream, END_HEADERS, fields), data(stream, b"hi")].concat();
    let bad_on = |stream: u32| head(stream, WHOLE, &[ok]);
    let often = |count: usize, one: Vec<u8>| one.repeat(count);
    let big = "x".repeat(70_000);
    Some(match name {
        "fields" => [head(stream, END_HEADERS, &many), data(stream, b"abc")].concat(),
        "missing" => {
            [head(stream, END_HEADERS, &[(":status", "404"), ("content-type", "text/plain")]), data(stream, b"nope")]
                .concat()
        }
        "unchanged" => head(stream, WHOLE, &[(":status", "304"), ("etag", "\"x\"")]),
        "nothing" => head(stream, WHOLE, &[(":status", "204")]),
        "bare" => [plain(stream, "2"), data(stream, b"hi")].concat(),
        "pieces" => [
            head(stream, END_HEADERS, &[ok]),
            frame(DATA, 0, stream, b"ab"),
            frame(DATA, 0, stream, b"cd"),
            data(stream, b""),
        ]
        .concat(),
        "hints" => [hints(), plain(stream, "2"), data(stream, b"hi")].concat(),
        "trailers" => [
            head(stream, END_HEADERS, &[ok, ("content-type", "application/grpc")]),
            frame(DATA, 0, stream, b"message"),
            head(stream, WHOLE, &[("grpc-status", "0"), ("grpc-message", "fine"), ("content-type", "not/here")]),
        ]
        .concat(),
        "only" => head(stream, WHOLE, &[ok, ("content-type", "application/grpc"), ("grpc-status", "12")]),
        // Nobody may understand these.
        "statusless" => bad(&[("x", "y")]),
        "doubled" => bad(&[ok, ok]),
        "connection" => bad(&[ok, ("connection", "close")]),
        "coding" => bad(&[ok, ("transfer-encoding", "chunked")]),
        "capital" => bad(&[ok, ("X-A", "b")]),
        "control" => bad(&[ok, ("x-a", "a\rb: c")]),
        "name" => bad(&[ok, ("a b", "c")]),
        "switched" => bad(&[(":status", "101")]),
        "lengths" => bad(&[ok, ("content-length", "2"), ("content-length", "3")]),
        "longer" => [plain(stream, "1"), data(stream, b"hi")].concat(),
        "headless" => data(stream, b"hi"),
        "big" => {
            let block = block(&[ok, ("x", &big)]);
            let (first, rest) = block.split_at(16_000);
            let rest = rest.chunks(16_000).map(|part| frame(CONTINUATION, 0, stream, part)).collect::<Vec<_>>();
            [frame(HEADERS, 0, stream, first), rest.concat(), frame(CONTINUATION, END_HEADERS, stream, b"")].concat()
        }
        "interims" => often(12, hints()),
        "reset" => frame(RST_STREAM, 0, stream, &[0, 0, 0, 2]),
        "refused" => frame(RST_STREAM, 0, stream, &[0, 0, 0, 7]),
        "short" => [plain(stream, "20"), data(stream, b"hi")].concat(),
        // These end the connection.
        "pushes" => frame(PUSH_PROMISE, END_HEADERS, stream, &[&[0, 0, 0, 2], &block(&[(":path", "/")])[..]].concat()),
        "continued" => {
            [frame(HEADERS, 0, stream, b""), often(20, frame(CONTINUATION, 0, stream, &[0; 16_000]))].concat()
        }
        "pings" => often(3_000, frame(PING, 0, 0, b"12345678")),
        "settings" => often(3_000, frame(SETTINGS, 0, 0, b"")),
        "deaf" => [plain(stream, "2"), often(64, frame(DATA, 0, stream, &[0; 16_000]))].concat(),
        "empty" => [plain(stream, "2"), often(3_000, frame(DATA, 0, stream, b""))].concat(),
        "resets" => often(3_000, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])),
        "goaways" => often(3_000, frame(GOAWAY, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])),
        "windows" => often(3_000, frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        "priorities" => often(3_000, frame(2, 0, stream, &[0, 0, 0, 0, 1])),
        "unknown" => often(3_000, frame(77, 0, stream, b"x")),
        "nothings" => [frame(HEADERS, 0, stream, b""), often(3_000, frame(CONTINUATION, 0, stream, b""))].concat(),
        "wide" => frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        "wide-setting" => frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
        "sizes" => frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]),
        "push-setting" => frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1]),
        "never-asked" => bad_on(stream + 2),
        "even" => bad_on(2),
        "own-even" => frame(DATA, 0, 2, b"hi"),
        "zero" => frame(DATA, 0, 0, b"hi"),
        "between" => [frame(HEADERS, 0, stream, b""), data(stream, b"hi")].concat(),
        "padding" => frame(DATA, 8, stream, &[9, 0]),
        "undecodable" => frame(HEADERS, END_HEADERS, stream, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        // The stream alone ends; the connection carries others.
        "wide-stream" => frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]),
        // A field of 4 000 bytes, and so many references to it.
        "bomb" => {
            let value = "v".repeat(4_000);
            let mut bytes = vec![0x88, 0x40, 1, b'x', 0x7f];
            let rest = value.len() - 0x7f;
            bytes.extend([0x80 | (rest % 128) as u8, (rest / 128) as u8]);
            bytes.extend(value.as_bytes());
            bytes.extend(vec![0xbe; 10_000]);
            frame(HEADERS, END_HEADERS, stream, &bytes)
        }
        "interim-flood" => often(2_000, hints()),
        "garbage" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        _ => return None,
    })
}

impl Http2Backend {
    /// Starts one at this address, with these settings.
    pub fn start(ip: Ipv4Addr, settings: &'static [(u16, u32)]) -> Http2Backend {
        let listener = TcpListener::bind((ip, PORT)).expect("bind");
        let listening = Arc::new(Listening(listener.try_clone().expect("clone")));
        let backend = Http2Backend {
            connections: Arc::default(),
            ended: Arc::default(),
            requests: Arc::default(),
            resets: Arc::default(),
            waiting: Arc::default(),
            left: Arc::default(),
            held: Arc::default(),
            settings,
            ip,
            _listening: Some(listening),
        };
        let it = Http2Backend { _listening: None, ..backend.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                it.connections.fetch_add(1, Ordering::Relaxed);
                it.held.lock().expect("no panic").push(stream.try_clone().expect("clone"));
                let it = it.clone();
                std::thread::spawn(move || {
                    it.serve(stream);
                    it.ended.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        backend
    }

    /// Closes all connections.
    pub fn close_all(&self) {
        for stream in self.held.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How many requests for `held` wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().expect("no panic").len()
    }

    /// Answers all requests for `held`.
    pub fn let_go(&self) {
        for (mut connection, stream) in self.waiting.lock().expect("no panic").drain(..) {
            let _ = std::io::Write::write_all(&mut connection, &[plain(stream, "2"), data(stream, b"hi")].concat());
        }
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let socket = stream.try_clone().ok()?;
        let mut frames = Frames::accept(stream, self.settings)?;
        let mut open: Vec<Asked> = Vec::new();
        let mut served = 0;
        loop {
            let Frame { kind, flags, stream, payload } = frames.frame()?;
            match kind {
                SETTINGS if flags & ACK == 0 => drop(frames.send(SETTINGS, ACK, 0, b"")),
                PING if flags & ACK == 0 => drop(frames.send(PING, ACK, 0, &payload)),
                RST_STREAM => {
                    self.resets.lock().expect("no panic").push(u32::from_be_bytes(payload.try_into().ok()?));
                    open.retain(|one| one.stream != stream);
                }
                HEADERS => {
                    let fields = frames.head().to_vec();
                    match open.iter_mut().find(|one| one.stream == stream) {
                        Some(asked) => asked.trailers = fields,
                        None => open.push(Asked { stream, fields, ..Asked::default() }),
                    }
                    // It answers before the body has come.
                    if flags & END_STREAM == 0 && open.last()?.path().ends_with("/early") {
                        frames.raw(&answer("only", stream, "")?);
                    }
                }
                DATA => {
                    let size = (payload.len() as u32).to_be_bytes();
                    if !payload.is_empty() {
                        frames.send(WINDOW_UPDATE, 0, 0, &size);
                        frames.send(WINDOW_UPDATE, 0, stream, &size);
                    }
                    open.iter_mut().filter(|one| one.stream == stream).for_each(|one| one.body.extend(&payload));
                }
                _ => {}
            }
            if !matches!(kind, HEADERS | DATA) || flags & END_STREAM == 0 {
                continue;
            }
            let Some(at) = open.iter().position(|one| one.stream == stream) else { continue };
            let asked = open.remove(at);
            self.requests.fetch_add(1, Ordering::Relaxed);
            served += 1;
            self.respond(&mut frames, &socket, &asked, served)?;
        }
    }

    /// Answers a request, the one with this number of its connection. `None`: the connection has ended.
    fn respond(&self, frames: &mut Frames, socket: &TcpStream, asked: &Asked, number: u32) -> Option<()> {
        let stream = asked.stream;
        let name = asked.path().split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let here = format!("{}:{PORT}", self.ip);
        match name {
            "held" => {
                self.waiting.lock().expect("no panic").push((socket.try_clone().ok()?, stream));
                return Some(());
            }
            "leaves-thrice" if self.left.fetch_add(1, Ordering::Relaxed) < 3 => {
                frames.send(GOAWAY, 0, 0, &[0; 8]);
                let _ = socket.shutdown(Shutdown::Both);
                return None;
            }
            // The first request of a connection is answered.
            "leaves" | "closes" if number > 1 => {
                if name == "leaves" {
                    let last = (stream - 2).to_be_bytes();
                    frames.send(GOAWAY, 0, 0, &[&last[..], &[0; 4]].concat());
                }
                let _ = socket.shutdown(Shutdown::Both);
                return None;
            }
            "refused-once" if number.is_multiple_of(2) => drop(frames.raw(&answer("refused", stream, &here)?)),
            "endless" => {
                frames.raw(&head(stream, END_HEADERS, &[(":status", "200")]));
                frames.raw(&frame(DATA, 0, stream, b"first"));
            }
            name => {
                let bytes = answer(name, stream, &here).unwrap_or_else(|| {
                    let text = match name {
                        "count" => asked.body.len().to_string().into_bytes(),
                        _ => asked.text(),
                    };
                    let pieces: Vec<u8> = text.chunks(16_000).flat_map(|part| frame(DATA, 0, stream, part)).collect();
                    [plain(stream, &text.len().to_string()), pieces, data(stream, b"")].concat()
                });
                frames.raw(&bytes);
            }
        }
        Some(())
    }
}
