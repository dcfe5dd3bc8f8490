//! What happens to a request, noted for [`explain`](crate::explain).

use conf::Origin;

use crate::explain::trace::{Met, Step};
use crate::request::Request;

impl Request {
    /// Notes what a module does with this request, and the line that makes it do so, for who asks why; costs nothing where
    /// nobody does.
    #[inline]
    pub fn note_step(&mut self, module: &'static str, origin: Option<&Origin>, text: impl FnOnce(&Request) -> String) {
        if self.trace.is_some() {
            let text = text(self);
            let step = Step::Note(module, text, origin.cloned());
            self.trace.iter_mut().for_each(|trace| trace.note(step.clone()));
        }
    }

    /// Notes that what a look-up found is of no use, as [`note_step`](Request::note_step) does, and what the error log has
    /// of it.
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

    /// Notes that a part of the configuration was met, or passed over.
    #[inline]
    pub(crate) fn note_met(&mut self, met: impl FnOnce() -> Met) {
        if let Some(trace) = &mut self.trace {
            trace.layers.push(met());
        }
    }
}
