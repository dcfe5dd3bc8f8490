//! Applications in Python with the interface of WSGI, as in mod_wsgi.
//!
//! <https://modwsgi.readthedocs.io/>; docs/python.md lists the differences. There is no interpreter in the server's own
//! processes: each application has processes to itself, whether a `WSGIDaemonProcess` says how many or not. They run
//! `python/`, which speaks the protocol of docs/backend-protocol.md.

mod access;
mod alias;
mod daemon;
mod import;
mod pool;
mod settings;

use std::time::Duration;

use conf::directive::Args::{Flag, Raw, Take1, Words};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, on_or_off, row};
use gateway::Caller;
use gateway::backend::{Class, EncodedClass, Head, respond};
use server::PhaseHook::{Later, Now};
use server::core::CoreServer;
use server::{Handler, HandlerResult, Hook, Module, Order, Phase, Request, Waiting};

pub(super) use self::daemon::owned;
pub(super) use self::import::standing;
use self::pool::Application;
use self::settings::{
    CALLABLE, CHUNKED, ERROR_OVERRIDE, Interface, MapHead, NO_BYTECODE, PASS_AUTHORIZATION, RELOADING, RESTRICTED,
    SENDFILE, STDERR, TIMEOUT_MESSAGE, WsgiDir, WsgiServer,
};
use super::arguments::{check_accessible, ignored};
use super::backends;
use super::obstacle::Obstacle;
use crate::loggers::mod_log_config::accounts_for_scripts;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "wsgi_module", source: "mod_wsgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(backends::resolve),
        Hook::Check(daemon::check),
        Hook::Preflight(backends::preflight),
        Hook::HelperProcess(&backends::MANAGER),
        // As in mod_wsgi, after mod_alias: an application at the root leaves `Alias /static` alone.
        Hook::Phase(Phase::Translate, Order::AfterMiddle(0), Now(alias::translate)),
        Hook::Phase(
            Phase::AccessChecker,
            Order::Middle,
            Later { claims: access::is_asked, run: |request| Box::pin(access::check_access(request)) },
        ),
        Hook::Authn(&access::PASSWORDS),
        Hook::Authz(&access::GROUPS),
        Hook::Handler(Order::Middle, SCRIPTS),
    ],
};

const SCRIPTS: Handler = Handler::Later {
    claims: |request| Interface::of(request).is_some(),
    check: refusal,
    run: |request| handle(request),
};

const SERVER: Allowed = Allowed::SERVER;
const GLOBAL: Allowed = Allowed::SERVER;
const ANY: Allowed = Allowed::SERVER.or(Allowed::IN_SECTION);
const FILEINFO: Allowed = Allowed::FILEINFO;

/// Settings that concern interpreters inside the server's processes, which do not exist here.
const NO_INTERPRETER: &str = "Python runs in processes of its own.";
const OWN_SOCKETS: &str = "The process manager keeps its sockets where no other process can reach them.";

/// The row of a script that mod_wsgi runs in another place than the handler.
const fn inside(name: &'static str, allowed: Allowed, help: &'static str) -> Directive {
    row(name, allowed, Raw(refuse), "", help)
        .differs("An error: only applications and checks of access run in Python here.")
}

