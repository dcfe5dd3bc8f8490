//! Memory that requests leave to later ones: a busy connection needs two buffers and a head, an idle one none.
//!
//! Each thread keeps a few. If one thread receives and another one serves, the first never gets a buffer back: so a
//! thread with too many gives half of them to a shared store, and a thread without any takes such a half.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Head;

/// How many of each kind a thread keeps.
const KEPT: usize = 8;
/// How many buffers the shared store keeps.
const KEPT_FOR_ALL: usize = 32;
/// The largest buffer that is kept, in bytes.
const LARGEST: usize = 32 * 1024;
/// The most fields of a head that is kept.
const MOST_FIELDS: usize = 100;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static HEADS: RefCell<Vec<Head>> = const { RefCell::new(Vec::new()) };
}

static FOR_ALL: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn for_all() -> MutexGuard<'static, Vec<Vec<u8>>> {
    FOR_ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty buffer.
pub(crate) fn take() -> Vec<u8> {
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.is_empty() {
            let mut for_all = for_all();
            let half = for_all.len().saturating_sub(KEPT / 2);
            buffers.extend(for_all.drain(half..));
        }
        buffers.pop().unwrap_or_default()
    })
}

/// Leaves a buffer to later requests.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > LARGEST {
        return;
    }
    buffer.clear();
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() == KEPT {
            let mut for_all = for_all();
            let room = KEPT_FOR_ALL.saturating_sub(for_all.len());
            for_all.extend(buffers.drain(KEPT / 2..).take(room));
        }
        buffers.push(buffer);
    });
}

/// An empty head.
pub(crate) fn take_head() -> Head {
    HEADS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Leaves a head to later requests.
pub(crate) fn give_head(mut head: Head) {
    if head.field_count() > MOST_FIELDS {
        return;
    }
    head.clear();
    HEADS.with_borrow_mut(|heads| {
        if heads.len() < KEPT {
            heads.push(head);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_too_many_leaves_them_to_one_that_has_none() {
        let busy = || (0..KEPT * 3).for_each(|_| give(Vec::with_capacity(100)));
        assert!(std::thread::spawn(busy).join().is_ok());
        let taken = std::thread::spawn(|| take().capacity()).join();
        assert!(taken.is_ok_and(|capacity| capacity >= 100));
    }

    #[test]
    fn there_is_a_limit() {
        (0..1000).for_each(|_| give(Vec::with_capacity(100)));
        assert!(BUFFERS.with_borrow(Vec::len) <= KEPT);
        assert!(for_all().len() <= KEPT_FOR_ALL);
        give(Vec::with_capacity(LARGEST + 1));
        assert!((0..KEPT).all(|_| take().capacity() <= LARGEST));
    }
}
