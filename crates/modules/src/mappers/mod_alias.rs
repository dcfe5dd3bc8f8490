//! Other places for URLs: directories outside `DocumentRoot`, and redirects.
//!
//! Apache manual: mod_alias.

pub(crate) mod list;
mod set;
mod text;

use std::sync::Arc;

use conf::directive::Args::{Flag, Take2, Take12, Take23, Take123};
use conf::expr::StringExpr;
use conf::pattern::{Captures, substitute};
use conf::{Allowed, Directive, Level, ModuleInfo, Origin, Setting, on_or_off, row, settings};
use http::uri::escape_path;
use server::PhaseHook::Now;
use server::core_module::is_url;
use server::paths::MAPPED_MAX;
use server::{Flow, Hook, Module, Order, Phase, Request};

use self::list::{Found, List, Matcher};
use self::set::{add_alias, add_alias_match, add_redirect, is_redirect};
use self::text::escape_target;
pub(crate) use self::text::{file_path, matched};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "alias_module", source: "mod_alias.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Translate, Order::Middle, Now(translate)),
        Hook::Phase(Phase::Fixups, Order::Middle, Now(fixup)),
    ],
};

/// The name of the note by which CGI modules know that a `ScriptAlias` chose the file: it needs no `ExecCGI`.
pub(super) const FORCED_TYPE: &str = "alias-forced-type";

const SCRIPT: &str = "cgi-script";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("Alias", Allowed::CONF, Take12(|c, a, b| add_alias(c, a, b, false)), "", "a fakename and a realname, or a realname in a Location"),
    row("ScriptAlias", Allowed::CONF, Take12(|c, a, b| add_alias(c, a, b, true)), "", "a fakename and a realname, or a realname in a Location"),
    row("Redirect", Allowed::FILEINFO, Take123(|c, a, b, d| add_redirect(c, [Some(a), b, d], 302, false)), "", "an optional status, then document to be redirected and destination URL").differs("Outside sections a status that redirects nowhere needs a path, too."),
    row("AliasMatch", Allowed::SERVER, Take2(|c, a, b| add_alias_match(c, a, b, false)), "", "a regular expression and a filename"),
    row("ScriptAliasMatch", Allowed::SERVER, Take2(|c, a, b| add_alias_match(c, a, b, true)), "", "a regular expression and a filename"),
    row("RedirectMatch", Allowed::FILEINFO, Take23(|c, a, b, d| add_redirect(c, [Some(a), Some(b), d], 302, true)), "", "an optional status, then a regular expression and destination URL"),
    row("RedirectTemp", Allowed::FILEINFO, Take2(|c, a, b| add_redirect(c, [Some(a), Some(b), None], 302, false)), "", "a document to be redirected, then the destination URL"),
    row("RedirectPermanent", Allowed::FILEINFO, Take2(|c, a, b| add_redirect(c, [Some(a), Some(b), None], 301, false)), "", "a document to be redirected, then the destination URL"),
    row("RedirectRelative", Allowed::FILEINFO, Flag(|c, on| c.set(|d: &mut AliasDir| &mut d.relative, on)), on_or_off(RELATIVE), "Set to ON to allow relative redirect targets to be issued as-is"),
    row("AliasPreservePath", Allowed::FILEINFO, Flag(|c, on| c.set(|d: &mut AliasDir| &mut d.preserve, on)), on_or_off(PRESERVE), "Set to ON to map the full path after the fakename to the realname."),
];

/// Whether they are on by default.
const RELATIVE: bool = false;
const PRESERVE: bool = false;

settings! {
    /// The settings of a server; each list is searched in order.
    pub struct AliasServer {
        aliases: List<Alias>,
        redirects: List<Redirect>,
    }
}

settings! {
    /// The settings of a section.
    pub struct AliasDir {
        redirects: List<Redirect>,
        alias: Setting<Arc<SectionAlias>>,
        redirect: Setting<Arc<SectionRedirect>>,
        relative: Setting<bool> = RELATIVE,
        preserve: Setting<bool> = PRESERVE,
    }
}

#[derive(Clone, Debug)]
struct Alias {
    real: String,
    script: bool,
}

#[derive(Clone, Debug)]
struct Redirect {
    status: u16,
    /// Statuses other than redirects have no target.
    target: Option<String>,
}

/// `Alias` with one argument: the section determines the URL paths.
#[derive(Debug)]
struct SectionAlias {
    path: StringExpr,
    /// The section's own path.
    prefix: String,
    script: bool,
}

/// `Redirect` without a path: for everything in the section.
#[derive(Debug)]
struct SectionRedirect {
    status: u16,
    target: Option<StringExpr>,
}

/// Server level: all redirects take precedence over all aliases, and a section's settings over the lists.
fn translate(request: &mut Request) -> Flow {
    if !request.data.uri.starts_with('/') {
        return Flow::Declined;
    }
    let (slots, vhost) = (request.dir.slots.clone(), request.vhost);
    let (dir, server) = (slots.get::<AliasDir>(), vhost.settings.get::<AliasServer>());
    match redirect(request, dir, &server.redirects) {
        Err(flow) => return flow,
        Ok(Some(hit)) => return send(request, dir, hit, "AH00673", "AH00674"),
        Ok(None) => {}
    }
    match section_alias(request, dir) {
        Flow::Declined => listed_alias(request, &server.aliases),
        flow => flow,
    }
}

