//! Variables that depend on the request: on a field of its head, its addresses, its line, or an expression.
//!
//! Lines outside sections act after the head was read, before the path is decoded; those inside act when all sections
//! are merged.
//!
//! Apache manual: mod_setenvif. Doubtful cases were measured on 2.4.71.

use std::sync::Arc;

use conf::directive::Args::Raw;
use conf::expr::{Eval, EvalError, Expr};
use conf::pattern::{Captures, Flags, PatternError, Regex, TooLong, substitute};
use conf::words::next_word;
use conf::{Allowed, Cmd, Directive, Level, Listed, ModuleInfo, Origin, Outcome, Refusal, row, settings};
use http::KnownField;
use server::PhaseHook::Now;
use server::{Flow, Hook, Module, Order, Phase, Request, TestedField};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "setenvif_module", source: "mod_setenvif.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::PostRead, Order::Middle, Now(of_server)),
        Hook::Phase(Phase::HeaderParser, Order::Middle, Now(of_sections)),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SetEnvIf", Allowed::FILEINFO, Raw(|c, rest| set_env_if(c, rest, false)), "", "A header-name, regex and a list of variables."),
    row("SetEnvIfNoCase", Allowed::FILEINFO, Raw(|c, rest| set_env_if(c, rest, true)), "", "a header-name, regex and a list of variables."),
    row("SetEnvIfExpr", Allowed::FILEINFO, Raw(set_env_if_expr), "", "an expression and a list of variables."),
    row("BrowserMatch", Allowed::FILEINFO, Raw(|c, rest| matching(c, "User-Agent", (1, rest), false)), "", "A browser regex and a list of variables."),
    row("BrowserMatchNoCase", Allowed::FILEINFO, Raw(|c, rest| matching(c, "User-Agent", (1, rest), true)), "", "A browser regex and a list of variables."),
];

settings! {
    /// The lines outside sections.
    pub struct SetEnvIfServer { rules: Listed<Arc<Rule>> }
}

settings! {
    /// The lines of a section.
    pub struct SetEnvIfDir { rules: Listed<Arc<Rule>> }
}

/// A `SetEnvIf` line: the variables to set or remove, and when.
#[derive(Debug)]
struct Rule {
    when: When,
    then: Vec<(String, Action)>,
}

#[derive(Debug)]
enum When {
    Matches {
        attribute: Attribute,
        regex: Arc<Regex>,
        /// The values are filled with parts of the match.
        fills: bool,
    },
    Holds(Box<Expr>),
}

#[derive(Debug, PartialEq)]
enum Attribute {
    RemoteAddress,
    RemoteHost,
    ServerAddress,
    Uri,
    Method,
    Protocol,
    /// A field of the head or, if there is none, a variable.
    Named(String, Option<KnownField>),
    /// The last field with a name that matches.
    Fields(Regex),
}

#[derive(Debug)]
enum Action {
    Unset,
    Set(String),
}

fn set_env_if(cmd: &mut Cmd<'_>, mut rest: &str, ignore_case: bool) -> Outcome {
    let name = next_word(&mut rest);
    if name.is_empty() {
        return Err(Refusal::missing(format!("Missing header-field name for {}", cmd.row.name)));
    }
    matching(cmd, &name, (2, rest), ignore_case)
}

/// The rest of a line, which begins with the pattern: argument `number`.
fn matching(cmd: &mut Cmd<'_>, attribute: &str, (number, mut rest): (usize, &str), ignore_case: bool) -> Outcome {
    let name = cmd.row.name;
    let pattern = next_word(&mut rest);
    if pattern.is_empty() {
        return Err(Refusal::missing(format!("Missing regular expression for {name}")));
    }
    let flags = if ignore_case { Flags::ignoring_case() } else { Flags::default() };
    let attribute = Attribute::new(attribute, flags)
        .map_err(|error| Refusal::pattern(1, 0, &error, format!("{name}Header name regex could not be compiled.")))?;
    let regex = Regex::new(&pattern, flags)
        .map_err(|error| Refusal::pattern(number, 0, &error, format!("{name} regex could not be compiled.")))?;
    let then = actions(cmd, rest)?;
    // As in Apache, the values have no special characters if the pattern has none.
    let has_special = |action: &Action| matches!(action, Action::Set(value) if value.contains(['$', '\\']));
    let fills = !is_plain(&pattern) && then.iter().any(|(_, action)| has_special(action));
    add(cmd, Rule { when: When::Matches { attribute, regex: regex.into(), fills }, then })
}

fn set_env_if_expr(cmd: &mut Cmd<'_>, mut rest: &str) -> Outcome {
    let text = next_word(&mut rest);
    if text.is_empty() {
        return Err(Refusal::missing("Missing expression for SetEnvIfExpr"));
    }
    let expr = Expr::parse_with(&text, cmd.expr_options()).map_err(|error| {
        Refusal::expression(1, 0, &error, format!("Could not parse expression \"{text}\": {error}"))
    })?;
    let then = actions(cmd, rest)?;
    add(cmd, Rule { when: When::Holds(Box::new(expr)), then })
}

