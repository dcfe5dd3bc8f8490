//! Applications in Ruby with the interface of Rack, as in Phusion Passenger: Rails, Sinatra, Redmine.
//!
//! <https://www.phusionpassenger.com/docs/references/config_reference/apache/>; docs/ruby.md lists the differences. Each
//! application has processes to itself, which run `ruby/` and speak the protocol of docs/backend-protocol.md.

mod find;
mod pool;
mod settings;

use conf::directive::Args::{Flag, Raw, Take1};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, on_or_off, row, shown};
use gateway::Caller;
use gateway::backend::{Class, Head, RuntimeCall, respond};
use server::PhaseHook::Later;
use server::core::CoreServer;
use server::{Handler, HandlerResult, Hook, Module, Order, Phase, Request, Waiting};

use self::settings::{
    ENABLED, ENVIRONMENT, IDLE, MAX, MIN, PassengerDir, PassengerServer, QUEUE, REQUESTS, RUBY, STARTUP, STDERR,
    TIMEOUT_MESSAGE,
};
use super::arguments::{ignored, number};
use super::backends;
use super::obstacle::Obstacle;
use crate::loggers::mod_log_config::accounts_for_scripts;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "passenger_module", source: "mod_passenger.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(backends::resolve),
        Hook::Preflight(backends::preflight),
        Hook::HelperProcess(&backends::MANAGER),
        // As in Passenger, before mod_dir, which would look for an index.
        Hook::Phase(
            Phase::Fixups,
            Order::ReallyFirst,
            Later { claims: find::may_be_for_application, run: |request| Box::pin(find::find(request)) },
        ),
        Hook::Handler(Order::Middle, APPLICATIONS),
    ],
};

/// The handler of files that make an application of Rack. Passenger has no name for it.
const HANDLER: &str = "rack-script";

const APPLICATIONS: Handler = Handler::Later {
    claims: |request| request.handler_name() == Some(HANDLER),
    check: refusal,
    run: |request| handle(request),
};

const SERVER: Allowed = Allowed::SERVER;
const ANY: Allowed = Allowed::SERVER.or(Allowed::IN_SECTION);
const OPTIONS: Allowed = Allowed::OPTIONS;

/// What concerns processes of Passenger that do not exist here.
const NO_WATCHDOG: &str = "The server's process manager starts and watches the applications.";
const NO_TELEMETRY: &str = "Nothing is sent anywhere.";
const BUFFERS: &str =
    "A request's body reaches the application when it asks for it, and a response is sent as it arrives.";
const AS_SERVER: &str = "Applications run as the server's user.";

/// The row of a directive for what is not there.
const fn refused(name: &'static str, help: &'static str, why: &'static str) -> Directive {
    row(name, ANY, Raw(refuse), "", help).differs(why)
}

const NO_OWNERS: &str = "An error: applications run as the server's user.";
const ONLY_RUBY: &str =
    "An error: only applications of Rack run here; wsgi-script and asgi-script run those in Python.";

