//! CGI scripts, started by the child that serves the request.
//!
//! Apache manual: mod_cgi.

use std::str::FromStr;
use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::{atoi, duration, size};
use conf::{Allowed, Cmd, Directive, Face, Outcome, Setting, settings};
use gateway::gate::{self, Allowance, Rules};
use gateway::{Caller, ScriptLog};
use seam::scoreboard::{self, Board};
use server::core::CoreServer;
use server::core::options::EXEC_CGI;
use server::module::Answering;
use server::paths::base_name;
use server::{Answer, Handler, Hook, Module, Order, Request, Server};

use crate::mappers::mod_alias::FORCED_TYPE;
use crate::row;

/// The module.
pub static MODULE: Module = Module {
    face: Face { id: "cgi_module", source: "mod_cgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::OpenLogs(open_gate), Hook::Handler(Order::Middle, Handler::Later(handler))],
};

/// The module's name in log lines.
const NAME: &str = "cgi";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ScriptLog", Allowed::SERVER, Take1(set_log), "", "the name of a log for script debugging info"),
    row("ScriptLogLength", Allowed::SERVER, Take1(set_log_length), "10385760", "the maximum length (in bytes) of the script debug log"),
    row("ScriptLogBuffer", Allowed::SERVER, Take1(set_log_buffer), "1024", "the maximum size (in bytes) to record of a POST request"),
    row("AdmissionMemory", Allowed::GLOBAL, Take1(set_memory), "auto", "How much memory all scripts together may have: auto, a size, a percentage, or unlimited"),
    row("AdmissionLimit", Allowed::CONF, Take1(set_limit), "auto", "How many runs of one script there may be at once: auto (as many as there is memory for) or a number"),
    row("AdmissionQueue", Allowed::GLOBAL, Take1(set_queue), "auto", "How many requests may wait for scripts: auto (three of four workers) or a number"),
    row("AdmissionTimeout", Allowed::SERVER, Take1(set_patience), "60", "How long a request may wait for a script, in seconds or with a unit"),
    row("CGIScriptTimeout", Allowed::CONF, Take1(set_timeout), "", "The amount of time to wait between successful reads from the CGI script, in seconds."),
];

settings! {
    /// The module's settings of a server.
    pub struct CgiServer {
        log: Setting<String>,
        log_length: Setting<u64>,
        log_buffer: Setting<usize>,
        memory: Setting<Allowance>,
        queue: Setting<Option<usize>>,
        patience: Setting<Duration>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct CgiDir {
        timeout: Setting<Duration>,
        limit: Setting<Option<u64>>,
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

fn set_memory(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let percent = |text: &str| text.parse().ok().filter(|percent| (1..=100).contains(percent));
    let memory = match (value.to_ascii_lowercase().as_str(), value.strip_suffix('%')) {
        ("auto", _) => Some(Allowance::Auto),
        ("unlimited", _) => Some(Allowance::Unlimited),
        (_, Some(number)) => percent(number).map(Allowance::Percent),
        (_, None) => size(value).filter(|bytes| *bytes > 0).map(Allowance::Bytes),
    };
    let memory = memory.ok_or_else(|| {
        format!(
            "AdmissionMemory: '{value}' is neither auto nor unlimited, nor a size such as 512M, nor from 1% to 100%"
        )
    })?;
    cmd.server_set(|s: &mut CgiServer| &mut s.memory, memory)
}

/// A number from 1 on; `None` is `auto`.
fn number_or_auto<T: FromStr + PartialOrd + From<u8>>(name: &str, value: &str) -> Result<Option<T>, String> {
    if value.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let number = value.parse().ok().filter(|number| *number >= T::from(1));
    number.map(Some).ok_or_else(|| format!("{name}: '{value}' is neither auto nor a number from 1 on"))
}

fn set_limit(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let limit = number_or_auto("AdmissionLimit", value)?;
    cmd.set(|d: &mut CgiDir| &mut d.limit, limit)
}

fn set_queue(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let queue = number_or_auto("AdmissionQueue", value)?;
    cmd.server_set(|s: &mut CgiServer| &mut s.queue, queue)
}

fn set_patience(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let patience = duration(value, Duration::from_secs(1));
    let patience = patience.ok_or_else(|| format!("AdmissionTimeout: '{value}' is no time, such as 30 or 500ms"))?;
    cmd.server_set(|s: &mut CgiServer| &mut s.patience, patience)
}

fn open_gate(server: &Server) -> Result<(), String> {
    let allowance = server.main().settings.get::<CgiServer>().memory.get().copied().unwrap_or_default();
    gate::open(allowance).map_err(|error| format!("{}: no memory for the gate of scripts", sys::describe(&error)))
}

/// How many may wait, where nobody says so: three of four workers, so that those who ask for files find one; where nobody
/// who waits holds a worker, very many.
fn queue_max() -> usize {
    const MANY: usize = 4000;
    scoreboard::get().and_then(Board::held).map_or(MANY, |workers| workers * 3 / 4)
}

fn rules(request: &Request) -> Rules {
    // Those of the whole server stand in the main one.
    let main = request.server.main().settings.get::<CgiServer>();
    let own = request.host::<CgiServer>();
    Rules {
        most: request.dir::<CgiDir>().limit.or(None),
        queue: main.queue.or(None).unwrap_or_else(queue_max),
        timeout: own.patience.or(Duration::from_secs(60)),
    }
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
    let nph = base_name(&request.filename).starts_with("nph-");
    Caller { module: NAME, timeout, nph, log, rules: rules(request) }
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