fn refuse(cmd: &mut Cmd<'_>, _: &str) -> Outcome {
    Err(format!(
        "{} is not available: Tsubame runs applications in Python, and scripts that check access",
        cmd.node.name
    )
    .into())
}

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("WSGIScriptAlias", SERVER, Raw(|c, line| alias::add(c, line, false)), "", "Map location to target WSGI script file."),
    row("WSGIScriptAliasMatch", SERVER, Raw(|c, line| alias::add(c, line, true)), "", "Map location pattern to target WSGI script file."),
    row("WSGIDaemonProcess", SERVER, Words(daemon::add), "", "Specify details of daemon processes to start.").differs("Processes start when the first request comes for an application, and each application has its own."),
    ignored("WSGISocketPrefix", SERVER, "logs/wsgi", OWN_SOCKETS, "Path prefix for the daemon process sockets."),
    ignored("WSGISocketRotation", SERVER, "On", OWN_SOCKETS, "Enable/Disable rotation of daemon process sockets."),
    ignored("WSGIAcceptMutex", SERVER, "Default", OWN_SOCKETS, "Set accept mutex type for daemon processes."),
    ignored("WSGILazyInitialization", SERVER, "On", NO_INTERPRETER, "Enable/Disable lazy Python initialization."),
    ignored("WSGIVerboseDebugging", GLOBAL, "Off", NO_INTERPRETER, "Enable/Disable verbose debugging messages."),
    row("WSGIDontWriteBytecode", SERVER, Flag(|c, on| c.server_set(|s: &mut WsgiServer| &mut s.no_bytecode, on)), on_or_off(NO_BYTECODE), "Enable/Disable writing of byte code."),
    row("WSGIPythonWarnings", SERVER, Take1(add_warning), "", "Control Python warning messages."),
    row("WSGIPythonOptimize", SERVER, Take1(set_optimize), "0", "Set level of Python compiler optimisations."),
    row("WSGIPythonHome", SERVER, Take1(set_home), "", "Python prefix/exec_prefix absolute path names.").differs("The prefix must have bin/python3, as a virtual environment has."),
    row("WSGIPythonPath", SERVER, Take1(|c, v| c.server_set(|s: &mut WsgiServer| &mut s.python_path, v.to_string())), "", "Python module search path."),
    row("WSGIPythonEggs", SERVER, Take1(|c, v| c.server_set(|s: &mut WsgiServer| &mut s.eggs, v.to_string())), "", "Python eggs cache directory."),
    row("WSGIPythonHashSeed", SERVER, Take1(set_seed), "random", "Python hash seed."),
    ignored("WSGIDestroyInterpreter", SERVER, "On", NO_INTERPRETER, "Enable/Disable destruction of Python interpreter."),
    row("WSGIRestrictEmbedded", SERVER, Flag(|c, on| c.server_set(|s: &mut WsgiServer| &mut s.restricted, on)), on_or_off(RESTRICTED), "Enable/Disable use of embedded mode.").differs("On: scripts without a process group are refused. They would have processes to themselves, too."),
    ignored("WSGIRestrictStdin", SERVER, "On", "Standard input is empty.", "Enable/Disable restrictions on use of STDIN."),
    ignored("WSGIRestrictStdout", SERVER, "On", "Standard output goes to the error log.", "Enable/Disable restrictions on use of STDOUT."),
    ignored("WSGIRestrictSignal", SERVER, "On", NO_INTERPRETER, "Enable/Disable restrictions on use of signal()."),
    ignored("WSGICaseSensitivity", SERVER, "On", "Files of Linux differ in case.", "Define whether file system is case sensitive."),
    row("WSGIRestrictProcess", ANY, Words(set_allowed), "", "Limit selectable WSGI process groups."),
    row("WSGIProcessGroup", ANY, Take1(|c, v| c.set(|d: &mut WsgiDir| &mut d.process_group, v.to_string())), "%{GLOBAL}", "Name of the WSGI process group."),
    row("WSGIApplicationGroup", ANY, Take1(|c, v| c.set(|d: &mut WsgiDir| &mut d.application_group, v.to_string())), "%{RESOURCE}", "Application interpreter group."),
    row("WSGICallableObject", FILEINFO, Take1(|c, v| c.set(|d: &mut WsgiDir| &mut d.callable, v.to_string())), CALLABLE, "Name of entry point in WSGI script file."),
    row("WSGIImportScript", SERVER, Raw(import::add), "", "Location of WSGI import script.").differs("The processes of the script start with the server if it is in a group of processes; all processes of its group load it."),
    inside("WSGIDispatchScript", ANY, "Location of WSGI dispatch script."),
    ignored("WSGIPassApacheRequest", ANY, "Off", NO_INTERPRETER, "Enable/Disable Apache request object."),
    row("WSGIPassAuthorization", FILEINFO, Flag(|c, on| c.set(|d: &mut WsgiDir| &mut d.pass_authorization, on)), on_or_off(PASS_AUTHORIZATION), "Enable/Disable WSGI authorization."),
    row("WSGIScriptReloading", FILEINFO, Flag(|c, on| c.set(|d: &mut WsgiDir| &mut d.reloading, on)), on_or_off(RELOADING), "Enable/Disable script reloading mechanism.").differs("A changed script always gets new processes."),
    row("WSGIErrorOverride", FILEINFO, Flag(|c, on| c.set(|d: &mut WsgiDir| &mut d.error_override, on)), on_or_off(ERROR_OVERRIDE), "Enable/Disable overriding of error pages."),
    row("WSGIChunkedRequest", FILEINFO, Flag(|c, on| c.set(|d: &mut WsgiDir| &mut d.chunked, on)), on_or_off(CHUNKED), "Enable/Disable support for chunked requests."),
    row("WSGIMapHEADToGET", FILEINFO, Take1(set_map_head), "Auto", "Enable/Disable mapping of HEAD to GET.").differs("Auto is Off: no filter of the server needs the body of a response to HEAD."),
    ignored("WSGIIgnoreActivity", FILEINFO, "Off", "Every request counts as activity.", "Enable/Disable reset of inactvity timeout."),
    inside("WSGITrustedProxyHeaders", FILEINFO, "Specify a list of trusted proxy headers."),
    inside("WSGITrustedProxies", FILEINFO, "Specify a list of trusted proxies."),
    row("WSGIEnableSendfile", FILEINFO, Flag(|c, on| c.set(|d: &mut WsgiDir| &mut d.sendfile, on)), on_or_off(SENDFILE), "Enable/Disable support for kernel sendfile.").differs("The kernel copies files that applications return with wsgi.file_wrapper in any case."),
    row("WSGIAccessScript", Allowed::IN_SECTION, Raw(|c, line| access::set(c, line, |s| &mut s.access)), "", "Location of WSGI host access script file."),
    row("WSGIAuthUserScript", Allowed::IN_SECTION, Raw(|c, line| access::set(c, line, |s| &mut s.users)), "", "Location of WSGI user auth script file.").differs("For AuthType Basic; with Digest it is an error."),
    row("WSGIAuthGroupScript", Allowed::IN_SECTION, Raw(|c, line| access::set(c, line, |s| &mut s.groups)), "", "Location of WSGI group auth script file."),
    ignored("WSGIGroupAuthoritative", Allowed::IN_SECTION, "On", "Require decides what a refusal means, as in mod_wsgi for Apache 2.4.", "Enable/Disable as being authoritative on groups."),
    inside("WSGIHandlerScript", ANY, "Location of WSGI handler script file."),
    ignored("WSGIServerMetrics", SERVER, "Off", NO_INTERPRETER, "Enabled/Disable access to server metrics."),
    ignored("WSGINewRelicConfigFile", SERVER, "", NO_INTERPRETER, "New Relic monitoring agent configuration file."),
    ignored("WSGINewRelicEnvironment", SERVER, "", NO_INTERPRETER, "New Relic monitoring agent environment."),
];

