//! Persistent scripts as in SpeedyCGI, by the handler `speedycgi-script` or by their first line (`#!/usr/bin/speedy`,
//! `perperl`).
//!
//! <https://metacpan.org/pod/CGI::SpeedyCGI>; docs/perl.md lists the differences. No program named speedy is needed.

use std::time::Duration;

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings, shown};
use gateway::Caller;
use gateway::backend::{Concurrency, PoolSettings};
use server::{Handler, HandlerResult, Hook, Module, Order, Request, Waiting};

use super::arguments::number;
use super::perl::{self, Interpreters};
use super::shebang::{self, Shebang};
use super::{backends, script};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "speedycgi_module", source: "mod_speedycgi2.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(backends::resolve),
        Hook::Preflight(backends::preflight),
        Hook::HelperProcess(&backends::MANAGER),
        // Before mod_cgi, which would make the kernel look for a program named speedy.
        Hook::Handler(Order::First, SCRIPTS),
    ],
};

const SCRIPTS: Handler = Handler::Later {
    claims: is_speedy,
    check: |request| perl::refusal(request, "speedycgi", 403).or_else(|| explain(request)),
    run: |request| handle(request),
};

const ALLOWED: Allowed = Allowed::SERVER.or(Allowed::IN_SECTION);

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SpeedyTimeout", ALLOWED, Take1(|c, v| set_number(c, v, |d| &mut d.timeout)), shown!(TIMEOUT), "How many seconds an idle backend is kept; 0 means for ever").syntax("seconds"),
    row("SpeedyMaxRuns", ALLOWED, Take1(|c, v| set_number(c, v, |d| &mut d.runs)), shown!(RUNS), "How many requests a backend serves; 0 means no limit").syntax("number"),
    row("SpeedyMaxBackends", ALLOWED, Take1(|c, v| set_number(c, v, |d| &mut d.backends)), shown!(BACKENDS), "How many backends a script or group may have; 0 means no limit").syntax("number").differs("No limit means eight for each processor, and at least 16: more would only wait for each other."),
    row("SpeedyGroup", ALLOWED, Take1(set_group), "none", "Scripts of one group share backends; with none, each script has its own").syntax("name"),
    row("SpeedyBackendProg", ALLOWED, Take1(|_, _| Ok(())), "", "The program that is the backend").without_effect("The backend is the server's own Perl runtime."),
    row("SpeedyTmpBase", ALLOWED, Take1(|_, _| Ok(())), "", "Where temporary files are").without_effect("There are none."),
    row("SpeedyBufsizGet", ALLOWED, Take1(|_, _| Ok(())), "131072", "The size of the buffer for output").without_effect("Output is passed on as it arrives."),
    row("SpeedyBufsizPost", ALLOWED, Take1(|_, _| Ok(())), "131072", "The size of the buffer for input").without_effect("Input is passed on as it arrives."),
    row("SpeedyPerlArgs", ALLOWED, Take1(set_switches), "", "Switches for perl").syntax("switches"),
];

/// In seconds, as in SpeedyCGI.
const TIMEOUT: u64 = 3600;
const RUNS: u64 = 500;
/// 0: no limit.
const BACKENDS: u64 = 0;
/// The number without a limit: for each processor, and the minimum.
const FOR_EACH: u64 = 8;
const AT_LEAST: u64 = 16;
/// How many characters of a group's name count.
const GROUP: usize = 12;
/// The name of the unnamed group.
const NO_GROUP: &str = "none";

settings! {
    /// The module's settings of a section.
    pub struct SpeedyDir {
        timeout: Setting<u64> = TIMEOUT,
        runs: Setting<u64> = RUNS,
        backends: Setting<u64> = BACKENDS,
        group: Setting<String>,
        switches: Setting<Vec<String>>,
    }
}

fn set_number(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut SpeedyDir) -> &mut Setting<u64>) -> Outcome {
    let number = number(cmd, value)?;
    cmd.set(field, number)
}