/// The variables at the end of a line.
fn actions(cmd: &Cmd<'_>, mut rest: &str) -> Result<Vec<(String, Action)>, Refusal> {
    let mut then: Vec<(String, Action)> = Vec::new();
    loop {
        let word = next_word(&mut rest);
        if word.is_empty() {
            break;
        }
        let (name, action) = match word.split_once('=') {
            Some((name, value)) if value.starts_with('!') => (name, Action::Unset),
            Some((name, value)) if !value.is_empty() => (name, Action::Set(value.to_string())),
            assigned => {
                let name = assigned.map_or(word.as_str(), |(name, _)| name);
                name.strip_prefix('!').map_or((name, Action::Set("1".into())), |name| (name, Action::Unset))
            }
        };
        match then.iter_mut().find(|(have, _)| have.eq_ignore_ascii_case(name)) {
            Some(have) => have.1 = action,
            None => then.push((name.to_string(), action)),
        }
    }
    if then.is_empty() {
        return Err(Refusal::missing(format!("Missing envariable expression for {}", cmd.row.name)));
    }
    Ok(then)
}

fn add(cmd: &mut Cmd<'_>, rule: Rule) -> Outcome {
    let rule = Arc::new(rule);
    if cmd.place.in_section() {
        cmd.push(|d: &mut SetEnvIfDir| &mut d.rules, rule)
    } else {
        cmd.server_push(|s: &mut SetEnvIfServer| &mut s.rules, rule)
    }
}

