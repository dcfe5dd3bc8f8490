//! Responses of HTTP/1.1 as they arrive, piece by piece (RFC 9112). Pure.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// More head than any server sends, in bytes.
const HEAD_MAX: usize = 64 * 1024;
/// More fields than most servers send: a head with more is parsed twice.
const FIELDS: usize = 64;
const FIELDS_MAX: usize = 4096;
/// A line of chunked framing, in bytes: a size and its extensions.
const CHUNK_LINE_MAX: usize = 4 * 1024;

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// The length of status line and fields in bytes, including interim responses.
    pub(super) head: u64,
    /// The bytes of the body, without framing.
    pub(super) body: u64,
    /// The bytes of framing: chunk sizes, trailers.
    pub(super) framing: u64,
    /// Whether the connection can carry another request.
    pub(super) keeps: bool,
    /// Whether the body is the expected one, if there is any expectation.
    pub(super) is_expected: bool,
}

impl Response {
    /// Takes a piece of the body, and compares it if one is expected.
    pub(super) fn content(&mut self, bytes: &[u8], expected: Option<&[u8]>) {
        if let Some(expected) = expected {
            let from = usize::try_from(self.body).unwrap_or(usize::MAX);
            self.is_expected &= expected.get(from..from.saturating_add(bytes.len())) == Some(bytes);
        }
        self.body += bytes.len() as u64;
    }

    /// The body is complete.
    pub(super) fn end(&mut self, expected: Option<&[u8]>) {
        self.is_expected &= expected.is_none_or(|expected| expected.len() as u64 == self.body);
    }
}

/// The bytes are not a valid response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The state of the response being read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    state: State,
    /// The received part of an incomplete head or line.
    begun: Vec<u8>,
    response: Option<Response>,
    interim: u64,
    interest: Interest,
    /// The `Server` field of a response, if it is wanted.
    server: Option<Option<String>>,
}

/// What becomes of responses.
#[derive(Debug, Default)]
enum Interest {
    #[default]
    Counted,
    /// Their bodies are compared with this one.
    Compared(Arc<[u8]>),
    /// Responses are kept, each with at most `most` bytes of its body.
    ResponseText { most: usize, responses: VecDeque<ResponseText> },
}

/// The text of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseText {
    /// Status line and fields.
    pub(super) head: Vec<u8>,
    /// The body without framing, or its beginning.
    pub(super) body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// This many bytes of the body are still to come.
    Body(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
}

/// The head of a response.
struct Head<'a> {
    bytes: &'a [u8],
    status: u16,
    keeps: bool,
    framing: Framing,
    server: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    Close,
}

impl Reader {
    /// Compares bodies with this one.
    pub(super) fn expect(&mut self, body: Arc<[u8]>) {
        self.interest = Interest::Compared(body);
    }

    /// Keeps responses, with at most so many bytes of each body.
    pub(super) fn keep(&mut self, most: usize) {
        self.interest = Interest::ResponseText { most, responses: VecDeque::new() };
    }

    /// The oldest response that was kept.
    pub(super) fn kept(&mut self) -> Option<ResponseText> {
        match &mut self.interest {
            Interest::ResponseText { responses, .. } => responses.pop_front(),
            _ => None,
        }
    }

    /// Remembers the `Server` field of a response.
    pub(super) fn note_server(&mut self) {
        self.server = Some(None);
    }

    /// The `Server` field of a response.
    pub(super) fn server(&mut self) -> Option<String> {
        self.server.take()?
    }

