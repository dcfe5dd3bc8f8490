//! Responses that recur: another server answers each request of a head with the head that it sent before, a new date and a
//! content. What the phases and filters make of such a response is known once one has gone through them.
//!
//! The handler knows the other server, and what it sends; whoever answers the client knows what became of that. A handler
//! [offers](crate::Request::offer_recurring) what it knows. Later requests with that head then begin by asking the other server
//! ([`Recurring::ask`]). If it answers as expected, the response goes out as it did; otherwise the request begins at its handler,
//! which [goes on](crate::Request::take_asked) with what has come.

use std::any::Any;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use sys::time::Instant;

/// What a handler knows about a response that may recur.
pub trait Recurring: Send + Sync {
    /// The body of the response that it was offered with.
    fn body(&self) -> &Bytes;

    /// The value of `Date` in that response, which is that of the other server.
    fn date(&self) -> &[u8];

    /// How much memory it takes, in bytes.
    fn memory(&self) -> usize;

    /// Asks the other server for another such response, without waiting, for a client at this address whose request came
    /// at `start`. `None`: that is not possible at present, and nothing was sent.
    fn ask(self: Arc<Self>, ip: &str, start: Instant) -> Option<Box<dyn Asked>>;
}

/// A request for a response that may recur, on its way to the other server.
pub trait Asked: Send {
    /// How long the other server may take.
    fn timeout(&self) -> Duration;

    /// Ready once there is an answer: `true` if it is [the expected one](Self::answer).
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool>;

    /// The date of the expected answer, as long as that of the response that it was offered with, and its content.
    fn answer(&self) -> (&[u8], &[u8]);

    /// Ends after the expected answer.
    fn end(self: Box<Self>);

    /// What has come, and will come, for the handler.
    fn into_begun(self: Box<Self>) -> Box<dyn Any + Send + Sync>;
}

/// What a request has to do with responses that recur.
#[derive(Default)]
pub(crate) enum Recurrence {
    /// Nothing.
    #[default]
    None,
    /// Its handler may offer what it knows.
    Wanted,
    /// Its handler has offered this.
    Offered(Arc<dyn Recurring>),
    /// The other server was asked, and has not answered as expected. Whether its handler may offer what it knows.
    Begun(Box<dyn Any + Send + Sync>, bool),
}

impl Recurrence {
    /// Whether the handler may come to offer what it knows.
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self, Recurrence::Wanted | Recurrence::Begun(_, true))
    }

    /// Whether the handler has offered what it knows.
    pub(crate) fn is_offered(&self) -> bool {
        matches!(self, Recurrence::Offered(_))
    }
}
