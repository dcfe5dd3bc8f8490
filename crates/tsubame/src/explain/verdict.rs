//! Writes the verdict of an explanation: what the client gets, and why, in a line or two.

use conf::Origin;
use server::explain::{Explanation, Reason};

/// The lines of the verdict, the most important one first.
pub(super) fn lines(explanation: &Explanation) -> Vec<String> {
    let request = &explanation.request;
    let verdict = &explanation.verdict;
    let root = &request.server.language.server_root;
    let location = request.response.headers_out.get("Location").filter(|_| matches!(verdict.status, Some(300..400)));
    let status = match (verdict.status, location) {
        (None, _) => String::new(),
        (Some(status), None) => format!("{status}: "),
        (Some(status), Some(location)) => format!("{status} to {location}: "),
    };
    let mut lines = vec![format!("{status}{}", sentence(&verdict.reason, root))];
    lines.extend(
        verdict.instead_of.as_ref().map(|error| format!("instead of {}: {}", error.status, sentence(error, root))),
    );
    lines.extend(verdict.page.as_ref().map(|page| format!("with the page {page}")));
    lines
}

fn sentence(Reason { cause, origin, effect, .. }: &Reason, root: &str) -> String {
    let place = origin.as_ref().map_or_else(String::new, |origin| format!(" ({})", place(origin, root)));
    let effect = if effect.is_empty() { String::new() } else { format!(" {effect}") };
    format!("{cause}{place}{effect}")
}

/// The place of a line; a path below `ServerRoot` is shortened.
pub(super) fn place(origin: &Origin, root: &str) -> String {
    let text = origin.to_string();
    let short = text.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    short.map_or(text.clone(), str::to_string)
}
