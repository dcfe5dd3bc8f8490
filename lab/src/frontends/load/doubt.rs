//! Reasons why the figures of a load may not be those of the server.

use std::fmt;

use crate::load::{Plan, Record};
use crate::machine::interrupt;
use crate::screen::text::counted;

/// One reason.
pub(crate) enum Doubt {
    /// The user ended the load early.
    Interrupted,
    /// A thread of the generator had nothing in reserve: the share of its time.
    Busy(f64),
    /// The generator sent one of a hundred requests so many milliseconds too late.
    Late(f64),
    /// The first failure.
    Complaint(String),
    /// So many connections closed before the server had answered everything.
    Reopened(u64),
    /// Of so many clients, so many waited for more than half of the time.
    Starved(u64, usize),
    Failed(u64),
    /// So many responses have the wrong status or body.
    Wrong(u64),
}

impl Doubt {
    /// The reason in a few words; `None` for bad results, which a verdict counts anyway.
    pub(super) fn brief(&self) -> Option<String> {
        match self {
            Self::Interrupted => Some("the load was interrupted".to_owned()),
            Self::Busy(share) => {
                Some(format!("the generator was busy {:.0} % of the time (try more --threads)", share * 100.0))
            }
            Self::Late(late) => Some(format!("the generator sent one of a hundred requests {late:.1} ms too late")),
            Self::Reopened(count) => Some(format!("{} closed too early", counted(*count, "connection"))),
            Self::Starved(count, of) => Some(format!("{count} of {of} clients waited in vain")),
            Self::Complaint(_) | Self::Failed(_) | Self::Wrong(_) => None,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("it was interrupted: requests that were under way do not count"),
            Self::Busy(share) => write!(
                f,
                "a thread of the generator was busy {:.0} % of the time: the server may be faster than this (try more --threads)",
                share * 100.0
            ),
            Self::Late(late) => {
                write!(f, "one of a hundred requests was sent {late:.1} ms too late, through the generator's fault")
            }
            Self::Complaint(complaint) => write!(f, "the first failure: {complaint}"),
            Self::Reopened(count) => write!(
                f,
                "{} closed before the server had answered everything, and repeated over another one: the time that this took counts",
                counted(*count, "connection")
            ),
            Self::Starved(count, of) => write!(
                f,
                "{count} of {of} clients waited for their responses for more than half of the time: the others were served in their stead"
            ),
            Self::Failed(count) => write!(f, "{} failed", counted(*count, "request")),
            Self::Wrong(count) => write!(f, "{count} responses have the wrong status or body"),
        }
    }
}

/// All reasons against a load.
pub(crate) fn doubts(plan: &Plan, record: &Record) -> Vec<Doubt> {
    let late = record.lag.milliseconds(0.99);
    let wrong = record.responses - record.good;
    let all = [
        interrupt::is_asked().then_some(Doubt::Interrupted),
        (record.busy > BUSY_MAX && !plan.spin).then_some(Doubt::Busy(record.busy)),
        (late > LATE_MAX_MS).then_some(Doubt::Late(late)),
        record.complaint.clone().map(Doubt::Complaint),
        (record.reopened * REOPENED_SHARE > record.responses).then_some(Doubt::Reopened(record.reopened)),
        (record.starved > 0).then_some(Doubt::Starved(record.starved, plan.clients)),
        (record.failures.total() > 0).then(|| Doubt::Failed(record.failures.total())),
        (wrong > 0).then_some(Doubt::Wrong(wrong)),
    ];
    all.into_iter().flatten().collect()
}

/// One connection that closes too early in so many responses is normal: it was idle, and nothing is wrong.
const REOPENED_SHARE: u64 = 1000;
/// Above this share of its time a thread has nothing in reserve.
const BUSY_MAX: f64 = 0.95;
/// A generator that is late by more than this was disturbed.
pub(super) const LATE_MAX_MS: f64 = 0.5;
