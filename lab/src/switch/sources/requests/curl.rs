//! Lines of curl, as browsers copy them, and plain URLs, one on a line.

use super::told::Told;
use super::url::{Url, basic};
use crate::switch::ask::is_left_out;

/// What an option of curl says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Field,
    Method,
    /// A body; what is in a file is not read.
    Data,
    /// A body as it is written, even behind `@`.
    RawData,
    /// A body whose value curl escapes.
    EscapedData,
    Json,
    Cookie,
    User,
    Agent,
    Referer,
    Url,
    Compressed,
    Head,
    /// The data are the query.
    Get,
    Minor(u8),
    Range,
    /// It does not change the request.
    Nothing,
    /// The same with a value.
    NothingWith,
}

/// The options: the letter, or a blank, and the name.
const OPTIONS: [(char, &str, Meaning); 43] = {
    use Meaning::{
        Agent, Compressed, Cookie, Data, EscapedData, Field, Get, Head, Json, Method, Minor, Nothing, NothingWith,
        Range, RawData, Referer, User,
    };
    [
        ('H', "header", Field),
        ('X', "request", Method),
        ('d', "data", Data),
        (' ', "data-ascii", Data),
        (' ', "data-binary", Data),
        (' ', "data-raw", RawData),
        (' ', "data-urlencode", EscapedData),
        (' ', "json", Json),
        ('b', "cookie", Cookie),
        ('u', "user", User),
        ('A', "user-agent", Agent),
        ('e', "referer", Referer),
        (' ', "url", Meaning::Url),
        (' ', "compressed", Compressed),
        ('I', "head", Head),
        ('G', "get", Get),
        ('0', "http1.0", Minor(0)),
        (' ', "http1.1", Minor(1)),
        (' ', "http2", Minor(1)),
        (' ', "http3", Minor(1)),
        ('r', "range", Range),
        (' ', "basic", Nothing),
        ('f', "fail", Nothing),
        ('g', "globoff", Nothing),
        ('i', "include", Nothing),
        ('k', "insecure", Nothing),
        ('L', "location", Nothing),
        ('N', "no-buffer", Nothing),
        (' ', "path-as-is", Nothing),
        ('#', "progress-bar", Nothing),
        ('O', "remote-name", Nothing),
        ('S', "show-error", Nothing),
        ('s', "silent", Nothing),
        ('v', "verbose", Nothing),
        (' ', "cacert", NothingWith),
        (' ', "connect-timeout", NothingWith),
        (' ', "connect-to", NothingWith),
        ('c', "cookie-jar", NothingWith),
        ('D', "dump-header", NothingWith),
        ('m', "max-time", NothingWith),
        ('o', "output", NothingWith),
        (' ', "resolve", NothingWith),
        ('w', "write-out", NothingWith),
    ]
};

impl Meaning {
    fn has_value(self) -> bool {
        !matches!(self, Self::Compressed | Self::Head | Self::Get | Self::Minor(_) | Self::Nothing)
    }
}

/// The requests in a text.
///
/// # Errors
/// What has not been understood, with the number of its line.
pub(super) fn read(text: &str) -> Result<Vec<Told>, String> {
    let mut shell = Shell { rest: text, line: 1 };
    let mut all = Vec::new();
    while let Some(line) = shell.next_command() {
        let words = shell.words().and_then(|words| told(&words, line));
        all.extend(words.map_err(|wrong| format!("line {line}: {wrong}"))?);
    }
    Ok(all)
}

/// The requests of a command: one for each URL.
fn told(words: &[String], line: u32) -> Result<Vec<Told>, String> {
    let Some((command, arguments)) = words.split_first() else { return Ok(Vec::new()) };
    if command.rsplit('/').next() != Some("curl") {
        if let (true, Some(url)) = (arguments.is_empty() && command.contains("://"), Url::read(command)) {
            return Ok(vec![Draft::default().told(url, line)]);
        }
        return Err(format!("this is neither curl nor a URL: {}", crate::switch::difference::short(command)));
    }
    let mut draft = Draft::default();
    let mut urls = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            None => urls.push(word.clone()),
            Some(letters) => {
                for (meaning, name, value) in options(letters)? {
                    let value = match value {
                        None if meaning.has_value() => {
                            arguments.next().cloned().ok_or_else(|| format!("{name} has no value"))?
                        }
                        value => value.unwrap_or_default(),
                    };
                    match meaning {
                        Meaning::Url => urls.push(value),
                        meaning => draft.apply(meaning, &name, value)?,
                    }
                }
            }
        }
    }
    if urls.is_empty() {
        return Err("curl has no URL".to_owned());
    }
    let read = |url: &String| Url::read(url).ok_or_else(|| format!("{url} is no URL of HTTP"));
    urls.iter().map(|url| Ok(draft.clone().told(read(url)?, line))).collect()
}

