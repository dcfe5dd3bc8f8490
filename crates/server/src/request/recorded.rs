//! Begins the child spans of a request whose trace is recorded.

use crate::message::response::HandlerResult;
use crate::request::Request;
use crate::request::child_span::{ChildSpan, Running, Work};

impl Request {
    /// Begins a child span, which is the parent of what the request's work does elsewhere. `None`: the request is not
    /// recorded.
    pub fn begin_child(&mut self, work: impl FnOnce(&Request) -> Work) -> Option<Running> {
        let recorded = self.account.recorded.clone()?;
        let running = ChildSpan::begin(&recorded, (self.account.time, self.account.start), work(self))?;
        // The configuration may have removed the field, or put another one in its place.
        let is_ours = |text: &str| text.starts_with("00-") && text[3..].starts_with(&recorded.trace);
        let field = recorded.field(&running.id);
        if self.header("traceparent").is_some_and(|text| is_ours(&text)) {
            self.headers_mut().set("traceparent", field.clone());
        }
        if self.env.get("HTTP_TRACEPARENT").is_some_and(is_ours) {
            self.env.set("HTTP_TRACEPARENT", field);
        }
        Some(running)
    }

    /// The same for a script that answers the request.
    pub fn begin_script(&mut self) -> Option<Running> {
        self.begin_child(|request| Work::Program {
            file: request.mapped.filename.clone(),
            handler: request.handler_name().map(str::to_string),
        })
    }

    /// Records what the work of a child span has led to.
    pub fn child_led_to(&self, child: Option<&ChildSpan>, result: &HandlerResult) {
        let Some(child) = child else { return };
        child.has_led_to(match result {
            HandlerResult::Status(status) => *status,
            _ => self.response.status(),
        });
    }
}
