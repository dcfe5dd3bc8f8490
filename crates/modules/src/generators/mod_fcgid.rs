//! FastCGI applications that the server starts itself, as many as needed.
//!
//! Apache manual: mod_fcgid (<https://httpd.apache.org/mod_fcgid/mod/mod_fcgid.html>). The differences: a waiting
//! request is woken when a process is free, whereas mod_fcgid looks once a second; nothing is scanned, so the intervals
//! have no effect; and the processes of a replaced file end.

use std::time::Duration;

use conf::directive::Args::{Flag, Take1, Take12, Take123, Words};
use conf::{
    Allowed, Cmd, Directive, InArgument as _, Keyed, Level, Listed, ModuleInfo, Outcome, Refusal, Setting, on_or_off,
    row, settings, shown,
};
use gateway::backend::{Class, Concurrency, Head, PoolSettings, Program, Score, respond};
use gateway::body_buffer::{BufferError, buffer_body};
use gateway::protocol::fastcgi::Role;
use gateway::{Caller, StderrMessages, TimeoutMessage, owners};
use server::paths::{base_name, dir_name};
use server::{Handler, HandlerResult, Hook, Module, Order, Phase, Request, Waiting};

use super::arguments::check_accessible;
use super::backends;
use super::fastcgi_auth::{self, ACCESS, AUTHORITATIVE, Check};
use super::obstacle::{FileText, Obstacle};
use crate::loggers::mod_log_config::accounts_for_scripts;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "fcgid_module", source: "mod_fcgid.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("fcgid-pipe"),
        Hook::Mutex("fcgid-proctbl"),
        Hook::Check(backends::resolve),
        Hook::Preflight(backends::preflight),
        Hook::HelperProcess(&backends::MANAGER),
        Hook::Phase(Phase::CheckUser, Order::Middle, fastcgi_auth::hooks!(Authenticator, checker)),
        Hook::Phase(Phase::AuthChecker, Order::Middle, fastcgi_auth::hooks!(Authorizer, checker)),
        Hook::Phase(Phase::AccessChecker, Order::Middle, fastcgi_auth::hooks!(AccessChecker, checker)),
        Hook::Handler(Order::Middle, APPLICATIONS),
    ],
};

const APPLICATIONS: Handler = Handler::Later { claims: is_application, check: refusal, run: |request| handle(request) };

/// The reason for unneeded settings: nothing is checked from time to time.
const NO_SCANS: &str = "Nothing is scanned: the end of a process is noticed at once.";
/// The reason for unneeded settings: sockets have no permanent names.
const NO_FILES: &str = "The process manager keeps its sockets where no other process can reach them.";

/// The reason for an unneeded setting: `SCRIPT_NAME` below `DOCUMENT_ROOT`, as mod_fcgid derives it, is `SCRIPT_NAME`.
const NO_FIX: &str = "PHP gets the same variables with either value, in mod_fcgid too.";

const SERVER: Allowed = Allowed::SERVER;
const GLOBAL: Allowed = Allowed::GLOBAL;

/// A row of a directive with seconds; its field is set by the number.
macro_rules! seconds_row {
    ($name:literal, $allowed:expr, $field:ident, $default:expr, $help:literal) => {
        row(
            $name,
            $allowed,
            Take1(|c, v| {
                let time = time(c, v)?;
                c.server_set(|s: &mut FcgidServer| &mut s.$field, time)
            }),
            shown!($default.as_secs()),
            $help,
        )
    };
}

/// A row of a directive with a number.
macro_rules! number_row {
    ($name:literal, $allowed:expr, $field:ident, $default:expr, $help:literal) => {
        row(
            $name,
            $allowed,
            Take1(|c, v| {
                let number = number(c, v)?;
                c.server_set(|s: &mut FcgidServer| &mut s.$field, number)
            }),
            shown!($default),
            $help,
        )
    };
}

