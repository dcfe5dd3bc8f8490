//! The directive tables, the only place that knows a directive, and the `Cmd` that a directive's function gets when its
//! line is applied.

use std::sync::Arc;

use crate::allowed::Allowed;
use crate::context::DirectiveContext;
use crate::error::{Cause, Errors, Level, Notice};
use crate::excerpt::Spot;
use crate::expr;
use crate::language::Language;
use crate::paths::join;
use crate::refusal::{Failure, Outcome, Refusal};
use crate::settings::{Keyed, Listed, Setting, Settings, SettingsMap};
use crate::source::Origin;
use crate::system::System;
use crate::tree::Node;

/// The shape of a directive's arguments, with the function that takes them (Apache manual, "Terms Used to
/// Describe Directives").
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
    /// A section. The function gets the argument without `>`, and applies the contents of the section.
    Section(fn(&mut Cmd<'_>, &str) -> Result<(), Failure>),
    /// Runs while the text is being read, and leaves no trace in the tree.
    OnRead(OnRead),
}

/// A row of a module's table.
pub struct Directive {
    /// The name as the module spells it; for a section, with its `<`.
    pub name: &'static str,
    /// The contexts that allow it.
    pub allowed: Allowed,
    /// Which arguments it takes, and the function that takes them.
    pub args: Args,
    /// The default, as the manual writes it; empty if there is none.
    pub default: &'static str,
    /// One line of help, as in Apache's own messages.
    pub help: &'static str,
    /// The syntax after the name; empty if the Apache manual documents it.
    pub syntax: &'static str,
    /// The difference from Apache's directive of that name, if any.
    pub remark: Option<Remark>,
}

/// How a directive differs from Apache's, in one line. The directive pages show it, `httpd -L` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Accepted but has no effect, for this reason.
    WithoutEffect(&'static str),
    /// Behaves differently: this is how.
    Differs(&'static str),
}

/// A row of a table of directives, as the Apache manual describes the directive.
pub const fn row(
    name: &'static str,
    allowed: Allowed,
    args: Args,
    default: &'static str,
    help: &'static str,
) -> Directive {
    Directive { name, allowed, args, default, help, syntax: "", remark: None }
}

impl Directive {
    /// Adds the syntax of a directive that the Apache manual does not document.
    #[must_use]
    pub const fn syntax(mut self, syntax: &'static str) -> Directive {
        self.syntax = syntax;
        self
    }

    /// Marks the directive as accepted without effect.
    #[must_use]
    pub const fn without_effect(mut self, why: &'static str) -> Directive {
        self.remark = Some(Remark::WithoutEffect(why));
        self
    }

    /// Marks the directive as different from Apache's.
    #[must_use]
    pub const fn differs(mut self, how: &'static str) -> Directive {
        self.remark = Some(Remark::Differs(how));
        self
    }
}

/// A module, as the configuration language sees it.
pub struct ModuleInfo {
    /// The identifier in `LoadModule` and `<IfModule>` (`dir_module`).
    pub id: &'static str,
    /// The source file in Apache's tree (`mod_dir.c`), the other name in `<IfModule>`.
    pub source: &'static str,
    /// Whether it is available without `LoadModule`.
    pub linked: bool,
    /// The rows of its table.
    pub directives: &'static [Directive],
}

impl ModuleInfo {
    /// The name in `LogLevel` and in log lines (`dir`; for an MPM, `mpm_event`).
    pub fn log_name(&self) -> &'static str {
        self.id.strip_suffix("_module").unwrap_or(self.id)
    }

    /// Whether `name` selects this module in `LogLevel`: as its identifier, log name or source file.
    pub fn logs_as(&self, name: &str) -> bool {
        [self.id, self.log_name(), self.source].contains(&name)
    }
}

/// The directives of the language itself, which run while the text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the directives' own")]
pub enum OnRead {
    LoadModule,
    LoadFile,
    Define,
    UnDefine,
    Include,
    IncludeOptional,
    ServerRoot,
    DefaultRuntimeDir,
    IfModule,
    IfDefine,
    IfVersion,
    IfFile,
    IfDirective,
    IfSection,
    Macro,
    Use,
    UndefMacro,
    MacroIgnoreEmptyArgs,
    MacroIgnoreBadNesting,
}

/// A directive being applied: the line, its place, and the settings it changes.
pub struct Cmd<'a> {
    /// The line being applied.
    pub node: &'a Node,
    /// Its row in the table.
    pub row: &'static Directive,
    /// The settings of the server or virtual host.
    pub server: &'a mut SettingsMap,
    /// The settings of the section, or those that apply outside all sections.
    pub dir: &'a mut SettingsMap,
    /// The line's context.
    pub place: &'a DirectiveContext,
    /// State shared by all lines.
    pub context: &'a mut Context,
}

