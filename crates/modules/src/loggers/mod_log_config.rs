//! The access logs.
//!
//! A format is compiled into items when the configuration is read; a line is written into a buffer that the thread keeps,
//! so it costs no allocation.
//!
//! Apache manual: mod_log_config. Which virtual host writes to which log was measured on 2.4.71.

mod escape;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod json;
mod time;
mod write;

use std::cell::RefCell;
use std::sync::Arc;

use conf::directive::Args::{Flag, Take1, Take23, Take123};
use conf::expr::{Expr, Options};
use conf::{
    Allowed, Cause, Cmd, Context, Directive, Error, InArgument as _, Keyed, Level, Merge, ModuleInfo, Origin, Outcome,
    Refusal, Setting, row, settings,
};
use server::log::LogFile;
use server::{Draft, Hook, Module, Order, Request, Server, StartError};

use self::format::Format;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "log_config_module", source: "mod_log_config.c", linked: true, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Check(resolve), Hook::OpenLogs(open), Hook::Log(Order::Middle, log)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CustomLog", Allowed::SERVER, Take23(custom_log), "", "a file name, a custom log format string or format name, and an optional \"env=\" or \"expr=\" clause (see docs)"),
    row("GlobalLog", Allowed::GLOBAL, Take23(global_log), "", "Same as CustomLog, but forces virtualhosts to inherit the log"),
    row("TransferLog", Allowed::SERVER, Take1(|c, file| add(c, file, None, None, false)), "", "the filename of the access log"),
    row("LogFormat", Allowed::SERVER, Take123(log_format), r#""%h %l %u %t \"%r\" %>s %b""#, "a log format string (see docs) and an optional format name").syntax("format|nickname [nickname [escape=json]]").differs("A third word, `escape=json`, makes lines of JSON (docs/logs.md)."),
    row("BufferedLogs", Allowed::SERVER, Flag(|_, _| Ok(())), "Off", "Enable Buffered Logging (experimental)").without_effect("Lines are always written together when there are many, and never wait when there are few."),
];

/// The format of `TransferLog` without a `LogFormat`.
const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";

settings! {
    /// The module's settings of a server.
    pub struct LogConf {
        /// Named formats, by their names in lower case.
        nicknames: Keyed<String, Arc<Format>>,
        /// `LogFormat` without a name.
        standard: Setting<Written>,
        logs: Logs,
        plan: Plan,
    }
}

/// A format as written: perhaps the name of another.
#[derive(Clone, Debug)]
struct Written {
    text: String,
    format: Arc<Format>,
}

/// A `CustomLog`, `GlobalLog` or `TransferLog`.
#[derive(Debug)]
struct Log {
    /// As written, for messages.
    name: String,
    file: Arc<LogFile>,
    /// `None`: the standard format of the virtual host that writes.
    format: Option<Written>,
    condition: Condition,
    /// `GlobalLog`.
    global: bool,
    origin: Origin,
}

#[derive(Debug)]
enum Condition {
    Always,
    Set(String),
    Unset(String),
    Expr(Expr),
}

/// The logs of a virtual host, and those of the main server around it.
#[derive(Clone, Debug, Default)]
struct Logs {
    own: Vec<Arc<Log>>,
    outer: Vec<Arc<Log>>,
}

impl Merge for Logs {
    fn merge(base: &Self, add: &Self) -> Self {
        Logs { own: add.own.clone(), outer: base.own.clone() }
    }

    /// The plan decides which of them count.
    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}

/// The logs written for a request of this virtual host; made once everything is known.
#[derive(Clone, Debug, Default)]
struct Plan(Vec<(Arc<Log>, Arc<Format>)>);

/// Whether a request's log includes the final cost of its script.
pub(crate) fn accounts_for_scripts(request: &Request) -> bool {
    request.host::<LogConf>().plan.0.iter().any(|(_, format)| format.needs_end_of_script())
}

/// Whether a request's log includes the server behind this one.
pub(crate) fn logs_upstream(request: &Request) -> bool {
    request.host::<LogConf>().plan.0.iter().any(|(_, format)| format.needs_upstream())
}

