//! The budget of a process for input that is not a whole request yet.
//!
//! `LimitRequestFields` and `LimitRequestFieldSize` let each client send most of a megabyte before its head is too
//! large. Times a thousand clients that never finish, that is the memory of the machine. So all connections of a
//! process share a budget. The usual size is always accepted; larger input is accepted while there is room.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A head, or a section of trailers, up to this size is always accepted, in bytes: twice the size from browsers with
/// many cookies.
const USUAL: usize = 16 * 1024;
/// The most bytes of all larger ones in a process together.
const BUDGET: usize = 16 * 1024 * 1024;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The share of one connection in the budget; dropping it gives it back.
#[derive(Debug, Default)]
pub(super) struct Unfinished(usize);

impl Unfinished {
    /// The input has grown, or shrunk, to this many bytes. `false`: there is no room for it.
    pub(super) fn hold(&mut self, bytes: usize) -> bool {
        let counted = if bytes > USUAL { bytes } else { 0 };
        let before = std::mem::replace(&mut self.0, counted);
        if counted == before {
            return true;
        }
        HELD.fetch_sub(before, Ordering::Relaxed);
        HELD.fetch_add(counted, Ordering::Relaxed) + counted <= BUDGET || counted == 0
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_heads_have_room_and_larger_ones_share_a_budget() {
        let mut large: Vec<Unfinished> = Vec::new();
        let refused = loop {
            let mut one = Unfinished::default();
            assert!(one.hold(USUAL), "what is usual has room");
            if !one.hold(1024 * 1024) {
                break one;
            }
            large.push(one);
        };
        assert_eq!(large.len(), BUDGET / (1024 * 1024));
        drop(refused);
        assert!(Unfinished::default().hold(USUAL));
        large.pop();
        assert!(Unfinished::default().hold(1024 * 1024), "what is over gives its room back");
    }
}