/// A row of a directive that is accepted and has no effect here.
macro_rules! ignored_row {
    ($name:literal, $allowed:expr, $default:literal, $why:expr, $help:literal) => {
        row($name, $allowed, Take1(|_, _| Ok(())), $default, $help).without_effect($why)
    };
}

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("FcgidAccessChecker", ACCESS, Take1(|c, v| fastcgi_auth::set(c, Check::AccessChecker, v)), "", "a absolute access checker file path"),
    row("FcgidAccessCheckerAuthoritative", ACCESS, Flag(|c, on| fastcgi_auth::set_decides(c, Check::AccessChecker, on)), on_or_off(AUTHORITATIVE), "Set to 'off' to allow access control to be passed along to lower modules upon failure"),
    row("FcgidAuthenticator", ACCESS, Take1(|c, v| fastcgi_auth::set(c, Check::Authenticator, v)), "", "a absolute authenticator file path"),
    row("FcgidAuthenticatorAuthoritative", ACCESS, Flag(|c, on| fastcgi_auth::set_decides(c, Check::Authenticator, on)), on_or_off(AUTHORITATIVE), "Set to 'off' to allow authentication to be passed along to lower modules upon failure"),
    row("FcgidAuthorizer", ACCESS, Take1(|c, v| fastcgi_auth::set(c, Check::Authorizer, v)), "", "a absolute authorizer file path"),
    row("FcgidAuthorizerAuthoritative", ACCESS, Flag(|c, on| fastcgi_auth::set_decides(c, Check::Authorizer, on)), on_or_off(AUTHORITATIVE), "Set to 'off' to allow authorization to be passed along to lower modules upon failure"),
    seconds_row!("FcgidBusyTimeout", SERVER, busy, BUSY, "a fastcgi application will be killed after handling a request for BusyTimeout"),
    ignored_row!("FcgidBusyScanInterval", GLOBAL, "120", NO_SCANS, "scan interval for busy timeout process"),
    row("FcgidCmdOptions", SERVER, Words(set_command_options), "", "set processing options for a FastCGI command"),
    seconds_row!("FcgidConnectTimeout", SERVER, connect, CONNECT, "Connect timeout to fastcgi application").differs("The server connects at once to processes that it has started."),
    ignored_row!("FcgidErrorScanInterval", GLOBAL, "3", NO_SCANS, "scan interval for exited process"),
    ignored_row!("FcgidFixPathinfo", GLOBAL, "0", NO_FIX, "Set 1, if cgi.fix_pathinfo=1 in php.ini"),
    seconds_row!("FcgidIdleTimeout", SERVER, idle, IDLE, "an idle fastcgi application will be killed after IdleTimeout"),
    ignored_row!("FcgidIdleScanInterval", GLOBAL, "120", NO_SCANS, "scan interval for idle timeout process"),
    row("FcgidInitialEnv", SERVER, Take12(add_initial_env), "", "an environment variable name and optional value to pass to FastCGI."),
    seconds_row!("FcgidIOTimeout", SERVER, io, IO, "Communication timeout to fastcgi application"),
    ignored_row!("FcgidIPCDir", GLOBAL, "logs/fcgidsock", NO_FILES, "fastcgi socket file path"),
    number_row!("FcgidMaxProcesses", GLOBAL, max, MAX, "Max total process count"),
    number_row!("FcgidMaxProcessesPerClass", SERVER, max_class, MAX_CLASS, "Max process count of one class of fastcgi application"),
    number_row!("FcgidMaxRequestInMem", SERVER, in_memory, IN_MEMORY, "The part of HTTP request which greater than this limit will swap to disk"),
    number_row!("FcgidMaxRequestLen", SERVER, max_body, MAX_BODY, "Max HTTP request length in byte"),
    number_row!("FcgidMaxRequestsPerProcess", SERVER, requests, REQUESTS, "Max requests handled by each fastcgi application"),
    number_row!("FcgidMinProcessesPerClass", SERVER, min_class, MIN_CLASS, "Min process count of one class of fastcgi application"),
    number_row!("FcgidOutputBufferSize", SERVER, output_buffer, OUTPUT_BUFFER, "CGI output buffer size").differs("Output is passed on as it arrives; with 0, filters hold none of it back either."),
    row("FcgidPassHeader", SERVER, Take1(add_pass_header), "", "Header name which will be passed to FastCGI as environment variable."),
    seconds_row!("FcgidProcessLifeTime", SERVER, lifetime, LIFETIME, "fastcgi application lifetime"),
    ignored_row!("FcgidProcessTableFile", GLOBAL, "logs/fcgid_shm", NO_FILES, "fastcgi shared memory file path"),
    number_row!("FcgidSpawnScore", GLOBAL, spawn_score, SPAWN_SCORE, "Score of spawn"),
    number_row!("FcgidSpawnScoreUpLimit", GLOBAL, score_limit, SCORE_LIMIT, "Spawn score up limit"),
    number_row!("FcgidTerminationScore", GLOBAL, termination_score, TERMINATION_SCORE, "Score of termination"),
    number_row!("FcgidTimeScore", GLOBAL, time_score, TIME_SCORE, "Score of passage of time (in seconds)"),
    row("FcgidWin32PreventOrphans", GLOBAL, Flag(|_, _| Ok(())), "Off", "CGI process window is to be destroyed on Windows").without_effect("Windows only."),
    row("FcgidWrapper", Allowed::FILEINFO, Take123(add_wrapper), "", "The CGI wrapper file an optional URL suffix and an optional flag"),
    ignored_row!("FcgidZombieScanInterval", GLOBAL, "3", NO_SCANS, "scan interval for zombie process"),
    // The names in versions before 2.3.
    seconds_row!("BusyTimeout", SERVER, busy, BUSY, "Deprecated - Use 'FcgidBusyTimeout' instead"),
    ignored_row!("BusyScanInterval", GLOBAL, "120", NO_SCANS, "Deprecated - Use 'FcgidBusyScanInterval' instead"),
    row("DefaultInitEnv", SERVER, Take12(add_initial_env), "", "Deprecated - Use 'FcgidInitialEnv' instead"),
    number_row!("DefaultMaxClassProcessCount", SERVER, max_class, MAX_CLASS, "Deprecated - Use 'FcgidMaxProcessesPerClass' instead"),
    number_row!("DefaultMinClassProcessCount", SERVER, min_class, MIN_CLASS, "Deprecated - Use 'FcgidMinProcessesPerClass' instead"),
    ignored_row!("ErrorScanInterval", GLOBAL, "3", NO_SCANS, "Deprecated - Use 'FcgidErrorScanInterval' instead"),
    row("FCGIWrapper", Allowed::FILEINFO, Take123(add_wrapper), "", "Deprecated - Use 'FcgidWrapper' instead"),
    seconds_row!("IdleTimeout", SERVER, idle, IDLE, "Deprecated - Use 'FcgidIdleTimeout' instead"),
    ignored_row!("IdleScanInterval", GLOBAL, "120", NO_SCANS, "Deprecated - Use 'FcgidIdleScanInterval' instead"),
    seconds_row!("IPCCommTimeout", SERVER, io, IO, "Deprecated - Use 'FcgidIOTimeout' instead"),
    seconds_row!("IPCConnectTimeout", SERVER, connect, CONNECT, "Deprecated - Use 'FcgidConnectTimeout' instead"),
    number_row!("MaxProcessCount", GLOBAL, max, MAX, "Deprecated - Use 'FcgidMaxProcesses' instead"),
    number_row!("MaxRequestInMem", SERVER, in_memory, IN_MEMORY, "Deprecated - Use 'FcgidMaxRequestInMem' instead"),
    number_row!("MaxRequestLen", SERVER, max_body, MAX_BODY, "Deprecated - Use 'FcgidMaxRequestLen' instead"),
    number_row!("MaxRequestsPerProcess", SERVER, requests, REQUESTS, "Deprecated - Use 'FcgidMaxRequestsPerProcess' instead"),
    number_row!("OutputBufferSize", SERVER, output_buffer, OUTPUT_BUFFER, "Deprecated - Use 'FcgidOutputBufferSize' instead"),
    row("PassHeader", SERVER, Take1(add_pass_header), "", "Deprecated - Use 'FcgidPassHeader' instead"),
    ignored_row!("PHP_Fix_Pathinfo_Enable", GLOBAL, "0", NO_FIX, "Deprecated - Use 'FcgidFixPathinfo' instead"),
    seconds_row!("ProcessLifeTime", SERVER, lifetime, LIFETIME, "Deprecated - Use 'FcgidProcessLifeTime' instead"),
    ignored_row!("SharememPath", GLOBAL, "logs/fcgid_shm", NO_FILES, "Deprecated - Use 'FcgidProcessTableFile' instead"),
    ignored_row!("SocketPath", GLOBAL, "logs/fcgidsock", NO_FILES, "Deprecated - Use 'FcgidIPCDir' instead"),
    number_row!("SpawnScore", GLOBAL, spawn_score, SPAWN_SCORE, "Deprecated - Use 'FcgidSpawnScore' instead"),
    number_row!("SpawnScoreUpLimit", GLOBAL, score_limit, SCORE_LIMIT, "Deprecated - Use 'FcgidSpawnScoreUpLimit' instead"),
    number_row!("TerminationScore", GLOBAL, termination_score, TERMINATION_SCORE, "Deprecated - Use 'FcgidTerminationScore' instead"),
    number_row!("TimeScore", GLOBAL, time_score, TIME_SCORE, "Deprecated - Use 'FcgidTimeScore' instead"),
    ignored_row!("ZombieScanInterval", GLOBAL, "3", NO_SCANS, "Deprecated - Use 'FcgidZombieScanInterval' instead"),
];

