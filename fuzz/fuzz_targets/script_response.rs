//! A script's header parses the same in one piece and byte by byte, and its fields are no more than were written.

#![no_main]

use gateway::response::{FIELDS_MAX, Fault, Parser, ResponseHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for with_status_line in [false, true] {
        let whole = read(data, data.len().max(1), with_status_line);
        for step in [1, 3] {
            assert_eq!(read(data, step, with_status_line), whole);
        }
        if let Ok((Some(length), header)) = whole {
            assert!(length <= data.len() && header.fields.len() <= FIELDS_MAX + 1);
            let _ = header.is_interim();
            // What follows the header is body.
            assert_eq!(read(&data[..length], length, with_status_line), Ok((Some(length), header)));
        }
    }
});

/// The length of the header if it has ended, and its fields.
fn read(data: &[u8], step: usize, with_status_line: bool) -> Result<(Option<usize>, ResponseHeader), Fault> {
    let mut parser = if with_status_line { Parser::with_status_line() } else { Parser::default() };
    let (mut end, mut length) = (0, None);
    while end < data.len() && length.is_none() {
        end = data.len().min(end + step);
        length = parser.advance(&data[..end])?;
    }
    Ok((length, parser.into_header()))
}
