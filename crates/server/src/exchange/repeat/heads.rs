//! The heads of requests that had the same response: a request with one of them need not be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::message::head::RequestHead;

/// How many heads are kept of one response.
const HEADS: usize = 8;
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Some heads of requests that had the same response.
#[derive(Default)]
pub(super) struct KeptHeads(Vec<KeptHead>);

struct KeptHead {
    hash: u64,
    head: Arc<RequestHead>,
    /// The text of the fields, over HTTP/2.
    fields: Option<Vec<u8>>,
    memory: usize,
}

impl KeptHeads {
    /// The kept head with this hash and this text: its own, or that of its fields over HTTP/2.
    pub(super) fn get(&self, hash: u64, text: &[u8]) -> Option<&Arc<RequestHead>> {
        let is_it = |kept: &&KeptHead| kept.hash == hash && kept.text() == text;
        self.0.iter().find(is_it).map(|kept| &kept.head)
    }

    /// Keeps a head, perhaps instead of another one. If there is no memory for it, the next request that has it is read. `most`: what
    /// the process keeps, in bytes.
    pub(super) fn keep(&mut self, hash: u64, head: &Arc<RequestHead>, fields: Option<Vec<u8>>, most: usize) {
        let is_full = |memory: usize| TAKEN.load(Ordering::Relaxed) + memory > most;
        let memory = head.memory() + fields.as_ref().map_or(0, Vec::len);
        if (self.0.len() == HEADS || is_full(memory)) && !self.0.is_empty() {
            // As good as at random, since the hash is.
            self.0.swap_remove((hash >> 32) as usize % self.0.len());
        }
        if !is_full(memory) {
            TAKEN.fetch_add(memory, Ordering::Relaxed);
            self.0.push(KeptHead { hash, head: head.clone(), fields, memory });
        }
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

impl Drop for KeptHead {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.memory, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use http::Version;
    use http::h1::head::Parts;

    use super::*;

    const MOST: usize = 512 * 1024;

    fn head(number: u64, size: usize) -> Arc<RequestHead> {
        let target = format!("/{number}{}", "x".repeat(size));
        let parts = Parts { method: b"GET", target: target.as_bytes(), authority: None, version: Version::Http11 };
        Arc::new(RequestHead::assembled(&parts, []))
    }

    #[test]
    fn there_are_limits() {
        let mut few = KeptHeads::default();
        (0..20).for_each(|number| few.keep(number << 32, &head(number, 10), None, MOST));
        assert_eq!(few.hashes().count(), HEADS);
        let last = head(19, 10);
        assert!(few.get(19 << 32, last.text()).is_some() && few.get(19 << 32, b"other").is_none());
        let mut many: Vec<KeptHeads> = (0..20).map(|_| KeptHeads::default()).collect();
        let large = |number: usize| head(number as u64, 100_000);
        many.iter_mut().enumerate().for_each(|(number, heads)| heads.keep(number as u64, &large(number), None, MOST));
        let kept = many.iter().filter(|heads| heads.hashes().count() == 1).count();
        assert!((1..6).contains(&kept) && TAKEN.load(Ordering::Relaxed) <= MOST, "{kept}");
        many.clear();
        few.keep(99 << 32, &large(99), Some(vec![0; 10]), MOST);
        assert!(few.get(99 << 32, &[0; 10]).is_some());
        drop(few);
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }
}