fn set_group(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.set(|d: &mut SpeedyDir| &mut d.group, name.to_string())
}

fn set_switches(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let switches = line.split_whitespace().map(str::to_string).collect();
    cmd.set(|d: &mut SpeedyDir| &mut d.switches, switches)
}

/// Whether a request is for a persistent script: by its handler, or as a CGI script by its first line.
fn is_speedy(request: &Request) -> bool {
    request.handler_name() == Some("speedycgi-script")
        || script::is_script(request)
            && request.mapped.stat.is_some_and(|meta| meta.is_file())
            // A script that runs as its owner starts anew for each request.
            && gateway::owners::of(request).is_none()
            && matches!(shebang::of(&request.mapped.filename).program.as_str(), "speedy" | "perperl" | "speedy_suid")
}

fn explain(request: &mut Request) -> Option<HandlerResult> {
    if request.is_hypothetical() {
        pool(request).interpreters.explain(request, "a script that stays");
    }
    None
}

/// The pool of a script, and its group.
struct SpeedyPool {
    interpreters: Interpreters,
    group: String,
}

/// The pool of a script: as in SpeedyCGI, its first line takes precedence over the configuration.
fn pool(request: &Request) -> SpeedyPool {
    let conf = request.dir::<SpeedyDir>();
    let Shebang { perl, speedy, .. } = shebang::of(&request.mapped.filename);
    let (mut timeout, mut runs, mut backends) = (conf.timeout(), conf.runs(), conf.backends());
    let mut group = conf.group.get().cloned().unwrap_or_else(|| NO_GROUP.into());
    for switch in &speedy {
        let Some((letter, value)) = switch.strip_prefix('-').and_then(|rest| rest.split_at_checked(1)) else {
            continue;
        };
        let number = |old: u64| value.parse().unwrap_or(old);
        match letter {
            "t" => timeout = number(timeout),
            "r" => runs = number(runs),
            "M" => backends = number(backends),
            "g" if value.is_empty() => group = "default".into(),
            "g" => group = value.to_string(),
            // Options about buffers, files and programs that do not exist here.
            _ => {}
        }
    }
    let group: String = group.chars().take(GROUP).collect();
    let name = match group.as_str() {
        NO_GROUP => format!("speedy {}", request.mapped.filename),
        group => format!("speedy group {group}"),
    };
    let mut switches = conf.switches.get().cloned().unwrap_or_default();
    switches.extend(perl);
    let interpreters = Interpreters {
        name,
        module: "speedycgi",
        switches,
        concurrency: Concurrency::One,
        settings: PoolSettings {
            max: if backends == 0 { (FOR_EACH * sys::affinity::processors() as u64).max(AT_LEAST) } else { backends },
            min: 0,
            requests: Some(runs).filter(|runs| *runs > 0),
            idle: Some(timeout).filter(|timeout| *timeout > 0).map(Duration::from_secs),
            ..PoolSettings::default()
        },
        directory: if group == NO_GROUP { perl::directory(request) } else { "/".into() },
    };
    SpeedyPool { interpreters, group }
}

/// What all requests have in common that the phases have treated alike.
struct Plan {
    /// How many requests an interpreter serves.
    runs: Option<u64>,
    group: String,
    pool: perl::Pool,
}

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let plan = request.plan(|request| {
            let SpeedyPool { interpreters, group } = pool(request);
            Plan { runs: interpreters.settings.requests, group, pool: perl::Pool::of(request, interpreters) }
        });
        let mut call = perl::call(request, "Speedy");
        if let Some(runs) = plan.runs {
            call.add("max_runs", &runs.to_string());
        }
        call.add("group", &plan.group);
        let caller = Caller { nph: perl::is_nph(request), ..perl::caller(request, "speedycgi") };
        perl::run(request, &plan.pool, call, caller).await
    })
}
