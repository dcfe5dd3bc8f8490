//! Programs run by a page with server-side includes (`<!--#exec -->`): through mod_cgi or mod_cgid, like scripts.

use gateway::{Caller, NotStarted};
use server::core::CoreServer;
use server::{Body, Request};

use super::mod_admission::rules;
use super::script::{ScriptModule, caller};
use super::{mod_cgi, mod_cgid};

/// The module that runs a page's programs.
#[derive(Clone, Copy)]
pub(crate) struct Executor {
    /// The module's name in log lines.
    pub(crate) module: &'static str,
    script_module: &'static ScriptModule,
}

/// The module that runs scripts: as in Apache, the last loaded of the two.
pub(crate) fn executor(request: &Request) -> Option<Executor> {
    let script_module = request.server.infos().iter().rev().find_map(|info| match info.id {
        "cgi_module" => Some(&mod_cgi::SCRIPT_MODULE),
        "cgid_module" => Some(&mod_cgid::SCRIPT_MODULE),
        _ => None,
    })?;
    Some(Executor { module: script_module.module, script_module })
}

impl Executor {
    /// Runs a shell command with the environment of the request, in the directory of its file.
    pub(crate) async fn shell(self, request: &mut Request, text: &str) -> Result<Body, NotStarted> {
        let (caller, cgi) = (
            caller(request, self.script_module),
            gateway::Cgi { rules: rules(request), daemons: self.script_module.daemons },
        );
        gateway::shell(request, caller, cgi, text).await
    }
}

/// Sends the body of a response through a program of mod_ext_filter.
pub(crate) async fn filter(request: &mut Request, program: &[String], body: Body) -> Result<Body, NotStarted> {
    let timeout = request.host::<CoreServer>().timeout();
    let caller = Caller::new("ext_filter", &gateway::CGI_TIMEOUT_MESSAGE, timeout);
    gateway::env::add(request).await;
    gateway::filter(request, caller, rules(request), program, body).await
}
