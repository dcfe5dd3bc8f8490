//! CGI scripts, started by the child that serves the request.
//!
//! Apache manual: mod_cgi.

use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::{atoi, duration};
use conf::{Allowed, Cmd, Directive, Face, Outcome, Setting, settings};
use gateway::{Caller, ScriptLog};
use server::core::CoreServer;
use server::core::options::EXEC_CGI;
use server::module::Answering;
use server::paths::base_name;
use server::{Answer, Handler, Hook, Module, Order, Request};

use crate::mappers::mod_alias::FORCED_TYPE;
use crate::row;

/// The module.
pub static MODULE: Module = Module {
    face: Face { id: "cgi_module", source: "mod_cgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Handler(Order::Middle, Handler::Later(handler))],
};

/// The module's name in log lines.
const NAME: &str = "cgi";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ScriptLog", Allowed::SERVER, Take1(set_log), "", "the name of a log for script debugging info"),
    row("ScriptLogLength", Allowed::SERVER, Take1(set_log_length), "10385760", "the maximum length (in bytes) of the script debug log"),
    row("ScriptLogBuffer", Allowed::SERVER, Take1(set_log_buffer), "1024", "the maximum size (in bytes) to record of a POST request"),
    row("CGIScriptTimeout", Allowed::CONF, Take1(set_timeout), "", "The amount of time to wait between successful reads from the CGI script, in seconds."),
];

settings! {
    /// The module's settings of a server.
    pub struct CgiServer {
        log: Setting<String>,
        log_length: Setting<u64>,
        log_buffer: Setting<usize>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct CgiDir {
        timeout: Setting<Duration>,
    }
}

fn set_log(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let path = cmd.world.server_relative(value);
    cmd.server_set(|s: &mut CgiServer| &mut s.log, path)
}

fn set_log_length(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut CgiServer| &mut s.log_length, u64::try_from(atoi(value)).unwrap_or(0))
}

fn set_log_buffer(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut CgiServer| &mut s.log_buffer, usize::try_from(atoi(value)).unwrap_or(0))
}

fn set_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let timeout = duration(value, Duration::from_secs(1)).ok_or("CGIScriptTimeout has wrong format")?;
    cmd.set(|d: &mut CgiDir| &mut d.timeout, timeout)
}

fn handler(request: &mut Request) -> Answering<'_> {
    // The media type is the name of long ago.
    if !matches!(request.handler_name(), Some("cgi-script" | "application/x-httpd-cgi")) {
        return Box::pin(std::future::ready(Answer::Declined));
    }
    Box::pin(async move {
        let caller = caller(request);
        match refusal(request, &caller) {
            Some(answer) => answer,
            None => gateway::run(request, caller).await,
        }
    })
}

fn caller(request: &Request) -> Caller {
    let conf = request.host::<CgiServer>();
    let log = conf.log.get().map(|path| ScriptLog {
        path: path.clone(),
        length_max: conf.log_length.or(10_385_760),
        body_max: conf.log_buffer.or(1024),
    });
    let own = request.dir::<CgiDir>().timeout.or(Duration::ZERO);
    let timeout = if own.is_zero() { request.host::<CoreServer>().timeout.or(Duration::from_secs(60)) } else { own };
    Caller { module: NAME, timeout, nph: base_name(&request.filename).starts_with("nph-"), log }
}

/// What must be true of a script before it is started.
fn refusal(request: &Request, caller: &Caller) -> Option<Answer> {
    // A directory of scripts that `ScriptAlias` names needs no further permission.
    let aliased = request.notes.get(FORCED_TYPE).is_some_and(|kind| kind.eq_ignore_ascii_case("cgi-script"));
    let (status, number, text) = match request.stat {
        _ if request.options() & EXEC_CGI == 0 && !aliased => {
            (403, "AH02809", "Options ExecCGI is off in this directory")
        }
        None => (404, "AH02811", "script not found or unable to stat"),
        Some(meta) if meta.is_dir() => (403, "AH02812", "attempt to invoke directory as script"),
        Some(_) if request.accept_path_info == Some(false) && !request.path_info.is_empty() => {
            (404, "AH02813", "AcceptPathInfo off disallows user's path")
        }
        Some(_) => return None,
    };
    Some(caller.refuse(request, status, number, text))
}
