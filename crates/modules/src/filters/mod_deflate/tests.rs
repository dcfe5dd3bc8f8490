//! Directives against Apache's messages, bodies in both directions.

use std::io::{Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::coding::Tell;
use super::*;
use crate::testing::check;

#[test]
fn errors_as_apache_has_them() {
    check(&[
        ("DeflateWindowSize 0", "DeflateWindowSize must be between 1 and 15"),
        ("DeflateWindowSize 16", "DeflateWindowSize must be between 1 and 15"),
        ("DeflateBufferSize 0", "DeflateBufferSize should be positive"),
        ("DeflateBufferSize x", "DeflateBufferSize should be positive"),
        ("DeflateBufferSize 10x", ""),
        ("DeflateMemLevel 10", "DeflateMemLevel must be between 1 and 9"),
        ("DeflateCompressionLevel 0", "Compression Level must be between 1 and 9"),
        ("DeflateFilterNote a b", "Unknown note type a"),
        ("DeflateFilterNote Ratio b", ""),
        ("DeflateFilterNote a b c", "DeflateFilterNote takes 1-2 arguments, Set a note to report on compression ratio"),
        ("DeflateAlterETag x", "DeflateAlterETAG accepts only 'NoChange', 'AddSuffix', and 'Remove'"),
        ("DeflateAlterETag addsuffix", ""),
        ("DeflateInflateLimitRequestBody 5x", "DeflateInflateLimitRequestBody requires a non-negative integer."),
        ("DeflateInflateRatioLimit 0", "DeflateInflateRatioLimit must be positive"),
        ("DeflateInflateRatioBurst 5x", ""),
        ("DeflateInflateRatioBurst x", "DeflateInflateRatioBurst must be positive"),
    ]);
}

#[test]
fn gzip_has_to_be_accepted_by_name() {
    let cases = [
        ("gzip", true),
        ("GZIP", true),
        ("br;q=1, gzip;q=0.8", true),
        ("gzip;q=0.001", true),
        ("gzip;q=0", false),
        ("gzip; q=0.000", false),
        ("identity, gzip;q=0", false),
        ("*", false),
        ("x-gzip", false),
        ("gzipx", false),
        ("", false),
    ];
    for (accept, want) in cases {
        assert_eq!(accepts(accept, "gzip"), want, "{accept}");
    }
}

#[test]
fn the_last_encoding_is_taken_away() {
    let cases =
        [("gzip", Some("")), ("br, x-gzip", Some("br")), ("gzip, br", None), ("a, b ,GZIP", Some("a, b")), ("", None)];
    for (list, want) in cases {
        assert_eq!(without_gzip(list), want, "{list}");
    }
}

/// These tests only ever wait for their turn.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
    }
}

fn silent() -> Tell {
    Box::new(|_, _| Vec::new())
}

/// All of a body, and whether it was ready in one piece.
fn all(coding: &mut Coding) -> (std::io::Result<Vec<u8>>, bool) {
    if let Some(all) = now(coding.start()) {
        return (Ok(all.to_vec()), true);
    }
    let mut bytes = Vec::new();
    while let Some(piece) = now(server::BodyStream::next(coding)) {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(error) => return (Err(error), false),
        }
    }
    (Ok(bytes), false)
}

fn noise(length: usize) -> Vec<u8> {
    let step = |seed: &u32| Some(seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(1u32), step).map(|word| (word >> 24) as u8).take(length).collect()
}

#[test]
fn bodies_survive_both_ways() {
    let cases = [(Vec::new(), true), (b"0".repeat(3_000_000), true), (noise(1000), true), (noise(500_000), false)];
    for (plain, one_piece) in cases {
        let mut out = Coding::new(
            Body::Bytes(plain.clone().into()).into_stream(),
            Box::new(Deflater::new(LEVEL, WINDOW)),
            BUFFER,
            silent(),
            Box::new(|_| {}),
        );
        let (packed, whole) = all(&mut out);
        let packed = packed.unwrap();
        assert_eq!(whole, one_piece, "{} bytes", plain.len());
        let mut check = Vec::new();
        if !plain.is_empty() {
            flate2::write::GzDecoder::new(&mut check).write_all(&packed).unwrap();
            assert_eq!(check.len(), plain.len());
        }
        let limit = RatioLimit { ratio: 2000, burst: 3, hits: 0 };
        let mut back = Coding::new(
            Body::Bytes(Bytes::from(packed)).into_stream(),
            Box::new(Inflater::new(WINDOW, limit)),
            BUFFER,
            silent(),
            Box::new(|_| {}),
        );
        assert!(all(&mut back).0.unwrap() == plain);
    }
}

