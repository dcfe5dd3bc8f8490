//! A request that was sent before, and a response whose head is expected to be the one that came then: what is known of both
//! need not be written and read again.

use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Duration;

use http::h1::whole_chunks;
use sys::time::Instant;

use crate::http1::Exchange;
use crate::room::{Memory, Room};
use crate::stream::Stream;

/// The room for a response, in bytes: one that takes more is read as any other.
const PIECE: usize = 8 * 1024;
/// The length of a date, as all servers write it (RFC 9110 section 5.6.7).
const DATE: usize = 29;

/// The head of a response that a server has sent, but for its date, and the length of the content after it.
#[derive(Debug)]
pub struct ExpectedHead {
    text: Vec<u8>,
    date: Range<usize>,
    length: usize,
    /// The content comes in chunks.
    is_chunked: bool,
}

impl ExpectedHead {
    /// This head, with the value of its only `Date` at this place, and a content of this length, which perhaps comes in chunks.
    /// `None`: the value is no date.
    pub fn new(text: &[u8], date: usize, length: usize, is_chunked: bool) -> Option<ExpectedHead> {
        let date = date..date.checked_add(DATE)?;
        let is_date = text.get(date.clone()).is_some_and(is_plain) && text.get(date.end) == Some(&b'\r');
        is_date.then(|| ExpectedHead { text: text.to_vec(), date, length, is_chunked })
    }

    /// The value of `Date` when the head came first.
    pub fn date(&self) -> &[u8] {
        &self.text[self.date.clone()]
    }

    /// How much memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.text.len()
    }

    /// Whether these bytes are a response with this head, whatever its date, and its whole body.
    fn is_all_of(&self, received: &[u8]) -> bool {
        let Range { start, end } = self.date;
        let head = self.text.len();
        let is_whole = match received.get(head..) {
            Some(body) if self.is_chunked => whole_chunks::content_length(body) == Some(self.length),
            Some(body) => body.len() == self.length,
            None => false,
        };
        is_whole
            && received[..start] == self.text[..start]
            && received[end..head] == self.text[end..]
            && is_plain(&received[start..end])
    }

    /// Where the content of such a response is. Several chunks become one.
    fn content(&self, received: &mut [u8]) -> Range<usize> {
        let head = self.text.len();
        if self.is_chunked { whole_chunks::join(received, head) } else { head..received.len() }
    }
}

/// Whether a value has the characters of a date only.
fn is_plain(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || b" ,:".contains(byte))
}

/// A request on its way to a server that is expected to answer as before. Its memory may serve another one later.
#[derive(Debug, Default)]
pub struct ExpectedExchange {
    /// The connection, and since when it carries the request. `None`: that has not begun, or is over.
    stream: Option<(Stream, Instant)>,
    /// The head of the request, and what has come of the response.
    room: Room,
    /// How much of the request has been sent.
    sent: usize,
    /// Where the content of the expected response is.
    content: Range<usize>,
}

impl ExpectedExchange {
    /// Sends a request over a connection, since this moment; `head` writes its head.
    pub fn begin(&mut self, stream: Stream, since: Instant, head: impl FnOnce(&mut Vec<u8>)) {
        self.room.request.clear();
        self.room.received.clear();
        head(&mut self.room.request);
        (self.stream, self.sent) = (Some((stream, since)), 0);
    }

    /// Ready once something has come, or nothing more can: `true` if the response is the expected one, and
    /// [whole](Self::response).
    pub fn poll(&mut self, cx: &mut Context<'_>, expected: &ExpectedHead) -> Poll<bool> {
        let Memory { request, received, .. } = &mut *self.room;
        let Some((stream, _)) = &mut self.stream else { return Poll::Ready(false) };
        while self.sent < request.len() {
            match stream.poll_write(cx, &request[self.sent..]) {
                Poll::Ready(Ok(sent)) => self.sent += sent,
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => break,
            }
        }
        received.reserve(PIECE);
        stream.poll_read(cx, received).map(|read| {
            let is_sent = read.is_ok() && self.sent == request.len() && !stream.has_unsent();
            let is_expected = is_sent && expected.is_all_of(received);
            if is_expected {
                self.content = expected.content(received);
            }
            is_expected
        })
    }

    /// The date and the content of the response that has come.
    pub fn response(&self, expected: &ExpectedHead) -> (&[u8], &[u8]) {
        let received = &self.room.received;
        (&received[expected.date.clone()], &received[self.content.clone()])
    }

    /// The connection, after the expected response.
    pub fn end(&mut self) -> Option<Stream> {
        self.stream.take().map(|(stream, _)| stream)
    }

    /// The exchange, whatever has come and will come. `timeout`: how long the server may be silent.
    pub fn into_exchange(self, timeout: Duration) -> Option<Exchange> {
        let (stream, since) = self.stream?;
        Some(Exchange::begun(stream, self.room, (since, self.sent), timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 02:12:13 GMT\r\nContent-Length: 2\r\n\r\n";

    #[test]
    fn only_the_date_may_differ() {
        let date = "HTTP/1.1 200 OK\r\nDate: ".len();
        let expected = ExpectedHead::new(HEAD, date, 2, false).expect("a date");
        let with = |head: &[u8], from: &str, to: &str| {
            let text = String::from_utf8(head.to_vec()).expect("text").replacen(from, to, 1);
            [text.as_bytes(), b"ab"].concat()
        };
        assert!(expected.is_all_of(&with(HEAD, "", "")));
        assert!(expected.is_all_of(&with(HEAD, "Mon, 30 Nov", "Tue, 01 Dec")));
        for (from, to) in [
            ("200", "201"),
            ("Length: 2", "Length: 3"),
            ("Mon, 30 Nov 2026 02:12:13 GMT", "Mon, 30 Nov 2026 02:12:13 GM"),
            ("Mon, 30 Nov 2026 02:12:13 GMT", "Mon, 30 Nov 2026\r\nA: bcdef GMT"),
            ("Mon, 30 Nov 2026 02:12:13 GMT", "Mon, 30 Nov 2026 02:12:13 G\0T"),
            ("\r\n\r\n", "\r\nA: b\r\n\r\n"),
            ("\r\n\r\n", "\r\n\r\nc"),
        ] {
            assert!(!expected.is_all_of(&with(HEAD, from, to)), "{to:?}");
        }
        assert!(!expected.is_all_of(HEAD) && !expected.is_all_of(&HEAD[..40]) && !expected.is_all_of(b""));
        assert!(ExpectedHead::new(HEAD, date + 1, 2, false).is_none());
        assert!(ExpectedHead::new(HEAD, HEAD.len(), 2, false).is_none());
    }

    #[test]
    fn chunks_may_be_others() {
        let head = b"HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 02:12:13 GMT\r\nTransfer-Encoding: chunked\r\n\r\n";
        let date = "HTTP/1.1 200 OK\r\nDate: ".len();
        let expected = ExpectedHead::new(head, date, 3, true).expect("a date");
        let content = |body: &str| {
            let mut received = [head, body.as_bytes()].concat();
            let place = expected.is_all_of(&received).then(|| expected.content(&mut received));
            place.map(|place| String::from_utf8(received[place].to_vec()).expect("text"))
        };
        assert_eq!(content("3\r\nabc\r\n0\r\n\r\n").as_deref(), Some("abc"));
        assert_eq!(content("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n").as_deref(), Some("abc"));
        for other in
            ["abc", "", "2\r\nab\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\nHTTP/1.1", "3\r\nabc\r\n0\r\nA: b\r\n\r\n"]
        {
            assert_eq!(content(other), None, "{other:?}");
        }
    }
}
