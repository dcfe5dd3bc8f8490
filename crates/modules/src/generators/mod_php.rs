//! PHP as in mod_php: its directives in server files and `.htaccess`, and its handlers. The server starts `php-cgi` for
//! it.
//!
//! <https://www.php.net/manual/en/configuration.changes.php>; docs/php.md lists the differences.

mod installation;
mod program;
mod settings;
mod values;

use conf::directive::Args::{Take1, Take2};
use conf::{Allowed, Cause, Cmd, Context, Directive, Error, Level, ModuleInfo, Notice, Outcome, Setting, row, shown};
use gateway::backend::{Class, Head, respond};
use gateway::body_buffer::{IN_MEMORY, buffer_body};
use gateway::protocol::fastcgi::Role;
use gateway::{Caller, StderrMessages, TimeoutMessage};
use server::core::CoreServer;
use server::{Draft, Handler, HandlerResult, Hook, Module, Order, Request, Waiting};

use self::installation::Installation;
use self::settings::{IDLE, PhpDir, PhpServer, REQUESTS};
use super::arguments::number;
use super::backends;
use super::obstacle::{FileText, Obstacle};
use crate::aaa::mod_auth_basic::typed;
use crate::derived::Derived;
use crate::loggers::mod_log_config::accounts_for_scripts;

/// The module of PHP 8.
pub static MODULE: Module = module("php_module", "mod_php.c");
/// The module of PHP 7: if it is loaded, `<IfModule mod_php7.c>` applies, as in Apache.
pub static PHP7: Module = module("php7_module", "mod_php7.c");
/// The module of PHP 5.
pub static PHP5: Module = module("php5_module", "mod_php5.c");

const fn module(id: &'static str, source: &'static str) -> Module {
    Module { info: ModuleInfo { id, source, linked: false, directives: DIRECTIVES }, hooks: HOOKS }
}

const HOOKS: &[Hook] = &[
    Hook::Repeatable,
    Hook::Check(backends::resolve),
    Hook::Check(resolve),
    Hook::HelperProcess(&backends::MANAGER),
    Hook::Handler(Order::Middle, SCRIPTS),
];

const SCRIPTS: Handler =
    Handler::Later { claims: |request| kind(request).is_some(), check: refusal, run: |request| handle(request) };

const ANY: Allowed = Allowed::SERVER.or(Allowed::SECTION).or(Allowed::OPTIONS);

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("php_value", ANY, Take2(|c, n, v| put(c, n, v, false)), "", "PHP Value Modifier").syntax("name value"),
    row("php_flag", ANY, Take2(|c, n, v| put(c, n, flag(v), false)), "", "PHP Flag Modifier").syntax("name on|off").differs("If the engine is off, scripts get a 403; mod_php sends their source."),
    row("php_admin_value", Allowed::CONF, Take2(|c, n, v| put(c, n, v, true)), "", "PHP Value Modifier (Admin)").syntax("name value"),
    row("php_admin_flag", Allowed::CONF, Take2(|c, n, v| put(c, n, flag(v), true)), "", "PHP Flag Modifier (Admin)").syntax("name on|off"),
    row("PHPINIDir", Allowed::GLOBAL, Take1(set_ini), "", "Directory containing the php.ini file").syntax("directory"),
    row("PhpProgram", Allowed::GLOBAL, Take1(set_program), "/usr/bin/php-cgi", "The program that runs PHP scripts").syntax("path"),
    row("PhpProcesses", Allowed::GLOBAL, Take1(|c, v| set_number(c, v, |s| &mut s.processes)), "eight times as many as there are processors", "How many processes one virtual host may have for one set of PHP settings").syntax("number"),
    row("PhpRequests", Allowed::GLOBAL, Take1(|c, v| set_number(c, v, |s| &mut s.requests)), shown!(REQUESTS), "How many requests a process serves; 0 means no limit").syntax("number"),
    row("PhpIdle", Allowed::GLOBAL, Take1(|c, v| set_number(c, v, |s| &mut s.idle)), shown!(IDLE), "How many seconds an idle process is kept; 0 means for ever").syntax("seconds"),
];

/// The variable from which PHP takes user and password.
const AUTHORIZATION: &str = "HTTP_AUTHORIZATION";

/// Finds the program and its `php.ini`.
fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let conf = draft.main.edit::<PhpServer>();
    conf.found = Derived(Installation::find(conf.program.get(), conf.ini.get()));
    if conf.found.0.is_none() {
        context.notices.push(Notice::new("php", Level::Warn, missing(conf)).because(Cause::NoPhp));
    }
    Ok(())
}

fn put(cmd: &mut Cmd<'_>, name: &str, text: &str, admin: bool) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<PhpDir>().values.set(name, text, admin, origin);
    Ok(())
}

/// The value of a word in `php_flag` and `php_admin_flag`.
fn flag(word: &str) -> &'static str {
    if word == "1" || word.eq_ignore_ascii_case("on") { "1" } else { "0" }
}

fn set_ini(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    // Each of the module's three names reads the line, where all are loaded.
    let here = &cmd.node.origin;
    let before = cmd.server.get::<PhpServer>().ini.origin();
    if before.is_some_and(|before| (before.file(), before.line) != (here.file(), here.line)) {
        return Err("Only first PHPINIDir directive honored per configuration tree - subsequent ones ignored".into());
    }
    let path = cmd.context.server_relative(path);
    cmd.server_set(|s: &mut PhpServer| &mut s.ini, path)
}

fn set_program(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    cmd.server_set(|s: &mut PhpServer| &mut s.program, path)
}

