//! The rules of a directory or an `.htaccess` file, once the file was found.

use conf::Level;
use server::core::options::{SYM_LINKS, SYM_OWNER};
use server::{Flow, Request};

use super::names::{REDIRECT, REDIRECT_HANDLER, has_ended};
use super::pass::{Outcome, Pass};
use super::rules::Choices;
use super::settings::RewriteDir;
use super::trace::Trace;
use super::url::{scheme, with_prefix};

/// Whether a section has rules for this file.
pub(super) fn is_on(request: &Request) -> bool {
    let rules = &request.dir::<RewriteDir>().rules;
    let Some(directory) = rules.directory.as_deref().filter(|_| rules.is_on()) else { return false };
    // A directory without its slash does not count yet: mod_dir redirects the client.
    let file = &request.mapped.filename;
    rules.options().has(Choices::ALLOW_NO_SLASH) || directory.strip_suffix('/') != Some(file)
}

pub(super) async fn fixup(request: &mut Request) -> Flow {
    let trace = Trace::of(request);
    let slots = request.dir.slots.clone();
    let rules = &slots.get::<RewriteDir>().rules;
    if has_ended(request) {
        trace.log(request, 8, rules.directory.as_deref(), || "Declining, no further rewriting due to END flag".into());
        return Flow::Declined;
    }
    if request.options() & (SYM_LINKS | SYM_OWNER) == 0 {
        let text = format!(
            "AH00670: Options FollowSymLinks and SymLinksIfOwnerMatch are both off, so the RewriteRule directive is also \
             forbidden due to its similar ability to circumvent directory restrictions : {}",
            request.mapped.filename
        );
        request.log("rewrite", Level::Error, text);
        return Flow::Status(403);
    }
    let args = request.data.args.clone();
    let mut pass = Pass::new(request, trace, rules);
    match pass.apply(&rules.list).await {
        Err(flow) => flow,
        Ok(Outcome::Unchanged) => {
            pass.trace(1, |pass| format!("pass through {}", pass.request.mapped.filename));
            Flow::Declined
        }
        Ok(outcome) => pass.leave(outcome, args.as_deref(), rules.options()),
    }
}

impl Pass<'_> {
    /// Finishes the request. `args`: its query before the rules.
    fn leave(&mut self, outcome: Outcome, args: Option<&str>, options: Choices) -> Flow {
        // In a section, the only effect of the flag `PT` is that the result counts as a path even if it looks like a URL.
        let is_path = outcome == Outcome::PassThrough;
        let absolute = scheme(&self.request.mapped.filename).filter(|_| !is_path);
        let escape = outcome.escapes();
        if let Some(flow) = self.end_early(outcome, absolute.is_some(), "AH10411") {
            return flow;
        }
        if !is_path && self.request.mapped.backend_url().is_some() {
            return self.leave_for_backend(escape);
        }
        if let Some((length, _)) = absolute {
            self.replace_directory(length);
            return self.redirect_client(length, escape, args);
        }
        if !self.request.mapped.filename.starts_with('/') {
            return Flow::Status(400);
        }
        if self.mapped.as_ref().is_some_and(|(mapped, _)| *mapped == self.request.mapped.filename) {
            self.trace(1, |pass| {
                format!("initial URL equal rewritten URL: {} [IGNORING REWRITE]", pass.request.mapped.filename)
            });
            return Flow::Ok;
        }
        self.start_again(options)
    }

    fn leave_for_backend(&mut self, escape: bool) -> Flow {
        if let Some(flow) = self.refuse_backend("AH10160") {
            return flow;
        }
        // Other protocols separate the query from the path.
        const WITHOUT_QUERY: [&str; 3] = ["fcgi://", "scgi://", "uwsgi://"];
        let url = self.request.mapped.backend_url().unwrap_or_default();
        let behind_socket = url.strip_prefix("unix:").and_then(|rest| Some(rest.split_once('|')?.1));
        let has_query = !WITHOUT_QUERY.iter().any(|scheme| behind_socket.unwrap_or(url).starts_with(scheme));
        if let Some(args) = self.request.data.args.clone().filter(|_| has_query && !escape) {
            self.request.mapped.filename.extend(["?", &args]);
        }
        self.pass_on()
    }

    /// Replaces the directory of a redirect target by its URL, if `RewriteBase` is set.
    fn replace_directory(&mut self, scheme: usize) {
        let (Some(base), Some(directory)) = (self.base.clone(), self.directory.clone()) else { return };
        let url = &self.request.mapped.filename;
        let Some(start) = url[scheme..].find('/').map(|at| scheme + at + 1).filter(|start| *start < url.len()) else {
            return;
        };
        self.trace(2, |_| format!("trying to replace prefix {directory} with {base}"));
        let path = url[start..].to_string();
        if let Some(new) = self.prefixed(&path, directory.strip_prefix('/').unwrap_or(&directory), &base[1..]) {
            self.request.mapped.filename.replace_range(start.., &new);
        }
    }

    /// Starts the request again with another path.
    fn start_again(&mut self, options: Choices) -> Flow {
        let directory = self.directory.clone().unwrap_or_default();
        let path = self.request.mapped.filename.clone();
        let root = self.request.document_root();
        let replaced = match &self.base {
            Some(base) => {
                self.trace(2, |_| format!("trying to replace prefix {directory} with {base}"));
                self.prefixed(&path, &directory, base)
            }
            None => path.strip_prefix(root).filter(|rest| rest.starts_with('/')).map(|rest| {
                self.trace(2, |_| format!("strip document_root prefix: {path} -> {rest}"));
                rest.to_string()
            }),
        };
        let replaced = replaced.or_else(|| {
            // A directory mapped by an `Alias` or the like has a URL, too.
            if options.has(Choices::IGNORE_CONTEXT_INFO) {
                return None;
            }
            let (prefix, context) = self.request.mapped.context.clone().unwrap_or((String::new(), root.to_string()));
            self.trace(2, |_| format!("trying to replace context docroot {context} with context prefix {prefix}"));
            self.prefixed(&path, &context, &prefix)
        });
        let path = replaced.unwrap_or(path);
        self.trace(1, |_| format!("internal redirect with {path} [INTERNAL REDIRECT]"));
        let origin = self.last.as_ref().map(|rule| rule.origin.clone());
        self.request.note_step("rewrite", origin.as_ref(), |_| format!("the request starts again with {path}"));
        self.request.notes.set("redirect-keeps-vary", "");
        self.request.mapped.filename = format!("{REDIRECT}{path}");
        self.request.mapped.handler = Some(REDIRECT_HANDLER.into());
        Flow::Ok
    }

    fn prefixed(&self, path: &str, from: &str, to: &str) -> Option<String> {
        let new = with_prefix(path, from, to)?;
        self.trace_apart(5, |_| {
            let behind = &path[from.trim_end_matches('/').len() + 1..];
            format!("strip matching prefix: {path} -> {behind}")
        });
        self.trace_apart(4, |_| {
            let behind = &path[from.trim_end_matches('/').len() + 1..];
            format!("add subst prefix: {behind} -> {new}")
        });
        Some(new)
    }
}