/// An option with its name and the value that is written to it.
type Found = (Meaning, String, Option<String>);

/// The options in a word without its first hyphen: `-silent`, `sSL`, `XPUT`.
fn options(letters: &str) -> Result<Vec<Found>, String> {
    if let Some(name) = letters.strip_prefix('-') {
        let known = OPTIONS.iter().find(|(_, own, _)| *own == name);
        let (_, _, meaning) = known.ok_or_else(|| format!("--{name} is not known here"))?;
        return Ok(vec![(*meaning, format!("--{name}"), None)]);
    }
    let mut found = Vec::new();
    for (at, letter) in letters.char_indices() {
        let known = OPTIONS.iter().find(|(own, _, _)| *own == letter && letter != ' ');
        let (_, _, meaning) = known.ok_or_else(|| format!("-{letter} is not known here"))?;
        let rest = &letters[at + letter.len_utf8()..];
        let value = (meaning.has_value() && !rest.is_empty()).then(|| rest.to_owned());
        found.push((*meaning, format!("-{letter}"), value));
        if meaning.has_value() {
            break;
        }
    }
    Ok(found)
}

/// What the options of a command have said so far.
#[derive(Clone, Debug, Default)]
struct Draft {
    method: Option<String>,
    /// Fields; without a value they are not sent.
    fields: Vec<(String, Option<String>)>,
    data: Option<String>,
    is_json: bool,
    is_query: bool,
    is_head: bool,
    is_old: bool,
    is_compressed: bool,
    user: Option<String>,
}

impl Draft {
    fn apply(&mut self, meaning: Meaning, name: &str, value: String) -> Result<(), String> {
        let is_file = value.starts_with('@') && matches!(meaning, Meaning::Data | Meaning::Json | Meaning::Field);
        if is_file || meaning == Meaning::Cookie && !value.is_empty() && !value.contains('=') {
            return Err(format!("{name} {value} reads a file, which is not done here"));
        }
        match meaning {
            Meaning::Field => self.field(&value),
            Meaning::Method => self.method = Some(value),
            Meaning::Data | Meaning::RawData => self.data(&value),
            Meaning::EscapedData => {
                let (name, content) = value.split_once('=').unwrap_or(("", &value));
                let equals = if name.is_empty() { "" } else { "=" };
                self.data(&format!("{name}{equals}{}", form_escaped(content)));
            }
            Meaning::Json => {
                self.data = Some(self.data.take().unwrap_or_default() + &value);
                self.is_json = true;
            }
            Meaning::Cookie => self.fields.push(("Cookie".to_owned(), Some(value))),
            Meaning::User => self.user = Some(value),
            Meaning::Agent => {
                self.fields.push(("User-Agent".to_owned(), Some(value).filter(|value| !value.is_empty())))
            }
            Meaning::Referer => self.fields.push(("Referer".to_owned(), Some(value))),
            Meaning::Range => self.fields.push(("Range".to_owned(), Some(format!("bytes={value}")))),
            Meaning::Compressed => self.is_compressed = true,
            Meaning::Head => self.is_head = true,
            Meaning::Get => self.is_query = true,
            Meaning::Minor(minor) => self.is_old = minor == 0,
            Meaning::Url | Meaning::Nothing | Meaning::NothingWith => {}
        }
        Ok(())
    }

