//! The tables which are the only place that knows a directive, and what a directive's function gets when its line is
//! applied.

use std::sync::Arc;

use crate::allowed::Allowed;
use crate::error::{Error, Errors, Level, Notice};
use crate::expr;
use crate::language::Language;
use crate::paths::join;
use crate::place::Place;
use crate::read::Reader;
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
}

/// What a directive's function returns: nothing, or the message of a syntax error.
pub type Outcome = Result<(), String>;

/// The error of a directive: a message for its own line, or an error of a line inside its section.
#[derive(Debug)]
pub enum Failure {
    /// A message; the line is the directive's own.
    Message(String),
    /// An error that knows its line.
    Inner(Box<Error>),
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Message(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::Message(message.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Inner(Box::new(error))
    }
}

/// A directive being applied: the line, its place, and the settings it changes.
pub struct Cmd<'a> {
    /// The line.
    pub node: &'a Node,
    /// Its row in the table.
    pub row: &'static Directive,
    /// The settings of the server or virtual host.
    pub server: &'a mut SettingsMap,
    /// The settings of the section, or what holds outside all sections.
    pub dir: &'a mut SettingsMap,
    /// Where the line stands.
    pub place: &'a Place,
    /// What is the same everywhere.
    pub context: &'a mut Context,
}

impl Cmd<'_> {
    /// The line's file and number.
    pub fn origin(&self) -> Origin {
        self.node.origin.clone()
    }

    /// What an expression may use where the line stands, with the modules that are loaded.
    pub fn expr_options(&self) -> expr::Options {
        let ssl = self.context.language.loaded().iter().any(|info| info.id == "ssl_module");
        expr::Options { restricted: self.place.htaccess, ssl_require: false, page: false, ssl }
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

    /// The same for the settings of the server, by a key.
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
    pub fn cannot_occur(&self, place: &str) -> String {
        let close = if self.row.name.starts_with('<') { ">" } else { "" };
        format!("{}{close} cannot occur within {place}", self.row.name)
    }

    /// The place inside this section.
    pub fn inner_place(&self, allowed: Allowed, path: Option<&str>) -> Place {
        let mut place = self.place.clone();
        place.enclosing.push(self.node.name.clone());
        if !place.htaccess {
            place.allowed = allowed;
        }
        place.path = path.map(Arc::from).or(place.path);
        place
    }
}

/// What is the same for all lines of one configuration.
pub struct Context {
    /// The machine.
    pub system: Arc<dyn System>,
    /// Loaded modules, variables, macros, `ServerRoot`.
    pub language: Language,
    /// What was worth saying so far.
    pub notices: Vec<Notice>,
    /// What becomes of errors.
    pub errors: Errors,
}

impl Context {
    /// What a reader has learnt, for the lines that it has read.
    pub fn of(reader: Reader) -> Context {
        let Reader { system, language, notices, errors, .. } = reader;
        Context { system, language, notices, errors }
    }

    /// A path relative to `ServerRoot`, without `.` and `..`.
    pub fn server_relative(&self, path: &str) -> String {
        join(&self.language.server_root, path)
    }

    /// The same, with a slash at its end where the path is written with one, as APR leaves it.
    pub fn server_relative_as_written(&self, path: &str) -> String {
        let mut full = self.server_relative(path);
        let slash = path.ends_with('/') || path == "." || path.ends_with("/.");
        if slash && !full.ends_with('/') {
            full.push('/');
        }
        full
    }

    /// A path relative to `DefaultRuntimeDir`.
    pub fn runtime_relative(&self, path: &str) -> String {
        join(&self.language.runtime_dir(), path)
    }

    /// Says something at a level, under the name of a module, as a line of the error log.
    pub fn note(&mut self, module: &'static str, level: Level, text: impl Into<String>) {
        self.notices.push(Notice { module, level, text: text.into(), bare: false, origin: None });
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

/// The name nearest to a misspelled one, if it is near enough to be meant.
pub fn nearest_name(names: impl Iterator<Item = &'static str>, name: &str) -> Option<&'static str> {
    let far = (name.len() / 3).clamp(1, 3);
    let mut rows = Rows::default();
    names.filter_map(|other| Some((rows.distance(name, other, far)?, other))).min().map(|(_, other)| other)
}

/// The last three rows of the table of edit distances, kept from one pair of words to the next.
#[derive(Default)]
struct Rows {
    before_last: Vec<usize>,
    last: Vec<usize>,
    row: Vec<usize>,
}

impl Rows {
    /// The edit distance, in bytes, whatever their case: letters that are wrong, missing or too many, and neighbours that changed
    /// places. `None` if it is beyond `far`. It stops as soon as that is known: a long word of nonsense is compared with each of
    /// 1 000 names, once for each line that has it.
    fn distance(&mut self, a: &str, b: &str, far: usize) -> Option<usize> {
        if a.len().abs_diff(b.len()) > far {
            return None;
        }
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let Rows { before_last, last, row } = self;
        last.clear();
        last.extend(0..=b.len());
        for (i, x) in a.iter().enumerate() {
            row.clear();
            row.push(i + 1);
            for (j, y) in b.iter().enumerate() {
                let is_same = x.eq_ignore_ascii_case(y);
                let mut steps = (last[j] + usize::from(!is_same)).min(last[j + 1] + 1).min(row[j] + 1);
                if i > 0 && j > 0 && x.eq_ignore_ascii_case(&b[j - 1]) && a[i - 1].eq_ignore_ascii_case(y) {
                    steps = steps.min(before_last[j - 1] + 1);
                }
                row.push(steps);
            }
            if row.iter().all(|steps| *steps > far) {
                return None;
            }
            std::mem::swap(before_last, last);
            std::mem::swap(last, row);
        }
        Some(last[b.len()]).filter(|steps| *steps <= far)
    }
}
