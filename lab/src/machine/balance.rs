//! How a balancer in front of several servers chooses one: HAProxy's algorithms.

/// How nodes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Balance {
    /// In turn, more often those of more weight
    Roundrobin,
    /// The node with the fewest requests for its weight
    Leastconn,
}

impl Balance {
    /// HAProxy's word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Roundrobin => "roundrobin",
            Self::Leastconn => "leastconn",
        }
    }
}
