//! A response whose length is known only at its end: everything until the server closes, then its framing.

use super::{Response, parse_status};
use crate::machine::error::{Error, Result};

/// The response in `received`, to a request that asked to close the connection (RFC 9112, 6.3).
pub(super) fn parse(received: &[u8]) -> Result<Response> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| Error::new("the server closed the connection early"))?;
    let text = String::from_utf8_lossy(&received[..end]);
    let status = parse_status(text.split("\r\n").next().unwrap_or_default())?;
    let field = |wanted: &str| {
        let mut fields = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let body = &received[end + 4..];
    if field("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Ok(Response { status, body: joined(body)? });
    }
    match field("content-length").and_then(|value| value.parse::<usize>().ok()) {
        Some(length) if body.len() != length => {
            Err(Error::new(format!("Content-Length says {length}, there are {} bytes", body.len())))
        }
        _ => Ok(Response { status, body: body.to_vec() }),
    }
}

/// The content of chunks: the last one is empty, and nothing follows it.
fn joined(mut chunks: &[u8]) -> Result<Vec<u8>> {
    let broken = || Error::new("the chunks are not framed as they should be");
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n").ok_or_else(broken)?;
        let size = std::str::from_utf8(&chunks[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.ok_or_else(broken)?;
        let rest = &chunks[end + 2..];
        let content = rest.get(..size).ok_or_else(broken)?;
        chunks = rest[size..].strip_prefix(b"\r\n").ok_or_else(broken)?;
        body.extend_from_slice(content);
        if size == 0 {
            return if chunks.is_empty() { Ok(body) } else { Err(broken()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_end_in_three_ways() {
        for rest in [
            "Content-Length: 5\r\n\r\nhello",
            "transfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
            "Connection: close\r\n\r\nhello",
        ] {
            let response = parse(format!("HTTP/1.1 200 OK\r\n{rest}").as_bytes()).unwrap();
            assert_eq!((response.status, &response.body[..]), (200, &b"hello"[..]), "{rest}");
        }
    }

    #[test]
    fn truncated_answers_are_errors() {
        for rest in [
            "Content-Length: 6\r\n\r\nhello",
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "Transfer-Encoding: chunked\r\n\r\n9\r\nhello\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore",
            "Content-Length: 5\r\n",
        ] {
            assert!(parse(format!("HTTP/1.1 200 OK\r\n{rest}").as_bytes()).is_err(), "{rest}");
        }
    }
}
