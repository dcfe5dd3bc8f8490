//! Whatever a server behind this one sends over HTTP/2, in whichever pieces: what it means is the same, what is kept and sent stays
//! bounded, and each response is a final head at most, then as much body as was announced and its window allows, then nothing.
//!
//! An input is a byte that chooses the size of the pieces, and the server's frames after its settings.

#![no_main]

use std::collections::BTreeMap;

use http::h2::client::{Config, Connection, Event};
use http::h2::{At, Reason};
use libfuzzer_sys::fuzz_target;

const CONFIG: Config = Config { streams: 4, window: 1000, header_list: 2000 };
/// Until the server knows of smaller windows, it may fill these.
const INITIAL_WINDOW: usize = 65_535;
/// So many requests are made in all.
const REQUESTS: usize = 40;

fuzz_target!(|data: &[u8]| {
    let Some((piece, frames)) = data.split_first() else { return };
    let bytes = [b"\0\0\0\x04\0\0\0\0\0", frames].concat();
    let whole = Served::default().serve(&bytes, bytes.len());
    assert_eq!(whole, Served::default().serve(&bytes, usize::from(*piece) + 1));
});

/// The responses to requests of which every other one is read.
#[derive(Default)]
struct Served {
    asked: usize,
    /// The streams, by their numbers.
    open: BTreeMap<u32, Response>,
    /// How many bytes of bodies were sent.
    sent: usize,
}

struct Response {
    at: At,
    is_head: bool,
    is_read: bool,
    is_answered: bool,
    left: Option<u64>,
    unread: usize,
}

impl Served {
    /// What a server that sends these bytes gets, if they come in pieces of this size.
    fn serve(mut self, bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut connection: Connection<u32> = Connection::new(CONFIG);
        let (mut received, mut used) = (Vec::new(), 0);
        self.ask(&mut connection);
        'all: for part in bytes.chunks(piece) {
            received.extend_from_slice(part);
            while let Some((length, event)) = match connection.receive(&received[used..]) {
                Ok(event) => event,
                Err(_) => break 'all,
            } {
                used += length;
                assert!(length > 0 && used <= received.len());
                self.take(&mut connection, event);
                self.ask(&mut connection);
                assert!(connection.streams() <= 2 * CONFIG.streams as usize);
            }
        }
        connection.end(Reason::NO_ERROR);
        for response in self.open.values() {
            connection.release(response.at);
        }
        assert_eq!(connection.streams(), 0);
        assert!(connection.unsent() < 1000 + 200 * REQUESTS + self.sent + 20 * bytes.len());
        std::mem::take(connection.out())
    }

    /// Begins as many requests as there is room for: with a body, and without one.
    fn ask(&mut self, connection: &mut Connection<u32>) {
        while self.asked < REQUESTS && connection.has_room() {
            let (ends, is_head) = (self.asked.is_multiple_of(2), self.asked.is_multiple_of(5));
            let begun = connection.request::<()>(ends, is_head, |writer| {
                writer.field_again(b":method", if is_head { b"HEAD" } else { b"GET" });
                writer.field("x-a", b"b").map_err(drop)
            });
            let Ok(Some(at)) = begun else { panic!("there is room") };
            self.asked += 1;
            let is_read = self.asked.is_multiple_of(3);
            let response = Response { at, is_head, is_read, is_answered: false, left: None, unread: 0 };
            assert!(self.open.insert(at.number(), response).is_none());
        }
    }

    fn take(&mut self, connection: &mut Connection<u32>, event: Event<'_>) {
        match event {
            Event::Nothing => {}
            Event::Head { at, status, ends } => {
                let fields = connection.fields();
                let size: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
                assert!(size <= CONFIG.header_list as usize);
                assert_eq!(fields.check_response().ok(), Some(status));
                assert!(status != 101 && (100..1000).contains(&status) && !(ends && status < 200));
                let length = fields.length();
                let response = self.open.get_mut(&at.number()).expect("a stream that is open");
                assert!(!response.is_answered, "one final head");
                response.is_answered = status >= 200;
                response.left = if response.is_head || matches!(status, 204 | 304) { Some(0) } else { length };
                if ends {
                    self.end(connection, at);
                }
            }
            Event::Data { at, bytes, ends } => {
                let response = self.open.get_mut(&at.number()).expect("a stream that is open");
                assert!(response.is_answered);
                response.left = response.left.map(|left| left.checked_sub(bytes.len() as u64).expect("no more than announced"));
                assert!(!ends || response.left.is_none_or(|left| left == 0));
                match response.is_read {
                    true => connection.consume(at, bytes.len()),
                    false => response.unread += bytes.len(),
                }
                assert!(response.unread <= INITIAL_WINDOW);
                if ends {
                    self.end(connection, at);
                }
            }
            Event::Trailers(at) => {
                assert!(self.open[&at.number()].left.is_none_or(|left| left == 0));
                self.end(connection, at);
            }
            Event::Gone(at, _) => self.end(connection, at),
            Event::Leaves(all) => {
                assert!(!connection.may_begin());
                all.into_iter().for_each(|at| self.end(connection, at));
            }
            Event::Room(Some(at)) => self.send(connection, at),
            Event::Room(None) => {
                let all: Vec<At> = self.open.values().map(|response| response.at).collect();
                all.into_iter().for_each(|at| self.send(connection, at));
            }
        }
    }

    /// Sends as much of a request's body as there is room for, within reason.
    fn send(&mut self, connection: &mut Connection<u32>, at: At) {
        let room = connection.room(at);
        let length = room.min(500);
        if connection.sends(at) {
            connection.data(at, &vec![b'x'; length], false);
            assert_eq!(connection.room(at), room - length);
            self.sent += length + 9;
        }
    }

    fn end(&mut self, connection: &mut Connection<u32>, at: At) {
        assert!(self.open.remove(&at.number()).is_some(), "a stream ends once");
        connection.release(at);
    }
}
