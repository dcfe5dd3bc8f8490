//! `ProxyHTMLURLMap`: a rule about links, and what becomes of a text by all rules.

use std::borrow::Cow;
use std::sync::Arc;

use conf::expr::{Expr, Options};
use conf::pattern::{Captures, Flags, MatchError, Regex, TooLong, substitute_in};
use http::text::to_bytes;

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The value of an attribute that is a link.
    Link,
    /// The value of an attribute that is a script.
    Event,
    /// The content of a script or a style sheet.
    Script,
}

/// What a rule looks for.
#[derive(Clone, Debug)]
pub(super) enum Sought {
    Text(String),
    Regex(Regex),
}

/// A line of the configuration.
#[derive(Debug)]
pub(super) struct Rule {
    from: Sought,
    to: String,
    /// The places that it is about.
    places: Vec<Place>,
    /// `L`: no other rule after it.
    is_last: bool,
    /// `l`: other rules after it, for links too.
    goes_on: bool,
    /// `^` and `$`: only at the start, or at the end, of a script.
    at_start: bool,
    at_end: bool,
    /// `n`: the replacement has no groups in it.
    is_literal: bool,
    /// `v` and `V`: which of the two texts has variables.
    pub(super) varies: (bool, bool),
    flags: Flags,
    /// It holds where this is true.
    pub(super) condition: Option<Expr>,
}

/// A rule in one request, whose variables are known.
#[derive(Clone, Debug)]
pub(super) struct Active {
    rule: Arc<Rule>,
    /// Its own texts, where they have variables.
    from: Option<Sought>,
    to: Option<String>,
}

/// Why a text cannot be changed.
#[derive(Debug)]
pub(super) enum Fault {
    TooLong(TooLong),
    Match(MatchError),
}

impl From<TooLong> for Fault {
    fn from(why: TooLong) -> Fault {
        Fault::TooLong(why)
    }
}

impl Rule {
    /// A rule from the words of its line. `Err`: the number of the word at fault, and the message.
    pub(super) fn parse(words: &[String], options: Options) -> Result<Rule, (usize, String)> {
        let [from, to, rest @ ..] = words else {
            return Err((words.len() + 1, "Usage: ProxyHTMLURLMap from-pattern to-pattern [flags] [cond]".into()));
        };
        let letters = rest.first().map_or("", |flags| flags);
        if let Some(odd) = letters.chars().find(|letter| !"hecLlRxins^$VvCHE".contains(*letter)) {
            return Err((3, format!("ProxyHTMLURLMap: unknown flag {odd}")));
        }
        let has = |letter: char| letters.contains(letter);
        let condition = match rest.get(1) {
            Some(text) => Some(condition(text, options).map_err(|error| (4, format!("ProxyHTMLURLMap: {error}")))?),
            None => None,
        };
        let flags = Flags { ignore_case: has('i'), multi_line: has('s'), ..Flags::default() };
        let varies = (has('v'), has('V'));
        let from = match has('R') {
            false => Sought::Text(from.clone()),
            // With variables in it, the pattern is another one for each request.
            true => match Regex::new(from, flags) {
                Ok(regex) => Sought::Regex(regex),
                Err(error) => return Err((1, format!("ProxyHTMLURLMap: cannot compile {from}: {error}"))),
            },
        };
        let places = [(Place::Link, 'h'), (Place::Event, 'e'), (Place::Script, 'c')];
        Ok(Rule {
            from,
            to: to.clone(),
            places: places.into_iter().filter(|(_, flag)| !has(*flag)).map(|(place, _)| place).collect(),
            is_last: has('L'),
            goes_on: has('l'),
            at_start: has('^'),
            at_end: has('$'),
            is_literal: has('n'),
            varies,
            flags,
            condition,
        })
    }

    /// The rule as it is written.
    pub(super) fn constant(self: &Arc<Rule>) -> Active {
        Active { rule: self.clone(), from: None, to: None }
    }