#[test]
fn broken_bodies_and_floods_are_errors() {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(&b"0".repeat(5_000_000)[..], flate2::Compression::best())
        .read_to_end(&mut packed)
        .unwrap();
    let limit = |ratio| RatioLimit { ratio, burst: RATIO_BURST, hits: 0 };
    let cases: [(&[u8], u64, &str); 3] = [
        (&packed, RATIO_LIMIT, "AH02650: Inflated content ratio is larger than the configured limit 200 by 3 time(s)"),
        (&packed[..packed.len() - 9], 10_000, "AH01401: Zlib: Validation bytes not present"),
        (b"this is no gzip at all", 10_000, ""),
    ];
    for (bytes, ratio, want) in cases {
        let source = Body::Bytes(Bytes::copy_from_slice(bytes)).into_stream();
        let mut coding =
            Coding::new(source, Box::new(Inflater::new(WINDOW, limit(ratio))), BUFFER, silent(), Box::new(|_| {}));
        let error = all(&mut coding).0.unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

/// A script's output in small pieces.
struct Pieces(Vec<std::io::Result<Bytes>>);

impl server::BodyStream for Pieces {
    fn next(&mut self) -> server::Piece<'_> {
        let piece = (!self.0.is_empty()).then(|| self.0.remove(0));
        Box::pin(std::future::ready(piece))
    }
}

fn pieces(sizes: &[usize], fails: bool) -> Body {
    let mut pieces: Vec<_> = sizes.iter().map(|size| Ok(Bytes::from(vec![b'x'; *size]))).collect();
    if fails {
        pieces.push(Err(std::io::ErrorKind::BrokenPipe.into()));
    }
    Body::Stream(Box::new(Pieces(pieces)))
}

#[test]
fn small_answers_are_found_out_without_losing_a_byte() {
    let cases: [(Body, bool, Option<usize>); 7] = [
        (Body::Empty, true, Some(0)),
        (Body::text("x".repeat(68)), true, Some(68)),
        (Body::text("x".repeat(69)), false, Some(69)),
        (pieces(&[5], false), true, Some(5)),
        (pieces(&[60, 0, 8], false), true, Some(68)),
        (pieces(&[60, 9, 100], false), false, Some(169)),
        (pieces(&[5], true), true, None),
    ];
    for (body, want, length) in cases {
        let (small, body) = now(is_small(body, false));
        let mut stream = body.into_stream();
        let (mut bytes, mut failed) = (0, false);
        while let Some(piece) = now(stream.next()) {
            match piece {
                Ok(piece) => bytes += piece.len(),
                Err(_) => failed = true,
            }
        }
        assert_eq!((small, (!failed).then_some(bytes)), (want, length));
    }
}

#[test]
fn a_body_that_breaks_off_stays_broken() {
    let source = pieces(&[100_000; 20], true).into_stream();
    let mut coding = Coding::new(source, Box::new(Deflater::new(LEVEL, WINDOW)), BUFFER, silent(), Box::new(|_| {}));
    assert!(all(&mut coding).0.is_err());
    assert!(now(server::BodyStream::next(&mut coding)).is_none());
}

#[test]
fn notes_of_the_ratio() {
    let applied = crate::testing::apply("DeflateFilterNote Input ins\nDeflateFilterNote rat").unwrap();
    let conf = applied.server.get::<DeflateServer>();
    let tell = conf.notes.tell();
    let pairs =
        |taken, made| tell(taken, made).into_iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ");
    assert_eq!((pairs(500, 12), pairs(0, 0)), ("ins=500 rat=2".into(), "ins=- rat=-".into()));
}