impl Merge for Plan {
    /// Servers are merged before there is any plan.
    fn merge(_: &Self, add: &Self) -> Self {
        add.clone()
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().map(|(log, _)| &log.origin).for_each(see);
    }
}

fn log_format(cmd: &mut Cmd<'_>, text: &str, name: Option<&str>, escape: Option<&str>) -> Outcome {
    /// Our own: the format is one of JSON.
    const JSON: &str = "escape=json";
    let options = cmd.expr_options();
    let format = match (name, escape) {
        (Some(JSON), _) => {
            return Err(Refusal::argument(2, format!("LogFormat: {JSON} comes after a format and its name")));
        }
        (_, None) => Format::parse(text, options).in_argument(1)?,
        (_, Some(JSON)) => json::parse(text, options).in_argument(1)?,
        (_, Some(other)) => {
            let message = format!("LogFormat: after a format and its name comes {JSON}, not '{other}'");
            return Err(Refusal::argument(3, message));
        }
    };
    let format = Arc::new(format);
    let origin = cmd.origin();
    let conf = cmd.server.edit::<LogConf>();
    match name {
        Some(name) => conf.nicknames.set(name.to_ascii_lowercase(), format, &origin),
        None => conf.standard.set(Written { text: text.to_string(), format }, &origin),
    }
    Ok(())
}

fn custom_log(cmd: &mut Cmd<'_>, file: &str, format: &str, clause: Option<&str>) -> Outcome {
    add(cmd, file, Some(format), clause, false)
}

fn global_log(cmd: &mut Cmd<'_>, file: &str, format: &str, clause: Option<&str>) -> Outcome {
    add(cmd, file, Some(format), clause, true)
}

fn add(cmd: &mut Cmd<'_>, name: &str, format: Option<&str>, clause: Option<&str>, global: bool) -> Outcome {
    let options = cmd.expr_options();
    let condition = clause.map_or(Ok(Condition::Always), |clause| condition(clause, options))?;
    let format = match format {
        Some(text) => Some(Written { text: text.to_string(), format: Arc::new(Format::parse(text, options)?) }),
        None => None,
    };
    let target = if name.starts_with('|') { name.to_string() } else { cmd.context.server_relative(name) };
    let file = LogFile::named(&target);
    let log = Log { name: name.to_string(), file, format, condition, global, origin: cmd.origin() };
    cmd.server.edit::<LogConf>().logs.own.push(Arc::new(log));
    Ok(())
}

/// The condition in argument 3.
fn condition(clause: &str, options: Options) -> Result<Condition, Refusal> {
    let (key, value) = clause.split_once('=').unwrap_or((clause, ""));
    match key.to_ascii_lowercase().as_str() {
        "env" if clause.contains('=') => match value.strip_prefix('!') {
            Some("") => Err("missing environment variable name".into()),
            Some(name) => Ok(Condition::Unset(name.to_string())),
            None if value.is_empty() => Err("missing environment variable name".into()),
            None => Ok(Condition::Set(value.to_string())),
        },
        "expr" if clause.contains('=') && value.is_empty() => Err("missing condition".into()),
        "expr" if clause.contains('=') => {
            let expr = Expr::parse_with(value, options).map(Condition::Expr);
            expr.map_err(|error| Refusal::expression(3, clause.len() - value.len(), &error, error.to_string()))
        }
        _ => Err("error in condition clause".into()),
    }
}

/// Resolves names to formats, and the logs of each virtual host: its own and the global ones, or, if it has none of its
/// own, all of the main server's.
fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let main = draft.main.get::<LogConf>().clone();
    for log in &main.logs.own {
        check_directory(log, context)?;
    }
    draft.main.edit::<LogConf>().plan = plan(&main, &main);
    for host in &mut draft.hosts {
        let conf = host.server.get::<LogConf>().clone();
        for log in &conf.logs.own {
            check_directory(log, context)?;
        }
        host.server.edit::<LogConf>().plan = plan(&conf, &main);
    }
    Ok(())
}

