//! Perl scripts and handlers as in mod_perl, in separate interpreters: an interpreter is a process, so it may change
//! its directory under every MPM, and nothing that a script does affects the server.
//!
//! <https://perl.apache.org/docs/2.0/user/config/config.html>; docs/perl.md lists the differences. `perl-fork` is not a
//! handler of mod_perl: it compiles a script once and runs it in a fresh copy of that process for each request.

use std::time::Duration;

use conf::directive::Args::{Flag, Iterate, Iterate2, Raw, Take1, Take2};
use conf::{Allowed, Cmd, Directive, Keyed, Listed, ModuleInfo, Outcome, Refusal, Setting, row, settings, shown};
use gateway::Caller;
use gateway::backend::{Concurrency, PoolSettings, RuntimeCall};
use server::{Handler, HandlerResult, Hook, Module, Order, Request, Waiting};

use super::arguments::number;
use super::backends;
use super::perl::{self, Interpreters};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "perl_module", source: "mod_perl.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(backends::resolve),
        Hook::Preflight(backends::preflight),
        Hook::HelperProcess(&backends::MANAGER),
        Hook::Handler(Order::Middle, SCRIPTS),
    ],
};

/// The registries of mod_perl decline a directory, and then nobody serves it.
const DIRECTORY: u16 = 404;

const SCRIPTS: Handler = Handler::Later {
    claims: |request| matches!(request.handler_name(), Some("perl-script" | "modperl" | FORK | PSGI)),
    check: refusal,
    run: |request| handle(request),
};

/// The handler that forks a compiled script.
const FORK: &str = "perl-fork";
/// The handler of files that make an application of PSGI: no handler of mod_perl.
const PSGI: &str = "psgi-script";
/// Classes of response handlers that run the file of the request.
const REGISTRIES: [&str; 5] = ["Registry", "RegistryPrefork", "RegistryBB", "PerlRun", "PerlRunPrefork"];
const SERVER: Allowed = Allowed::SERVER;
const ANY: Allowed = Allowed::SERVER.or(Allowed::IN_SECTION);

/// The row of a handler for a phase that needs the interpreter inside the server's process.
const fn inside(name: &'static str) -> Directive {
    row(name, ANY, Raw(refuse), "", "the Perl handler for that phase").differs(
        "An error: interpreters are separate processes here, and only PerlResponseHandler and PerlFixupHandler reach them.",
    )
}