/// Directory sections are known only now; they apply to the URL as it came in.
fn fixup(request: &mut Request) -> Flow {
    let slots = request.dir.slots.clone();
    let dir = slots.get::<AliasDir>();
    match redirect(request, dir, &dir.redirects) {
        Err(flow) => flow,
        Ok(Some(hit)) => send(request, dir, hit, "AH00675", "AH00676"),
        Ok(None) => Flow::Declined,
    }
}

/// A redirect for this request, with its final target.
struct Hit {
    status: u16,
    target: String,
    /// The line that redirects.
    origin: Option<Origin>,
}

fn redirect(request: &Request, dir: &AliasDir, list: &List<Redirect>) -> Result<Option<Hit>, Flow> {
    if let Some(redirect) = dir.redirect.get() {
        let target = match &redirect.target {
            None => String::new(),
            Some(expr) => match server::evaluate_string(request, expr) {
                Ok(target) => escape_target(&target),
                Err(why) => {
                    request.log("alias", Level::Error, format!("AH02826: Can't evaluate redirect expression: {why}"));
                    return Err(Flow::Status(500));
                }
            },
        };
        return Ok(Some(Hit { status: redirect.status, target, origin: dir.redirect.origin().cloned() }));
    }
    let mut captures = Captures::default();
    let Some((line, length)) = find(request, list, &mut captures)? else { return Ok(None) };
    let target = line.then.target.as_deref().unwrap_or_default();
    let target = match &line.matcher {
        Matcher::Prefix(_) => format!("{target}{}", escape_path(&request.data.uri[length..])),
        Matcher::Pattern(_) => {
            let mut out = String::new();
            substitute(&mut out, target, &request.data.uri, &captures, server::TEXT_MAX)
                .map_err(|why| request.undecided("alias", &why, &line.origin))?;
            escape_target(&out)
        }
    };
    Ok(Some(Hit { status: line.then.status, target, origin: Some(line.origin.clone()) }))
}

/// The line of a list that the request's path matches.
fn find<'a, T: Clone>(
    request: &Request,
    list: &'a List<T>,
    captures: &mut Captures,
) -> Result<Option<Found<'a, T>>, Flow> {
    list.find(&request.data.uri, captures).map_err(|(why, origin)| request.undecided("alias", &why, origin))
}

/// Answers with a redirect. `debug` and `error` are the numbers of the messages.
fn send(request: &mut Request, dir: &AliasDir, hit: Hit, debug: &str, error: &str) -> Flow {
    let Hit { status, mut target, origin } = hit;
    request.note_step("alias", origin.as_ref(), |_| format!("Redirect: {status} {target}").trim_end().into());
    request.note_reason(status, "alias", origin.as_ref(), |_| ("Redirect".into(), String::new()));
    if !is_redirect(status) {
        return Flow::Status(status);
    }
    let relative = dir.relative();
    if target.starts_with('/') && !relative {
        let url = request.url(&target);
        if request.logs("alias", Level::Debug) {
            let text = format!(
                "{debug}: incomplete redirection target of '{target}' for URI '{}' modified to '{url}'",
                request.data.uri
            );
            request.log("alias", Level::Debug, text);
        }
        target = url;
    }
    let usable = is_url(&target) || relative && target.starts_with('/');
    if !usable {
        let text = format!(
            "{error}: cannot redirect '{}' to '{target}'; target is not a valid absoluteURI or abs_path",
            request.data.uri
        );
        request.log("alias", Level::Error, text);
        return Flow::Status(500);
    }
    if let Some(args) = request.data.args.as_ref().filter(|_| !target.contains('?')) {
        target = format!("{target}?{args}");
    }
    request.response.headers_out.set("Location", target);
    Flow::Status(status)
}

/// Maps the request by the section's `Alias`.
fn section_alias(request: &mut Request, dir: &AliasDir) -> Flow {
    let Some(alias) = dir.alias.get() else { return Flow::Declined };
    let mut path = match server::evaluate_string(request, &alias.path) {
        Ok(path) => path,
        Err(why) => {
            request.log("alias", Level::Error, format!("AH02825: Can't evaluate alias expression: {why}"));
            return Flow::Status(500);
        }
    };
    let kept = if dir.preserve() { matched(&request.data.uri, &alias.prefix) } else { None };
    if let Some(length) = kept {
        request.mapped.context = Some((alias.prefix.clone(), path.clone()));
        path.push_str(&request.data.uri[length..]);
    }
    map(request, &path, alias.script, dir.alias.origin())
}

