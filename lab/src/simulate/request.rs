//! A request on its way through the fleet.

/// Nanoseconds of simulated time.
pub(super) type Nanos = u64;

/// A second.
pub(super) const SECOND: Nanos = 1_000_000_000;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A script: it holds memory while it runs.
    Script,
    /// A static file.
    File,
}

/// A request: when it came, and what it will take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// When it reached the balancer.
    pub(super) born: Nanos,
    /// Time of a processor that has nothing else to do.
    pub(super) work: Nanos,
    /// For scripts: the time after that, in which they need memory, and no processor.
    pub(super) pause: Nanos,
    /// Whether a client asks who then asks again, and so on.
    pub(super) again: bool,
}
