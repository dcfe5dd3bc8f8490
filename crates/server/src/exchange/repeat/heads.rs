//! The heads of requests that had the same response: a request with one of them need not be read.

use std::sync::Arc;

use super::settled::{SETTLED_MAX, Slot};
use crate::message::head::RequestHead;

/// How many heads are kept of one response.
const HEADS: usize = 8;
/// Some heads of requests that had the same response.
#[derive(Default)]
pub(super) struct KeptHeads(Vec<KeptHead>);

/// A head that came more than once.
pub(super) struct KeptHead {
    hash: u64,
    pub(super) head: Arc<RequestHead>,
    /// What is known of the response, if a handler makes it.
    pub(super) slot: Option<Arc<Slot>>,
    /// The text of the fields, over HTTP/2.
    fields: Option<Vec<u8>>,
    memory: usize,
}

impl KeptHeads {
    /// The kept head with this hash and this text: its own, or that of its fields over HTTP/2.
    pub(super) fn get(&self, hash: u64, text: &[u8]) -> Option<&KeptHead> {
        let is_it = |kept: &&KeptHead| kept.hash == hash && kept.text() == text;
        self.0.iter().find(is_it)
    }

    /// Keeps a head, perhaps instead of another one. `slot`: for the response, if a handler makes it.
    pub(super) fn keep(
        &mut self,
        hash: u64,
        head: &Arc<RequestHead>,
        fields: Option<Vec<u8>>,
        slot: Option<Arc<Slot>>,
    ) {
        if self.0.len() == HEADS {
            // As good as at random, since the hash is.
            self.0.swap_remove((hash >> 32) as usize % HEADS);
        }
        let memory = size_of::<KeptHead>() + head.memory() + fields.as_ref().map_or(0, Vec::len);
        let memory = memory + slot.as_ref().map_or(0, |_| SETTLED_MAX);
        self.0.push(KeptHead { hash, head: head.clone(), slot, fields, memory });
    }

    /// How much memory they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.iter().map(|kept| kept.memory).sum()
    }

    /// The hashes of the kept heads.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|kept| kept.hash)
    }
}

impl KeptHead {
    fn text(&self) -> &[u8] {
        self.fields.as_deref().unwrap_or_else(|| self.head.text())
    }
}

#[cfg(test)]
mod tests {
    use http::Version;
    use http::h1::head::Parts;

    use super::*;

    fn head(number: u64) -> Arc<RequestHead> {
        let target = format!("/{number}");
        let parts = Parts { method: b"GET", target: target.as_bytes(), authority: None, version: Version::Http11 };
        Arc::new(RequestHead::assembled(&parts, []))
    }

    #[test]
    fn there_are_few() {
        let mut heads = KeptHeads::default();
        (0..20).for_each(|number| heads.keep(number << 32, &head(number), None, None));
        assert_eq!(heads.hashes().count(), HEADS);
        let last = head(19);
        assert!(heads.get(19 << 32, last.text()).is_some() && heads.get(19 << 32, b"other").is_none());
        heads.keep(99 << 32, &head(99), Some(vec![0; 10]), None);
        assert!(heads.get(99 << 32, &[0; 10]).is_some());
        assert!(heads.memory() > HEADS * size_of::<RequestHead>());
    }
}
