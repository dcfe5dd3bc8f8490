//! The functions of the directives about access files. Messages are Apache's (measured on 2.4.71).

use std::collections::HashSet;
use std::sync::Arc;

use conf::nearest_name;
use conf::words::words;
use conf::{Allowed, Cmd, Level, Outcome, Refusal};

use crate::settings::core::{CoreDir, Override, options};

/// The word of `AllowOverride` that is no class.
const NONFATAL: &str = "Nonfatal";

pub(super) fn allow_override(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let warn = cmd.place.enclosing.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        name.starts_with("<location") || name.starts_with("<files") || name == "<if"
    });
    if warn {
        let at = &cmd.node.origin;
        let text = format!("AH00114: Useless use of AllowOverride in line {} of {}.", at.line, at.file());
        cmd.context.note("core", Level::Warn, text);
    }
    let mut value = Override::default();
    for (word, number) in words(rest).into_iter().zip(1..) {
        let (key, list) = match word.split_once('=') {
            Some((key, list)) => (key, Some(list)),
            None => (word.as_str(), None),
        };
        if key.eq_ignore_ascii_case(NONFATAL) {
            match list.map(str::to_ascii_lowercase).as_deref() {
                Some("override") => value.skip_forbidden = true,
                Some("unknown") => value.skip_unknown = true,
                Some("all") => (value.skip_forbidden, value.skip_unknown) = (true, true),
                // As in Apache, any other word is ignored.
                Some(_) => {}
                None => return Err(Refusal::argument(number, "=Override, =Unknown or =All expected after Nonfatal")),
            }
            continue;
        }
        let Some((name, class)) = options::CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) else {
            let near = nearest_name(options::CLASSES.iter().map(|(name, _)| *name).chain([NONFATAL]), key);
            let advice = near.map(|near| format!("Did you mean {near}?"));
            return Err(Refusal::argument(number, format!("Illegal override option {key}")).advice(advice));
        };
        match (*name, list) {
            ("Options", Some(list)) => {
                value.options = 0;
                for option in list.split(',').filter(|option| !option.is_empty()) {
                    value.options |= match option.to_ascii_lowercase().as_str() {
                        "all" => options::ALL,
                        "none" => 0,
                        _ => options::option_bits(option).ok_or_else(|| options::illegal(number, option))?,
                    };
                }
            }
            ("Options", None) => value.options = options::ALL,
            ("None", _) => value.classes = Allowed::NONE,
            _ => {}
        }
        value.classes = value.classes.or(*class);
    }
    cmd.set(|d: &mut CoreDir| &mut d.allow_override, value)
}

pub(super) fn allow_override_list(cmd: &mut Cmd<'_>, names: &[String]) -> Outcome {
    let mut list = HashSet::new();
    for name in names {
        if names.len() == 1 && name.eq_ignore_ascii_case("None") {
            break;
        }
        let at = cmd.node.origin.to_string();
        match cmd.context.language.directive(name) {
            None => {
                let text = format!("AH00116: Discarding unrecognized directive `{name}' in AllowOverrideList at {at}");
                cmd.context.note("core", Level::Warn, text);
            }
            Some(row) if !row.allowed.meets(Allowed::ANY) => {
                let text = format!("AH02304: Discarding directive `{name}' not allowed in AllowOverrideList at {at}");
                cmd.context.note("core", Level::Warn, text);
            }
            Some(_) => {
                list.insert(name.to_ascii_lowercase());
            }
        }
    }
    cmd.set(|d: &mut CoreDir| &mut d.allow_override_list, Arc::new(list))
}

pub(super) fn options(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let (may, origin) = (cmd.place.options, cmd.origin());
    cmd.dir.edit::<CoreDir>().options.0.apply(&words(rest), may, &origin)
}
