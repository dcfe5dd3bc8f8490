//! From the response of a backend to that of the server.

use std::io;

use bytes::Bytes;
use conf::Level;
use http::KnownField;
use http::h2::FieldList;
use http::text::from_bytes;
use server::{Body, BodyStream, Fields, HandlerResult, Piece, Request, Unsent};
use upstream::Fault;
use upstream::http2::{Exchange, Failure, Head, INTERIM_MAX};

use crate::proxy::mod_proxy::{Destination, HopByHop, broken, is_trailer, pass_on, proxy_error, take_field};

/// The module's name in log lines.
pub(super) const NAME: &str = "proxy_http2";

/// Why there is no response to pass on.
pub(super) enum NoResponse {
    /// The exchange has failed.
    Failure(Failure),
    /// There are too many interim responses.
    TooManyInterim,
}

impl NoResponse {
    /// What is wrong with the backend, if anything is.
    fn fault(&self) -> Option<Fault> {
        match self {
            NoResponse::Failure(failure) => fault_of(failure),
            NoResponse::TooManyInterim => Some(Fault::Malformed),
        }
    }
}

fn fault_of(failure: &Failure) -> Option<Fault> {
    match failure {
        Failure::Lost(_) | Failure::Unprocessed | Failure::Reset(_) => Some(Fault::Lost),
        Failure::TimedOut => Some(Fault::Timeout),
        Failure::Malformed(_) => Some(Fault::Malformed),
        Failure::Body(_) => None,
    }
}

impl From<Failure> for NoResponse {
    fn from(failure: Failure) -> NoResponse {
        NoResponse::Failure(failure)
    }
}

/// Waits for the final head of a response, and passes interim ones on.
pub(super) async fn final_head(request: &mut Request, exchange: &mut Exchange) -> Result<Head, NoResponse> {
    for _ in 0..=INTERIM_MAX {
        let head = exchange.next_head().await?;
        if head.fields.has_names_of_its_own() || head.fields.has_controls() {
            return Err(Failure::Malformed("a field of the response cannot be passed on").into());
        }
        match head.status {
            200.. => return Ok(head),
            // Whoever reads the body of the request asks the client for it.
            100 => exchange.ask_for_body(),
            status => {
                let mut fields = Fields::default();
                for (_, name, value) in end_to_end(&head.fields) {
                    fields.add(name, value);
                }
                if let Err(error) = request.send_interim(status, &fields).await {
                    request.log_os(NAME, Level::Debug, &error, format!("the interim response {status} is not sent"));
                }
            }
        }
    }
    Err(NoResponse::TooManyInterim)
}

/// The fields of a head that concern more than one connection, with the known names that they have, if any.
fn end_to_end(fields: &FieldList) -> impl Iterator<Item = (Option<KnownField>, String, String)> {
    let hop_by_hop = HopByHop::of(b"");
    fields.iter().filter_map(move |(name, value)| {
        let known = KnownField::classify(name);
        let is_passed = !hop_by_hop.has(known, name) && name != b"proxy-authenticate";
        is_passed.then(|| (known, usual_case(name), from_bytes(value).into_owned()))
    })
}

/// A name as HTTP/1 usually spells it, and as Apache does: each word begins with a capital.
fn usual_case(name: &[u8]) -> String {
    let mut begins = true;
    let usual = |byte: &u8| {
        let byte = if begins { byte.to_ascii_uppercase() } else { *byte };
        begins = byte == b'-';
        char::from(byte)
    };
    name.iter().map(usual).collect()
}

/// Makes the response from its final head and what follows.
pub(super) fn make(
    request: &mut Request,
    mut exchange: Exchange,
    head: Head,
    destination: &Destination,
) -> HandlerResult {
    let Head { status, fields, ends } = head;
    request.response.set_status(status);
    if let Some(attempt) = &destination.attempt {
        attempt.add_received(fields.size() as u64);
    }
    request.response.clear_content_type();
    for (known, name, value) in end_to_end(&fields) {
        take_field(request, known, name.into(), value.into());
    }
    pass_on(request, destination);
    let length = fields.length();
    if request.data.method == "HEAD" {
        return HandlerResult::Body(Body::Stream(Box::new(Unsent(length))));
    }
    // While the request's body is still on its way, the response goes out first, and what is left of that body comes last.
    if (ends || exchange.has_sent_request())
        && let Some(body) = exchange.whole()
    {
        return HandlerResult::Body(if body.is_empty() { Body::Empty } else { Body::Bytes(body) });
    }
    let speaker = request.speaker();
    HandlerResult::Body(Body::Stream(Box::new(Passed { exchange: Some(exchange), length, trailers: None, speaker })))
}

/// Logs why there is no response, and makes the server's own.
pub(super) fn failed(request: &mut Request, destination: &Destination, why: NoResponse) -> HandlerResult {
    let name = &destination.server.name;
    why.fault().into_iter().for_each(|fault| destination.server.note_fault(fault));
    let failure = match why {
        NoResponse::Failure(Failure::Body(error)) => {
            request.log(NAME, Level::Error, format!("AH03351: pass request body failed to {name}: {error}"));
            return HandlerResult::Status(error.status());
        }
        NoResponse::TooManyInterim => {
            let text = format!("Too many ({}) interim responses from origin server", INTERIM_MAX + 1);
            return proxy_error(request, 502, &text);
        }
        NoResponse::Failure(failure) => failure,
    };
    let status = if matches!(failure, Failure::TimedOut) { 504 } else { 502 };
    request.log(NAME, Level::Error, format!("no response comes from {name}: {failure}"));
    proxy_error(request, status, "Error reading from remote server")
}

/// The body of a backend's response, passed on as it comes.
struct Passed {
    /// `None`: it is complete, or has failed.
    exchange: Option<Exchange>,
    length: Option<u64>,
    /// The fields after it, once it is complete.
    trailers: Option<Fields>,
    /// The request for error log lines, while the real one is on its way.
    speaker: Box<Request>,
}

impl Passed {
    async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        let exchange = self.exchange.as_mut()?;
        match exchange.next_piece().await {
            Ok(Some(piece)) => {
                if exchange.is_over() {
                    self.end();
                }
                Some(Ok(piece))
            }
            Ok(None) => {
                self.end();
                None
            }
            Err(failure) => {
                self.exchange = None;
                self.speaker.log(NAME, Level::Error, format!("the response breaks off: {failure}"));
                Some(Err(broken(fault_of(&failure), &failure)))
            }
        }
    }
}

impl Passed {
    fn end(&mut self) {
        self.trailers = self.exchange.take().and_then(|exchange| exchange.trailers()).map(|list| trailers(&list));
    }
}

/// The fields after a body that are passed on.
fn trailers(list: &FieldList) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in list.iter() {
        let name = from_bytes(name);
        if is_trailer(&name) {
            fields.add(name.into_owned(), from_bytes(value).into_owned());
        }
    }
    fields
}

impl BodyStream for Passed {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(self.piece())
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn trailers(&self) -> Option<Fields> {
        // Until its end, any may come.
        Some(self.trailers.clone().unwrap_or_default())
    }
}
