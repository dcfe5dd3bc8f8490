//! The elements of a page.

use std::io;
use std::mem::take;

use conf::Level;
use server::{Request, TEXT_MAX, Writer};

use super::expand::{Coding, Part, decode_entities, pieces};
use super::page::{Logged, Page};
use super::scan::{Argument, Element};
use super::variables::{VARIABLES_MAX, written};
use crate::abbreviated_size::abbreviated_size;
use crate::generators::exec::{self, Executor};

/// The kind of an element, from its name.
#[derive(Clone, Copy)]
enum ElementName {
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

impl ElementName {
    /// The kind with this name. There is no `exec` without a module that runs scripts.
    fn named(name: &str, request: &Request) -> Option<ElementName> {
        Some(match name {
            "if" => ElementName::If,
            "elif" => ElementName::Elif,
            "else" => ElementName::Else,
            "endif" => ElementName::Endif,
            "comment" => ElementName::Comment,
            "set" => ElementName::Set,
            "echo" => ElementName::Echo,
            "config" => ElementName::Config,
            "include" => ElementName::Include,
            "flastmod" => ElementName::FileFact(FileFact::Modified),
            "fsize" => ElementName::FileFact(FileFact::Size),
            "printenv" => ElementName::Printenv,
            "exec" => ElementName::Exec(exec::executor(request)?),
            _ => return None,
        })
    }

    /// Whether it is executed even in a part that is not sent, because it may end that part.
    fn is_conditional(self) -> bool {
        matches!(self, ElementName::If | ElementName::Elif | ElementName::Else | ElementName::Endif)
    }

    /// The module that logs its errors.
    fn module(self) -> &'static str {
        if let ElementName::Exec(by) = self { by.module } else { "include" }
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

impl Page {
    /// Executes an element, or reports that it is unknown or has the wrong number of arguments.
    pub(super) async fn element(&mut self, element: Element, out: &Writer) -> io::Result<()> {
        let Element { name, arguments } = element;
        let Some(kind) = ElementName::named(&name, &self.own) else {
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
            ElementName::If => return self.begin_if(arguments, out).await,
            ElementName::Elif => return self.elif(arguments, out).await,
            ElementName::Else => return self.otherwise(&arguments, out).await,
            ElementName::Endif => return self.endif(&arguments, out).await,
            ElementName::Include => return self.include(arguments, out).await,
            ElementName::Exec(by) => return self.exec(by, arguments, out).await,
            ElementName::Comment => Ok(()),
            ElementName::Set => self.set(arguments).await,
            ElementName::Echo => self.echo(arguments, out).await,
            ElementName::Config => self.config(arguments).await,
            ElementName::FileFact(fact) => self.show_fact(fact, arguments, out).await,
            ElementName::Printenv => {
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
    fn wrong_number(&self, kind: ElementName, name: &str, count: usize) -> Option<String> {
        let file = self.file();
        let (least, number) = match kind {
            // Conditional elements count their own arguments, and a comment may have any.
            ElementName::If | ElementName::Elif | ElementName::Else | ElementName::Endif | ElementName::Comment => {
                return None;
            }
            ElementName::Printenv => {
                return (count > 0).then(|| format!("AH01367: printenv directive does not take tags in {file}"));
            }
            ElementName::Set => (2, "AH01362"),
            ElementName::Echo => (1, "AH01343"),
            ElementName::Config => (1, "AH01347"),
            ElementName::Include => (1, "AH01341"),
            ElementName::FileFact(FileFact::Modified) => (1, "AH01351"),
            ElementName::FileFact(FileFact::Size) => (1, "AH01350"),
            ElementName::Exec(_) => (1, "AH03195"),
        };
        (count < least).then(|| format!("{number}: missing argument for {name} element in {file}"))
    }

    /// A text with its variables. One without a value becomes nothing, or its name. `Err`: the text becomes too long.
    pub(super) async fn expand(&mut self, text: &str, keep_names: bool) -> Result<String, Logged> {
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
    fn check_length(&self, text: &str) -> Result<(), Logged> {
        if text.len() <= TEXT_MAX {
            return Ok(());
        }
        Err(self.refuse(&format!("a text with variables is longer than {TEXT_MAX} bytes in {}", self.file())))
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

    async fn set(&mut self, arguments: Vec<Argument>) -> Result<(), Logged> {
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
                        return Err(self.refuse(&text));
                    };
                    let value = self.expand(&value, false).await?;
                    let value = self.coded(value, &codings)?;
                    if !self.variables.set_by_page(name, value) {
                        let text =
                            format!("the variables of a page hold more than {VARIABLES_MAX} bytes in {}", self.file());
                        return Err(self.refuse(&text));
                    }
                }
                _ => {
                    return Err(self.refuse(&format!("AH01366: Invalid tag for set directive in {}", self.file())));
                }
            }
        }
        Ok(())
    }

    /// A value, decoded and encoded again.
    fn coded(&self, mut value: String, codings: &Codings) -> Result<String, Logged> {
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
                        return Err(self.refuse(&text));
                    }
                }
            }
        }
        Ok(value)
    }

    async fn echo(&mut self, arguments: Vec<Argument>, out: &Writer) -> Result<(), Logged> {
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
                    return Err(self.refuse(&text));
                }
            }
        }
        Ok(())
    }

    async fn config(&mut self, arguments: Vec<Argument>) -> Result<(), Logged> {
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
                        return Err(self.refuse(&text));
                    }
                },
                _ => {
                    let text = format!("AH01349: unknown parameter \"{tag}\" to tag config in {}", self.file());
                    return Err(self.refuse(&text));
                }
            }
        }
        Ok(())
    }

    /// `flastmod` and `fsize`.
    async fn show_fact(&mut self, fact: FileFact, arguments: Vec<Argument>, out: &Writer) -> Result<(), Logged> {
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

    async fn find(&mut self, fact: FileFact, tag: &str, target: &str) -> Result<sys::file::Meta, Logged> {
        let wrong = match tag {
            "file" => match below(target) {
                None => {
                    let text = format!("AH02668: unable to access file \"{target}\" in parsed file {}", self.file());
                    return Err(self.refuse_os(&above_root(), text));
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
        Err(self.refuse(&wrong))
    }

    async fn printenv(&mut self, out: &Writer) {
        for (name, value) in self.variables.all(&self.own).await {
            let line = format!("{}={}\n", Coding::Entity.encode(&name), Coding::Entity.encode(&value));
            out.write(&http::text::to_bytes(&line)).await;
        }
    }
}

/// Arguments up to the first without a value.
fn with_values(arguments: Vec<Argument>) -> impl Iterator<Item = (String, String)> {
    arguments.into_iter().map_while(|mut one| Some((take(&mut one.name)?, one.value?)))
}

/// Arguments up to the first without a value, with their entities decoded.
pub(super) fn decoded(arguments: Vec<Argument>) -> impl Iterator<Item = (String, String)> {
    with_values(arguments).map(|(name, value)| (name, decode_entities(&value).into_owned()))
}

/// A path that stays below the page's directory, simplified.
pub(super) fn below(path: &str) -> Option<String> {
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
pub(super) fn above_root() -> io::Error {
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
