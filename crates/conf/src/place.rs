//! Where a line stands: what encloses it, and what may stand there.

use std::collections::HashSet;
use std::sync::Arc;

use crate::allowed::Allowed;

/// Where a line stands: what it may be, and what encloses it.
#[derive(Clone, Debug)]
pub struct Place {
    /// What may stand here.
    pub allowed: Allowed,
    /// The options that `AllowOverride Options=` leaves, as the core module's bits; all of them elsewhere.
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

impl Place {
    /// Outside all sections.
    pub fn server_level() -> Place {
        Place {
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

    /// Whether it is about a part of a server only: in a section other than `<VirtualHost>`, or in an `.htaccess` file.
    pub fn in_section(&self) -> bool {
        self.htaccess || self.enclosing.iter().any(|typed| !typed.eq_ignore_ascii_case("<VirtualHost"))
    }

    /// Whether a section of that name (`<Directory`) is around, without difference of case.
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
    /// Whether a request with this method is meant.
    pub fn covers(&self, method: &str) -> bool {
        let method = if method == "HEAD" { "GET" } else { method };
        self.methods.iter().any(|m| m == method) != self.except
    }

    /// Whether every request that `other` means is meant.
    pub fn includes(&self, other: &Limited) -> bool {
        let all = |inner: &Limited, outer: &Limited| inner.methods.iter().all(|m| outer.methods.contains(m));
        match (self.except, other.except) {
            (false, false) => all(other, self),
            (true, true) => all(self, other),
            (true, false) => !other.methods.iter().any(|m| self.methods.contains(m)),
            // Nobody can name all methods that there are.
            (false, true) => false,
        }
    }
}
