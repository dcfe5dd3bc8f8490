//! Misspelled paths: redirects to the intended file, or lists the candidates.
//!
//! Apache manual: mod_speling. Doubtful cases were measured on 2.4.71.

use std::os::unix::ffi::OsStrExt;

use conf::directive::Args::Flag;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, on_or_off, row, settings};
use http::uri::{escape_html, escape_path};
use runtime::{Load, offload};
use server::paths::os_path;
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "speling_module", source: "mod_speling.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::Fixups,
            Order::Last,
            PhaseHook::Later { claims: may_be_misspelled, run: |request| Box::pin(correct(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CheckSpelling", Allowed::OPTIONS, Flag(|c, on| edit(c, |conf| conf.enabled = on)), on_or_off(false), "whether or not to fix miscapitalized/misspelled requests"),
    row("CheckCaseOnly", Allowed::OPTIONS, Flag(|c, on| edit(c, |conf| conf.case_only = on)), on_or_off(false), "whether or not to fix only miscapitalized requests"),
    row("CheckBasenameMatch", Allowed::OPTIONS, Flag(|c, on| edit(c, |conf| conf.other_suffixes = on)), on_or_off(true), "whether or not to fix files with the same base name"),
];

settings! {
    /// The module's settings of a section. As in Apache, a section with any of these lines inherits none.
    pub struct SpelingDir {
        conf: Gathered<Conf>,
    }
}

#[derive(Clone, Copy, Debug)]
struct Conf {
    enabled: bool,
    case_only: bool,
    /// Whether files count that differ only after the first dot.
    other_suffixes: bool,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf { enabled: false, case_only: false, other_suffixes: true }
    }
}

fn edit(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut Conf)) -> Outcome {
    let origin = cmd.origin();
    change(cmd.dir.edit::<SpelingDir>().conf.edit(&origin));
    Ok(())
}

/// The difference of a name from the requested one, the likeliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Case,
    Transposed,
    Missing,
    Extra,
    Mistyped,
    OtherSuffix,
}

impl Reason {
    fn words(self) -> &'static str {
        match self {
            Reason::Case => "miscapitalized",
            Reason::Transposed => "transposed characters",
            Reason::Missing => "character missing",
            Reason::Extra => "extra character",
            Reason::Mistyped => "mistyped character",
            Reason::OtherSuffix => "common basename",
        }
    }
}

fn may_be_misspelled(request: &Request) -> bool {
    request.dir::<SpelingDir>().conf.get().is_some_and(|conf| conf.enabled)
        && matches!(&*request.data.method, "GET" | "HEAD")
        && request.mapped.stat.is_none()
        && request.mapped.filename.starts_with('/')
        && request.data.uri != "/"
        && !request.is_subrequest()
}

async fn correct(request: &mut Request) -> Flow {
    let slots = request.dir.slots.clone();
    let setting = &slots.get::<SpelingDir>().conf;
    let conf = setting.get().copied().unwrap_or_default();
    let (file, info) = (&request.mapped.filename, &request.mapped.path_info);
    let Some((directory, bad)) = file.rsplit_once('/') else { return Flow::Declined };
    // The request has to end with the missing name; otherwise something other than a file's name follows it.
    let Some(base) = request.data.uri.strip_suffix(&format!("{bad}{info}")).map(str::to_string) else {
        return Flow::Declined;
    };
    let (directory, name) = (directory.to_string(), bad.to_string());
    let Some(mut found) = offload(Load::Wait, move || candidates(&directory, &name, conf)).await else {
        return Flow::Declined;
    };
    if found.is_empty() {
        return Flow::Ok;
    }
    found.sort_by_key(|(reason, _)| *reason);
    let info = request.mapped.path_info.clone();
    let referer = request.header("Referer").map(std::borrow::Cow::into_owned);
    let (best, name) = &found[0];
    if *best != Reason::OtherSuffix && found.get(1).is_none_or(|(second, _)| second != best) {
        let mut url = escape_path(&format!("{base}{name}{info}")).into_owned();
        if let Some(args) = &request.data.args {
            url = format!("{url}?{args}");
        }
        request.response.headers_out.set("Location", request.url(&url));
        let uri = &request.data.uri;
        let text = match &referer {
            Some(referer) => format!("AH03224: Fixed spelling: {uri} to {url} from {referer}"),
            None => format!("AH03225: Fixed spelling: {uri} to {url}"),
        };
        request.log("speling", Level::Info, text);
        request.note_step("speling", setting.origin(), |_| format!("CheckSpelling: {} ({url})", best.words()));
        request.note_reason(301, "speling", setting.origin(), |request| {
            ("CheckSpelling".into(), format!("finds what {} may have meant: {}", request.data.uri, best.words()))
        });
        return Flow::Status(301);
    }
    offer(request, &base, &info, &found, referer.as_deref());
    request.note_reason(300, "speling", setting.origin(), |request| {
        ("CheckSpelling".into(), format!("finds {} names that {} may have meant", found.len(), request.data.uri))
    });
    Flow::Status(300)
}