fn refuse(cmd: &mut Cmd<'_>, _: &str) -> Outcome {
    let name = &cmd.node.name;
    Err(match name.to_ascii_lowercase().as_str() {
        "passengeruser" | "passengergroup" => format!("{name} is not available: applications run as the server's user"),
        _ => format!("{name} is not available: Tsubame runs applications of Rack, in Ruby"),
    }
    .into())
}

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("PassengerEnabled", OPTIONS, Flag(|c, on| c.set(|d: &mut PassengerDir| &mut d.enabled, on)), on_or_off(ENABLED), "Enable or disable Phusion Passenger."),
    row("PassengerAppRoot", OPTIONS, Take1(set_root), "", "The application's root directory."),
    row("PassengerBaseURI", OPTIONS, Take1(add_base), "", "Declare the given base URI as belonging to a web application."),
    row("RailsBaseURI", OPTIONS, Take1(add_base), "", "Declare the given base URI as belonging to a web application."),
    row("RackBaseURI", OPTIONS, Take1(add_base), "", "Declare the given base URI as belonging to a web application."),
    row("PassengerAppEnv", OPTIONS, Take1(set_environment), ENVIRONMENT, "The environment under which applications are run."),
    row("RailsEnv", OPTIONS, Take1(set_environment), ENVIRONMENT, "The environment under which applications are run."),
    row("RackEnv", OPTIONS, Take1(set_environment), ENVIRONMENT, "The environment under which applications are run."),
    row("PassengerStartupFile", OPTIONS, Take1(|c, v| c.set(|d: &mut PassengerDir| &mut d.startup, v.to_string())), STARTUP, "Force specific startup file."),
    row("PassengerAppType", OPTIONS, Take1(set_type), "rack", "Force specific application type.").differs("Only rack: for others it is an error."),
    row("PassengerRestartDir", OPTIONS, Take1(|c, v| c.set(|d: &mut PassengerDir| &mut d.restart, v.to_string())), "tmp", "The directory in which to look for restart.txt."),
    row("PassengerRuby", ANY, Take1(|c, v| c.set(|d: &mut PassengerDir| &mut d.ruby, v.to_string())), "", "The Ruby interpreter to use."),
    row("PassengerDefaultRuby", SERVER, Take1(|c, v| c.server_set(|s: &mut PassengerServer| &mut s.ruby, v.to_string())), RUBY, "The default Ruby interpreter to use."),
    row("PassengerMinInstances", ANY, Take1(|c, v| set_number(c, v, |d| &mut d.min)), shown!(MIN), "The minimum number of application instances to keep when cleaning idle instances.").differs("This many are kept once the first request has come."),
    row("PassengerMaxInstancesPerApp", SERVER, Take1(|c, v| set_server_number(c, v, |s| &mut s.max_per_application)), "0", "The maximum number of simultaneously alive application instances a single application may occupy."),
    row("PassengerMaxPoolSize", SERVER, Take1(|c, v| set_server_number(c, v, |s| &mut s.max)), shown!(MAX), "The maximum number of simultaneously alive application instances."),
    row("PassengerPoolIdleTime", SERVER, Take1(|c, v| set_server_number(c, v, |s| &mut s.idle)), shown!(IDLE), "The maximum number of seconds that an application may be idle before it gets terminated.").syntax("seconds"),
    row("PassengerMaxRequests", ANY, Take1(|c, v| set_number(c, v, |d| &mut d.requests)), shown!(REQUESTS), "The maximum number of requests that an application instance may process."),
    row("PassengerMaxRequestQueueSize", ANY, Take1(|c, v| set_number(c, v, |d| &mut d.queue)), shown!(QUEUE), "The maximum number of queued requests.").differs("One more gets a 503."),
    row("PassengerSetHeader", ANY, Raw(refuse_header), "", "Set a header of the request.").differs("An error: RequestHeader set does the same."),
    refused("PassengerUser", "The user that Ruby applications must run as.", NO_OWNERS),
    refused("PassengerGroup", "The group that Ruby applications must run as.", NO_OWNERS),
    refused("PassengerNodejs", "The Node.js command to use.", ONLY_RUBY),
    refused("PassengerMeteorAppSettings", "Settings file for (non-bundled) Meteor apps.", ONLY_RUBY),
    ignored("PassengerPython", ANY, "python", "Nothing starts it.", "The Python interpreter to use."),
    ignored("PassengerUserSwitching", SERVER, "on", AS_SERVER, "Whether to enable user switching support."),
    ignored("PassengerDefaultUser", SERVER, "nobody", AS_SERVER, "The user that applications run as when user switching fails or is disabled."),
    ignored("PassengerDefaultGroup", SERVER, "nogroup", AS_SERVER, "The group that applications run as when user switching fails or is disabled."),
    ignored("PassengerRoot", SERVER, "", "The runtime is part of the server.", "The Phusion Passenger root folder."),
    ignored("PassengerInstanceRegistryDir", SERVER, "/tmp", NO_WATCHDOG, "The directory to register the instance to."),
    ignored("PassengerDataBufferDir", SERVER, "/tmp", BUFFERS, "The directory that data buffers are stored into."),
    ignored("PassengerSpawnMethod", ANY, "smart", "Each process loads the application.", "The spawn method to use."),
    ignored("PassengerLoadShellEnvvars", ANY, "on", "Variables come from PassengerAppEnv and SetEnv alone.", "Whether to load environment variables from the shell."),
    ignored("PassengerPreStart", SERVER, "", "Applications start with their first request.", "Prestart the given web applications during startup."),
    ignored("PassengerStartTimeout", ANY, "90", "Requests wait as long as Timeout lets them.", "A timeout for application startup."),
    ignored("PassengerMaxPreloaderIdleTime", ANY, "300", NO_WATCHDOG, "The maximum number of seconds that a preloader process may be idle."),
    ignored("PassengerFriendlyErrorPages", ANY, "auto", "What went wrong is in the error log.", "Whether to display friendly error pages when something goes wrong."),
    ignored("PassengerErrorOverride", ANY, "off", "ErrorDocument is for responses without a body.", "Whether to allow mod_passenger to override error pages."),
    ignored("PassengerBufferResponse", OPTIONS, "off", BUFFERS, "Whether to enable extra response buffering."),
    ignored("PassengerBufferUpload", OPTIONS, "on", BUFFERS, "Whether to buffer file uploads."),
    ignored("PassengerHighPerformance", OPTIONS, "off", "Nothing would be faster.", "Enable or disable Passenger's high performance mode."),
    ignored("PassengerAllowEncodedSlashes", OPTIONS, "off", "AllowEncodedSlashes decides.", "Whether to support encoded slashes."),
    ignored("PassengerStickySessions", OPTIONS, "off", "Any process answers any client.", "Whether to enable sticky sessions."),
    ignored("PassengerStickySessionsCookieName", OPTIONS, "_passenger_route", "Any process answers any client.", "The cookie name to use for sticky sessions."),
    ignored("PassengerStatThrottleRate", SERVER, "10", "Files are looked at for each request.", "Limits how often expensive disk checks are performed."),
    ignored("PassengerResolveSymlinksInDocumentRoot", OPTIONS, "off", "PassengerAppRoot says where the application is.", "Whether to resolve symlinks in the DocumentRoot path."),
    ignored("PassengerShowVersionInHeader", SERVER, "on", "The server's name is that of ServerTokens.", "Show the version number in the X-Powered-By header."),
    ignored("PassengerLogLevel", SERVER, "3", "LogLevel passenger:debug does the same.", "Phusion Passenger log verbosity."),
    ignored("PassengerLogFile", SERVER, "", "Applications write to the error log.", "Phusion Passenger log file."),
    ignored("PassengerAppLogFile", ANY, "", "Applications write to the error log.", "Application log file path."),
    ignored("PassengerTurbocaching", SERVER, "on", "Responses are stored by mod_cache, if it is told to.", "Whether to enable turbocaching."),
    ignored("PassengerDisableSecurityUpdateCheck", SERVER, "off", NO_TELEMETRY, "Whether to disable the periodic check for security updates."),
    ignored("PassengerDisableAnonymousTelemetry", SERVER, "off", NO_TELEMETRY, "Whether to disable anonymous telemetry."),
    ignored("PassengerMaxRequestQueueTime", ANY, "0", "Requests wait for a minute.", "The maximum number of seconds that a request may be queued."),
    ignored("PassengerForceMaxConcurrentRequestsPerProcess", ANY, "-1", "A process serves one request at a time.", "Force Phusion Passenger to believe that an application process can handle the given number of concurrent requests."),
];

