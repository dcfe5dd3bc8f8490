//! How a pass can end, whether its rules are a server's or a section's.

use conf::Level;
use server::Flow;

use super::pass::{Outcome, Pass};
use super::url::escape_absolute;

impl Pass<'_> {
    /// Ends the request if the query is bad or the rules chose a status. `has_scheme`: the path is a URL. `number`: that
    /// of the message about the query.
    pub(super) fn end_early(&mut self, outcome: Outcome, has_scheme: bool, number: &str) -> Option<Flow> {
        let will_be_escaped = has_scheme && outcome.escapes();
        if !will_be_escaped && self.request.data.args.as_deref().is_some_and(|args| !is_clean_query(args)) {
            let text = format!("{number}: Rewritten query string contains control characters or spaces");
            self.request.log("rewrite", Level::Error, text);
            return Some(Flow::Status(403));
        }
        match outcome {
            Outcome::Status(status) => Some(self.end_with(status)),
            _ => None,
        }
    }

    /// Refuses to pass the request on if no loaded module could. `number`: that of the message.
    pub(super) fn refuse_backend(&self, number: &str) -> Option<Flow> {
        if self.request.server.language.has_module("proxy_module") {
            return None;
        }
        let text = format!(
            "{number}: attempt to make remote request from mod_rewrite without proxy enabled: {}",
            self.request.mapped.filename
        );
        self.request.log("rewrite", Level::Error, text);
        Some(Flow::Status(403))
    }

    /// Lets mod_proxy pass the request on to the backend that the path names.
    pub(super) fn pass_on(&mut self) -> Flow {
        self.request.mapped.handler = Some("proxy-server".into());
        self.trace(1, |pass| format!("go-ahead with proxy request {} [OK]", pass.request.mapped.filename));
        Flow::Ok
    }

    /// Redirects the client to the new path, a URL with a scheme of that length.
    pub(super) fn redirect_client(&mut self, scheme: usize, escape: bool, args_before: Option<&str>) -> Flow {
        let mut url = std::mem::take(&mut self.request.mapped.filename);
        if escape {
            self.trace(1, |_| format!("escaping {url} for redirect"));
            url = escape_absolute(&url, scheme);
        }
        if let Some(args) = self.request.data.args.clone() {
            let as_is = !escape || args_before == Some(&args);
            let escaped = if as_is { args.clone() } else { http::uri::escape_path(&args).into_owned() };
            url.extend(["?", &escaped]);
            self.trace(1, |_| match as_is {
                true => format!("copying {args} to query string for redirect "),
                false => format!("escaping {args} to query string for redirect {escaped}"),
            });
        }
        let status = if (300..400).contains(&self.status) { self.status } else { 302 };
        self.trace(1, |_| format!("redirect to {url} [REDIRECT/{status}]"));
        self.request.mapped.filename.clone_from(&url);
        self.request.response.headers_out.set("Location", url);
        self.end_with(status)
    }

    /// Ends the request. The client gets this status even in an error document, unless that is for another error.
    fn end_with(&mut self, status: u16) -> Flow {
        self.request.response.set_status(200);
        if let Some((pattern, origin)) = &self.noted {
            let cause = format!("RewriteRule {pattern}");
            self.request.note_reason(status, "rewrite", Some(origin), |_| (cause, String::new()));
        }
        Flow::Status(status)
    }
}

/// A query made by the rules may contain nothing that a request line could not.
fn is_clean_query(query: &str) -> bool {
    query.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}
