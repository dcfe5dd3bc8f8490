//! A pass over the rules of a server or a section.

use std::sync::Arc;

use conf::pattern::{Candidates, Captures, PatternSet, TooLong};
use conf::{Level, Origin};
use server::core::CoreServer;
use server::fields::add_vary;
use server::{Flow, Request, TO_BACKEND};
use sys::file::Meta;

use super::cookie;
use super::flags::Flags;
use super::names::{END, END_OF_LOOK_UP, FORCED_HANDLER, FORCED_TYPE};
use super::rule::Rule;
use super::rules::{List, Rules};
use super::template::Template;
use super::trace::Trace;
use super::url::{qualified, reduced, scheme};

/// What the rules of a server or a section have made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No rule has changed anything.
    Unchanged,
    /// The path has changed.
    Changed {
        /// Whether to escape it in a redirect.
        escape: bool,
    },
    /// Other modules map the path, which may have changed (`PT`).
    PassThrough,
    /// The request ends with this status.
    Status(u16),
}

impl Outcome {
    /// Whether to escape the path in a redirect.
    pub(super) fn escapes(self) -> bool {
        self != Outcome::Changed { escape: false }
    }
}

/// The effect of one rule.
enum Done {
    AsIs,
    Substituted,
    Status(u16),
}

/// What follows a rule that was executed.
enum After {
    /// The next rule, after skipping this many (`S`).
    Skip(usize),
    /// The first rule again (`N`).
    Restart,
    /// No other rule: the pass ends.
    Stop,
    /// The pass ends, and other modules map the path (`PT`).
    PassThrough,
}

/// A text, and the positions of a pattern's groups in it.
#[derive(Default)]
pub(super) struct Groups {
    subject: String,
    captures: Captures,
}

impl Groups {
    pub(super) fn get(&self, group: usize) -> &str {
        self.captures.get(group, &self.subject).unwrap_or_default()
    }

    pub(super) fn set(&mut self, subject: &str, captures: &Captures) {
        self.clear();
        self.subject.push_str(subject);
        self.captures.clone_from(captures);
    }

    fn clear(&mut self) {
        self.subject.clear();
        self.captures.clear();
    }
}

/// A pass. As in Apache, the rules change the file name of the request.
pub(super) struct Pass<'r> {
    pub(super) request: &'r mut Request,
    pub(super) trace: Trace,
    /// The directory of a section's rules, and its URL if `RewriteBase` is set.
    pub(super) directory: Option<Arc<str>>,
    pub(super) base: Option<Arc<str>>,
    /// The text that patterns are matched against.
    pub(super) path: String,
    pub(super) of_rule: Groups,
    pub(super) of_condition: Groups,
    /// The fields used by conditions of this rule, and those of the current condition.
    vary: Vec<String>,
    pub(super) vary_now: Vec<String>,
    /// The file mapped before the pass, and whether it exists.
    pub(super) mapped: Option<(String, Option<Meta>)>,
    /// The last rule with a substitution.
    pub(super) last: Option<Arc<Rule>>,
    /// The pattern and the line of the last rule that did anything, for an explanation.
    pub(super) noted: Option<(String, Origin)>,
    /// The status for a redirect of the client.
    pub(super) status: u16,
    /// Whether a URL of this server was reduced to a path.
    pub(super) reduced: bool,
}

