//! A server that already runs, as the source of a response: its failures are logged in its module's words, and its
//! connection is given back if it stays open.

use std::task::{Context, Poll};
use std::time::Duration;

use conf::Level;
use server::Request;
use upstream::{Keep, Kind, pool};

use super::RemoteProtocol;
use crate::backend::exchange::BackendExchange;
use crate::script::{Event, Failure, Reached, Source};

/// The longest status line, in bytes.
const STATUS_LINE_MAX: usize = 8190;

/// An exchange with such a server.
pub(crate) struct RemoteSource {
    exchange: Option<BackendExchange>,
    /// Where the connection goes back.
    back: Option<(Kind, Keep)>,
    status_line: Option<StatusLine>,
    /// How it fails.
    protocol: &'static RemoteProtocol,
    /// The server's name, for messages.
    server: String,
    /// How long it may be silent.
    timeout: Duration,
}

/// A status line that is still to come (RFC 9112 section 4). It becomes the field that a script would write.
#[derive(Debug, Default)]
pub(crate) struct StatusLine(Vec<u8>);

impl StatusLine {
    /// Takes received bytes. `Ok(true)`: the line was there, and the rest begins with `Status`. `Err`: it is not such a
    /// line.
    fn take(&mut self, output: &mut Vec<u8>) -> Result<bool, ()> {
        self.0.append(output);
        let known = self.0.len().min(5);
        if self.0[..known] != b"HTTP/"[..known] || self.0.len() > STATUS_LINE_MAX && !self.0.contains(&b'\n') {
            return Err(());
        }
        let Some(end) = self.0.iter().position(|byte| *byte == b'\n') else { return Ok(false) };
        let space = self.0[..end].iter().position(|byte| *byte == b' ').ok_or(())?;
        output.extend_from_slice(b"Status: ");
        output.extend_from_slice(self.0[space..].trim_ascii_start());
        Ok(true)
    }
}

impl RemoteSource {
    /// Makes one, whose connection goes `back` once it can be reused.
    pub(crate) fn new(
        exchange: BackendExchange,
        back: Option<(Kind, Keep)>,
        status_line: Option<StatusLine>,
        protocol: &'static RemoteProtocol,
        server: String,
        timeout: Duration,
    ) -> RemoteSource {
        RemoteSource { exchange: Some(exchange), back, status_line, protocol, server, timeout }
    }

    fn failure(&self, status: u16, reached: Reached, why: &str) -> Event {
        let text = format!("{}: {why}", (self.protocol.failed)(&self.server));
        Event::Failed(Failure { reached, ..Failure::new(status, Level::Error, text) })
    }
}

impl Source for RemoteSource {
    fn poll_next(&mut self, cx: &mut Context<'_>, request: &Request, output: &mut Vec<u8>) -> Poll<Event> {
        loop {
            let Some(exchange) = &mut self.exchange else { return Poll::Ready(Event::Ended) };
            let event = match exchange.poll_next(cx, request, output) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Event::Failed(failure)) => {
                    self.failure(self.protocol.status, failure.reached, &failure.text)
                }
                Poll::Ready(Event::TimedOut) => self.failure(
                    504,
                    Reached::Response,
                    &format!("it has sent nothing for {} s", self.timeout.as_secs()),
                ),
                Poll::Ready(event) => event,
            };
            if let (Event::Output, Some(line)) = (&event, &mut self.status_line) {
                match line.take(output) {
                    Ok(true) => self.status_line = None,
                    Ok(false) => continue,
                    Err(()) => {
                        self.exchange = None;
                        return Poll::Ready(self.failure(
                            502,
                            Reached::Response,
                            "its response does not begin with a status line",
                        ));
                    }
                }
            }
            return Poll::Ready(event);
        }
    }

    fn has_ended(&self) -> bool {
        self.exchange.as_ref().is_none_or(Source::has_ended)
    }

    fn settle(&mut self) {}

    fn touch(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.touch();
        }
    }

    fn body_start(&self) -> &[u8] {
        &[]
    }
}

impl Drop for RemoteSource {
    fn drop(&mut self) {
        let reusable = self.exchange.take().filter(BackendExchange::is_reusable);
        if let (Some((kind, keep)), Some(exchange)) = (self.back.take(), reusable) {
            pool::give_scarce(&kind, keep, exchange.into_stream());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_become_fields() {
        let table: &[(&[&str], Result<&str, ()>)] = &[
            (&["HTTP/1.1 200 OK\r\nA: b\r\n"], Ok("Status: 200 OK\r\nA: b\r\n")),
            (&["HT", "TP/1.0 404 ", "Not Here\r\n"], Ok("Status: 404 Not Here\r\n")),
            (&["HTTP/1.1  200\n"], Ok("Status: 200\n")),
            (&["Status: 200 OK\r\n"], Err(())),
            (&["HTTP/1.1\r\n"], Err(())),
            (&["x"], Err(())),
        ];
        for (pieces, want) in table {
            let (mut line, mut got) = (StatusLine::default(), Ok(String::new()));
            for piece in *pieces {
                let mut output = piece.as_bytes().to_vec();
                got = line.take(&mut output).map(|_| String::from_utf8(output).expect("text"));
            }
            assert_eq!(got.as_deref(), want.as_ref().map(|text| *text).map_err(|()| &()), "{pieces:?}");
        }
    }
}
