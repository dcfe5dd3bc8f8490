//! The rules for admission: how much memory scripts may have, and how long and in what number requests may wait.

use std::time::Duration;

/// How much memory scripts may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allowance {
    /// The available memory, except for a reserve.
    #[default]
    Auto,
    /// Scripts may use this many bytes.
    Bytes(u64),
    /// This percentage of all memory.
    Percent(u8),
    /// Any amount: the gate is open, and only counts.
    Unlimited,
}

/// A request's configuration of the gate.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many runs of a script there may be at once.
    pub most: Option<u64>,
    /// How many requests may wait, over the whole server.
    pub queue: usize,
    /// How many may wait and run together once requests have to wait: those hold workers, and plain files need some
    /// too.
    pub total: usize,
    /// How long a request may wait.
    pub timeout: Duration,
}
