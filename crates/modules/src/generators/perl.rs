//! Persistent Perl, for the modules with handlers for it: pools of interpreters, and the data they get about a request.

use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use conf::Level;
use gateway::backend::{Class, Concurrency, EncodedClass, Head, PoolSettings, Program, Runtime, RuntimeCall, respond};
use gateway::{Caller, Environment, StderrMessages, TimeoutMessage, owners};
use http::text::to_bytes;
use server::core::CoreServer;
use server::paths::{base_name, dir_name};
use server::{HandlerResult, Request};

use super::obstacle::Obstacle;
use crate::loggers::mod_log_config::accounts_for_scripts;

/// The system's perl.
const PERL: &str = "/usr/bin/perl";
/// The part of the server's own environment that interpreters inherit.
const INHERITED: [&str; 4] = ["PERL5LIB", "PERLLIB", "LANG", "LC_ALL"];

static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |request, time| format!("no output of {} for {} seconds", request.mapped.filename, time.as_secs()),
    level: Level::Error,
};

/// Perl's own messages contain their origin.
const STDERR: StderrMessages = StderrMessages { text: |_, line| line.to_string(), level: |_| Some(Level::Error) };

/// The inherited variables, read once: the server's own environment does not change while it runs.
fn inherited() -> Environment {
    static INHERITS: OnceLock<Environment> = OnceLock::new();
    let read = || {
        let mut environment = Environment::default();
        for name in INHERITED {
            let value = std::env::var_os(name);
            let _ = value.is_some_and(|value| environment.add(name.as_bytes(), value.as_bytes()));
        }
        environment
    };
    INHERITS.get_or_init(read).clone()
}

/// The way to start an interpreter of a pool.
pub(super) struct Interpreters {
    /// The handler's name and the pool's identity, for logs and pages.
    pub(super) name: String,
    /// The module's name in log lines.
    pub(super) module: &'static str,
    /// The switches on perl's command line.
    pub(super) switches: Vec<String>,
    pub(super) concurrency: Concurrency,
    pub(super) settings: PoolSettings,
    /// The working directory in which an interpreter starts.
    pub(super) directory: String,
}

impl Interpreters {
    /// Records the pool for an explanation.
    pub(super) fn explain(&self, request: &mut Request, what: &str) {
        let most = match self.concurrency {
            Concurrency::One => format!("at most {} interpreters", self.settings.max),
            Concurrency::Many(most) => format!("at most {most} requests at once"),
        };
        let text = format!("{what}, in the pool '{}' of {most}", self.name);
        request.note_step(self.module, None, |_| text);
    }

    fn class(self, request: &Request) -> Option<Class> {
        let mode = if self.concurrency == Concurrency::One { "persistent" } else { "fork" };
        let arguments: Vec<String> = self.switches.into_iter().chain([Runtime::PATH.into(), mode.into()]).collect();
        let path = request.env.get("PATH").map_or_else(gateway::env::path, str::to_string);
        let mut environment = inherited();
        environment.add(b"PATH", &to_bytes(&path)).then_some(())?;
        let program = Program::new(PERL, &arguments, environment, &self.directory, owners::of(request))?;
        Some(Class {
            name: self.name,
            module: self.module.into(),
            host: request.vhost.name.clone(),
            protocol: Head::Runtime(RuntimeCall::default()).protocol(),
            concurrency: self.concurrency,
            program: program.with_runtime(Runtime::Perl).limited_for(request),
            settings: self.settings,
        })
    }
}

/// The pool for all requests that the phases have treated alike.
pub(super) struct Pool {
    /// `None`: no file can have the name of the script.
    class: Option<EncodedClass>,
}

impl Pool {
    pub(super) fn of(request: &Request, interpreters: Interpreters) -> Pool {
        Pool { class: interpreters.class(request).map(Class::encoded) }
    }
}

/// Whose output a response is made from.
pub(super) fn caller(request: &Request, module: &'static str) -> Caller {
    Caller {
        accounts: accounts_for_scripts(request),
        ..Caller::new(module, &TIMEOUT_MESSAGE, request.host::<CoreServer>().timeout())
    }
}

/// Whether the request's file makes the whole response, its head included.
pub(super) fn is_nph(request: &Request) -> bool {
    base_name(&request.mapped.filename).starts_with("nph-")
}

/// Lets an interpreter of the pool run the called code, the request's file or something else, and turns its output into a
/// response.
pub(super) async fn run(request: &mut Request, pool: &Pool, call: RuntimeCall, caller: Caller) -> HandlerResult {
    let module = caller.module;
    if owners::of(request).is_some() {
        let text = "persistent Perl does not run as an owner (SuexecUserGroup); use cgi-script, or FastCGI";
        request.log(module, Level::Error, format!("{text}: {}", request.mapped.filename));
        return HandlerResult::Status(500);
    }
    let Some(class) = &pool.class else {
        request.log(module, Level::Error, format!("no file has the name {}", request.mapped.filename));
        return HandlerResult::Status(500);
    };
    respond(request, caller, class, &Head::Runtime(call), STDERR).await
}

/// Refuses a script that may not run in an interpreter. `None`: it may. `of_directory` is the status for a directory.
pub(super) fn refusal(request: &mut Request, module: &'static str, of_directory: u16) -> Option<HandlerResult> {
    // The order of mod_perl.
    let order = [
        (Obstacle::Missing, 404, "script not found or unable to stat"),
        (Obstacle::Directory, of_directory, "attempt to invoke directory as script"),
        (Obstacle::NoExecCgi, 403, "Options ExecCGI is off in this directory"),
        (Obstacle::PathInfo, 404, "AcceptPathInfo off disallows user's path"),
    ];
    let (_, status, text) = Obstacle::first(request, &order)?;
    request.log(module, Level::Error, format!("{text}: {}", request.mapped.filename));
    Some(HandlerResult::Status(*status))
}

/// The call of a handler, with what every handler gets to know about the request and its file.
pub(super) fn call(request: &Request, handler: &str) -> RuntimeCall {
    let data = &request.data;
    let mut call = RuntimeCall::default();
    call.add("handler", handler);
    call.add("file", &request.mapped.filename);
    call.add("uri", &data.uri);
    call.add("unparsed_uri", &data.unparsed_uri());
    call.add("method", &data.method);
    call.add("protocol", request.protocol());
    call.add("args", data.args.as_deref().unwrap_or_default());
    call.add("path_info", &request.mapped.path_info);
    call.add("root", &request.server.language.server_root);
    call
}

/// The directory of the request's file.
pub(super) fn directory(request: &Request) -> String {
    dir_name(&request.mapped.filename).to_string()
}
