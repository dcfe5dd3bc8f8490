//! Reads text into a tree, and runs the directives that decide what is read at all.
//!
//! Apache manual: "Configuration Files", "Configuration Sections"; doubtful cases measured on 2.4.71.

mod condition;
mod include;
mod input;
mod macros;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::include::reason;
use self::input::Input;
use crate::arguments::{section_argument, take};
use crate::context::DirectiveContext;
use crate::directive::{Args, Context, Directive, OnRead};
use crate::error::{Cause, Error, Errors, Level, Notice, Phase};
use crate::excerpt::Spot;
use crate::language::Language;
use crate::lines::{LINE_MAX, LINE_MAX_HTACCESS};
use crate::paths::join;
use crate::refusal::{Failure, Refusal};
use crate::source::{Origin, Source};
use crate::system::System;
use crate::tree::Node;
use crate::words::{next_word, words};

/// How deep `Include`s may nest.
///
/// Fuzzers include files in themselves most of the time, and learn nothing new from the last hundred.
pub const INCLUDE_DEPTH_MAX: usize = if cfg!(fuzzing) { 4 } else { 128 };
/// How deep sections may nest: far more than a real configuration needs, and few enough that a malicious `.htaccess`
/// file cannot overflow a child's stack (which ends Apache's children).
pub const SECTION_DEPTH_MAX: usize = 200;
/// The most text that a configuration may come to, in bytes, each line with [`LINE_COST`] of them: files count as often as
/// they are included, and so do macros and variables. A few lines that include, use or define each other twice double this
/// with each step; a server with 100 000 virtual hosts of ten lines needs a third of it.
pub const TEXT_MAX: usize = 256 << 20;
/// The most text that an `.htaccess` file, which anybody may write, may come to, in bytes.
const TEXT_MAX_HTACCESS: usize = 64 << 20;
/// What a line needs in memory beside its text, and what a text that is included or used needs beside its name.
const LINE_COST: usize = 64;
const SOURCE_COST: usize = 512;

/// A file that was read, for `-t -DDUMP_INCLUDES`.
#[derive(Clone, Debug)]
pub struct Included {
    /// How many `Include`s deep.
    pub depth: usize,
    /// The line of the `Include`; `None` for the main file.
    pub line: Option<u32>,
    /// The path of the file.
    pub file: String,
}

/// A line that ran while it was read, and is not in the tree.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The directive and what follows it.
    pub text: String,
    /// Its file and line.
    pub origin: Origin,
    /// For a section: whether its contents were read.
    pub holds: Option<bool>,
}

