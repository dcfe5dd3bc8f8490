//! Content negotiation: one resource, several forms, and the one that suits the client.
//!
//! Variants are found in a type map or, with `Options MultiViews`, among the files of a directory.
//!
//! Apache manual: mod_negotiation, "Content Negotiation".

mod accept;
mod decision;
mod map;
mod multiviews;
mod offer;
mod report;
mod select;
mod settings;

use conf::directive::Args::{Flag, Iterate};
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Refusal, on_or_off, row};
use http::Version;
use server::PhaseHook::Now;
use server::paths::dir_name;
use server::{Body, Flow, Handler, HandlerResult, Hook, Keep, Module, Order, Phase, PhaseHook, Request};

use self::decision::decide;
use self::map::{MAP_TYPE, from_map};
use self::select::Variant;
use self::settings::{CACHE, NegotiationDir, NegotiationServer};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "negotiation_module", source: "mod_negotiation.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::TypeChecker, Order::First, MULTIVIEWS),
        Hook::Phase(Phase::Fixups, Order::Middle, Now(fix_encoding)),
        Hook::Handler(Order::Middle, TYPE_MAP),
    ],
};

const MULTIVIEWS: PhaseHook =
    PhaseHook::Later { claims: multiviews::are_wanted, run: |request| Box::pin(multiviews::multiviews(request)) };
const TYPE_MAP: Handler = Handler::Later {
    claims: |request| matches!(request.handler_name(), Some("type-map" | MAP_TYPE)),
    check: |_| None,
    run: |request| Box::pin(type_map(request)),
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CacheNegotiatedDocs", Allowed::SERVER, Flag(|c, on| c.server_set(|s: &mut NegotiationServer| &mut s.cache, on)), on_or_off(CACHE), "Either 'on' or 'off' (default)"),
    row("LanguagePriority", Allowed::FILEINFO, Iterate(add_language), "", "space-delimited list of MIME language abbreviations"),
    row("ForceLanguagePriority", Allowed::FILEINFO, Iterate(add_force), "Prefer", "Force LanguagePriority elections, either None, or Fallback and/or Prefer"),
];

fn add_language(cmd: &mut Cmd<'_>, language: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<NegotiationDir>().priority.edit(&origin).push(language.to_ascii_lowercase());
    Ok(())
}

fn add_force(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let before = cmd.dir.get::<NegotiationDir>().force.get().copied();
    let mut force = before.unwrap_or_default();
    let is_none = before.is_some_and(|force| !force.prefer && !force.fallback);
    let refused = |with: &str| {
        let message = format!("Cannot combine ForceLanguagePriority options None and {with}");
        Err(Refusal::from(message))
    };
    match word.to_ascii_lowercase().as_str() {
        "none" if before.is_some() && !is_none => {
            return Err("Cannot combine ForceLanguagePriority options with None".into());
        }
        "none" => {}
        "prefer" if is_none => return refused("Prefer"),
        "prefer" => force.prefer = true,
        "fallback" if is_none => return refused("Fallback"),
        "fallback" => force.fallback = true,
        _ => return Err(format!("Invalid ForceLanguagePriority option {word}").into()),
    }
    let origin = cmd.origin();
    *cmd.dir.edit::<NegotiationDir>().force.edit(&origin) = force;
    Ok(())
}

/// Answers with a type map: with a text in it, or by continuing with the file it names.
async fn type_map(request: &mut Request) -> HandlerResult {
    let (path, dir) = (request.mapped.filename.clone(), dir_name(&request.mapped.filename).to_string());
    let offer = match from_map(request, &path, &dir).await {
        Ok(offer) => offer,
        Err(status) => return HandlerResult::Status(status),
    };
    let best = match decide(&offer, request, false).await {
        Ok(best) => best,
        Err(status) => return HandlerResult::Status(status),
    };
    // HTTP/1.0 caches do not understand Vary.
    if request.data.version == Version::Http10 && !request.host::<NegotiationServer>().cache() {
        let now = request.time().as_secs();
        let date = String::from_utf8_lossy(&http::date::http_date(now as i64)).into_owned();
        request.response.err_headers_out.set("Expires", date);
    }
    let variant = &offer.variants[best];
    match &variant.body {
        Some(body) => send(request, variant, body.clone()),
        None => go_on(request, &variant.name),
    }
}