fn add_warning(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_push(|s: &mut WsgiServer| &mut s.warnings, value.to_string())
}

fn set_optimize(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    // As in mod_wsgi, whatever is no number is 0.
    let level = conf::values::atoi(value).clamp(0, 2);
    cmd.server_set(|s: &mut WsgiServer| &mut s.optimize, u8::try_from(level).unwrap_or(0))
}

fn set_home(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    check_accessible(cmd, "Python", &format!("{value}/bin/python3"))?;
    cmd.server_set(|s: &mut WsgiServer| &mut s.python_home, value.to_string())
}

fn set_seed(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if value != "random" && value.parse::<u32>().is_err() {
        return Err("WSGIPythonHashSeed must be \"random\" or an integer in range [0; 4294967295]".into());
    }
    cmd.server_set(|s: &mut WsgiServer| &mut s.seed, value.to_string())
}

fn set_map_head(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let map = match value.to_ascii_lowercase().as_str() {
        "on" => MapHead::On,
        "off" | "auto" => MapHead::Off,
        _ => return Err("WSGIMapHEADToGET must be one of: Off | On | Auto".into()),
    };
    cmd.set(|d: &mut WsgiDir| &mut d.map_head, map)
}

fn set_allowed(cmd: &mut Cmd<'_>, groups: &[String]) -> Outcome {
    if groups.is_empty() {
        return Err(Refusal::from(
            "WSGIRestrictProcess takes one argument or more, Limit selectable WSGI process groups.",
        ));
    }
    cmd.set(|d: &mut WsgiDir| &mut d.allowed, groups.to_vec())
}

