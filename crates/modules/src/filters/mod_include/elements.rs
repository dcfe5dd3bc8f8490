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

impl Page {
    /// Executes an element.
    pub(super) async fn element(&mut self, element: Element, out: &Writer) -> io::Result<()> {
        let Element { name, arguments } = element;
        match name.as_str() {
            "if" => return self.begin_if(arguments, out).await,
            "elif" => return self.elif(arguments, out).await,
            "else" => return self.otherwise(&arguments, out).await,
            "endif" => return self.endif(&arguments, out).await,
            "comment" => return Ok(()),
            _ => {}
        }
        let executor = if name == "exec" { exec::executor(&self.own) } else { None };
        let is_known =
            matches!(name.as_str(), "set" | "echo" | "include" | "config" | "flastmod" | "fsize" | "printenv");
        if !is_known && executor.is_none() {
            self.log(Level::Error, &format!("AH01371: unknown directive \"{name}\" in parsed doc {}", self.file()));
            self.fail(out).await;
            return Ok(());
        }
        if let Some(missing) = self.wrong_number(&name, arguments.len(), executor) {
            let level = if self.conditions.is_printing { Level::Error } else { Level::Warn };
            self.own.log(executor.map_or("include", |by| by.module), level, missing);
            self.fail(out).await;
            return Ok(());
        }
        if !self.conditions.is_printing {
            return Ok(());
        }
        let done = match (name.as_str(), executor) {
            ("set", _) => self.set(arguments).await,
            ("echo", _) => self.echo(arguments, out).await,
            ("config", _) => self.config(arguments).await,
            ("include", _) => return self.include(arguments, out).await,
            ("flastmod" | "fsize", _) => self.about_file(&name, arguments, out).await,
            (_, Some(by)) => return self.exec(by, arguments, out).await,
            _ => {
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
    fn wrong_number(&self, name: &str, count: usize, executor: Option<Executor>) -> Option<String> {
        let file = self.file();
        let (least, number) = match name {
            "printenv" => {
                return (count > 0).then(|| format!("AH01367: printenv directive does not take tags in {file}"));
            }
            "set" => (2, "AH01362"),
            "echo" => (1, "AH01343"),
            "config" => (1, "AH01347"),
            "include" => (1, "AH01341"),
            "flastmod" => (1, "AH01351"),
            "fsize" => (1, "AH01350"),
            _ if executor.is_some() => (1, "AH03195"),
            _ => return None,
        };
        (count < least).then(|| format!("{number}: missing argument for {name} element in {file}"))
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
        self.log(Level::Error, &format!("a text with variables is longer than {TEXT_MAX} bytes in {}", self.file()));
        Err(())
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
        let (mut encoding, mut decoding) = (String::new(), String::new());
        for (tag, value) in with_values(arguments) {
            match tag.as_str() {
                "var" => name = Some(self.expand(&value, false).await?),
                "encoding" => encoding = value,
                "decoding" => decoding = value,
                "value" => {
                    let Some(name) = &name else {
                        let text = format!("AH01363: variable must precede value in set directive in {}", self.file());
                        self.log(Level::Error, &text);
                        return Err(());
                    };
                    let value = self.expand(&value, false).await?;
                    let value = self.coded(value, &decoding, &encoding, "set")?;
                    if !self.variables.set_by_page(name, value) {
                        let text =
                            format!("the variables of a page hold more than {VARIABLES_MAX} bytes in {}", self.file());
                        self.log(Level::Error, &text);
                        return Err(());
                    }
                }
                _ => {
                    self.log(Level::Error, &format!("AH01366: Invalid tag for set directive in {}", self.file()));
                    return Err(());
                }
            }
        }
        Ok(())
    }

    /// A value, decoded and encoded again.
    fn coded(&self, mut value: String, decoding: &str, encoding: &str, element: &str) -> Result<String, ()> {
        let numbers = if element == "set" { ["AH01364", "AH01365"] } else { ["AH01344", "AH01345"] };
        type Code = fn(Coding, &str) -> String;
        let steps: [(&str, &str, &str, Code); 2] =
            [(decoding, "decoding", numbers[0], Coding::decode), (encoding, "encoding", numbers[1], Coding::encode)];
        for (list, parameter, number, code) in steps {
            for coding in Coding::list(list) {
                match coding {
                    Ok(coding) => {
                        value = code(coding, &value);
                        self.check_length(&value)?;
                    }
                    Err(unknown) => {
                        let text = format!(
                            "{number}: unknown value \"{unknown}\" to parameter \"{parameter}\" of tag {element} in {}",
                            self.file()
                        );
                        self.log(Level::Error, &text);
                        return Err(());
                    }
                }
            }
        }
        Ok(value)
    }

    async fn echo(&mut self, arguments: Vec<Argument>, out: &Writer) -> Done {
        let (mut encoding, mut decoding) = ("entity".to_string(), String::new());
        for (tag, value) in decoded(arguments) {
            match tag.as_str() {
                "var" => {
                    let name = self.expand(&value, false).await?;
                    let text = match self.variable(&name).await {
                        Some(value) => self.coded(value, &decoding, &encoding, "echo")?,
                        None => self.undefined.clone(),
                    };
                    out.write(&http::text::to_bytes(&text)).await;
                }
                "encoding" => encoding = value,
                "decoding" => decoding = value,
                _ => {
                    let text = format!("AH01346: unknown parameter \"{tag}\" in tag echo of {}", self.file());
                    self.log(Level::Error, &text);
                    return Err(());
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
                        self.log(Level::Error, &text);
                        return Err(());
                    }
                },
                _ => {
                    let text = format!("AH01349: unknown parameter \"{tag}\" to tag config in {}", self.file());
                    self.log(Level::Error, &text);
                    return Err(());
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
                None => has_failed = false,
                Some(why) => {
                    let text = format!("unable to include {why}");
                    let text = text.replacen("{}", &format!("\"{value}\" in parsed file {}", self.file()), 1);
                    match is_file && below(&target).is_none() {
                        true => self.own.log_os("include", Level::Error, &above_root(), text),
                        false => self.log(Level::Error, &text),
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

    /// Includes a file or a path. `Some`: it is not available, and why.
    async fn include_one(&mut self, target: &str, is_file: bool, out: &Writer) -> io::Result<Option<String>> {
        self.renew_environment();
        let mut found = match (is_file, below(target)) {
            // What gets the body gets its method, too.
            (false, _) if self.own.kept_body.as_ref().is_some_and(|kept| kept.bytes().is_some()) => {
                self.own.lookup_alike(target).await
            }
            (false, _) => self.own.lookup_link(target).await,
            (true, Some(name)) => self.own.lookup_file(&name).await,
            (true, None) => return Ok(Some("file {}".into())),
        };
        let status = found.response.status();
        if status != 200 {
            return Ok(Some(format!("{{}}, subrequest setup returned {status}")));
        }
        if self.no_exec && found.response.content_type().is_some_and(|text| !text.starts_with("text/")) {
            let text = "potential exec {}, content type not text/*";
            return Ok(Some(text.into()));
        }
        found.page = Some(self.variables.clone());
        found.response.no_local_copy = true;
        match found.run_subrequest().await {
            Ok(body) => self.insert(body, out).await.map(|()| None),
            Err(status) => Ok(Some(format!("{{}}, subrequest returned {status}"))),
        }
    }

    /// `flastmod` and `fsize`.
    async fn about_file(&mut self, element: &str, arguments: Vec<Argument>, out: &Writer) -> Done {
        for (tag, value) in decoded(arguments) {
            let target = self.expand(&value, false).await?;
            let meta = self.find(element, &tag, &target).await?;
            let text = match element {
                "flastmod" => written(meta.mtime.div_euclid(1_000_000_000) as i64, &self.time_format, false),
                _ if self.size_in_bytes => grouped(meta.size),
                _ => abbreviated_size(Some(meta.size)),
            };
            out.write(&http::text::to_bytes(&text)).await;
        }
        Ok(())
    }

    async fn find(&mut self, element: &str, tag: &str, target: &str) -> Result<sys::file::Meta, ()> {
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
            _ => format!("AH01340: unknown parameter \"{tag}\" to tag {element} in {}", self.file()),
        };
        self.log(Level::Error, &wrong);
        Err(())
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
