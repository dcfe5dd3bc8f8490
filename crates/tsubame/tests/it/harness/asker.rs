//! A client that asks the same over HTTP/1 and over HTTP/2.

use std::net::TcpStream;

use crate::harness::frames::{Frames, request};
use crate::harness::server::Server;
use crate::harness::wire::{Client, Framing, Response};

/// A client of either protocol.
pub enum Asker {
    Http1(Client),
    Http2(Box<Frames>),
}

impl Asker {
    /// One of HTTP/1, or of HTTP/2 without TLS.
    pub fn new(server: &Server<'_>, is_http2: bool) -> Asker {
        Asker::over(TcpStream::connect(server.address()).expect("connect"), is_http2)
    }

    /// The same over a stream that is there already.
    pub fn over(stream: TcpStream, is_http2: bool) -> Asker {
        match is_http2 {
            true => Asker::Http2(Box::new(Frames::greet(stream, &[]))),
            false => Asker::Http1(Client::over(stream)),
        }
    }

    /// The response to a request with this head of HTTP/1.
    pub fn response(&mut self, method: &str, head: &str) -> Response {
        match self {
            Asker::Http1(client) => {
                client.send(head);
                client.response_to(method)
            }
            Asker::Http2(client) => {
                let mut lines = head.lines();
                let path = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a path");
                let fields: Vec<(String, &str)> = lines
                    .filter_map(|line| line.split_once(": "))
                    .map(|(name, value)| (name.to_lowercase(), value))
                    .filter(|(name, _)| !["host", "connection"].contains(&name.as_str()))
                    .collect();
                let fields = fields.iter().map(|(name, value)| (name.as_str(), *value));
                let fields: Vec<_> = request(method, path).into_iter().chain(fields).collect();
                let (status, mut fields, body) = client.response(&fields);
                for (name, _) in &mut fields {
                    *name = name.split('-').map(capital).collect::<Vec<_>>().join("-");
                }
                Response {
                    minor_version: 0,
                    status,
                    reason: String::new(),
                    fields,
                    body,
                    trailers: Vec::new(),
                    interim: Vec::new(),
                    framing: Framing::Length,
                }
            }
        }
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1.min(word.len()));
    first.to_uppercase() + rest
}
