//! How much input that is no whole request yet a process keeps.
//!
//! `LimitRequestFields` and `LimitRequestFieldSize` let each client send most of a megabyte before its head is too large.
//! Times a thousand clients that never finish, that is the memory of the machine. So all connections of a process share a
//! budget. What nearly every client sends is always taken; whatever is larger is taken as long as there is room.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A head, or a section of trailers, up to this size always has room, in bytes: twice what browsers with many cookies send.
const USUAL: usize = 16 * 1024;
/// What all larger ones of a process hold together, in bytes.
const BUDGET: usize = 16 * 1024 * 1024;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// What one connection holds of the budget; it is given back when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Unfinished(usize);

impl Unfinished {
    /// The input has grown, or shrunk, to so many bytes. `false`: there is no room for it.
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
