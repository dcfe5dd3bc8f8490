//! The common part of mod_cgi and mod_cgid: which requests are scripts, their conditions, and the script log.

use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::{atoi, strtol};
use conf::{Allowed, Cmd, Directive, Outcome, Setting, row, settings, shown};
use gateway::{Caller, Cgi, ScriptLog};
use server::Waiting;
use server::core::{CoreDir, CoreServer};
use server::paths::base_name;
use server::{HandlerResult, Request};

use super::mod_admission::rules;
use super::obstacle::Obstacle;
use crate::loggers::mod_log_config::accounts_for_scripts;

pub(super) const SCRIPT_LOG: Directive =
    row("ScriptLog", Allowed::SERVER, Take1(set_log), "", "the name of a log for script debugging info");
pub(super) const SCRIPT_LOG_LENGTH: Directive = row(
    "ScriptLogLength",
    Allowed::SERVER,
    Take1(set_log_length),
    shown!(LOG_LENGTH),
    "the maximum length (in bytes) of the script debug log",
);
pub(super) const SCRIPT_LOG_BUFFER: Directive = row(
    "ScriptLogBuffer",
    Allowed::SERVER,
    Take1(set_log_buffer),
    shown!(LOG_BUFFER),
    "the maximum size (in bytes) to record of a POST request",
);

/// The default sizes of a script log and of a body in it, in bytes.
const LOG_LENGTH: u64 = 10_385_760;
const LOG_BUFFER: usize = 1024;

settings! {
    /// The script log of a server.
    pub struct ScriptServer {
        log: Setting<String>,
        log_length: Setting<u64> = LOG_LENGTH,
        log_buffer: Setting<usize> = LOG_BUFFER,
    }
}

fn set_log(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let path = cmd.context.server_relative(value);
    cmd.server_set(|s: &mut ScriptServer| &mut s.log, path)
}

fn set_log_length(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut ScriptServer| &mut s.log_length, u64::try_from(strtol(value)).unwrap_or(0))
}

fn set_log_buffer(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut ScriptServer| &mut s.log_buffer, usize::try_from(atoi(value)).unwrap_or(0))
}

/// The differences between the two modules.
pub(super) struct ScriptModule {
    /// The module's name in log lines.
    pub(super) module: &'static str,
    /// Apache's numbers for the messages about a refused script: no `ExecCGI`, no file, a directory, path information.
    pub(super) refusals: [&'static str; 4],
    /// Its own time limit, if one is set.
    pub(super) timeout: fn(&Request) -> Option<Duration>,
    /// Whether daemons start scripts.
    pub(super) daemons: bool,
}

/// Whether a request is for a script. The media type is the historical name.
pub(super) fn is_script(request: &Request) -> bool {
    matches!(request.handler_name(), Some("cgi-script" | "application/x-httpd-cgi"))
}

/// Answers requests for scripts.
pub(super) fn handle<'a>(request: &'a mut Request, script_module: &'static ScriptModule) -> Waiting<'a, HandlerResult> {
    Box::pin(async move {
        let (caller, cgi) =
            (caller(request, script_module), Cgi { rules: rules(request), daemons: script_module.daemons });
        gateway::run(request, caller, cgi).await
    })
}

pub(super) fn caller(request: &Request, script_module: &ScriptModule) -> Caller {
    let own = (script_module.timeout)(request).filter(|own| !own.is_zero());
    let timeout = own.unwrap_or_else(|| request.host::<CoreServer>().timeout());
    Caller {
        nph: base_name(&request.mapped.filename).starts_with("nph-"),
        log: log(request),
        accounts: accounts_for_scripts(request),
        ..Caller::new(script_module.module, &gateway::CGI_TIMEOUT_MESSAGE, timeout)
    }
}

fn log(request: &Request) -> Option<ScriptLog> {
    let conf = request.host::<ScriptServer>();
    conf.log.get().map(|path| ScriptLog {
        path: path.clone(),
        length_max: conf.log_length(),
        body_max: conf.log_buffer(),
    })
}

/// Says why a script is not started, and which line forbids it.
fn note_refusal(request: &Request, module: &str, status: u16, obstacle: Obstacle) {
    let forbidden = obstacle == Obstacle::NeitherExecCgiNorAlias;
    let origin = request.dir::<CoreDir>().options.0.origin().filter(|_| forbidden);
    request.note_reason(status, module, origin, |request| {
        let file = &request.mapped.filename;
        match obstacle {
            Obstacle::NoExecCgi | Obstacle::NeitherExecCgiNorAlias => {
                ("Options".into(), format!("without ExecCGI forbid running {file}"))
            }
            Obstacle::Missing => (file.clone(), "does not exist".into()),
            Obstacle::Directory => (file.clone(), "is a directory, not a script".into()),
            Obstacle::PathInfo => {
                ("AcceptPathInfo Off".into(), format!("forbids {} after {file}", request.mapped.path_info))
            }
        }
    });
}

/// Refuses a script that may not start. `None`: it may.
pub(super) fn refusal(request: &mut Request, script_module: &'static ScriptModule) -> Option<HandlerResult> {
    let [forbidden, missing, directory, no_path_info] = script_module.refusals;
    // Apache's order.
    let order = [
        (Obstacle::NeitherExecCgiNorAlias, 403, (forbidden, "Options ExecCGI is off in this directory")),
        (Obstacle::Missing, 404, (missing, "script not found or unable to stat")),
        (Obstacle::Directory, 403, (directory, "attempt to invoke directory as script")),
        (Obstacle::PathInfo, 404, (no_path_info, "AcceptPathInfo off disallows user's path")),
    ];
    let Some(&(obstacle, status, (number, text))) = Obstacle::first(request, &order) else {
        // The start would find out anyway: only an explanation looks before.
        let is_executable = request.mapped.stat.is_some_and(|meta| meta.is_executable());
        if !request.is_hypothetical() || is_executable {
            return None;
        }
        let text = |request: &Request| (request.mapped.filename.clone(), "is not executable (chmod +x)".into());
        request.note_reason(500, script_module.module, None, text);
        return Some(HandlerResult::Status(500));
    };
    gateway::complain(request, script_module.module, number, log(request).as_ref(), status, text);
    note_refusal(request, script_module.module, status, obstacle);
    Some(HandlerResult::Status(status))
}
