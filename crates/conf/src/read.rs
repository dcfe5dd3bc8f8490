//! Reads text into a tree, and runs what decides what is read at all (contract.md 2 and 3).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::apply::{Place, join, section_argument, take};
use crate::directive::{Args, Directive, ModuleInfo, find};
use crate::error::{Error, Level, Notice, Phase};
use crate::fnmatch;
use crate::lines::{LINE_MAX, LINE_MAX_HTACCESS, Lines};
use crate::macros::{self, Macro};
use crate::pattern;
use crate::settings::SettingsMap;
use crate::source::{Origin, Source};
use crate::system::System;
use crate::tree::Node;
use crate::words::{next_word, words};

/// How deep `Include`s may nest.
pub const INCLUDE_DEPTH_MAX: usize = 128;
/// Sections inside each other: far more than anybody writes, and little enough for the stack of a child that reads an
/// `.htaccess` file of somebody who wants to end it (as Apache's children end).
pub const SECTION_DEPTH_MAX: usize = 200;
/// The version that `<IfVersion>` compares with, and that the server says it is compatible to.
pub const VERSION: (u32, u32, u32) = (2, 4, 71);

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

/// What reading leaves behind for later: modules, variables, macros, directories. Needed again for `.htaccess` files.
#[derive(Clone)]
pub struct Language {
    known: &'static [&'static ModuleInfo],
    unselected: &'static [&'static ModuleInfo],
    selected: Option<Vec<&'static ModuleInfo>>,
    /// Names in the order in which they were first defined, with difference of case.
    defines: Vec<String>,
    /// Values, by name in lower case.
    values: BTreeMap<String, String>,
    macros: BTreeMap<String, Arc<Macro>>,
    /// What modules keep for lines that come later, `.htaccess` files included (`<AuthzProviderAlias>`).
    pub kept: SettingsMap,
    /// `ServerRoot`, as it is at this line.
    pub server_root: String,
    /// `DefaultRuntimeDir`, absolute.
    pub runtime_dir: Option<String>,
}

impl Language {
    /// Nothing read yet. `known` are all modules of the program, `unselected` those which a configuration without any
    /// `LoadModule` line has.
    pub fn new(
        known: &'static [&'static ModuleInfo],
        unselected: &'static [&'static ModuleInfo],
        server_root: &str,
    ) -> Language {
        Language {
            known,
            unselected,
            selected: None,
            defines: Vec::new(),
            values: BTreeMap::new(),
            macros: BTreeMap::new(),
            kept: SettingsMap::default(),
            server_root: server_root.to_string(),
            runtime_dir: None,
        }
    }

    /// Where what runs keeps its files: `DefaultRuntimeDir`, or `logs` below `ServerRoot`.
    pub fn runtime_dir(&self) -> Cow<'_, str> {
        match &self.runtime_dir {
            Some(path) => path.into(),
            None => join(&self.server_root, "logs").into(),
        }
    }

    /// The modules loaded so far: the linked ones first, then in the order of their `LoadModule` lines. Without any
    /// `LoadModule` line there is what an httpd with everything linked in would have.
    /// Where they name no MPM, there is the one that an unselecting configuration has.
    pub fn loaded(&self) -> Vec<&'static ModuleInfo> {
        let Some(selected) = &self.selected else { return self.unselected.to_vec() };
        let is_mpm = |info: &&&'static ModuleInfo| info.id.starts_with("mpm_");
        let mut loaded = selected.clone();
        if !loaded.iter().any(|info| is_mpm(&info)) {
            loaded.extend(self.unselected.iter().find(is_mpm));
        }
        loaded
    }

    /// Whether a `LoadModule` line chose the modules.
    pub fn selects_modules(&self) -> bool {
        self.selected.is_some()
    }

    /// `-D NAME`, or `Define NAME [VALUE]`; without a value an earlier one stays. As in Apache, the case of a name counts for
    /// whether it is defined, and not for its value.
    pub fn define(&mut self, name: &str, value: Option<&str>) {
        if !self.is_defined(name) {
            self.defines.push(name.to_string());
        }
        if let Some(value) = value {
            self.values.insert(name.to_ascii_lowercase(), value.to_string());
        }
    }

    fn undefine(&mut self, name: &str) {
        self.defines.retain(|have| have != name);
        self.values.remove(&name.to_ascii_lowercase());
    }

    /// Whether a name is defined, with difference of case.
    pub fn is_defined(&self, name: &str) -> bool {
        self.defines.iter().any(|have| have == name)
    }

    /// The defined names with their values.
    pub fn defines(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.defines.iter().map(|name| (name.as_str(), self.defined_value(name)))
    }

    fn defined_value(&self, name: &str) -> Option<&str> {
        self.values.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    fn value(&self, name: &str, system: &dyn System) -> Option<String> {
        self.defined_value(name).map(str::to_string).or_else(|| system.env(name))
    }
}

