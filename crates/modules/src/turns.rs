//! Limits how many may do something expensive at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of turns.
#[derive(Debug)]
pub(crate) struct Turns {
    taken: AtomicUsize,
    most: usize,
}

/// One turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(&'static Turns);

impl Turns {
    /// With all turns free.
    pub(crate) const fn new(most: usize) -> Turns {
        Turns { taken: AtomicUsize::new(0), most }
    }

    /// Takes a free turn.
    pub(crate) fn take(&'static self) -> Option<Turn> {
        let more = |count| (count < self.most).then_some(count + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Turn(self))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_given_back() {
        static TURNS: Turns = Turns::new(2);
        let first = TURNS.take();
        let second = TURNS.take();
        assert!(first.is_some() && second.is_some() && TURNS.take().is_none());
        drop(first);
        assert!(TURNS.take().is_some());
    }
}
