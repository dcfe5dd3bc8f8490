//! Whose turn it is: the smallest key of a fixed number of places, each of which may change its key at any time.

/// A binary heap of places that knows where each place is.
#[derive(Debug)]
pub(super) struct Turns {
    /// Keys with their places, in the order of a heap.
    heap: Vec<(Key, u32)>,
    /// Where each place is in the heap.
    at: Vec<u32>,
}

/// Smaller keys come first; the second number decides between equals.
pub(super) type Key = (u64, u64);

/// The key of a place that has no turn.
pub(super) const NEVER: Key = (u64::MAX, u64::MAX);

impl Turns {
    /// So many places without a turn.
    pub(super) fn new(places: usize) -> Self {
        Self { heap: (0..places as u32).map(|place| (NEVER, place)).collect(), at: (0..places as u32).collect() }
    }

    /// The key that comes first, and its place. There is at least one place.
    pub(super) fn first(&self) -> (Key, usize) {
        let (key, place) = self.heap[0];
        (key, place as usize)
    }

    /// The key of a place.
    pub(super) fn key(&self, place: usize) -> Key {
        self.heap[self.at[place] as usize].0
    }

    /// Gives a place another key.
    pub(super) fn set(&mut self, place: usize, key: Key) {
        let at = self.at[place] as usize;
        let before = std::mem::replace(&mut self.heap[at].0, key);
        if key < before {
            self.rise(at);
        } else if key > before {
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        let item = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].0 <= item.0 {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, item);
    }

    fn sink(&mut self, mut at: usize) {
        let item = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].0 < self.heap[child].0 {
                child += 1;
            }
            if item.0 <= self.heap[child].0 {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, item);
    }

    fn put(&mut self, at: usize, item: (Key, u32)) {
        self.heap[at] = item;
        self.at[item.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::random::Random;

    #[test]
    fn the_smallest_key_is_first_after_any_changes() {
        let mut random = Random::new(3);
        let mut turns = Turns::new(37);
        let mut keys = [NEVER; 37];
        for _ in 0..5_000 {
            let place = (random.unit() * 37.0) as usize;
            let key = if random.unit() < 0.1 { NEVER } else { ((random.unit() * 50.0) as u64, place as u64) };
            turns.set(place, key);
            keys[place] = key;
            let first = turns.first();
            assert_eq!(Some(&first.0), keys.iter().min());
            assert_eq!((turns.key(place), keys[first.1]), (key, first.0));
        }
    }
}