fn refuse(cmd: &mut Cmd<'_>, _: &str) -> Outcome {
    Err(format!(
        "{} needs a Perl interpreter inside the server; Tsubame runs Perl in processes of its own, where only \
         PerlResponseHandler and PerlFixupHandler reach it",
        cmd.node.name
    )
    .into())
}

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("PerlModule", ANY, Iterate(add_module), "", "A Perl module").differs("It is loaded by the interpreters that serve this section, before their first request of it."),
    row("PerlRequire", ANY, Iterate(add_file), "", "A Perl script name, pulled in via require").differs("Like PerlModule."),
    row("PerlConfigRequire", SERVER, Iterate(add_file), "", "A Perl script name, pulled in via require").differs("Like PerlModule."),
    row("PerlPostConfigRequire", SERVER, Iterate(add_file), "", "A Perl script name, pulled in via require").differs("Like PerlModule."),
    row("PerlLoadModule", SERVER, Iterate(add_module), "", "A Perl module").differs("Like PerlModule: a module cannot have directives of its own."),
    row("PerlOptions", ANY, Iterate(set_option), "", "Perl Configuration Options"),
    row("PerlSwitches", SERVER, Raw(set_switches), "", "Perl Switches"),
    row("PerlSetVar", ANY, Take2(set_var), "", "Perl config var and value"),
    row("PerlAddVar", ANY, Iterate2(add_var), "", "Perl config var and value"),
    row("PerlSetEnv", ANY, Take2(set_env), "", "Perl %ENV key and value"),
    row("PerlPassEnv", SERVER, Iterate(pass_env), "", "Perl %ENV key"),
    row("PerlSendHeader", ANY, Flag(|c, on| c.set(|d: &mut PerlDir| &mut d.parse_headers, on)), conf::on_or_off(PARSE_HEADERS), "Tell mod_perl to parse and send HTTP headers"),
    row("PerlSetupEnv", ANY, Flag(|c, on| c.set(|d: &mut PerlDir| &mut d.setup_env, on)), conf::on_or_off(SETUP_ENV), "Turn setup of %ENV On or Off"),
    row("PerlTaintCheck", SERVER, Flag(|c, on| switch(c, on, "-T")), "Off", "Turn on -T switch"),
    row("PerlWarn", SERVER, Flag(|c, on| switch(c, on, "-w")), "Off", "Turn on -w switch"),
    row("PerlResponseHandler", ANY, Iterate(set_handler), "", "the Perl Response handler"),
    row("PerlHandler", ANY, Iterate(set_handler), "", "the Perl Response handler"),
    row("PerlFixupHandler", ANY, Iterate(add_fixup), "", "the Perl Fixup handler"),
    row("PerlInterpStart", SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.min)), "0", "Number of Perl interpreters to start").differs("This many are kept once the first request has come."),
    row("PerlInterpMax", SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.max)), "twice as many as there are processors, at least 5", "Max number of running Perl interpreters"),
    row("PerlInterpMinSpare", SERVER, Take1(|_, _| Ok(())), "3", "Min number of spare Perl interpreters").without_effect("Interpreters are started when requests wait for them."),
    row("PerlInterpMaxSpare", SERVER, Take1(|_, _| Ok(())), "3", "Max number of spare Perl interpreters").without_effect("Idle interpreters end after PerlInterpIdle."),
    row("PerlInterpMaxRequests", SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.requests)), shown!(REQUESTS), "Max number of requests per Perl interpreters"),
    row("PerlInterpIdle", SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.idle)), shown!(IDLE), "How many seconds an idle interpreter is kept; 0 means for ever").syntax("seconds"),
    row("PerlInterpMaxMemory", SERVER, Take1(set_memory), "unlimited", "How much memory an interpreter may have, give or take a tenth, before it is replaced").syntax("size|unlimited"),
    row("PerlForkMax", SERVER, Take1(|c, v| set_number(c, v, |s| &mut s.forks)), "four times as many as there are processors", "How many requests for one script perl-fork serves at once").syntax("number"),
    inside("PerlTransHandler"),
    inside("PerlMapToStorageHandler"),
    inside("PerlInitHandler"),
    inside("PerlPostReadRequestHandler"),
    inside("PerlHeaderParserHandler"),
    inside("PerlAccessHandler"),
    inside("PerlAuthenHandler"),
    inside("PerlAuthzHandler"),
    inside("PerlTypeHandler"),
    inside("PerlLogHandler"),
    inside("PerlCleanupHandler"),
    inside("PerlInputFilterHandler"),
    inside("PerlOutputFilterHandler"),
    inside("PerlSetInputFilter"),
    inside("PerlSetOutputFilter"),
    inside("PerlPreConnectionHandler"),
    inside("PerlProcessConnectionHandler"),
    inside("PerlOpenLogsHandler"),
    inside("PerlPostConfigHandler"),
    inside("PerlChildInitHandler"),
    inside("PerlChildExitHandler"),
    inside("PerlAddAuthnProvider"),
    inside("PerlAddAuthzProvider"),
    inside("Perl"),
];

const PARSE_HEADERS: bool = false;
const SETUP_ENV: bool = true;
/// The default number of requests per interpreter, as in mod_perl.
const REQUESTS: u64 = 2000;
/// How long an idle one is kept, in seconds.
const IDLE: u64 = 600;
/// The default maximum of interpreters is at least this many, as in mod_perl.
const INTERPRETERS: u64 = 5;