/// A file that was read, for `-t -DDUMP_INCLUDES`.
#[derive(Clone, Debug)]
pub struct Included {
    /// How many `Include`s deep.
    pub depth: usize,
    /// The line of the `Include`; `None` for the main file.
    pub line: Option<u32>,
    /// The file.
    pub file: String,
}

/// A line that was obeyed at once and left no trace in the tree.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The directive and what follows it.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
    /// Of a section: whether what stands inside was read.
    pub holds: Option<bool>,
}

/// Reads configuration texts.
pub struct Reader {
    system: Arc<dyn System>,
    /// What was learnt.
    pub language: Language,
    /// What was worth saying.
    pub notices: Vec<Notice>,
    /// The files read, in order.
    pub included: Vec<Included>,
    /// The lines obeyed at once, in order.
    pub ran: Vec<Ran>,
    /// The line of the `Include` that ran last: Apache gives it to all files that are read until the next one runs.
    include_line: Option<u32>,
    /// How many `Include`s are running.
    include_depth: usize,
    htaccess: Option<Place>,
    /// Sections that are open around the text being read.
    around: usize,
    /// How many texts were given in memory so far.
    texts: u32,
}

/// A text being read.
pub(crate) struct Input {
    lines: Lines,
    source: Arc<Source>,
}

impl Input {
    pub(crate) fn new(bytes: Vec<u8>, max: usize, source: Source) -> Input {
        Input { lines: Lines::new(bytes, max), source: Arc::new(source) }
    }

    /// The next line that says something, and where it stands.
    pub(crate) fn next(&mut self) -> Result<Option<(Origin, String)>, Error> {
        loop {
            match self.next_or_blank()? {
                Some((_, text)) if text.is_empty() => {}
                line => return Ok(line),
            }
        }
    }

    /// The next line, which may be empty, and where it stands.
    pub(crate) fn next_or_blank(&mut self) -> Result<Option<(Origin, String)>, Error> {
        match self.lines.next() {
            Ok(line) => Ok(line.map(|line| (self.at(line.number), line.text))),
            Err(text) => {
                let at = self.at(self.lines.number());
                let message = format!("Error reading {} at line {}: {text}", at.file(), at.line);
                Err(Error::at(Phase::Read, &at, message))
            }
        }
    }

    fn at(&self, line: u32) -> Origin {
        Origin { source: self.source.clone(), line }
    }
}

/// A section whose end has not been seen.
struct Open {
    node: Node,
}

impl Reader {
    /// Reads for the server itself.
    pub fn new(system: Arc<dyn System>, language: Language) -> Reader {
        Reader {
            system,
            language,
            notices: Vec::new(),
            included: Vec::new(),
            ran: Vec::new(),
            include_line: None,
            include_depth: 0,
            htaccess: None,
            around: 0,
            texts: 0,
        }
    }

    /// Reads an `.htaccess` file at `place`: fewer directives, shorter lines.
    pub fn htaccess(system: Arc<dyn System>, language: Language, place: Place) -> Reader {
        Reader { htaccess: Some(place), ..Reader::new(system, language) }
    }

    /// Reads a text that is already in memory.
    pub fn read_text(&mut self, name: &str, text: Vec<u8>) -> Result<Vec<Node>, Error> {
        let max = if self.htaccess.is_some() { LINE_MAX_HTACCESS } else { LINE_MAX };
        let source = Source { nth: self.texts, ..Source::new(name) };
        self.texts += 1;
        self.read_input(&mut Input::new(text, max, source), None)
    }

