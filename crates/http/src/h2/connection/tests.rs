//! A connection, as its client sees it.

use super::*;
use crate::h2::frame::{FrameHeader, HEADER, PAYLOAD, PREFACE, flag};

const CONFIG: Config = Config {
    streams: 3,
    window: 100,
    connection_window: 100_000,
    header_list: 10_000,
    tunnels: false,
    faults: Some(2),
};

/// A connection, and the client's encoder.
struct Client {
    connection: Connection<()>,
    encoder: Encoder,
    begun: Vec<At>,
}

impl Client {
    fn new() -> Client {
        let mut client =
            Client { connection: Connection::new(CONFIG, Vec::new()), encoder: Encoder::new(), begun: Vec::new() };
        assert_eq!(client.receive(PREFACE), Ok(vec![]));
        assert_eq!(client.send(kind::SETTINGS, 0, 0, &[]), Ok(vec!["room".into()]));
        assert_eq!(client.send(kind::SETTINGS, flag::ACK, 0, &[]), Ok(vec![]));
        client.sent();
        client
    }

    /// What these bytes mean.
    fn receive(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, Reason> {
        let mut events = Vec::new();
        while let Some((length, event)) = self.connection.receive(bytes).map_err(|broken| broken.reason)? {
            bytes = &bytes[length..];
            let event = match event {
                Event::Nothing => continue,
                Event::Request { at, ends } => {
                    self.begun.push(at);
                    format!("request {}{}", at.number(), if ends { "." } else { "" })
                }
                Event::Data { at, bytes, ends } => {
                    format!("data {} {}{}", at.number(), bytes.len(), if ends { "." } else { "" })
                }
                Event::Trailers(at) => format!("trailers {}", at.number()),
                Event::Cut(at) => format!("cut {}", at.number()),
                Event::Gone(at, gone) => format!("gone {} {gone:?}", at.number()),
                Event::Room(_) => "room".into(),
            };
            events.push(event);
        }
        assert!(bytes.is_empty(), "{bytes:?}");
        Ok(events)
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Vec<String>, Reason> {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, kind, flags, stream, payload);
        self.receive(&bytes)
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        fields.iter().for_each(|(name, value)| self.encoder.field(name.as_bytes(), value.as_bytes(), &mut block));
        block
    }

    fn request(&mut self, stream: u32, ends: bool, more: &[(&str, &str)]) -> Result<Vec<String>, Reason> {
        let get = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "host")];
        let block = self.block(&[&get[..], more].concat());
        let end = if ends { flag::END_STREAM } else { 0 };
        self.send(kind::HEADERS, flag::END_HEADERS | end, stream, &block)
    }

    /// The frames that were sent: kind, flags, stream, payload.
    fn sent(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let bytes = std::mem::take(self.connection.out());
        let (mut rest, mut frames) = (&bytes[..], Vec::new());
        while let Some(header) = FrameHeader::read(rest) {
            let (payload, next) = rest[HEADER..].split_at(header.length);
            frames.push((header.kind, header.flags, header.stream, payload.to_vec()));
            rest = next;
        }
        frames
    }

    /// The resets that were sent.
    fn resets(&mut self) -> Vec<(u32, Reason)> {
        let all = self.sent().into_iter().filter(|(kind, ..)| *kind == kind::RST_STREAM);
        all.map(|(_, _, stream, payload)| (stream, Reason(u32::from_be_bytes(payload.try_into().expect("a code")))))
            .collect()
    }
}

fn events(texts: &[&str]) -> Result<Vec<String>, Reason> {
    Ok(texts.iter().map(|text| (*text).to_string()).collect())
}

