//! Whatever a client of HTTP/2 sends, in whichever pieces: what it means is the same, what is sent stays bounded, and a
//! response never takes more than its windows.
//!
//! An input is a byte that chooses the size of the pieces, and the client's frames after its preface and settings.

#![no_main]

use http::h2::{Config, Connection, Event, PREFACE, Reason};
use libfuzzer_sys::fuzz_target;

const CONFIG: Config = Config {
    streams: 4,
    window: 1000,
    connection_window: 100_000,
    header_list: 2000,
    tunnels: true,
    faults: Some(8),
};

fuzz_target!(|data: &[u8]| {
    let Some((piece, frames)) = data.split_first() else { return };
    let bytes = [PREFACE, b"\0\0\0\x04\0\0\0\0\0", frames].concat();
    let whole = served(&bytes, bytes.len());
    assert_eq!(whole, served(&bytes, usize::from(*piece) + 1));
});

/// What a client of these bytes gets, which come in pieces of this size.
fn served(bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut connection: Connection<u32> = Connection::new(CONFIG, Vec::new());
    let (mut received, mut used) = (Vec::new(), 0);
    let mut open = Vec::new();
    'all: for part in bytes.chunks(piece) {
        received.extend_from_slice(part);
        while let Some((length, event)) = match connection.receive(&received[used..]) {
            Ok(event) => event,
            Err(_) => break 'all,
        } {
            used += length;
            assert!(length > 0 && used <= received.len());
            match event {
                Event::Request { at, ends } => {
                    let fields = connection.fields();
                    assert!(fields.check_request(true).is_ok());
                    let path = fields.path().map_or(0, <[u8]>::len);
                    let count = fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
                    let sent = connection.head::<()>(at, 200, false, |writer| {
                        writer.field("X-Size", count.to_string().as_bytes()).map_err(drop)
                    });
                    assert_eq!(sent, Ok(true));
                    send(&mut connection, at, path);
                    if !ends {
                        open.push(at);
                    } else {
                        connection.release(at);
                    }
                }
                Event::Data { at, bytes, ends } => {
                    let length = bytes.len();
                    connection.consume(at, length);
                    send(&mut connection, at, length);
                    if ends {
                        release(&mut connection, &mut open, at);
                    }
                }
                Event::Trailers(at) | Event::Cut(at) | Event::Gone(at, _) => release(&mut connection, &mut open, at),
                Event::Nothing | Event::Room(_) => {}
            }
        }
    }
    connection.end(Reason::NO_ERROR);
    open.into_iter().for_each(|at| connection.release(at));
    assert!(connection.unsent() < 100_000 + 200 * bytes.len());
    std::mem::take(connection.out())
}

fn send(connection: &mut Connection<u32>, at: http::h2::At, wanted: usize) {
    let (of_stream, of_connection) = connection.room(at);
    let length = wanted.min(of_stream).min(of_connection);
    connection.data(at, &vec![b'x'; length], false);
    let (after, _) = connection.room(at);
    assert!(after == of_stream - length || !connection.sends(at));
}

fn release(connection: &mut Connection<u32>, open: &mut Vec<http::h2::At>, at: http::h2::At) {
    open.retain(|other| *other != at);
    connection.release(at);
}
