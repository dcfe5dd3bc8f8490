//! Directories: the slash at their end, their index files, and fallbacks for missing files.
//!
//! Apache manual: mod_dir.

use std::borrow::Cow;

use conf::directive::Args::{Flag, Raw, Take1, Take12};
use conf::words::words;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request};

use super::mod_rewrite::REDIRECT_HANDLER;
use crate::metadata::mod_mime::DIRECTORY;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "dir_module", source: "mod_dir.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::Fixups, Order::Last, LATE)],
};

/// Looks up index files and fallbacks.
const LATE: PhaseHook = PhaseHook::Recording { claims: has_no_file, run: |request| Box::pin(fixup(request)) };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("FallbackResource", Allowed::INDEXES, Take1(set_fallback), "disabled", "Set a default handler"),
    row("DirectoryIndex", Allowed::INDEXES, Raw(add_index), INDEX, "a list of file names"),
    row("DirectorySlash", Allowed::INDEXES, Flag(|c, on| c.set(|d: &mut DirConf| &mut d.slash, on)), on_or_off(SLASH), "On or Off"),
    row("DirectoryCheckHandler", Allowed::INDEXES, Flag(|c, on| c.set(|d: &mut DirConf| &mut d.check_handler, on)), on_or_off(CHECK_HANDLER), "On or Off"),
    row("DirectoryIndexRedirect", Allowed::INDEXES, Take12(set_redirect), "Off", "On, Off, or a 3xx status code."),
];