/// Reads configuration texts.
pub struct Reader {
    system: Arc<dyn System>,
    /// The modules, variables and macros so far.
    pub language: Language,
    /// The notices so far.
    pub notices: Vec<Notice>,
    /// How to handle errors.
    pub errors: Errors,
    /// The files read, in order.
    pub included: Vec<Included>,
    /// The lines that ran while they were read, in order.
    pub ran: Vec<Ran>,
    /// The line of the `Include` that ran last: Apache reports it for all files that are read until the next one runs.
    include_line: Option<u32>,
    /// How many `Include`s are running.
    include_depth: usize,
    htaccess: Option<DirectiveContext>,
    /// Sections that are open around the text being read.
    around: usize,
    /// How many texts have been read from memory so far.
    texts: u32,
    /// Whether there was a `LoadModule` line, even in a section that is skipped.
    names_modules: bool,
    /// How much of [`TEXT_MAX`] is used.
    spent: usize,
    /// Used up, and that was reported.
    is_too_large: bool,
    /// The contents of files already read, by name.
    files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl Reader {
    /// Makes a reader for the server's own configuration.
    pub fn new(system: Arc<dyn System>, language: Language) -> Reader {
        Reader {
            system,
            language,
            notices: Vec::new(),
            errors: Errors::first(),
            included: Vec::new(),
            ran: Vec::new(),
            include_line: None,
            include_depth: 0,
            htaccess: None,
            around: 0,
            texts: 0,
            spent: 0,
            is_too_large: false,
            names_modules: false,
            files: BTreeMap::new(),
        }
    }

    /// Reads `texts`. A configuration with a `LoadModule` line anywhere has only the modules that it loads, even above
    /// that line, and even if a false section skips the line. This is certain only after everything was read, so such a
    /// configuration is read a second time, from the same bytes. It is also read again after an error, because a module
    /// that it does not load may be the cause.
    pub fn read_all(
        system: &Arc<dyn System>,
        language: &Language,
        errors: &Errors,
        texts: impl Fn(&mut Reader) -> Result<Vec<Node>, Error>,
    ) -> (Reader, Result<Vec<Node>, Error>) {
        let mut reader = Reader { errors: errors.anew(), ..Reader::new(system.clone(), language.clone()) };
        let read = texts(&mut reader);
        if read.is_ok() && reader.errors.kept().is_empty() && !reader.names_modules {
            return (reader, read);
        }
        let mut language = language.clone();
        language.select_modules();
        let files = std::mem::take(&mut reader.files);
        let mut again = Reader { files, errors: errors.anew(), ..Reader::new(system.clone(), language) };
        let read_again = texts(&mut again);
        if reader.names_modules || again.names_modules { (again, read_again) } else { (reader, read) }
    }

    /// Makes a reader for an `.htaccess` file at `place`: fewer directives, shorter lines.
    pub fn htaccess(system: Arc<dyn System>, language: Language, place: DirectiveContext) -> Reader {
        Reader { htaccess: Some(place), ..Reader::new(system, language) }
    }

    /// Reads a text that is already in memory.
    pub fn read_text(&mut self, name: &str, text: Vec<u8>) -> Result<Vec<Node>, Error> {
        let max = if self.htaccess.is_some() { LINE_MAX_HTACCESS } else { LINE_MAX };
        let text = Arc::new(text);
        let shown = if self.htaccess.is_some() { Arc::default() } else { text.clone() };
        let source = Source { nth: self.texts, text: shown, ..Source::new(name) };
        self.texts += 1;
        self.read_input(&mut Input::new(text, max, source), None)
    }

    /// Reads a file, or, if it is a directory, all files below it.
    pub fn read_file(&mut self, path: &str) -> Result<Vec<Node>, Error> {
        let read = self.read_files(path, false, None).map_err(|failure| match failure {
            Failure::Refused(refusal) => refusal.error(Phase::Read, None, ""),
            Failure::Inner(error) => *error,
        });
        read.or_else(|error| self.errors.meet(error).map(|()| Vec::new()))
    }

    /// The state that the lines leave behind, to apply those that were read.
    pub fn into_context(self) -> Context {
        let Reader { system, language, notices, errors, .. } = self;
        Context { system, language, notices, errors }
    }

    /// Reads lines up to the end, or up to the line `</CLOSE` (with its `>`) of a conditional section.
    fn read_input(&mut self, input: &mut Input, close: Option<&str>) -> Result<Vec<Node>, Error> {
        // The sections whose ends have not been read yet, the innermost last.
        let mut open: Vec<Node> = Vec::new();
        let mut top: Vec<Node> = Vec::new();
        loop {
            let (origin, line) = match input.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.errors.meet(error)?;
                    continue;
                }
            };
            if !self.spend(line.len() + LINE_COST, &origin)? {
                return Ok(top);
            }
            let is_end =
                close.is_some_and(|close| line.strip_prefix("</").is_some_and(|end| end.eq_ignore_ascii_case(close)));
            if is_end && open.is_empty() {
                return Ok(top);
            }
            if let Err(error) = self.read_line(&origin, &line, input, &mut open, &mut top) {
                self.meet(error, input)?;
                let Some(end) = line.strip_prefix("</") else { continue };
                // If an end tag matches an outer section, it also ends the sections inside. If it matches none, it
                // counts as a misspelled end of the innermost one.
                let end = end.trim_end_matches('>');
                let fits = open.iter().rposition(|open| end.eq_ignore_ascii_case(&open.name[1..]));
                match fits {
                    Some(left) => end_all(&mut open, left, &mut top),
                    None if is_end => {
                        end_all(&mut open, 0, &mut top);
                        return Ok(top);
                    }
                    None => {
                        let left = open.len().saturating_sub(1);
                        end_all(&mut open, left, &mut top);
                    }
                }
            }
        }
        if let Some(outermost) = open.first() {
            let unclosed = open.iter().rev().map(|section| {
                let Node { name, origin, .. } = section;
                format!("{}:{}: {name}> was not closed.", origin.file(), origin.line)
            });
            let message = unclosed.collect::<Vec<_>>().join("\n");
            if !input.is_unbalanced {
                self.errors.meet(Error::at(Phase::Read, &outermost.origin, message))?;
            }
            end_all(&mut open, 0, &mut top);
        }
        Ok(top)
    }

    /// Meets an error in a line. Only the first wrong end tag of a text is reported: it makes others wrong that are not.
    fn meet(&mut self, error: Error, input: &mut Input) -> Result<(), Error> {
        let is_end = matches!(error.cause(), Some(Cause::EndTag(_)));
        if is_end && self.errors.go_on() && std::mem::replace(&mut input.is_unbalanced, true) {
            return Ok(());
        }
        self.errors.meet(error)
    }

    fn read_line(
        &mut self,
        origin: &Origin,
        line: &str,
        input: &mut Input,
        open: &mut Vec<Node>,
        top: &mut Vec<Node>,
    ) -> Result<(), Error> {
        let fail = |message: String| Error::at(Phase::Read, origin, message);
        let line = self.expand(line, origin).map_err(fail)?;
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
            if let Some(row) = self.language.directive(&name)
                && let Args::OnRead(action) = row.args
            {
                let inside = open.len() + usize::from(name.starts_with('<'));
                self.around += inside;
                let nodes = self.run(action, row, args, origin, input);
                self.around -= inside;
                let nodes = nodes.map_err(|failure| match failure {
                    Failure::Refused(refusal) => refusal.error(Phase::Read, Some(origin), args),
                    Failure::Inner(error) => *error,
                })?;
                contents(open, top).extend(nodes);
                return Ok(());
            }
        }
        if name.starts_with("</") {
            let ends = check_end(&name, open.last());
            ends.map_err(|refusal| refusal.error(Phase::Read, Some(origin), args))?;
            end_all(open, open.len().saturating_sub(1), top);
            return Ok(());
        }
        let section = name.starts_with('<');
        if FOREIGN.iter().any(|foreign| name.eq_ignore_ascii_case(foreign)) {
            let skipped = skip_foreign(input, &name[1..]);
            skipped.map_err(|refusal| refusal.at(Spot::Word(0)).error(Phase::Read, Some(origin), args))?;
            let node = Node { name, args: args.to_string(), origin: origin.clone(), children: Some(Vec::new()) };
            contents(open, top).push(node);
            return Ok(());
        }
        let node = Node { name, args: args.to_string(), origin: origin.clone(), children: section.then(Vec::new) };
        if section {
            open.push(node);
        } else {
            contents(open, top).push(node);
        }
        Ok(())
    }

    /// Counts text; `false`: there is too much, which was reported, and nothing more is to be read.
    fn spend(&mut self, bytes: usize, origin: &Origin) -> Result<bool, Error> {
        let most = if self.htaccess.is_some() { TEXT_MAX_HTACCESS } else { TEXT_MAX };
        self.spent = self.spent.saturating_add(bytes);
        if self.spent > most && !std::mem::replace(&mut self.is_too_large, true) {
            let what = "with all that Include, Use and Define add: they seem to repeat each other";
            let message = format!("The configuration is larger than {} MiB {what}", most >> 20);
            self.errors.meet(Error::at(Phase::Read, origin, message))?;
        }
        Ok(self.spent <= most)
    }

    /// Replaces each `${NAME}` in the line, without replacing inside values again. Unknown ones stay, with a warning;
    /// those with `:` stay silently.
    fn expand(&mut self, line: &str, origin: &Origin) -> Result<String, String> {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(start) = rest.find("${") {
            let Some(end) = rest[start..].find('}').map(|end| start + end) else { break };
            let name = &rest[start + 2..end];
            out.push_str(&rest[..start]);
            match self.language.value(name, &*self.system) {
                Some(value) if out.len() + value.len() > LINE_MAX => {
                    return Err(format!("with the value of ${{{name}}} the line is longer than {LINE_MAX} bytes"));
                }
                Some(value) => {
                    out.push_str(&value);
                    self.spent = self.spent.saturating_add(value.len());
                }
                None => {
                    if !name.contains(':') {
                        let text = format!("AH00111: Config variable ${{{name}}} is not defined");
                        let cause = Cause::UndefinedVariable(name.to_string());
                        self.warn_of(origin, Notice::new("core", Level::Warn, text).because(cause));
                    }
                    out.push_str(&rest[start..=end]);
                }
            }
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn warn(&mut self, origin: &Origin, module: &'static str, text: String) {
        self.warn_of(origin, Notice::new(module, Level::Warn, text));
    }

    fn warn_of(&mut self, origin: &Origin, notice: Notice) {
        self.notices.push(Notice { origin: Some(origin.clone()), ..notice });
    }

    /// Runs a directive of the language; the resulting nodes replace it in the tree.
    fn run(
        &mut self,
        action: OnRead,
        row: &'static Directive,
        args: &str,
        origin: &Origin,
        input: &mut Input,
    ) -> Result<Vec<Node>, Failure> {
        if let Some(place) = &self.htaccess
            && !row.allowed.meets(place.allowed)
        {
            let message = format!("{} not allowed here", row.name);
            return Err(Refusal::from(message).at(Spot::Word(0)).because(Cause::NotAllowed).into());
        }
        self.ran.push(Ran { text: format!("{} {args}", row.name), origin: origin.clone(), holds: None });
        match action {
            OnRead::LoadModule => {
                self.names_modules = true;
                let words = take(row, args, &[2])?;
                let loaded = self
                    .language
                    .load(&words[0], &words[1])
                    .map_err(|message| Refusal::argument(1, message).because(Cause::UnknownModule(words[0].clone())));
                if let Some(warning) = loaded? {
                    self.warn(origin, "so", warning);
                }
            }
            OnRead::LoadFile => {
                if args.is_empty() {
                    let message = format!("{} requires at least one argument, {}", row.name, row.help);
                    return Err(Refusal::missing(message).into());
                }
            }
            OnRead::Define => {
                let words = take(row, args, &[1, 2])?;
                check_variable(&words[0])?;
                self.language.define(&words[0], words.get(1).map(String::as_str));
            }
            OnRead::UnDefine => {
                let words = take(row, args, &[1])?;
                check_variable(&words[0])?;
                self.language.undefine(&words[0]);
            }
            OnRead::ServerRoot => {
                let path = join(&self.language.server_root, &take(row, args, &[1])?[0]);
                if !self.system.is_dir(&path) {
                    return Err("ServerRoot must be a valid directory".into());
                }
                self.language.server_root = path;
            }
            OnRead::DefaultRuntimeDir => self.set_runtime_dir(&take(row, args, &[1])?[0])?,
            OnRead::Include => return self.include(&take(row, args, &[1])?[0], false, origin),
            OnRead::IncludeOptional => return self.include(&take(row, args, &[1])?[0], true, origin),
            OnRead::Macro => {
                let argument = section_argument(row.name, args).map_err(Failure::from);
                let defined = argument.and_then(|argument| macros::define(argument, origin, input));
                let (defined, warnings) = defined.inspect_err(|_| pass_over(input, row))?;
                warnings.into_iter().for_each(|warning| self.warn(origin, "macro", warning));
                self.language.macros.insert(defined.name.clone(), Arc::new(defined));
            }
            OnRead::Use => return self.use_macro(args, origin),
            OnRead::UndefMacro => {
                let name = take(row, args, &[1])?.remove(0).to_ascii_lowercase();
                if self.language.macros.remove(&name).is_none() {
                    return Err(format!("cannot remove undefined macro '{name}'").into());
                }
            }
            OnRead::MacroIgnoreEmptyArgs | OnRead::MacroIgnoreBadNesting => {}
            _ => return self.run_condition(action, row, args, input),
        }
        Ok(Vec::new())
    }

    fn set_runtime_dir(&mut self, path: &str) -> Result<(), Refusal> {
        let path = join(&self.language.server_root, path);
        // On Debian the directory is in /run, which is empty after a boot: the server creates the last part of the path
        // when it starts. A variable without a value in the path is a mistake, and no name.
        let above = path.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
        let can_be_made = !path.contains("${") && self.system.is_dir(if above.is_empty() { "/" } else { above });
        if !self.system.is_dir(&path) && !can_be_made {
            return Err("DefaultRuntimeDir must be a valid directory, absolute or relative to ServerRoot".into());
        }
        self.language.runtime_dir = Some(path);
        Ok(())
    }

    /// Reads the contents of a conditional section if its condition holds, and otherwise skips them.
    fn run_condition(
        &mut self,
        action: OnRead,
        row: &'static Directive,
        args: &str,
        input: &mut Input,
    ) -> Result<Vec<Node>, Failure> {
        let holds = section_argument(row.name, args)
            .and_then(|argument| condition::holds(action, row, argument, &self.language, &*self.system));
        let holds = holds.inspect_err(|_| pass_over(input, row))?;
        if let Some(ran) = self.ran.last_mut() {
            ran.holds = Some(holds);
        }
        if holds {
            let close = format!("{}>", &row.name[1..]);
            return Ok(self.read_input(input, Some(&close))?);
        }
        let (names_modules, skipped) = skip(input, &row.name[1..]);
        self.names_modules |= names_modules;
        skipped?;
        Ok(Vec::new())
    }

    fn use_macro(&mut self, args: &str, origin: &Origin) -> Result<Vec<Node>, Failure> {
        let mut values = words(args);
        if values.is_empty() {
            return Err(Refusal::missing("no macro name specified with Use").into());
        }
        let name = values.remove(0).to_ascii_lowercase();
        let Some(definition) = self.language.macros.get(&name).cloned() else {
            return Err(Refusal::argument(1, format!("macro '{name}' undefined")).into());
        };
        if definition.contains(origin) {
            return Err(Refusal::argument(1, format!("recursive use of macro '{name}' is invalid")).into());
        }
        if origin.depth() >= INCLUDE_DEPTH_MAX {
            return Err(too_deep().into());
        }
        let (text, warnings) = definition.expand(&values, LINE_MAX, TEXT_MAX)?;
        for warning in warnings {
            self.warn(origin, "macro", warning);
        }
        let title = definition.title(origin);
        if !self.spend(text.len() + title.len() + SOURCE_COST, origin)? {
            return Ok(Vec::new());
        }
        let text = Arc::new(text);
        let source = Source { included_from: Some(origin.clone()), text: text.clone(), ..Source::new(title) };
        let mut input = Input::new(text, LINE_MAX, source);
        Ok(self.read_input(&mut input, None)?)
    }

    fn include(&mut self, path: &str, optional: bool, origin: &Origin) -> Result<Vec<Node>, Failure> {
        if origin.depth() >= INCLUDE_DEPTH_MAX {
            return Err(too_deep().into());
        }
        let path = join(&self.language.server_root, path);
        self.include_line = Some(origin.line);
        self.include_depth += 1;
        let nodes = self.read_files(&path, optional, Some(origin));
        self.include_depth -= 1;
        nodes
    }

    fn read_files(&mut self, path: &str, optional: bool, from: Option<&Origin>) -> Result<Vec<Node>, Failure> {
        let mut nodes = Vec::new();
        for file in include::files(&*self.system, path, optional)? {
            let bytes = match (self.bytes_of(&file), from) {
                (Ok(bytes), _) => bytes,
                (Err(message), Some(line)) => {
                    self.errors.meet(Error::at(Phase::Read, line, message).of(Spot::Word(1)))?;
                    continue;
                }
                (Err(message), None) => return Err(message.into()),
            };
            if let Some(line) = from
                && !self.spend(bytes.len() + file.len() + SOURCE_COST, line)?
            {
                break;
            }
            self.included.push(Included { depth: self.include_depth, line: self.include_line, file: file.clone() });
            let source = Source { included_from: from.cloned(), text: bytes.clone(), ..Source::new(file) };
            let mut input = Input::new(bytes, LINE_MAX, source);
            nodes.extend(self.read_input(&mut input, None)?);
        }
        Ok(nodes)
    }

    fn bytes_of(&mut self, file: &str) -> Result<Arc<Vec<u8>>, String> {
        if let Some(bytes) = self.files.get(file) {
            return Ok(bytes.clone());
        }
        let bytes = self.system.read_included(file);
        let bytes = bytes.map_err(|error| format!("Could not open configuration file {file}: {}", reason(&error)))?;
        let bytes = Arc::new(bytes);
        self.files.insert(file.to_string(), bytes.clone());
        Ok(bytes)
    }
}

fn check_variable(name: &str) -> Result<(), Refusal> {
    match name.contains(':') {
        true => Err(Refusal::argument(1, "Variable name must not contain ':'")),
        false => Ok(()),
    }
}

/// Sections whose text is in a language of its own. No module has them; their lines are not errors of their own.
const FOREIGN: [&str; 1] = ["<Perl"];

/// Skips the text of such a section.
fn skip_foreign(input: &mut Input, name: &str) -> Result<(), Refusal> {
    loop {
        match input.next() {
            Ok(Some((_, line))) => {
                let end = line.trim().strip_prefix("</").and_then(|end| end.strip_suffix('>'));
                if end.is_some_and(|end| end.eq_ignore_ascii_case(name)) {
                    return Ok(());
                }
            }
            Ok(None) => return Err(end_missing(name)),
            // The length of a line counts in our language only.
            Err(_) => {}
        }
    }
}

/// Skips a section whose first line is wrong, to find the errors after it.
fn pass_over(input: &mut Input, row: &Directive) {
    // One error is enough for one section.
    let _ = skip(input, &row.name[1..]);
}

fn too_deep() -> Refusal {
    let message = format!("Exceeded maximum include depth of {INCLUDE_DEPTH_MAX}, There appears to be a recursion.");
    Refusal::argument(1, message).because(Cause::EndlessInclude)
}

/// Whether the line `name` (`</Directory>`) ends the innermost section.
fn check_end(name: &str, innermost: Option<&Node>) -> Result<(), Refusal> {
    let bare = name.strip_suffix('>').unwrap_or(name);
    let Some(innermost) = innermost else {
        return Err(wrong_end(bare, format!("{bare}> without matching <{}> section", &bare[2..])));
    };
    if bare == name {
        return Err(wrong_end(bare, format!("{name}> directive missing closing '>'")));
    }
    if !bare[2..].eq_ignore_ascii_case(&innermost.name[1..]) {
        let opened = format!("{}> was opened on line {}", innermost.name, innermost.origin.line);
        let message = format!("Expected </{}> but saw {bare}>", &innermost.name[1..]);
        return Err(wrong_end(bare, message).reason(Some(opened)));
    }
    Ok(())
}

/// Refuses the end tag `bare`, which is without its `>`.
fn wrong_end(bare: &str, message: String) -> Refusal {
    Refusal::from(message).at(Spot::Line).because(Cause::EndTag(bare.to_string()))
}

/// Refuses a text that ends inside the section `name`.
fn end_missing(name: &str) -> Refusal {
    wrong_end(&format!("</{name}"), format!("Expected </{name}> before end of configuration"))
}

/// The contents of the innermost open section, or `top` outside of all sections.
fn contents<'a>(open: &'a mut [Node], top: &'a mut Vec<Node>) -> &'a mut Vec<Node> {
    open.last_mut().map_or(top, |innermost| innermost.children.get_or_insert_default())
}

/// Ends the innermost sections until `left` sections are open.
fn end_all(open: &mut Vec<Node>, left: usize, top: &mut Vec<Node>) {
    while open.len() > left
        && let Some(ended) = open.pop()
    {
        contents(open, top).push(ended);
    }
}

/// Skips the body of a false conditional section by counting tags, and returns whether it contains a `LoadModule`. It
/// skips to the matching end tag, even past a wrong tag. As in Apache, errors inside are reported at the section's
/// line.
fn skip(input: &mut Input, name: &str) -> (bool, Result<(), Failure>) {
    let (mut open, mut names_modules, mut wrong) = (vec![name.to_string()], false, Ok(()));
    while let Some(innermost) = open.last() {
        let line = match input.next() {
            Ok(Some((_, line))) => line,
            Ok(None) => return (names_modules, wrong.and_then(|()| Err(end_missing(innermost).into()))),
            Err(error) => return (names_modules, wrong.and_then(|()| Err(error.into()))),
        };
        let mut rest = line.as_str();
        let word = next_word(&mut rest);
        names_modules |= word.eq_ignore_ascii_case("LoadModule");
        if let Some(end) = word.strip_prefix("</") {
            let bare = end.strip_suffix('>').unwrap_or(end);
            let message = match end.strip_suffix('>') {
                None => Some(format!("</{end}> directive missing closing '>'")),
                Some(_) if bare.eq_ignore_ascii_case(innermost) => None,
                Some(_) => Some(format!("Expected </{innermost}> but saw </{bare}>")),
            };
            let refusal = message.map(|message| wrong_end(&format!("</{bare}"), message));
            wrong = wrong.and_then(|()| refusal.map_or(Ok(()), |refusal| Err(refusal.into())));
            if let Some(left) = open.iter().rposition(|section| section.eq_ignore_ascii_case(bare)) {
                open.truncate(left);
            }
        } else if let Some(section) = word.strip_prefix('<') {
            open.push(section.strip_suffix('>').unwrap_or(section).to_string());
        }
    }
    (names_modules, wrong)
}