fn set_number(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut PhpServer) -> &mut Setting<u64>) -> Outcome {
    let number = number(cmd, value)?;
    cmd.server_set(field, number)
}

/// What to do with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PhpAction {
    Run,
    /// Show its source in colours.
    Show,
}

/// The meaning of the handler's name; `None`: it is not one of PHP's. Names may have a version
/// (`application/x-httpd-php5`, `php7-script`).
fn kind(request: &Request) -> Option<PhpAction> {
    let name = request.handler_name()?;
    let is_version = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if let Some(rest) = name.strip_prefix("application/x-httpd-php") {
        return match rest.strip_suffix("-source") {
            Some(version) if is_version(version) => Some(PhpAction::Show),
            None if is_version(rest) => Some(PhpAction::Run),
            _ => None,
        };
    }
    name.strip_prefix("php")?.strip_suffix("-script").filter(|version| is_version(version)).map(|_| PhpAction::Run)
}

/// What keeps a script from running, in the order of mod_php.
const ORDER: [(Obstacle, u16, FileText); 3] = [
    (Obstacle::PathInfo, 404, |file| format!("AcceptPathInfo off disallows user's path: {file}")),
    (Obstacle::Missing, 404, |file| format!("script '{file}' not found or unable to stat")),
    (Obstacle::Directory, 403, |file| format!("attempt to invoke directory '{file}' as script")),
];

/// Refuses a script that PHP may not run. `None`: it may.
fn refusal(request: &mut Request) -> Option<HandlerResult> {
    let file = &request.mapped.filename;
    let conf = request.server.main().settings.get::<PhpServer>();
    let (status, text) = if let Some((_, status, text)) = Obstacle::first(request, &ORDER) {
        (*status, text(file))
    } else if !request.dir::<PhpDir>().values.engine() {
        (403, format!("the PHP engine is off (php_flag engine), and the source of {file} is not sent"))
    } else if kind(request) == Some(PhpAction::Show) {
        (403, format!("the source of {file} is not shown: application/x-httpd-php-source is not supported"))
    } else if conf.found.0.is_none() {
        (500, format!("{file}: {}", missing(conf)))
    } else {
        explain(request);
        return None;
    };
    request.log("php", Level::Error, text);
    Some(HandlerResult::Status(status))
}

/// Records the pool for an explanation.
fn explain(request: &mut Request) {
    if request.is_hypothetical()
        && let Ok(class) = program::class(request)
    {
        let text = format!("PHP, in the pool '{}' of at most {}", class.name, class.settings.max);
        request.note_step("php", None, |_| text);
    }
}

/// The message if there is no PHP.
fn missing(conf: &PhpServer) -> String {
    let program = conf.program.get().map_or(installation::PROGRAMS[0], String::as_str);
    format!(
        "PHP is not installed: there is no {program}. Install php-cgi (Debian: apt install php-cgi), or name the program with \
         PhpProgram; then restart the server"
    )
}

static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |request, time| format!("no output of {} for {} seconds", request.mapped.filename, time.as_secs()),
    level: Level::Error,
};

/// PHP's own messages contain their origin; mod_php logs them at these levels.
const STDERR: StderrMessages = StderrMessages {
    text: |_, line| line.to_string(),
    level: |line| {
        const LEVELS: [(&str, Level); 6] = [
            ("PHP Fatal error:", Level::Error),
            ("PHP Recoverable fatal error:", Level::Error),
            ("PHP Parse error:", Level::Error),
            ("PHP Warning:", Level::Warn),
            ("PHP Deprecated:", Level::Info),
            ("PHP Strict Standards:", Level::Info),
        ];
        // How an uncaught exception continues after its first line.
        const MORE: [&str; 4] = ["Stack trace:", "#", "  thrown in ", "Next "];
        if MORE.iter().any(|start| line.starts_with(start)) || line.is_empty() {
            return None;
        }
        let level = LEVELS.iter().find(|(start, _)| line.starts_with(start));
        Some(level.map_or(Level::Notice, |(_, level)| *level))
    },
};

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        if let Err(answer) = measure_body(request).await {
            return answer;
        }
        let class = request.plan(|request| program::class(request).map(Class::encoded));
        let class = match &*class {
            Ok(class) => class,
            Err(text) => {
                request.log("php", Level::Error, text.as_str());
                return HandlerResult::Status(500);
            }
        };
        let caller = Caller {
            as_is: true,
            trusts_length: true,
            accounts: accounts_for_scripts(request),
            ..Caller::new("php", &TIMEOUT_MESSAGE, request.host::<CoreServer>().timeout())
        };
        let sent = request.header("Authorization").map(String::from);
        if let Some(sent) = &sent {
            request.env.set(AUTHORIZATION, sent.as_str());
        }
        let answer = respond(request, caller, class, &Head::FastCgi(Role::Responder), STDERR).await;
        // Later programs of this request, and the log, must not see it.
        request.env.remove(AUTHORIZATION);
        // The script decides about the user, whom the log names, as under mod_php.
        request.account.user = sent.as_deref().and_then(typed).map(|(user, _)| user);
        answer
    })
}

/// Makes sure that the length of the body is known. `Err`: the response is already decided.
async fn measure_body(request: &mut Request) -> Result<(), HandlerResult> {
    if request.body.length().is_some() {
        return Ok(());
    }
    let Err(why) = buffer_body(request, IN_MEMORY, u64::MAX).await else { return Ok(()) };
    let text = format!("cannot read the body of a request for {}: {why}", request.mapped.filename);
    request.log("php", Level::Error, text);
    Err(HandlerResult::Status(why.status()))
}
