//! Numbers that look like chance, and what of the tables that they pick from was reached.

use std::collections::BTreeMap;

/// The seeds that a test goes through: as many as `TSUBAME_SEEDS` says, or `usual`.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("TSUBAME_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A source of numbers (xorshift).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn of(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// How often each entry was reached, by table and entry.
#[derive(Default)]
pub struct Reached(BTreeMap<(&'static str, &'static str), usize>);

impl Reached {
    pub fn count(&mut self, entry: (&'static str, &'static str)) {
        *self.0.entry(entry).or_default() += 1;
    }

    /// Fails unless each entry of each table was reached.
    pub fn check(&self, tables: &[(&'static str, &[&'static str])]) {
        let all = tables.iter().flat_map(|(table, entries)| entries.iter().map(|entry| (*table, *entry)));
        let missing: Vec<_> = all.filter(|entry| !self.0.contains_key(entry)).collect();
        assert!(missing.is_empty(), "never reached: {missing:#?}\nreached: {:#?}", self.0);
    }
}