#[test]
fn a_request_and_its_response() {
    let mut client = Client::new();
    assert_eq!(client.request(1, false, &[("content-length", "6")]), events(&["request 1"]));
    assert_eq!(client.send(kind::DATA, flag::PADDED, 1, b"\x02abc\0\0"), events(&["data 1 3"]));
    assert_eq!(client.send(kind::DATA, flag::END_STREAM, 1, b"def"), events(&["data 1 3."]));
    let at = client.begun[0];
    let sent = client.connection.head::<()>(at, 200, false, |writer| writer.field("X", b" y ").map_err(drop));
    assert_eq!(sent, Ok(true));
    client.connection.data(at, b"body", true);
    client.connection.release(at);
    let sent = client.sent();
    let kinds: Vec<_> = sent.iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
    assert_eq!(kinds, [(kind::HEADERS, flag::END_HEADERS, 1), (kind::DATA, flag::END_STREAM, 1)]);
    let mut fields = Vec::new();
    let decoded =
        Decoder::new(TABLE).decode(&sent[0].3, |name, value, ()| fields.push((name.to_vec(), value.to_vec())));
    assert_eq!(decoded, Ok(()));
    assert_eq!(fields, [(b":status".to_vec(), b"200".to_vec()), (b"x".to_vec(), b"y".to_vec())]);
    assert_eq!(sent[1].3, b"body");
    // Nothing may follow.
    assert_eq!(client.send(kind::DATA, 0, 1, b"x"), Err(Reason::STREAM_CLOSED));
    assert_eq!(client.sent().last().map(|(kind, ..)| *kind), Some(kind::GOAWAY));
}

#[test]
fn a_head_that_fails_leaves_nothing_behind() {
    for table in [None, Some(0), Some(4096)] {
        let mut client = Client::new();
        if let Some(size) = table {
            assert_eq!(client.send(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]), events(&["room"]));
            assert_eq!(client.send(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, (size >> 8) as u8, 0]), events(&["room"]));
            client.sent();
        }
        fails(client, table == Some(0));
    }
}

fn fails(mut client: Client, is_empty: bool) {
    assert_eq!(client.request(1, true, &[]), events(&["request 1."]));
    let at = client.begun[0];
    let failed = client.connection.head(at, 200, true, |writer| {
        writer.field("Entered", b"value")?;
        writer.field("Bad", b"\r\n")
    });
    assert!(failed.is_err() && client.sent().is_empty());
    let put = |writer: &mut crate::h2::HeadWriter<'_>| writer.field("Entered", b"value");
    assert_eq!(client.connection.head(at, 500, true, put), Ok(true));
    assert_eq!(client.connection.head(at, 100, false, put), Ok(false), "too late");
    let mut count = 0;
    let block = client.sent().remove(0).3;
    assert_eq!(block[0], 0x20, "the table begins anew");
    assert_eq!(block[1] & 0xe0 == 0x20, !is_empty, "and has a size again");
    assert_eq!(Decoder::new(TABLE).decode(&block, |_, _, ()| count += 1), Ok(()));
    assert_eq!(count, 2);
}

#[test]
fn long_heads_are_continued() {
    let mut client = Client::new();
    assert_eq!(client.request(1, true, &[]), events(&["request 1."]));
    let value = vec![b'v'; 3 * PAYLOAD];
    let sent = client.connection.head(client.begun[0], 200, true, |writer| writer.field("Long", &value));
    assert_eq!(sent, Ok(true));
    let sent = client.sent();
    let kinds: Vec<_> = sent.iter().map(|(kind, flags, ..)| (*kind, *flags)).collect();
    assert_eq!(kinds[0], (kind::HEADERS, flag::END_STREAM));
    assert_eq!(kinds[kinds.len() - 1], (kind::CONTINUATION, flag::END_HEADERS));
    assert!(kinds.len() > 3 && kinds[1..kinds.len() - 1].iter().all(|other| *other == (kind::CONTINUATION, 0)));
    let block: Vec<u8> = sent.into_iter().flat_map(|(.., payload)| payload).collect();
    let mut longest = 0;
    assert_eq!(Decoder::new(TABLE).decode(&block, |_, value, ()| longest = longest.max(value.len())), Ok(()));
    assert_eq!(longest, value.len());
}

