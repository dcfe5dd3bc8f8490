//! The context of a line: what encloses it, and what is allowed there.

use std::collections::HashSet;
use std::sync::Arc;

use crate::allowed::Allowed;

/// The context of a line: what is allowed there, and what encloses it.
#[derive(Clone, Debug)]
pub struct DirectiveContext {
    /// The directives allowed here.
    pub allowed: Allowed,
    /// The options that `AllowOverride Options=` allows, as the core module's bits; elsewhere, all of them.
    pub options: u32,
    /// The names of `AllowOverrideList`, in lower case.
    pub list: Option<Arc<HashSet<String>>>,
    /// `Nonfatal=Override`: a directive of a forbidden class is skipped with a warning.
    pub skip_forbidden: bool,
    /// `Nonfatal=Unknown`: an unknown directive is skipped with a warning.
    pub skip_unknown: bool,
    /// The enclosing sections, outermost first, as typed (`<Directory`).
    pub enclosing: Vec<String>,
    /// The path of the innermost `<Directory>`, `<Location>`, `<Files>` or the directory of an `.htaccess` file.
    pub path: Option<Arc<str>>,
    /// Inside `<VirtualHost>`.
    pub virtual_host: bool,
    /// Inside `<Limit>` or `<LimitExcept>`.
    pub limited: Option<Arc<Limited>>,
    /// In an `.htaccess` file.
    pub htaccess: bool,
}

impl DirectiveContext {
    /// The context outside all sections.
    pub fn server_level() -> DirectiveContext {
        DirectiveContext {
            allowed: Allowed::AT_SERVER_LEVEL,
            options: u32::MAX,
            list: None,
            skip_forbidden: false,
            skip_unknown: false,
            enclosing: Vec::new(),
            path: None,
            virtual_host: false,
            limited: None,
            htaccess: false,
        }
    }

    /// Whether it applies to only a part of a server: in a section other than `<VirtualHost>`, or in an `.htaccess`
    /// file.
    pub fn in_section(&self) -> bool {
        self.htaccess || self.enclosing.iter().any(|typed| !typed.eq_ignore_ascii_case("<VirtualHost"))
    }

    /// Whether a section of that name (`<Directory`) encloses the line, ignoring case.
    pub fn inside(&self, name: &str) -> bool {
        self.enclosing.iter().any(|typed| typed.eq_ignore_ascii_case(name))
    }
}

/// `<Limit>` or `<LimitExcept>` around a directive.
#[derive(Clone, Debug)]
pub struct Limited {
    /// `<LimitExcept>`: every method but these.
    pub except: bool,
    /// The methods; `GET` stands for `HEAD` too.
    pub methods: Vec<String>,
}

impl Limited {
    /// Whether it applies to requests with this method.
    pub fn covers(&self, method: &str) -> bool {
        let method = if method == "HEAD" { "GET" } else { method };
        self.methods.iter().any(|m| m == method) != self.except
    }

    /// Whether it applies to every request that `other` applies to.
    pub fn includes(&self, other: &Limited) -> bool {
        let all = |inner: &Limited, outer: &Limited| inner.methods.iter().all(|m| outer.methods.contains(m));
        match (self.except, other.except) {
            (false, false) => all(other, self),
            (true, true) => all(self, other),
            (true, false) => !other.methods.iter().any(|m| self.methods.contains(m)),
            // The set of methods is open, so no list can name all of them.
            (false, true) => false,
        }
    }
}
