//! The rules of a server or a virtual host, before a URL is mapped to a file.

use std::ffi::CString;

use conf::Level;
use runtime::{Load, offload};
use server::paths::c_path;
use server::{Flow, NOCANON, Request};

use super::flags::Flags;
use super::names::has_ended;
use super::pass::{Outcome, Pass};
use super::rules::Choices;
use super::settings::{RewriteDir, RewriteServer};
use super::trace::Trace;
use super::url::scheme;
use crate::mappers::mod_alias::file_path;

/// Whether there is anything to do: `<Location>` may enable it, too.
pub(super) fn is_on(request: &Request) -> bool {
    let rules = &request.host::<RewriteServer>().rules;
    // A virtual host without any of the directives inherits none of the main server's rules.
    request.dir::<RewriteDir>().rules.is_on() && (rules.of_host || request.vhost.origin.is_none())
}

pub(super) async fn translate(request: &mut Request) -> Flow {
    let trace = Trace::of(request);
    if has_ended(request) {
        trace.log(request, 8, None, || "Declining, no further rewriting due to END flag".into());
        return Flow::Declined;
    }
    let options = request.dir::<RewriteDir>().rules.options();
    if !options.has(Choices::ALLOW_ANY_URI) && !request.data.uri.starts_with('/') {
        let uri = &request.data.uri;
        trace.log(request, 8, None, || {
            format!(
                "Declining, request-URI '{uri}' is not a URL-path. Consult the manual entry for the RewriteOptions directive \
                 for options and caveats about matching other strings."
            )
        });
        return Flow::Declined;
    }
    set_script_url(request);
    let args = request.data.args.clone();
    request.mapped.filename = request.data.uri.clone();
    trace.log(request, 2, None, || format!("init rewrite engine with requested uri {}", request.mapped.filename));
    let vhost = request.vhost;
    let rules = &vhost.settings.get::<RewriteServer>().rules;
    let mut pass = Pass::new(request, trace, rules);
    match pass.apply(&rules.list).await {
        Err(flow) => flow,
        Ok(Outcome::Unchanged) => {
            pass.trace(1, |pass| format!("pass through {}", pass.request.mapped.filename));
            // Other requests begin without one.
            pass.request.mapped.filename.clear();
            Flow::Declined
        }
        Ok(outcome) => pass.finish(outcome, args.as_deref()).await,
    }
}

/// Sets `SCRIPT_URL` and `SCRIPT_URI`: the request before any rewriting.
fn set_script_url(request: &mut Request) {
    if !request.is_subrequest() {
        let url = request.env.get("REDIRECT_SCRIPT_URL").map_or_else(|| request.data.uri.clone(), str::to_string);
        request.env.set("SCRIPT_URL", url);
    }
    let uri = request.url(request.env.get("SCRIPT_URL").unwrap_or_default());
    request.env.set("SCRIPT_URI", uri);
}

