//! SCGI with the directives of mod_scgi, which comes with the Python package `scgi`.

use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::{Flag, Take1, Take2, Take12};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, Listed, ModuleInfo, Outcome, Setting, on_or_off, row, settings, shown};
use gateway::backend::Head;
use server::PhaseHook::Now;
use server::{Flow, Handler, HandlerResult, Hook, Module, Order, Phase, Request};
use upstream::{Address, RemoteServer};

use super::mod_proxy::{AjpSettings, Backend, BackendProtocol, Destination, Status, Target, prepare, respond};
use super::mod_proxy_scgi::{PROTOCOL, STDERR};
use crate::mappers::mod_alias::matched;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "scgi_module", source: "mod_scgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Translate, Order::Last, Now(translate)),
        Hook::Handler(
            Order::Middle,
            Handler::Later { claims, check: explain, run: |request| Box::pin(handle(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SCGIMount", Allowed::SERVER, Take2(add_mount), "", "path prefix and address of SCGI server").syntax("path host:port"),
    row("SCGIServer", Allowed::SECTION, Take12(set_server), "", "Address and port of an SCGI server (e.g. localhost:4000)").syntax("host:port"),
    row("SCGIServerTimeout", Allowed::SECTION, Take1(set_timeout), shown!(TIMEOUT.as_secs()), "Timeout (in seconds) for communication with the SCGI server.").syntax("seconds"),
    row("SCGIHandler", Allowed::SECTION, Flag(|c, on| c.set(|d: &mut ScgiDir| &mut d.on, on)), on_or_off(ON), "On or Off to enable or disable the SCGI handler").syntax("On|Off"),
];

const HANDLER: &str = "scgi-handler";
const TIMEOUT: Duration = Duration::from_secs(60);
const ON: bool = false;

settings! {
    /// The module's settings of a server.
    pub struct ScgiServer {
        /// Searched from the last one on.
        mounts: Listed<Arc<Mount>>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct ScgiDir {
        server: Setting<Address>,
        timeout: Setting<Duration> = TIMEOUT,
        on: Setting<bool> = ON,
    }
}

/// `SCGIMount`
#[derive(Debug)]
struct Mount {
    path: String,
    server: Address,
}

fn address(host: &str, port: &str) -> Result<Address, String> {
    let target = Target::parse(&format!("scgi://{host}:{port}")).ok().filter(|target| target.path.is_empty());
    let (host, port) = target.and_then(|target| Some((target.host, target.port?))).ok_or("Invalid port number")?;
    Ok(Address::Tcp(host, port))
}

fn host_and_port(text: &str) -> Result<Address, String> {
    let (host, port) = text.rsplit_once(':').ok_or("Invalid host:port for SCGI server")?;
    address(host, port)
}

fn add_mount(cmd: &mut Cmd<'_>, path: &str, server: &str) -> Outcome {
    let mount = Arc::new(Mount { path: path.trim_end_matches('/').to_string(), server: host_and_port(server)? });
    cmd.server_push(|s: &mut ScgiServer| &mut s.mounts, mount)
}

fn set_server(cmd: &mut Cmd<'_>, host: &str, port: Option<&str>) -> Outcome {
    let server = match port {
        Some(port) => address(host, port)?,
        None => host_and_port(host)?,
    };
    cmd.set(|d: &mut ScgiDir| &mut d.server, server)
}

fn set_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let seconds = u64::try_from(atoi(value)).ok().filter(|seconds| *seconds > 0);
    let time = Duration::from_secs(seconds.ok_or("SCGIServerTimeout must be at least one second")?);
    cmd.set(|d: &mut ScgiDir| &mut d.timeout, time)
}

/// The mount above a path, with the length of its own part. The last line counts.
fn mount(request: &Request) -> Option<(&Mount, usize)> {
    let mounts = request.host::<ScgiServer>().mounts.iter().rev();
    let mut below = mounts.filter_map(|mount| match mount.path.as_str() {
        "" => Some((&**mount, 0)),
        path => matched(&request.data.uri, path).map(|length| (&**mount, length)),
    });
    below.next()
}

fn translate(request: &mut Request) -> Flow {
    let Some((mount, length)) = mount(request) else { return Flow::Declined };
    let (text, info) = (format!("SCGIMount {}: {}", mount.path, mount.server), request.data.uri[length..].to_string());
    request.note_step("scgi", None, |_| text);
    request.mapped.handler = Some(HANDLER.into());
    // There is no such file, and an existing one must not be used.
    request.mapped.filename = format!("scgi:{}", request.data.uri);
    request.mapped.path_info = info;
    Flow::Ok
}

fn claims(request: &Request) -> bool {
    request.dir::<ScgiDir>().on() || request.mapped.handler.as_deref() == Some(HANDLER)
}

/// The address of the SCGI server that answers the request.
fn server(request: &Request) -> Option<Address> {
    match request.dir::<ScgiDir>().server.get() {
        Some(server) => Some(server.clone()),
        None => mount(request).map(|(mount, _)| mount.server.clone()),
    }
}

fn explain(request: &mut Request) -> Option<HandlerResult> {
    let Some(server) = server(request) else {
        request.log("scgi", conf::Level::Error, "no SCGIServer or SCGIMount line names the server");
        return Some(HandlerResult::Status(500));
    };
    request.note_step("scgi", None, |_| format!("asks the SCGI server at {server}"));
    None
}

async fn handle(request: &mut Request) -> HandlerResult {
    let Some(address) = server(request) else { return HandlerResult::Status(500) };
    let timeout = request.dir::<ScgiDir>().timeout();
    let name = address.to_string();
    let Ok(target) = Target::parse(&format!("scgi://{name}")) else { return HandlerResult::Status(500) };
    let server = RemoteServer { address, name, connect: timeout, keep: None, tls: None, way: None, tally: None };
    let destination = Destination::from(Backend {
        target,
        kind: server.kind(),
        server,
        timeout,
        flush: false,
        ajp: AjpSettings::default(),
        upgrade: None,
        status: Status::default(),
        answering: None,
        limit: None,
        acquire: None,
        rest: None,
    });
    if let Err(answer) = prepare(request, "scgi").await {
        return answer;
    }
    let how = BackendProtocol { module: "scgi", head: Head::Scgi, protocol: &PROTOCOL, stderr: STDERR };
    respond(request, &destination, &how).await
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_mod_scgi_takes_them() {
        check(&[
            ("SCGIMount /a localhost:4000", ""),
            ("SCGIMount /a localhost", "Invalid host:port for SCGI server"),
            ("SCGIMount /a localhost:x", "Invalid port number"),
            ("<Location /x>\nSCGIServer localhost:4000\nSCGIHandler On\n</Location>", ""),
            ("<Location /x>\nSCGIServer localhost 4000\n</Location>", ""),
        ]);
    }
}
