//! CGI scripts, started by the child that serves the request.
//!
//! Apache manual: mod_cgi.

use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::duration;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings};
use server::{Handler, Hook, Module, Order};

use super::script::{SCRIPT_LOG, SCRIPT_LOG_BUFFER, SCRIPT_LOG_LENGTH, ScriptModule, handle, is_script, refusal};

/// The module. If mod_cgid is loaded too, the one loaded first runs the scripts, as in Apache.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "cgi_module", source: "mod_cgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Middle, SCRIPTS), Hook::ChildEnd(gateway::end_all)],
};

const SCRIPTS: Handler = Handler::Later {
    claims: is_script,
    check: |request| refusal(request, &SCRIPT_MODULE),
    run: |request| handle(request, &SCRIPT_MODULE),
};

pub(super) static SCRIPT_MODULE: ScriptModule = ScriptModule {
    module: "cgi",
    refusals: ["AH02809", "AH02811", "AH02812", "AH02813"],
    timeout: |request| request.dir::<CgiDir>().timeout.get().copied(),
    daemons: false,
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    SCRIPT_LOG,
    SCRIPT_LOG_LENGTH,
    SCRIPT_LOG_BUFFER,
    row("CGIScriptTimeout", Allowed::CONF, Take1(set_timeout), "", "The amount of time to wait between successful reads from the CGI script, in seconds."),
];

settings! {
    /// The module's settings of a section.
    pub struct CgiDir {
        timeout: Setting<Duration>,
    }
}

fn set_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let timeout = duration(value, Duration::from_secs(1)).ok_or("CGIScriptTimeout has wrong format")?;
    cmd.set(|d: &mut CgiDir| &mut d.timeout, timeout)
}
