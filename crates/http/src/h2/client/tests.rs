//! A connection, as its server sees it.

use super::*;
use crate::h2::frame::{FrameHeader, HEADER, PAYLOAD, flag};

const CONFIG: Config = Config { streams: 3, window: 100, header_list: 10_000 };

/// A connection, and the server's encoder.
struct Server {
    connection: Connection<()>,
    encoder: Encoder,
}

impl Server {
    fn new() -> Server {
        let mut server = Server { connection: Connection::new(CONFIG), encoder: Encoder::new() };
        let greeting = std::mem::take(server.connection.out());
        assert!(greeting.starts_with(PREFACE));
        assert!(greeting[PREFACE.len() + HEADER..].starts_with(&[0, 2, 0, 0, 0, 0]), "no pushes");
        assert_eq!(server.send(kind::SETTINGS, 0, 0, &[]), said("room"));
        assert_eq!(server.send(kind::SETTINGS, flag::ACK, 0, &[]), said(""));
        server.sent();
        server
    }

    /// What a frame means; the reason, if it ends the connection.
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<String, Reason> {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, kind, flags, stream, payload);
        let (length, event) = self.connection.receive(&bytes).map_err(|broken| broken.reason)?.expect("a frame");
        assert_eq!(length, bytes.len());
        Ok(match event {
            Event::Nothing => String::new(),
            Event::Head { at, status, ends } => format!("head {} {status}{}", at.number(), end(ends)),
            Event::Data { at, bytes, ends } => format!("data {} {}{}", at.number(), bytes.len(), end(ends)),
            Event::Trailers(at) => format!("trailers {}", at.number()),
            Event::Gone(at, Gone::Malformed(_)) => format!("malformed {}", at.number()),
            Event::Gone(at, gone) => format!("gone {} {gone:?}", at.number()),
            Event::Leaves(all) => format!("leaves {:?}", all.iter().map(|at| at.number()).collect::<Vec<_>>()),
            Event::Room(_) => "room".into(),
        })
    }

    fn head(&mut self, stream: u32, ends: bool, fields: &[(&str, &str)]) -> Result<String, Reason> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        fields.iter().for_each(|(name, value)| self.encoder.field(name.as_bytes(), value.as_bytes(), &mut block));
        self.send(kind::HEADERS, flag::END_HEADERS | u8::from(ends), stream, &block)
    }

    fn ask(&mut self, ends: bool, to_head: bool) -> Option<At> {
        let written = self.connection.request::<()>(ends, to_head, |writer| {
            writer.field_again(b":method", b"GET");
            writer.field("X-A", b"b").map_err(drop)
        });
        written.expect("it is valid")
    }

    /// The frames that were sent: kind, flags, stream, length.
    fn sent(&mut self) -> Vec<(u8, u8, u32, usize)> {
        let bytes = std::mem::take(self.connection.out());
        let (mut rest, mut frames) = (&bytes[..], Vec::new());
        while let Some(header) = FrameHeader::read(rest) {
            frames.push((header.kind, header.flags, header.stream, header.length));
            rest = &rest[HEADER + header.length..];
        }
        frames
    }
}

fn end(ends: bool) -> &'static str {
    if ends { "." } else { "" }
}

fn said(text: &str) -> Result<String, Reason> {
    Ok(text.into())
}

const OK: [(&str, &str); 1] = [(":status", "200")];

#[test]
fn a_request_and_its_response() {
    let mut server = Server::new();
    let at = server.ask(false, false).expect("room");
    server.connection.data(at, &[7; PAYLOAD + 1], false);
    server.connection.trailers::<()>(at, |writer| writer.field("X-T", b"v").map_err(drop)).expect("valid");
    let sent = server.sent();
    let kinds: Vec<_> = sent.iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
    let whole = flag::END_HEADERS | flag::END_STREAM;
    assert_eq!(
        kinds,
        [(kind::HEADERS, flag::END_HEADERS, 1), (kind::DATA, 0, 1), (kind::DATA, 0, 1), (kind::HEADERS, whole, 1)]
    );
    assert_eq!(server.connection.room(at), 65_535 - PAYLOAD - 1);
    assert_eq!(server.head(1, false, &[(":status", "103"), ("link", "x")]), said("head 1 103"));
    assert_eq!(server.head(1, false, &[(":status", "200"), ("content-length", "4")]), said("head 1 200"));
    assert_eq!(server.connection.fields().length(), Some(4));
    assert_eq!(server.send(kind::DATA, flag::PADDED, 1, b"\x02ab\0\0"), said("data 1 2"));
    assert_eq!(server.send(kind::DATA, 0, 1, b"cd"), said("data 1 2"));
    assert_eq!(server.head(1, true, &[("x-t", "v")]), said("trailers 1"));
    server.connection.release(at);
    assert_eq!(server.sent(), [], "a whole exchange leaves nothing to say");
    assert_eq!(server.send(kind::DATA, 0, 1, b"x"), Err(Reason::STREAM_CLOSED));
}

