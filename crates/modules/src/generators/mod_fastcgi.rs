//! FastCGI applications as in mod_fastcgi: named in the configuration and always running, external, or started on
//! demand.
//!
//! mod_fastcgi 2.4.6, its documentation. The differences: the process manager looks after all applications, and a
//! waiting request is woken when one is free.

use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use conf::directive::Args::{Flag, Take1, Words};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, Setting, on_or_off, row, settings};
use gateway::backend::{Class, FilterData, Head, respond, respond_over};
use gateway::body_buffer::{BufferError, buffer_body};
use gateway::owners::Ownership;
use gateway::protocol::fastcgi::Role;
use gateway::{Caller, StderrMessages, TimeoutMessage};
use runtime::executor::Descriptor;
use runtime::{Load, offload};
use server::{Handler, HandlerResult, Hook, Module, Order, Phase, Request, Waiting};
use sys::time::Instant;

use super::fastcgi_auth::{self, ACCESS, AUTHORITATIVE, Check};
use super::fastcgi_classes::{FastCgiServer, application, class, named};
use super::fastcgi_options::{Address, Application, ApplicationDirective, options, run_as};
use super::obstacle::Obstacle;
use super::{backends, mod_suexec};
use crate::loggers::mod_log_config::accounts_for_scripts;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "fastcgi_module", source: "mod_fastcgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(backends::resolve),
        Hook::Check(mod_suexec::is_allowed),
        Hook::OpenLogs(mod_suexec::check),
        Hook::Preflight(backends::preflight),
        Hook::HelperProcess(&backends::MANAGER),
        Hook::Phase(Phase::CheckUser, Order::Middle, fastcgi_auth::hooks!(Authenticator, checker)),
        Hook::Phase(Phase::AuthChecker, Order::Middle, fastcgi_auth::hooks!(Authorizer, checker)),
        Hook::Phase(Phase::AccessChecker, Order::Middle, fastcgi_auth::hooks!(AccessChecker, checker)),
        Hook::Handler(Order::Middle, APPLICATIONS),
        Hook::Handler(Order::Middle, FILTERS),
    ],
};

const APPLICATIONS: Handler = Handler::Later { claims: is_application, check: refusal, run: |request| handle(request) };
const FILTERS: Handler = Handler::Later { claims: is_filtered, check: filter_refusal, run: |request| filter(request) };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AppClass", Allowed::GLOBAL, Words(|c, w| add(c, w, ApplicationDirective::Server)), "", "(pathname) (-options)"),
    row("ExternalAppClass", Allowed::GLOBAL, Words(|c, w| add(c, w, ApplicationDirective::External)), "", "(pathname) (-options)"),
    row("FastCgiServer", Allowed::GLOBAL, Words(|c, w| add(c, w, ApplicationDirective::Server)), "", "(pathname) (-options)"),
    row("FastCgiExternalServer", Allowed::GLOBAL, Words(|c, w| add(c, w, ApplicationDirective::External)), "", "(pathname) (-host host:port | -socket path) (-options)"),
    row("FastCgiConfig", Allowed::GLOBAL, Words(set_dynamic), "", "(-options)"),
    row("FastCgiFilter", Allowed::CONF, Take1(set_filter), "", "The FastCGI application that answers for files with the handler fastcgi-filter").syntax("file-path"),
    row("FastCgiIpcDir", Allowed::GLOBAL, Take1(|_, _| Ok(())), "", "(directory)").without_effect("The process manager keeps its sockets where no other process can reach them."),
    row("FastCgiWrapper", Allowed::GLOBAL, Take1(set_wrapper), "Off", "On, Off or the path of a program"),
    row("FastCgiSuexec", Allowed::GLOBAL, Take1(set_wrapper), "Off", "On, Off or the path of a program"),
    row("FastCgiAccessChecker", ACCESS, Take1(|c, v| fastcgi_auth::set(c, Check::AccessChecker, v)), "", "(pathname)"),
    row("FastCgiAccessCheckerAuthoritative", ACCESS, Flag(|c, on| fastcgi_auth::set_decides(c, Check::AccessChecker, on)), on_or_off(AUTHORITATIVE), "Set to 'off' to let other modules decide after it has refused"),
    row("FastCgiAuthenticator", ACCESS, Take1(|c, v| fastcgi_auth::set(c, Check::Authenticator, v)), "", "(pathname)"),
    row("FastCgiAuthenticatorAuthoritative", ACCESS, Flag(|c, on| fastcgi_auth::set_decides(c, Check::Authenticator, on)), on_or_off(AUTHORITATIVE), "Set to 'off' to let other modules decide after it has refused"),
    row("FastCgiAuthorizer", ACCESS, Take1(|c, v| fastcgi_auth::set(c, Check::Authorizer, v)), "", "(pathname)"),
    row("FastCgiAuthorizerAuthoritative", ACCESS, Flag(|c, on| fastcgi_auth::set_decides(c, Check::Authorizer, on)), on_or_off(AUTHORITATIVE), "Set to 'off' to let other modules decide after it has refused"),
];

