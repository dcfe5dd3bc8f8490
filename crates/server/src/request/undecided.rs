//! Refuses requests that a line of the configuration should have decided and could not.

use std::fmt;
use std::sync::atomic::Ordering;

use conf::expr::EvalError;
use conf::{Level, Origin};

use crate::request::Request;
use crate::request::flow::Flow;

impl Request {
    /// Logs why the expression in the line at `origin` has no value.
    pub fn not_evaluated(&self, module: &str, why: &EvalError, origin: &Origin) {
        self.log(module, Level::Error, format!("Evaluation of expression from {origin} failed: {why}"));
    }

    /// Refuses a request that the line at `origin` should have decided: a regular expression in it ran out of its
    /// budget, or it needs a result that would have to wait, or a name that could not be found out. So the result is
    /// unknown, and the line might be the one that denies.
    pub fn undecided(&self, module: &str, why: &dyn fmt::Display, origin: &Origin) -> Flow {
        self.log(
            module,
            Level::Error,
            format!("{why}, so the line at {origin} cannot be evaluated; simplify its expression"),
        );
        self.fails_closed()
    }

    /// Refuses an undecidable request, for a logged reason. A subrequest of it then knows that there is no result, whereas
    /// any other status is one.
    pub fn fails_closed(&self) -> Flow {
        self.undecided.store(true, Ordering::Relaxed);
        Flow::Status(500)
    }

    /// Whether the result of this subrequest is unknown.
    pub fn is_undecided(&self) -> bool {
        self.response.status() == 500 && self.undecided.load(Ordering::Relaxed)
    }
}
