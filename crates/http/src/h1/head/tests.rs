//! Tests of the head parser: each request with the response of Apache 2.4.71, or with the reason to differ.

use super::{Head, HeadError, Limits, Parse, Parts, Version};
use crate::name::KnownField;

const LAX: Limits = Limits { line: 8190, fields: 100, field_size: 8190, strict: false };

fn parse(request: &[u8], limits: &Limits) -> Result<Head, HeadError> {
    let mut head = Head::default();
    match Head::parse(request, limits, &mut head)? {
        Parse::Complete { len } => {
            assert_eq!(len, request.len());
            Ok(head)
        }
        Parse::Partial => panic!("partial: {:?}", String::from_utf8_lossy(request)),
    }
}

/// Parses the request byte by byte; the outcome must be that of parsing it whole.
fn parse_both_ways(request: &[u8], limits: &Limits) -> Option<HeadError> {
    let whole = parse(request, limits).err();
    let mut head = Head::default();
    for len in 0..=request.len() {
        match Head::parse(&request[..len], limits, &mut head) {
            Ok(Parse::Partial) => assert!(len < request.len()),
            Ok(Parse::Complete { .. }) => {
                assert_eq!((len, whole), (request.len(), None));
                assert!(head.fields(request).eq(parse(request, limits).unwrap().fields(request)));
            }
            Err(error) => {
                assert_eq!(Some(error), whole, "{:?}", String::from_utf8_lossy(request));
                break;
            }
        }
    }
    whole
}

