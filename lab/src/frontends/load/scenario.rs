//! The files of `--scenario`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::values::field;
use crate::load::request_builder::RequestBuilder;
use crate::load::scenario::{Burst, Capture, CaptureSource, Expected, Printed, Scenario, Server, Step, Template};
use crate::load::url::Url;
use crate::machine::duration::duration;
use crate::machine::error::{Context as _, Error, Result};

/// The lines of a scenario, and what they mean: for the help and the manual page.
pub(crate) const LINES: [(&str, &str); 12] = [
    ("METHOD URL", "A step: a request for a path, or for a URL on the server"),
    ("think TIME, think TIME..TIME", "The user rests, this long or anything between"),
    ("  name TEXT", "The name of the step in the results, instead of METHOD URL"),
    ("  header NAME: VALUE", "A field of the request"),
    ("  body TEXT", "The body of the request: the rest of the line"),
    ("  body-file FILE", "The same from a file, beside the scenario"),
    ("  expect 200 3xx", "The statuses of a good response; without this, all below 400"),
    ("  expect text \"TEXT\"", "A good response contains this in its body"),
    ("  take NAME from header FIELD", "Remember a value: a field of the response"),
    ("  take NAME between \"A\" and \"B\"", "Remember a value: the text of the body between A and B"),
    ("${NAME}, ${NAME:url}", "A value, as it is or encoded for URLs and forms"),
    ("${session}", "A number that no other session has"),
];

/// The rest of what there is to know.
pub(crate) const RULES: &str = "\
Indented lines belong to the step above. Lines that begin with # are comments. Values may stand in URLs, headers, bodies and expected \
texts; $${ is the text ${. A text in quotes ends at the same quote, ' or \", and has no other special characters.

Each session is a new user, with a connection of its own and no cookies. The user keeps cookies that the server sets, and sends them \
back. A step whose response is not good, or lacks a value, has failed, and its session ends: so later steps never miss a value. Then the \
next session begins. Redirects are steps, too: take the Location, and request it. Texts are looked for in the first MiB of a body.";

/// The most steps, and values: results of each step are kept.
const STEPS_MAX: usize = 200;
const VALUES_MAX: usize = 100;
/// The largest file, and the largest body, in bytes.
const FILE_MAX: u64 = 1024 * 1024;
const BODY_MAX: u64 = 16 * 1024 * 1024;

/// The step that is being read.
struct Draft {
    method: String,
    target: String,
    name: Option<String>,
    headers: Vec<String>,
    body: Option<Template>,
    statuses: Vec<(u16, u16)>,
    texts: Vec<Template>,
    captures: Vec<Capture>,
    think: Option<(Duration, Duration)>,
    /// How many values earlier steps have taken.
    known: usize,
}

/// Reads a scenario for the server of a URL. Steps are built like `manner`, with fields of their own.
///
/// # Errors
/// The file cannot be read, or a line is wrong: names file and line.
pub(super) fn read(file: &Path, url: &Url, manner: &RequestBuilder<'_>) -> Result<Scenario> {
    let text = text_of(file, FILE_MAX)?;
    let (mut drafts, mut values) = (Vec::<Draft>::new(), vec!["session".to_owned()]);
    for (number, line) in text.lines().enumerate() {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let wrong = |why: String| {
            Error::new(format!("{}:{}: {why}", file.display(), number + 1))
                .advise("`tsubame-lab load --help` for the lines of a scenario")
        };
        let read = match drafts.last_mut() {
            _ if !line.starts_with([' ', '\t']) => begin(&mut drafts, content, &values, url),
            None => Err("an indented line belongs to a step, and there is none above".to_owned()),
            Some(draft) => draft.read(content, &mut values, file),
        };
        read.map_err(wrong)?;
    }
    if drafts.is_empty() {
        return Err(Error::new(format!("{} has no steps", file.display())).advise("a line like GET /index.html"));
    }
    let names = drafts.iter().map(Draft::name).collect();
    let bursts = drafts.into_iter().enumerate().map(|(number, draft)| draft.burst(number, &values, url, manner));
    Ok(Scenario {
        sessions: vec![bursts.collect::<std::result::Result<_, _>>().map_err(Error::new)?],
        server: Server::of(url),
        connections: 1,
        cookies: true,
        names,
        prints: Printed::default(),
    })
}

