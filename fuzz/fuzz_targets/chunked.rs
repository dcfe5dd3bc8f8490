//! A chunked body decodes to the same data in one piece and byte by byte, and decoding reverses encoding.

#![no_main]

use http::h1::chunked::{BODY_END, Step, Trailer, write_chunk};
use http::{ChunkError, Chunked, Limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { line: 64, fields: 3, field_size: 64, ..Limits::default() };
    let whole = decode(data, data.len().max(1), &limits);
    for step in [1, 3] {
        assert_eq!(whole, decode(data, step, &limits));
    }

    let mut body = Vec::new();
    for chunk in data.chunks(usize::from(data.first().copied().unwrap_or(0)) + 1) {
        write_chunk(&mut body, chunk);
    }
    body.extend_from_slice(BODY_END);
    let decoded = decode(&body, 7, &Limits::default()).expect("what was encoded is well-formed");
    assert_eq!(decoded, (data.to_vec(), Some(body.len()), vec![]));
});

/// Decodes `input`: the data, the length of the body if it ended, and the trailers.
fn decode(input: &[u8], step: usize, limits: &Limits) -> Result<(Vec<u8>, Option<usize>, Vec<Trailer>), ChunkError> {
    let mut decoder = Chunked::new(limits);
    let (mut data, mut at) = (Vec::new(), 0);
    while at < input.len() {
        let piece = &input[at..input.len().min(at + step)];
        match decoder.decode(piece) {
            Ok(Step::More) => at += piece.len(),
            Ok(Step::Data(range)) => {
                assert!(!range.is_empty());
                at += range.end;
                data.extend_from_slice(&piece[range]);
            }
            Ok(Step::End(len)) => return Ok((data, Some(at + len), decoder.trailers().to_vec())),
            Err(error) => {
                assert_eq!(decoder.decode(b"0\r\n\r\n"), Err(error), "an error is final");
                return Err(error);
            }
        }
    }
    Ok((data, None, decoder.trailers().to_vec()))
}
