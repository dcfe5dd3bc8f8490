//! The settings of the gate for scripts, to override its automatic choices.
//!
//! Not one of Apache's modules: docs/scripts.md.

use std::str::FromStr;
use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::{duration, size};
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings, shown};
use gateway::gate::{self, Allowance, Rules};
use runtime::scoreboard::{self, Board};
use server::{Hook, Module, Request, Server, StartError};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "admission_module", source: "mod_admission.c", linked: true, directives: DIRECTIVES },
    hooks: &[Hook::Unlisted, Hook::OpenLogs(open_gate)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AdmissionMemory", Allowed::GLOBAL, Take1(set_memory), "auto", "How much memory all scripts together may use: auto, a size, a percentage, or unlimited").syntax("auto|size|percentage%|unlimited"),
    row("AdmissionLimit", Allowed::CONF, Take1(set_limit), "auto", "How many runs of one script may be in progress at once: auto (as many as memory allows) or a number").syntax("auto|number"),
    row("AdmissionQueue", Allowed::GLOBAL, Take1(set_queue), "auto", "How many requests may wait for scripts: auto (as many as leave one of four workers to plain files) or a number").syntax("auto|number"),
    row("AdmissionTimeout", Allowed::SERVER, Take1(set_patience), shown!(PATIENCE.as_secs()), "How long a request may wait for a script, in seconds or with a unit").syntax("time[ms|s|min]"),
];

/// The default time that a request waits.
const PATIENCE: Duration = Duration::from_secs(60);

settings! {
    /// The module's settings of a server.
    pub struct AdmissionServer {
        memory: Setting<Allowance>,
        queue: Setting<Option<usize>>,
        patience: Setting<Duration> = PATIENCE,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct AdmissionDir {
        limit: Setting<Option<u64>>,
    }
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
    cmd.server_set(|s: &mut AdmissionServer| &mut s.memory, memory)
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
    cmd.set(|d: &mut AdmissionDir| &mut d.limit, limit)
}

fn set_queue(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let queue = number_or_auto("AdmissionQueue", value)?;
    cmd.server_set(|s: &mut AdmissionServer| &mut s.queue, queue)
}

fn set_patience(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let patience = duration(value, Duration::from_secs(1));
    let patience = patience.ok_or_else(|| format!("AdmissionTimeout: '{value}' is not a time, such as 30 or 500ms"))?;
    cmd.server_set(|s: &mut AdmissionServer| &mut s.patience, patience)
}

fn open_gate(server: &Server) -> Result<(), StartError> {
    let allowance = server.main().settings.get::<AdmissionServer>().memory.get().copied().unwrap_or_default();
    gate::open(allowance).map_err(|error| StartError::of_system(&error, "no shared memory for the gate of scripts"))
}

/// A request's settings for the gate. If waiting requests hold workers, at most three of four workers are for scripts
/// as soon as one has to wait, so that requests for files find one; elsewhere very many may wait.
pub(super) fn rules(request: &Request) -> Rules {
    const MANY: usize = 4000;
    // Settings of the whole server are in the main one.
    let main = request.server.main().settings.get::<AdmissionServer>();
    let own = request.host::<AdmissionServer>();
    let queue = main.queue.value_or(None);
    let held = scoreboard::get().and_then(Board::held).filter(|_| queue.is_none());
    Rules {
        most: request.dir::<AdmissionDir>().limit.value_or(None),
        queue: queue.unwrap_or(MANY),
        total: held.map_or(usize::MAX, |workers| workers * 3 / 4),
        timeout: own.patience(),
    }
}