settings! {
    /// The module's settings of a server.
    pub struct PerlServer {
        switches: Setting<Vec<String>>,
        min: Setting<u64>,
        max: Setting<u64>,
        requests: Setting<u64> = REQUESTS,
        idle: Setting<u64> = IDLE,
        memory: Setting<Option<u64>>,
        forks: Setting<u64>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct PerlDir {
        modules: Listed<String>,
        files: Listed<String>,
        handler: Setting<String>,
        /// The path of the innermost section that says what its handler does.
        location: Setting<String>,
        fixups: Listed<String>,
        parse_headers: Setting<bool> = PARSE_HEADERS,
        setup_env: Setting<bool> = SETUP_ENV,
        /// Each with its values, in order.
        vars: Keyed<String, Vec<String>>,
        env: Keyed<String, String>,
    }
}

fn add_module(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.push(|d: &mut PerlDir| &mut d.modules, name.to_string())
}

fn add_file(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    cmd.push(|d: &mut PerlDir| &mut d.files, path)
}

/// Switches of perl, split at spaces as in mod_perl.
fn set_switches(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let switches: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    if let Some(at) = switches.iter().position(|switch| !switch.starts_with('-')) {
        return Err(Refusal::argument(at + 1, format!("PerlSwitches: '{}' is not a switch of perl", switches[at])));
    }
    cmd.server_set(|s: &mut PerlServer| &mut s.switches, switches)
}

fn switch(cmd: &mut Cmd<'_>, on: bool, switch: &str) -> Outcome {
    let mut switches = cmd.server.get::<PerlServer>().switches.get().cloned().unwrap_or_default();
    switches.retain(|known| known != switch);
    if on {
        switches.push(switch.to_string());
    }
    cmd.server_set(|s: &mut PerlServer| &mut s.switches, switches)
}

fn set_option(cmd: &mut Cmd<'_>, option: &str) -> Outcome {
    let (on, name) = match option.split_at_checked(1) {
        Some(("+", name)) => (true, name),
        Some(("-", name)) => (false, name),
        _ => (true, option),
    };
    match name {
        "ParseHeaders" => cmd.set(|d: &mut PerlDir| &mut d.parse_headers, on),
        "SetupEnv" => cmd.set(|d: &mut PerlDir| &mut d.setup_env, on),
        // These options choose among interpreters inside the server's process, or set what those may do.
        "GlobalRequest" | "MergeHandlers" | "Enable" | "Parent" | "Clone" | "InheritSwitches" | "AutoLoad" => Ok(()),
        _ => Err(format!("Invalid PerlOptions {name}").into()),
    }
}

fn set_var(cmd: &mut Cmd<'_>, name: &str, value: &str) -> Outcome {
    note_location(cmd)?;
    cmd.put(|d: &mut PerlDir| &mut d.vars, name.to_string(), vec![value.to_string()])
}

fn add_var(cmd: &mut Cmd<'_>, name: &str, value: &str) -> Outcome {
    let mut values = cmd.dir.get::<PerlDir>().vars.get(name).cloned().unwrap_or_default();
    values.push(value.to_string());
    note_location(cmd)?;
    cmd.put(|d: &mut PerlDir| &mut d.vars, name.to_string(), values)
}

fn set_env(cmd: &mut Cmd<'_>, name: &str, value: &str) -> Outcome {
    cmd.put(|d: &mut PerlDir| &mut d.env, name.to_string(), value.to_string())
}

fn pass_env(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    match cmd.context.system.env(name) {
        Some(value) => cmd.put(|d: &mut PerlDir| &mut d.env, name.to_string(), value),
        None => Ok(()),
    }
}

fn set_handler(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    note_location(cmd)?;
    cmd.set(|d: &mut PerlDir| &mut d.handler, name.to_string())
}

fn note_location(cmd: &mut Cmd<'_>) -> Outcome {
    match cmd.place.path.as_ref().map(ToString::to_string) {
        Some(path) => cmd.set(|d: &mut PerlDir| &mut d.location, path),
        None => Ok(()),
    }
}

fn add_fixup(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.push(|d: &mut PerlDir| &mut d.fixups, name.to_string())
}

fn set_number(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut PerlServer) -> &mut Setting<u64>) -> Outcome {
    let number = number(cmd, value)?;
    cmd.server_set(field, number)
}

fn set_memory(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let memory = match conf::values::size(value) {
        _ if value.eq_ignore_ascii_case("unlimited") => None,
        Some(bytes) if bytes > 0 => Some(bytes),
        _ => return Err(format!("PerlInterpMaxMemory: '{value}' is neither a size such as 200M nor unlimited").into()),
    };
    cmd.server_set(|s: &mut PerlServer| &mut s.memory, memory)
}

/// The response handler that runs the file of the request, by its name without the package; `None`: it is another one.
fn registry(handler: &str) -> Option<&str> {
    let name = handler.strip_suffix("->handler").unwrap_or(handler);
    let name = name.strip_prefix("ModPerl::").or_else(|| name.strip_prefix("Apache::"))?;
    REGISTRIES.contains(&name).then_some(name)
}

/// The conditions for asking an interpreter. `None`: they are met.
fn refusal(request: &mut Request) -> Option<HandlerResult> {
    let is_file = matches!(request.handler_name(), Some(FORK | PSGI));
    let handler = request.dir::<PerlDir>().handler.get().cloned();
    let runs_file = match &handler {
        _ if is_file => true,
        Some(handler) => registry(handler).is_some(),
        None => {
            let text = format!("{}: SetHandler perl-script needs a PerlResponseHandler", request.mapped.filename);
            request.log("perl", conf::Level::Error, text);
            return Some(HandlerResult::Status(500));
        }
    };
    if runs_file && let Some(answer) = perl::refusal(request, "perl", DIRECTORY) {
        return Some(answer);
    }
    if request.is_hypothetical() {
        let what = match request.handler_name() {
            Some(FORK) => "forked off its compiled template".to_string(),
            Some(PSGI) => "an application of PSGI".to_string(),
            _ => handler.unwrap_or_default(),
        };
        interpreters(request).explain(request, &what);
    }
    None
}

