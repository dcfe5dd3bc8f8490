//! Records a request's steps for [`explain`](crate::explain).

use conf::Origin;

use crate::explain::trace::{Met, Step};
use crate::request::Request;

impl Request {
    /// Records a module's action on this request, and the line that causes it, for an explanation; costs nothing
    /// without one.
    #[inline]
    pub fn note_step(&mut self, module: &'static str, origin: Option<&Origin>, text: impl FnOnce(&Request) -> String) {
        if self.trace.is_some() {
            let text = text(self);
            let step = Step::Note(module, text, origin.cloned());
            self.trace.iter_mut().for_each(|trace| trace.note(step.clone()));
        }
    }

    /// Records that a look-up's result is unused, like [`note_step`](Request::note_step), and the look-up's error log
    /// messages.
    #[inline]
    pub fn note_unused(
        &mut self,
        module: &'static str,
        origin: Option<&Origin>,
        found: &mut Request,
        text: impl FnOnce(&Request) -> String,
    ) {
        if let (Some(own), Some(theirs)) = (&mut self.trace, found.trace.take()) {
            own.overhear(*theirs);
            self.note_step(module, origin, |_| text(found));
        }
    }

    /// Records that a part of the configuration applied, or was skipped.
    #[inline]
    pub(crate) fn note_met(&mut self, met: impl FnOnce() -> Met) {
        if let Some(trace) = &mut self.trace {
            trace.layers.push(met());
        }
    }
}
