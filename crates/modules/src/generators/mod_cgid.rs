//! CGI scripts, started by daemons.
//!
//! Apache manual: mod_cgid. Apache has one daemon, a bottleneck on a busy machine; here there are several.

use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::duration;

use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings};
use runtime::HelperProcess;
use server::{Handler, HelperHook, Hook, Module, Order, Server};
use sys::cred::Identity;

use super::daemons::{self, DaemonServer};
use super::script::{SCRIPT_LOG, SCRIPT_LOG_BUFFER, SCRIPT_LOG_LENGTH, ScriptModule, handle, is_script, refusal};

/// The module. If mod_cgi is loaded too, the one loaded first runs the scripts, as in Apache.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "cgid_module", source: "mod_cgid.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(daemons::resolve),
        Hook::Start(daemons::can_be_opened),
        Hook::HelperProcess(&HELPER),
        Hook::Handler(Order::Middle, SCRIPTS),
    ],
};

const SCRIPTS: Handler = Handler::Later {
    claims: is_script,
    check: |request| refusal(request, &SCRIPT_MODULE),
    run: |request| handle(request, &SCRIPT_MODULE),
};

pub(super) static SCRIPT_MODULE: ScriptModule = ScriptModule {
    module: "cgid",
    refusals: ["AH01262", "AH01264", "AH01265", "AH01266"],
    timeout: |request| request.dir::<CgidDir>().timeout.get().copied(),
    daemons: true,
};

/// The most daemons there may be.
const DAEMONS_MAX: usize = 256;

static HELPER: HelperHook = helper;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ScriptSock", Allowed::GLOBAL, Take1(set_socket), "cgisock", "the name of the socket to use for communication with the cgi daemon.").differs("Several daemons listen there, to processes of the server's user only."),
    row("ScriptSockDaemons", Allowed::GLOBAL, Take1(set_daemons), "auto", "How many daemons start scripts: auto (as many as there are processors, at least 2) or a number").syntax("auto|number"),
    SCRIPT_LOG,
    SCRIPT_LOG_LENGTH,
    SCRIPT_LOG_BUFFER,
    row("CGIDScriptTimeout", Allowed::CONF, Take1(set_timeout), "", "The amount of time to wait between successful reads from the CGI script, in seconds."),
];

settings! {
    /// The module's settings of a section.
    pub struct CgidDir {
        timeout: Setting<Duration>,
    }
}

fn set_socket(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut DaemonServer| &mut s.socket, value.to_string())
}

fn set_daemons(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let daemons = match value.parse() {
        _ if value.eq_ignore_ascii_case("auto") => None,
        Ok(number @ 1..=DAEMONS_MAX) => Some(number),
        _ => {
            return Err(
                format!("ScriptSockDaemons: '{value}' is neither auto nor a number from 1 to {DAEMONS_MAX}").into()
            );
        }
    };
    cmd.server_set(|s: &mut DaemonServer| &mut s.count, daemons)
}

fn set_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let timeout = duration(value, Duration::from_secs(1)).ok_or("CGIDScriptTimeout has wrong format")?;
    cmd.set(|d: &mut CgidDir| &mut d.timeout, timeout)
}

/// The daemons, if they start the scripts.
fn helper(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    daemons::start_all_scripts(server).then(|| daemons::open(server, children)).transpose()
}