impl<'r> Pass<'r> {
    pub(super) fn new(request: &'r mut Request, trace: Trace, rules: &Rules) -> Pass<'r> {
        let mapped = rules.directory.as_ref().map(|_| (request.mapped.filename.clone(), request.mapped.stat));
        Pass {
            request,
            trace,
            directory: rules.directory.clone(),
            base: rules.base.get().cloned(),
            path: String::new(),
            of_rule: Groups::default(),
            of_condition: Groups::default(),
            vary: Vec::new(),
            vary_now: Vec::new(),
            mapped,
            last: None,
            noted: None,
            status: 0,
            reduced: false,
        }
    }

    /// Logs a line about the rules.
    pub(super) fn trace(&self, level: usize, text: impl FnOnce(&Self) -> String) {
        if self.trace.wants(level) {
            self.trace.log(self.request, level, self.directory.as_deref(), || text(self));
        }
    }

    /// Logs a line that Apache writes without the directory.
    pub(super) fn trace_apart(&self, level: usize, text: impl FnOnce(&Self) -> String) {
        if self.trace.wants(level) {
            self.trace.log(self.request, level, None, || text(self));
        }
    }

    /// Applies the rules in order. `Err`: that cannot be decided.
    pub(super) async fn apply(&mut self, rules: &List) -> Result<Outcome, Flow> {
        let is_subrequest = self.request.is_subrequest();
        let explains = self.request.is_hypothetical();
        // If each comparison is logged, each has to happen.
        let many = if explains || self.trace.wants(3) { None } else { rules.many() };
        let mut candidates = Candidates::default();
        let mut outcome = Outcome::Unchanged;
        let mut captures = Captures::default();
        let (mut at, mut round) = (0, 1);
        self.find_subject(many, &mut candidates);
        loop {
            if many.is_some() {
                at = candidates.next(at).unwrap_or(rules.len());
            }
            let Some((rule, origin)) = rules.get(at) else { break };
            at += 1;
            if is_subrequest && rule.given.flags.any(Flags::NO_SUBREQUEST.or(Flags::REDIRECT)) {
                continue;
            }
            if self.trace.wants(3) {
                self.compared(rule);
            }
            let matched = rule
                .matches(&self.path, &mut captures)
                .map_err(|why| self.request.undecided("rewrite", &why, origin))?;
            if explains && !matched {
                self.note(rule, origin, false, "does not match");
            }
            let done = if matched { self.follow(rule, origin, &captures).await? } else { None };
            let Some(done) = done else {
                // Rules chained to one that does not hold are skipped with it.
                at = rules.after_chain(rule, at);
                continue;
            };
            if !rule.given.flags.any(Flags::AS_IS) {
                self.trace(2, |_| format!("setting lastsub to rule with output {}", rule.output));
                self.last = Some(rule.clone());
            }
            if self.is_too_long(rule) {
                return Ok(Outcome::Status(500));
            }
            for field in std::mem::take(&mut self.vary) {
                add_vary(&mut self.request.response.headers_out, &field);
            }
            match done {
                Done::Status(status) => return Ok(Outcome::Status(status)),
                Done::Substituted => {
                    outcome = Outcome::Changed { escape: !rule.given.flags.any(Flags::NO_ESCAPE) };
                    self.find_subject(many, &mut candidates);
                }
                Done::AsIs => {}
            }
            match self.after(rule) {
                After::Skip(count) => at += count,
                After::Restart => {
                    round += 1;
                    if self.has_too_many_rounds(rule, round) {
                        return Ok(Outcome::Status(500));
                    }
                    at = 0;
                    // Rules that loop let others have their turn.
                    runtime::executor::yield_now().await;
                }
                After::Stop => break,
                After::PassThrough => return Ok(Outcome::PassThrough),
            }
        }
        Ok(outcome)
    }

    /// Whether a rule has made the path longer than any request line may be; that is logged.
    fn is_too_long(&self, rule: &Rule) -> bool {
        let limit = 2 * self.request.host::<CoreServer>().limit_request_line();
        let is_too_long = self.request.mapped.filename.len() > limit;
        if is_too_long {
            let (pattern, uri) = (&rule.pattern, &self.request.data.uri);
            let text = format!("RewriteRule '{pattern}' and URI '{uri}' exceeded maximum length ({limit})");
            self.request.log("rewrite", Level::Error, text);
        }
        is_too_long
    }

    /// Whether `N` has restarted the rules too often; that is logged.
    fn has_too_many_rounds(&self, rule: &Rule, round: i32) -> bool {
        let has_too_many = round >= rule.given.rounds;
        if has_too_many {
            let text = format!(
                "AH02596: RewriteRule '{}' and URI '{}' exceeded maximum number of rounds ({}) via the [N] flag",
                rule.pattern, self.request.data.uri, rule.given.rounds
            );
            self.request.log("rewrite", Level::Error, text);
        }
        has_too_many
    }

    /// What the flags of an executed rule say about the rest of the pass.
    fn after(&mut self, rule: &Rule) -> After {
        let flags = rule.given.flags;
        if flags.any(Flags::PASS_THROUGH) {
            self.trace(2, |pass| {
                let path = &pass.request.mapped.filename;
                format!("forcing '{path}' to get passed through to next API URI-to-filename handler")
            });
            return After::PassThrough;
        }
        if flags.any(Flags::END) {
            self.trace(8, |_| "Rule has END flag, no further rewriting for this request".into());
            let note = if self.request.is_subrequest() { END_OF_LOOK_UP } else { END };
            self.request.notes.set(note, "");
            return After::Stop;
        }
        match () {
            () if flags.any(Flags::PROXY.or(Flags::LAST)) => After::Stop,
            () if flags.any(Flags::NEXT) => After::Restart,
            () => After::Skip(rule.given.skip),
        }
    }

    /// Determines the text that patterns are matched against: the current path, without its directory in a section; and
    /// which of `many` may match it.
    fn find_subject(&mut self, many: Option<&PatternSet>, candidates: &mut Candidates) {
        self.path.clear();
        let mapped = &self.request.mapped;
        let whole = mapped.filename.len() + mapped.path_info.len();
        match self.directory.as_deref() {
            Some(directory) if mapped.backend_url().is_none() => {
                self.path.reserve(whole);
                self.path.push_str(&mapped.filename);
                self.path.push_str(&mapped.path_info);
                if self.path.starts_with(directory) {
                    self.path.drain(..directory.len());
                }
            }
            Some(_) => self.path.extend([&*mapped.filename, &*mapped.path_info]),
            None => self.path.push_str(&mapped.filename),
        }
        if let Some(many) = many {
            many.look(&self.path, candidates);
        }
    }

    /// Logs the text that a pattern is matched against, and its origin.
    fn compared(&self, rule: &Rule) {
        let mapped = &self.request.mapped;
        if let Some(directory) = &self.directory {
            let (file, info) = (&mapped.filename, &mapped.path_info);
            if !info.is_empty() {
                self.trace(3, |_| format!("add path info postfix: {file} -> {file}{info}"));
            }
            if mapped.backend_url().is_none() && format!("{file}{info}").starts_with(&**directory) {
                self.trace(3, |pass| format!("strip per-dir prefix: {file}{info} -> {}", pass.path));
            }
        }
        self.trace(3, |pass| format!("applying pattern '{}' to uri '{}'", rule.pattern, pass.path));
    }

    /// Records a rule's effect on the path, for an explanation. `counts`: it has one.
    fn note(&mut self, rule: &Rule, origin: &Origin, counts: bool, what: &str) {
        let not = if rule.given.flags.any(Flags::NEGATED) { "!" } else { "" };
        let text = format!("RewriteRule {not}{}: '{}' {what}", rule.pattern, self.path);
        if counts {
            self.noted = Some((format!("{not}{}", rule.pattern), origin.clone()));
        }
        match counts {
            true => self.request.note_step("rewrite", Some(origin), |_| text),
            false => self.request.note_passed_over("rewrite", Some(origin), |_| text),
        }
    }

    /// Applies a rule whose pattern matches the path: checks its conditions, and executes it. `None`: they do not hold.
    async fn follow(&mut self, rule: &Arc<Rule>, origin: &Origin, captures: &Captures) -> Result<Option<Done>, Flow> {
        self.of_condition.clear();
        if rule.has_references && !rule.given.flags.any(Flags::NEGATED) {
            self.of_rule.set(&self.path, captures);
        } else {
            self.of_rule.clear();
        }
        self.vary.clear();
        self.vary_now.clear();
        if !self.conditions(rule).await? {
            if self.request.is_hypothetical() {
                self.note(rule, origin, false, "matches, but a condition does not hold");
            }
            return Ok(None);
        }
        let output = match rule.given.flags.any(Flags::AS_IS) {
            true => None,
            false => {
                let new = self.expand(&rule.substitution, Some(rule), origin).await?;
                self.trace(2, |pass| format!("rewrite '{}' -> '{}'", pass.path, new.text));
                if self.request.is_hypothetical() {
                    self.note(rule, origin, true, &format!("becomes '{}'", new.text));
                }
                if new.unsafe_question && !rule.given.flags.any(Flags::UNSAFE_QUESTION) {
                    let text = "AH10508: Unsafe URL with %3f URL rewritten without UnsafeAllow3F";
                    self.request.log("rewrite", Level::Error, text);
                    return Ok(Some(Done::Status(403)));
                }
                Some(new.text)
            }
        };
        for template in &rule.given.env {
            let text = self.kept(template, origin).await?;
            self.set_variable(&text);
        }
        for template in &rule.given.cookies {
            let text = self.kept(template, origin).await?;
            cookie::add(self, &text);
        }
        let Some(output) = output else {
            return self.keep_as_is(rule, origin).await.map(Some);
        };
        self.substitute(rule, output).map_err(|why| self.request.undecided("rewrite", &why, origin))?;
        if self.goes_elsewhere(rule) {
            return Ok(Some(Done::Substituted));
        }
        // A path begins with two slashes only if the rule itself says so.
        if !rule.output.starts_with("//") {
            let path = &mut self.request.mapped.filename;
            let slashes = path.len() - path.trim_start_matches('/').len();
            path.drain(..slashes.saturating_sub(1));
        }
        self.force(rule, origin).await?;
        Ok(Some(Done::Substituted))
    }

    /// Finishes a rule without a substitution.
    async fn keep_as_is(&mut self, rule: &Arc<Rule>, origin: &Origin) -> Result<Done, Flow> {
        if self.request.is_hypothetical() {
            self.note(rule, origin, true, "matches, and stays as it is");
        }
        self.force(rule, origin).await?;
        if !rule.given.flags.any(Flags::STATUS) {
            return Ok(Done::AsIs);
        }
        let status = rule.given.status;
        self.trace(2, |pass| format!("forcing responsecode {status} for {}", pass.request.mapped.filename));
        Ok(Done::Status(status))
    }

    /// A text that the request keeps.
    async fn kept(&mut self, template: &Template, origin: &Origin) -> Result<String, Flow> {
        let text = self.expand(template, None, origin).await?.text;
        self.request.bounded(text).map_err(|why| self.request.undecided("rewrite", &why, origin))
    }

    /// `E=name:value`, `E=!name`
    fn set_variable(&mut self, text: &str) {
        if let Some(name) = text.strip_prefix('!') {
            self.request.env.remove(name);
            self.trace_apart(5, |_| format!("unsetting env variable '{name}'"));
        } else {
            let (name, value) = text.split_once(':').unwrap_or((text, ""));
            self.request.env.set(name.to_string(), value);
            self.trace_apart(5, |_| format!("setting env variable '{name}' to '{value}'"));
        }
    }

    /// The result of a substitution becomes the path, and its query the query. `Err`: the query is too long.
    fn substitute(&mut self, rule: &Rule, mut output: String) -> Result<(), TooLong> {
        let is_proxied = self.directory.is_some() && self.request.mapped.backend_url().is_some();
        if !is_proxied && !output.starts_with('/') && scheme(&output).is_none() {
            match self.directory.clone() {
                Some(directory) => {
                    self.trace(3, |_| format!("add per-dir prefix: {output} -> {directory}{output}"));
                    output.insert_str(0, &directory);
                }
                None if !rule.given.flags.any(Flags::PROXY.or(Flags::REDIRECT)) => {
                    self.trace(3, |_| format!("add root prefix: {output} -> /{output}"));
                    output.insert(0, '/');
                }
                None => {}
            }
        }
        if self.directory.is_some() && rule.given.flags.any(Flags::DISCARD_PATH_INFO) {
            self.request.mapped.path_info.clear();
        }
        self.request.mapped.filename = output;
        self.split_query(rule.given.flags)
    }

    /// Moves the part after a question mark into the query.
    fn split_query(&mut self, flags: Flags) -> Result<(), TooLong> {
        if flags.any(Flags::QUERY_NONE) {
            self.trace_apart(2, |_| "discarding query string, no parse from substitution".into());
            self.request.data.args = None;
            return Ok(());
        }
        // Not every URL has one.
        if let Some((_, false)) = scheme(&self.request.mapped.filename) {
            self.request.data.args = None;
            return Ok(());
        }
        if flags.any(Flags::QUERY_DISCARD) {
            self.request.data.args = None;
            self.trace_apart(2, |_| "discarding query string".into());
        }
        let name = &self.request.mapped.filename;
        let at = if flags.any(Flags::QUERY_LAST) { name.rfind('?') } else { name.find('?') };
        let Some(at) = at else { return Ok(()) };
        let before = name.clone();
        let query = self.request.mapped.filename.split_off(at)[1..].to_string();
        let args = match self.request.data.args.take() {
            old if flags.any(Flags::QUERY_APPEND) && query.is_empty() => old,
            old if flags.any(Flags::QUERY_APPEND) => {
                Some(self.request.bounded(format!("{query}&{}", old.unwrap_or_default()))?)
            }
            _ => Some(query),
        };
        // A query of only this character stays there as an empty one.
        let kept = args.filter(|args| !args.is_empty());
        self.request.data.args = kept.map(|args| args.strip_suffix('&').map(str::to_string).unwrap_or(args));
        self.trace_apart(3, |pass| {
            let request = &pass.request;
            let args = request.data.args.as_deref().unwrap_or("<none>");
            format!("split uri={before} -> uri={}, args={args}", request.mapped.filename)
        });
        Ok(())
    }

    /// Whether the path has become a URL: of a backend, of a redirect, or of another server.
    fn goes_elsewhere(&mut self, rule: &Rule) -> bool {
        if rule.given.flags.any(Flags::PROXY) {
            if self.directory.is_some() && !rule.given.flags.any(Flags::NO_ESCAPE) {
                let path = &self.request.mapped.filename;
                let escaped = match path.split_once('|') {
                    // The name of a socket, and the URL that goes to it.
                    Some((socket, url)) if socket.starts_with("unix:") => {
                        format!("{}|{}", http::uri::escape_path(socket), http::uri::escape_path(url))
                    }
                    _ => http::uri::escape_path(path).into_owned(),
                };
                self.trace(2, |pass| {
                    let path = &pass.request.mapped.filename;
                    format!("escaped URI in per-dir context for proxy, {path} -> {escaped}")
                });
                self.request.mapped.filename = escaped;
            }
            let url = qualified(self.request, &self.request.mapped.filename);
            self.trace(2, |_| format!("forcing proxy-throughput with {url}"));
            self.request.mapped.filename = format!("{TO_BACKEND}{url}");
            return true;
        }
        if rule.given.flags.any(Flags::REDIRECT) {
            let url = qualified(self.request, &self.request.mapped.filename);
            self.trace(2, |_| format!("explicitly forcing redirect with {url}"));
            self.request.mapped.filename = url;
            self.status = rule.given.status;
            return true;
        }
        if let Some(path) = reduced(self.request, &self.request.mapped.filename) {
            self.trace_apart(3, |pass| format!("reduce {} -> {path}", pass.request.mapped.filename));
            self.request.mapped.filename = path;
            self.reduced = true;
        }
        if scheme(&self.request.mapped.filename).is_some() {
            self.trace(2, |pass| {
                format!("implicitly forcing redirect (rc={} with {}", rule.given.status, pass.request.mapped.filename)
            });
            self.status = rule.given.status;
            return true;
        }
        false
    }

    /// `T` and `H`: type and handler, applied once the file is known.
    async fn force(&mut self, rule: &Arc<Rule>, origin: &Origin) -> Result<(), Flow> {
        let forced = [
            (&rule.given.media_type, FORCED_TYPE, "MIME-type"),
            (&rule.given.handler, FORCED_HANDLER, "Content-handler"),
        ];
        for (template, note, what) in forced {
            let Some(template) = template else { continue };
            let value = self.expand(template, Some(rule), origin).await?.text.to_ascii_lowercase();
            if !value.is_empty() {
                self.trace(2, |pass| format!("remember {} to have {what} '{value}'", pass.request.mapped.filename));
                self.request.notes.set(note, value);
            }
        }
        Ok(())
    }

    /// Keeps the fields that a condition has used: the response depends on them.
    pub(super) fn keep_vary(&mut self) {
        self.vary.append(&mut self.vary_now);
    }
}
