//! Scripts that handle other paths: by handler or media type (`Action`), or by method (`Script`).
//!
//! Apache manual: mod_actions. Doubtful cases were measured on 2.4.71.

use conf::directive::Args::{Take2, Take23};
use conf::{Allowed, Cmd, Directive, Keyed, Level, ModuleInfo, Outcome, Refusal, row, settings};
use http::uri::escape_path;
use server::core::Methods;
use server::{Handler, HandlerResult, Hook, Keep, Module, Order, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "actions_module", source: "mod_actions.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Last, Handler::Now(handler))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("Action", Allowed::FILEINFO, Take23(add_action), "", "a media type followed by a script name"),
    row("Script", Allowed::CONF, Take2(set_script), "", "a method followed by a script name"),
];

settings! {
    /// The module's settings of a section.
    pub struct ActionsDir {
        /// By handler or media type, in lower case.
        actions: Keyed<String, Action>,
        /// By method; the one for `GET` also applies to `HEAD`.
        scripts: Keyed<String, String>,
    }
}

/// The script for a handler or media type.
#[derive(Clone, Debug)]
struct Action {
    /// The URL path of the script, and perhaps the beginning of its query.
    script: String,
    /// The requested file need not exist.
    is_virtual: bool,
}

fn add_action(cmd: &mut Cmd<'_>, kind: &str, script: &str, option: Option<&str>) -> Outcome {
    if let Some(option) = option.filter(|option| !option.eq_ignore_ascii_case("virtual")) {
        return Err(Refusal::argument(3, format!("unrecognized option '{option}'")));
    }
    let action = Action { script: script.to_string(), is_virtual: option.is_some() };
    cmd.put(|d: &mut ActionsDir| &mut d.actions, kind.to_ascii_lowercase(), action)
}

fn set_script(cmd: &mut Cmd<'_>, method: &str, script: &str) -> Outcome {
    if method == "TRACE" {
        return Err("TRACE not allowed for Script".into());
    }
    // A method with a script is a known one.
    Methods::add(cmd, method);
    cmd.put(|d: &mut ActionsDir| &mut d.scripts, numbered(method).to_string(), script.to_string())
}

/// `HEAD` has no number of its own in Apache: it counts as `GET`.
fn numbered(method: &str) -> &str {
    if method == "HEAD" { "GET" } else { method }
}

/// A script may be named for any handler: so this one checks every request.
fn handler(request: &mut Request) -> HandlerResult {
    let dir = request.dir.slots.clone();
    let conf = dir.get::<ActionsDir>();
    let method = numbered(&request.data.method);
    // A `GET` without a query is for the file.
    let by_method = conf.scripts.get(method).filter(|_| method != "GET" || request.data.args.is_some());
    // The target may be a plain file, which would be handled by this very method.
    if by_method.is_some() && request.previous().is_some_and(|previous| previous.before.is_some()) {
        return HandlerResult::Declined;
    }
    let kind = request.handler_name().map(str::to_string);
    let action = kind.and_then(|kind| conf.actions.get(&kind.to_ascii_lowercase()).map(|action| (kind, action)));
    let script = match action {
        Some((_, action)) if !action.is_virtual && request.mapped.stat.is_none() => {
            request.log("actions", Level::Info, format!("AH00652: File does not exist: {}", request.mapped.filename));
            request.note_reason(404, "actions", None, |request| {
                (request.mapped.filename.clone(), "does not exist".into())
            });
            return HandlerResult::Status(404);
        }
        Some((kind, action)) => {
            // The script sees it as `REDIRECT_HANDLER`.
            request.env.set("HANDLER", kind);
            &action.script
        }
        None => match by_method {
            Some(script) => script,
            None => return HandlerResult::Declined,
        },
    };
    let args = request.data.args.as_ref().map_or_else(String::new, |args| format!("?{args}"));
    let uri = format!("{script}{}{args}", escape_path(&request.data.uri));
    request.note_step("actions", None, |_| format!("Action or Script: {script}"));
    HandlerResult::Redirect { uri, keep: Keep { method: true, media_type: true } }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("Action x", "Action takes two or three arguments, a media type followed by a script name"),
            ("Action a b c", "unrecognized option 'c'"),
            ("Action a b VIRTUAL", ""),
            ("Script GET", "Script takes two arguments, a method followed by a script name"),
            ("Script TRACE /x", "TRACE not allowed for Script"),
            ("Script trace /x", ""),
            ("<Files x>\nScript FOO /x\nAction x /y\n</Files>", ""),
        ]);
    }
}
