//! Limits how many may do something expensive at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of permits.
#[derive(Debug)]
pub(crate) struct Permits {
    taken: AtomicUsize,
    most: usize,
}

/// One permit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(&'static Permits);

impl Permits {
    /// With all permits free.
    pub(crate) const fn new(most: usize) -> Permits {
        Permits { taken: AtomicUsize::new(0), most }
    }

    /// Takes a free permit.
    pub(crate) fn take(&'static self) -> Option<Permit> {
        let more = |count| (count < self.most).then_some(count + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Permit(self))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_given_back() {
        static PERMITS: Permits = Permits::new(2);
        let first = PERMITS.take();
        let second = PERMITS.take();
        assert!(first.is_some() && second.is_some() && PERMITS.take().is_none());
        drop(first);
        assert!(PERMITS.take().is_some());
    }
}
