//! Applies a tree: finds each directive in the tables, checks its place, parses its words, calls its function.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::directive::{Allowed, Args, Directive, ModuleInfo, find_all, nearest};
use crate::error::{Error, Level, Notice, Phase};
use crate::expr;
use crate::read::Language;
use crate::settings::{Keyed, Listed, Setting, Settings, SettingsMap};
use crate::source::Origin;
use crate::system::System;
use crate::tree::Node;
use crate::values;
use crate::words::next_word;

/// What a directive's function returns: nothing, or the message of a syntax error.
pub type Outcome = Result<(), String>;

/// What is the same for all lines of one configuration.
pub struct Context {
    /// The machine.
    pub system: Arc<dyn System>,
    /// Loaded modules, variables, macros, `ServerRoot`.
    pub language: Language,
    /// What was worth saying so far.
    pub notices: Vec<Notice>,
}

impl Context {
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

/// Joins and cleans a path as APR's `apr_filepath_merge` does: purely by text, links are not looked at.
pub fn join(base: &str, path: &str) -> String {
    let mut out = PathBuf::new();
    for part in Path::new(base).join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.to_string_lossy().into_owned()
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

    /// Whether a section of that name (`<Directory`) is around, without difference of case.
    pub fn inside(&self, name: &str) -> bool {
        self.enclosing.iter().any(|typed| typed.eq_ignore_ascii_case(name))
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
        expr::Options { restricted: self.place.htaccess, ssl_require: false, ssl }
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

    /// Applies what stands inside this section to `dir` (and `server`, for a virtual host).
    pub fn apply_children(
        &mut self,
        server: Option<&mut SettingsMap>,
        dir: &mut SettingsMap,
        place: &Place,
    ) -> Result<(), Error> {
        let children = self.node.children.as_deref().unwrap_or_default();
        apply(children, server.unwrap_or(self.server), dir, place, self.context)
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

/// Applies directives in order; the first error ends it.
pub fn apply(
    nodes: &[Node],
    server: &mut SettingsMap,
    dir: &mut SettingsMap,
    place: &Place,
    context: &mut Context,
) -> Result<(), Error> {
    for node in nodes {
        let (modules, said) = (context.language.loaded(), context.notices.len());
        let mut rows = find_all(&modules, &node.name).peekable();
        if rows.peek().is_none() {
            unknown(node, place, context, &modules)?;
        }
        for (_, row) in rows {
            let mut cmd = Cmd { node, row, server, dir, place, context };
            match allowed(&mut cmd).and_then(|go| if go { invoke(&mut cmd) } else { Ok(()) }) {
                Ok(()) => {}
                Err(Failure::Message(message)) => return Err(Error::at(Phase::Apply, &node.origin, message)),
                Err(Failure::Inner(error)) => return Err(*error),
            }
        }
        // Those of lines inside a section have theirs already.
        for notice in &mut context.notices[said..] {
            notice.origin.get_or_insert_with(|| node.origin.clone());
        }
    }
    Ok(())
}

fn unknown(node: &Node, place: &Place, context: &mut Context, modules: &[&'static ModuleInfo]) -> Result<(), Error> {
    if place.skip_unknown {
        let text = format!(
            "AH02296: Unknown directive {} perhaps misspelled or defined by a module not included in the server \
             configuration",
            node.name.to_ascii_lowercase()
        );
        context.note("core", Level::Warn, text);
        return Ok(());
    }
    let message = format!(
        "Invalid command '{}', perhaps misspelled or defined by a module not included in the server configuration",
        node.name
    );
    let hint = nearest(modules, &node.name).map(str::to_string);
    Err(Error { hint, ..Error::at(Phase::Apply, &node.origin, message) })
}

/// Whether the directive may stand here; `Ok(false)`: it is to be skipped.
fn allowed(cmd: &mut Cmd<'_>) -> Result<bool, Failure> {
    let (row, place) = (cmd.row, cmd.place);
    let listed = || place.list.as_ref().is_some_and(|list| list.contains(&row.name.to_ascii_lowercase()));
    if !row.allowed.meets(place.allowed) && !listed() {
        if place.skip_forbidden {
            let text = format!("AH02295: {} in .htaccess forbidden by AllowOverride", row.name);
            cmd.context.note("core", Level::Warn, text);
            return Ok(false);
        }
        return Err(match place.enclosing.last() {
            Some(section) => format!("{} not allowed in {section}> context", row.name),
            None => format!("{} not allowed here", row.name),
        }
        .into());
    }
    if row.allowed.global_only() && place.virtual_host {
        return Err(cmd.cannot_occur("<VirtualHost> section").into());
    }
    Ok(true)
}

fn invoke(cmd: &mut Cmd<'_>) -> Result<(), Failure> {
    let row = cmd.row;
    let line = &cmd.node.args;
    let name = row.name;
    let word = |words: &[String], i: usize| words.get(i).cloned().unwrap_or_default();
    match &row.args {
        Args::None(set) => {
            if !line.is_empty() {
                return Err(format!("{name} takes no arguments").into());
            }
            set(cmd)
        }
        Args::Take1(set) => set(cmd, &take(row, line, &[1])?[0]),
        Args::Take2(set) => {
            let words = take(row, line, &[2])?;
            set(cmd, &words[0], &words[1])
        }
        Args::Take12(set) => {
            let words = take(row, line, &[1, 2])?;
            set(cmd, &words[0], words.get(1).map(String::as_str))
        }
        Args::Take3(set) => {
            let words = take(row, line, &[3])?;
            set(cmd, &words[0], &words[1], &words[2])
        }
        Args::Take23(set) => {
            let words = take(row, line, &[2, 3])?;
            set(cmd, &words[0], &words[1], words.get(2).map(String::as_str))
        }
        Args::Take123(set) => {
            let words = take(row, line, &[1, 2, 3])?;
            set(cmd, &words[0], words.get(1).map(String::as_str), words.get(2).map(String::as_str))
        }
        Args::Take13(set) => {
            let words = take(row, line, &[1, 3])?;
            set(cmd, &words[0], words.get(1).map(String::as_str), words.get(2).map(String::as_str))
        }
        Args::Iterate(set) => {
            let words = until_empty(line);
            if words.is_empty() {
                return Err(format!("{name} requires at least one argument{}", help(row)).into());
            }
            words.iter().try_for_each(|word| set(cmd, word))
        }
        Args::Iterate2(set) => {
            let words = until_empty(line);
            if words.len() < 2 {
                return Err(format!("{name} requires at least two arguments{}", help(row)).into());
            }
            words[1..].iter().try_for_each(|second| set(cmd, &words[0], second))
        }
        Args::Flag(set) => {
            let words = crate::words::words(line);
            match values::on_off(&word(&words, 0)) {
                Some(on) => set(cmd, on),
                None => return Err(format!("{name} must be On or Off").into()),
            }
        }
        Args::Words(set) => set(cmd, &crate::words::words(line)),
        Args::Raw(set) => set(cmd, line),
        Args::Section(set) => {
            let argument = section_argument(name, line)?;
            return set(cmd, argument);
        }
        // Read as a directive of the tree only when a module lists it twice; the reader has run it already.
        Args::OnRead(_) => Ok(()),
    }
    .map_err(Failure::Message)
}

/// The words of a line whose number is fixed; the message is Apache's.
pub(crate) fn take(row: &Directive, line: &str, counts: &[usize]) -> Result<Vec<String>, String> {
    let words = crate::words::words(line);
    let least = counts[0];
    if counts.contains(&words.len()) && words[..least].iter().all(|word| !word.is_empty()) {
        return Ok(words);
    }
    let wanted = match counts {
        [1] => "one argument",
        [2] => "two arguments",
        [3] => "three arguments",
        [1, 2] => "1-2 arguments",
        [2, 3] => "two or three arguments",
        [1, 2, 3] => "one, two or three arguments",
        _ => "one or three arguments",
    };
    Err(format!("{} takes {wanted}{}", row.name, help(row)))
}

/// The argument of a section without its `>`.
pub(crate) fn section_argument<'a>(name: &str, line: &'a str) -> Result<&'a str, String> {
    let Some(end) = line.rfind('>') else {
        return Err(format!("{name}> directive missing closing '>'"));
    };
    Ok(line[..end].trim())
}

fn help(row: &Directive) -> String {
    if row.help.is_empty() { String::new() } else { format!(", {}", row.help) }
}

/// Words up to the first empty one, where Apache's loops stop.
fn until_empty(line: &str) -> Vec<String> {
    let mut rest = line;
    std::iter::from_fn(|| Some(next_word(&mut rest)).filter(|word| !word.is_empty())).collect()
}