    /// Reads a file, or, if it is a directory, all files below it.
    pub fn read_file(&mut self, path: &str) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        self.read_path(path, None, &mut nodes).map_err(|message| match message {
            Stop::Message(message) => Error { phase: Phase::Read, message, origin: None, hint: None },
            Stop::Error(error) => error,
        })?;
        Ok(nodes)
    }

    /// Reads lines up to the end, or up to the line `</CLOSE` (with its `>`) of a conditional section.
    pub(crate) fn read_input(&mut self, input: &mut Input, close: Option<&str>) -> Result<Vec<Node>, Error> {
        let mut open: Vec<Open> = Vec::new();
        let mut top: Vec<Node> = Vec::new();
        while let Some((origin, line)) = input.next()? {
            if let Some(close) = close
                && open.is_empty()
                && line.strip_prefix("</").is_some_and(|end| end.eq_ignore_ascii_case(close))
            {
                return Ok(top);
            }
            self.read_line(&origin, &line, input, &mut open, &mut top)?;
        }
        match open.first() {
            None => Ok(top),
            Some(outermost) => {
                let unclosed = open.iter().rev().map(|open| {
                    let node = &open.node;
                    format!("{}:{}: {}> was not closed.", node.origin.file(), node.origin.line, node.name)
                });
                let message = unclosed.collect::<Vec<_>>().join("\n");
                Err(Error::at(Phase::Read, &outermost.node.origin, message))
            }
        }
    }

    fn read_line(
        &mut self,
        origin: &Origin,
        line: &str,
        input: &mut Input,
        open: &mut Vec<Open>,
        top: &mut Vec<Node>,
    ) -> Result<(), Error> {
        let fail = |message: String| Error::at(Phase::Read, origin, message);
        let line = self.expand(line);
        let mut args = line.as_str();
        let mut name = next_word(&mut args);
        if !name.starts_with("</") {
            if name.starts_with('<') && self.around + open.len() >= SECTION_DEPTH_MAX {
                return Err(fail(format!("{name} is the innermost of more than {SECTION_DEPTH_MAX} sections")));
            }
            if let Some(stripped) = name.strip_suffix('>') {
                name = stripped.to_string();
                if name.starts_with('<') && args.is_empty() {
                    args = ">";
                }
            }
            if let Some((_, row)) = find(&self.language.loaded(), &name)
                && let Args::OnRead(action) = row.args
            {
                let inside = open.len() + usize::from(name.starts_with('<'));
                self.around += inside;
                let nodes = self.run(action, row, args, origin, input);
                self.around -= inside;
                let nodes = nodes.map_err(|stop| match stop {
                    Stop::Message(message) => fail(message),
                    Stop::Error(error) => error,
                })?;
                open.last_mut().map_or(top, |open| open.node.children.get_or_insert_default()).extend(nodes);
                return Ok(());
            }
        }
        if name.starts_with("</") {
            let node = close(&name, open).map_err(fail)?;
            open.last_mut().map_or(top, |open| open.node.children.get_or_insert_default()).push(node);
            return Ok(());
        }
        let section = name.starts_with('<');
        let node = Node { name, args: args.to_string(), origin: origin.clone(), children: section.then(Vec::new) };
        if section {
            open.push(Open { node });
        } else {
            open.last_mut().map_or(top, |open| open.node.children.get_or_insert_default()).push(node);
        }
        Ok(())
    }

    /// Replaces each `${NAME}`: once, in the whole line. Unknown ones stay and are warned of, those with `:` silently.
    fn expand(&mut self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(start) = rest.find("${") {
            let Some(end) = rest[start..].find('}').map(|end| start + end) else { break };
            let name = &rest[start + 2..end];
            out.push_str(&rest[..start]);
            match self.language.value(name, &*self.system) {
                Some(value) => out.push_str(&value),
                None => {
                    if !name.contains(':') {
                        self.warn("core", format!("AH00111: Config variable ${{{name}}} is not defined"));
                    }
                    out.push_str(&rest[start..=end]);
                }
            }
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        out
    }

    pub(crate) fn warn(&mut self, module: &'static str, text: String) {
        self.notices.push(Notice { module, level: Level::Warn, text, bare: false, origin: None });
    }

    /// Runs a directive of the language; what it yields takes its place in the tree.
    fn run(
        &mut self,
        action: OnRead,
        row: &'static Directive,
        args: &str,
        origin: &Origin,
        input: &mut Input,
    ) -> Result<Vec<Node>, Stop> {
        if let Some(place) = &self.htaccess
            && !row.allowed.meets(place.allowed)
        {
            return Err(format!("{} not allowed here", row.name).into());
        }
        self.ran.push(Ran { text: format!("{} {args}", row.name), origin: origin.clone(), holds: None });
        match action {
            OnRead::LoadModule => self.load_module(&take(row, args, &[2])?)?,
            OnRead::LoadFile => {
                if args.is_empty() {
                    return Err(format!("{} requires at least one argument, {}", row.name, row.help).into());
                }
            }
            OnRead::Define => {
                let words = take(row, args, &[1, 2])?;
                self.check_variable(&words[0])?;
                self.language.define(&words[0], words.get(1).map(String::as_str));
            }
            OnRead::UnDefine => {
                let words = take(row, args, &[1])?;
                self.check_variable(&words[0])?;
                self.language.undefine(&words[0]);
            }
            OnRead::ServerRoot => {
                let path = join(&self.language.server_root, &take(row, args, &[1])?[0]);
                if !self.system.is_dir(&path) {
                    return Err("ServerRoot must be a valid directory".into());
                }
                self.language.server_root = path;
            }
            OnRead::DefaultRuntimeDir => {
                let path = join(&self.language.server_root, &take(row, args, &[1])?[0]);
                if !self.system.is_dir(&path) {
                    return Err(
                        "DefaultRuntimeDir must be a valid directory, absolute or relative to ServerRoot".into()
                    );
                }
                self.language.runtime_dir = Some(path);
            }
            OnRead::Include => return self.include(&take(row, args, &[1])?[0], false, origin),
            OnRead::IncludeOptional => return self.include(&take(row, args, &[1])?[0], true, origin),
            OnRead::Macro => {
                let defined = macros::define(self, section_argument(row.name, args)?, origin, input)?;
                self.language.macros.insert(defined.name.clone(), Arc::new(defined));
            }
            OnRead::Use => return self.use_macro(args, origin),
            OnRead::UndefMacro => {
                let name = take(row, args, &[1])?.remove(0).to_ascii_lowercase();
                if self.language.macros.remove(&name).is_none() {
                    return Err(format!("cannot remove undefined macro '{name}'").into());
                }
            }
            _ => {
                let holds = self.condition(action, row, section_argument(row.name, args)?)?;
                let close = format!("{}>", &row.name[1..]);
                self.ran.iter_mut().next_back().into_iter().for_each(|ran| ran.holds = Some(holds));
                if holds {
                    return Ok(self.read_input(input, Some(&close))?);
                }
                skip(input, &row.name[1..])?;
            }
        }
        Ok(Vec::new())
    }

    fn check_variable(&mut self, name: &str) -> Result<(), Stop> {
        if name.contains(':') { Err("Variable name must not contain ':'".into()) } else { Ok(()) }
    }

    fn load_module(&mut self, words: &[String]) -> Result<(), Stop> {
        let (id, file) = (&words[0], &words[1]);
        let known = self.language.known;
        let Some(info) = known.iter().find(|info| info.id == id) else {
            return Err(format!(
                "Cannot load {file} into server: there is no module {id} here; remove this line, or keep what needs \
                 it inside <IfModule {id}>"
            )
            .into());
        };
        let linked = || known.iter().copied().filter(|info| info.linked).collect();
        let selected = self.language.selected.get_or_insert_with(linked);
        if !selected.iter().any(|have| have.id == *id) {
            selected.push(info);
        } else if !info.linked {
            // A module that is always in may be named by a configuration from a system where it is not.
            self.warn("so", format!("AH01574: module {id} is already loaded, skipping"));
        }
        Ok(())
    }

    fn condition(&mut self, action: OnRead, row: &Directive, argument: &str) -> Result<bool, Stop> {
        let (not, argument) = match argument.strip_prefix('!') {
            Some(rest) if action != OnRead::IfVersion => (true, rest),
            _ => (false, argument),
        };
        if argument.is_empty() {
            return Err(format!("{}> directive requires additional arguments", row.name).into());
        }
        let mut rest = argument;
        let word = next_word(&mut rest);
        let holds = match action {
            OnRead::IfModule => self.language.loaded().iter().any(|info| info.id == word || info.source == word),
            OnRead::IfDefine => self.language.is_defined(&word),
            OnRead::IfFile => self.system.exists(&join(&self.language.server_root, &word)),
            OnRead::IfDirective => find(&self.language.loaded(), &word).is_some(),
            OnRead::IfSection => find(&self.language.loaded(), &format!("<{word}")).is_some(),
            OnRead::IfVersion => return Ok(version_holds(argument)?),
            _ => unreachable!("only conditional sections come here"),
        };
        Ok(holds != not)
    }

    fn use_macro(&mut self, args: &str, origin: &Origin) -> Result<Vec<Node>, Stop> {
        let mut values = words(args);
        if values.is_empty() {
            return Err("no macro name specified with Use".into());
        }
        let name = values.remove(0).to_ascii_lowercase();
        let Some(definition) = self.language.macros.get(&name).cloned() else {
            return Err(format!("macro '{name}' undefined").into());
        };
        if definition.contains(origin) {
            return Err(format!("recursive use of macro '{name}' is invalid").into());
        }
        if origin.depth() >= INCLUDE_DEPTH_MAX {
            return Err(too_deep());
        }
        let (text, warnings) = definition.expand(&values)?;
        for warning in warnings {
            self.warn("macro", warning);
        }
        let title = definition.title(origin);
        let mut input =
            Input::new(text, LINE_MAX, Source { included_from: Some(origin.clone()), ..Source::new(title) });
        Ok(self.read_input(&mut input, None)?)
    }

    fn include(&mut self, path: &str, optional: bool, origin: &Origin) -> Result<Vec<Node>, Stop> {
        if origin.depth() >= INCLUDE_DEPTH_MAX {
            return Err(too_deep());
        }
        let path = join(&self.language.server_root, path);
        self.include_line = Some(origin.line);
        self.include_depth += 1;
        let nodes = self.include_path(&path, optional, origin);
        self.include_depth -= 1;
        nodes
    }

    fn include_path(&mut self, path: &str, optional: bool, origin: &Origin) -> Result<Vec<Node>, Stop> {
        let mut nodes = Vec::new();
        if fnmatch::is_pattern(path) {
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            self.include_matching("/", &parts, optional, origin, &mut nodes)?;
        } else if !optional || self.system.exists(path) {
            self.read_path(path, Some(origin), &mut nodes)?;
        }
        Ok(nodes)
    }

    /// Walks `parts` below `dir`; wildcards in any of them.
    fn include_matching(
        &mut self,
        dir: &str,
        parts: &[&str],
        optional: bool,
        origin: &Origin,
        nodes: &mut Vec<Node>,
    ) -> Result<(), Stop> {
        let Some((part, rest)) = parts.split_first() else {
            return self.read_path(dir, Some(origin), nodes);
        };
        if !fnmatch::is_pattern(part) {
            return self.include_matching(&join(dir, part), rest, optional, origin, nodes);
        }
        let mut names = match self.system.list(dir) {
            Ok(names) => names,
            Err(_) if optional => return Ok(()),
            Err(error) => {
                let why = reason(&error);
                return Err(format!("Include/IncludeOptional: Could not open directory {dir}: {why}").into());
            }
        };
        names.retain(|name| fnmatch::fnmatch(part, name, fnmatch::Flags::PERIOD));
        if !rest.is_empty() {
            names.retain(|name| self.system.is_dir(&join(dir, name)));
        }
        names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        if names.is_empty() && !optional {
            let message = format!("Include/IncludeOptional: No matches for the wildcard '{part}' in '{dir}', failing");
            return Err(message.into());
        }
        for name in names {
            let path = join(dir, &name);
            // Below a directory that matched, a missing plain part is no error: another directory may have it.
            if rest.iter().all(|part| !fnmatch::is_pattern(part)) && !rest.is_empty() {
                let full = join(&path, &rest.join("/"));
                if self.system.exists(&full) {
                    self.read_path(&full, Some(origin), nodes)?;
                }
            } else {
                self.include_matching(&path, rest, optional, origin, nodes)?;
            }
        }
        Ok(())
    }

    /// Reads one path: a file, or every file below a directory.
    fn read_path(&mut self, path: &str, from: Option<&Origin>, nodes: &mut Vec<Node>) -> Result<(), Stop> {
        if self.system.is_dir(path) {
            let mut names = self
                .system
                .list(path)
                .map_err(|error| format!("Could not open config directory {path}: {}", reason(&error)))?;
            names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
            return names.iter().try_for_each(|name| self.read_path(&join(path, name), from, nodes));
        }
        let bytes = self
            .system
            .read(path)
            .map_err(|error| format!("Could not open configuration file {path}: {}", reason(&error)))?;
        self.included.push(Included { depth: self.include_depth, line: self.include_line, file: path.to_string() });
        let mut input = Input::new(bytes, LINE_MAX, Source { included_from: from.cloned(), ..Source::new(path) });
        nodes.extend(self.read_input(&mut input, None)?);
        Ok(())
    }
}