/// A file that is not too large.
fn text_of(file: &Path, most: u64) -> Result<String> {
    let reading = || format!("read {}", file.display());
    let length = std::fs::metadata(file).context(reading)?.len();
    if length > most {
        return Err(Error::new(format!("{} has {length} bytes, and at most {most} are allowed", file.display())));
    }
    std::fs::read_to_string(file).context(reading)
}

/// Reads a line that is not indented.
fn begin(drafts: &mut Vec<Draft>, line: &str, values: &[String], url: &Url) -> std::result::Result<(), String> {
    let (word, rest) = split(line);
    if word == "think" {
        let draft = drafts.last_mut().ok_or("a user rests after a step, and there is none above")?;
        if draft.think.is_some() {
            return Err("a user rests once between two steps".to_owned());
        }
        draft.think = Some(think(rest)?);
        return Ok(());
    }
    let is_method = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if !is_method || rest.is_empty() || rest.contains(char::is_whitespace) {
        return Err(format!("{line:?} is neither METHOD URL, nor think TIME; lines about a step are indented"));
    }
    if drafts.len() == STEPS_MAX {
        return Err(format!("a scenario has at most {STEPS_MAX} steps"));
    }
    template(rest, values, values.len())?;
    if !rest.contains("${") {
        Server::of(url).path(rest)?;
    }
    drafts.push(Draft {
        method: word.to_owned(),
        target: rest.to_owned(),
        name: None,
        headers: Vec::new(),
        body: None,
        statuses: Vec::new(),
        texts: Vec::new(),
        captures: Vec::new(),
        think: None,
        known: values.len(),
    });
    Ok(())
}

