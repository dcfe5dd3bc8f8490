//! Connections against hand-written frames.

use super::*;

/// A client that makes as many requests as there are paths, and its output.
fn client(paths: &[&str], body: &str) -> (Http2, Vec<u8>) {
    let request = |path: &&str| {
        let text = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\nConnection: close\r\n\r\n{body}");
        Request { bytes: text.into_bytes().into(), bodiless: false }
    };
    let requests: Vec<Request> = paths.iter().map(request).collect();
    let mut out = Vec::new();
    let mut client = Http2::open(messages(&requests, true), Some(b"hello".as_slice().into()), &mut out);
    (0..paths.len()).for_each(|number| client.send_request(number, &mut out));
    (client, out)
}

/// Frames of a server: kind, flags, stream, payload.
fn frames(all: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
    let frame = |(kind, flags, stream, payload): &(u8, u8, u32, &[u8])| {
        let head = [&(payload.len() as u32).to_be_bytes()[1..], &[*kind, *flags], &stream.to_be_bytes()].concat();
        [head, payload.to_vec()].concat()
    };
    all.iter().flat_map(frame).collect()
}

/// The events when these bytes arrive, whole and one by one, which must be the same; and the client's output.
fn read(paths: &[&str], bytes: &[u8]) -> Result<(Vec<Event>, Vec<u8>), Malformed> {
    let in_pieces = |size: usize| {
        let (mut client, mut out) = client(paths, "");
        out.clear();
        let mut events = Vec::new();
        for piece in bytes.chunks(size) {
            client.read(piece, &mut out, &mut |event| events.push(event))?;
        }
        Ok((events, out))
    };
    let whole = in_pieces(bytes.len().max(1));
    for size in [1, 7, 12, 13, 29] {
        assert_eq!(in_pieces(size), whole);
    }
    whole
}

fn response(status: u16, head: u64, body: u64, framing: u64, is_expected: bool) -> Response {
    Response { status, head, body, framing, keeps: true, is_expected }
}

const SETTINGS: (u8, u8, u32, &[u8]) = (4, 0, 0, &[]);

#[test]
fn responses_come_in_any_order_and_in_pieces() {
    let bytes = frames(&[
        SETTINGS,
        // An interim response, then 200 with a priority and padding; fields go on in another frame.
        (1, 0x4, 3, &[0x08, 3, b'1', b'0', b'3']),
        (1, 0x8 | 0x20, 3, &[2, 0, 0, 0, 0, 9, 0x88, 0, 0]),
        (9, 0x4, 3, &[0x76, 1, b'x']),
        (0, 0, 3, b"hel"),
        (1, 0x4, 1, &[0x8D]),
        (0, 0x8 | 0x1, 3, b"\x03lo..."),
        (0, 0x1, 1, b""),
    ]);
    let (events, out) = read(&["/a", "/b"], &bytes).unwrap();
    let expected = [
        Event::Room,
        Event::Began(1),
        Event::Began(1),
        Event::Began(0),
        Event::Answered(1, response(200, 14 + 18 + 12, 5, 9 + 9 + 4, true)),
        Event::Answered(0, response(404, 10, 0, 9, false)),
    ];
    assert_eq!(events, expected);
    assert_eq!(out, frames(&[(4, 1, 0, &[])]), "settings are acknowledged");
}

#[test]
fn trailers_pings_and_what_is_new_are_no_surprise() {
    let bytes = frames(&[
        SETTINGS,
        (0x42, 0xFF, 7, b"whatever"),
        (6, 0, 0, b"12345678"),
        (1, 0x4, 1, &[0x88]),
        (0, 0, 1, b"hello"),
        (1, 0x5, 1, &[0x00, 1, b'x', 1, b'y']),
        (3, 0, 1, &[0, 0, 0, 0]),
        (0, 0, 99, b"of a stream that is over"),
    ]);
    let (events, out) = read(&["/"], &bytes).unwrap();
    assert_eq!(events.last(), Some(&Event::Answered(0, response(200, 10, 5, 9 + 14, true))));
    assert_eq!((events.len(), out), (4, frames(&[(4, 1, 0, &[]), (6, 1, 0, b"12345678")])));
}

