//! A script's header parses the same in one piece and byte by byte, and its fields are no more than were written.

#![no_main]

use gateway::response::{FIELDS_MAX, Fault, Parser, Reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for of_answer in [false, true] {
        let whole = read(data, data.len().max(1), of_answer);
        for step in [1, 3] {
            assert_eq!(read(data, step, of_answer), whole);
        }
        if let Ok((Some(length), reply)) = whole {
            assert!(length <= data.len() && reply.fields.len() <= FIELDS_MAX + 1);
            let _ = reply.is_early();
            // What follows the header is body.
            assert_eq!(read(&data[..length], length, of_answer), Ok((Some(length), reply)));
        }
    }
});

/// The length of the header if it has ended, and its fields.
fn read(data: &[u8], step: usize, of_answer: bool) -> Result<(Option<usize>, Reply), Fault> {
    let mut parser = if of_answer { Parser::of_answer() } else { Parser::default() };
    let (mut end, mut length) = (0, None);
    while end < data.len() && length.is_none() {
        end = data.len().min(end + step);
        length = parser.advance(&data[..end])?;
    }
    Ok((length, parser.into_reply()))
}
