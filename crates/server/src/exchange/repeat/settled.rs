//! Responses that [recur](crate::request::recurring), as they go out: all is settled but the date and the content.

use std::mem;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sent_head::SentHead;
use super::size::{HEAD_MAX, text_of};
use crate::message::response::Body;
use crate::message::response_head::ResponseHead;
use crate::message::sent::Delimiter;
use crate::request::Request;
use crate::request::recurring::{Recurrence, Recurring};

/// The most memory that a settled response may take, in bytes.
pub(super) const SETTLED_MAX: usize = 8 * 1024;
/// How often in a row it is worth the work to settle a response that does not recur, as those of many applications do not; from
/// then on, once in so many requests.
const TRIES: u32 = 3;
const SELDOM: u32 = 64;
/// The number of the next settled response.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A response that goes out again as it did, but for its date and its content.
pub(crate) struct Settled {
    /// How to ask for the next one.
    pub(crate) known: Arc<dyn Recurring>,
    /// Its head as it went out.
    pub(crate) head: SentHead,
    /// Its head, for the logs.
    pub(super) response: ResponseHead,
    /// A number that no other one has had.
    pub(super) number: NonZeroU64,
    /// Where its `Date` is among the fields of `response`.
    date: usize,
}

/// The settled response to requests with one head, if there is one.
#[derive(Default)]
pub(crate) struct Slot {
    settled: Mutex<Option<Arc<Settled>>>,
    /// How many requests had another response since one had the settled one.
    others: AtomicU32,
}

impl Slot {
    fn settled(&self) -> MutexGuard<'_, Option<Arc<Settled>>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self) -> Option<Arc<Settled>> {
        self.settled().clone()
    }

    /// Whether it is worth the work to settle the response of one more request, to which none is known.
    pub(super) fn is_wanted(&self) -> bool {
        let others = self.others.fetch_add(1, Ordering::Relaxed);
        others < TRIES || others.is_multiple_of(SELDOM)
    }

    /// The response has come as expected.
    pub(crate) fn confirm(&self) {
        if self.others.load(Ordering::Relaxed) > 0 {
            self.others.store(0, Ordering::Relaxed);
        }
    }

    /// The response was another one. Returns whether that shall take its place.
    pub(crate) fn forget(&self) -> bool {
        *self.settled() = None;
        self.is_wanted()
    }

    /// Settles a response whose head was just written, if its handler has offered what it knows, and it depends on nothing else.
    /// `head`: that head, if it has this date.
    pub(crate) fn settle(
        &self,
        request: &mut Request,
        delimiter: Delimiter,
        body: &Body,
        head: impl FnOnce(&Request, &str) -> Option<SentHead>,
    ) {
        let Recurrence::Offered(known) = mem::take(&mut request.recurrence) else { return };
        let Request { response, account, .. } = &*request;
        // A filter may have made something else of it.
        let is_its_own = match body {
            Body::Empty => known.body().is_empty(),
            Body::Bytes(bytes) => bytes.as_ptr() == known.body().as_ptr() && bytes.len() == known.body().len(),
            Body::File(_) | Body::Parts(_) | Body::Stream(_) => false,
        };
        let is_plain = request.is_plain()
            && response.rate_limit.is_none()
            && account.sent.trailers_out.is_empty()
            && delimiter == Delimiter::Length(known.body().len() as u64);
        if !is_its_own || !is_plain {
            return;
        }
        let Some(date) = response.headers_out.place("Date") else { return };
        let text = std::str::from_utf8(known.date()).unwrap_or_default();
        let Some(head) = head(request, text) else { return };
        let memory = size_of::<Settled>() + head.len() + known.memory() + text_of(request);
        if head.len() > HEAD_MAX || memory > SETTLED_MAX {
            return;
        }
        let mut kept = ResponseHead::default();
        kept.become_like(response);
        // A string of its own, which each response can change.
        kept.headers_out.set("Date", kept.headers_out.get("Date").unwrap_or_default().to_string());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        *self.settled() =
            NonZeroU64::new(number).map(|number| Arc::new(Settled { known, head, response: kept, number, date }));
    }
}

impl Settled {
    /// Completes a request that began with this response: gives it this date.
    pub(crate) fn complete(&self, request: &mut Request, date: &[u8]) {
        if let (Some(text), Ok(date)) = (request.response.headers_out.own_mut(self.date), std::str::from_utf8(date)) {
            text.clear();
            text.push_str(date);
        }
        request.settled = Some(self.number);
    }
}