const BUSY: Duration = Duration::from_secs(300);
const CONNECT: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(300);
const IO: Duration = Duration::from_secs(40);
const LIFETIME: Duration = Duration::from_secs(3600);
const MAX: u64 = 1000;
const MAX_CLASS: u64 = 100;
const MIN_CLASS: u64 = 3;
/// In bytes.
const MAX_BODY: u64 = 131_072;
const OUTPUT_BUFFER: u64 = 65_536;
/// In bytes.
const IN_MEMORY: u64 = 65_536;
/// 0: any number.
const REQUESTS: u64 = 0;
const SPAWN_SCORE: u64 = 1;
const TERMINATION_SCORE: u64 = 2;
const TIME_SCORE: u64 = 1;
const SCORE_LIMIT: u64 = 10;
/// How long a request waits for a process, as in mod_fcgid (64 tries of a second each).
const WAIT: Duration = Duration::from_secs(64);

settings! {
    /// The module's settings of a server.
    pub struct FcgidServer {
        busy: Setting<Duration> = BUSY,
        connect: Setting<Duration> = CONNECT,
        idle: Setting<Duration> = IDLE,
        io: Setting<Duration> = IO,
        lifetime: Setting<Duration> = LIFETIME,
        max: Setting<u64> = MAX,
        max_class: Setting<u64> = MAX_CLASS,
        min_class: Setting<u64> = MIN_CLASS,
        max_body: Setting<u64> = MAX_BODY,
        output_buffer: Setting<u64> = OUTPUT_BUFFER,
        in_memory: Setting<u64> = IN_MEMORY,
        requests: Setting<u64> = REQUESTS,
        spawn_score: Setting<u64> = SPAWN_SCORE,
        termination_score: Setting<u64> = TERMINATION_SCORE,
        time_score: Setting<u64> = TIME_SCORE,
        score_limit: Setting<u64> = SCORE_LIMIT,
        initial_env: Keyed<String, String>,
        pass_headers: Listed<String>,
        /// By the command.
        commands: Keyed<String, CommandOptions>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct FcgidDir {
        /// By suffix; the one for all files has none.
        wrappers: Keyed<String, Wrapper>,
    }
}

/// A program that runs files.
#[derive(Clone, Debug)]
struct Wrapper {
    /// Its path and arguments.
    command: Vec<String>,
    /// The requested file need not exist.
    is_virtual: bool,
}

/// The options of a command in `FcgidCmdOptions`, which replace the server's.
#[derive(Clone, Debug)]
struct CommandOptions {
    settings: PoolSettings,
    io: Duration,
    initial_env: Vec<(String, String)>,
}

fn time(cmd: &Cmd<'_>, value: &str) -> Result<Duration, String> {
    number(cmd, value).map(Duration::from_secs)
}

fn number(cmd: &Cmd<'_>, value: &str) -> Result<u64, String> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{}: '{value}' is not a number", cmd.node.name));
    }
    // A negative number is a large one, or none at all: mod_fcgid takes -1 for "no limit".
    Ok(if value.starts_with('-') { u64::from(u32::MAX) } else { digits.parse().unwrap_or(u64::from(u32::MAX)) })
}

