//! The tables which are the only place that knows a directive: name, place, arguments, default, help.

use crate::apply::{Cmd, Failure, Outcome};
use crate::read::OnRead;

/// Where a directive may stand: a set of places and of `AllowOverride` classes (Apache manual, "override").
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
    /// As [`Allowed::ANY`], of a module that keeps nothing for sections: the line counts wherever it stands.
    pub const NOTHING_KEPT: Allowed = Allowed(31 | 256);
    /// Outside `<Directory>`, `<Files>`, `<Location>`, `<If>`.
    pub const SERVER: Allowed = Allowed(32);
    /// Inside `<Directory>`, `<Files>`, `<Location>`, `<If>`.
    pub const SECTION: Allowed = Allowed(64);
    /// Anywhere in the configuration files, never in `.htaccess`.
    pub const CONF: Allowed = Allowed(32 | 64);
    /// As [`Allowed::SERVER`], and not inside `<VirtualHost>` either.
    pub const GLOBAL: Allowed = Allowed(32 | 128);
    /// What a line outside all sections may be.
    pub const AT_SERVER_LEVEL: Allowed = Allowed(32 | 2 | 4 | 16);
    /// What a line inside a section may be.
    pub const IN_SECTION: Allowed = Allowed(64 | 31);

    const NO_VHOST: Allowed = Allowed(128);

    /// Both sets together.
    #[must_use]
    pub const fn or(self, other: Allowed) -> Allowed {
        Allowed(self.0 | other.0)
    }

    /// `self` without what is in `other`.
    #[must_use]
    pub const fn without(self, other: Allowed) -> Allowed {
        Allowed(self.0 & !other.0)
    }

    /// Whether the sets meet.
    pub const fn meets(self, other: Allowed) -> bool {
        self.0 & other.0 & (Allowed::NO_VHOST.0 - 1) != 0
    }

    /// Whether a `<VirtualHost>` is too deep.
    pub const fn global_only(self) -> bool {
        self.0 & Allowed::NO_VHOST.0 != 0
    }

    /// The two phrases of `httpd -L`: where in the files, and when in `.htaccess`.
    pub fn phrases(self) -> (&'static str, Option<String>) {
        const CLASSES: [(Allowed, &str); 5] = [
            (Allowed::AUTH, "AuthConfig"),
            (Allowed::LIMIT, "Limit"),
            (Allowed::OPTIONS, "Options"),
            (Allowed::FILEINFO, "FileInfo"),
            (Allowed::INDEXES, "Indexes"),
        ];
        let overrides = self.0 & Allowed::ANY.0;
        let place = if self.0 & Allowed::CONF.0 == Allowed::CONF.0 {
            "anywhere"
        } else if self.0 & Allowed::SERVER.0 != 0 {
            "only outside <Directory>, <Files>, <Location>, or <If>"
        } else if self.0 & Allowed::NOTHING_KEPT.0 == Allowed::NOTHING_KEPT.0 {
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

/// The shape of a directive's arguments, with the function that takes them (contract.md 1, "Argument forms").
pub enum Args {
    /// No arguments.
    None(fn(&mut Cmd<'_>) -> Outcome),
    /// One word.
    Take1(fn(&mut Cmd<'_>, &str) -> Outcome),
    /// Two words.
    Take2(fn(&mut Cmd<'_>, &str, &str) -> Outcome),
    /// One or two words.
    Take12(fn(&mut Cmd<'_>, &str, Option<&str>) -> Outcome),
    /// Three words.
    Take3(fn(&mut Cmd<'_>, &str, &str, &str) -> Outcome),
    /// Two or three words.
    Take23(fn(&mut Cmd<'_>, &str, &str, Option<&str>) -> Outcome),
    /// One to three words.
    Take123(fn(&mut Cmd<'_>, &str, Option<&str>, Option<&str>) -> Outcome),
    /// One or three words.
    Take13(fn(&mut Cmd<'_>, &str, Option<&str>, Option<&str>) -> Outcome),
    /// One word or more; called once per word.
    Iterate(fn(&mut Cmd<'_>, &str) -> Outcome),
    /// A word and one or more others; called once per other word.
    Iterate2(fn(&mut Cmd<'_>, &str, &str) -> Outcome),
    /// `On` or `Off`.
    Flag(fn(&mut Cmd<'_>, bool) -> Outcome),
    /// All words at once; any number of them.
    Words(fn(&mut Cmd<'_>, &[String]) -> Outcome),
    /// The directive reads the rest of the line itself.
    Raw(fn(&mut Cmd<'_>, &str) -> Outcome),
    /// A section: its argument, without `>`; the function applies what stands inside.
    Section(fn(&mut Cmd<'_>, &str) -> Result<(), Failure>),
    /// Runs while the text is being read, and leaves no trace in the tree.
    OnRead(OnRead),
}

/// A row of a module's table.
pub struct Directive {
    /// The name in the module's spelling; of a section with its `<`.
    pub name: &'static str,
    /// Where it may stand.
    pub allowed: Allowed,
    /// What it takes.
    pub args: Args,
    /// What holds where it is not given, as the manual writes it; empty if nothing.
    pub default: &'static str,
    /// One line, as in Apache's own messages.
    pub help: &'static str,
    /// What is typed behind the name; empty where the Apache manual says it.
    pub syntax: &'static str,
    /// What is worth knowing of it beside Apache's directive of that name.
    pub remark: Option<Remark>,
}

/// How a directive compares with Apache's, in one line; for the pages about them, not for `httpd -L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It is accepted and forgotten, for this reason.
    WithoutEffect(&'static str),
    /// It does something else, namely this.
    Differs(&'static str),
}

impl Directive {
    /// A row, of which the Apache manual has the syntax and everything else.
    pub const fn new(
        name: &'static str,
        allowed: Allowed,
        args: Args,
        default: &'static str,
        help: &'static str,
    ) -> Directive {
        Directive { name, allowed, args, default, help, syntax: "", remark: None }
    }

    /// The row of a directive that the Apache manual does not have, with what is typed behind its name.
    #[must_use]
    pub const fn syntax(mut self, syntax: &'static str) -> Directive {
        self.syntax = syntax;
        self
    }

    /// The row of a directive that is accepted without effect.
    #[must_use]
    pub const fn without_effect(mut self, why: &'static str) -> Directive {
        self.remark = Some(Remark::WithoutEffect(why));
        self
    }

    /// The row of a directive that does something else than Apache's.
    #[must_use]
    pub const fn differs(mut self, how: &'static str) -> Directive {
        self.remark = Some(Remark::Differs(how));
        self
    }
}

/// What the language knows of a module.
pub struct ModuleInfo {
    /// The identifier in `LoadModule` and `<IfModule>` (`dir_module`).
    pub id: &'static str,
    /// The source file in Apache's tree (`mod_dir.c`), the other name in `<IfModule>`.
    pub source: &'static str,
    /// There without `LoadModule`.
    pub linked: bool,
    /// Its directives.
    pub directives: &'static [Directive],
}

impl ModuleInfo {
    /// The name in `LogLevel` and in log lines (`dir`; of an MPM `mpm_event`).
    pub fn log_name(&self) -> &'static str {
        self.id.strip_suffix("_module").unwrap_or(self.id)
    }

    /// Whether `LogLevel` means this module by a name: its identifier, that in log lines, or its source file.
    pub fn logs_as(&self, name: &str) -> bool {
        [self.id, self.log_name(), self.source].contains(&name)
    }
}

/// The loaded modules' directive of that name, without difference of case; the first module that has it.
pub fn find(modules: &[&'static ModuleInfo], name: &str) -> Option<(&'static ModuleInfo, &'static Directive)> {
    find_all(modules, name).next()
}

/// Every module's directive of that name: all of them get the line.
pub fn find_all<'a>(
    modules: &'a [&'static ModuleInfo],
    name: &'a str,
) -> impl Iterator<Item = (&'static ModuleInfo, &'static Directive)> + 'a {
    modules.iter().filter_map(move |info| {
        let row = info.directives.iter().find(|row| row.name.eq_ignore_ascii_case(name))?;
        Some((*info, row))
    })
}

/// The known name nearest to a misspelled one, if it is near enough to be meant.
pub fn nearest(modules: &[&'static ModuleInfo], name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let far = (name.len() / 3).clamp(1, 3);
    modules
        .iter()
        .flat_map(|info| info.directives)
        .map(|row| (distance(&lower, &row.name.to_ascii_lowercase()), row.name))
        .filter(|(distance, _)| *distance <= far)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein's edit distance, in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