/// Why reading stops: a message of the line at hand, or an error that knows its line.
pub(crate) enum Stop {
    Message(String),
    Error(Error),
}

impl From<String> for Stop {
    fn from(message: String) -> Stop {
        Stop::Message(message)
    }
}

impl From<&str> for Stop {
    fn from(message: &str) -> Stop {
        Stop::Message(message.to_string())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

fn too_deep() -> Stop {
    format!("Exceeded maximum include depth of {INCLUDE_DEPTH_MAX}, There appears to be a recursion.").into()
}

/// The system's words for an error, without Rust's number behind them.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

/// Ends the innermost section with the line `name` (`</Directory>`).
fn close(name: &str, open: &mut Vec<Open>) -> Result<Node, String> {
    let bare = name.strip_suffix('>').unwrap_or(name);
    let Some(innermost) = open.pop() else {
        return Err(format!("{bare}> without matching <{}> section", &bare[2..]));
    };
    if bare == name {
        return Err(format!("{name}> directive missing closing '>'"));
    }
    if !bare[2..].eq_ignore_ascii_case(&innermost.node.name[1..]) {
        return Err(format!("Expected </{}> but saw {bare}>", &innermost.node.name[1..]));
    }
    Ok(innermost.node)
}

/// Skips the body of a false conditional section, by counting tags only.
fn skip(input: &mut Input, name: &str) -> Result<(), Stop> {
    let mut open = vec![name.to_string()];
    while let Some(innermost) = open.last() {
        let Some((_, line)) = input.next()? else {
            return Err(format!("Expected </{innermost}> before end of configuration").into());
        };
        // As in Apache, what is wrong inside is reported for the line of the section.
        let fail = |message: String| Stop::from(message);
        let mut rest = line.as_str();
        let word = next_word(&mut rest);
        if let Some(close) = word.strip_prefix("</") {
            let Some(close) = close.strip_suffix('>') else {
                return Err(fail(format!("</{close}> directive missing closing '>'")));
            };
            if !close.eq_ignore_ascii_case(innermost) {
                return Err(fail(format!("Expected </{innermost}> but saw </{close}>")));
            }
            open.pop();
        } else if let Some(section) = word.strip_prefix('<') {
            open.push(section.strip_suffix('>').unwrap_or(section).to_string());
        }
    }
    Ok(())
}

/// `<IfVersion [[!]operator] version>` (Apache manual, mod_version).
fn version_holds(argument: &str) -> Result<bool, String> {
    let (first, second) = match argument.split_once(char::is_whitespace) {
        Some((operator, version)) => (operator, Some(version.trim())),
        None => (argument, None),
    };
    let (not, operator) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first),
    };
    let Some(version) = second else { return Ok(compare(operator)?.is_eq() != not) };
    let regex = match operator {
        "~" => Some(version),
        "=" | "==" => version.strip_prefix('/').and_then(|v| v.strip_suffix('/')),
        _ => None,
    };
    if let Some(text) = regex {
        let (major, minor, patch) = VERSION;
        let regex = pattern::Regex::new(text, pattern::Flags::default())
            .map_err(|_| "Unable to compile regular expression".to_string())?;
        let matched = regex.is_match(&format!("{major}.{minor}.{patch}")).unwrap_or(false);
        return Ok(matched != not);
    }
    let order = compare(version)?;
    let holds = match operator {
        "=" | "==" => order.is_eq(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        _ => return Err(format!("unrecognized operator '{operator}'")),
    };
    Ok(holds != not)
}

/// How our version compares with `text`; parts that are missing are 0.
fn compare(text: &str) -> Result<std::cmp::Ordering, String> {
    let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([major]) => Ok(VERSION.cmp(&(*major, 0, 0))),
        Some([major, minor]) => Ok(VERSION.cmp(&(*major, *minor, 0))),
        Some([major, minor, patch]) => Ok(VERSION.cmp(&(*major, *minor, *patch))),
        _ => {
            Err("Version appears to be invalid. It must have the format major[.minor[.patch]] where major, minor and \
                  patch are numbers."
                .into())
        }
    }
}