/// How much of a body is kept in memory, in bytes, and the longest possible body: `LimitRequestBody` is the real limit.
const IN_MEMORY: u64 = 64 * 1024;
const MAX_BODY: u64 = u64::MAX;

settings! {
    /// The module's settings of a section.
    pub struct FastCgiDir {
        /// The application that filters.
        filter: Setting<String>,
    }
}

fn add(cmd: &mut Cmd<'_>, words: &[String], kind: ApplicationDirective) -> Outcome {
    let Some((path, words)) = words.split_first() else {
        return Err(format!("{} takes a path and options", cmd.node.name).into());
    };
    let path = cmd.context.server_relative(path);
    let mut application = Application::default();
    options(cmd, (2, words), kind, &mut application)?;
    if kind == ApplicationDirective::External && application.address.is_none() {
        let name = &cmd.node.name;
        return Err(Refusal::missing(format!("{name}: add -host or -socket, which says where {path} listens")));
    }
    if let Some(Address::Socket(socket)) = &mut application.address {
        *socket = cmd.context.server_relative(socket);
    }
    if kind == ApplicationDirective::Server && !cmd.context.system.is_file(&path) {
        return Err(Refusal::argument(1, format!("{}: {path} is not a file", cmd.node.name)));
    }
    if let Some(run_as) = run_as(cmd, &application)? {
        application.owner = Some(run_as.owner);
        cmd.server_push(|s: &mut Ownership| &mut s.others, run_as)?;
    }
    cmd.server_put(|s: &mut FastCgiServer| &mut s.applications, path, application)
}

fn set_dynamic(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let mut application = Application::default();
    options(cmd, (1, words), ApplicationDirective::Dynamic, &mut application)?;
    cmd.server_set(|s: &mut FastCgiServer| &mut s.dynamic, application)
}

fn set_filter(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    cmd.set(|dir: &mut FastCgiDir| &mut dir.filter, path)
}

/// The user of applications is configured for all scripts in one place.
fn set_wrapper(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match value {
        _ if value.eq_ignore_ascii_case("Off") || value.eq_ignore_ascii_case("On") => Ok(()),
        _ => Err(format!(
            "{} {value}: wrapper programs are not supported; SuexecUserGroup says which user runs scripts",
            cmd.node.name
        )
        .into()),
    }
}

static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |request, time| {
        format!(
            "FastCGI: comm with server \"{}\" aborted: idle timeout ({} sec)",
            request.mapped.filename,
            time.as_secs()
        )
    },
    level: Level::Error,
};

const STDERR: StderrMessages = StderrMessages {
    text: |request, line| format!("FastCGI: server \"{}\" stderr: {line}", request.mapped.filename),
    level: |_| Some(Level::Error),
};

fn is_application(request: &Request) -> bool {
    request.handler_name() == Some("fastcgi-script")
}

fn is_filtered(request: &Request) -> bool {
    request.handler_name() == Some("fastcgi-filter")
}

/// What keeps a file from running, in the order of mod_fastcgi. Path information does not: the application decides.
const ORDER: [(Obstacle, u16, &str); 3] = [
    (Obstacle::NeitherExecCgiNorAlias, 403, "Options ExecCGI is off in this directory"),
    (Obstacle::Missing, 404, "script not found or unable to stat"),
    (Obstacle::Directory, 403, "attempt to invoke directory as script"),
];

