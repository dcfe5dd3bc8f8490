//! The elements of a page.

use std::io;
use std::mem::take;

use conf::Level;
use server::{Request, TEXT_MAX, Writer};

use super::expand::{Coding, Part, decode_entities, pieces};
use super::page::Page;
use super::scan::{Argument, Element};
use super::variables::{VARIABLES_MAX, written};
use crate::generators::exec::{self, Executor};
use crate::generators::mod_autoindex::abbreviated_size;

/// `Err`: the error was logged, and the page should show one.
type Done = Result<(), ()>;

/// The kind of an element, from its name.
#[derive(Clone, Copy)]
enum Kind {
    If,
    Elif,
    Else,
    Endif,
    Comment,
    Set,
    Echo,
    Config,
    Include,
    /// `flastmod` and `fsize`
    FileFact(FileFact),
    Printenv,
    /// `exec`, by the module that runs scripts.
    Exec(Executor),
}

impl Kind {
    /// The kind with this name. There is no `exec` without a module that runs scripts.
    fn named(name: &str, request: &Request) -> Option<Kind> {
        Some(match name {
            "if" => Kind::If,
            "elif" => Kind::Elif,
            "else" => Kind::Else,
            "endif" => Kind::Endif,
            "comment" => Kind::Comment,
            "set" => Kind::Set,
            "echo" => Kind::Echo,
            "config" => Kind::Config,
            "include" => Kind::Include,
            "flastmod" => Kind::FileFact(FileFact::Modified),
            "fsize" => Kind::FileFact(FileFact::Size),
            "printenv" => Kind::Printenv,
            "exec" => Kind::Exec(exec::executor(request)?),
            _ => return None,
        })
    }

    /// Whether it is executed even in a part that is not sent, because it may end that part.
    fn is_conditional(self) -> bool {
        matches!(self, Kind::If | Kind::Elif | Kind::Else | Kind::Endif)
    }

    /// The module that logs its errors.
    fn module(self) -> &'static str {
        if let Kind::Exec(by) = self { by.module } else { "include" }
    }
}

/// A fact about a file that an element shows.
#[derive(Clone, Copy)]
enum FileFact {
    Modified,
    Size,
}

impl FileFact {
    /// The name of its element.
    fn element(self) -> &'static str {
        match self {
            FileFact::Modified => "flastmod",
            FileFact::Size => "fsize",
        }
    }
}

/// The codings of an element's value, and what its messages call them.
struct Codings {
    decoding: String,
    encoding: String,
    element: &'static str,
    unknown_decoding: &'static str,
    unknown_encoding: &'static str,
}

/// Why a file or a path is not included.
enum NotIncluded {
    AboveRoot,
    /// The status of the look-up.
    Setup(u16),
    NotText,
    /// The status of the response.
    Subrequest(u16),
}

impl NotIncluded {
    /// The message for the error log. `value`: the argument; `file`: the page with the element.
    fn text(&self, value: &str, file: &str) -> String {
        let what = format!("\"{value}\" in parsed file {file}");
        match self {
            NotIncluded::AboveRoot => format!("unable to include file {what}"),
            NotIncluded::Setup(status) => format!("unable to include {what}, subrequest setup returned {status}"),
            NotIncluded::NotText => format!("unable to include potential exec {what}, content type not text/*"),
            NotIncluded::Subrequest(status) => format!("unable to include {what}, subrequest returned {status}"),
        }
    }
}

