//! The uwsgi protocol to servers that already run.
//!
//! Apache manual: mod_proxy_uwsgi.

use std::sync::Arc;

use conf::{Directive, Level, ModuleInfo};
use gateway::StderrMessages;
use gateway::backend::Head;
use gateway::backend::remote::RemoteProtocol;
use http::text::{from_bytes, to_bytes};
use server::{HandlerResult, Module, Request};

use super::mod_proxy::{BackendProtocol, Destination, Scheme, prepare, respond};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_uwsgi_module", source: "mod_proxy_uwsgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

const DIRECTIVES: &[Directive] = &[];

/// `uwsgi://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    name: "uwsgi",
    module: "proxy_uwsgi_module",
    port: 3031,
    query: false,
    reuse: false,
    upgrade: None,
    path: |_, _| {},
    handler: Some(|request, destination| Box::pin(handle(request, destination))),
};

static PROTOCOL: RemoteProtocol = RemoteProtocol {
    name: "uwsgi",
    unconnected: |name| format!("AH10101: failed to make connection to backend: {name}"),
    failed: |name| format!("the response of the backend {name} is unusable"),
    status: 500,
    status_line: true,
};

const STDERR: StderrMessages = StderrMessages { text: |_, line| line.to_string(), level: |_| Some(Level::Error) };

async fn handle(request: &mut Request, destination: Arc<Destination>) -> HandlerResult {
    let path = from_bytes(&http::uri::unescape_lenient(&to_bytes(&destination.target.path))).into_owned();
    // With a named handler the file was found, and with it the path information after the file.
    let mapped = request.mapped.stat.is_none() && request.mapped.path_info.is_empty();
    if mapped {
        let end = request.mapped.filename.len() - destination.target.path.len();
        request.mapped.filename.truncate(end);
        request.mapped.filename.push_str(&path);
    }
    if let Err(answer) = prepare(request, "proxy_uwsgi").await {
        return answer;
    }
    if mapped {
        set_path(request, &path);
    }
    // As in Apache, whatever `CGIPassAuth` says: no other user of the machine sees the variables of an application.
    if let Some(credentials) = request.header("Authorization").map(|text| text.into_owned()) {
        request.env.set("HTTP_AUTHORIZATION", credentials);
    }
    let how = BackendProtocol { module: "proxy_uwsgi", head: Head::Uwsgi, protocol: &PROTOCOL, stderr: STDERR };
    respond(request, &destination, &how).await
}

/// The path after the server's URL is the application's; the part before it in the request's path names the
/// application.
fn set_path(request: &mut Request, path: &str) {
    let info = format!("/{}", path.trim_start_matches('/'));
    let name = request.data.uri.strip_suffix(&info).unwrap_or(&request.data.uri).to_string();
    request.env.set("PATH_INFO", info);
    request.env.set("SCRIPT_NAME", name);
}
