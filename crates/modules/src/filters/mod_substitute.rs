//! Search and replace in responses: the output filter `SUBSTITUTE`.
//!
//! Apache manual: mod_substitute. A body is changed line by line while it is sent, so at most one line of it is in
//! memory.

use std::io;
use std::sync::Arc;

use conf::directive::Args::{Flag, Take1};
use conf::pattern::{Captures, Flags, MatchError, Regex, TooLong, substitute_in};
use conf::values::one_of;
use conf::{Allowed, Cmd, Directive, Level, Merge, ModuleInfo, Origin, Outcome, Setting, on_or_off, row, settings};
use http::text::to_bytes;
use runtime::CoopBudget;
use server::{Body, BodyStream, Hook, Module, OutputFilter, Rank, Request, Writer};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "substitute_module", source: "mod_substitute.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&SUBSTITUTE)],
};

static SUBSTITUTE: OutputFilter = OutputFilter {
    name: "SUBSTITUTE",
    rank: Rank::RESOURCE,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(filter(request, body)),
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("Substitute", Allowed::FILEINFO, Take1(add), "", "Pattern to filter the response content (s/foo/bar/[inf])"),
    row("SubstituteMaxLineLength", Allowed::FILEINFO, Take1(set_max), "1m", "Maximum line length"),
    row("SubstituteInheritBefore", Allowed::FILEINFO, Flag(set_before), on_or_off(false), "Apply inherited patterns before those of the current context"),
];

/// The default limit of a line, in bytes.
const MAX: usize = 1024 * 1024;

settings! {
    /// The module's settings of a section.
    pub struct SubstituteDir {
        rules: Rules,
        max: Setting<usize>,
    }
}

/// The rules of a section and of those around it.
#[derive(Clone, Debug, Default)]
struct Rules {
    rules: Vec<Arc<Rule>>,
    /// `SubstituteInheritBefore`: the outer sections' rules come first.
    before: bool,
    /// The lines that contributed to them.
    lines: Vec<Origin>,
}