    /// `Name: value`, `Name;` without a value, or `Name:`, which curl does not send.
    fn field(&mut self, line: &str) {
        let field = match line.split_once(':') {
            // The pseudo-fields of HTTP/2 begin with a colon, as some browsers copy them.
            Some(("", rest)) => rest.split_once(':').map(|(name, value)| (format!(":{name}"), Some(value.trim()))),
            Some((name, value)) => Some((name.to_owned(), Some(value.trim()).filter(|value| !value.is_empty()))),
            None => line.strip_suffix(';').map(|name| (name.to_owned(), Some(""))),
        };
        self.fields.extend(field.map(|(name, value)| (name, value.map(str::to_owned))));
    }

    fn data(&mut self, more: &str) {
        let known = self.data.take().map(|known| known + "&").unwrap_or_default();
        self.data = Some(known + more);
    }

    fn told(self, mut url: Url, line: u32) -> Told {
        let mut data = self.data;
        if let Some(query) = data.take_if(|_| self.is_query) {
            url.target.push(if url.target.contains('?') { '&' } else { '?' });
            url.target.push_str(&query);
        }
        let usual = match (&data, self.is_head) {
            (_, true) => "HEAD",
            (Some(_), _) => "POST",
            (None, _) => "GET",
        };
        let mut all = self.fields;
        let has =
            |name: &str, all: &[(String, Option<String>)]| all.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let user = self.user.or_else(|| url.user.clone());
        let kind = if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
        let accept = if self.is_json { "application/json" } else { "*/*" };
        let own = [
            ("User-Agent", Some("curl/8".to_owned())),
            ("Accept", Some(accept.to_owned())),
            ("Accept-Encoding", self.is_compressed.then(|| "deflate, gzip, br, zstd".to_owned())),
            ("Authorization", user.as_deref().map(basic)),
            ("Content-Type", data.is_some().then(|| kind.to_owned())),
        ];
        for (name, value) in own {
            if value.is_some() && !has(name, &all) {
                all.push((name.to_owned(), value));
            }
        }
        let fields = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Told {
            line,
            url,
            method: self.method.unwrap_or_else(|| usual.to_owned()),
            minor: u8::from(!self.is_old),
            fields: fields.filter(|(name, _)| !is_left_out(name)).collect(),
            body: data.unwrap_or_default().into_bytes(),
        }
    }
}

/// A value as a form sends it.
fn form_escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The commands of a text, divided as a shell does.
struct Shell<'t> {
    rest: &'t str,
    /// The number of the line at which `rest` begins.
    line: u32,
}