/// The pool for a request.
fn interpreters(request: &Request) -> Interpreters {
    let conf = request.host::<PerlServer>();
    let processors = sys::affinity::processors() as u64;
    let settings = PoolSettings {
        max: conf.max.value_or((2 * processors).max(INTERPRETERS)),
        min: conf.min.value_or(0),
        requests: Some(conf.requests()).filter(|requests| *requests > 0),
        idle: Some(conf.idle()).filter(|idle| *idle > 0).map(Duration::from_secs),
        memory: conf.memory.value_or(None),
        ..PoolSettings::default()
    };
    let mut switches = conf.switches.get().cloned().unwrap_or_default();
    if request.handler_name() != Some(FORK) {
        let name = match request.handler_name() {
            // Each application has interpreters of its own: they are large.
            Some(PSGI) => format!("psgi {}", request.mapped.filename),
            _ if switches.is_empty() => "perl".to_string(),
            _ => format!("perl {}", switches.join(" ")),
        };
        let directory = request.server.language.server_root.clone();
        return Interpreters { name, module: "perl", switches, concurrency: Concurrency::One, settings, directory };
    }
    // A template is compiled with its script's own switches, like a start by the shell.
    for switch in super::shebang::of(&request.mapped.filename).perl {
        if !switches.contains(&switch) {
            switches.push(switch);
        }
    }
    Interpreters {
        name: format!("{FORK} {}", request.mapped.filename),
        module: "perl",
        switches,
        concurrency: Concurrency::Many(conf.forks.value_or(4 * processors)),
        settings: PoolSettings { max: 1, min: 0, requests: None, memory: None, ..settings },
        directory: perl::directory(request),
    }
}

fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let (forks, is_psgi) = (request.handler_name() == Some(FORK), request.handler_name() == Some(PSGI));
        let dir = request.dir.slots.clone();
        let conf = dir.get::<PerlDir>();
        for (name, value) in conf.env.iter() {
            request.env.set(name.clone(), value.clone());
        }
        let handler = conf.handler.get().map_or("", String::as_str);
        let name = match registry(handler) {
            _ if forks => "Fork".to_string(),
            _ if is_psgi => "PSGI".to_string(),
            Some(name) => format!("ModPerl::{name}"),
            None => handler.to_string(),
        };
        let mut call = perl::call(request, &name);
        if !forks && !is_psgi {
            add_fields(request, conf, &mut call);
        }
        let pool = request.plan(|request| perl::Pool::of(request, interpreters(request)));
        let caller = perl::caller(request, "perl");
        let caller = match is_psgi {
            true => Caller { as_is: true, trusts_length: true, ..caller },
            false => Caller { nph: (forks || registry(handler).is_some()) && perl::is_nph(request), ..caller },
        };
        perl::run(request, &pool, call, caller).await
    })
}

/// Adds what the handler learns from `$r`.
fn add_fields(request: &Request, conf: &PerlDir, call: &mut RuntimeCall) {
    let flag = |on: bool| if on { "1" } else { "0" };
    let setup_env = conf.setup_env() && request.handler_name() == Some("perl-script");
    call.add("parse_headers", flag(conf.parse_headers()));
    call.add("setup_env", flag(setup_env));
    call.add("server_admin", request.vhost.admin.as_deref().unwrap_or(http::NO_ADMIN));
    call.add("server_name", &request.server_name());
    call.add("port", &request.server_port().to_string());
    call.add("remote_ip", request.client().ip());
    call.add("user", request.login.user.as_deref().unwrap_or_default());
    call.add("auth_type", request.login.auth_type.as_deref().unwrap_or_default());
    call.add("document_root", request.document_root());
    call.add("location", conf.location.get().map_or("", String::as_str));
    if !setup_env {
        conf.env.iter().for_each(|(name, _)| call.add("env", name));
    }
    conf.modules.iter().for_each(|name| call.add("module", name));
    conf.files.iter().for_each(|path| call.add("require", path));
    conf.fixups.iter().for_each(|name| call.add("fixup", name));
    for (name, values) in conf.vars.iter() {
        values.iter().for_each(|value| call.add("var", &format!("{name}={value}")));
    }
    request.headers().iter().for_each(|(name, value)| call.add("header", &format!("{name}: {value}")));
}
