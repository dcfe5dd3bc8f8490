//! The functions of the directives, and their errors.

use std::sync::Arc;

use conf::expr::{ExprError, StringExpr};
use conf::pattern::{Captures, Flags, Regex};
use conf::values::atoi;
use conf::{Cmd, DirectiveContext, Level, Outcome, Refusal};
use server::core_module::is_url;

use super::list::Matcher;
use super::{Alias, AliasDir, AliasServer, Redirect, SectionAlias, SectionRedirect};

/// Whether the line is in a section with settings of its own, or in an `.htaccess` file.
fn in_section(place: &DirectiveContext) -> bool {
    place.path.is_some() || ["<If", "<ElseIf", "<Else"].iter().any(|name| place.inside(name))
}

pub(super) fn add_alias(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>, script: bool) -> Outcome {
    match second {
        Some(real) => add_prefix_alias(cmd, first, real, script),
        None => add_section_alias(cmd, first, script),
    }
}

fn add_prefix_alias(cmd: &mut Cmd<'_>, fake: &str, real: &str, script: bool) -> Outcome {
    if in_section(cmd.place) {
        return Err(cmd.cannot_occur("directory context"));
    }
    let aliases = &cmd.server.get::<AliasServer>().aliases;
    let covering = aliases.find(fake, &mut Captures::default()).map_err(|(why, _)| why.to_string())?;
    let covering = covering.map(|(line, _)| {
        let script = if line.then.script { "Script" } else { "" };
        let regex = if matches!(line.matcher, Matcher::Pattern(_)) { "Match" } else { "" };
        format!("{script}Alias{regex}")
    });
    if let Some(earlier) = covering {
        let (name, at) = (cmd.row.name, cmd.origin());
        let text = format!(
            "AH00671: The {name} directive in {} at line {} will probably never match because it overlaps an earlier \
             {earlier}.",
            at.file(),
            at.line
        );
        cmd.context.note("alias", Level::Warn, text);
    }
    push_alias(cmd, Matcher::Prefix(fake.into()), Alias { real: real.into(), script })
}

pub(super) fn add_alias_match(cmd: &mut Cmd<'_>, pattern: &str, real: &str, script: bool) -> Outcome {
    if in_section(cmd.place) {
        return Err(cmd.cannot_occur("directory context"));
    }
    push_alias(cmd, Matcher::Pattern(regex(1, pattern)?), Alias { real: real.into(), script })
}

fn push_alias(cmd: &mut Cmd<'_>, matcher: Matcher, alias: Alias) -> Outcome {
    let origin = cmd.origin();
    cmd.server.edit::<AliasServer>().aliases.push(matcher, alias, origin);
    Ok(())
}

fn add_section_alias(cmd: &mut Cmd<'_>, path: &str, script: bool) -> Outcome {
    const FORBIDDEN: [&str; 7] = ["<Directory", "<DirectoryMatch", "<Files", "<FilesMatch", "<If", "<ElseIf", "<Else"];
    if let Some(section) = FORBIDDEN.iter().find(|name| cmd.place.inside(name)) {
        return Err(cmd.cannot_occur(&format!("{section}> section")));
    }
    let Some(prefix) = cmd.place.path.clone() else {
        return Err("Alias must have two arguments when used globally".into());
    };
    let path = expression(cmd, path).map_err(|why| format!("Cannot parse alias expression '{path}': {why}"))?;
    cmd.set(|d: &mut AliasDir| &mut d.alias, Arc::new(SectionAlias { path, prefix: prefix.to_string(), script }))
}

/// The regular expression in argument `number`.
fn regex(number: usize, pattern: &str) -> Result<Regex, Refusal> {
    let regex = Regex::new(pattern, Flags::default());
    regex.map_err(|error| Refusal::pattern(number, 0, &error, "Regular expression could not be compiled."))
}

fn expression(cmd: &Cmd<'_>, text: &str) -> Result<StringExpr, ExprError> {
    StringExpr::parse_with(text, cmd.expr_options())
}

pub(super) fn is_redirect(status: u16) -> bool {
    (300..400).contains(&status)
}

/// `[status] [path] [target]`: the number of arguments determines their meaning.
pub(super) fn add_redirect(cmd: &mut Cmd<'_>, words: [Option<&str>; 3], default: u16, is_regex: bool) -> Outcome {
    let named = words[0].and_then(|word| match word.to_ascii_lowercase().as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        // As in Apache, the number may be nonsense here; the response is then an error.
        word if word.starts_with(|c: char| c.is_ascii_digit()) => Some(u16::try_from(atoi(word)).unwrap_or(0)),
        _ => None,
    });
    let status = named.unwrap_or(default);
    // The number of the argument that is the path.
    let number = 1 + usize::from(named.is_some());
    let (path, target) = match (named, words) {
        (None, [_, _, Some(_)]) => return Err(Refusal::argument(1, "Redirect: invalid first argument (of three)")),
        (None, [path, target, _]) => (path, target),
        (Some(_), [_, path, target]) => (path, target),
    };
    // A section may omit the path: the only word is then the target.
    if in_section(cmd.place) && target.is_none() {
        match path {
            Some(target) if is_redirect(status) => return add_section_redirect(cmd, status, Some(target)),
            None if !is_redirect(status) => return add_section_redirect(cmd, status, None),
            _ => {}
        }
    }
    let missing = "URL to redirect to is missing";
    // Apache accepts `Redirect gone` outside sections, and then crashes at the first request.
    let path = path.ok_or_else(|| Refusal::missing(missing))?;
    let matcher = if is_regex { Matcher::Pattern(regex(number, path)?) } else { Matcher::Prefix(path.into()) };
    match target {
        None if is_redirect(status) => return Err(Refusal::missing(missing)),
        Some(_) if !is_redirect(status) => {
            return Err(Refusal::surplus(number + 1, "Redirect URL not valid for this status"));
        }
        Some(target) if !is_regex && !is_url(target) && !target.starts_with('/') => {
            return Err(Refusal::argument(number + 1, "Redirect to non-URL"));
        }
        _ => {}
    }
    let origin = cmd.origin();
    let redirect = Redirect { status, target: target.map(str::to_string) };
    if in_section(cmd.place) {
        cmd.dir.edit::<AliasDir>().redirects.push(matcher, redirect, origin);
    } else {
        cmd.server.edit::<AliasServer>().redirects.push(matcher, redirect, origin);
    }
    Ok(())
}

fn add_section_redirect(cmd: &mut Cmd<'_>, status: u16, target: Option<&str>) -> Outcome {
    let target = target
        .map(|text| expression(cmd, text).map_err(|why| format!("Cannot parse redirect expression '{text}': {why}")));
    let redirect = SectionRedirect { status, target: target.transpose()? };
    cmd.set(|d: &mut AliasDir| &mut d.redirect, Arc::new(redirect))
}
