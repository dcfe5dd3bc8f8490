//! Decides whether the contents of `<IfModule>` and similar sections are read.

use crate::directive::{Directive, OnRead};
use crate::language::{Language, VERSION};
use crate::paths::join;
use crate::pattern;
use crate::system::System;
use crate::words::next_word;

/// Whether the condition of a section holds. `argument` is the text after its name, without `>`.
pub(super) fn holds(
    action: OnRead,
    row: &Directive,
    argument: &str,
    language: &Language,
    system: &dyn System,
) -> Result<bool, String> {
    let (not, argument) = match argument.strip_prefix('!') {
        Some(rest) if action != OnRead::IfVersion => (true, rest),
        _ => (false, argument),
    };
    if argument.is_empty() {
        return Err(format!("{}> directive requires additional arguments", row.name));
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
fn version_holds(argument: &str) -> Result<bool, String> {
    let (first, second) = match argument.split_once(char::is_whitespace) {
        Some((operator, version)) => (operator, Some(version.trim())),
        None => (argument, None),
    };
    let (not, operator) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first),
    };
    let Some(version) = second else { return Ok(compare(operator)?.is_eq() != not) };
    let regex = match operator {
        "~" => Some(version),
        "=" | "==" => version.strip_prefix('/').and_then(|v| v.strip_suffix('/')),
        _ => None,
    };
    if let Some(text) = regex {
        let (major, minor, patch) = VERSION;
        let regex = pattern::Regex::new(text, pattern::Flags::default())
            .map_err(|_| "Unable to compile regular expression".to_string())?;
        let matched = regex.is_match(&format!("{major}.{minor}.{patch}")).map_err(|why| why.to_string())?;
        return Ok(matched != not);
    }
    let order = compare(version)?;
    let holds = match operator {
        "=" | "==" => order.is_eq(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        _ => return Err(format!("unrecognized operator '{operator}'")),
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