/// Refuses a file that may not run. `None`: it may. One named in the configuration need not even exist.
fn refusal(request: &mut Request) -> Option<HandlerResult> {
    if named(request, &request.mapped.filename).is_some() {
        return None;
    }
    let (_, status, text) = Obstacle::first(request, &ORDER)?;
    request.log("fastcgi", Level::Error, format!("FastCGI: {text}: {}", request.mapped.filename));
    Some(HandlerResult::Status(*status))
}

/// The conditions for passing a file to an application.
fn filter_refusal(request: &mut Request) -> Option<HandlerResult> {
    match request.mapped.stat {
        Some(meta) if meta.is_file() => None,
        Some(_) => Some(HandlerResult::Status(403)),
        None => Some(HandlerResult::Status(404)),
    }
}

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let file = request.mapped.filename.clone();
        serve(request, file, Head::FastCgi(Role::Responder)).await
    })
}

/// Lets an application answer with the request's file.
fn filter(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let file = request.mapped.filename.clone();
        let Some(path) = request.dir::<FastCgiDir>().filter.get().cloned() else {
            request.log(
                "fastcgi",
                Level::Error,
                format!("FastCGI: no FastCgiFilter line names the program that filters {file}"),
            );
            return HandlerResult::Status(500);
        };
        match FilterData::of(request).await {
            Ok(data) => serve(request, path, Head::Filter(data)).await,
            Err(error) => {
                request.log_os("fastcgi", Level::Error, &error, format!("FastCGI: {file} cannot be opened"));
                HandlerResult::Status(403)
            }
        }
    })
}

/// Lets the application with this path serve the request.
async fn serve(request: &mut Request, file: String, head: Head) -> HandlerResult {
    if let Err(status) = receive_body(request).await {
        return HandlerResult::Status(status);
    }
    let application = application(request, &file);
    let class = request.plan(|request| match application.address {
        Some(_) => None,
        None => class(request, &file, &application).map(Class::encoded),
    });
    for name in &application.passed {
        if let Some(value) = request.header(name).map(|value| value.into_owned()) {
            request.env.set(name.clone(), value);
        }
    }
    request.response.flush = application.flush;
    let caller = caller(request, &application);
    match &application.address {
        Some(address) => match connect(address, application.wait).await {
            Ok(socket) => respond_over(request, caller, socket, &head, STDERR).await,
            Err(error) => {
                let text = format!("FastCGI: failed to connect to server \"{file}\"");
                request.log_os("fastcgi", Level::Error, &error, text);
                HandlerResult::Status(503)
            }
        },
        None => match &*class {
            Some(class) => respond(request, caller, class, &head, STDERR).await,
            None => HandlerResult::Status(500),
        },
    }
}

/// Receives the whole body. `Err`: the status of the response.
async fn receive_body(request: &mut Request) -> Result<(), u16> {
    let Err(error) = buffer_body(request, IN_MEMORY, MAX_BODY).await else { return Ok(()) };
    let level = match error {
        BufferError::TooLong(_) | BufferError::File(_) => Level::Error,
        BufferError::Body(_) => Level::Info,
    };
    request.log("fastcgi", level, format!("FastCGI: the body of a request cannot be read: {error}"));
    Err(error.status())
}

fn caller(request: &Request, application: &Application) -> Caller {
    Caller {
        nph: application.nph,
        accounts: accounts_for_scripts(request),
        ..Caller::new("fastcgi", &TIMEOUT_MESSAGE, application.idle_timeout)
    }
}

/// How to ask an application that decides about access.
fn checker(request: &Request, path: &str) -> Option<(Class, Caller, StderrMessages)> {
    let application = application(request, path);
    Some((class(request, path, &application)?, caller(request, &application), STDERR))
}

async fn connect(address: &Address, wait: Duration) -> io::Result<OwnedFd> {
    let deadline = Instant::now() + wait;
    match address {
        Address::Socket(path) => Descriptor::connect_unix(Path::new(path), deadline).await?.duplicate(),
        Address::Host(name) => {
            let name = name.clone();
            let addresses = offload(Load::Resolve, move || name.to_socket_addrs()).await?;
            let mut failed = io::ErrorKind::NotFound.into();
            for address in addresses {
                match Descriptor::connect(address, deadline).await {
                    Ok(socket) => return socket.duplicate(),
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        }
    }
}
