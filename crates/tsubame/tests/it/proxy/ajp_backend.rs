//! An AJP server behind the proxy: the last part of a request's path says what it answers, and every packet is recorded.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::proxy::origin::Listening;

const PORT: u16 = crate::proxy::origin::PORT;

/// It, as tests see it.
#[derive(Clone)]
pub struct AjpBackend {
    /// How many connections have been made to it.
    pub connections: Arc<AtomicUsize>,
    /// The packets that have come, in their order.
    packets: Arc<Mutex<Vec<Vec<u8>>>>,
    held: Arc<Mutex<Vec<TcpStream>>>,
    /// `None`: for the thread that listens.
    _listening: Option<Arc<Listening>>,
}

/// A text with its length.
fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("short").to_be_bytes();
    [&length[..], text.as_bytes(), b"\0"].concat()
}

fn packet(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    [b"AB", &length[..], content].concat()
}

fn head(status: u16, reason: &str, fields: &[(&[u8], &str)]) -> Vec<u8> {
    let count = u16::try_from(fields.len()).expect("few").to_be_bytes();
    let fields = fields.iter().flat_map(|(name, value)| [name.to_vec(), text(value)].concat());
    packet(&[&[4], &status.to_be_bytes()[..], &text(reason), &count, &fields.collect::<Vec<u8>>()].concat())
}

fn body(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    packet(&[&[3], &length[..], content, b"\0"].concat())
}

fn end(reuse: u8) -> Vec<u8> {
    packet(&[5, reuse])
}

/// The bytes of an answer; an empty one ends the connection. `None`: nobody has said what it is.
fn answer(name: &str) -> Option<Vec<u8>> {
    let plain = || head(200, "OK", &[(b"\xa0\x01", "text/plain"), (b"\xa0\x03", "2")]);
    let named = text("X-A");
    let many = [
        (&b"\xa0\x01"[..], "Text/X-A"),
        (&named, "1"),
        (&named, "2"),
        (b"\xa0\x02", "de"),
        (b"\xa0\x04", "Mon, 01 Jan 2001 00:00:00 GMT"),
        (b"\xa0\x05", "Mon, 01 Jan 2001 00:00:00 GMT"),
        (b"\xa0\x06", "http://ADDR:9108/inner/there?x"),
        (b"\xa0\x07", "a=b; Path=/inner/"),
        (b"\xa0\x09", "engine"),
        (b"\xa0\x0b", "Basic realm=\"x\""),
    ];
    Some(match name {
        "fields" => [head(200, "Fine", &many), body(b"abc"), end(1)].concat(),
        "missing" => [head(404, "Gone Away", &[(b"\xa0\x01", "text/plain")]), body(b"nope"), end(1)].concat(),
        "unchanged" => [head(304, "Not Modified", &[]), end(1)].concat(),
        "nothing" => [head(204, "No Content", &[]), end(1)].concat(),
        "head" => [plain(), end(1)].concat(),
        "bare" => [plain(), body(b"hi"), end(1)].concat(),
        "pieces" => [head(200, "OK", &[]), body(b"ab"), body(b""), body(b"cd"), end(1)].concat(),
        "last" => [plain(), body(b"hi"), end(0)].concat(),
        "empty" => Vec::new(),
        "signature" => b"XX\0\x02\x05\x01".to_vec(),
        "unknown" => packet(b"cde"),
        "long" => [b"AB\xff\xff", &[0; 65535][..]].concat(),
        "short" => packet(b"\x04\0\xc8\0\x02OK\0\0\x03"),
        "early" => [body(b"hi"), end(1)].concat(),
        "headless" => end(1),
        "two-heads" => [head(200, "OK", &[]), head(200, "OK", &[])].concat(),
        "more" => [plain(), body(b"hi!"), end(1)].concat(),
        "less" => [plain(), body(b"h"), end(1)].concat(),
        "extra" => [plain(), body(b"hi"), end(1), end(1)].concat(),
        _ => return None,
    })
}

