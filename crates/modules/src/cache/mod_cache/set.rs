//! The functions of mod_cache's directives.

use conf::values::strtol;
use conf::{Cmd, InArgument as _, Level, Outcome, Refusal};

use super::settings::{CacheDir, CacheServer, Enabled, KeyBase, Scope};
use super::storages;
use crate::cache::entry::SECOND;

/// The sections that Apache does not allow around `CacheEnable` and `CacheDisable`.
const FORBIDDEN: [(&str, &str); 9] = [
    ("<Directory", "<Directory> section"),
    ("<DirectoryMatch", "<DirectoryMatch> section"),
    ("<Files", "<Files> section"),
    ("<FilesMatch", "<FilesMatch> section"),
    ("<If", "<If> section"),
    ("<ElseIf", "<ElseIf> section"),
    ("<Else", "<Else> section"),
    ("<Limit", "<Limit> or <LimitExcept> section"),
    ("<LimitExcept", "<Limit> or <LimitExcept> section"),
];

fn check_place(cmd: &Cmd<'_>) -> Outcome {
    match FORBIDDEN.iter().find(|(section, _)| cmd.place.inside(section)) {
        Some((_, place)) => Err(cmd.cannot_occur(place)),
        None => Ok(()),
    }
}

pub(super) fn enable(cmd: &mut Cmd<'_>, storage: &str, url: Option<&str>) -> Outcome {
    check_place(cmd)?;
    if storage.starts_with('/') {
        let text = format!("provider ({storage}) starts with a '/'.  Are url and provider switched?");
        return Err(Refusal::argument(1, text));
    }
    let section = cmd.place.path.clone();
    let Some(url) = url.or(section.as_deref()) else {
        return Err(Refusal::missing(format!("CacheEnable provider ({storage}) is missing an URL.")));
    };
    if section.as_ref().is_some_and(|path| !url.starts_with(&**path)) {
        const BELOW: &str = "When in a Location, CacheEnable must specify a path or an URL below that location.";
        return Err(Refusal::argument(2, BELOW));
    }
    let is_loaded = cmd.context.language.has_module(&format!("cache_{storage}_module"));
    let Some(storage) = storages::named(storage).filter(|_| is_loaded) else {
        // As in Apache, the server runs without it.
        let text =
            format!("CacheEnable {storage}: no loaded module has such a storage, so nothing is cached by this line");
        cmd.context.note("cache", Level::Warn, text);
        return Ok(());
    };
    match section {
        Some(_) => cmd.push(|d: &mut CacheDir| &mut d.enabled, storage),
        None => {
            let enabled = Enabled { storage, scope: Scope::of(url) };
            cmd.server_push(|s: &mut CacheServer| &mut s.enabled, enabled)
        }
    }
}

pub(super) fn disable(cmd: &mut Cmd<'_>, url: &str) -> Outcome {
    check_place(cmd)?;
    if cmd.place.path.is_some() {
        return match url.eq_ignore_ascii_case("on") {
            true => cmd.set(|d: &mut CacheDir| &mut d.disabled, true),
            false => Err("CacheDisable must be followed by the word 'on' when in a Location.".into()),
        };
    }
    if !url.starts_with('/') && !url.contains(':') {
        return Err("CacheDisable must specify a path or an URL.".into());
    }
    cmd.server_push(|s: &mut CacheServer| &mut s.disabled, Scope::of(url))
}

/// The words of a list; `None` empties it for good.
fn add(list: &mut Vec<String>, is_first: bool, word: &str) {
    if word.eq_ignore_ascii_case("None") {
        list.clear();
    } else if is_first || !list.is_empty() {
        list.push(word.to_string());
    }
}

pub(super) fn ignore_header(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let origin = cmd.origin();
    let list = &mut cmd.server.edit::<CacheServer>().ignore_headers;
    let is_first = list.get().is_none();
    add(list.edit(&origin), is_first, name);
    Ok(())
}

pub(super) fn ignore_session(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let origin = cmd.origin();
    let list = &mut cmd.server.edit::<CacheServer>().ignore_sessions;
    let is_first = list.get().is_none();
    add(list.edit(&origin), is_first, name);
    Ok(())
}

/// Seconds, as lenient as Apache.
pub(super) fn period(text: &str) -> i64 {
    strtol(text).saturating_mul(SECOND)
}

pub(super) fn factor(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite());
    let factor = factor.ok_or("CacheLastModifiedFactor value must be a float")?;
    cmd.set(|d: &mut CacheDir| &mut d.factor, factor)
}

pub(super) fn lock_path(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.runtime_relative(path);
    cmd.server_set(|s: &mut CacheServer| &mut s.lock_path, path)
}

pub(super) fn lock_max_age(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    match strtol(text) {
        ..=0 => Err("CacheLockMaxAge value must be a non-zero positive integer".into()),
        seconds => cmd.server_set(|s: &mut CacheServer| &mut s.lock_max_age, seconds),
    }
}

pub(super) fn key_base(cmd: &mut Cmd<'_>, url: &str) -> Outcome {
    let base = KeyBase::of(url).in_argument(1)?;
    cmd.server_set(|s: &mut CacheServer| &mut s.key_base, base)
}