impl Cmd<'_> {
    /// The line's file and number.
    pub fn origin(&self) -> Origin {
        self.node.origin.clone()
    }

    /// The features that an expression may use here, given the line's context and the loaded modules.
    pub fn expr_options(&self) -> expr::Options {
        let has = |module| self.context.language.has_module(module);
        expr::Options {
            restricted: self.place.htaccess,
            ssl: has("ssl_module"),
            health: has("proxy_hcheck_module"),
            ..expr::Options::default()
        }
    }

    /// Sets a value of this server.
    pub fn server_set<S: Settings, T>(&mut self, field: fn(&mut S) -> &mut Setting<T>, value: T) -> Outcome {
        field(self.server.edit()).set(value, &self.node.origin);
        Ok(())
    }

    /// Sets a value of this section.
    pub fn set<S: Settings, T>(&mut self, field: fn(&mut S) -> &mut Setting<T>, value: T) -> Outcome {
        field(self.dir.edit()).set(value, &self.node.origin);
        Ok(())
    }

    /// Adds to a list of this server.
    pub fn server_push<S: Settings, T>(&mut self, field: fn(&mut S) -> &mut Listed<T>, value: T) -> Outcome {
        field(self.server.edit()).push(value, &self.node.origin);
        Ok(())
    }

    /// Adds to a list of this section.
    pub fn push<S: Settings, T>(&mut self, field: fn(&mut S) -> &mut Listed<T>, value: T) -> Outcome {
        field(self.dir.edit()).push(value, &self.node.origin);
        Ok(())
    }

    /// Sets the value of a key of this server.
    pub fn server_put<S: Settings, K: Ord, T>(
        &mut self,
        field: fn(&mut S) -> &mut Keyed<K, T>,
        key: K,
        value: T,
    ) -> Outcome {
        field(self.server.edit()).set(key, value, &self.node.origin);
        Ok(())
    }

    /// Sets the value of a key of this section.
    pub fn put<S: Settings, K: Ord, T>(&mut self, field: fn(&mut S) -> &mut Keyed<K, T>, key: K, value: T) -> Outcome {
        field(self.dir.edit()).set(key, value, &self.node.origin);
        Ok(())
    }

    /// The error `X cannot occur within WHERE`.
    pub fn cannot_occur(&self, place: &str) -> Refusal {
        let close = if self.row.name.starts_with('<') { ">" } else { "" };
        let message = format!("{}{close} cannot occur within {place}", self.row.name);
        Refusal::from(message).at(Spot::Word(0)).because(Cause::Misplaced)
    }

    /// The context of lines inside this section.
    pub fn inner_place(&self, allowed: Allowed, path: Option<&str>) -> DirectiveContext {
        let mut place = self.place.clone();
        place.enclosing.push(self.node.name.clone());
        if !place.htaccess {
            place.allowed = allowed;
        }
        place.path = path.map(Arc::from).or(place.path);
        place
    }
}

/// State shared by all lines of one configuration.
pub struct Context {
    /// The files, names and environment of the machine.
    pub system: Arc<dyn System>,
    /// Loaded modules, variables, macros, `ServerRoot`.
    pub language: Language,
    /// The notices so far.
    pub notices: Vec<Notice>,
    /// How to handle errors.
    pub errors: Errors,
}

impl Context {
    /// Resolves a path against `ServerRoot`, and removes `.` and `..`.
    pub fn server_relative(&self, path: &str) -> String {
        join(&self.language.server_root, path)
    }

    /// Like [`server_relative`](Self::server_relative), but keeps a trailing slash, as APR does.
    pub fn server_relative_as_written(&self, path: &str) -> String {
        let mut full = self.server_relative(path);
        let slash = path.ends_with('/') || path == "." || path.ends_with("/.");
        if slash && !full.ends_with('/') {
            full.push('/');
        }
        full
    }

    /// Resolves a path against `DefaultRuntimeDir`.
    pub fn runtime_relative(&self, path: &str) -> String {
        join(&self.language.runtime_dir(), path)
    }

    /// Adds a notice from a module, to be written to the error log at `level`.
    pub fn note(&mut self, module: &'static str, level: Level, text: impl Into<String>) {
        self.notices.push(Notice::new(module, level, text));
    }
}

/// Finds a directive by name, ignoring case, in the first loaded module that has it.
pub fn find(modules: &[&'static ModuleInfo], name: &str) -> Option<(&'static ModuleInfo, &'static Directive)> {
    find_all(modules, name).next()
}

/// Finds a directive by name in every module that has it: all of them get the line.
pub fn find_all<'a>(
    modules: &'a [&'static ModuleInfo],
    name: &'a str,
) -> impl Iterator<Item = (&'static ModuleInfo, &'static Directive)> + 'a {
    modules.iter().filter_map(move |info| {
        let row = info.directives.iter().find(|row| row.name.eq_ignore_ascii_case(name))?;
        Some((*info, row))
    })
}

/// The directives of some modules, in the order of their names. There are hundreds, and every line of a configuration looks
/// for one.
pub(crate) struct DirectiveIndex {
    /// The name of each row in lower case. Comparisons ignore case: it is taken away once, not for each of them.
    names: Vec<String>,
    rows: Vec<(&'static ModuleInfo, &'static Directive)>,
}

impl DirectiveIndex {
    pub(crate) fn of(modules: &[&'static ModuleInfo]) -> DirectiveIndex {
        let named = |info: &&'static ModuleInfo| {
            let info = *info;
            info.directives.iter().map(move |row| (row.name.to_ascii_lowercase(), (info, row)))
        };
        let mut all: Vec<_> = modules.iter().flat_map(named).collect();
        // Rows with one name keep their order.
        all.sort_by(|(name, _), (other, _)| name.cmp(other));
        let (names, rows) = all.into_iter().unzip();
        DirectiveIndex { names, rows }
    }

    /// The directives with this name, ignoring case.
    pub(crate) fn find(&self, name: &str) -> &[(&'static ModuleInfo, &'static Directive)] {
        let name = name.to_ascii_lowercase();
        let start = self.names.partition_point(|other| *other < name);
        let length = self.names[start..].iter().take_while(|other| **other == name).count();
        &self.rows[start..start + length]
    }
}
