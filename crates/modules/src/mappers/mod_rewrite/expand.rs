//! Expands a text for a request.

use std::borrow::Cow;
use std::sync::Arc;

use conf::pattern::TooLong;
use conf::{Level, Origin};
use runtime::{Load, offload};
use server::{Flow, Request, RequestKind};

use super::flags::Flags;
use super::pass::Pass;
use super::rule::Rule;
use super::settings::RewriteServer;
use super::template::{MapCall, Part, Template};
use super::url::escape_group;
use super::variables::{Ahead, ServerVariable, Variable, value};

/// A text with the values of its references in their places.
#[derive(Default)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether the question mark that ends the path does not come from the configuration, but from the client.
    pub(super) unsafe_question: bool,
    /// Whether there is one.
    has_question: bool,
    /// The last one ends the path (`QSL`), not the first.
    last_counts: bool,
}

impl Expanded {
    /// Adds text from the configuration.
    fn written(&mut self, text: &str) {
        self.add(text, false);
    }

    /// Adds text from elsewhere.
    fn filled(&mut self, text: &str) {
        self.add(text, true);
    }

    fn add(&mut self, text: &str, is_unsafe: bool) {
        if text.contains('?') && (self.last_counts || !self.has_question) {
            (self.has_question, self.unsafe_question) = (true, is_unsafe);
        }
        self.text.push_str(text);
    }
}

impl Pass<'_> {
    /// Expands a text. `rule`: determines the escaping of groups. `Err`: that is impossible.
    pub(super) async fn expand(
        &mut self,
        template: &Template,
        rule: Option<&Arc<Rule>>,
        origin: &Origin,
    ) -> Result<Expanded, Flow> {
        let last_counts = rule.is_some_and(|rule| rule.given.flags.any(Flags::QUERY_LAST));
        let mut out = Expanded { last_counts, ..Expanded::default() };
        for part in template.parts() {
            match part {
                Part::Text(text) => out.written(text),
                Part::Rule(group) => {
                    let text = self.group(self.of_rule.get(*group), rule);
                    out.filled(&text);
                }
                Part::Condition(group) => {
                    let text = self.group(self.of_condition.get(*group), rule);
                    out.filled(&text);
                }
                Part::Variable(Variable::AheadUrl(ahead)) => out.filled(&self.ahead(ahead, false, origin).await?),
                Part::Variable(Variable::AheadFile(ahead)) => out.filled(&self.ahead(ahead, true, origin).await?),
                Part::Variable(Variable::Known(known @ (ServerVariable::ScriptUser | ServerVariable::ScriptGroup))) => {
                    out.filled(&owner(self.request, *known).await);
                }
                Part::Variable(variable) => {
                    if let Variable::Field(name) = variable
                        && !name.eq_ignore_ascii_case("Host")
                        && self.request.header(name).is_some()
                    {
                        self.vary_now.push(name.clone());
                    }
                    let text =
                        plain(self.request, variable).map_err(|why| self.request.undecided("rewrite", &why, origin))?;
                    out.filled(&text);
                }
                Part::Map(call) => {
                    // Keys may contain further map calls.
                    let text = Box::pin(self.asked(call, rule, origin)).await?;
                    out.filled(&text);
                }
            }
            TooLong::check(out.text.len(), server::TEXT_MAX)
                .map_err(|why| self.request.undecided("rewrite", &why, origin))?;
        }
        Ok(out)
    }

    /// A group, escaped if the rule requires it.
    fn group<'a>(&self, text: &'a str, rule: Option<&Arc<Rule>>) -> Cow<'a, str> {
        match rule.filter(|rule| rule.given.flags.any(Flags::ESCAPE) && !text.is_empty()) {
            None => Cow::Borrowed(text),
            Some(rule) => {
                let escaped = escape_group(text, rule);
                self.trace(5, |_| format!("escaping backreference '{text}' to '{escaped}'"));
                Cow::Owned(escaped)
            }
        }
    }

    /// A map's value for a key, or the default.
    async fn asked(&mut self, call: &MapCall, rule: Option<&Arc<Rule>>, origin: &Origin) -> Result<String, Flow> {
        let key = self.expand(&call.key, rule, origin).await?.text;
        let map = self.request.host::<RewriteServer>().rules.maps.get(&call.map).map(|(map, _)| map.clone());
        let answer = match map {
            None => None,
            Some(map) => map.look_up(self.request, self.trace, &call.map, key, origin).await?,
        };
        match (answer, &call.default) {
            (Some(answer), _) => Ok(answer),
            (None, Some(default)) => Ok(self.expand(default, rule, origin).await?.text),
            (None, None) => Ok(String::new()),
        }
    }

    /// The future value of a variable for the current path.
    async fn ahead(&mut self, ahead: &Ahead, file: bool, origin: &Origin) -> Result<String, Flow> {
        if !may_look_up(self.request) {
            return Ok(String::new());
        }
        let mut path = self.path.clone();
        // If only the URL is known, it is looked up.
        let by_file = file && (self.directory.is_none() || !path.starts_with('/'));
        if let Some(directory) = self.directory.as_ref().filter(|_| !path.starts_with('/')) {
            path.insert_str(0, if by_file { directory } else { self.base.as_ref().unwrap_or(directory) });
        }
        let found =
            if by_file { self.request.lookup_named(&path).await } else { Some(self.request.lookup_link(&path).await) };
        let text = match &found {
            None => String::new(),
            Some(found) => match &ahead.variable {
                Variable::Known(known @ (ServerVariable::ScriptUser | ServerVariable::ScriptGroup)) => {
                    owner(found, *known).await
                }
                variable => {
                    plain(found, variable).map_err(|why| self.request.undecided("rewrite", &why, origin))?.into_owned()
                }
            },
        };
        if let Some(found) = &found {
            decided(self.request, found, &path, origin)?;
        }
        self.trace(5, |_| format!("lookahead: path={path} var={} -> val={text}", ahead.name));
        Ok(text)
    }
}