fn add_initial_env(cmd: &mut Cmd<'_>, name: &str, value: Option<&str>) -> Outcome {
    cmd.server_put(|s: &mut FcgidServer| &mut s.initial_env, name.to_string(), value.unwrap_or_default().to_string())
}

fn add_pass_header(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.server_push(|s: &mut FcgidServer| &mut s.pass_headers, name.to_string())
}

fn add_wrapper(cmd: &mut Cmd<'_>, line: &str, suffix: Option<&str>, option: Option<&str>) -> Outcome {
    let (suffix, is_virtual) = match (suffix, option) {
        (Some(word), None) if word.eq_ignore_ascii_case("virtual") => (None, true),
        (suffix, Some(word)) if word.eq_ignore_ascii_case("virtual") => (suffix, true),
        (_, Some(word)) => return Err(Refusal::argument(3, format!("Invalid wrapper flag: {word}"))),
        (suffix, None) => (suffix, false),
    };
    if let Some(suffix) = suffix
        && (!suffix.starts_with('.') || suffix.len() < 2 || suffix.contains(['/', '\\']))
    {
        return Err(Refusal::argument(2, format!("Invalid wrapper file extension {suffix}")));
    }
    let command = conf::words::words(line);
    let Some(program) = command.first() else { return Err("Invalid wrapper config".into()) };
    check_accessible(cmd, "Wrapper", program).in_argument(1)?;
    let suffix = suffix.unwrap_or_default().to_string();
    cmd.put(|d: &mut FcgidDir| &mut d.wrappers, suffix, Wrapper { command, is_virtual })
}