impl Page {
    /// Executes an element, or reports that it is unknown or has the wrong number of arguments.
    pub(super) async fn element(&mut self, element: Element, out: &Writer) -> io::Result<()> {
        let Element { name, arguments } = element;
        let Some(kind) = Kind::named(&name, &self.own) else {
            self.log(Level::Error, &format!("AH01371: unknown directive \"{name}\" in parsed doc {}", self.file()));
            self.fail(out).await;
            return Ok(());
        };
        if let Some(wrong) = self.wrong_number(kind, &name, arguments.len()) {
            let level = if self.conditions.is_printing { Level::Error } else { Level::Warn };
            self.own.log(kind.module(), level, wrong);
            self.fail(out).await;
            return Ok(());
        }
        if !self.conditions.is_printing && !kind.is_conditional() {
            return Ok(());
        }
        let done = match kind {
            Kind::If => return self.begin_if(arguments, out).await,
            Kind::Elif => return self.elif(arguments, out).await,
            Kind::Else => return self.otherwise(&arguments, out).await,
            Kind::Endif => return self.endif(&arguments, out).await,
            Kind::Include => return self.include(arguments, out).await,
            Kind::Exec(by) => return self.exec(by, arguments, out).await,
            Kind::Comment => Ok(()),
            Kind::Set => self.set(arguments).await,
            Kind::Echo => self.echo(arguments, out).await,
            Kind::Config => self.config(arguments).await,
            Kind::FileFact(fact) => self.show_fact(fact, arguments, out).await,
            Kind::Printenv => {
                self.printenv(out).await;
                Ok(())
            }
        };
        if done.is_err() {
            self.fail(out).await;
        }
        Ok(())
    }

    /// The message for an element with too few arguments, or too many.
    fn wrong_number(&self, kind: Kind, name: &str, count: usize) -> Option<String> {
        let file = self.file();
        let (least, number) = match kind {
            // Conditional elements count their own arguments, and a comment may have any.
            Kind::If | Kind::Elif | Kind::Else | Kind::Endif | Kind::Comment => return None,
            Kind::Printenv => {
                return (count > 0).then(|| format!("AH01367: printenv directive does not take tags in {file}"));
            }
            Kind::Set => (2, "AH01362"),
            Kind::Echo => (1, "AH01343"),
            Kind::Config => (1, "AH01347"),
            Kind::Include => (1, "AH01341"),
            Kind::FileFact(FileFact::Modified) => (1, "AH01351"),
            Kind::FileFact(FileFact::Size) => (1, "AH01350"),
            Kind::Exec(_) => (1, "AH03195"),
        };
        (count < least).then(|| format!("{number}: missing argument for {name} element in {file}"))
    }

    /// Logs an error that the page should show.
    fn refuse<T>(&self, text: &str) -> Result<T, ()> {
        self.log(Level::Error, text);
        Err(())
    }