impl AjpBackend {
    /// Starts one at this address.
    pub fn start(ip: Ipv4Addr) -> AjpBackend {
        let listener = TcpListener::bind((ip, PORT)).expect("bind");
        let listening = Arc::new(Listening(listener.try_clone().expect("clone")));
        let backend = AjpBackend {
            connections: Arc::default(),
            packets: Arc::default(),
            held: Arc::default(),
            _listening: Some(listening),
        };
        let it = AjpBackend { _listening: None, ..backend.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                it.connections.fetch_add(1, Ordering::Relaxed);
                it.held.lock().expect("no panic").push(stream.try_clone().expect("clone"));
                let it = it.clone();
                std::thread::spawn(move || it.serve(stream, ip));
            }
        });
        backend
    }

    /// The packets that have come since the last look.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.packets.lock().expect("no panic"))
    }

    /// Closes all connections, as a server does that finds them idle.
    pub fn close_all(&self) {
        for stream in self.held.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn receive(&self, stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut packet = vec![0; 4];
        stream.read_exact(&mut packet).ok()?;
        let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        packet.resize(4 + length, 0);
        stream.read_exact(&mut packet[4..]).ok()?;
        self.packets.lock().expect("no panic").push(packet.clone());
        Some(packet)
    }

    fn serve(&self, mut stream: TcpStream, ip: Ipv4Addr) -> Option<()> {
        loop {
            let request = self.receive(&mut stream)?;
            if request[4..] == [10] {
                stream.write_all(&packet(&[9])).ok()?;
                continue;
            }
            let line = &request[6..];
            let length = usize::from(u16::from_be_bytes([line[11], line[12]]));
            let path = String::from_utf8_lossy(&line[13..13 + length]).into_owned();
            let name = path.rsplit('/').next().unwrap_or_default();
            let has = |part: &[u8]| request.windows(part.len()).any(|have| have == part);
            let mut content = Vec::new();
            if has(b"\xa0\x08") && !has(b"\xa0\x08\0\x010\0") {
                content.extend_from_slice(self.receive(&mut stream)?.get(6..).unwrap_or_default());
            }
            match name {
                // The body, in pieces of at most so many bytes.
                "echo" => loop {
                    stream.write_all(&packet(&[6, 0x1f, 0xfa])).ok()?;
                    match self.receive(&mut stream)?.get(6..) {
                        Some(piece) if !piece.is_empty() => content.extend_from_slice(piece),
                        _ => break,
                    }
                },
                // It begins to answer, and asks for the body then.
                "late" => {
                    stream.write_all(&[head(200, "OK", &[]), body(b"first "), packet(&[6, 0, 3])].concat()).ok()?;
                    content.extend_from_slice(self.receive(&mut stream)?.get(6..).unwrap_or_default());
                    stream.write_all(&[body(&content), end(1)].concat()).ok()?;
                    continue;
                }
                _ => {}
            }
            let bytes = answer(name).unwrap_or_else(|| {
                let pieces = content.chunks(8000).flat_map(body);
                [head(200, "OK", &[]), pieces.collect(), end(1)].concat()
            });
            let here = text(&format!("http://{ip}:{PORT}/inner/there?x"));
            let bytes = replaced(bytes, &text("http://ADDR:9108/inner/there?x"), &here);
            stream.write_all(&bytes).ok()?;
            if bytes.is_empty() || name == "last" {
                let _ = stream.shutdown(Shutdown::Both);
                return None;
            }
        }
    }
}

/// Puts the address into an answer, whose packet's length changes with it.
fn replaced(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    if let Some(at) = bytes.windows(from.len()).position(|part| part == from) {
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) + to.len() - from.len();
        bytes[2..4].copy_from_slice(&u16::try_from(length).expect("short").to_be_bytes());
        bytes.splice(at..at + from.len(), to.iter().copied());
    }
    bytes
}
