//! Whether a run meets a target.

/// The judgement of a target that a run has measured.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) state: State,
    /// The figure and its comparison.
    pub(crate) measured: String,
}

/// Whether a target is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Met,
    Missed,
    /// The figures do not decide: their interval contains the limit, some are missing, or other programs disturbed them.
    Open,
}

impl State {
    /// The state if the figures decide.
    pub(super) fn decided(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }

    /// The state if the figures may leave it open.
    pub(super) fn of(is_met: Option<bool>) -> Self {
        is_met.map_or(Self::Open, Self::decided)
    }
}