fn listed_alias(request: &mut Request, list: &List<Alias>) -> Flow {
    let mut captures = Captures::default();
    let (line, length) = match find(request, list, &mut captures) {
        Err(flow) => return flow,
        Ok(None) => return Flow::Declined,
        Ok(Some(found)) => found,
    };
    let Alias { real, script } = &line.then;
    let path = match &line.matcher {
        Matcher::Prefix(fake) => {
            request.mapped.context = Some((fake.clone(), real.clone()));
            format!("{real}{}", &request.data.uri[length..])
        }
        Matcher::Pattern(_) => {
            let mut path = String::new();
            match substitute(&mut path, real, &request.data.uri, &captures, server::TEXT_MAX) {
                Err(why) => return request.undecided("alias", &why, &line.origin),
                Ok(()) => path,
            }
        }
    };
    map(request, &path, *script, Some(&line.origin))
}

/// Whether a line `ScriptAlias` led to the file: a directory of programs named there needs no `Options ExecCGI`, whichever
/// handler runs them. As in Apache, the note says `cgi-script` for all of them.
pub(crate) fn is_script_aliased(request: &Request) -> bool {
    request.notes.get(FORCED_TYPE).is_some_and(|kind| kind.eq_ignore_ascii_case(SCRIPT))
}

fn map(request: &mut Request, path: &str, script: bool, origin: Option<&Origin>) -> Flow {
    if request.server.language.server_root.len() + path.len() > MAPPED_MAX {
        return request.cannot_map();
    }
    if script {
        request.mapped.handler = Some(SCRIPT.into());
        request.notes.set(FORCED_TYPE, SCRIPT);
    }
    request.mapped.filename = file_path(&request.server.language.server_root, path);
    request.note_step("alias", origin, |request| {
        format!("{}: {}", if script { "ScriptAlias, handler cgi-script" } else { "Alias" }, request.mapped.filename)
    });
    Flow::Ok
}

#[cfg(test)]
mod tests {
    use crate::testing::{apply, check};

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("Alias /a", "Alias must have two arguments when used globally"),
            ("<Directory /tmp>\nAlias /a /b\n</Directory>", "Alias cannot occur within directory context"),
            ("<Directory /tmp>\nAlias /a\n</Directory>", "Alias cannot occur within <Directory> section"),
            ("<Files x>\nAlias /a\n</Files>", "Alias cannot occur within <Files> section"),
            ("<If true>\nScriptAlias /a\n</If>", "ScriptAlias cannot occur within <If> section"),
            ("<If true>\nAlias /a /b\n</If>", "Alias cannot occur within directory context"),
            ("<Location /x>\nAlias /a\n</Location>", ""),
            (
                "<Location /x>\nAlias /a/%{nn}\n</Location>",
                "Cannot parse alias expression '/a/%{nn}': Variable 'nn' does not exist",
            ),
            (
                "<Directory /x>\nRedirect %{nn}\n</Directory>",
                "Cannot parse redirect expression '%{nn}': Variable 'nn' does not exist",
            ),
            ("<Location /x>\nRedirect gone\n</Location>", ""),
            ("<Location /x>\nRedirect 404\n</Location>", ""),
            ("<Location /x>\nRedirect 404 %{nn}\n</Location>", ""),
            ("<Location /x>\nRedirectMatch 301 /y\n</Location>", ""),
            ("<Location /x>\nRedirect 301\n</Location>", "URL to redirect to is missing"),
            ("Redirect 301 /x", "URL to redirect to is missing"),
            ("Redirect /x", "URL to redirect to is missing"),
            ("Redirect foo /x /y", "Redirect: invalid first argument (of three)"),
            ("Redirect 404 /x /y", "Redirect URL not valid for this status"),
            ("Redirect /x y", "Redirect to non-URL"),
            ("<If true>\nRedirect /a b\n</If>", "Redirect to non-URL"),
            ("Redirect 404 /x", ""),
            ("RedirectTemp 404 /x", ""),
            ("RedirectPermanent gone /x", ""),
            ("RedirectMatch ( /y", "Regular expression could not be compiled."),
            ("RedirectMatch 301 (", "Regular expression could not be compiled."),
            ("AliasMatch ( /y", "Regular expression could not be compiled."),
            (
                "RedirectMatch /y",
                "RedirectMatch takes two or three arguments, an optional status, then a regular expression and \
                 destination URL",
            ),
            ("RedirectRelative maybe", "RedirectRelative must be On or Off"),
        ]);
    }

    #[test]
    fn overlaps_are_reported() {
        let lines =
            "Alias /a /s\nScriptAlias /a/b /s\nAliasMatch ^/z /q\nAlias /z /p\nScriptAliasMatch ^/y x\nAlias /y /p";
        let notices = apply(lines).unwrap().notices;
        let want = [("ScriptAlias", 2, "Alias"), ("Alias", 4, "AliasMatch"), ("Alias", 6, "ScriptAliasMatch")];
        assert_eq!(notices.len(), want.len());
        for (notice, (name, line, earlier)) in notices.iter().zip(want) {
            let text = format!(
                "AH00671: The {name} directive in lines at line {line} will probably never match because it overlaps an \
                 earlier {earlier}."
            );
            assert_eq!(notice.text, text);
        }
    }
}
