//! From the response of a backend to that of the server.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use conf::Level;
use http::KnownField;
use http::h1::received::{BadResponse, ResponseHead};
use http::text::from_bytes;
use server::{Body, BodyStream, Fields, HandlerResult, Piece, Request, Splice, TextPart, Unsent, Value};
use sys::pipe::Pipe;
use upstream::Fault;
use upstream::http1::{Exchange, Failure};

use super::connection::{Back, NAME, free};
use super::recurring::Exchanged;
use crate::proxy::mod_proxy::{Destination, HopByHop, broken, pass_on, proxy_error, take_field};

/// How many interim responses a backend may send to a request, as in Apache.
const INTERIM_MAX: usize = 10;

/// Why there is no response to pass on.
pub(super) enum NoResponse {
    /// The exchange has failed.
    Failure(Failure),
    /// There are too many interim responses.
    TooManyInterim,
    /// The backend speaks another protocol, which nobody has asked for.
    Switched {
        /// Its name.
        protocol: String,
        /// The protocol that was asked for.
        asked: String,
    },
}

impl NoResponse {
    /// What is wrong with the backend, if anything is.
    fn fault(&self) -> Option<Fault> {
        match self {
            NoResponse::Failure(failure) => fault_of(failure),
            NoResponse::TooManyInterim | NoResponse::Switched { .. } => Some(Fault::Malformed),
        }
    }
}

fn fault_of(failure: &Failure) -> Option<Fault> {
    match failure {
        Failure::Lost(_) => Some(Fault::Lost),
        Failure::TimedOut => Some(Fault::Timeout),
        Failure::Malformed(_) | Failure::Chunks(_) => Some(Fault::Malformed),
        Failure::Body(_) => None,
    }
}

impl From<Failure> for NoResponse {
    fn from(failure: Failure) -> NoResponse {
        NoResponse::Failure(failure)
    }
}

/// What follows the interim responses.
pub(super) enum Final {
    /// A response.
    Response,
    /// The backend has switched to this protocol, which was asked for.
    Tunnel(String),
}

/// Waits for the final head of a response, and passes interim ones on. `upgrade`: the protocol that was asked for.
pub(super) async fn final_head(
    request: &mut Request,
    exchange: &mut Exchange,
    upgrade: Option<&str>,
) -> Result<Final, NoResponse> {
    let mut interim = 0;
    loop {
        exchange.next_head().await?;
        let (head, bytes) = exchange.head();
        let status = head.status(bytes);
        match status {
            200.. => return Ok(Final::Response),
            101 => {
                let protocol = head.field(bytes, KnownField::Upgrade).unwrap_or(b"n/a");
                let protocol = from_bytes(protocol).into_owned();
                return match upgrade {
                    Some(asked) if asked.eq_ignore_ascii_case(&protocol) => Ok(Final::Tunnel(protocol)),
                    _ => Err(NoResponse::Switched { protocol, asked: upgrade.unwrap_or("n/a").to_string() }),
                };
            }
            // Whoever reads the body of the request asks the client for it.
            100 => exchange.ask_for_body(),
            _ => {
                let mut fields = Fields::default();
                for EndToEnd { name, value, .. } in end_to_end(head, bytes) {
                    fields.add(name, value);
                }
                if let Err(error) = request.send_interim(status, &fields).await {
                    request.log_os(NAME, Level::Debug, &error, format!("the interim response {status} is not sent"));
                }
            }
        }
        interim += 1;
        if interim > INTERIM_MAX {
            return Err(NoResponse::TooManyInterim);
        }
    }
}

