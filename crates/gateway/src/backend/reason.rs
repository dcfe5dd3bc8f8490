//! The reasons why backends end.

/// Why a backend ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Was idle for too long.
    Idle,
    /// The backend has lived as long as it may.
    Lifetime,
    /// Has served as many requests as it may.
    Requests,
    /// Its program's file has changed.
    Changed,
    /// A request took too long.
    Timeout,
    /// Uses too much memory.
    Memory,
    /// There may be no more backends, and others need its place.
    Room,
    /// Others need the memory.
    Pressure,
    /// A request it served was given up, or it did not answer properly.
    Broken,
    /// Announced its own end.
    Own,
    /// Ended by itself, or was ended from outside.
    Died,
}

impl Reason {
    /// All reasons, with their names on pages.
    pub const ALL: [(Reason, &'static str); 11] = [
        (Reason::Idle, "idle"),
        (Reason::Lifetime, "lifetime"),
        (Reason::Requests, "requests"),
        (Reason::Changed, "changed"),
        (Reason::Timeout, "timeout"),
        (Reason::Memory, "memory"),
        (Reason::Room, "room"),
        (Reason::Pressure, "pressure"),
        (Reason::Broken, "broken"),
        (Reason::Own, "own"),
        (Reason::Died, "died"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Reason::ALL[self as usize].1
    }
}
