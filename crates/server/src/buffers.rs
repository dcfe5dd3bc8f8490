//! Buffers that requests of this thread leave to the next ones: a busy connection needs two, an idle one none.

use std::cell::RefCell;

/// How many are kept.
const KEPT: usize = 8;
/// A larger one is not kept, in bytes.
const LARGEST: usize = 32 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
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
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < KEPT {
            buffers.push(buffer);
        }
    });
}