/// The fields of a head that concern more than one connection.
pub(super) fn end_to_end<'h>(head: &'h ResponseHead, bytes: &'h [u8]) -> impl Iterator<Item = EndToEnd> + use<'h> {
    let connection = head.combined(bytes, KnownField::Connection);
    let hop_by_hop = HopByHop::of(connection.as_deref().unwrap_or_default());
    // Most heads are text as they are, and then each value is a part of it.
    let text = match from_bytes(bytes) {
        Cow::Borrowed(text) => Some(Arc::<str>::from(text)),
        Cow::Owned(_) => None,
    };
    let fields = head.named_fields(bytes);
    fields
        .filter(move |(known, name, _)| {
            !hop_by_hop.has(*known, name) && !name.eq_ignore_ascii_case(b"Proxy-Authenticate")
        })
        .map(move |(known, name, value)| {
            let start = (value.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
            let part = text.as_ref().and_then(|text| TextPart::new(text, start..start + value.len()));
            // A folded value is not in the head as it is.
            let part = part.filter(|part| part.as_bytes() == value);
            let value = part.map_or_else(|| from_bytes(value).into(), Value::from);
            EndToEnd { known, name: usual_name(name), value }
        })
}

/// A field of a backend's response.
pub(super) struct EndToEnd {
    /// Which known name it has, if any.
    known: Option<KnownField>,
    pub(super) name: Cow<'static, str>,
    pub(super) value: Value,
}

/// Names of fields that most responses have.
const USUAL: [&str; 16] = [
    "Date",
    "Server",
    "ETag",
    "Last-Modified",
    "Content-Type",
    "Cache-Control",
    "Accept-Ranges",
    "Set-Cookie",
    "Vary",
    "Expires",
    "Location",
    "Content-Encoding",
    "Content-Language",
    "X-Powered-By",
    "X-Frame-Options",
    "Strict-Transport-Security",
];

/// A name, without memory of its own if most responses have it.
fn usual_name(name: &[u8]) -> Cow<'static, str> {
    let usual = USUAL.iter().find(|usual| usual.as_bytes() == name);
    usual.map_or_else(|| Cow::Owned(from_bytes(name).into_owned()), |usual| Cow::Borrowed(*usual))
}

/// Makes the response from one whose final head has come. `back` takes the connection when it is free.
pub(super) fn make(
    request: &mut Request,
    mut exchange: Exchange,
    destination: &Destination,
    back: Option<Back>,
) -> HandlerResult {
    let (head, bytes) = exchange.head();
    // The method that was sent decides: the page of an error is asked for with GET, even for a client that sent HEAD.
    let to_head = request.data.method == "HEAD";
    let end = match head.body_end(bytes, to_head) {
        Ok(end) => end,
        Err(bad) => return failed(request, destination, Failure::Malformed(bad).into()),
    };
    let announced = head.field(bytes, KnownField::ContentLength).map(from_bytes).and_then(|text| text.parse().ok());
    let (status, reason) = (head.status(bytes), from_bytes(head.reason(bytes)));
    match reason == http::status::reason(status) {
        true => request.response.set_status(status),
        false => request.response.set_status_line(status, format!("{status} {reason}")),
    }
    if let Some(attempt) = &destination.attempt {
        // As in Apache, the status line counts, and the fields do not.
        let line = "HTTP/1.1 200 ".len() + head.reason(bytes).len();
        attempt.add_received(line as u64);
    }
    request.response.clear_content_type();
    for EndToEnd { known, name, value } in end_to_end(head, bytes) {
        take_field(request, known, name, value);
    }
    pass_on(request, destination);
    let length = exchange.begin_body(end);
    if to_head {
        free(exchange, back);
        return HandlerResult::Body(Body::Stream(Box::new(Unsent(announced))));
    }
    // While the request's body is still on its way, the response goes out first, and what is left of that body comes last.
    let whole = if exchange.has_sent_request() { exchange.whole() } else { Ok(None) };
    match whole {
        Ok(Some(body)) => {
            if request.may_recur()
                && let (Some(back), Some((sent, head, bytes))) = (&back, exchange.heads())
                && let Some(known) = Exchanged::new(request, (&back.destination, back.keep), sent, (head, bytes), &body)
            {
                request.offer_recurring(Arc::new(known));
            }
            free(exchange, back);
            HandlerResult::Body(if body.is_empty() { Body::Empty } else { Body::Bytes(body) })
        }
        Ok(None) => {
            let speaker = request.speaker();
            HandlerResult::Body(Body::Stream(Box::new(Passed { exchange: Some(exchange), back, length, speaker })))
        }
        Err(failure) => failed(request, destination, failure.into()),
    }
}