/// The default of `DirectoryIndex`, and the list that it makes.
const INDEX: &str = "index.html";
const INDEXES: &[Cow<'static, str>] = &[Cow::Borrowed(INDEX)];
/// Whether they are on by default.
const SLASH: bool = true;
const CHECK_HANDLER: bool = false;

settings! {
    /// The module's settings of a section.
    pub struct DirConf {
        index: Gathered<Vec<Cow<'static, str>>>,
        slash: Setting<bool> = SLASH,
        check_handler: Setting<bool> = CHECK_HANDLER,
        fallback: Setting<Option<String>>,
        redirect: Setting<Option<u16>>,
    }
}

/// Lines of one section accumulate; `disabled` alone empties the list.
fn add_index(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let origin = cmd.origin();
    let index = &mut cmd.dir.edit::<DirConf>().index;
    let words = words(rest);
    match &words[..] {
        [only] if only.eq_ignore_ascii_case("disabled") => index.begin(&origin).clear(),
        _ => index.edit(&origin).extend(words.into_iter().map(Cow::Owned)),
    }
    Ok(())
}

fn set_fallback(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let path = (!value.eq_ignore_ascii_case("disabled")).then(|| value.to_string());
    cmd.set(|d: &mut DirConf| &mut d.fallback, path)
}

fn set_redirect(cmd: &mut Cmd<'_>, value: &str, _: Option<&str>) -> Outcome {
    let status = match value.to_ascii_lowercase().as_str() {
        "on" => Some(302),
        "off" => None,
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        other => match other.parse() {
            Ok(status @ 300..=399) => Some(status),
            _ => return Err("DirectoryIndexRedirect only accepts values between 300 and 399".into()),
        },
    };
    cmd.set(|d: &mut DirConf| &mut d.redirect, status)
}

/// Whether it is a directory, or something missing that nothing else handles.
fn has_no_file(request: &Request) -> bool {
    request.mapped.stat.map_or(request.mapped.handler.is_none(), |meta| meta.is_dir())
}

async fn fixup(request: &mut Request) -> Flow {
    match request.mapped.stat {
        Some(_) => directory(request).await,
        None => fallback(request).await,
    }
}

/// Sends the client to the path with a slash at its end.
fn add_slash(request: &mut Request, conf: &DirConf) -> Flow {
    let path = http::uri::escape_path(&request.data.uri).into_owned();
    let args = request.data.args.as_ref().map_or_else(String::new, |args| format!("?{args}"));
    request.response.headers_out.set("Location", request.url(&format!("{path}/{args}")));
    request
        .note_step("dir", conf.slash.origin(), |_| "DirectorySlash: the path of a directory ends with a slash".into());
    request.note_reason(301, "dir", conf.slash.origin(), |request| {
        let cause = if conf.slash.is_set() { "DirectorySlash" } else { "the slash at the end is missing:" };
        (cause.into(), format!("{} is a directory", request.mapped.filename))
    });
    Flow::Status(301)
}

async fn directory(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    let conf = dir.get::<DirConf>();
    // Whatever its type: directory handlers check this name.
    request.mapped.handler.get_or_insert(Cow::Borrowed(DIRECTORY));
    if !request.data.uri.ends_with('/') {
        // Some clients, such as file managers, follow redirects of GET alone.
        let is_careful =
            || !matches!(&*request.data.method, "GET" | "HEAD") && request.env.contains("redirect-carefully");
        if !conf.slash() || is_careful() {
            return Flow::Declined;
        }
        return add_slash(request, conf);
    }
    if request.mapped.handler.as_deref() == Some(REDIRECT_HANDLER) {
        return Flow::Declined;
    }
    if conf.check_handler() && request.mapped.handler.as_deref() != Some(DIRECTORY) {
        // The module that has taken over the directory sets its type.
        if request.response.content_type() == Some(DIRECTORY) {
            request.response.clear_content_type();
        }
        return Flow::Declined;
    }
    index(request, conf).await
}

/// Answers with the first index that there is.
async fn index(request: &mut Request, conf: &DirConf) -> Flow {
    let names = conf.index.get().map_or(INDEXES, Vec::as_slice);
    let mut error = None;
    for (at, name) in names.iter().enumerate() {
        let mut found = request.lookup_to_become(&with_args(request, name)).await;
        let redirect = conf.redirect.value_or(None);
        if at > 0 || redirect.is_some() || !is_served(&found) {
            // The response depends on more than the file that it consists of: an index before it may appear.
            request.asks_beyond_head();
        }
        if is_served(&found) {
            if let Some(status) = redirect {
                let path = http::uri::escape_path(&found.data.uri).into_owned();
                request.response.headers_out.set("Location", request.url(&path));
                request.note_reason(status, "dir", conf.redirect.origin(), |_| {
                    ("DirectoryIndexRedirect".into(), String::new())
                });
                return Flow::Status(status);
            }
            let uri = found.data.uri.clone();
            request.note_step("dir", conf.index.origin(), |_| format!("DirectoryIndex: {uri}"));
            request.become_found(found);
            return Flow::Ok;
        }
        request.note_unused("dir", conf.index.origin(), &mut found, |found| {
            let why = match (found.response.status(), found.mapped.stat) {
                (200, Some(_)) => "is not a file".to_string(),
                (200 | 404, None) => "does not exist".to_string(),
                (status, _) => format!("would be answered with {status}"),
            };
            format!("DirectoryIndex: {} {why}", found.data.uri)
        });
        match found.response.status() {
            // If the last index requires a login or lists its variants, so does the directory.
            status @ (401 | 406) if at + 1 == names.len() => {
                take_response(request, &found);
                return Flow::Status(status);
            }
            // Any index may redirect the client.
            status @ 300..=399 => {
                take_response(request, &found);
                return Flow::Status(status);
            }
            200 | 404 => {}
            status => error = Some(status),
        }
    }
    if let Some(status) = error {
        return Flow::Status(status);
    }
    // For mod_autoindex's message.
    request.notes.set("dir-index-names", names.join(","));
    Flow::Declined
}

/// `FallbackResource`: handles missing files. A missing index is looked up, too, so a directory falls back before its
/// next index is tried.
async fn fallback(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    let Some(path) = dir.get::<DirConf>().fallback.get().cloned().flatten() else { return Flow::Declined };
    let found = request.lookup_uri(&with_args(request, &path)).await;
    match found.response.status() {
        _ if is_served(&found) => {
            let origin = dir.get::<DirConf>().fallback.origin();
            request.note_step("dir", origin, |_| format!("FallbackResource: {path}"));
            request.become_found(found);
            Flow::Ok
        }
        200 | 404 => Flow::Declined,
        status => {
            if (300..400).contains(&status) {
                take_response(request, &found);
            }
            request.log("dir", Level::Debug, format!("FallbackResource {path} would not be served: {status}"));
            Flow::Status(status)
        }
    }
}

/// A target followed by the query of the request, as in Apache even after a query of its own.
fn with_args(request: &Request, target: &str) -> String {
    match &request.data.args {
        Some(args) => format!("{target}?{args}"),
        None => target.to_string(),
    }
}

/// Whether something answers there: a file, or a backend (`ProxyPass`), which knows by itself what it has.
fn is_served(found: &Request) -> bool {
    let is_proxied = found.mapped.handler.as_deref() == Some("proxy-server");
    found.response.status() == 200 && (is_proxied || found.mapped.stat.is_some_and(|meta| meta.is_file()))
}

/// Adopts the response of a subrequest.
fn take_response(request: &mut Request, found: &Request) {
    for (name, value) in found.notes.iter() {
        request.notes.set(name.to_string(), value);
    }
    request.response.headers_out.extend(&found.response.headers_out);
    request.response.err_headers_out.extend(&found.response.err_headers_out);
}
