//! SCGI to servers that already run.
//!
//! Apache manual: mod_proxy_scgi.

use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use gateway::StderrMessages;
use gateway::backend::Head;
use gateway::backend::remote::RemoteProtocol;
use server::{HandlerResult, Module, Request};

use super::mod_proxy::{BackendProtocol, Destination, Scheme, Target, prepare, respond};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_scgi_module", source: "mod_proxy_scgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

/// `scgi://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    name: "scgi",
    module: "proxy_scgi_module",
    port: 4000,
    query: false,
    reuse: false,
    upgrade: None,
    path: set_path_info,
    handler: Some(|request, destination| Box::pin(handle(request, destination))),
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ProxySCGISendfile", Allowed::CONF, Take1(set_sendfile), "Off", "The name of the X-Sendfile pseudo response header or On or Off"),
    row("ProxySCGIInternalRedirect", Allowed::CONF, Take1(check_redirect), "On", "The name of the pseudo response header or On or Off").differs("It is always on, for `Location`; anything else is refused."),
];

settings! {
    /// The module's settings of a section.
    pub struct ProxyScgiDir {
        /// The field with the name of the file; empty for none.
        sendfile: Setting<String>,
    }
}

/// The messages about failures of an SCGI server.
pub(super) static PROTOCOL: RemoteProtocol = RemoteProtocol {
    name: "SCGI",
    unconnected: |name| format!("AH00866: failed to make connection to backend: {name}"),
    failed: |name| format!("AH00860: error reading response headers from {name}"),
    status: 500,
    status_line: false,
};

/// SCGI servers have a standard error of their own.
pub(super) const STDERR: StderrMessages =
    StderrMessages { text: |_, line| line.to_string(), level: |_| Some(Level::Error) };

fn set_sendfile(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let name = match value.to_ascii_lowercase().as_str() {
        "off" => "",
        "on" => "X-Sendfile",
        _ => value,
    };
    cmd.set(|d: &mut ProxyScgiDir| &mut d.sendfile, name.to_string())
}

fn check_redirect(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match value.to_ascii_lowercase().as_str() {
        "on" | "location" => Ok(()),
        _ => Err("ProxySCGIInternalRedirect: a Location without Status is always a redirect here".into()),
    }
}

fn set_path_info(request: &mut Request, target: &Target) {
    if request.env.contains("proxy-scgi-pathinfo") {
        request.mapped.path_info.clone_from(&target.path);
    }
}

async fn handle(request: &mut Request, destination: Arc<Destination>) -> HandlerResult {
    if let Err(answer) = prepare(request, "proxy_scgi").await {
        return answer;
    }
    let how = BackendProtocol { module: "proxy_scgi", head: Head::Scgi, protocol: &PROTOCOL, stderr: STDERR };
    match respond(request, &destination, &how).await {
        HandlerResult::Body(body) => match file_instead(request) {
            Some(path) => {
                drop(body);
                send(request, &path).await
            }
            None => HandlerResult::Body(body),
        },
        answer => answer,
    }
}

/// The file to send instead of the server's response.
fn file_instead(request: &mut Request) -> Option<String> {
    let name = request.dir::<ProxyScgiDir>().sendfile.get().filter(|name| !name.is_empty()).cloned()?;
    let path = request.response.err_headers_out.get(&name).map(str::to_string)?;
    request.response.err_headers_out.remove(&name);
    Some(path).filter(|_| request.response.status() == 200)
}

async fn send(request: &mut Request, path: &str) -> HandlerResult {
    let found = match path.starts_with('/') {
        true => request.lookup_named(path).await,
        false => None,
    };
    let status = match found {
        Some(mut found) if found.mapped.stat.is_some_and(|meta| meta.is_file()) => match found.run_subrequest().await {
            Ok(body) => return HandlerResult::Body(body),
            Err(status) => status,
        },
        _ => 404,
    };
    request.log("proxy_scgi", Level::Error, format!("the file {path}, which the backend names, cannot be sent"));
    HandlerResult::Status(status)
}