    /// Whether nothing of a response has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Head && self.begun.is_empty() && self.interim == 0
    }

    /// How many bytes of the body are still to come and need no inspection.
    pub(super) fn unread(&self) -> usize {
        match self.state {
            State::Body(left) if matches!(self.interest, Interest::Counted) => {
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }

    /// This many of them have arrived. Returns the response if that was all.
    pub(super) fn skip(&mut self, length: usize) -> Option<Response> {
        let State::Body(left) = self.state else { return None };
        if let Some(response) = &mut self.response {
            response.body += length as u64;
        }
        self.state = State::Body(left.saturating_sub(length as u64));
        if self.state == State::Body(0) { self.finish() } else { None }
    }

    /// Reads on. Returns how many of the bytes belong to the response, and the response if it is complete. `bodiless`: the
    /// request was HEAD.
    pub(super) fn read(&mut self, bytes: &[u8], bodiless: bool) -> Result<(usize, Option<Response>), Malformed> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let taken = match self.state {
                State::Head => self.head(rest, bodiless)?,
                State::Body(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    self.content(&rest[..length]);
                    self.state = State::Body(left - length as u64);
                    length
                }
                State::UntilClose => {
                    self.content(rest);
                    rest.len()
                }
                State::Chunk(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    self.content(&rest[..length]);
                    self.state =
                        if left == length as u64 { State::ChunkEnd } else { State::Chunk(left - length as u64) };
                    length
                }
                State::ChunkSize | State::ChunkEnd | State::Trailers => self.line(rest)?,
            };
            at += taken;
            if self.state == State::Body(0) {
                return Ok((at, self.finish()));
            }
            if at == bytes.len() {
                return Ok((at, None));
            }
        }
    }

    /// The server has closed the connection. `Ok(None)`: nothing of a response had arrived.
    pub(super) fn close(&mut self) -> Result<Option<Response>, Malformed> {
        match self.state {
            State::UntilClose => Ok(self.finish()),
            State::Head if self.is_idle() => Ok(None),
            _ => Err(Malformed("the connection was closed in the middle of a response")),
        }
    }

    /// The same, but accepts a truncated response up to its end; `None` if not even its head is complete.
    pub(super) fn break_off(&mut self) -> Option<Response> {
        if self.response.is_some() { self.finish() } else { None }
    }

    fn finish(&mut self) -> Option<Response> {
        self.state = State::Head;
        let mut response = self.response.take()?;
        response.head += std::mem::take(&mut self.interim);
        response.end(self.interest.expected());
        Some(response)
    }

    fn content(&mut self, bytes: &[u8]) {
        let Some(response) = &mut self.response else { return };
        response.content(bytes, self.interest.expected());
        if let Interest::ResponseText { most, responses } = &mut self.interest
            && let Some(kept) = responses.back_mut()
        {
            let room = most.saturating_sub(kept.body.len());
            kept.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Reads a head, or its available part.
    fn head(&mut self, bytes: &[u8], bodiless: bool) -> Result<usize, Malformed> {
        if self.begun.is_empty() {
            if let Some(head) = parse(bytes)? {
                return Ok(self.enter(&head, bodiless));
            }
            self.begun.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let before = self.begun.len();
        self.begun.extend_from_slice(bytes);
        let begun = std::mem::take(&mut self.begun);
        let Some(head) = parse(&begun)? else {
            self.begun = begun;
            return if self.begun.len() > HEAD_MAX { Err(Malformed("its head does not end")) } else { Ok(bytes.len()) };
        };
        Ok(self.enter(&head, bodiless) - before)
    }

    /// Continues after a head. Returns its length.
    fn enter(&mut self, head: &Head<'_>, bodiless: bool) -> usize {
        if (100..200).contains(&head.status) && head.status != 101 {
            self.interim += head.bytes.len() as u64;
            return head.bytes.len();
        }
        let without = bodiless || matches!(head.status, 101 | 204 | 304);
        self.state = match head.framing {
            _ if without => State::Body(0),
            Framing::Length(length) => State::Body(length),
            Framing::Chunked => State::ChunkSize,
            Framing::Close => State::UntilClose,
        };
        if let (Some(noted), Some(name)) = (&mut self.server, head.server) {
            *noted = Some(String::from_utf8_lossy(name).into_owned());
        }
        let keeps = head.keeps && (without || head.framing != Framing::Close) && head.status != 101;
        if let Interest::ResponseText { responses, .. } = &mut self.interest {
            responses.push_back(ResponseText { head: head.bytes.to_vec(), body: Vec::new() });
        }
        let (length, status) = (head.bytes.len() as u64, head.status);
        self.response = Some(Response { status, head: length, body: 0, framing: 0, keeps, is_expected: true });
        head.bytes.len()
    }

    /// Reads a line of chunked framing, or its available part.
    fn line(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let end = memchr::memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |at| at + 1);
        self.begun.extend_from_slice(&bytes[..taken]);
        if self.begun.len() > CHUNK_LINE_MAX {
            return Err(Malformed("a line of its chunked framing is too long"));
        }
        if end.is_none() {
            return Ok(taken);
        }
        if let Some(response) = &mut self.response {
            response.framing += self.begun.len() as u64;
        }
        let line = self.begun.trim_ascii();
        self.state = match self.state {
            State::ChunkSize => match chunk_size(line)? {
                0 => State::Trailers,
                size => State::Chunk(size),
            },
            State::Trailers if !line.is_empty() => State::Trailers,
            State::Trailers => State::Body(0),
            _ if line.is_empty() => State::ChunkSize,
            _ => return Err(Malformed("a chunk is longer than it says")),
        };
        self.begun.clear();
        Ok(taken)
    }
}

impl Interest {
    fn expected(&self) -> Option<&[u8]> {
        match self {
            Interest::Compared(body) => Some(body),
            _ => None,
        }
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(Malformed("the size of a chunk is not a number"))
}

/// `None`: it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<Head<'_>>, Malformed> {
    match parse_into(&mut [httparse::EMPTY_HEADER; FIELDS], bytes) {
        Err(TOO_MANY_FIELDS) => parse_into(&mut vec![httparse::EMPTY_HEADER; FIELDS_MAX], bytes),
        parsed => parsed,
    }
}

const TOO_MANY_FIELDS: Malformed = Malformed("it has too many fields");

fn parse_into<'b>(fields: &mut [httparse::Header<'b>], bytes: &'b [u8]) -> Result<Option<Head<'b>>, Malformed> {
    let mut parsed = httparse::Response::new(fields);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_MANY_FIELDS),
        Err(_) => return Err(Malformed("it is not an HTTP/1.1 response")),
    };
    let status = parsed.code.ok_or(Malformed("it has no status"))?;
    let (mut lengths, mut chunked, mut server) = (None, false, None);
    let mut keeps = parsed.version == Some(1);
    for field in &*parsed.headers {
        match field.name {
            name if name.eq_ignore_ascii_case("content-length") => {
                let text = std::str::from_utf8(field.value).ok();
                let length = text.and_then(|text| text.trim().parse().ok());
                lengths = Some(length.ok_or(Malformed("its Content-Length is not a number"))?);
            }
            name if name.eq_ignore_ascii_case("transfer-encoding") => chunked = has(field.value, b"chunked"),
            name if name.eq_ignore_ascii_case("connection") => {
                keeps = (keeps || has(field.value, b"keep-alive")) && !has(field.value, b"close");
            }
            name if name.eq_ignore_ascii_case("server") => server = Some(field.value),
            _ => {}
        }
    }
    let framing = match lengths {
        _ if chunked => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::Close,
    };
    Ok(Some(Head { bytes: &bytes[..length], status, keeps, framing, server }))
}