/// The options of a command. Options that are not named get their defaults. Settings without an option remain the
/// server's.
fn set_command_options(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let Some((command, options)) = words.split_first() else {
        return Err(Refusal::missing("FcgidCmdOptions takes a command and its options"));
    };
    check_accessible(cmd, "Command", command).in_argument(1)?;
    if options.is_empty() {
        return Err(Refusal::missing("At least one option must be specified for FcgidCmdOptions"));
    }
    let mut conf = FcgidServer::default();
    let (mut io, mut initial_env) = (IO, Vec::new());
    let origin = cmd.node.origin.clone();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or_else(|| format!("FcgidCmdOptions: {option} has no value"))?;
        let count = |cmd: &Cmd<'_>| number(cmd, value);
        match option.to_ascii_lowercase().as_str() {
            "connecttimeout" => conf.connect.set(time(cmd, value)?, &origin),
            "idletimeout" => conf.idle.set(time(cmd, value)?, &origin),
            "initialenv" => {
                let (name, value) = value.split_once('=').unwrap_or((value, ""));
                initial_env.push((name.to_string(), value.to_string()));
            }
            "iotimeout" => io = time(cmd, value)?,
            "maxprocesses" => conf.max_class.set(count(cmd)?, &origin),
            "maxprocesslifetime" => conf.lifetime.set(time(cmd, value)?, &origin),
            "maxrequestsperprocess" => conf.requests.set(count(cmd)?, &origin),
            "minprocesses" => conf.min_class.set(count(cmd)?, &origin),
            _ => return Err(format!("Invalid option for FcgidCmdOptions: {option}").into()),
        }
    }
    let options = CommandOptions { settings: pool(&conf, &conf), io, initial_env };
    cmd.server_put(|s: &mut FcgidServer| &mut s.commands, command.clone(), options)
}

