//! An HTTP client for requests to authorities, one connection for each request. Callers set the deadlines.
//!
//! A library's client would bring a second parser of HTTP into the process, and a dozen packages, for a POST and a GET now
//! and then; this one uses the server's own parser.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;
use http::h1::chunked::Step;
use http::{Chunked, Limits};
use http_types::{Response, Uri};
use runtime::executor::Descriptor;
use sys::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes read of a response: a certificate chain has a few thousand.
const RESPONSE_MAX: usize = 1 << 20;
/// The size of a read, in bytes.
pub(crate) const STEP: usize = 8 << 10;
/// The most fields that a response may have.
const FIELDS_MAX: usize = 64;
/// The limits of chunked framing, without the data.
const LIMITS: Limits = Limits { line: 1024, fields: 16, field_size: 1024, strict: true };

/// Host and port of a URL.
pub(crate) fn endpoint(url: &Uri) -> io::Result<(String, u16)> {
    let host = url.host().ok_or_else(|| io::Error::other(format!("there is no host in {url}")))?;
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
    Ok((host.trim_matches(['[', ']']).to_string(), port))
}

/// Connects to the first address that accepts.
pub(crate) async fn connect(host: &str, port: u16, deadline: Instant) -> io::Result<Descriptor> {
    let addresses = match host.parse() {
        Ok(ip) => vec![ip],
        Err(_) => server::dns::all_addresses_of(host).await.map_err(io::Error::other)?,
    };
    let mut result = Err(io::Error::other("the host has no address"));
    for (tried, ip) in addresses.iter().enumerate() {
        // Each address gets a share of the time: one that does not answer leaves some to the others.
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / u32::try_from(addresses.len() - tried).unwrap_or(1);
        result = Descriptor::connect(SocketAddr::new(*ip, port), now + share).await;
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Sends a request and reads until the connection ends.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, message: &[u8]) -> io::Result<Vec<u8>> {
    write(&mut stream, message).await?;
    let mut response = Vec::new();
    loop {
        match read(&mut stream, &mut response).await {
            Ok(0) => return Ok(response),
            Ok(_) if response.len() > RESPONSE_MAX => return Err(io::Error::other("the response is too large")),
            Ok(_) => {}
            // The end without TLS's closing alert. HTTP's framing shows whether anything is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(response),
            Err(error) => return Err(error),
        }
    }
}

/// Writes all bytes.
pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await?;
        bytes = &bytes[count..];
    }
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

/// Reads the available bytes; 0 is the end.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; STEP];
    let mut buffer = ReadBuf::new(&mut piece);
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer)).await?;
    into.extend_from_slice(buffer.filled());
    Ok(buffer.filled().len())
}

/// Parses a response. `headless`: no body follows, whatever the fields say.
pub(crate) fn parse(bytes: &[u8], headless: bool) -> io::Result<Response<Bytes>> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP");
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = head.parse(bytes).map_err(|_| broken())? else { return Err(broken()) };
    let mut response = Response::builder().status(head.code.ok_or_else(broken)?);
    for field in head.headers.iter() {
        response = response.header(field.name, field.value);
    }
    let field =
        |name: &str| head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value);
    let rest = &bytes[length..];
    let body = if headless {
        Vec::new()
    } else if field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked")) {
        unchunk(rest)?
    } else {
        match field("content-length").map(|value| std::str::from_utf8(value).ok()?.trim().parse::<usize>().ok()) {
            None => rest.to_vec(),
            Some(length) => rest.get(..length.ok_or_else(broken)?).ok_or_else(broken)?.to_vec(),
        }
    };
    response.body(body.into()).map_err(io::Error::other)
}

fn unchunk(mut bytes: &[u8]) -> io::Result<Vec<u8>> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP");
    let mut chunked = Chunked::new(&LIMITS);
    let mut body = Vec::new();
    loop {
        match chunked.decode(bytes).map_err(|_| broken())? {
            Step::More => return Err(broken()),
            Step::Data(range) => {
                let end = range.end;
                body.extend_from_slice(&bytes[range]);
                bytes = &bytes[end..];
            }
            Step::End(_) => return Ok(body),
        }
    }
}