#[test]
fn windows_hold_both_sides() {
    let mut client = Client::new();
    assert_eq!(client.send(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]), events(&["room"]));
    assert_eq!(client.request(1, false, &[]), events(&["request 1"]));
    let at = client.begun[0];
    assert_eq!(client.connection.room(at), (10, 65_535));
    assert_eq!(client.connection.head::<()>(at, 200, false, |_| Ok(())), Ok(true));
    client.connection.data(at, &[b'x'; 10], false);
    assert_eq!(client.connection.room(at), (0, 65_525));
    // A smaller initial window makes it negative.
    assert_eq!(client.send(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 4]), events(&["room"]));
    assert_eq!(client.send(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 8]), events(&["room"]));
    assert_eq!(client.connection.room(at).0, 2);
    client.sent();
    // The client has a hundred bytes, and more once half of them are consumed.
    assert_eq!(client.send(kind::DATA, 0, 1, &[b'x'; 100]), events(&["data 1 100"]));
    client.connection.consume(at, 49);
    assert_eq!(client.sent(), []);
    client.connection.consume(at, 51);
    assert_eq!(client.sent(), [(kind::WINDOW_UPDATE, 0, 1, vec![0, 0, 0, 100])]);
    assert_eq!(client.send(kind::DATA, 0, 1, &[b'x'; 101]), events(&["gone 1 Malformed"]));
    assert_eq!(client.resets(), [(1, Reason::FLOW_CONTROL_ERROR)]);
    // What comes for a stream that was reset only counts for the connection.
    assert_eq!(client.send(kind::DATA, 0, 1, &[b'x'; 100]), Ok(vec![]));
    assert_eq!(client.sent(), []);
}

/// A client that does not know our small windows yet may send more, but gets more for what they hold.
#[test]
fn small_windows_count_before_they_are_known() {
    let mut client =
        Client { connection: Connection::new(CONFIG, Vec::new()), encoder: Encoder::new(), begun: Vec::new() };
    assert_eq!(client.receive(PREFACE), Ok(vec![]));
    assert_eq!(client.send(kind::SETTINGS, 0, 0, &[]), events(&["room"]));
    assert_eq!(client.request(1, false, &[]), events(&["request 1"]));
    client.sent();
    assert_eq!(client.send(kind::DATA, 0, 1, &[b'x'; 100]), events(&["data 1 100"]));
    client.connection.consume(client.begun[0], 100);
    assert_eq!(client.sent(), [(kind::WINDOW_UPDATE, 0, 1, vec![0, 0, 0, 100])]);
    assert_eq!(client.send(kind::DATA, 0, 1, &[b'x'; 16_000]), events(&["data 1 16000"]));
}

#[test]
fn padding_carries_nothing() {
    let mut client = Client::new();
    assert_eq!(client.request(1, false, &[]), events(&["request 1"]));
    let flood = (0..2000).find_map(|_| client.send(kind::DATA, flag::PADDED, 1, &[0]).err());
    assert_eq!(flood, Some(Reason::ENHANCE_YOUR_CALM));
}

#[test]
fn no_more_streams_than_allowed() {
    let mut client = Client::new();
    for stream in [1, 3, 5] {
        assert_eq!(client.request(stream, true, &[]), Ok(vec![format!("request {stream}.")]));
    }
    assert_eq!(client.request(7, true, &[]), Ok(vec![]));
    assert_eq!(client.resets(), [(7, Reason::REFUSED_STREAM)]);
    client.connection.release(client.begun[0]);
    assert_eq!(client.resets(), [(1, Reason::CANCEL)]);
    assert_eq!(client.request(9, true, &[]), events(&["request 9."]));
    assert_eq!(client.request(3, true, &[]), events(&["gone 3 Malformed"]), "it has sent everything");
    assert_eq!(client.request(7, true, &[]), Ok(vec![]), "we have reset it");
    assert_eq!(client.request(2, true, &[]), Err(Reason::PROTOCOL_ERROR));
}

