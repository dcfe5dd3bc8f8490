//! Chunked bodies: however they are cut, and which are refused.

use super::*;

/// The data, how much of the input the body takes if it ended, and the trailers.
type Decoded = (Vec<u8>, Option<usize>, Vec<Trailer>);

/// Decodes `input` in pieces of `size` bytes.
fn decode(input: &[u8], size: usize) -> Result<Decoded, ChunkError> {
    let (mut decoder, mut data, mut at) = (Chunked::new(&Limits::default()), Vec::new(), 0);
    while at < input.len() {
        let piece = &input[at..input.len().min(at + size)];
        match decoder.decode(piece)? {
            Step::More => at += piece.len(),
            Step::Data(range) => {
                at += range.end;
                data.extend_from_slice(&piece[range]);
            }
            Step::End(len) => return Ok((data, Some(at + len), decoder.trailers().to_vec())),
        }
    }
    Ok((data, None, decoder.trailers().to_vec()))
}

#[test]
fn bodies_whole_and_in_pieces() {
    let long = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(8000));
    let too_long = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(9000));
    let padded = format!("3{}\r\nabc\r\n0\r\n\r\n", " ".repeat(10));
    let overpadded = format!("3{}\r\nabc\r\n0\r\n\r\n", " ".repeat(11));
    let table: &[(&str, Result<(), ChunkError>)] = &[
        ("3\r\nabc\r\n0\r\n\r\n", Ok(())),
        ("1\r\na\r\n02\r\nbc\r\n00\r\n\r\n", Ok(())),
        ("3;x=\"y;\\\"z\"\r\nabc\r\n0;q\r\n\r\n", Ok(())),
        ("3 ;x\r\nabc\r\n0\r\n\r\n", Ok(())),
        ("3\t\r\nabc\r\n0\r\n\r\n", Ok(())),
        (&padded, Ok(())),
        (&long, Ok(())),
        (&too_long, Err(ChunkError::ExtensionTooLong)),
        (&overpadded, Err(ChunkError::BadSize)),
        ("3\nabc\r\n0\r\n\r\n", Err(ChunkError::BadSize)),
        ("3;x\nabc\r\n0\r\n\r\n", Err(ChunkError::BadLineEnd)),
        ("3;x\rabc\r\n0\r\n\r\n", Err(ChunkError::BadLineEnd)),
        ("3;x\x01\r\nabc\r\n0\r\n\r\n", Err(ChunkError::BadExtension)),
        ("3\r\nabc\n0\r\n\r\n", Err(ChunkError::BadLineEnd)),
        ("3\r\nabcd\r\n0\r\n\r\n", Err(ChunkError::BadLineEnd)),
        ("3\r\nabc\r0\r\n\r\n", Err(ChunkError::BadLineEnd)),
        ("3\r\nabc\r\n0\r\n\n", Err(ChunkError::BadLineEnd)),
        (" 3\r\n", Err(ChunkError::BadSize)),
        ("\r\n", Err(ChunkError::BadSize)),
        (";x\r\n", Err(ChunkError::BadSize)),
        ("-1\r\n", Err(ChunkError::BadSize)),
        ("0x3\r\n", Err(ChunkError::BadSize)),
        ("3 x\r\n", Err(ChunkError::BadSize)),
        ("8000000000000000\r\n", Err(ChunkError::TooLarge)),
        ("10000000000000000\r\n", Err(ChunkError::TooLarge)),
        ("3\r\nabc\r\n0\r\nA : b\r\n\r\n", Err(ChunkError::BadTrailer)),
        ("3\r\nabc\r\n0\r\nfoo\r\n\r\n", Err(ChunkError::BadTrailer)),
        ("3\r\nabc\r\n0\r\nA: b\r\n c\r\n\r\n", Err(ChunkError::BadTrailer)),
        ("3\r\nabc\r\n0\r\nA: \x01\r\n\r\n", Err(ChunkError::BadTrailer)),
    ];
    for (input, expected) in table {
        for size in [1, 2, 3, 7, usize::MAX >> 1] {
            let got = decode(input.as_bytes(), size);
            match expected {
                Ok(()) => assert_eq!(got, Ok((b"abc".to_vec(), Some(input.len()), vec![])), "{input:.40?}"),
                Err(error) => assert_eq!(got, Err(*error), "{input:.40?}"),
            }
        }
    }
}

#[test]
fn many_small_chunks_are_no_extensions() {
    let small = [b"1\r\nx\r\n".repeat(10_000), b"0\r\n\r\n".to_vec()].concat();
    assert_eq!(decode(&small, 1000), Ok((vec![b'x'; 10_000], Some(small.len()), vec![])));
    for line in ["1;abcdefgh", "1         ", "0000000001"] {
        let wasteful = format!("{line}\r\nx\r\n").repeat(10_000);
        assert_eq!(decode(wasteful.as_bytes(), 1000), Err(ChunkError::ExtensionTooLong), "{line}");
    }
}

#[test]
fn trailers_are_kept_and_the_rest_is_left() {
    let (_, len, trailers) = decode(b"0\r\nA: b \r\nC:\r\n\r\nGET /", 4).unwrap();
    assert_eq!(len, Some(16));
    assert_eq!(trailers, [(b"A"[..].into(), b"b"[..].into()), (b"C"[..].into(), b""[..].into())]);
}

#[test]
fn there_are_no_more_trailers_than_fields() {
    let count = |fields: usize, count: usize| {
        let limits = Limits { fields, ..Limits::default() };
        let body = format!("0\r\n{}\r\n", "A: b\r\n".repeat(count));
        Chunked::new(&limits).decode(body.as_bytes()).map(drop)
    };
    let long = Err(ChunkError::TrailersTooLong);
    assert_eq!((count(3, 3), count(3, 4)), (Ok(()), long));
    assert_eq!((count(0, Limits::FIELDS_MAX), count(0, Limits::FIELDS_MAX + 1)), (Ok(()), long), "without a limit");
    let field = |length: usize| {
        let limits = Limits { field_size: 20, ..Limits::default() };
        let body = format!("0\r\nA: {}\r\n\r\n", "b".repeat(length - 3));
        Chunked::new(&limits).decode(body.as_bytes()).map(drop)
    };
    assert_eq!((field(20), field(22)), (Ok(()), long));
}

#[test]
fn written_chunks_can_be_read() {
    for len in [1, 15, 16, 255, 4096, 70_000] {
        let data = vec![b'x'; len];
        let mut body = Vec::new();
        write_chunk(&mut body, &data);
        write_chunk(&mut body, b"");
        body.extend_from_slice(BODY_END);
        assert_eq!(decode(&body, 1000), Ok((data, Some(body.len()), vec![])));
    }
}
