//! Records a request's steps for [`explain`](crate::explain).

use conf::Origin;

use crate::request::Request;
use crate::trace::{Met, Note, Reason, Step};

impl Request {
    /// Records a module's action on this request, and the line that causes it, for an explanation; costs nothing
    /// without one.
    #[inline]
    pub fn note_step(&mut self, module: &'static str, origin: Option<&Origin>, text: impl FnOnce(&Request) -> String) {
        if self.trace.is_some() {
            let text = text(self);
            self.note(Note { module, text, origin: origin.cloned(), counts: true });
        }
    }

    /// Notes a line that was looked at and changes nothing, such as a rule that does not match.
    #[inline]
    pub fn note_passed_over(
        &mut self,
        module: &'static str,
        origin: Option<&Origin>,
        text: impl FnOnce(&Request) -> String,
    ) {
        if self.trace.is_some() {
            let text = text(self);
            self.note(Note { module, text, origin: origin.cloned(), counts: false });
        }
    }

    fn note(&mut self, note: Note) {
        self.trace.iter_mut().for_each(|trace| trace.note(Step::Note(note.clone())));
    }

    /// Notes why the request ends with this status: a cause (the directive of the line, or a fact), and what follows from it.
    /// The last reason for a status is the one that people are told first.
    #[inline]
    pub fn note_reason(
        &self,
        status: u16,
        module: &str,
        origin: Option<&Origin>,
        text: impl FnOnce(&Request) -> (String, String),
    ) {
        if let Some(trace) = &self.trace {
            let (cause, effect) = text(self);
            let (module, origin) = (module.to_string(), origin.cloned());
            trace.note_later(Step::Reason(Reason { status, module, cause, origin, effect }));
        }
    }

    /// Records that a subrequest's result is unused, like [`note_step`](Request::note_step), and the subrequest's error log
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