impl Draft {
    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{} {}", self.method, self.target))
    }

    /// Reads a line about the step.
    fn read(&mut self, line: &str, values: &mut Vec<String>, file: &Path) -> std::result::Result<(), String> {
        let (word, rest) = split(line);
        if rest.is_empty() {
            return Err(format!("{word:?} says nothing"));
        }
        let body = match word {
            "name" => {
                self.name = Some(rest.to_owned());
                return Ok(());
            }
            "header" => {
                field(rest)?;
                template(rest, values, self.known)?;
                self.headers.push(rest.to_owned());
                return Ok(());
            }
            "expect" => return self.expect(rest, values),
            "take" => return self.capture(rest, values),
            "body" => rest.to_owned(),
            "body-file" => {
                let beside = file.parent().unwrap_or(Path::new("")).join(rest);
                text_of(&beside, BODY_MAX).map_err(|error| error.to_string())?
            }
            _ => {
                let words = "name, header, body, body-file, expect and take";
                return Err(format!("{word:?} says nothing about a step: {words} do"));
            }
        };
        if self.body.is_some() {
            return Err("the step has a body already".to_owned());
        }
        self.body = Some(template(&body, values, self.known)?);
        Ok(())
    }

    fn expect(&mut self, line: &str, values: &[String]) -> std::result::Result<(), String> {
        if let ("text", rest) = split(line) {
            let (text, rest) = quoted(rest)?;
            ends(rest)?;
            self.texts.push(template(text, values, self.known)?);
            return Ok(());
        }
        for word in line.split_whitespace() {
            let class = word.strip_suffix("xx").and_then(|class| class.parse().ok()).filter(|class| *class < 10);
            let range = match (class, word.parse()) {
                (Some(class @ 1..), _) => (class * 100, class * 100 + 99),
                (_, Ok(status @ 100..=999)) => (status, status),
                _ => return Err(format!("{word:?} is not a status: 200 and 2xx are; or expect text \"TEXT\"")),
            };
            self.statuses.push(range);
        }
        Ok(())
    }

    fn capture(&mut self, line: &str, values: &mut Vec<String>) -> std::result::Result<(), String> {
        let (name, rest) = split(line);
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) || name == "session" {
            return Err(format!("a value cannot be named {name:?}: use letters, digits, - and _, but not `session`"));
        }
        let from = match split(rest) {
            ("from", rest) => match split(rest) {
                ("header", field) if !field.is_empty() && !field.contains([' ', ':']) => {
                    CaptureSource::Header(field.to_owned())
                }
                _ => return Err(format!("{line:?} names no field: take NAME from header FIELD")),
            },
            ("between", rest) => {
                let (before, rest) = quoted(rest)?;
                let ("and", rest) = split(rest) else {
                    return Err(format!("{line:?} has no `and`: take NAME between \"A\" and \"B\""));
                };
                let (after, rest) = quoted(rest)?;
                ends(rest)?;
                if before.is_empty() || after.is_empty() {
                    return Err("a value is between two texts, and one of them is empty".to_owned());
                }
                CaptureSource::Between(before.to_owned(), after.to_owned())
            }
            _ => {
                return Err(format!(
                    "{line:?} says nothing about where: from header FIELD, or between \"A\" and \"B\""
                ));
            }
        };
        let value = values.iter().position(|known| known == name).unwrap_or(values.len());
        if value == VALUES_MAX {
            return Err(format!("a scenario takes at most {VALUES_MAX} values"));
        }
        if value == values.len() {
            values.push(name.to_owned());
        }
        self.captures.push(Capture { value, name: name.to_owned(), from });
        Ok(())
    }

    fn burst(
        self,
        number: usize,
        values: &[String],
        url: &Url,
        manner: &RequestBuilder<'_>,
    ) -> std::result::Result<Burst, String> {
        let named = |fields: &[String], name: &str| {
            let mut names = fields.iter().filter_map(|field| field.split(':').next());
            names.any(|own| own.trim().eq_ignore_ascii_case(name))
        };
        let is_common = |field: &&String| !named(&self.headers, field.split(':').next().unwrap_or_default().trim());
        let mut fields: Vec<String> = manner.fields.iter().filter(is_common).cloned().collect();
        fields.extend(self.headers.iter().cloned());
        if self.body.is_some() && !manner.content_type.is_empty() && !named(&fields, "Content-Type") {
            fields.push(format!("Content-Type: {}", manner.content_type));
        }
        let lines =
            RequestBuilder { method: &self.method, fields: &fields, body: b"", content_type: "", ..manner.clone() };
        let statuses = if self.statuses.is_empty() { Expected::GOOD.to_vec() } else { self.statuses };
        let needs_length = matches!(&*self.method, "POST" | "PUT" | "PATCH");
        let step = Step {
            number,
            target: template(&self.target, values, self.known)?,
            minor: manner.minor,
            fields: template(&lines.lines(url), values, self.known)?,
            takes_cookies: !named(&fields, "Cookie"),
            body: self.body.or_else(|| needs_length.then(|| Template::literal(""))),
            expected: Expected { statuses, texts: self.texts },
            captures: self.captures,
            method: self.method,
        };
        Ok(Burst { steps: vec![Arc::new(step)], think: self.think.unwrap_or_default() })
    }
}

/// Text with the first `known` of these values.
fn template(text: &str, values: &[String], known: usize) -> std::result::Result<Template, String> {
    Template::parse(text, |name| values[..known].iter().position(|value| value == name))
}

/// The first word, and the rest.
fn split(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word, rest.trim())
}

/// A text in quotes, and what follows.
fn quoted(text: &str) -> std::result::Result<(&str, &str), String> {
    let quote = text.chars().next().filter(|char| matches!(char, '"' | '\''));
    let rest = quote.and_then(|quote| text[1..].split_once(quote));
    let (inside, rest) = rest.ok_or_else(|| format!("{text:?} is not a text in quotes"))?;
    Ok((inside, rest.trim_start()))
}

fn ends(rest: &str) -> std::result::Result<(), String> {
    if rest.is_empty() { Ok(()) } else { Err(format!("{rest:?} is too much")) }
}

/// Reads `1s` or `1s..3s`.
fn think(text: &str) -> std::result::Result<(Duration, Duration), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (duration(least.trim())?, duration(most.trim())?);
    if least <= most { Ok((least, most)) } else { Err(format!("{least:?} is longer than {most:?}")) }
}
