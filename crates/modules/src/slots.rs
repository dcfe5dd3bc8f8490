//! Limits how many may do something expensive at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of slots.
#[derive(Debug)]
pub(crate) struct Slots {
    taken: AtomicUsize,
    most: usize,
}

/// One slot, taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(&'static Slots);

impl Slots {
    /// With all slots free.
    pub(crate) const fn new(most: usize) -> Slots {
        Slots { taken: AtomicUsize::new(0), most }
    }

    /// Takes a free slot.
    pub(crate) fn take(&'static self) -> Option<Slot> {
        let more = |count| (count < self.most).then_some(count + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Slot(self))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_back() {
        static SLOTS: Slots = Slots::new(2);
        let first = SLOTS.take();
        let second = SLOTS.take();
        assert!(first.is_some() && second.is_some() && SLOTS.take().is_none());
        drop(first);
        assert!(SLOTS.take().is_some());
    }
}