/// Logs why there is no response, and makes the server's own.
pub(super) fn failed(request: &mut Request, destination: &Destination, why: NoResponse) -> HandlerResult {
    let name = &destination.server.name;
    why.fault().into_iter().for_each(|fault| destination.server.note_fault(fault));
    match why {
        NoResponse::Failure(Failure::Body(error)) => {
            request.log(NAME, Level::Error, "AH01095: Error reading request entity data");
            HandlerResult::Status(error.status())
        }
        NoResponse::Failure(failure @ (Failure::Lost(_) | Failure::TimedOut)) => {
            let status = if matches!(failure, Failure::TimedOut) { 504 } else { 502 };
            let text = format!("AH01102: error reading status line from remote server {name}: {failure}");
            request.log(NAME, Level::Error, text);
            proxy_error(request, status, "Error reading from remote server")
        }
        NoResponse::Failure(Failure::Malformed(bad)) => {
            let what = match bad {
                BadResponse::Head(http::HeadError::BadStatusLine) => "AH01102: error reading status line from",
                _ => "AH01106: bad HTTP/1.1 header returned by",
            };
            request.log(NAME, Level::Error, format!("{what} {name}: {bad}"));
            proxy_error(request, 502, "Error reading from remote server")
        }
        NoResponse::Failure(failure @ Failure::Chunks(_)) => {
            request.log(NAME, Level::Error, format!("AH01110: error reading response: {failure} ({name})"));
            HandlerResult::Status(502)
        }
        NoResponse::TooManyInterim => {
            let text = format!("Too many ({}) interim responses from origin server", INTERIM_MAX + 1);
            proxy_error(request, 502, &text)
        }
        NoResponse::Switched { protocol, asked } => {
            proxy_error(request, 502, &format!("Unexpected Upgrade: {protocol} (expecting {asked})"))
        }
    }
}

/// The body of a backend's response, passed on as it comes.
struct Passed {
    /// `None`: it is complete, or has failed.
    exchange: Option<Exchange>,
    back: Option<Back>,
    length: Option<u64>,
    /// The request for error log lines, while the real one is on its way.
    speaker: Box<Request>,
}

impl Passed {
    async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        let exchange = self.exchange.as_mut()?;
        match exchange.next_piece().await {
            Ok(Some(piece)) => {
                self.end_if_complete();
                Some(Ok(piece))
            }
            Ok(None) => {
                self.end();
                None
            }
            Err(failure) => Some(Err(self.failed(&failure))),
        }
    }

    async fn fill(&mut self, pipe: &mut Pipe) -> io::Result<()> {
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let moved = exchange.splice(pipe).await;
        moved.map_err(|failure| self.failed(&failure))?;
        self.end_if_complete();
        Ok(())
    }

    fn failed(&mut self, failure: &Failure) -> io::Error {
        self.exchange = None;
        self.speaker.log(NAME, Level::Error, format!("AH01110: error reading response: {failure}"));
        broken(fault_of(failure), failure)
    }

    fn end_if_complete(&mut self) {
        if self.exchange.as_ref().is_some_and(Exchange::is_reusable) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            free(exchange, self.back.take());
        }
    }
}

impl BodyStream for Passed {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(self.piece())
    }

    fn splices(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::splices)
    }

    fn splice<'a>(&'a mut self, pipe: &'a mut Pipe) -> Splice<'a> {
        Box::pin(self.fill(pipe))
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}