fn plan(conf: &LogConf, main: &LogConf) -> Plan {
    let standard = match conf.standard.get() {
        Some(written) => find(conf, written),
        // The text is ours, and a test parses it.
        None => Arc::new(Format::parse(COMMON, Options::default()).unwrap_or_default()),
    };
    let format_in = |conf: &LogConf, log: &Log| log.format.as_ref().map_or_else(|| standard.clone(), |w| find(conf, w));
    let own = conf.logs.own.iter().map(|log| (log.clone(), format_in(conf, log)));
    let all = conf.logs.own.is_empty();
    let outer = conf.logs.outer.iter().filter(|log| all || log.global);
    Plan(own.chain(outer.map(|log| (log.clone(), format_in(main, log)))).collect())
}

fn find(conf: &LogConf, written: &Written) -> Arc<Format> {
    let name = written.text.to_ascii_lowercase();
    match conf.nicknames.get(&name) {
        Some(format) => format.clone(),
        // The text is ours, and a test parses it.
        None if name == json::NAME => Arc::new(json::parse(json::READY, Options::default()).unwrap_or_default()),
        None => written.format.clone(),
    }
}

/// Checks that a log's directory exists: reported at once, not when the log is opened.
fn check_directory(log: &Log, context: &Context) -> Result<(), Error> {
    let target = log.file.target();
    let dir = server::paths::dir_name(target);
    if target.starts_with('|') || server::log::hangs(target) || context.system.is_dir(dir) {
        return Ok(());
    }
    let why = server::paths::why_no_directory(&*context.system, dir);
    let Log { name, origin, .. } = log;
    let text = format!("{why}: AH02297: Cannot access directory '{dir}' for log file '{name}' defined at {origin}");
    Err(Error::check(text).because(Cause::NoLogDirectory(dir.to_string())))
}

fn open(server: &Server) -> Result<(), StartError> {
    for (log, _) in server.hosts.iter().flat_map(|host| &host.settings.get::<LogConf>().plan.0) {
        let target = log.file.target();
        log.file.open().map_err(|error| {
            let message = match target.strip_prefix('|') {
                Some(program) => format!("AH00104: unable to start piped log program '{program}'"),
                None => format!("AH00649: could not open transfer log file {target}."),
            };
            StartError::of_system(&error, &message)
        })?;
    }
    Ok(())
}

thread_local! {
    /// The line being written. Logs are written one after the other, so one buffer serves all.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn log(request: &mut Request) {
    let vhost = request.vhost;
    for (log, format) in &vhost.settings.get::<LogConf>().plan.0 {
        if !log.condition.holds(request) {
            continue;
        }
        LINE.with_borrow_mut(|line| {
            format.write(request, log.file.line_max(), line);
            line.push(b'\n');
            log.file.append(line);
        });
    }
}

impl Condition {
    /// Conditions apply to the request as it came in, before internal redirects.
    fn holds(&self, request: &mut Request) -> bool {
        let env = |name: &str| request.original().map_or(&request.env, |original| &original.env).contains(name);
        match self {
            Condition::Always => true,
            Condition::Set(name) => env(name),
            Condition::Unset(name) => !env(name),
            Condition::Expr(expr) => match evaluate(request, expr) {
                Ok(holds) => holds,
                Err(error) => {
                    request.log(
                        "log_config",
                        Level::Error,
                        format!("AH00646: Error evaluating log condition: {error}"),
                    );
                    // No client may avoid the log with a value that is too expensive to examine.
                    error.is_undecided()
                }
            },
        }
    }
}

