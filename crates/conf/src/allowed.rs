//! The contexts that allow a directive, and its `AllowOverride` classes.

/// A set of contexts and `AllowOverride` classes that allow a directive (Apache manual, "override").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed(u16);

impl Allowed {
    /// Nowhere.
    pub const NONE: Allowed = Allowed(0);
    /// In `.htaccess` with `AllowOverride Limit`; elsewhere inside sections.
    pub const LIMIT: Allowed = Allowed(1);
    /// In `.htaccess` with `AllowOverride Options`; elsewhere anywhere.
    pub const OPTIONS: Allowed = Allowed(2);
    /// In `.htaccess` with `AllowOverride FileInfo`; elsewhere anywhere.
    pub const FILEINFO: Allowed = Allowed(4);
    /// In `.htaccess` with `AllowOverride AuthConfig`; elsewhere inside sections.
    pub const AUTH: Allowed = Allowed(8);
    /// In `.htaccess` with `AllowOverride Indexes`; elsewhere anywhere.
    pub const INDEXES: Allowed = Allowed(16);
    /// Anywhere, and in `.htaccess` unless `AllowOverride` is None.
    pub const ANY: Allowed = Allowed(31);
    /// Like [`Allowed::ANY`], for a module without settings per section: the line counts in any context.
    pub const NOTHING_KEPT: Allowed = Allowed(31 | 256);
    /// Combined with other values: marks a directive of such a module.
    pub const KEPT_NOWHERE: Allowed = Allowed(256);
    /// Outside `<Directory>`, `<Files>`, `<Location>`, `<If>`.
    pub const SERVER: Allowed = Allowed(32);
    /// Inside `<Directory>`, `<Files>`, `<Location>`, `<If>`.
    pub const SECTION: Allowed = Allowed(64);
    /// Anywhere in the configuration files, never in `.htaccess`.
    pub const CONF: Allowed = Allowed(32 | 64);
    /// Like [`Allowed::SERVER`], but not inside `<VirtualHost>` either.
    pub const GLOBAL: Allowed = Allowed(32 | 128);
    /// Inside `<Proxy>` and `<ProxyMatch>`. What is allowed in other sections is allowed there, too.
    pub const PROXY: Allowed = Allowed(512);
    /// Directives with any of these are allowed outside all sections.
    pub const AT_SERVER_LEVEL: Allowed = Allowed(32 | 2 | 4 | 16);
    /// Directives with any of these are allowed inside a section.
    pub const IN_SECTION: Allowed = Allowed(64 | 31);

    const NO_VHOST: Allowed = Allowed(128);
    /// The values that are places and classes.
    const PLACES: Allowed = Allowed(127 | 512);

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: Allowed) -> Allowed {
        Allowed(self.0 | other.0)
    }

    /// The elements of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Allowed) -> Allowed {
        Allowed(self.0 & !other.0)
    }

    /// Whether the sets have a place in common.
    pub const fn meets(self, other: Allowed) -> bool {
        self.0 & other.0 & Allowed::PLACES.0 != 0
    }

    /// Whether `<VirtualHost>` does not allow it.
    pub const fn global_only(self) -> bool {
        self.0 & Allowed::NO_VHOST.0 != 0
    }

    /// The two phrases of `httpd -L`: where configuration files allow it, and when `.htaccess` files do.
    pub fn phrases(self) -> (&'static str, Option<String>) {
        const CLASSES: [(Allowed, &str); 5] = [
            (Allowed::AUTH, "AuthConfig"),
            (Allowed::LIMIT, "Limit"),
            (Allowed::OPTIONS, "Options"),
            (Allowed::FILEINFO, "FileInfo"),
            (Allowed::INDEXES, "Indexes"),
        ];
        let overrides = self.0 & Allowed::ANY.0;
        let place = if self.0 & Allowed::SERVER.0 != 0 && self.meets(Allowed::IN_SECTION) {
            if self.0 & Allowed::KEPT_NOWHERE.0 == 0 { "anywhere" } else { "anywhere [no per-dir config]" }
        } else if self.0 & Allowed::SERVER.0 != 0 {
            "only outside <Directory>, <Files>, <Location>, or <If>"
        } else if self.0 & Allowed::KEPT_NOWHERE.0 != 0 {
            "anywhere [no per-dir config]"
        } else if overrides & Allowed::AT_SERVER_LEVEL.0 != 0 {
            "anywhere"
        } else {
            "only inside <Directory>, <Files>, <Location>, or <If>"
        };
        let when = match overrides {
            0 => None,
            31 => Some("isn't None".to_string()),
            _ => {
                let names: Vec<_> =
                    CLASSES.iter().filter(|(class, _)| self.meets(*class)).map(|(_, name)| *name).collect();
                Some(format!("includes {}", names.join(" or ")))
            }
        };
        (place, when)
    }
}
