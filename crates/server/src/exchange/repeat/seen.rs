//! Which hashes were met before: what nobody asks twice is not worth remembering.

/// Hashes that were met once.
pub(super) struct Seen {
    marks: Box<[u32]>,
    /// Whether the next mark stays in the second of its two places.
    is_second: bool,
}

impl Seen {
    /// With so many marks, a power of two.
    pub(super) fn new(marks: usize) -> Seen {
        Seen { marks: vec![0; marks].into(), is_second: false }
    }

    /// Whether this hash was met before.
    pub(super) fn has_met(&mut self, hash: u64) -> bool {
        let last = self.marks.len() - 1;
        let [first, second] = [(hash >> 16) as usize & last, (hash >> 40) as usize & last];
        let mark = (hash >> 32) as u32 | 1;
        let known = self.marks[first] == mark || self.marks[second] == mark;
        // Now in one place and now in the other, so that two hashes do not displace each other for ever.
        if !known {
            self.is_second = !self.is_second;
            self.marks[if self.is_second { second } else { first }] = mark;
        }
        known
    }
}