impl Attribute {
    /// An error if the name is an invalid pattern for names.
    fn new(name: &str, flags: Flags) -> Result<Attribute, PatternError> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "remote_addr" => Attribute::RemoteAddress,
            "remote_host" => Attribute::RemoteHost,
            "server_addr" => Attribute::ServerAddress,
            "request_uri" => Attribute::Uri,
            "request_method" => Attribute::Method,
            "request_protocol" => Attribute::Protocol,
            lower if lower.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) => {
                Attribute::Named(name.to_string(), KnownField::classify(name.as_bytes()))
            }
            _ => Attribute::Fields(Regex::new(name, flags)?),
        })
    }

    /// The value for a request; nothing becomes the empty text.
    fn fetch(&self, request: &Request, value: &mut String) -> Result<(), EvalError> {
        value.clear();
        match self {
            Attribute::RemoteAddress => value.push_str(request.client().ip()),
            Attribute::RemoteHost => value.push_str(&request.client_host()?),
            Attribute::ServerAddress => value.push_str(&http::address_text(request.local().ip())),
            Attribute::Uri => value.push_str(&request.data.uri),
            Attribute::Method => value.push_str(&request.data.method),
            Attribute::Protocol => value.push_str(request.protocol()),
            Attribute::Named(name, _) => match request.header_joined(name) {
                Some(field) => value.push_str(&field),
                None => value.push_str(request.env_value(name).unwrap_or_default()),
            },
            Attribute::Fields(names) => {
                for (name, _) in request.headers().iter().rev() {
                    if names.is_match(name).map_err(EvalError::Regex)? {
                        value.push_str(&request.header_joined(name).unwrap_or_default());
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a pattern is literal: without unescaped special characters.
fn is_plain(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let special = |c| "^.*|()[]{}?+$\\".contains(c);
        if c == '\\' {
            if !chars.next().is_some_and(special) {
                return false;
            }
        } else if special(c) {
            return false;
        }
    }
    true
}

fn of_server(request: &mut Request) -> Flow {
    let vhost = request.vhost;
    run(request, &vhost.settings.get::<SetEnvIfServer>().rules)
}

/// Look-ups inherit their variables from the asking request.
fn of_sections(request: &mut Request) -> Flow {
    if request.is_subrequest() {
        return Flow::Declined;
    }
    let dir = request.dir.slots.clone();
    run(request, &dir.get::<SetEnvIfDir>().rules)
}

fn run(request: &mut Request, rules: &Listed<Arc<Rule>>) -> Flow {
    // Consecutive lines about the same attribute fetch it once.
    let (mut last, mut value) = (None, String::new());
    let mut tested: Option<(KnownField, Option<TestedField>)> = None;
    let mut captures = Captures::default();
    for (rule, origin) in rules.entries() {
        let obeyed = match &rule.when {
            When::Matches { attribute, regex, fills } => {
                let known = if let Attribute::Named(_, Some(known)) = attribute { Some(*known) } else { None };
                let field = known.filter(|_| !fills).and_then(|known| {
                    if tested.as_ref().is_none_or(|(other, _)| *other != known) {
                        tested = Some((known, request.tested_field(known)));
                    }
                    tested.as_ref()?.1.as_ref()
                });
                match field {
                    Some(field) => match field.matches(regex) {
                        Ok(true) => act(request, rule, |template| Ok(template.to_string())),
                        Ok(false) => Ok(()),
                        Err(why) => Err(EvalError::Regex(why)),
                    },
                    None => {
                        let fetched = match last {
                            Some(same) if same == attribute => Ok(()),
                            _ => attribute.fetch(request, &mut value),
                        };
                        last = Some(attribute);
                        fetched.and_then(|()| matches(request, rule, regex, *fills, &value, &mut captures))
                    }
                }
            }
            When::Holds(expr) => holds(request, rule, expr, origin),
        };
        if let Err(why) = obeyed {
            return request.undecided("setenvif", &why, origin);
        }
    }
    Flow::Declined
}

fn matches(
    request: &mut Request,
    rule: &Rule,
    regex: &Regex,
    fills: bool,
    value: &str,
    captures: &mut Captures,
) -> Result<(), EvalError> {
    if !fills {
        if regex.is_match(value).map_err(EvalError::Regex)? {
            act(request, rule, |template| Ok(template.to_string()))?;
        }
    } else if regex.captures(value, captures).map_err(EvalError::Regex)? {
        act(request, rule, |template| filled(template, value, captures))?;
    }
    Ok(())
}

fn holds(request: &mut Request, rule: &Rule, expr: &Expr, origin: &Origin) -> Result<(), EvalError> {
    let mut eval = Eval::new();
    match server::evaluate_keeping(request, expr, &mut eval) {
        Ok(true) => {
            let (subject, captures) = eval.captures();
            act(request, rule, |template| filled(template, subject, captures))?;
        }
        Ok(false) => {}
        Err(why) if why.is_undecided() => return Err(why),
        Err(why) => {
            request.not_evaluated("setenvif", &why, origin);
            request.log("setenvif", Level::Error, format!("Evaluation of SetEnvIfExpr expression failed: {why}"));
        }
    }
    Ok(())
}

fn filled(template: &str, subject: &str, captures: &Captures) -> Result<String, TooLong> {
    let mut out = String::with_capacity(template.len());
    substitute(&mut out, template, subject, captures, server::TEXT_MAX)?;
    Ok(out)
}

/// Sets and unsets a rule's variables. `Err`: a value is too long.
fn act(request: &mut Request, rule: &Rule, value: impl Fn(&str) -> Result<String, TooLong>) -> Result<(), EvalError> {
    for (name, action) in &rule.then {
        match action {
            Action::Unset => request.env.remove(name),
            Action::Set(template) => {
                let value = value(template).and_then(|value| request.bounded(value));
                request.env.set(name.clone(), value.map_err(|why| EvalError::Unknown(why.to_string()))?);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_measured() {
        crate::testing::check(&[
            ("SetEnvIf", "Missing header-field name for SetEnvIf"),
            ("SetEnvIf a", "Missing regular expression for SetEnvIf"),
            ("SetEnvIf a b", "Missing envariable expression for SetEnvIf"),
            ("SetEnvIf a ( x", "SetEnvIf regex could not be compiled."),
            ("SetEnvIf a( b x", "SetEnvIfHeader name regex could not be compiled."),
            ("SetEnvIfNoCase a", "Missing regular expression for SetEnvIfNoCase"),
            ("BrowserMatch", "Missing regular expression for BrowserMatch"),
            ("BrowserMatch a", "Missing envariable expression for BrowserMatch"),
            ("BrowserMatchNoCase [ x", "BrowserMatchNoCase regex could not be compiled."),
            ("SetEnvIfExpr", "Missing expression for SetEnvIfExpr"),
            ("SetEnvIfExpr true", "Missing envariable expression for SetEnvIfExpr"),
            (
                "SetEnvIfExpr \"x ==\" y",
                "Could not parse expression \"x ==\": syntax error, unexpected T_OP_STR_EQ, expecting '('",
            ),
            ("SetEnvIf ^X-(A|B)$ (.+) a=$1 !b c=\nBrowserMatch x y", ""),
        ]);
    }

    #[test]
    fn actions_as_measured() {
        let applied = crate::testing::apply("SetEnvIf a b v !w x= y=!z q=1=2 V=$1").map(|applied| applied.server);
        let server = applied.unwrap_or_default();
        let rule = server.get::<SetEnvIfServer>().rules.iter().next().map(|rule| format!("{:?}", rule.then));
        let want = r#"[("v", Set("$1")), ("w", Unset), ("x", Set("1")), ("y", Unset), ("q", Set("1=2"))]"#;
        assert_eq!(rule.as_deref(), Some(want));
    }

    #[test]
    fn sections_have_rules_of_their_own() {
        let count = |lines: &str| {
            crate::testing::apply(lines)
                .map(|a| (a.server.get::<SetEnvIfServer>().rules.len(), a.dir.get::<SetEnvIfDir>().rules.len()))
        };
        assert_eq!(count("SetEnvIf a b c\nBrowserMatch d e"), Ok((2, 0)));
    }

    #[test]
    fn plain_patterns() {
        for (pattern, plain) in [("Mozilla/2", true), (r"f\.txt", true), ("^a", false), (r"a\d", false), ("a.b", false)]
        {
            assert_eq!(is_plain(pattern), plain, "{pattern}");
        }
    }
}
