//! A line of the configuration for which requests are made.

use std::net::IpAddr;

use super::scope::Scope;
use crate::switch::ask::Ask;
use crate::switch::sites::Site;
use crate::switch::sources::collection::Given;
use crate::switch::sources::walk::Ground;
use crate::switch::tree::Directive;

/// A line, and what it holds for.
pub(super) struct Line<'a> {
    pub(super) directive: &'a Directive,
    /// Its arguments.
    pub(super) words: Vec<String>,
    /// The directives before it in the same section.
    pub(super) before: &'a [Directive],
    /// What its section covers.
    pub(super) scope: &'a Scope,
    pub(super) known: &'a Known,
    pub(super) given: &'a Given<'a>,
    pub(super) site: &'a Site,
    pub(super) ground: &'a Ground,
    /// A plain request to its site.
    pub(super) base: &'a Ask,
}

/// A request, and what it is about.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) ask: Ask,
    pub(super) what: &'static str,
}

impl Line<'_> {
    /// A plain request.
    pub(super) fn get(&self, target: &str, what: &'static str) -> Wanted {
        Wanted { ask: Ask { target: target.as_bytes().to_vec(), ..self.base.clone() }, what }
    }

    /// A plain request for each path that its section covers.
    pub(super) fn in_scope(&self, what: &'static str) -> Vec<Wanted> {
        self.scope.paths.iter().map(|path| self.get(path, what)).collect()
    }

    /// The first path that its section covers.
    pub(super) fn place(&self) -> &str {
        self.scope.paths.first().map_or("/", String::as_str)
    }

    /// The first directory that its section covers, with a slash at the end.
    pub(super) fn directory(&self) -> &str {
        let place = self.place();
        &place[..=place.rfind('/').unwrap_or(0)]
    }

    /// A file of text that its section covers, or the first path.
    pub(super) fn file(&self) -> &str {
        self.scope.paths.iter().rfind(|path| !path.ends_with('/')).map_or_else(|| self.place(), String::as_str)
    }

    /// The same request with or without TLS, if the site has a twin of the same name.
    pub(super) fn twin(&self, wanted: &Wanted) -> Option<Wanted> {
        let is_twin = |(_, site): &(usize, &Site)| {
            site.name == self.site.name && site.is_encrypted != self.site.is_encrypted && site.endpoint().is_some()
        };
        let (number, site) = self.given.sites.all().iter().enumerate().find(is_twin)?;
        let mut twin = wanted.clone();
        twin.what = if site.is_encrypted { "the same over TLS" } else { "the same without TLS" };
        (twin.ask.site, twin.ask.endpoint, twin.ask.is_encrypted) = (number, site.endpoint()?, site.is_encrypted);
        Some(twin)
    }

    /// Its first argument.
    pub(super) fn first(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

impl Wanted {
    /// The same with a field.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.ask.set(name, value);
        self
    }

    /// The same with another method.
    pub(super) fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.ask.method);
        self
    }

    /// The same for another host.
    pub(super) fn host(mut self, host: Option<&str>) -> Self {
        self.ask.host = host.map(str::to_owned);
        self
    }

    /// The same in HTTP/1.0.
    pub(super) fn old(mut self) -> Self {
        self.ask.minor = 0;
        self
    }

    /// The same from another address.
    pub(super) fn from(mut self, client: IpAddr) -> Self {
        self.ask.client = Some(client);
        self
    }

    /// The same with another query.
    pub(super) fn query(mut self, query: &str) -> Self {
        let end = self.ask.target.iter().position(|byte| *byte == b'?').unwrap_or(self.ask.target.len());
        self.ask.target.truncate(end);
        self.ask.append(&format!("?{query}"));
        self
    }

    /// The same about something else.
    pub(super) fn about(mut self, what: &'static str) -> Self {
        self.what = what;
        self
    }
}

/// The most paths that are known as guarded or denied, of one site.
const KNOWN_MAX: usize = 20;

/// Paths that lines elsewhere can be tried at.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Paths that want a user.
    pub(super) guarded: Vec<String>,
    /// Paths that nobody may see.
    pub(super) denied: Vec<String>,
}

impl Known {
    pub(super) fn learn(&mut self, line: &Line<'_>) {
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        let list = match words[..] {
            ["all", "denied"] if line.directive.is("Require") => &mut self.denied,
            ["from", "all"] if line.directive.is("Deny") => &mut self.denied,
            ["valid-user" | "user" | "group", ..] if line.directive.is("Require") => &mut self.guarded,
            _ => return,
        };
        list.extend(line.scope.paths.iter().cloned());
        list.truncate(KNOWN_MAX);
    }
}