impl Shell<'_> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        self.line += u32::from(next == '\n');
        Some(next)
    }

    /// Goes to the next command, past blanks and comments; the number of its line.
    fn next_command(&mut self) -> Option<u32> {
        loop {
            match self.rest.chars().next()? {
                '#' => self.pass_line(),
                char if char.is_whitespace() || matches!(char, ';' | '&') => drop(self.next()),
                _ => return Some(self.line),
            }
        }
    }

    fn pass_line(&mut self) {
        while self.next().is_some_and(|char| char != '\n') {}
    }

    /// The words of a command.
    fn words(&mut self) -> Result<Vec<String>, String> {
        // A URL on a line of its own may have what a shell would understand.
        if ["http://", "https://"].iter().any(|scheme| self.rest.starts_with(scheme)) {
            let line = self.rest.lines().next().unwrap_or_default().trim().to_owned();
            self.pass_line();
            return Ok(vec![line]);
        }
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        while let Some(char) = self.next() {
            match char {
                '\n' | ';' | '&' => break,
                // What becomes of the answer does not matter.
                '|' | '>' | '<' => {
                    self.pass_line();
                    break;
                }
                '\r' | ' ' | '\t' => words.extend(word.take()),
                '\'' => self.quoted(word.get_or_insert_default())?,
                '"' => self.double_quoted(word.get_or_insert_default())?,
                '$' if self.rest.starts_with('\'') => {
                    self.next();
                    self.c_quoted(word.get_or_insert_default())?;
                }
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some('\r') => drop(self.next()),
                    Some(char) => word.get_or_insert_default().push(char),
                },
                char => word.get_or_insert_default().push(char),
            }
        }
        words.extend(word);
        Ok(words)
    }

    fn until_end(&mut self) -> Result<char, String> {
        self.next().ok_or_else(|| "a quotation mark is not closed".to_owned())
    }

    fn quoted(&mut self, word: &mut String) -> Result<(), String> {
        loop {
            match self.until_end()? {
                '\'' => return Ok(()),
                char => word.push(char),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), String> {
        loop {
            match self.until_end()? {
                '"' => return Ok(()),
                '\\' => match self.until_end()? {
                    '\n' => {}
                    char => {
                        if !matches!(char, '"' | '\\' | '$' | '`') {
                            word.push('\\');
                        }
                        word.push(char);
                    }
                },
                char => word.push(char),
            }
        }
    }

    /// What is in `$'…'`.
    fn c_quoted(&mut self, word: &mut String) -> Result<(), String> {
        loop {
            match self.until_end()? {
                '\'' => return Ok(()),
                '\\' => match self.until_end()? {
                    'n' => word.push('\n'),
                    'r' => word.push('\r'),
                    't' => word.push('\t'),
                    'x' => word.push(self.number(2)?),
                    'u' => word.push(self.number(4)?),
                    'U' => word.push(self.number(8)?),
                    char => word.push(char),
                },
                char => word.push(char),
            }
        }
    }

    /// The character of a number in at most so many hexadecimal digits.
    fn number(&mut self, most: usize) -> Result<char, String> {
        let digits: String = self.rest.chars().take(most).take_while(char::is_ascii_hexdigit).collect();
        self.rest = &self.rest[digits.len()..];
        let number = u32::from_str_radix(&digits, 16).ok();
        number.and_then(char::from_u32).ok_or_else(|| format!("\\u{digits} is no character"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let all = read(text).unwrap();
        let one = |told: Told| {
            let fields: Vec<String> = told.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let body = String::from_utf8(told.body).unwrap();
            let Url { authority, target, .. } = told.url;
            format!("{} {} {authority}{target} [{}] {body}", told.line, told.method, fields.join(", "))
        };
        all.into_iter().map(one).collect()
    }

    #[test]
    fn lines_are_read() {
        let usual = "User-Agent: curl/8, Accept: */*";
        for (text, expected) in [
            ("http://a/?b&c=$d\n", format!("1 GET a/?b&c=$d [{usual}] ")),
            ("# c\n\ncurl -sSL 'http://a/x'", format!("3 GET a/x [{usual}] ")),
            ("curl \\\n  -I a", format!("1 HEAD a/ [{usual}] ")),
            (
                "curl a -d x=1 -d y",
                format!("1 POST a/ [{usual}, Content-Type: application/x-www-form-urlencoded] x=1&y"),
            ),
            ("curl -G a/?q -d x=1", format!("1 GET a/?q&x=1 [{usual}] ")),
            (
                r"curl a --data-raw $'it\'s\n\u00fc' -XPUT",
                format!("1 PUT a/ [{usual}, Content-Type: application/x-www-form-urlencoded] it's\nü"),
            ),
            (
                r#"curl a -H "X: \"a\" \b" -H 'User-Agent:' -H 'Y;'"#,
                "1 GET a/ [X: \"a\" \\b, Y: , Accept: */*] ".to_owned(),
            ),
            (
                "curl a -u me:x -b i=1 -A z -e r",
                "1 GET a/ [Cookie: i=1, User-Agent: z, Referer: r, Accept: */*, Authorization: Basic bWU6eA==] "
                    .to_owned(),
            ),
            (
                "curl a -H 'Connection: close' -H 'content-length: 5' --compressed | jq .",
                format!("1 GET a/ [{usual}, Accept-Encoding: deflate, gzip, br, zstd] "),
            ),
        ] {
            assert_eq!(shown(text), [expected], "{text}");
        }
        assert_eq!(shown("curl a ;\ncurl b &\nhttps://c/").len(), 3);
        assert_eq!(shown("curl a b --url c").len(), 3);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("http://a/\nwget b", "line 2: this is neither curl nor a URL: wget"),
            ("curl", "line 1: curl has no URL"),
            ("curl 'a", "line 1: a quotation mark is not closed"),
            ("curl a -H", "line 1: -H has no value"),
            ("curl --proxy b a", "line 1: --proxy is not known here"),
            ("curl a -d @/etc/passwd", "line 1: -d @/etc/passwd reads a file, which is not done here"),
            ("curl ftp://a", "line 1: ftp://a is no URL of HTTP"),
            (r"curl $'\ud800'", r"line 1: \ud800 is no character"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
    }
}
