//! Decides whether the contents of `<IfModule>` and similar sections are read.

use crate::directive::{Directive, OnRead};
use crate::language::{Language, VERSION};
use crate::paths::join;
use crate::pattern::{Flags, Regex};
use crate::refusal::{InArgument as _, Refusal};
use crate::system::System;
use crate::words::next_word;

/// Whether the condition of a section holds. `argument` is the text after its name, without `>`.
pub(super) fn holds(
    action: OnRead,
    row: &Directive,
    argument: &str,
    language: &Language,
    system: &dyn System,
) -> Result<bool, Refusal> {
    let (not, argument) = match argument.strip_prefix('!') {
        Some(rest) if action != OnRead::IfVersion => (true, rest),
        _ => (false, argument),
    };
    if argument.is_empty() {
        return Err(Refusal::missing(format!("{}> directive requires additional arguments", row.name)));
    }
    let mut rest = argument;
    let word = next_word(&mut rest);
    let holds = match action {
        OnRead::IfModule => language.loaded().iter().any(|info| info.id == word || info.source == word),
        OnRead::IfDefine => language.is_defined(&word),
        OnRead::IfFile => system.exists(&join(&language.server_root, &word)),
        OnRead::IfDirective => language.directive(&word).is_some(),
        OnRead::IfSection => language.directive(&format!("<{word}")).is_some(),
        OnRead::IfVersion => return version_holds(argument),
        _ => unreachable!("only conditional sections come here"),
    };
    Ok(holds != not)
}

/// Evaluates `<IfVersion [[!]operator] version>` (Apache manual, mod_version).
fn version_holds(argument: &str) -> Result<bool, Refusal> {
    let (first, second) = match argument.split_once(char::is_whitespace) {
        Some((operator, version)) => (operator, Some(version.trim())),
        None => (argument, None),
    };
    let (not, operator) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first),
    };
    let Some(version) = second else { return Ok(compare(operator).in_argument(1)?.is_eq() != not) };
    let regex = match operator {
        "~" => Some((version, 0)),
        "=" | "==" => version.strip_prefix('/').and_then(|v| v.strip_suffix('/')).map(|text| (text, 1)),
        _ => None,
    };
    if let Some((text, before)) = regex {
        let (major, minor, patch) = VERSION;
        let regex = Regex::new(text, Flags::default())
            .map_err(|error| Refusal::pattern(2, before, &error, "Unable to compile regular expression"))?;
        let matched = regex.is_match(&format!("{major}.{minor}.{patch}"));
        return Ok(matched.map_err(|why| Refusal::argument(2, why.to_string()))? != not);
    }
    let order = compare(version).in_argument(2)?;
    let holds = match operator {
        "=" | "==" => order.is_eq(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        _ => return Err(Refusal::argument(1, format!("unrecognized operator '{operator}'"))),
    };
    Ok(holds != not)
}

/// Compares our version with `text`; missing parts are 0.
fn compare(text: &str) -> Result<std::cmp::Ordering, String> {
    let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([major]) => Ok(VERSION.cmp(&(*major, 0, 0))),
        Some([major, minor]) => Ok(VERSION.cmp(&(*major, *minor, 0))),
        Some([major, minor, patch]) => Ok(VERSION.cmp(&(*major, *minor, *patch))),
        _ => {
            Err("Version appears to be invalid. It must have the format major[.minor[.patch]] where major, minor and \
                  patch are numbers."
                .into())
        }
    }
}