#[test]
fn violations_end_streams_and_too_many_of_them_the_connection() {
    let mut client = Client::new();
    assert_eq!(client.request(1, true, &[("connection", "close")]), Ok(vec![]));
    assert_eq!(client.request(3, true, &[("content-length", "1")]), Ok(vec![]));
    assert_eq!(client.resets(), [(1, Reason::PROTOCOL_ERROR), (3, Reason::PROTOCOL_ERROR)]);
    assert_eq!(client.request(5, true, &[("te", "gzip")]), Err(Reason::ENHANCE_YOUR_CALM));
    client.connection.end(Reason::NO_ERROR);
    let goodbyes = client.sent().into_iter().filter(|(kind, ..)| *kind == kind::GOAWAY).count();
    assert_eq!(goodbyes, 1, "only the first counts");
}

#[test]
fn a_body_may_end_early_once_it_is_answered() {
    let mut client = Client::new();
    let expected: [(_, _, &[_]); 3] =
        [(100, "gone 1 Malformed", &[(1, Reason::PROTOCOL_ERROR)]), (417, "cut 3", &[]), (200, "cut 5", &[])];
    for ((status, event, resets), stream) in expected.into_iter().zip([1, 3, 5]) {
        assert_eq!(client.request(stream, false, &[("content-length", "6")]), events(&[&format!("request {stream}")]));
        let at = *client.begun.last().expect("it has begun");
        assert_eq!(client.connection.head::<()>(at, status, false, |_| Ok(())), Ok(true));
        assert_eq!(client.send(kind::DATA, flag::END_STREAM, stream, b"abc"), events(&[event]));
        client.connection.data(at, b"body", true);
        client.connection.release(at);
        assert_eq!(client.resets(), resets, "{status}");
    }
}

#[test]
fn a_server_that_leaves_says_so_twice() {
    let mut client = Client::new();
    assert_eq!(client.request(1, true, &[]), events(&["request 1."]));
    client.connection.leave();
    client.connection.leave();
    let sent = client.sent();
    assert_eq!(sent.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [kind::GOAWAY, kind::PING]);
    // Sent before the client knew.
    assert_eq!(client.request(3, true, &[]), events(&["request 3."]));
    assert_eq!(client.send(kind::PING, flag::ACK, 0, &sent[1].3), Ok(vec![]));
    let last = client.sent();
    assert_eq!((last[0].0, &last[0].3[..4]), (kind::GOAWAY, &[0, 0, 0, 3][..]));
    assert_eq!(client.request(5, false, &[]), Ok(vec![]));
    assert_eq!(client.send(kind::DATA, 0, 5, b"not read"), Ok(vec![]));
    assert!(!client.connection.is_done());
    client.begun.clone().into_iter().for_each(|at| client.connection.release(at));
    assert!(client.connection.is_done());
}

#[test]
fn equal_heads_are_decoded_once() {
    let mut client = Client::new();
    for stream in [1, 3, 5] {
        assert_eq!(client.request(stream, true, &[("a", "b")]), Ok(vec![format!("request {stream}.")]));
        assert_eq!(client.connection.fields().values(b"a").collect::<Vec<_>>(), [b"b"]);
        client.begun.drain(..).for_each(|at| client.connection.release(at));
    }
    let (changes, block) = (client.connection.last_changes, client.connection.last_block.clone());
    assert!(changes.is_some() && !block.is_empty());
    // After a change of the table the same bytes mean other fields.
    assert_eq!(client.request(7, true, &[("c", "d")]), events(&["request 7."]));
    assert_eq!(client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 9, &block), Ok(vec![]), "no method");
    assert_eq!(client.connection.fields().values(b"c").collect::<Vec<_>>(), [b"d"]);
}
