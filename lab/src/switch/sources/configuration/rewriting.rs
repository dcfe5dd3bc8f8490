//! Requests about `RewriteRule`.

use super::conditions::Attribute;
use super::line::{Line, Wanted};
use super::scope::paths_of;
use crate::switch::sources::pattern::Pattern;
use crate::switch::sources::walk::encoded;
use crate::switch::tree::Directive;

/// A condition that a request can meet.
struct Condition {
    attribute: Attribute,
    pattern: Pattern,
    /// A text that meets it; none if everything but what the pattern matches does.
    text: Option<String>,
}

/// Paths that the rule matches, with and without what its conditions want.
pub(super) fn rule(line: &Line<'_>) -> Vec<Wanted> {
    let Some(pattern) = expression(line.first(), line.words.get(2)) else { return Vec::new() };
    let conditions: Vec<Condition> = conditions(line).iter().filter_map(condition).collect();
    let mut wanted = Vec::new();
    for (path, what) in paths(line, &pattern) {
        let place = line.get(&path, what);
        let mut whole = Some(place.clone());
        for condition in &conditions {
            if let Some(text) = &condition.text {
                whole = whole.and_then(|whole| condition.attribute.apply(whole, text));
                let near = condition.pattern.near(text);
                let near = near.and_then(|near| condition.attribute.apply(place.clone(), &near));
                wanted.extend(near.map(|near| near.about("just misses a condition")));
            } else if let Some(text) = condition.pattern.texts().first() {
                let met = condition.attribute.apply(place.clone(), text);
                wanted.extend(met.map(|met| met.about("what a condition excludes")));
            }
        }
        if !conditions.is_empty() {
            wanted.push(place.clone().about("meets no condition"));
        }
        let Some(whole) = whole else { continue };
        wanted.extend(line.twin(&whole));
        wanted.push(whole.clone().method("HEAD"));
        if !whole.ask.target.contains(&b'?') {
            wanted.push(whole.clone().query("a=b&c=%20d%2Fe"));
        }
        wanted.insert(0, whole);
    }
    wanted
}

/// A pattern of `mod_rewrite`: behind `!`, everything that it does not match is meant, and that gives no text.
fn expression(text: &str, flags: Option<&String>) -> Option<Pattern> {
    let pattern = Pattern::read(text.strip_prefix('!').is_none().then_some(text)?)?;
    let ignores_case = flags.is_some_and(|flags| flag(flags, "NC") || flag(flags, "nocase"));
    Some(if ignores_case { pattern.ignoring_case() } else { pattern })
}

/// Whether a list such as `[NC,OR]` has a flag.
fn flag(flags: &str, name: &str) -> bool {
    flags.trim_matches(['[', ']']).split(',').any(|own| own.trim().eq_ignore_ascii_case(name))
}

/// The conditions of the rule: those right before it.
fn conditions<'l>(line: &'l Line<'_>) -> Vec<&'l Directive> {
    let mut found: Vec<&Directive> = line.before.iter().rev().take_while(|one| one.is("RewriteCond")).collect();
    found.reverse();
    found
}

fn condition(directive: &&Directive) -> Option<Condition> {
    let words = directive.words();
    let (test, pattern) = (words.first()?, words.get(1)?);
    let name = test.strip_prefix("%{")?.strip_suffix('}')?;
    let (is_negated, pattern) = pattern.strip_prefix('!').map_or((false, pattern.as_str()), |pattern| (true, pattern));
    // Tests of files, and comparisons; what they compare with is a text.
    let (pattern, literal) = match pattern.strip_prefix('=') {
        Some(text) => (Pattern::read(&format!("^{}$", escaped(text)))?, Some(text.to_owned())),
        None if pattern.starts_with(['-', '<', '>']) => return None,
        None => (expression(pattern, words.get(2))?, None),
    };
    let text = if is_negated { None } else { literal.or_else(|| pattern.texts().into_iter().next()) };
    Some(Condition { attribute: Attribute::of_variable(name), pattern, text })
}

/// A text as an expression that matches only this text.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|char| [Some('\\').filter(|_| !char.is_alphanumeric()), Some(char)]).flatten().collect()
}

/// Paths that the rule matches, and paths that it just does not. In a directory the path of that directory is taken away
/// before.
fn paths(line: &Line<'_>, pattern: &Pattern) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let is_inside = line.scope.is_directory();
    let directory = line.directory();
    let texts = if is_inside { pattern.texts() } else { paths_of(pattern) };
    for text in texts {
        let near = pattern.near(&text);
        let shown =
            |text: &str| if is_inside { format!("{directory}{}", encoded(text.as_bytes())) } else { text.to_owned() };
        found.push((shown(&text), "matches the rule"));
        found.extend(near.map(|near| (shown(&near), "just misses the rule")));
    }
    let is_match = |url: &str| match is_inside {
        true => url.strip_prefix(directory).is_some_and(|rest| pattern.is_found(rest)),
        false => pattern.is_found(url),
    };
    let files =
        line.ground.entries().filter(|(url, entry)| entry.is_open && line.scope.has(url, entry) && is_match(url));
    found.extend(files.take(2).map(|(url, _)| (url, "a file that matches the rule")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::tree::Origin;

    #[test]
    fn conditions_give_texts() {
        for (arguments, expected) in [
            (r"%{HTTP_HOST} ^www\.a\.b$ [NC]", Some((Attribute::Host, Some("www.a.b")))),
            ("%{QUERY_STRING} =a=b.c", Some((Attribute::Query, Some("a=b.c")))),
            ("%{HTTP:X-Y} !^z", Some((Attribute::Field("X-Y".to_owned()), None))),
            ("%{REQUEST_FILENAME} !-f", None),
            ("%{HTTP_HOST}%{REQUEST_URI} ^a", None),
            ("%{TIME_HOUR} >12", None),
        ] {
            let origin = Origin { file: "a".into(), line: 1 };
            let line =
                Directive { name: "RewriteCond".to_owned(), arguments: arguments.to_owned(), origin, children: None };
            let found = condition(&&line);
            let found = found.as_ref().map(|one| (one.attribute.clone(), one.text.as_deref()));
            assert_eq!(found.filter(|(attribute, _)| *attribute != Attribute::Other), expected, "{arguments}");
        }
        assert!(flag("[R=301,NC]", "nc") && !flag("[NCX]", "NC"));
    }
}
