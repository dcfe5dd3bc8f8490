//! URLs rewritten by rules: regular expressions, conditions, maps.
//!
//! A rule outside sections sees the URL path before anything else has looked at it; one of a section or an `.htaccess`
//! file sees the rest after the directory, once the file was found, and its result starts again from the beginning.
//!
//! Apache manual: mod_rewrite. Doubtful cases were measured on 2.4.71.

mod conditions;
mod cookie;
mod expand;
mod flags;
mod host;
mod lines;
mod maps;
mod pass;
mod rule;
mod rules;
mod section;
mod template;
mod trace;
mod url;
mod variables;

use conf::directive::Args::{Flag, Raw, Take1, Take23};
use conf::{Allowed, Directive, ModuleInfo, on_or_off, row, settings};
use server::PhaseHook::{Later, Now};
use server::{Flow, Handler, HandlerResult, Hook, Keep, Module, Order, Phase, Request, Server};

use self::rules::Rules;
use self::trace::Trace;

/// The module. Its rules for sections come after mod_proxy, which escapes what it finds.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "rewrite_module", source: "mod_rewrite.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Start(prepare),
        Hook::HelperProcess(&maps::program::HELPER),
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

/// The handler for a path changed by a section's rules: it starts again with the new one.
pub(crate) const REDIRECT_HANDLER: &str = "redirect-handler";

/// The prefixes of file names that are not files: one to start again with, one for other modules, one of a backend.
const REDIRECT: &str = "redirect:";
const PASS_THROUGH: &str = "passthrough:";
const PROXY: &str = "proxy:";

/// Notes: the type and the handler that a rule sets, that no rule should process the request again, and that the path
/// goes to a backend unchanged.
const FORCED_TYPE: &str = "rewrite-forced-mimetype";
const FORCED_HANDLER: &str = "rewrite-forced-handler";
const END: &str = "rewrite_really_last";
/// The same for a look-up: a request that continues as its result (`DirectoryIndex`) is not ended by it.
const END_OF_LOOK_UP: &str = "rewrite_really_last_of_look_up";
const NOCANON: &str = "proxy-nocanon";

/// Whether it is on by default.
const ENGINE: bool = false;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("RewriteEngine", Allowed::FILEINFO, Flag(lines::engine), on_or_off(ENGINE), "On or Off to enable or disable (default) the whole rewriting engine"),
    row("RewriteOptions", Allowed::FILEINFO, conf::directive::Args::Iterate(lines::options), "", "List of option strings to set"),
    row("RewriteBase", Allowed::FILEINFO, Take1(lines::base), "", "the base URL of the per-directory context"),
    row("RewriteCond", Allowed::FILEINFO, Raw(lines::condition), "", "an input string and a to be applied regexp-pattern"),
    row("RewriteRule", Allowed::FILEINFO, Raw(lines::rule), "", "an URL-applied regexp-pattern and a substitution URL"),
    row("RewriteMap", Allowed::SERVER, Take23(maps::add), "", "a mapname and a filename and options").differs("If a map does not answer, the request is refused. `fastdbd` empties its cache when it holds 4 MB."),
];

settings! {
    /// The rules outside sections.
    pub struct RewriteServer { rules: Rules }
}

settings! {
    /// The rules of a section.
    pub struct RewriteDir { rules: Rules }
}

/// Makes the combined matchers before the fork, so that all children share them.
fn prepare(server: &Server) -> Result<(), String> {
    for host in &server.hosts {
        host.settings.get::<RewriteServer>().rules.list.many();
    }
    Ok(())
}

/// Whether a rule with `END` has matched, for this path or for an earlier one.
fn has_ended(request: &Request) -> bool {
    let before = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    let has_look_up = request.is_subrequest() && request.notes.contains(END_OF_LOOK_UP);
    has_look_up || request.notes.contains(END) || before.into_iter().any(|one| one.notes.contains(END))
}

/// Applies the type and handler set by rules.
fn force(request: &mut Request) -> Flow {
    if let Some(media_type) = request.notes.get(FORCED_TYPE).map(str::to_string) {
        Trace::of(request).log(request, 1, None, || {
            format!("force filename {} to have MIME-type '{media_type}'", request.mapped.filename)
        });
        request.answer.set_content_type(media_type);
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
    let uri = match &request.asked.args {
        Some(args) => format!("{path}?{args}"),
        None => path.to_string(),
    };
    HandlerResult::Redirect { uri, keep: Keep { method: true, media_type: false } }
}

/// The loaded modules determine whether a path may become the URL of a backend.
fn has_proxy(request: &Request) -> bool {
    request.server.language.has_module("proxy_module")
}

/// A query made by the rules may contain nothing that a request line could not.
fn is_clean_query(query: &str) -> bool {
    query.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests;