fn evaluate(request: &mut Request, expr: &Expr) -> Result<bool, conf::expr::EvalError> {
    let Some(original) = request.original() else { return server::evaluate(request, expr) };
    let (uri, args, env) = (original.uri.clone(), original.args.clone(), original.env.clone());
    let uri = std::mem::replace(&mut request.data.uri, uri);
    let args = std::mem::replace(&mut request.data.args, args);
    let env = std::mem::replace(&mut request.env, env);
    let result = server::evaluate(request, expr);
    (request.data.uri, request.data.args, request.env) = (uri, args, env);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_as_measured() {
        let errors = [
            ("c", "error in condition clause"),
            ("env", "error in condition clause"),
            ("env=", "missing environment variable name"),
            ("env=!", "missing environment variable name"),
            ("expr=", "missing condition"),
            ("expr=x ==", "syntax error, unexpected T_OP_STR_EQ, expecting '('"),
        ];
        for (clause, message) in errors {
            assert_eq!(
                condition(clause, Options::default()).err().as_ref().map(conf::Refusal::message),
                Some(message),
                "{clause}"
            );
        }
        assert!(matches!(condition("ENV=x", Options::default()), Ok(Condition::Set(name)) if name == "x"));
        assert!(matches!(condition("env=!x", Options::default()), Ok(Condition::Unset(name)) if name == "x"));
        assert!(matches!(condition("expr=true", Options::default()), Ok(Condition::Expr(_))));
    }

    #[test]
    fn lines_as_measured() {
        crate::testing::check(&[
            (
                "LogFormat \"\"",
                "LogFormat takes one, two or three arguments, a log format string (see docs) and an optional format name",
            ),
            ("LogFormat a b c", "LogFormat: after a format and its name comes escape=json, not 'c'"),
            ("LogFormat a escape=json", "LogFormat: escape=json comes after a format and its name"),
            (
                "LogFormat '\"%a' x escape=json",
                "LogFormat with escape=json: its lines would not be JSON: EOF while parsing a string at line 1 column 2",
            ),
            ("LogFormat '{\"a\":%a}' x escape=json", ""),
            ("LogFormat \"%z\" x", "Unrecognized LogFormat directive %z"),
            ("LogFormat \"%{a\" x", "Ran off end of LogFormat parsing args to some directive"),
            ("TransferLog", "TransferLog takes one argument, the filename of the access log"),
            ("CustomLog a b c", "error in condition clause"),
            ("BufferedLogs maybe", "BufferedLogs must be On or Off"),
            ("LogIOTrackTTFB x", "LogIOTrackTTFB must be On or Off"),
            (
                "<VirtualHost *:80>\nGlobalLog a b\n</VirtualHost>",
                "GlobalLog cannot occur within <VirtualHost> section",
            ),
            ("<Directory />\nCustomLog a b\n</Directory>", "CustomLog not allowed in <Directory> context"),
            ("CustomLog a b \"expr=x ==\"", "syntax error, unexpected T_OP_STR_EQ, expecting '('"),
            ("CustomLog a b ENV=x\nLogFormat \"%^ti %>s\" x\nLogFormat \"%h\"\nTransferLog |x", ""),
        ]);
    }

    #[test]
    fn a_virtual_host_has_its_own_logs_or_the_main_servers() {
        let conf = |lines: &str| crate::testing::apply(lines).map(|applied| applied.server.get::<LogConf>().clone());
        let main = conf("LogFormat M nick\nGlobalLog g NICK\nCustomLog m nick\nTransferLog t\nLogFormat D")
            .unwrap_or_default();
        let hosts = [
            ("LogFormat V nick", "logs/g=M logs/m=M logs/t=D"),
            ("LogFormat V nick\nCustomLog own nick\nCustomLog own other", "own=V own=other logs/g=M"),
            ("LogFormat E\nTransferLog own", "own=E logs/g=M"),
            ("LogFormat nick", "logs/g=M logs/m=M logs/t=M"),
        ];
        for (lines, want) in hosts {
            let host = conf(lines).unwrap_or_default();
            let host: LogConf = conf::Settings::merged(&main, &host);
            let plan = plan(&host, &main);
            let got: Vec<String> =
                plan.0.iter().map(|(log, format)| format!("{}={}", log.name, format.literal())).collect();
            assert_eq!(got.join(" "), want.replace("logs/", ""), "{lines}");
        }
    }
}