/// Whether a list has this member.
fn has(list: &[u8], member: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_may_have_many_fields() {
        let head = |count| format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(count));
        assert_eq!(responses(head(500).as_bytes(), false).len(), 1);
        let error = Reader::default().read(head(FIELDS_MAX).as_bytes(), false).unwrap_err();
        assert_eq!(error, TOO_MANY_FIELDS);
    }

    /// The responses in the bytes, given whole and byte by byte, which must be the same.
    fn responses(bytes: &[u8], bodiless: bool) -> Vec<Response> {
        let in_pieces = |size: usize| {
            let (mut reader, mut responses) = (Reader::default(), Vec::new());
            for mut piece in bytes.chunks(size) {
                while !piece.is_empty() {
                    let (taken, response) = reader.read(piece, bodiless).unwrap();
                    responses.extend(response);
                    piece = &piece[taken..];
                }
            }
            responses.extend(reader.close().unwrap());
            responses
        };
        let whole = in_pieces(bytes.len());
        assert_eq!(in_pieces(1), whole);
        assert_eq!(in_pieces(7), whole);
        whole
    }

    fn one(text: &str, bodiless: bool) -> (u16, u64, u64, bool) {
        let responses = responses(text.as_bytes(), bodiless);
        let [response] = responses[..] else { panic!("{responses:?}") };
        assert_eq!(response.head + response.body + response.framing, text.len() as u64, "{text}");
        (response.status, response.body, response.framing, response.keeps)
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        assert_eq!(one("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", false), (200, 3, 0, true));
        assert_eq!(one("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", false), (200, 0, 0, false));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n";
        assert_eq!(one(chunked, false), (200, 19, 7 + 2 + 4 + 2 + 3 + 6 + 2, true));
        assert_eq!(one("HTTP/1.1 200 OK\r\n\r\nuntil the end", false), (200, 13, 0, false));
        assert_eq!(one("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false), (200, 1, 0, false));
        let kept = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(one(kept, false), (200, 1, 0, true));
    }

    #[test]
    fn some_answers_have_no_body() {
        assert_eq!(one("HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n", true), (200, 0, 0, true));
        assert_eq!(one("HTTP/1.1 304 Not Modified\r\nContent-Length: 31\r\n\r\n", false), (304, 0, 0, true));
        assert_eq!(one("HTTP/1.1 204 No Content\r\n\r\n", false), (204, 0, 0, true));
    }

    #[test]
    fn responses_follow_each_other_and_interim_ones_are_part_of_the_next() {
        let text = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx\
                    HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nxy";
        let found = responses(text.as_bytes(), false);
        assert_eq!(found.iter().map(|one| (one.status, one.body)).collect::<Vec<_>>(), [(200, 1), (404, 2)]);
        assert_eq!(found.iter().map(|one| one.head + one.body).sum::<u64>(), text.len() as u64);
    }

    #[test]
    fn bodies_are_compared() {
        let is_expected = |body: &str| {
            let mut reader = Reader::default();
            reader.expect(b"abc".as_slice().into());
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            reader.read(text.as_bytes(), false).unwrap().1.unwrap().is_expected
        };
        assert_eq!(["abc", "abd", "ab", "abcd", ""].map(is_expected), [true, false, false, false, false]);
    }

    #[test]
    fn responses_are_kept() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text =
            format!("HTTP/1.1 103 Early Hints\r\n\r\n{head}3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\nHTTP/1.1 204 None\r\n\r\n");
        for size in [1, 7, text.len()] {
            let mut reader = Reader::default();
            reader.keep(4);
            for mut piece in text.as_bytes().chunks(size) {
                while !piece.is_empty() {
                    piece = &piece[reader.read(piece, false).unwrap().0..];
                }
            }
            let kept = reader.kept().unwrap();
            assert_eq!((kept.head, kept.body), (head.as_bytes().to_vec(), b"abcd".to_vec()), "pieces of {size}");
            let kept = reader.kept().unwrap();
            assert_eq!((kept.head, kept.body), (b"HTTP/1.1 204 None\r\n\r\n".to_vec(), Vec::new()));
            assert!(reader.kept().is_none());
        }
    }

    #[test]
    fn malformed_answers_are_errors() {
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
        ] {
            assert!(Reader::default().read(text.as_bytes(), false).is_err(), "{text}");
        }
        let mut reader = Reader::default();
        reader.read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", false).unwrap();
        assert!(reader.close().is_err());
        assert_eq!(Reader::default().close(), Ok(None));
    }
}