#[test]
fn a_stream_may_be_refused_and_a_server_may_leave() {
    let (mut client, mut out) = client(&["/a", "/b", "/c"], "");
    let mut events = Vec::new();
    let bytes = frames(&[SETTINGS, (3, 0, 3, &[0, 0, 0, 7]), (7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])]);
    client.read(&bytes, &mut out, &mut |event| events.push(event)).unwrap();
    assert_eq!(events, [Event::Room, Event::Refused(1)]);
    assert_eq!((client.most(100), client.is_over()), (0, false), "the first one is still answered");
    client.read(&frames(&[(1, 0x5, 1, &[0x89])]), &mut out, &mut |event| events.push(event)).unwrap();
    assert!(matches!(events[..], [.., Event::Answered(0, Response { status: 204, .. })]), "{events:?}");
    assert!(client.is_over(), "the third one never is");
}

#[test]
fn servers_say_how_much_they_take() {
    let (mut client, mut out) = client(&["/"], &"x".repeat(100_000));
    let sent = |out: &mut Vec<u8>| {
        let (mut rest, mut sent, mut ends) = (&std::mem::take(out)[..], 0, 0);
        while rest.len() >= frame::HEAD {
            let frame = Frame::of(rest);
            if frame.kind == FrameKind::Data {
                sent += frame.length;
                ends += frame.flags & flags::END_STREAM;
            }
            rest = &rest[frame::HEAD + frame.length..];
        }
        (sent, ends)
    };
    out.drain(..24);
    assert_eq!(sent(&mut out), (65_535, 0), "what may be sent without asking");
    assert_eq!(client.most(100), 1, "nothing is known yet");
    let mut read = |all: &[(u8, u8, u32, &[u8])], out: &mut Vec<u8>| {
        client.read(&frames(all), out, &mut |_| {}).unwrap();
        client.most(100)
    };
    assert_eq!(read(&[(4, 0, 0, &[0, 3, 0, 0, 0, 8, 0, 4, 0, 1, 0x86, 0xA0])], &mut out), 8);
    assert_eq!(sent(&mut out), (0, 0), "the stream may, the connection may not");
    read(&[(8, 0, 0, &[0, 0, 0x80, 0])], &mut out);
    assert_eq!(sent(&mut out), (32_768, 0));
    read(&[(8, 0, 0, &[0, 0, 0x80, 0])], &mut out);
    assert_eq!(sent(&mut out), (1_697, 1));
}

#[test]
fn a_server_without_a_table_gets_whole_fields() {
    let (mut client, mut out) = client(&["/"], "");
    client.read(&frames(&[(4, 0, 0, &[0, 1, 0, 0, 0, 0])]), &mut out, &mut |_| {}).unwrap();
    let blocks = |client: &mut Http2| {
        let mut out = Vec::new();
        client.send_request(0, &mut out);
        let frame = Frame::of(&out);
        assert_eq!((frame.kind, frame.flags), (FrameKind::Headers, flags::END_STREAM | flags::END_HEADERS));
        frame.payload.to_vec()
    };
    let (first, second) = (blocks(&mut client), blocks(&mut client));
    assert_eq!(first[0], EMPTY_TABLE);
    assert_eq!(second, first[1..], "which is said once");
    assert!(second.windows(3).any(|part| part == b"x-a") && !second.windows(5).any(|part| part == b"close"));
}

#[test]
fn malformed_frames_are_reported() {
    for wrong in [
        (0, 0, 1, &b"before its fields"[..]),
        (0, 0x8, 1, b"\x09short"),
        (1, 0x4, 1, &[0x04, 1, b'/']),
        (1, 0x4, 1, &[0xFF]),
        (5, 0x4, 1, &[0, 0, 0, 2]),
        (9, 0x4, 1, &[0x88]),
        (4, 0, 0, &[0, 1, 0]),
        (8, 0, 0, &[0]),
        (7, 0, 0, &[]),
    ] {
        assert!(read(&["/"], &frames(&[SETTINGS, wrong])).is_err(), "{wrong:?}");
    }
    let between = frames(&[(1, 0, 1, &[0x88]), (0, 0, 1, b"x")]);
    assert!(read(&["/"], &between).is_err());
    assert!(read(&["/"], &[0xFF, 0xFF, 0xFF, 4, 0, 0, 0, 0, 0]).is_err());
}