fn send(request: &mut Request, variant: &Variant, body: bytes::Bytes) -> HandlerResult {
    if !matches!(&*request.data.method, "GET" | "HEAD" | "POST") {
        return HandlerResult::Status(405);
    }
    request.response.headers_out.set("Accept-Ranges", request.accept_ranges());
    let media = &variant.media;
    if !media.name.is_empty() {
        let charset = &media.charset;
        let parameter = if charset.is_empty() { String::new() } else { format!("; charset={charset}") };
        request.response.set_content_type(format!("{}{parameter}", media.name));
    }
    if !variant.languages.is_empty() {
        request.response.content_languages.clone_from(&variant.languages);
    }
    if variant.encoding.is_some() {
        request.response.content_encoding.clone_from(&variant.encoding);
    }
    HandlerResult::Body(Body::Bytes(body))
}

/// Continues with another path in the same directory, keeping the path information. As in Apache a name that begins
/// with a slash is also below the directory.
fn go_on(request: &Request, name: &str) -> HandlerResult {
    let uri = request.data.uri.strip_suffix(request.mapped.path_info.as_str()).unwrap_or(&request.data.uri);
    let args = request.data.args.as_ref().map_or_else(String::new, |args| format!("?{args}"));
    let (dir, info) = (http::uri::escape_path(dir_name(uri)), http::uri::escape_path(&request.mapped.path_info));
    HandlerResult::Redirect { uri: format!("{dir}{name}{info}{args}"), keep: Keep { method: true, media_type: false } }
}

/// Uses the client's spelling of an encoding: with `x-` or without.
fn fix_encoding(request: &mut Request) -> Flow {
    let Some(coding) = request.response.content_encoding.as_deref().filter(|coding| !coding.is_empty()) else {
        return Flow::Declined;
    };
    let bare = coding.strip_prefix("x-").unwrap_or(coding);
    let Some(field) = request.header_joined("Accept-Encoding") else { return Flow::Declined };
    let names = accept::wishes(&field);
    let has = |name: &str| names.iter().any(|wish| wish.value == name);
    let marked = format!("x-{bare}");
    let fixed = if has(bare) { Some(bare.to_string()) } else { Some(marked).filter(|marked| has(marked)) };
    if let Some(fixed) = fixed {
        drop(field);
        request.response.content_encoding = Some(fixed);
    }
    Flow::Declined
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("ForceLanguagePriority None", ""),
            ("ForceLanguagePriority None None", ""),
            ("ForceLanguagePriority Prefer fallback", ""),
            ("ForceLanguagePriority Prefer None", "Cannot combine ForceLanguagePriority options with None"),
            ("ForceLanguagePriority None Prefer", "Cannot combine ForceLanguagePriority options None and Prefer"),
            ("ForceLanguagePriority None Fallback", "Cannot combine ForceLanguagePriority options None and Fallback"),
            ("ForceLanguagePriority Bogus", "Invalid ForceLanguagePriority option Bogus"),
            (
                "LanguagePriority",
                "LanguagePriority requires at least one argument, space-delimited list of MIME language abbreviations",
            ),
            ("CacheNegotiatedDocs x", "CacheNegotiatedDocs must be On or Off"),
            (
                "<Directory /x>\nCacheNegotiatedDocs On\n</Directory>",
                "CacheNegotiatedDocs not allowed in <Directory> context",
            ),
            ("<VirtualHost *:80>\nCacheNegotiatedDocs On\n</VirtualHost>", ""),
        ]);
    }
}
