//! What requests of this thread leave to the next ones: a busy connection needs two buffers and a head, an idle one none.

use std::cell::RefCell;

use http::Head;

/// How many of each kind are kept.
const KEPT: usize = 8;
/// A larger buffer is not kept, in bytes.
const LARGEST: usize = 32 * 1024;
/// Nor is a head with more fields.
const MOST_FIELDS: usize = 100;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static HEADS: RefCell<Vec<Head>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer.
pub(crate) fn take() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Leaves a buffer to the next request.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > LARGEST {
        return;
    }
    buffer.clear();
    keep(&BUFFERS, buffer);
}

/// An empty head.
pub(crate) fn take_head() -> Head {
    HEADS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Leaves a head to the next request.
pub(crate) fn give_head(mut head: Head) {
    if head.field_count() > MOST_FIELDS {
        return;
    }
    head.clear();
    keep(&HEADS, head);
}

fn keep<T>(kept: &'static std::thread::LocalKey<RefCell<Vec<T>>>, one: T) {
    kept.with_borrow_mut(|kept| {
        if kept.len() < KEPT {
            kept.push(one);
        }
    });
}