#[test]
fn what_is_wrong_on_a_stream_ends_only_that() {
    let long = "x".repeat(10_000);
    for (fields, ends) in [
        (&[("x", "y")][..], false),
        (&[(":status", "2000")], false),
        (&[(":status", "099")], false),
        (&[(":status", "101")], false),
        (&[(":status", "103")], true),
        (&[(":status", "200"), (":path", "/")], false),
        (&[(":status", "200"), (":status", "200")], false),
        (&[(":status", "200"), ("connection", "close")], false),
        (&[(":status", "200"), ("transfer-encoding", "chunked")], false),
        (&[(":status", "200"), ("content-length", "1"), ("content-length", "2")], false),
        (&[(":status", "200"), ("content-length", "1")], true),
        (&[(":status", "200"), ("x", "a\nb")], false),
        (&[(":status", "200"), ("x", &long)], false),
    ] {
        let mut server = Server::new();
        assert!(server.ask(true, false).is_some() && server.ask(true, false).is_some());
        server.sent();
        assert_eq!(server.head(1, ends, fields), said("malformed 1"), "{fields:?}");
        assert_eq!(server.sent(), [(kind::RST_STREAM, 0, 1, 4)]);
        assert_eq!(server.head(3, true, &OK), said("head 3 200."), "after {fields:?}");
    }
}

#[test]
fn bodies_are_as_long_as_they_say() {
    let length = |length| [(":status", "200"), ("content-length", length)];
    let mut server = Server::new();
    server.ask(true, false);
    assert_eq!(server.head(1, false, &length("2")), said("head 1 200"));
    assert_eq!(server.send(kind::DATA, 0, 1, b"abc"), said("malformed 1"));
    server.ask(true, false);
    assert_eq!(server.head(3, false, &length("2")), said("head 3 200"));
    assert_eq!(server.send(kind::DATA, flag::END_STREAM, 3, b"a"), said("malformed 3"));
    server.ask(true, false);
    assert_eq!(server.head(5, false, &length("2")), said("head 5 200"));
    assert_eq!(server.head(5, true, &[("x", "y")]), said("malformed 5"));
    // What a HEAD is answered has a length, and no body.
    let mut server = Server::new();
    server.ask(true, true);
    assert_eq!(server.head(1, true, &length("2")), said("head 1 200."));
    server.ask(true, true);
    assert_eq!(server.head(3, false, &length("2")), said("head 3 200"));
    assert_eq!(server.send(kind::DATA, 0, 3, b"ab"), said("malformed 3"));
    server.ask(true, false);
    assert_eq!(server.send(kind::DATA, 0, 5, b"ab"), said("malformed 5"), "before the head");
}

#[test]
fn what_ends_the_connection() {
    let protocol = Err(Reason::PROTOCOL_ERROR);
    for (kind, flags, stream, payload, want) in [
        (kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2][..], protocol.clone()),
        (kind::HEADERS, flag::END_HEADERS, 2, b"\x88", protocol.clone()),
        (kind::HEADERS, flag::END_HEADERS, 9, b"\x88", protocol.clone()),
        (kind::HEADERS, flag::END_HEADERS, 1, b"\xff\xff\xff\xff\xff\x0f", Err(Reason::COMPRESSION_ERROR)),
        (kind::DATA, 0, 9, b"x", protocol.clone()),
        (kind::RST_STREAM, 0, 9, &[0; 4], protocol.clone()),
        (kind::WINDOW_UPDATE, 0, 9, &[0, 0, 0, 1], protocol.clone()),
        (kind::WINDOW_UPDATE, 0, 0, &[0; 4], protocol.clone()),
        (kind::WINDOW_UPDATE, 0, 0, &[127, 255, 255, 255], Err(Reason::FLOW_CONTROL_ERROR)),
        (kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1], protocol.clone()),
        (kind::SETTINGS, 0, 0, &[0, 4, 255, 0, 0, 0], Err(Reason::FLOW_CONTROL_ERROR)),
        (kind::SETTINGS, 0, 0, &[0; 5], Err(Reason::FRAME_SIZE_ERROR)),
        (kind::SETTINGS, 0, 1, &[], protocol.clone()),
        (kind::PING, 0, 0, &[0; 7], Err(Reason::FRAME_SIZE_ERROR)),
        (kind::GOAWAY, 0, 0, &[0; 7], Err(Reason::FRAME_SIZE_ERROR)),
        (kind::CONTINUATION, 0, 1, &[], protocol.clone()),
    ] {
        let mut server = Server::new();
        server.ask(true, false);
        server.sent();
        assert_eq!(server.send(kind, flags, stream, payload), want, "{kind} {payload:?}");
        assert_eq!(server.sent().last().map(|(kind, ..)| *kind), Some(kind::GOAWAY));
        assert!(server.ask(true, false).is_none());
    }
}

