//! Requests and responses as httperf prints them, each line with the number of its request.

use serde::{Deserialize, Serialize};

use super::super::response::{Response, ResponseText};

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Printed {
    pub(crate) request: Parts,
    pub(crate) reply: Parts,
}

/// The parts of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parts {
    pub(crate) head: bool,
    pub(crate) body: bool,
}

impl Printed {
    /// Whether there is anything.
    pub(in crate::load) fn is_any(self) -> bool {
        self.request.is_any() || self.reply.is_any()
    }
}

impl Parts {
    fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// Prints a request.
pub(super) fn request(parts: Parts, number: u64, head: &str, body: &str) {
    if parts.is_any() {
        let text = rendered(parts, 'S', number, head, body);
        say!("{text}SS{number}: header {} content {}\n", head.len(), body.len());
    }
}

/// Prints a response.
pub(super) fn reply(parts: Parts, number: u64, kept: &ResponseText, response: &Response) {
    if parts.is_any() {
        let (head, body) = (String::from_utf8_lossy(&kept.head), String::from_utf8_lossy(&kept.body));
        let text = rendered(parts, 'R', number, &head, &body);
        let Response { head, body, framing, .. } = response;
        say!("{text}RS{number}: header {head} content {body} footer {framing}\n");
    }
}

/// Heads keep the carriage returns at the ends of their lines, as in httperf.
fn rendered(parts: Parts, kind: char, number: u64, head: &str, body: &str) -> String {
    let mut out = String::new();
    for (_, letter, text) in [(parts.head, 'H', head), (parts.body, 'B', body)].into_iter().filter(|part| part.0) {
        text.split_inclusive('\n').for_each(|line| out.push_str(&format!("{kind}{letter}{number}:{line}")));
        if !out.ends_with('\n') && !text.is_empty() {
            out.push('\n');
        }
    }
    out
}
