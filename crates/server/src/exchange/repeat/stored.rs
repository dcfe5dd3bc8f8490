//! Responses of a cache, to be sent again.

use std::sync::Arc;

use bytes::Bytes;

use super::sent_head::SentHead;
use crate::message::response::Body;
use crate::request::Request;
use crate::request::stored::Stored;

/// The longest body that is kept, in bytes: as much as of a small file.
const BODY_MAX: usize = 16 * 1024;

/// A response of a cache.
pub(super) struct KeptStored {
    stored: Arc<dyn Stored>,
    body: Bytes,
    /// The age that its head tells, in seconds.
    age: i64,
    /// The place of the age among the response's fields.
    field: usize,
}

impl KeptStored {
    /// The response that a cache has made, if it is kept.
    pub(super) fn of(request: &Request, stored: &Arc<dyn Stored>, body: &Body) -> Option<KeptStored> {
        let fields = &request.response.headers_out;
        let is_bodyless = request.data.header_only || http::status::is_bodyless(request.response.status());
        let body = match body {
            Body::Empty if is_bodyless => Bytes::new(),
            // A cache's memory holds more than this.
            Body::Bytes(bytes) if bytes.len() <= BODY_MAX => Bytes::copy_from_slice(bytes),
            _ => return None,
        };
        let (age, field) = (fields.get("Age")?.parse().ok()?, fields.place("Age")?);
        Some(KeptStored { stored: stored.clone(), body, age, field })
    }

    /// How much memory it takes, in bytes.
    pub(super) fn len(&self) -> usize {
        size_of::<KeptStored>() + self.body.len()
    }

    /// A request gets it.
    pub(super) fn count(&self) {
        self.stored.count();
    }

    /// The body for another request, which gets the response with its present age. `None`: the cache has to answer.
    pub(super) fn renew(&mut self, request: &mut Request, head: &mut SentHead) -> Option<Body> {
        let age = self.stored.age(&request.account, request.account.time)?;
        if age != self.age {
            let text = age.to_string();
            // A longer number has no room in the head.
            if !head.tell(text.as_bytes()) {
                return None;
            }
            let field = request.response.headers_out.own_mut(self.field)?;
            field.clear();
            field.push_str(&text);
            self.age = age;
        }
        Some(if self.body.is_empty() { Body::Empty } else { Body::Bytes(self.body.clone()) })
    }
}