#[test]
fn streams_that_the_server_does_not_begin() {
    let mut server = Server::new();
    let all: Vec<_> = (0..3).filter_map(|_| server.ask(true, false)).collect();
    assert!(all.len() == 3 && server.ask(true, false).is_none(), "that is all");
    assert_eq!(server.send(kind::RST_STREAM, 0, 1, &[0, 0, 0, 7]), said("gone 1 Unprocessed"));
    assert_eq!(server.send(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]), said("leaves [5]"));
    assert_eq!(server.head(3, true, &OK), said("head 3 200."));
    assert!(all.into_iter().all(|at| !server.connection.release(at)));
    assert!(server.ask(true, false).is_none() && !server.connection.may_begin());
    let resets = server.sent().iter().filter(|(kind, ..)| *kind == kind::RST_STREAM).count();
    assert_eq!(resets, 0, "they have all ended");
}

#[test]
fn the_number_of_streams_is_the_servers_choice() {
    let mut connection: Connection<()> = Connection::new(CONFIG);
    let ask = |connection: &mut Connection<()>| connection.request::<()>(true, false, |_| Ok(())).expect("valid");
    let first = ask(&mut connection).expect("room");
    assert!(ask(&mut connection).is_none(), "the server has not said how many it allows");
    let mut bytes = Vec::new();
    frame::put(&mut bytes, kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2]);
    assert!(matches!(connection.receive(&bytes), Ok(Some((_, Event::Room(None))))));
    assert!(ask(&mut connection).is_some() && ask(&mut connection).is_none());
    connection.release(first);
    assert!(ask(&mut connection).is_some());
}

#[test]
fn floods_end() {
    for (kind, flags, payload) in [
        (kind::PING, 0, &[0; 8][..]),
        (kind::SETTINGS, 0, &[]),
        (kind::DATA, 0, &[]),
        (kind::WINDOW_UPDATE, 0, &[0, 0, 0, 1]),
        (kind::PRIORITY, 0, &[0; 5]),
        (99, 0, &[]),
    ] {
        let mut server = Server::new();
        server.ask(true, false);
        server.head(1, false, &OK).expect("a head");
        let stream = if matches!(kind, kind::PING | kind::SETTINGS) { 0 } else { 1 };
        let ended = (0..10_000).find_map(|_| server.send(kind, flags, stream, payload).err());
        assert_eq!(ended, Some(Reason::ENHANCE_YOUR_CALM), "{kind}");
    }
    let mut server = Server::new();
    server.ask(true, false);
    assert_eq!(server.send(kind::HEADERS, 0, 1, &[0; 9]), said(""));
    let ended = (0..10).find_map(|_| server.send(kind::CONTINUATION, 0, 1, &[0; 9000]).err());
    assert_eq!(ended, Some(Reason::ENHANCE_YOUR_CALM));
    // Heads on a stream that was given up.
    let mut server = Server::new();
    let at = server.ask(true, false).expect("room");
    server.connection.release(at);
    let ended = (0..10_000).find_map(|_| server.head(1, false, &OK).err());
    assert_eq!(ended, Some(Reason::ENHANCE_YOUR_CALM));
}

#[test]
fn an_abandoned_stream_ends_in_silence() {
    let mut server = Server::new();
    let (at, other) = (server.ask(true, false).expect("room"), server.ask(true, false).expect("room"));
    server.head(1, false, &OK).expect("a head");
    server.sent();
    assert!(server.connection.abandon(at) && !server.connection.abandon(at));
    assert_eq!(server.connection.streams(), 1, "it keeps no connection open");
    assert_eq!(server.send(kind::DATA, 0, 1, &[0; 100]), said(""));
    assert_eq!(server.sent(), [], "neither a reset nor a window");
    server.head(3, true, &OK).expect("a head");
    assert!(!server.connection.release(other), "it has ended");
    let frame = |kind| [0, 1, 2, kind, 0, 0, 0, 0, 1];
    let flow = Connection::<()>::flow;
    assert_eq!((flow(&frame(kind::DATA)), flow(&frame(kind::HEADERS)), flow(&[])), (258, 0, 0));
}

#[test]
fn a_stream_that_nobody_reads_fills_no_more_than_its_window() {
    let mut server = Server::new();
    let at = server.ask(true, false).expect("room");
    server.head(1, false, &OK).expect("a head");
    assert_eq!(server.send(kind::DATA, 0, 1, &[0; 100]), said("data 1 100"));
    server.sent();
    server.connection.consume(at, 50);
    assert_eq!(server.sent(), [(kind::WINDOW_UPDATE, 0, 1, 4)]);
    assert_eq!(server.send(kind::DATA, 0, 1, &[0; 51]), said("malformed 1"));
}