impl Pass<'_> {
    /// Finishes the request. `args`: its query before the rules.
    async fn finish(&mut self, outcome: Outcome, args: Option<&str>) -> Flow {
        let absolute = scheme(&self.request.mapped.filename).filter(|_| outcome != Outcome::PassThrough);
        let escape = outcome.escapes();
        if let Some(flow) = self.end_early(outcome, absolute.is_some(), "AH10410") {
            return flow;
        }
        if outcome == Outcome::PassThrough {
            self.request.data.uri = std::mem::take(&mut self.request.mapped.filename);
            return Flow::Declined;
        }
        if self.request.mapped.backend_url().is_some() {
            return self.go_to_backend(escape);
        }
        if let Some((length, _)) = absolute {
            return self.redirect_client(length, escape, args);
        }
        self.go_to_file().await
    }

    fn go_to_backend(&mut self, escape: bool) -> Flow {
        if let Some(flow) = self.refuse_backend("AH00669") {
            return flow;
        }
        let info = std::mem::take(&mut self.request.mapped.path_info);
        self.request.mapped.filename.push_str(&info);
        if !escape {
            self.request.notes.set(NOCANON, "1");
            if let Some(args) = self.request.data.args.clone() {
                self.request.mapped.filename.extend(["?", &args]);
            }
        }
        self.pass_on()
    }

    /// Maps to a file: directly if the first part of the path exists, and otherwise below `DocumentRoot`.
    async fn go_to_file(&mut self) -> Flow {
        if let Some(path) = at_home(&self.request.mapped.filename).await {
            self.request.mapped.filename = path;
        }
        self.trace(2, |pass| format!("local path result: {}", pass.request.mapped.filename));
        if !self.request.mapped.filename.starts_with('/') {
            return Flow::Status(400);
        }
        let options = self.request.host::<RewriteServer>().rules.options();
        let from_root = self.reduced && !options.has(Choices::LEGACY_PREFIX_DOCROOT);
        if from_root || !self.names_a_file(options) {
            let Some(path) = below(self.request.document_root(), &self.request.mapped.filename) else {
                let line = self.request.request_line();
                let text = format!("(20023)The given path was above the root path: AH00127: Cannot map {line} to file");
                self.request.log("core", Level::Error, text);
                return Flow::Status(403);
            };
            self.request.mapped.filename = path;
            self.trace(2, |pass| format!("prefixed with document_root to {}", pass.request.mapped.filename));
        } else {
            self.request.mapped.filename = file_path("/", &self.request.mapped.filename);
        }
        self.trace(1, |pass| format!("go-ahead with {} [OK]", pass.request.mapped.filename));
        let origin = self.last.as_ref().map(|rule| rule.origin.clone());
        self.request
            .note_step("rewrite", origin.as_ref(), |request| format!("the file is {}", request.mapped.filename));
        Flow::Ok
    }

    /// Whether the path is that of a file: its first part exists, and comes from the configuration.
    fn names_a_file(&self, options: Choices) -> bool {
        let path = &self.request.mapped.filename;
        let end = path[1..].find('/').map_or(path.len(), |at| at + 1);
        let first = &path[..end];
        if matches!(first, "/.." | "/") && first != path || !there(c_path(first)) {
            return false;
        }
        let Some(rule) = &self.last else {
            self.trace(3, |_| format!("prefix_stat no lastsub subst prefix {first}"));
            return true;
        };
        let is_unsafe = options.has(Choices::UNSAFE_PREFIX_STAT) || rule.given.flags.any(Flags::UNSAFE_PREFIX);
        self.trace(3, |_| {
            let shown = u32::from(is_unsafe);
            format!("prefix_stat compare statpath {first} and lastsub output {} STATOK {shown} ", rule.output)
        });
        is_unsafe || self.starts_with(&rule.output, first) || self.starts_with(path, self.request.document_root())
    }

    fn starts_with(&self, text: &str, start: &str) -> bool {
        let does = text.starts_with(start);
        self.trace(5, |_| format!("prefix_stat startsWith({text}, {start}) {}", u32::from(does)));
        does
    }
}

fn there(path: Option<CString>) -> bool {
    path.is_some_and(|path| sys::file::stat(&path).is_ok())
}

/// `/~user/x`: the path below that user's home directory, if there is one.
async fn at_home(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/~")?;
    let (user, behind) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if user.is_empty() || user.starts_with('#') {
        return None;
    }
    let name = user.to_string();
    let user = offload(Load::Wait, move || sys::cred::user(&name)).await.ok().flatten()?;
    Some(if behind.is_empty() { user.home } else { format!("{}{behind}", user.home.trim_end_matches('/')) })
}

/// A path below a directory, without `.` and `..`; `None`: it leads above.
fn below(directory: &str, path: &str) -> Option<String> {
    let mut depth = 0_i32;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        depth += match part {
            "." => 0,
            ".." => -1,
            _ => 1,
        };
        if depth < 0 {
            return None;
        }
    }
    Some(format!("{directory}{}", file_path("/", path)))
}