    /// The rule with its variables replaced. `Err`: why it is of no use.
    pub(super) fn interpolated(
        self: &Arc<Rule>,
        replaced: &dyn Fn(&str) -> Result<String, TooLong>,
    ) -> Result<Active, String> {
        let text = |text: &str| replaced(text).map_err(|why| why.to_string());
        let from = match &self.from {
            _ if !self.varies.0 => None,
            Sought::Text(from) => Some(Sought::Text(text(from)?)),
            Sought::Regex(regex) => {
                let pattern = text(regex.source())?;
                Some(Sought::Regex(Regex::new(&pattern, self.flags).map_err(|error| format!("{pattern}: {error}"))?))
            }
        };
        let to = if self.varies.1 { Some(text(&self.to)?) } else { None };
        Ok(Active { rule: self.clone(), from, to })
    }
}

/// A condition: an expression, or one of the older syntax, `name`, `!name`, `name=value` or `!name=value`.
fn condition(text: &str, options: Options) -> Result<Expr, conf::expr::ExprError> {
    let (negated, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let old = match value {
        _ if !is_name => None,
        Some(value) if !value.is_empty() && !value.contains('\'') => {
            Some(format!("reqenv('{name}') {} '{value}'", if negated { "!=" } else { "==" }))
        }
        Some(_) => None,
        None if matches!(name, "true" | "false") => None,
        None => Some(format!("-{} reqenv('{name}')", if negated { 'z' } else { 'n' })),
    };
    Expr::parse_with(&old.map_or(Cow::Borrowed(text), Cow::Owned), options)
}

impl Active {
    fn from(&self) -> &Sought {
        self.from.as_ref().unwrap_or(&self.rule.from)
    }

    fn to(&self) -> &str {
        self.to.as_ref().unwrap_or(&self.rule.to)
    }

    /// Changes a text by this rule. Returns whether it applies.
    fn change(&self, place: Place, text: &mut Vec<u8>, most: usize) -> Result<bool, Fault> {
        match self.from() {
            Sought::Text(from) => self.replace_text(&to_bytes(from), place, text, most),
            Sought::Regex(regex) => self.replace_matches(regex, place, text, most),
        }
    }

    fn replace_text(&self, from: &[u8], place: Place, text: &mut Vec<u8>, most: usize) -> Result<bool, Fault> {
        let to = to_bytes(self.to());
        if place == Place::Link {
            let is_start = text.get(..from.len()).is_some_and(|start| start.eq_ignore_ascii_case(from));
            if is_start {
                TooLong::check(text.len() - from.len() + to.len(), most)?;
                text.splice(..from.len(), to.iter().copied());
            }
            return Ok(is_start);
        }
        let end = text.len().checked_sub(from.len());
        let places: Vec<usize> = match () {
            () if from.is_empty() => Vec::new(),
            () if self.rule.at_start => Some(0).filter(|_| text.starts_with(from)).into_iter().collect(),
            () if self.rule.at_end => end.filter(|_| text.ends_with(from)).into_iter().collect(),
            () => memchr::memmem::find_iter(text, from).collect(),
        };
        if places.is_empty() {
            return Ok(false);
        }
        let length = (text.len() - places.len() * from.len()).saturating_add(places.len() * to.len());
        TooLong::check(length, most)?;
        let (mut made, mut copied) = (Vec::with_capacity(length), 0);
        for at in places {
            made.extend_from_slice(&text[copied..at]);
            made.extend_from_slice(&to);
            copied = at + from.len();
        }
        made.extend_from_slice(&text[copied..]);
        *text = made;
        Ok(true)
    }

    fn replace_matches(&self, regex: &Regex, place: Place, text: &mut Vec<u8>, most: usize) -> Result<bool, Fault> {
        let (mut made, mut copied, mut at, mut found) = (Vec::new(), 0, 0, false);
        let mut captures = Captures::default();
        while at <= text.len() && regex.captures_in(text, at, &mut captures).map_err(Fault::Match)? {
            let Some(span) = captures.span(0) else { break };
            found = true;
            made.extend_from_slice(&text[copied..span.start]);
            match self.rule.is_literal {
                true => made.extend_from_slice(&to_bytes(self.to())),
                false => substitute_in(&mut made, self.to(), text, &captures, most)?,
            }
            TooLong::check(made.len(), most)?;
            copied = span.end;
            at = if span.is_empty() { span.end + 1 } else { span.end };
            if place == Place::Link {
                break;
            }
        }
        if found {
            made.extend_from_slice(&text[copied..]);
            *text = made;
        }
        Ok(found)
    }
}

/// Changes a text by all rules, to at most so many bytes. Returns whether one applies.
pub(super) fn change(rules: &[Active], place: Place, text: &mut Vec<u8>, most: usize) -> Result<bool, Fault> {
    let mut is_changed = false;
    for active in rules.iter().filter(|active| active.rule.places.contains(&place)) {
        let rule = &active.rule;
        if active.change(place, text, most)? {
            is_changed = true;
            let ends = if place == Place::Link { !rule.goes_on } else { rule.is_last };
            if ends {
                break;
            }
        }
    }
    Ok(is_changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(line: &str) -> Result<Rule, (usize, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        Rule::parse(&words, Options::default())
    }

    #[test]
    fn texts() {
        let table: &[(&[&str], Place, &str, Option<&str>)] = &[
            (&["http://in/ /out/"], Place::Link, "HTTP://IN/a?http://in/", Some("/out/a?http://in/")),
            (&["http://in/ /out/"], Place::Link, "/http://in/", None),
            (&["/a /b", "/ /c/"], Place::Link, "/a", Some("/b")),
            (&["/a /b l", "/ /c/"], Place::Link, "/a", Some("/c/b")),
            (&["/a /b h", "/ /c/"], Place::Link, "/a", Some("/c/a")),
            (&["a(.) <$1> R"], Place::Link, "xabac", Some("x<b>ac")),
            (&["a(.) <$1> R"], Place::Script, "xabac", Some("x<b><c>")),
            (&["A <$0> Rin"], Place::Script, "aA", Some("<$0><$0>")),
            (&["^a b Rs"], Place::Script, "a\na", Some("b\nb")),
            (&["a b"], Place::Event, "aca", Some("bcb")),
            (&["a b ^"], Place::Event, "aca", Some("bca")),
            (&["a b $"], Place::Event, "aca", Some("acb")),
            (&["a b $"], Place::Event, "acac", None),
            (&["a b", "b c"], Place::Script, "a", Some("c")),
            (&["a b L", "b c"], Place::Script, "a", Some("b")),
            (&["a b c"], Place::Script, "a", None),
            (&["a b e"], Place::Event, "a", None),
        ];
        for (lines, place, text, want) in table {
            let rules: Vec<Active> =
                lines.iter().map(|line| Arc::new(rule(line).expect("a rule")).constant()).collect();
            let mut made = text.as_bytes().to_vec();
            let is_changed = change(&rules, *place, &mut made, 100).expect("short");
            let made = String::from_utf8(made).expect("text");
            assert_eq!(is_changed.then_some(&*made), *want, "{lines:?} {text}");
        }
        let long = [Arc::new(rule("a bbbbbbbb").expect("a rule")).constant()];
        assert!(change(&long, Place::Script, &mut b"aaaaaaaaaaaaaaaa".to_vec(), 100).is_err());
    }

    #[test]
    fn conditions() {
        for (text, want) in [("A", true), ("!A", false), ("A=b", true), ("!A=b", true), ("reqenv('A') == 'x'", true)] {
            assert!(rule(&format!("a b V {}", text.replace(' ', ""))).is_ok(), "{text} {want}");
        }
        assert_eq!(rule("a b ((").map(drop), rule("a b ((").map(drop));
        assert_eq!(rule("a b q").map(drop), Err((3, "ProxyHTMLURLMap: unknown flag q".into())));
        assert!(matches!(rule("( b R"), Err((1, _))) && matches!(rule("a"), Err((2, _))));
        assert!(matches!(rule("a b V (("), Err((4, _))));
    }
}