/// The settings of a pool: those of a class, and the main server's common ones.
fn pool(conf: &FcgidServer, main: &FcgidServer) -> PoolSettings {
    let some = |time: Duration| Some(time).filter(|time| !time.is_zero());
    PoolSettings {
        max: conf.max_class(),
        // This many are kept, but none starts before it is needed.
        min: 0,
        keep: conf.min_class(),
        max_of_all: main.max(),
        idle: some(conf.idle()),
        lifetime: some(conf.lifetime()),
        requests: Some(conf.requests()).filter(|requests| *requests > 0),
        busy: some(conf.busy()),
        graceful: None,
        memory: None,
        score: Some(Score {
            start: main.spawn_score(),
            end: main.termination_score(),
            second: main.time_score(),
            limit: main.score_limit(),
        }),
        wait: WAIT,
        queue: u64::MAX,
    }
}

static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |_, time| format!("mod_fcgid: read data timeout in {} seconds", time.as_secs()),
    level: Level::Warn,
};

const STDERR: StderrMessages =
    StderrMessages { text: |_, line| format!("mod_fcgid: stderr: {line}"), level: |_| Some(Level::Warn) };

fn is_application(request: &Request) -> bool {
    request.handler_name() == Some("fcgid-script")
}

/// The program that runs the request's file, unless that runs itself.
fn wrapper(request: &Request) -> Option<Wrapper> {
    let conf = request.dir::<FcgidDir>();
    let name = base_name(&request.mapped.filename);
    let of_suffix = name.rfind('.').and_then(|at| conf.wrappers.get(&name[at..]));
    of_suffix.or_else(|| conf.wrappers.get("")).cloned()
}

/// What keeps an application from being asked, in the order of mod_fcgid. Without a text the access log says enough.
const ORDER: [(Obstacle, u16, Option<FileText>); 2] = [
    (
        Obstacle::NeitherExecCgiNorAlias,
        403,
        Some(|file| format!("location of script {file} does not have ExecCGI enabled")),
    ),
    (Obstacle::PathInfo, 404, Some(|file| format!("AcceptPathInfo off disallows user's path: {file}"))),
];
/// What else keeps an application from being asked, unless it is a virtual one, which needs no file.
const ORDER_OF_FILES: [(Obstacle, u16, Option<FileText>); 2] = [
    (Obstacle::Missing, 404, None),
    (Obstacle::Directory, 403, Some(|file| format!("attempt to invoke directory as script: {file}"))),
];

/// Refuses a file for which no application may be asked. `None`: one may.
fn refusal(request: &mut Request) -> Option<HandlerResult> {
    let is_virtual = wrapper(request).is_some_and(|wrapper| wrapper.is_virtual);
    let of_file = || Obstacle::first(request, &ORDER_OF_FILES).filter(|_| !is_virtual);
    let (_, status, text) = Obstacle::first(request, &ORDER).or_else(of_file)?;
    if let Some(text) = text {
        request.log("fcgid", Level::Error, format!("mod_fcgid: {}", text(&request.mapped.filename)));
    }
    Some(HandlerResult::Status(*status))
}

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        if let Err(status) = receive_body(request).await {
            return HandlerResult::Status(status);
        }
        let file = request.mapped.filename.clone();
        let plan = request.plan(|request| {
            let wrapper = wrapper(request).map(|wrapper| wrapper.command);
            class(request, &request.mapped.filename, wrapper).map(|(class, caller)| (class.encoded(), caller))
        });
        let conf = request.host::<FcgidServer>();
        let passed = conf.pass_headers.iter();
        let passed = passed.filter_map(|name| Some((name.clone(), request.header(name)?.into_owned())));
        for (name, value) in passed.collect::<Vec<_>>() {
            // Both as a field of the request and as written, as in mod_fcgid.
            request.env.set(format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_")), value.clone());
            request.env.set(name, value);
        }
        let Some((class, caller)) = &*plan else {
            request.log("fcgid", Level::Error, format!("mod_fcgid: no file has the name {file}"));
            return HandlerResult::Status(500);
        };
        request.response.flush = request.host::<FcgidServer>().output_buffer() == 0;
        respond(request, caller.clone(), class, &Head::FastCgi(Role::Responder), STDERR).await
    })
}