impl Merge for Rules {
    fn merge(base: &Self, add: &Self) -> Self {
        let before = base.before || add.before;
        let (first, second) = if before { (base, add) } else { (add, base) };
        Rules {
            rules: [&first.rules[..], &second.rules[..]].concat(),
            before,
            lines: [&base.lines[..], &add.lines[..]].concat(),
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.lines.iter().for_each(see);
    }
}

/// `s/pattern/replacement/flags`
#[derive(Debug)]
struct Rule {
    regex: Regex,
    replacement: String,
    /// `n`: the replacement has no groups in it.
    is_literal: bool,
    /// Without `q`: replaced text is a part of the line for the later rules.
    joins: bool,
}

fn add(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let rule = rule(line)?;
    let origin = cmd.origin();
    let rules = &mut cmd.dir.edit::<SubstituteDir>().rules;
    rules.rules.push(Arc::new(rule));
    rules.lines.push(origin);
    Ok(())
}

fn rule(line: &str) -> Result<Rule, String> {
    const INCOMPLETE: &str = "Bad Substitute format, must be a complete s/// pattern";
    let rest = line.strip_prefix(['s', 'S']).ok_or("Bad Substitute format, must be an s/// pattern")?;
    let delimiter = rest.chars().next().ok_or(INCOMPLETE)?;
    let (from, rest) = rest[delimiter.len_utf8()..].split_once(delimiter).ok_or(INCOMPLETE)?;
    let (to, flags) = rest.split_once(delimiter).unwrap_or((rest, ""));
    if from.is_empty() {
        return Err(INCOMPLETE.into());
    }
    let (mut is_literal, mut joins, mut how) = (false, true, Flags::default());
    for flag in flags.chars() {
        match flag.to_ascii_lowercase() {
            'i' => how = Flags::ignoring_case(),
            'n' => is_literal = true,
            'f' => joins = true,
            'q' => joins = false,
            _ => return Err("Bad Substitute flag, only s///[infq] are supported".into()),
        }
    }
    let pattern = if is_literal { literal(from) } else { from.to_string() };
    let regex = Regex::new(&pattern, how).map_err(|_| "Substitute could not compile regex")?;
    Ok(Rule { regex, replacement: to.to_string(), is_literal, joins })
}

/// The pattern that matches a literal text.
fn literal(text: &str) -> String {
    let escaped = |char: char| [(char.is_ascii_punctuation()).then_some('\\'), Some(char)];
    text.chars().flat_map(escaped).flatten().collect()
}

fn set_max(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    const WRONG: &str =
        "SubstituteMaxLineLength must be a non-negative integer optionally suffixed with 'b', 'k', 'm' or 'g'.";
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let units = [("", 0), ("b", 0), ("k", 10), ("m", 20), ("g", 30)];
    let shift = one_of(&value[digits..], &units).ok_or(WRONG)?;
    if digits == 0 {
        return Err(WRONG.into());
    }
    let number = value[..digits].parse::<usize>().ok();
    let max = number.and_then(|number| number.checked_mul(1 << shift)).filter(|max| *max <= isize::MAX as usize);
    cmd.set(|d: &mut SubstituteDir| &mut d.max, max.ok_or("SubstituteMaxLineLength value too large")?)
}

fn set_before(cmd: &mut Cmd<'_>, on: bool) -> Outcome {
    let origin = cmd.origin();
    let rules = &mut cmd.dir.edit::<SubstituteDir>().rules;
    rules.before = on;
    rules.lines.push(origin);
    Ok(())
}

async fn filter(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    let dir = request.dir.slots.clone();
    let dir = dir.get::<SubstituteDir>();
    request.response.headers_out.remove("Content-Length");
    if dir.rules.rules.is_empty() || matches!(body, Body::Empty) {
        return body;
    }
    let (rules, max) = (dir.rules.rules.clone(), dir.max.value_or(MAX));
    let speaker = request.speaker();
    server::written(|out| change(speaker, body.into_stream(), rules, max, out)).await
}

async fn change(
    speaker: Box<Request>,
    mut source: Box<dyn BodyStream>,
    rules: Vec<Arc<Rule>>,
    max: usize,
    out: Writer,
) -> io::Result<()> {
    let fail = |why: Fault| {
        match why {
            Fault::TooLong => {
                speaker.log("substitute", Level::Error, format!("AH01328: Line too long, URI {}", speaker.data.uri));
            }
            Fault::Match(error) => speaker.log("substitute", Level::Error, error.to_string()),
        }
        io::Error::other("a line cannot be changed")
    };
    // Several lines go out at once.
    let (mut begun, mut made, mut budget) = (Vec::new(), Vec::new(), CoopBudget::new());
    while let Some(piece) = source.next().await {
        let piece = piece?;
        let mut rest = &piece[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            budget.step().await;
            let (line, behind) = rest.split_at(end + 1);
            begun.extend_from_slice(line);
            replace(&begun, &rules, max, &mut made).map_err(fail)?;
            begun.clear();
            rest = behind;
        }
        begun.extend_from_slice(rest);
        if begun.len() > max {
            return Err(fail(Fault::TooLong));
        }
        out.write(&made).await;
        made.clear();
    }
    replace(&begun, &rules, max, &mut made).map_err(fail)?;
    out.write(&made).await;
    Ok(())
}

/// Why a line cannot be changed.
#[derive(Debug)]
enum Fault {
    TooLong,
    Match(MatchError),
}

impl From<TooLong> for Fault {
    fn from(_: TooLong) -> Fault {
        Fault::TooLong
    }
}

/// Appends a line, changed by all rules, to `out`. Later rules do not see text replaced by a rule with `q`.
fn replace(line: &[u8], rules: &[Arc<Rule>], max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    if line.len() > max {
        return Err(Fault::TooLong);
    }
    let mut parts: Option<Vec<Vec<u8>>> = None;
    // A single rule need not join anything.
    for rule in rules {
        let (mut changed, mut room) = (Vec::new(), max);
        let mut is_changed = false;
        for part in parts.as_deref().unwrap_or(&[]) {
            is_changed |= apply(rule, part, &mut room, &mut changed)?;
        }
        if parts.is_none() {
            is_changed = apply(rule, line, &mut room, &mut changed)?;
        }
        if is_changed {
            parts = Some(changed);
        }
    }
    match parts {
        None => out.extend_from_slice(line),
        Some(parts) => parts.iter().for_each(|part| out.extend_from_slice(part)),
    }
    Ok(())
}

/// Appends a part of a line, changed by one rule, to `out`, in which there is `room` for so many bytes. Returns whether the
/// rule applied.
fn apply(rule: &Rule, part: &[u8], room: &mut usize, out: &mut Vec<Vec<u8>>) -> Result<bool, Fault> {
    let (mut at, mut copied, mut made) = (0, 0, Vec::new());
    let push = |out: &mut Vec<Vec<u8>>, made: &mut Vec<u8>, room: &mut usize| match room.checked_sub(made.len()) {
        None => Err(Fault::TooLong),
        Some(_) if made.is_empty() => Ok(()),
        Some(left) => {
            *room = left;
            out.push(std::mem::take(made));
            Ok(())
        }
    };
    let mut captures = Captures::default();
    let mut found = false;
    while at <= part.len() && rule.regex.captures_in(part, at, &mut captures).map_err(Fault::Match)? {
        let Some(span) = captures.span(0) else { break };
        found = true;
        made.extend_from_slice(&part[copied..span.start]);
        if !rule.joins {
            push(out, &mut made, room)?;
        }
        match rule.is_literal {
            true => made.extend_from_slice(&to_bytes(&rule.replacement)),
            false => substitute_in(&mut made, &rule.replacement, part, &captures, *room)?,
        }
        if !rule.joins {
            push(out, &mut made, room)?;
        }
        TooLong::check(made.len(), *room)?;
        copied = span.end;
        // Advance after an empty match.
        at = if span.is_empty() { span.end + 1 } else { span.end };
    }
    made.extend_from_slice(&part[copied..]);
    push(out, &mut made, room)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(line: &str, rules: &[&str]) -> String {
        let rules: Vec<_> = rules.iter().map(|one| Arc::new(rule(one).expect("a rule"))).collect();
        let mut out = Vec::new();
        replace(line.as_bytes(), &rules, 100, &mut out).expect("a line");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_limit_is_met_exactly_by_many_parts() {
        let rules = ["s/a/b/q", "s/c/d/q"].map(|one| Arc::new(rule(one).expect("a rule")));
        let (line, mut out) = (vec![b'a'; 200_000], Vec::new());
        replace(&line, &rules, line.len(), &mut out).expect("a line");
        assert_eq!(out, vec![b'b'; line.len()]);
        let longer = ["s/a/b/q", "s/b/dd/q"].map(|one| Arc::new(rule(one).expect("a rule")));
        assert!(replace(b"aab", &longer, 5, &mut out).is_err() && replace(b"aab", &longer, 6, &mut out).is_ok());
    }

    #[test]
    fn lines() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("foo bar foo", &["s/foo/x/"], "x bar x"),
            ("foo bar", &["s|o+|[$0]|"], "f[oo] bar"),
            ("FOO a.c abc", &["s/foo/$1/in", "s/a.c/-/n"], "$1 - abc"),
            ("abc", &["s/b/xy/", "s/xy/z/"], "azc"),
            ("abc", &["s/b/xy/q", "s/ax/!/"], "axyc"),
            ("abc", &["s/b/xy/", "s/ax/!/"], "!yc"),
            ("abc", &["s/x*/-/"], "-a-b-c-"),
            ("a\n", &["s/$/!/"], "a\n!"),
            ("none", &["s/x/y/"], "none"),
        ];
        for (line, rules, want) in cases {
            assert_eq!(replaced(line, rules), *want, "{line:?} {rules:?}");
        }
        let long = [Arc::new(rule("s/a/bbbb/").expect("a rule"))];
        assert!(matches!(replace(&[b'a'; 60], &long, 100, &mut Vec::new()), Err(Fault::TooLong)));
    }

    #[test]
    fn errors_as_apache_has_them() {
        let incomplete = "Bad Substitute format, must be a complete s/// pattern";
        crate::testing::check(&[
            ("Substitute s/a/b/", ""),
            ("Substitute S|a|b", ""),
            ("Substitute s/a/b/INFQ", ""),
            ("Substitute x/a/b/", "Bad Substitute format, must be an s/// pattern"),
            ("Substitute s", incomplete),
            ("Substitute s//b/", incomplete),
            ("Substitute s/a", incomplete),
            ("Substitute s/a/b/x", "Bad Substitute flag, only s///[infq] are supported"),
            ("Substitute s/(/b/", "Substitute could not compile regex"),
            ("Substitute s/(/b/n", ""),
            ("SubstituteMaxLineLength 10k", ""),
            (
                "SubstituteMaxLineLength 10x",
                "SubstituteMaxLineLength must be a non-negative integer optionally suffixed with 'b', 'k', 'm' or 'g'.",
            ),
            ("SubstituteMaxLineLength 99999999999999999999", "SubstituteMaxLineLength value too large"),
        ]);
    }
}
