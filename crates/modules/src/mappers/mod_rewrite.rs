//! URLs rewritten by rules: regular expressions, conditions, maps.
//!
//! A rule outside sections sees the URL path before anything else has looked at it; one of a section or an `.htaccess`
//! file sees the rest after the directory, once the file was found, and its result starts again from the beginning.
//!
//! Apache manual: mod_rewrite. Doubtful cases were measured on 2.4.71.

mod conditions;
mod cookie;
mod expand;
mod finish;
mod flags;
mod host;
mod maps;
mod names;
mod pass;
mod rule;
mod rules;
mod section;
mod set;
mod settings;
mod template;
mod trace;
mod url;
mod variables;

use conf::directive::Args::{Flag, Iterate, Raw, Take1, Take23};
use conf::{Allowed, Directive, ModuleInfo, on_or_off, row};
use server::PhaseHook::{Later, Now};
use server::{Flow, Handler, HandlerResult, Hook, Keep, Module, Order, Phase, Request, Server};

pub(super) use self::names::REDIRECT_HANDLER;
use self::names::{FORCED_HANDLER, FORCED_TYPE, REDIRECT};
use self::rules::ENGINE;
use self::settings::RewriteServer;
use self::trace::Trace;

/// The module. Its rules for sections come after mod_proxy, which escapes what it finds.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "rewrite_module", source: "mod_rewrite.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("rewrite-map"),
        Hook::Start(prepare),
        Hook::HelperProcess(&maps::helper::HELPER),
        Hook::Phase(
            Phase::Translate,
            Order::ReallyFirst,
            Later { claims: host::is_on, run: |request| Box::pin(host::translate(request)) },
        ),
        Hook::Phase(
            Phase::Fixups,
            Order::First,
            Later { claims: section::is_on, run: |request| Box::pin(section::fixup(request)) },
        ),
        Hook::Phase(Phase::Fixups, Order::Last, Now(force)),
        Hook::Handler(Order::Middle, Handler::Now(go_on)),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("RewriteEngine", Allowed::FILEINFO, Flag(set::engine), on_or_off(ENGINE), "On or Off to enable or disable (default) the whole rewriting engine"),
    row("RewriteOptions", Allowed::FILEINFO, Iterate(set::options), "", "List of option strings to set"),
    row("RewriteBase", Allowed::FILEINFO, Take1(set::base), "", "the base URL of the per-directory context"),
    row("RewriteCond", Allowed::FILEINFO, Raw(set::condition), "", "an input string and a to be applied regexp-pattern"),
    row("RewriteRule", Allowed::FILEINFO, Raw(set::rule), "", "an URL-applied regexp-pattern and a substitution URL"),
    row("RewriteMap", Allowed::SERVER, Take23(set::add_map), "", "a mapname and a filename and options").differs("If a map does not answer, the request is refused. `fastdbd` empties its cache when it holds 4 MB."),
];

/// Makes the combined matchers before the fork, so that all children share them.
fn prepare(server: &Server) -> Result<(), String> {
    for host in &server.hosts {
        host.settings.get::<RewriteServer>().rules.list.many();
    }
    Ok(())
}

/// Applies the type and handler set by rules.
fn force(request: &mut Request) -> Flow {
    if let Some(media_type) = request.notes.get(FORCED_TYPE).map(str::to_string) {
        Trace::of(request).log(request, 1, None, || {
            format!("force filename {} to have MIME-type '{media_type}'", request.mapped.filename)
        });
        request.response.set_content_type(media_type);
    }
    if let Some(handler) = request.notes.get(FORCED_HANDLER).map(str::to_string) {
        Trace::of(request).log(request, 1, None, || {
            format!("force filename {} to have the Content-handler '{handler}'", request.mapped.filename)
        });
        request.mapped.handler = Some(handler.into());
    }
    Flow::Declined
}

/// Starts again with the path made by a section's rules.
fn go_on(request: &mut Request) -> HandlerResult {
    let path = request.mapped.filename.strip_prefix(REDIRECT);
    let Some(path) = path.filter(|_| request.mapped.handler.as_deref() == Some(REDIRECT_HANDLER)) else {
        return HandlerResult::Declined;
    };
    let uri = match &request.data.args {
        Some(args) => format!("{path}?{args}"),
        None => path.to_string(),
    };
    HandlerResult::Redirect { uri, keep: Keep { method: true, media_type: false } }
}

#[cfg(test)]
mod tests;