/// The candidates in a directory. `None`: it cannot be read, or the name exists after all, as a dangling link.
fn candidates(directory: &str, bad: &str, conf: Conf) -> Option<Vec<(Reason, String)>> {
    let stem = |name: &str| name.find('.').unwrap_or(name.len());
    let mut found = Vec::new();
    let directory = if directory.is_empty() { "/" } else { directory };
    let special = [".", ".."].map(str::to_string);
    let entries = std::fs::read_dir(os_path(directory)).ok()?;
    let names = entries.flatten().map(|entry| http::text::from_bytes(entry.file_name().as_bytes()).into_owned());
    for name in special.into_iter().chain(names) {
        if name == bad {
            return Some(Vec::new());
        }
        let reason = if name.eq_ignore_ascii_case(bad) {
            Some(Reason::Case)
        } else if !conf.case_only
            && let Some(reason) = difference(bad.as_bytes(), name.as_bytes())
        {
            Some(reason)
        } else {
            let (own, its) = (stem(bad), stem(&name));
            let same = own == its && bad.as_bytes()[..own].eq_ignore_ascii_case(&name.as_bytes()[..its]);
            (conf.other_suffixes && same).then_some(Reason::OtherSuffix)
        };
        found.extend(reason.map(|reason| (reason, name)));
    }
    Some(found)
}

/// The difference of two names, if they differ in one place only.
fn difference(asked: &[u8], there: &[u8]) -> Option<Reason> {
    let same = asked.iter().zip(there).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let (asked, there) = (&asked[same..], &there[same..]);
    let rest = |text: &[u8], from: usize, other: &[u8], at: usize| {
        text.get(from..).zip(other.get(at..)).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    match (asked, there) {
        ([], []) => Some(Reason::Case),
        ([a, b, ..], [c, d, ..])
            if a.eq_ignore_ascii_case(d) && b.eq_ignore_ascii_case(c) && rest(asked, 2, there, 2) =>
        {
            Some(Reason::Transposed)
        }
        ([_, ..], [_, ..]) if rest(asked, 1, there, 1) => Some(Reason::Mistyped),
        ([_, ..], _) if rest(asked, 1, there, 0) => Some(Reason::Extra),
        (_, [_, ..]) if rest(asked, 0, there, 1) => Some(Reason::Missing),
        _ => None,
    }
}

/// Makes the list for the page, and for scripts that make the page.
fn offer(request: &mut Request, base: &str, info: &str, found: &[(Reason, String)], referer: Option<&str>) {
    let uri = request.data.uri.clone();
    let mut page = format!(
        "The document name you requested (<code>{}</code>) could not be found on this server.\n\
         However, we found documents with names similar to the one you requested.<p>Available documents:\n<ul>\n",
        escape_html(&uri)
    );
    let mut list = Vec::new();
    for (at, (reason, name)) in found.iter().enumerate() {
        let args = request.data.args.as_ref().map_or_else(String::new, |args| format!("?{args}"));
        let url = format!("{base}{name}{info}{args}");
        let (escaped, words) = (escape_path(&url), reason.words());
        list.push(format!("\"{escaped}\";\"{words}\""));
        page += &format!("<li><a href=\"{escaped}\">{}</a> ({words})\n", escape_html(&url));
        // Close matches are followed by those with another suffix.
        let next_is_far = found.get(at + 1).is_some_and(|(next, _)| *next == Reason::OtherSuffix);
        if at > 0 && *reason != Reason::OtherSuffix && next_is_far {
            page += "</ul>\nFurthermore, the following related documents were found:\n<ul>\n";
        }
    }
    page += "</ul>\n";
    if let Some(referer) = referer {
        page += &format!(
            "Please consider informing the owner of the referring page <tt>{}</tt> about the broken link.\n",
            escape_html(referer)
        );
    }
    request.notes.set("variant-list", page);
    request.env.set("VARIANTS", list.join(","));
    let text = match referer {
        Some(referer) => format!("AH03226: Spelling fix: {uri}: {} candidates from {referer}", found.len()),
        None => format!("AH03227: Spelling fix: {uri}: {} candidates", found.len()),
    };
    request.log("speling", Level::Info, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_in_one_place() {
        for (asked, there, want) in [
            ("index.html", "INDEX.html", Some(Reason::Case)),
            ("idnex.html", "index.html", Some(Reason::Transposed)),
            ("inex.html", "index.html", Some(Reason::Missing)),
            ("index.htmll", "index.html", Some(Reason::Extra)),
            ("indexx.html", "index.html", Some(Reason::Extra)),
            ("indey.html", "index.html", Some(Reason::Mistyped)),
            ("index.htm", "index.html", Some(Reason::Missing)),
            ("inde.htm", "index.html", None),
            ("", "a", Some(Reason::Missing)),
            ("a", "", Some(Reason::Extra)),
        ] {
            assert_eq!(difference(asked.as_bytes(), there.as_bytes()), want, "{asked} for {there}");
        }
    }
}