    /// A text with its variables. One without a value becomes nothing, or its name. `Err`: the text becomes too long, which
    /// was logged.
    pub(super) async fn expand(&mut self, text: &str, keep_names: bool) -> Result<String, ()> {
        let mut all = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Part::Text(text) => all.push_str(text),
                Part::Variable(name, shown) => match self.variable(name).await {
                    Some(value) => all.push_str(&value),
                    None if keep_names => all.push_str(shown),
                    None => {}
                },
                Part::Open(rest) => {
                    let text = format!("AH01331: Missing '}}' on variable \"{rest}\" in {}", self.file());
                    self.log(Level::Error, &text);
                }
            }
            self.check_length(&all)?;
        }
        Ok(all)
    }

    /// Whether a text is short enough to go on with.
    fn check_length(&self, text: &str) -> Result<(), ()> {
        if text.len() <= TEXT_MAX {
            return Ok(());
        }
        self.refuse(&format!("a text with variables is longer than {TEXT_MAX} bytes in {}", self.file()))
    }

    async fn variable(&self, name: &str) -> Option<String> {
        let [digit @ b'0'..=b'9'] = name.as_bytes() else { return self.variables.get(&self.own, name).await };
        let group = usize::from(digit - b'0');
        let Some(groups) = self.groups.as_ref().filter(|groups| !groups.captures.is_empty()) else {
            let text = format!("AH01329: regex capture ${group} refers to no regex in {}", self.file());
            self.log(Level::Warn, &text);
            return None;
        };
        if group > groups.count {
            let text = format!(
                "AH01330: regex capture ${group} is out of range (last regex was: '{}') in {}",
                groups.pattern,
                self.file()
            );
            self.log(Level::Warn, &text);
            return None;
        }
        groups.captures.get(group, &groups.subject).map(str::to_string)
    }

    async fn set(&mut self, arguments: Vec<Argument>) -> Done {
        let mut name = None;
        let mut codings = Codings {
            decoding: String::new(),
            encoding: String::new(),
            element: "set",
            unknown_decoding: "AH01364",
            unknown_encoding: "AH01365",
        };
        for (tag, value) in with_values(arguments) {
            match tag.as_str() {
                "var" => name = Some(self.expand(&value, false).await?),
                "encoding" => codings.encoding = value,
                "decoding" => codings.decoding = value,
                "value" => {
                    let Some(name) = &name else {
                        let text = format!("AH01363: variable must precede value in set directive in {}", self.file());
                        return self.refuse(&text);
                    };
                    let value = self.expand(&value, false).await?;
                    let value = self.coded(value, &codings)?;
                    if !self.variables.set_by_page(name, value) {
                        let text =
                            format!("the variables of a page hold more than {VARIABLES_MAX} bytes in {}", self.file());
                        return self.refuse(&text);
                    }
                }
                _ => {
                    return self.refuse(&format!("AH01366: Invalid tag for set directive in {}", self.file()));
                }
            }
        }
        Ok(())
    }

    /// A value, decoded and encoded again.
    fn coded(&self, mut value: String, codings: &Codings) -> Result<String, ()> {
        type Code = fn(Coding, &str) -> String;
        let steps: [(&str, &str, &str, Code); 2] = [
            (&codings.decoding, "decoding", codings.unknown_decoding, Coding::decode),
            (&codings.encoding, "encoding", codings.unknown_encoding, Coding::encode),
        ];
        for (list, parameter, number, code) in steps {
            for coding in Coding::list(list) {
                match coding {
                    Ok(coding) => {
                        value = code(coding, &value);
                        self.check_length(&value)?;
                    }
                    Err(unknown) => {
                        let text = format!(
                            "{number}: unknown value \"{unknown}\" to parameter \"{parameter}\" of tag {} in {}",
                            codings.element,
                            self.file()
                        );
                        return self.refuse(&text);
                    }
                }
            }
        }
        Ok(value)
    }

    async fn echo(&mut self, arguments: Vec<Argument>, out: &Writer) -> Done {
        let mut codings = Codings {
            decoding: String::new(),
            encoding: "entity".into(),
            element: "echo",
            unknown_decoding: "AH01344",
            unknown_encoding: "AH01345",
        };
        for (tag, value) in decoded(arguments) {
            match tag.as_str() {
                "var" => {
                    let name = self.expand(&value, false).await?;
                    let text = match self.variable(&name).await {
                        Some(value) => self.coded(value, &codings)?,
                        None => self.undefined.clone(),
                    };
                    out.write(&http::text::to_bytes(&text)).await;
                }
                "encoding" => codings.encoding = value,
                "decoding" => codings.decoding = value,
                _ => {
                    let text = format!("AH01346: unknown parameter \"{tag}\" in tag echo of {}", self.file());
                    return self.refuse(&text);
                }
            }
        }
        Ok(())
    }

    async fn config(&mut self, arguments: Vec<Argument>) -> Done {
        for (tag, value) in with_values(arguments) {
            match tag.as_str() {
                "errmsg" => self.error = self.expand(&value, false).await?,
                "echomsg" => self.undefined = self.expand(&value, false).await?,
                "timefmt" => {
                    self.time_format = self.expand(&value, false).await?;
                    self.variables.set_dates(&self.own, &self.time_format);
                }
                "sizefmt" => match self.expand(&value, false).await?.as_str() {
                    "bytes" => self.size_in_bytes = true,
                    "abbrev" => self.size_in_bytes = false,
                    unknown => {
                        let text = format!(
                            "AH01348: unknown value \"{unknown}\" to parameter \"sizefmt\" of tag config in {}",
                            self.file()
                        );
                        return self.refuse(&text);
                    }
                },
                _ => {
                    let text = format!("AH01349: unknown parameter \"{tag}\" to tag config in {}", self.file());
                    return self.refuse(&text);
                }
            }
        }
        Ok(())
    }

    /// `include`: if a target is not available, the alternatives in `onerror` are tried.
    async fn include(&mut self, arguments: Vec<Argument>, out: &Writer) -> io::Result<()> {
        let mut has_failed = false;
        for (tag, value) in decoded(arguments) {
            let is_file = match tag.as_str() {
                "file" => true,
                "virtual" if has_failed => continue,
                "onerror" if !has_failed => continue,
                "virtual" | "onerror" => false,
                _ => {
                    let text = format!("AH01342: unknown parameter \"{tag}\" to tag include in {}", self.file());
                    self.log(Level::Error, &text);
                    self.fail(out).await;
                    break;
                }
            };
            let Ok(target) = self.expand(&value, false).await else {
                has_failed = true;
                break;
            };
            match self.include_one(&target, is_file, out).await? {
                Ok(()) => has_failed = false,
                Err(why) => {
                    let text = why.text(&value, self.file());
                    match why {
                        NotIncluded::AboveRoot => self.own.log_os("include", Level::Error, &above_root(), text),
                        _ => self.log(Level::Error, &text),
                    }
                    if std::mem::replace(&mut has_failed, true) {
                        break;
                    }
                }
            }
        }
        if has_failed {
            self.fail(out).await;
        }
        Ok(())
    }

    /// Includes a file below the page's directory, or a URL path.
    async fn include_one(&mut self, target: &str, is_file: bool, out: &Writer) -> io::Result<Result<(), NotIncluded>> {
        self.renew_environment();
        let mut found = match (is_file, below(target)) {
            // What gets the body gets its method, too.
            (false, _) if self.own.kept_body.as_ref().is_some_and(|kept| kept.bytes().is_some()) => {
                self.own.lookup_alike(target).await
            }
            (false, _) => self.own.lookup_link(target).await,
            (true, Some(name)) => self.own.lookup_file(&name).await,
            (true, None) => return Ok(Err(NotIncluded::AboveRoot)),
        };
        let status = found.response.status();
        if status != 200 {
            return Ok(Err(NotIncluded::Setup(status)));
        }
        if self.no_exec && found.response.content_type().is_some_and(|text| !text.starts_with("text/")) {
            return Ok(Err(NotIncluded::NotText));
        }
        found.page = Some(self.variables.clone());
        found.response.no_local_copy = true;
        match found.run_subrequest().await {
            Ok(body) => self.insert(body, out).await.map(Ok),
            Err(status) => Ok(Err(NotIncluded::Subrequest(status))),
        }
    }

    /// `flastmod` and `fsize`.
    async fn show_fact(&mut self, fact: FileFact, arguments: Vec<Argument>, out: &Writer) -> Done {
        for (tag, value) in decoded(arguments) {
            let target = self.expand(&value, false).await?;
            let meta = self.find(fact, &tag, &target).await?;
            let text = match fact {
                FileFact::Modified => written(meta.mtime.div_euclid(1_000_000_000) as i64, &self.time_format, false),
                FileFact::Size if self.size_in_bytes => grouped(meta.size),
                FileFact::Size => abbreviated_size(Some(meta.size)),
            };
            out.write(&http::text::to_bytes(&text)).await;
        }
        Ok(())
    }

    async fn find(&mut self, fact: FileFact, tag: &str, target: &str) -> Result<sys::file::Meta, ()> {
        let wrong = match tag {
            "file" => match below(target) {
                None => {
                    let text = format!("AH02668: unable to access file \"{target}\" in parsed file {}", self.file());
                    self.own.log_os("include", Level::Error, &above_root(), text);
                    return Err(());
                }
                Some(name) => match exists(&*self.own.lookup_file(&name).await) {
                    Some(meta) => return Ok(meta),
                    None => {
                        let file = self.file();
                        format!("AH02670: unable to lookup information about \"{target}\" in parsed file {file}")
                    }
                },
            },
            "virtual" => match exists(&*self.own.lookup_link(target).await) {
                Some(meta) => return Ok(meta),
                None => {
                    format!("AH01339: unable to get information about \"{target}\" in parsed file {}", self.file())
                }
            },
            _ => format!("AH01340: unknown parameter \"{tag}\" to tag {} in {}", fact.element(), self.file()),
        };
        self.refuse(&wrong)
    }

    async fn printenv(&mut self, out: &Writer) {
        for (name, value) in self.variables.all(&self.own).await {
            let line = format!("{}={}\n", Coding::Entity.encode(&name), Coding::Entity.encode(&value));
            out.write(&http::text::to_bytes(&line)).await;
        }
    }

    async fn exec(&mut self, by: Executor, arguments: Vec<Argument>, out: &Writer) -> io::Result<()> {
        if self.no_exec {
            self.own.log(by.module, Level::Error, format!("AH01228: exec used but not allowed in {}", self.file()));
            self.fail(out).await;
            return Ok(());
        }
        for (tag, value) in decoded(arguments) {
            let wrong = match tag.as_str() {
                "cmd" => {
                    let Ok(text) = self.expand(&value, true).await else {
                        self.fail(out).await;
                        break;
                    };
                    self.variables.complete().await;
                    self.own.env = self.variables.environment();
                    // The shell adds to it.
                    self.environment = None;
                    match by.shell(&mut self.own, &text).await {
                        Ok(body) => {
                            self.insert(body, out).await?;
                            continue;
                        }
                        Err(gateway::NotStarted) => {
                            let file = self.file();
                            format!("AH01229: execution failure for parameter \"{tag}\" to tag exec in file {file}")
                        }
                    }
                }
                "cgi" => {
                    let Ok(target) = self.expand(&value, false).await else {
                        self.fail(out).await;
                        break;
                    };
                    if self.exec_cgi(&target, out).await? {
                        continue;
                    }
                    format!("AH01230: invalid CGI ref \"{value}\" in {}", self.file())
                }
                _ => format!("AH01231: unknown parameter \"{tag}\" to tag exec in {}", self.file()),
            };
            self.own.log(by.module, Level::Error, wrong);
            self.fail(out).await;
            break;
        }
        Ok(())
    }

    /// Runs a file as a script with the page's query and path information. `false`: there is no such file.
    async fn exec_cgi(&mut self, target: &str, out: &Writer) -> io::Result<bool> {
        self.renew_environment();
        let mut found = self.own.lookup_link(target).await;
        if found.response.status() != 200
            || !found.mapped.path_info.is_empty()
            || found.data.args.is_some()
            || !found.mapped.stat.is_some_and(|meta| meta.is_file())
        {
            return Ok(false);
        }
        found.mapped.path_info.clone_from(&self.own.mapped.path_info);
        found.data.args.clone_from(&self.own.data.args);
        found.response.set_content_type("application/x-httpd-cgi");
        found.page = Some(self.variables.clone());
        found.response.no_local_copy = true;
        match found.run_subrequest().await {
            Ok(body) => self.insert(body, out).await?,
            Err(300..=399) => {
                if let Some(location) = found.response.headers_out.get("Location") {
                    let location = Coding::Entity.encode(location);
                    let link = format!("<a href=\"{location}\">{location}</a>");
                    out.write(&http::text::to_bytes(&link)).await;
                }
            }
            Err(_) => {}
        }
        Ok(true)
    }
}