#[test]
fn request_lines() {
    use HeadError::*;
    // The line, and its error when strict and when not.
    let table: &[(&str, Option<HeadError>, Option<HeadError>)] = &[
        ("GET /a HTTP/1.1", None, None),
        ("get /a HTTP/1.1", None, None),
        ("GET /a HTTP/1.0", None, None),
        ("GET /a HTTP/1.9", None, None),
        ("GET /a HTTP/2.0", Some(UnsupportedVersion), Some(UnsupportedVersion)),
        ("GET /a HTTP/1.10", Some(BadRequestLine), Some(BadRequestLine)),
        ("GET /a HTTP/01.1", Some(BadRequestLine), Some(BadRequestLine)),
        ("GET /a HTTP/0.9", Some(BadRequestLine), Some(BadRequestLine)),
        ("GET /a http/1.1", Some(BadRequestLine), None),
        ("GET /a HTTPS/1.1", Some(BadRequestLine), Some(BadRequestLine)),
        ("GET /a", Some(NoVersion), Some(NoVersion)),
        ("GET", Some(BadRequestLine), Some(BadRequestLine)),
        ("GET  /a HTTP/1.1", Some(BadRequestLine), None),
        ("GET /a  HTTP/1.1", Some(BadRequestLine), None),
        ("GET /a HTTP/1.1 ", Some(BadRequestLine), None),
        (" GET /a HTTP/1.1", Some(BadMethod), Some(BadMethod)),
        ("GET\t/a HTTP/1.1", Some(BadMethod), Some(BadMethod)),
        ("G(T /a HTTP/1.1", Some(BadMethod), None),
        ("\x16\x03\x01\x02", Some(BadMethod), Some(BadMethod)),
        ("GET /a b HTTP/1.1", Some(BadRequestLine), Some(BadRequestLine)),
        ("GET /a\x01 HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("GET /a\x7f HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("GET /a\0 HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("GET /\u{ff} HTTP/1.1", None, None),
        ("GET /?\"<>^`{|}\\ HTTP/1.1", None, None),
        ("GET /a#f HTTP/1.1", Some(BadTarget), None),
        ("GET a HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("GET * HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("OPTIONS * HTTP/1.1", None, None),
        ("GET a:80 HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("CONNECT a:80 HTTP/1.1", None, None),
        ("CONNECT /a HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("GET http://b/a HTTP/1.1", None, None),
        ("GET HTTPS://b:443?q HTTP/1.1", None, None),
        ("GET ftp://b/a HTTP/1.1", Some(BadTarget), Some(BadTarget)),
        ("GET http://u@b/a HTTP/1.1", Some(BadHost), None),
        ("GET http://b:x/a HTTP/1.1", Some(BadHost), Some(BadHost)),
        ("GET http://[::1]/a HTTP/1.1", None, None),
        ("GET http:///a HTTP/1.1", Some(BadHost), Some(BadHost)),
    ];
    for (line, strict, lax) in table {
        let request = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(parse_both_ways(request.as_bytes(), &Limits::default()), *strict, "{line} strict");
        assert_eq!(parse_both_ways(request.as_bytes(), &LAX), *lax, "{line} not strict");
    }
}

#[test]
fn fields() {
    use HeadError::*;
    let table: &[(&[u8], Option<HeadError>, Option<HeadError>)] = &[
        (b"Host: a\r\nA:\r\n", None, None),
        (b"Host: a\r\nA: b\tc\xff\r\n", None, None),
        (b"Host: a\nA: b\r\n", Some(BadLineEnd), None),
        (b"Host: a\r\nA: b\rc\r\n", Some(BadLineEnd), Some(BadLineEnd)),
        (b"Host: a\r\nA: b\r\r\n", Some(BadLineEnd), Some(BadLineEnd)),
        (b"Host: a\r\nA: b\0c\r\n", Some(BadFieldValue), Some(BadFieldValue)),
        (b"Host: a\r\nA: b\x01c\r\n", Some(BadFieldValue), None),
        (b"Host: a\r\nA: b\x7fc\r\n", Some(BadFieldValue), None),
        (b"Host: a\r\nA: b\r\n c\r\n", None, None),
        (b"Host: a\r\nA: b\r\n \r\n", Some(BadFold), Some(BadFold)),
        (b" A: b\r\nHost: a\r\n", Some(BadFold), Some(BadFold)),
        (b"Host: a\r\nA : b\r\n", Some(BadFieldName), Some(BadFieldName)),
        (b"Host: a\r\n: b\r\n", Some(BadFieldName), Some(BadFieldName)),
        (b"Host: a\r\nAbc\r\n", Some(BadFieldName), Some(BadFieldName)),
        (b"Host: a\r\nA(b: c\r\n", Some(BadFieldName), None),
        (b"Host: a\r\nA\xffb: c\r\n", Some(BadFieldName), None),
        (b"Host: a\r\nHost: a\r\n", Some(SeveralHosts), None),
        (b"Host: a\r\nHost: b\r\n", Some(SeveralHosts), Some(SeveralHosts)),
        (b"Host:\r\nHost:\r\n", Some(SeveralHosts), Some(SeveralHosts)),
        (b"Host: a b\r\n", Some(BadHost), None),
        (b"Host:\r\n", Some(NoHost), Some(NoHost)),
        (b"", Some(NoHost), Some(NoHost)),
    ];
    for (fields, strict, lax) in table {
        let request = [&b"GET / HTTP/1.1\r\n"[..], fields, b"\r\n"].concat();
        let text = String::from_utf8_lossy(fields);
        assert_eq!(parse_both_ways(&request, &Limits::default()), *strict, "{text:?} strict");
        assert_eq!(parse_both_ways(&request, &LAX), *lax, "{text:?} not strict");
    }
    for fields in ["", "Host:\r\n"] {
        let request = format!("GET / HTTP/1.0\r\n{fields}\r\n");
        assert_eq!(parse_both_ways(request.as_bytes(), &Limits::default()), None);
    }
}

#[test]
fn empty_lines_before_the_request() {
    let request = |n: usize| "\r\n".repeat(n) + "GET / HTTP/1.0\r\n\r\n";
    assert_eq!(parse_both_ways(request(10).as_bytes(), &Limits::default()), None);
    assert_eq!(parse_both_ways(request(11).as_bytes(), &Limits::default()), Some(HeadError::TooManyBlankLines));
    assert_eq!(parse_both_ways(b"\nGET / HTTP/1.0\r\n\r\n", &Limits::default()), Some(HeadError::BadLineEnd));
    assert_eq!(parse_both_ways(b"\nGET / HTTP/1.0\n\n", &LAX), None);
}

#[test]
fn limits() {
    let limits = Limits { line: 100, fields: 5, field_size: 50, ..Limits::default() };
    let line = |len: usize| format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(len - 14));
    assert_eq!(parse_both_ways(line(101).as_bytes(), &limits), None);
    assert_eq!(parse_both_ways(line(102).as_bytes(), &limits), Some(HeadError::LineTooLong));
    let field = |len: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "a".repeat(len - 3));
    assert_eq!(parse_both_ways(field(51).as_bytes(), &limits), None);
    assert_eq!(parse_both_ways(field(52).as_bytes(), &limits), Some(HeadError::FieldTooLong));
    let folded = |len: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n {}\r\n\r\n", "a".repeat(20), "b".repeat(len - 24));
    assert_eq!(parse_both_ways(folded(48).as_bytes(), &limits), None);
    assert_eq!(parse_both_ways(folded(49).as_bytes(), &limits), Some(HeadError::FieldTooLong));
    let fields = |n| format!("GET / HTTP/1.0\r\n{}\r\n", "A: a\r\n".repeat(n));
    assert_eq!(parse_both_ways(fields(5).as_bytes(), &limits), None);
    assert_eq!(parse_both_ways(fields(6).as_bytes(), &limits), Some(HeadError::TooManyFields));
    // The most fields possible, in any configuration.
    let (most, error) = (Limits::FIELDS_MAX, Some(HeadError::TooManyFields));
    for unlimited in [0, usize::MAX] {
        let limits = Limits { fields: unlimited, field_size: 6 * most, ..limits };
        let outcome = |n| parse(fields(n).as_bytes(), &limits).err();
        assert_eq!((outcome(6), outcome(most), outcome(most + 1)), (None, None, error), "{unlimited}");
    }

    let mut head = Head::default();
    let endless = [b'a'; 200];
    assert_eq!(Head::parse(&endless, &limits, &mut head), Err(HeadError::LineTooLong));
}

#[test]
fn accessors() {
    let request = b"GET http://b:8/p/%61?q?r HTTP/1.1\r\nhost: a\r\nACCEPT:  x y\t \r\nX-Own: 1\r\n\
                    A: b  \r\n \t c \r\n  d\r\naccept: z\r\nB:\r\n e\r\nx-own: 2\r\naccept:\r\n\r\n";
    let head = parse(request, &Limits::default()).unwrap();
    assert_eq!(head.method(request), b"GET");
    assert_eq!(head.target(request), b"http://b:8/p/%61?q?r");
    assert_eq!(head.path(request), b"/p/%61");
    assert_eq!(head.query(request), Some(&b"q?r"[..]));
    assert_eq!(head.host(request), Some(&b"b:8"[..]));
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.field(request, "Host"), Some(&b"a"[..]));
    assert_eq!(head.field(request, KnownField::Accept), Some(&b"x y"[..]));
    assert_eq!(head.field(request, "x-OWN"), Some(&b"1"[..]));
    assert_eq!(head.field(request, "a"), Some(&b"b c d"[..]));
    assert_eq!(head.field(request, "b"), Some(&b"e"[..]));
    assert_eq!(head.field(request, "Range"), None);
    assert_eq!(head.combined(request, "accept").as_deref(), Some(&b"x y, z, "[..]));
    assert_eq!(head.combined(request, "X-Own").as_deref(), Some(&b"1, 2"[..]));
    assert_eq!(head.combined(request, "cookie"), None);
    assert_eq!((head.field_count(), head.fields(request).count()), (8, 8));
    assert_eq!(head.fields(request).next(), Some((&b"host"[..], &b"a"[..])));

    for (target, path, query) in [("http://b", "/", None), ("http://b?q", "/", Some("q")), ("/?", "/", Some(""))] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = parse(request.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(head.path(request.as_bytes()), path.as_bytes());
        assert_eq!(head.query(request.as_bytes()), query.map(str::as_bytes));
    }
}

#[test]
fn a_head_is_reused_from_request_to_request() {
    let mut head = Head::default();
    let first = b"GET http://b/a?q HTTP/1.0\r\nCookie: c\r\nA: b\r\n c\r\n\r\n";
    let second = b"POST /b HTTP/1.1\r\nHost: h\r\n\r\nbody";
    Head::parse(first, &Limits::default(), &mut head).unwrap();
    assert_eq!(Head::parse(second, &Limits::default(), &mut head), Ok(Parse::Complete { len: second.len() - 4 }));
    assert_eq!((head.field(second, "cookie"), head.query(second), head.field_count()), (None, None, 1));
    assert_eq!(head.host(second), Some(&b"h"[..]));
    assert_eq!(Head::parse(&second[..20], &Limits::default(), &mut head), Ok(Parse::Partial));
    head.clear();
    assert!(Head::parse(first, &Limits::default(), &mut head).is_ok());
    assert_eq!(head.method(first), b"GET");
}

#[test]
fn a_head_is_assembled_from_its_parts() {
    let parts = Parts { method: b"GET", target: b"/a%20b?c=d?e", authority: Some(b"h:1"), version: Version::Http2 };
    let fields = [(&b"accept"[..], &b"*/*"[..]), (b"x", b"1"), (b"accept", b"a/b")];
    let mut arena = b"earlier".to_vec();
    let head = Head::assemble(&parts, fields, &mut arena);
    assert_eq!((head.method(&arena), head.target(&arena)), (&b"GET"[..], &b"/a%20b?c=d?e"[..]));
    assert_eq!((head.path(&arena), head.query(&arena)), (&b"/a%20b"[..], Some(&b"c=d?e"[..])));
    assert_eq!((head.host(&arena), head.version()), (Some(&b"h:1"[..]), Version::Http2));
    assert_eq!(head.combined(&arena, KnownField::Accept).as_deref(), Some(&b"*/*, a/b"[..]));
    assert_eq!(head.field(&arena, "X"), Some(&b"1"[..]));
    assert_eq!(head.fields(&arena).collect::<Vec<_>>(), fields);
}