fn set_root(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    cmd.set(|d: &mut PassengerDir| &mut d.root, path)
}

fn add_base(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    if !path.starts_with('/') {
        return Err(format!("{} must be a path that begins with a slash", cmd.node.name).into());
    }
    let path = path.trim_end_matches('/').to_string();
    cmd.push(|d: &mut PassengerDir| &mut d.bases, path)
}

fn set_environment(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.set(|d: &mut PassengerDir| &mut d.environment, name.to_string())
}

fn set_type(_: &mut Cmd<'_>, name: &str) -> Outcome {
    match name {
        "rack" | "ruby" => Ok(()),
        _ => {
            Err(format!("PassengerAppType {name} is not available: Tsubame runs applications of Rack, in Ruby").into())
        }
    }
}

fn refuse_header(_: &mut Cmd<'_>, _: &str) -> Outcome {
    Err("PassengerSetHeader is not available: write RequestHeader set NAME VALUE (mod_headers)".into())
}

fn set_number(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut PassengerDir) -> &mut Setting<u64>) -> Outcome {
    let number = number(cmd, value)?;
    cmd.set(field, number)
}

fn set_server_number(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut PassengerServer) -> &mut Setting<u64>) -> Outcome {
    let number = number(cmd, value)?;
    cmd.server_set(field, number)
}

/// Refuses a request that no application may answer. `None`: one may.
fn refusal(request: &mut Request) -> Option<HandlerResult> {
    let order = [
        (Obstacle::NoExecCgi, 403, "Options ExecCGI is off in this directory"),
        (Obstacle::Missing, 404, "the application's file is missing"),
        (Obstacle::Directory, 403, "a directory is no application"),
        (Obstacle::PathInfo, 404, "AcceptPathInfo off disallows user's path"),
    ];
    // Whether the file that was found for a path may run is for the directory of the path to say, and that has been asked.
    let order = if find::was_found(request) { &order[1..3] } else { &order[..] };
    if let Some((_, status, text)) = Obstacle::first(request, order) {
        request.log("passenger", Level::Error, format!("{text}: {}", request.mapped.filename));
        return Some(HandlerResult::Status(*status));
    }
    if gateway::owners::of(request).is_some() {
        let text = "applications of Rack do not run as an owner (SuexecUserGroup)";
        request.log("passenger", Level::Error, format!("{text}: {}", request.mapped.filename));
        return Some(HandlerResult::Status(500));
    }
    // Whether the application has to be restarted, other files say.
    request.asks_beyond_head();
    request.note_step("passenger", None, |request| format!("an application of Rack: {}", request.mapped.filename));
    None
}

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let Some(class) = pool::class(request).await.map(Class::encoded) else {
            request.log("passenger", Level::Error, format!("no file has the name {}", request.mapped.filename));
            return HandlerResult::Status(500);
        };
        // Applications count on it, whether there is one or not.
        request.env.set("PATH_INFO", request.mapped.path_info.clone());
        let caller = Caller {
            as_is: true,
            trusts_length: true,
            accounts: accounts_for_scripts(request),
            ..Caller::new("passenger", &TIMEOUT_MESSAGE, request.host::<CoreServer>().timeout())
        };
        let mut call = RuntimeCall::default();
        call.add("handler", "rack");
        call.add("file", &request.mapped.filename);
        respond(request, caller, &class, &Head::Runtime(call), STDERR).await
    })
}