/// Arguments up to the first without a value.
fn with_values(arguments: Vec<Argument>) -> impl Iterator<Item = (String, String)> {
    arguments.into_iter().map_while(|mut one| Some((take(&mut one.name)?, one.value?)))
}

/// Arguments up to the first without a value, with their entities decoded.
fn decoded(arguments: Vec<Argument>) -> impl Iterator<Item = (String, String)> {
    with_values(arguments).map(|(name, value)| (name, decode_entities(&value).into_owned()))
}

/// A path that stays below the page's directory, simplified.
fn below(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if path.starts_with('/') {
        return None;
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// APR's error for such a path.
fn above_root() -> io::Error {
    io::Error::other("(20023)The given path was above the root path")
}

fn exists(found: &Request) -> Option<sys::file::Meta> {
    found.mapped.stat.filter(|_| found.response.status() == 200)
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().flat_map(|(at, digit)| [comma(at).then_some(','), Some(digit)]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, want) in cases {
            assert_eq!(grouped(number), want);
        }
    }

    #[test]
    fn paths_below() {
        let cases = [("a", Some("a")), ("./a//b/../c", Some("a/c")), ("../a", None), ("a/../../b", None), ("/a", None)];
        for (path, want) in cases {
            assert_eq!(below(path).as_deref(), want, "{path}");
        }
    }
}
