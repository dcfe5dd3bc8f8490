//! The settings of a section, and the functions of the directives.

use std::sync::Arc;

use conf::settings::Gathered;
use conf::{Cmd, Listed, Merge, Origin, Outcome, Refusal, Setting, settings};
use encoding_rs::UTF_8;

use super::rule::Rule;
use crate::filters::translation::Translation;

settings! {
    /// The module's settings of a section.
    pub struct ProxyHtmlDir {
        pub(super) enable: Setting<bool> = false,
        pub(super) extended: Setting<bool> = false,
        pub(super) meta: Setting<bool> = false,
        pub(super) interpolate: Setting<bool> = false,
        pub(super) strips_comments: Setting<bool> = false,
        /// What an outer section has is forgotten where an inner one has some.
        pub(super) links: Gathered<Vec<(String, Vec<String>)>>,
        pub(super) events: Gathered<Vec<String>>,
        /// Those of outer sections come first.
        pub(super) rules: Listed<Arc<Rule>>,
        /// The text of the document type.
        pub(super) doctype: Setting<String>,
        /// The name of the output's charset; `*`: that of the page itself.
        pub(super) charset: Setting<String>,
        pub(super) fixups: Fixups,
    }
}

/// `ProxyHTMLFixups`
#[derive(Clone, Debug, Default)]
pub(super) struct Fixups {
    pub(super) lowercase: bool,
    pub(super) dospath: bool,
    /// Those of outer sections do not count.
    reset: bool,
    lines: Vec<Origin>,
}

impl Merge for Fixups {
    fn merge(base: &Self, add: &Self) -> Self {
        let base = if add.reset { &Fixups::default() } else { base };
        Fixups {
            lowercase: base.lowercase || add.lowercase,
            dospath: base.dospath || add.dospath,
            reset: base.reset || add.reset,
            lines: [&base.lines[..], &add.lines[..]].concat(),
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.lines.iter().for_each(see);
    }
}

pub(super) fn add_fixup(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let origin = cmd.origin();
    let fixups = &mut cmd.dir.edit::<ProxyHtmlDir>().fixups;
    fixups.lines.push(origin);
    match word.to_ascii_lowercase().as_str() {
        "lowercase" => fixups.lowercase = true,
        "dospath" => fixups.dospath = true,
        "reset" => fixups.reset = true,
        _ => return Err(format!("ProxyHTMLFixups must be lowercase, dospath or reset, and not {word}").into()),
    }
    Ok(())
}

pub(super) fn add_link(cmd: &mut Cmd<'_>, element: &str, attribute: &str) -> Outcome {
    let origin = cmd.origin();
    let (element, attribute) = (element.to_ascii_lowercase(), attribute.to_ascii_lowercase());
    let links = cmd.dir.edit::<ProxyHtmlDir>().links.edit(&origin);
    match links.iter_mut().find(|(have, _)| *have == element) {
        Some((_, names)) => names.push(attribute),
        None => links.push((element, vec![attribute])),
    }
    Ok(())
}

pub(super) fn add_event(cmd: &mut Cmd<'_>, attribute: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<ProxyHtmlDir>().events.edit(&origin).push(attribute.to_ascii_lowercase());
    Ok(())
}

pub(super) fn add_rule(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let rule = Rule::parse(words, cmd.expr_options()).map_err(|(word, message)| match words.len() < word {
        true => Refusal::missing(message),
        false => Refusal::argument(word, message),
    })?;
    cmd.push(|d: &mut ProxyHtmlDir| &mut d.rules, Arc::new(rule))
}

/// The document types that have names, and their older forms.
const TYPES: [(&str, &str, &str); 3] = [
    (
        "html",
        r#"<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN">"#,
        r#"<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">"#,
    ),
    (
        "xhtml",
        r#"<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">"#,
        r#"<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">"#,
    ),
    ("html5", "<!DOCTYPE html>", "<!DOCTYPE html>"),
];

pub(super) fn set_doctype(cmd: &mut Cmd<'_>, name: &str, second: Option<&str>) -> Outcome {
    let is_older = second.is_some_and(|word| word.eq_ignore_ascii_case("legacy"));
    let known = TYPES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
    let text = match known {
        Some((_, _, older)) if is_older => format!("{older}\n"),
        Some((_, usual, _)) => format!("{usual}\n"),
        None => name.to_string(),
    };
    cmd.set(|d: &mut ProxyHtmlDir| &mut d.doctype, text)
}

pub(super) fn set_charset(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    if name != "*" && Translation::open(UTF_8.name(), name, false).is_none() {
        return Err(format!("ProxyHTMLCharsetOut: pages cannot be written in the charset {name}").into());
    }
    cmd.set(|d: &mut ProxyHtmlDir| &mut d.charset, name.to_string())
}