/// Whether a subrequest may make another: not if it is for the path of the request that asks.
pub(super) fn may_look_up(request: &Request) -> bool {
    match &request.kind {
        RequestKind::Subrequest { asker, .. } => **asker != *request.data.uri,
        _ => true,
    }
}

/// Refuses a result that depends on an undecided subrequest. As in Apache, one that ended with a status is decided.
pub(super) fn decided(request: &Request, found: &Request, path: &str, origin: &Origin) -> Result<(), Flow> {
    if !found.is_undecided() {
        return Ok(());
    }
    let text = format!(
        "the look-up of {path} has failed, so the line at {origin} cannot be evaluated; see the lines before this"
    );
    request.log("rewrite", Level::Error, text);
    Err(request.fails_closed())
}

/// The value of a variable without any look-up.
fn plain<'a>(request: &'a Request, variable: &Variable) -> Result<Cow<'a, str>, String> {
    Ok(match variable {
        Variable::Env(name) => match request.notes.get(name).or_else(|| request.env.get(name)) {
            Some(value) => value.into(),
            None => request.process_env(name).unwrap_or_default().into(),
        },
        Variable::Field(name) => request.header_joined(name).unwrap_or_default(),
        Variable::Known(known) => value(request, *known)?,
        Variable::OfTls(name) => request.variable(name).unwrap_or_default().into(),
        Variable::AheadUrl(_) | Variable::AheadFile(_) | Variable::Nothing => "".into(),
    })
}

/// The name of the file's owner or group, from the user database.
async fn owner(request: &Request, known: ServerVariable) -> String {
    let Some(meta) = request.mapped.stat else { return "<unknown>".into() };
    let is_user = known == ServerVariable::ScriptUser;
    let id = if is_user { meta.uid } else { meta.gid };
    let name = offload(Load::Wait, move || match is_user {
        true => sys::cred::user_by_id(id).map(|user| user.map(|user| user.name)),
        false => sys::cred::group_by_id(id),
    });
    name.await.ok().flatten().unwrap_or_else(|| id.to_string())
}