/// Receives the body, up to its limit. `Err`: the status of the response.
async fn receive_body(request: &mut Request) -> Result<(), u16> {
    let conf = request.host::<FcgidServer>();
    let max = conf.max_body();
    let why = match buffer_body(request, conf.in_memory(), max).await {
        Ok(()) => {
            if request.body.is_none() {
                request.headers_mut().set("Content-Length", "0");
            }
            return Ok(());
        }
        Err(why) => why,
    };
    let (level, status, text) = match why {
        BufferError::TooLong(length) => {
            let text = format!("mod_fcgid: HTTP request length {length} (so far) exceeds MaxRequestLen ({max})");
            (Level::Warn, 500, text)
        }
        BufferError::Body(error) => {
            (Level::Info, error.status(), "mod_fcgid: can't get data from http client".to_string())
        }
        BufferError::File(error) => {
            let text = format!("mod_fcgid: no room for the body of a request: {}", sys::describe(&error));
            (Level::Error, 500, text)
        }
    };
    request.log("fcgid", level, text);
    Err(status)
}

/// How to ask an application that decides about access.
fn checker(request: &Request, path: &str) -> Option<(Class, Caller, StderrMessages)> {
    let (class, caller) = class(request, path, None)?;
    Some((class, caller, STDERR))
}

/// The class of an application, or of the program that runs it, and how to speak with it.
fn class(request: &Request, file: &str, wrapper: Option<Vec<String>>) -> Option<(Class, Caller)> {
    let (conf, main) = (request.host::<FcgidServer>(), request.server.main().settings.get::<FcgidServer>());
    let own = wrapper.is_none();
    let command = wrapper.unwrap_or_else(|| vec![file.to_string()]);
    let (path, arguments) = command.split_first()?;
    let options = conf.commands.get(path);
    let mut environment: Vec<(String, String)> = match options {
        Some(options) => options.initial_env.clone(),
        None => conf.initial_env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    if !environment.iter().any(|(name, _)| name == "PATH") {
        environment.push(("PATH".into(), gateway::env::path_for(request)));
    }
    let environment = gateway::env::lines(&environment)?;
    let program = Program::new(path, arguments, environment, dir_name(path), owners::of(request))?;
    let program = match &request.mapped.stat {
        Some(meta) if own && file == request.mapped.filename => program.of_file(meta),
        _ => program,
    };
    let of_server = pool(conf, main);
    let settings = options.map_or(of_server, |options| {
        let PoolSettings { max_of_all, busy, score, .. } = of_server;
        PoolSettings { max_of_all, busy, score, ..options.settings }
    });
    let class = Class {
        name: format!("fcgid {}", command.join(" ")),
        module: "fcgid".into(),
        host: request.vhost.name.clone(),
        protocol: Head::FastCgi(Role::Responder).protocol(),
        concurrency: Concurrency::One,
        program: program.limited_for(request),
        settings,
    };
    let timeout = options.map_or_else(|| conf.io(), |options| options.io);
    let accounts = accounts_for_scripts(request);
    // Unlike the modules of httpd itself, mod_fcgid sends the length that a script tells.
    let caller = Caller { accounts, trusts_length: true, ..Caller::new("fcgid", &TIMEOUT_MESSAGE, timeout) };
    Some((class, caller))
}