/// Refuses a script that may not run. `None`: it may.
fn refusal(request: &mut Request) -> Option<HandlerResult> {
    // The order of mod_wsgi.
    let order = [
        (Obstacle::NoExecCgi, 403, "Options ExecCGI is off in this directory"),
        (Obstacle::Missing, 404, "Target WSGI script not found or unable to stat"),
        (Obstacle::Directory, 403, "Attempt to invoke directory as WSGI application"),
        (Obstacle::PathInfo, 404, "AcceptPathInfo off disallows user's path"),
    ];
    let order = &order[usize::from(alias::is_aliased(request))..];
    let refused = Obstacle::first(request, order).map(|(_, status, text)| (*status, (*text).to_string()));
    if let Some((status, text)) = refused.or_else(|| wrong_group(request)) {
        request.log("wsgi", Level::Error, format!("{text}: {}", request.mapped.filename));
        return Some(HandlerResult::Status(status));
    }
    let may_be_chunked = Interface::of(request) == Some(Interface::Asgi) || request.dir::<WsgiDir>().chunked();
    if request.body.length().is_none() && !request.body.is_none() && !may_be_chunked {
        let text = format!("Unexpected chunked request body (WSGIChunkedRequest is off): {}", request.mapped.filename);
        request.log("wsgi", Level::Error, text);
        return Some(HandlerResult::Status(411));
    }
    if request.is_hypothetical() {
        let Application { process_group, application_group, interface, .. } = Application::of(request);
        let kind = if interface == Interface::Asgi { "an ASGI" } else { "a WSGI" };
        let processes = if process_group.is_empty() {
            "processes of its own".into()
        } else {
            format!("the process group {process_group}")
        };
        request.note_step("wsgi", None, |_| {
            format!("{kind} application in {processes}, application group '{application_group}'")
        });
    }
    None
}

/// Why a script may not run in its process group.
fn wrong_group(request: &Request) -> Option<(u16, String)> {
    let application = Application::of(request);
    let group = &application.process_group;
    let allowed = request.dir::<WsgiDir>().allowed.get();
    let name = if group.is_empty() { "%{GLOBAL}" } else { group };
    if allowed.is_some_and(|allowed| allowed.iter().all(|one| one != name)) {
        return Some((
            500,
            format!(
                "Daemon process called '{group}' cannot be accessed by this WSGI application as not a member of allowed groups"
            ),
        ));
    }
    if group.is_empty() && request.host::<WsgiServer>().restricted() {
        return Some((500, "Embedded mode of mod_wsgi disabled by runtime configuration".into()));
    }
    match application.daemon(request) {
        None => Some((500, format!("No WSGI daemon process called '{group}' has been configured"))),
        Some(_) => None,
    }
}

/// What all requests have in common that the phases have treated alike.
struct Plan {
    /// `None`: no file can have the name of the script.
    class: Option<EncodedClass>,
    head: Head,
    /// The one of a client that asks for a WebSocket.
    websocket: Head,
    /// How long the application may be silent.
    timeout: Duration,
}

impl Plan {
    fn of(request: &Request) -> Plan {
        let application = Application::of(request);
        // Requests for other groups have been refused.
        let daemon = application.daemon(request).flatten();
        let socket_timeout = daemon.and_then(|daemon| daemon.socket);
        let head = |handler| Head::Runtime(application.call(request, daemon, handler, &request.mapped.filename));
        Plan {
            class: application.class(request, daemon).map(Class::encoded),
            head: head(if application.interface == Interface::Asgi { "asgi" } else { "wsgi" }),
            websocket: head("websocket"),
            timeout: socket_timeout.unwrap_or_else(|| request.host::<CoreServer>().timeout()),
        }
    }
}

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let plan = request.plan(Plan::of);
        let Some(class) = &plan.class else {
            request.log("wsgi", Level::Error, format!("no file has the name {}", request.mapped.filename));
            return HandlerResult::Status(500);
        };
        if request.dir::<WsgiDir>().pass_authorization()
            && let Some(value) = request.header("Authorization").map(String::from)
        {
            request.env.set("HTTP_AUTHORIZATION", value);
        }
        // Applications count on it, whether there is one or not.
        request.env.set("PATH_INFO", request.mapped.path_info.clone());
        let tunnel =
            Interface::of(request).filter(|interface| *interface == Interface::Asgi).and_then(|_| websocket(request));
        let caller = Caller {
            tunnel,
            as_is: true,
            trusts_length: true,
            accounts: accounts_for_scripts(request),
            ..Caller::new("wsgi", &TIMEOUT_MESSAGE, plan.timeout)
        };
        let head = if tunnel.is_some() { &plan.websocket } else { &plan.head };
        let result = respond(request, caller, class, head, STDERR).await;
        match (result, request.response.status()) {
            (HandlerResult::Body(_), status @ 400..600) if request.dir::<WsgiDir>().error_override() => {
                HandlerResult::Status(status)
            }
            (result, _) => result,
        }
    })
}

/// The protocol of WebSockets, if the client asks for it.
fn websocket(request: &Request) -> Option<&'static str> {
    let asked = request.tunnel_for().filter(|_| request.data.method == "GET")?;
    let name = "websocket";
    asked.split(',').any(|asked| asked.trim().eq_ignore_ascii_case(name)).then_some(name)
}
