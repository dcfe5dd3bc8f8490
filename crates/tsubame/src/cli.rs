//! Parses the command line: httpd's options, and two of our own for a first look.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use conf::Level;
use conf::directive::nearest_name;
use lexopt::prelude::*;

use crate::misuse;
use crate::output;

/// The parsed command line.
pub(crate) struct Options {
    /// The name by which the server was called.
    pub(crate) program: String,
    /// The action to take.
    pub(crate) action: Action,
    /// `-d`
    pub(crate) server_root: Option<String>,
    /// `-f`
    pub(crate) file: Option<String>,
    /// `-C`
    pub(crate) before: Vec<String>,
    /// `-c`
    pub(crate) after: Vec<String>,
    /// `-D`, and the names that other options define.
    pub(crate) defines: Vec<String>,
    /// `-e`
    pub(crate) level: Option<Level>,
    /// `-E`
    pub(crate) errors: Option<String>,
    /// The whole line, for `AH00094`.
    pub(crate) line: String,
    /// The working directory at the start. A relative `-d` is resolved against it, even after the server has left it.
    pub(crate) directory: PathBuf,
}

/// The action to take.
pub(crate) enum Action {
    /// Start the server (no `-k`, or `-k start`).
    Start,
    /// `-k` with another word.
    Signal(Signal),
    /// `-t`, `-S`, `-M`
    Check,
    /// `-v`
    Version,
    /// `-V`
    Settings,
    /// `-l`
    CompiledIn,
    /// `-L`
    Directives,
    /// Serve the embedded configuration; no option of httpd was given.
    Demo(Demo),
}

/// The words of `-k` except `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    GracefulStop,
    Restart,
    Graceful,
    Upgrade,
}

/// Tsubame's own commands, which httpd does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `tsubame check`
    Check,
    /// `tsubame explain`
    Explain,
    /// `tsubame ctl`
    Ctl,
    /// `tsubame completions`
    Completions,
}

/// The names of the commands.
const COMMANDS: [(&str, Command); 4] = [
    ("check", Command::Check),
    ("explain", Command::Explain),
    ("ctl", Command::Ctl),
    ("completions", Command::Completions),
];

/// Words that are no commands here, and the command line to write instead.
const OTHER_WORDS: [(&str, &str); 13] = [
    ("configtest", "-t -f FILE"),
    ("fullstatus", "ctl -f FILE status"),
    ("graceful", "-f FILE -k graceful"),
    ("graceful-stop", "-f FILE -k graceful-stop"),
    ("reload", "-f FILE -k graceful"),
    ("restart", "-f FILE -k restart"),
    ("run", "-f FILE -DFOREGROUND"),
    ("serve", "-f FILE -DFOREGROUND"),
    ("start", "-f FILE -k start"),
    ("status", "ctl -f FILE status"),
    ("stop", "-f FILE -k stop"),
    ("test", "-t -f FILE"),
    ("version", "--version"),
];

/// `tsubame help` and `tsubame help COMMAND` as `--help`.
pub(crate) fn as_options(program: &str, args: Vec<OsString>) -> Vec<OsString> {
    match &args[..] {
        [help] if help == "help" && !is_httpd_name(program) => vec!["--help".into()],
        [help, name] if help == "help" && command(program, std::slice::from_ref(name)).is_some() => {
            vec![name.clone(), "--help".into()]
        }
        _ => args,
    }
}

/// Our own command, if the first argument is one. There are none under the names of httpd.
pub(crate) fn command(program: &str, args: &[OsString]) -> Option<Command> {
    let word = args.first().filter(|_| !is_httpd_name(program))?;
    COMMANDS.into_iter().find(|(name, _)| name == word).map(|(_, command)| command)
}

/// The options of the demonstration.
#[derive(Debug, Default)]
pub(crate) struct Demo {
    /// `--port`
    pub(crate) port: Option<u16>,
    /// The directory to serve; without one, the small demonstration site.
    pub(crate) root: Option<OsString>,
}

/// The outcome of [`parse`].
pub(crate) enum Parsed {
    /// Continue with these options.
    Run(Box<Options>),
    /// Exit; the output is complete.
    Done(ExitCode),
}

impl Options {
    /// The options of an empty command line.
    pub(crate) fn new(program: &str, args: &[OsString]) -> Options {
        let args = args.iter().map(|arg| arg.to_string_lossy().into_owned());
        let line: Vec<String> = std::iter::once(program.to_string()).chain(args).collect();
        Options {
            program: program.to_string(),
            action: Action::Start,
            server_root: None,
            file: None,
            before: Vec::new(),
            after: Vec::new(),
            defines: Vec::new(),
            level: None,
            errors: None,
            line: line.join(" "),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        }
    }

    /// Whether `-D` or another option defined a name.
    pub(crate) fn defined(&self, name: &str) -> bool {
        self.defines.iter().any(|have| have == name)
    }

    /// Applies `-t`, which makes no difference to `-V` and `-L`.
    fn check(&mut self) {
        if !matches!(self.action, Action::Settings | Action::Directives) {
            self.action = Action::Check;
        }
    }
}

/// The file name by which the server was called: `apache2`, `httpd`, `tsubame`.
pub(crate) fn program_name() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&called).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "tsubame".into())
}

/// The program as it was called, for a shell: by its path if it was not found in `PATH`.
pub(crate) fn called() -> String {
    let called = std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    match called.chars().all(|c| c.is_alphanumeric() || "/._+-".contains(c)) {
        true => called,
        false => format!("'{}'", called.replace('\'', r"'\''")),
    }
}

/// Parses the command line. Options are httpd's, with its messages and exit statuses. `--port`, `--help`, `--version`
/// and a directory are ours; they cannot be combined with httpd's options.
pub(crate) fn parse(program: &str, args: Vec<OsString>) -> Parsed {
    let mut options = Options::new(program, &args);
    let mut demo = Demo::default();
    match read(&mut options, &mut demo, lexopt::Parser::from_args(args)) {
        Ok(None) => {}
        Ok(Some(done)) => return Parsed::Done(done),
        Err(bad) => return refused(program, &demo, &bad),
    }
    // Options that show something do not start a server, with or without `-t`.
    let shown = SHOWN_BY.iter().any(|name| options.defined(name));
    if shown && matches!(options.action, Action::Start | Action::Signal(_)) {
        options.action = Action::Check;
    }
    if shown || matches!(options.action, Action::Settings | Action::Directives) {
        options.defines.push(server::core_module::SHOWN.into());
    }
    let httpd = options.server_root.is_some()
        || options.file.is_some()
        || !matches!(options.action, Action::Start)
        || !options.before.is_empty()
        || !options.after.is_empty()
        || !options.defines.is_empty();
    let ours = demo.port.is_some() || demo.root.is_some();
    if ours && (httpd || is_httpd_name(program)) {
        return refused(program, &demo, &Bad::Mixed);
    }
    if let Some(word) = demo.root.as_ref().map(|root| root.to_string_lossy()).filter(|word| is_no_directory(word)) {
        return refused(program, &demo, &Bad::Command(word.into_owned()));
    }
    if !httpd && !is_httpd_name(program) {
        options.action = Action::Demo(demo);
    }
    Parsed::Run(Box::new(options))
}

/// Whether this is one of httpd's names. Under such a name the program behaves exactly like httpd.
pub(crate) fn is_httpd_name(program: &str) -> bool {
    matches!(program, "httpd" | "apache2" | "apache")
}

/// An error in the command line.
enum Bad {
    /// An unknown option, with its `-` or `--`.
    Option(String),
    /// An option without its value.
    Missing(char),
    /// An unknown word for `-k`; `None` if it is missing.
    Signal(Option<String>),
    /// An unknown level for `-e`.
    Level(String),
    /// An invalid value for `--port`; `None` if it is missing.
    Port(Option<String>),
    /// An unknown command.
    Command(String),
    /// An unexpected argument.
    Word(OsString),
    /// A directory or `--port` together with options of httpd.
    Mixed,
    /// Not an error: `-h`.
    Help,
    /// An error of the parser.
    Other(lexopt::Error),
}

/// Reports an error in the command line: in httpd's words under one of its names, otherwise in ours.
fn refused(program: &str, demo: &Demo, bad: &Bad) -> Parsed {
    let text = match bad {
        _ if is_httpd_name(program) => format!("{}{}", bad.of_httpd(program), usage(program)),
        Bad::Help => usage(program),
        _ => format!("{program}: {}\n{}", bad.reason(program, demo), short_usage(program)),
    };
    output::complain(text.trim_end_matches('\n'));
    Parsed::Done(ExitCode::FAILURE)
}

impl Bad {
    /// The line that httpd prints above its usage.
    fn of_httpd(&self, program: &str) -> String {
        match self {
            Bad::Option(option) => format!("{program}: illegal option -- {}\n", option.trim_start_matches('-')),
            Bad::Signal(_) => format!("{program}: illegal option -- k\n"),
            Bad::Missing(option) => format!("{program}: option requires an argument -- {option}\n"),
            _ => String::new(),
        }
    }

    /// The reason, with the most similar name.
    fn reason(&self, program: &str, demo: &Demo) -> String {
        let first = demo.root.as_ref().map(|root| root.to_string_lossy()).unwrap_or_default();
        if COMMANDS.iter().any(|(name, _)| *name == first) {
            return format!("'{first}' is a command: put it before all options, as in {program} {first} -f FILE ...");
        }
        if first == "help"
            && let Bad::Word(word) = self
        {
            return unknown_command(program, &word.to_string_lossy());
        }
        if is_no_directory(&first) {
            return unknown_command(program, &first);
        }
        match self {
            Bad::Command(word) => unknown_command(program, word),
            Bad::Option(option) => misuse::unknown("option", option, OPTIONS.into_iter()),
            Bad::Missing(option) => format!("option '-{option}' needs a value"),
            Bad::Signal(None) => format!("option '-k' needs one of {}", SIGNALS.map(|(word, _)| word).join(", ")),
            Bad::Signal(Some(word)) if word == "reload" => {
                "unknown word after -k 'reload': did you mean 'graceful'?".into()
            }
            Bad::Signal(Some(word)) => misuse::unknown("word after -k", word, SIGNALS.iter().map(|(word, _)| *word)),
            Bad::Level(word) => misuse::unknown("level", word, Level::NAMES.iter().map(|(name, _)| *name)),
            Bad::Port(None) => "option '--port' needs a number".into(),
            Bad::Port(Some(word)) => format!("'{word}' is not a port: --port takes a number from 1 to 65535"),
            Bad::Word(word) => format!("unexpected word '{}'", word.to_string_lossy()),
            Bad::Mixed => {
                "--port and a directory cannot be combined with a configuration (-f, -d, -C, -c, -D, -k, -t)".into()
            }
            Bad::Other(error) => misuse::reason(error, ""),
            Bad::Help => String::new(),
        }
    }
}

/// Whether a word looks like a command rather than a path, and no directory has this name.
fn is_no_directory(word: &str) -> bool {
    !word.is_empty() && !word.contains(['/', '.']) && !Path::new(word).exists()
}

/// A message about an unknown command, with what was probably meant.
fn unknown_command(program: &str, word: &str) -> String {
    if let Some((_, line)) = OTHER_WORDS.iter().find(|(other, _)| *other == word) {
        return format!("unknown command '{word}': write `{program} {line}`");
    }
    let names = || COMMANDS.iter().map(|(name, _)| *name);
    match nearest_name(names(), word) {
        Some(_) => misuse::unknown("command", word, names()),
        None => format!("unknown command '{word}', and no directory has this name"),
    }
}

/// Our own options.
const OPTIONS: [&str; 3] = ["--port", "--help", "--version"];

/// The usage in three lines.
fn short_usage(program: &str) -> String {
    format!(
        "Usage: {program} [--port N] [DIR]                       serve a directory, or the demonstration
       {program} -f FILE [-t | -S | -M | -k start|...]  what httpd does
       {program} check|explain|ctl ...                  look into a configuration, or a running server
`{program} --help` says more.
"
    )
}

/// The words of `-k`, and the signals that they stand for.
pub(crate) const SIGNALS: [(&str, Option<Signal>); 6] = [
    ("start", None),
    ("stop", Some(Signal::Stop)),
    ("restart", Some(Signal::Restart)),
    ("graceful", Some(Signal::Graceful)),
    ("graceful-stop", Some(Signal::GracefulStop)),
    ("upgrade", Some(Signal::Upgrade)),
];

fn read(options: &mut Options, demo: &mut Demo, mut parser: lexopt::Parser) -> Result<Option<ExitCode>, Bad> {
    // The parser itself reports only missing or unexpected values.
    let value = |parser: &mut lexopt::Parser| parser.value().map(|v| v.to_string_lossy().into_owned());
    while let Some(arg) = parser.next().map_err(Bad::Other)? {
        match arg {
            Short(option @ ('d' | 'f' | 'C' | 'c' | 'D')) => {
                configuration_option(options, option, &mut parser).map_err(|_| Bad::Missing(option))?;
            }
            Short('e') => {
                let word = value(&mut parser).map_err(|_| Bad::Missing('e'))?;
                options.level = Some(Level::parse(&word).ok_or(Bad::Level(word))?);
            }
            Short('E') => options.errors = Some(value(&mut parser).map_err(|_| Bad::Missing('E'))?),
            Short('k') => {
                let word = value(&mut parser).map_err(|_| Bad::Signal(None))?;
                let known = SIGNALS.iter().find(|(name, _)| *name == word);
                let (_, signal) = known.ok_or(Bad::Signal(Some(word)))?;
                if signal.is_none() {
                    options.defines.push(EXPLICIT_START.into());
                }
                // Options that show something take precedence, in whichever order they are given.
                if matches!(options.action, Action::Start | Action::Signal(_)) {
                    options.action = signal.map_or(Action::Start, Action::Signal);
                }
            }
            Short('t') => options.check(),
            Short('S') => {
                options.check();
                options.defines.extend(["DUMP_VHOSTS".into(), "DUMP_RUN_CFG".into()]);
            }
            Short('M') => {
                options.check();
                options.defines.push("DUMP_MODULES".into());
            }
            Short('T') => options.defines.push(server::core_module::NO_ROOT_CHECK.into()),
            Short('X') => options.defines.push("DEBUG".into()),
            Short(now @ ('v' | 'l')) => {
                options.action = if now == 'v' { Action::Version } else { Action::CompiledIn };
                return Ok(None);
            }
            Short('V') => options.action = Action::Settings,
            Short('L') => options.action = Action::Directives,
            Short('h') => return Err(Bad::Help),
            Long("help") => {
                output::print(&help(&options.program));
                return Ok(Some(ExitCode::SUCCESS));
            }
            Long("version") => options.action = Action::Version,
            Long("port") => {
                let port = value(&mut parser).map_err(|_| Bad::Port(None))?;
                let number = port.parse().ok().filter(|number| *number > 0);
                demo.port = Some(number.ok_or(Bad::Port(Some(port)))?);
            }
            Value(root) if demo.root.is_none() => demo.root = Some(root),
            Short(other) => return Err(Bad::Option(format!("-{other}"))),
            Long(other) => return Err(Bad::Option(format!("--{other}"))),
            Value(word) => return Err(Bad::Word(word)),
        }
    }
    Ok(None)
}

/// Parses the options that select the configuration, for all commands.
pub(crate) fn configuration_option(
    options: &mut Options,
    option: char,
    parser: &mut lexopt::Parser,
) -> Result<(), lexopt::Error> {
    if !matches!(option, 'd' | 'f' | 'C' | 'c' | 'D') {
        return Err(Short(option).unexpected());
    }
    let value = parser.value()?.to_string_lossy().into_owned();
    match option {
        'd' => options.server_root = Some(value),
        'f' => options.file = Some(value),
        'C' => options.before.push(value),
        'c' => options.after.push(value),
        _ => options.defines.push(value),
    }
    Ok(())
}

/// The names for `-D` that show something instead of starting a server. `DUMP_CONFIG` and `DUMP_CERTS` work only with
/// `-t`.
const SHOWN_BY: [&str; 4] = ["DUMP_VHOSTS", "DUMP_RUN_CFG", "DUMP_MODULES", "DUMP_INCLUDES"];

/// The name that `-k start` defines, to distinguish it from no option at all.
pub(crate) const EXPLICIT_START: &str = "-k start";

/// httpd's own usage text.
fn usage(program: &str) -> String {
    let blank = " ".repeat(program.len());
    format!(
        "Usage: {program} [-D name] [-d directory] [-f file]
       {blank} [-C \"directive\"] [-c \"directive\"]
       {blank} [-k start|restart|graceful|graceful-stop|stop]
       {blank} [-v] [-V] [-h] [-l] [-L] [-t] [-T] [-S] [-X]
Options:
  -D name            : define a name for use in <IfDefine name> directives
  -d directory       : specify an alternate initial ServerRoot
  -f file            : specify an alternate ServerConfigFile
  -C \"directive\"     : process directive before reading config files
  -c \"directive\"     : process directive after reading config files
  -e level           : show startup errors of level (see LogLevel)
  -E file            : log startup errors to file
  -v                 : show version number
  -V                 : show compile settings
  -h                 : list available command line options (this page)
  -l                 : list compiled in modules
  -L                 : list available configuration directives
  -t -D DUMP_VHOSTS  : show parsed vhost settings
  -t -D DUMP_RUN_CFG : show parsed run settings
  -S                 : a synonym for -t -D DUMP_VHOSTS -D DUMP_RUN_CFG
  -t -D DUMP_MODULES : show all loaded modules 
  -M                 : a synonym for -t -D DUMP_MODULES
  -t -D DUMP_INCLUDES: show all included configuration files
  -t                 : run syntax check for config files
  -T                 : start without DocumentRoot(s) check
  -X                 : debug mode (only one worker, do not detach)
"
    )
}

/// The help page.
pub(crate) fn help(program: &str) -> String {
    format!(
        "{program}: a web server that reads Apache httpd 2.4 configuration unchanged

A first look, with an embedded configuration:
  {program}                      serve a small demonstration site on http://127.0.0.1:8080/
  {program} --port 8000 DIR      serve a directory on another port

Your own configuration:
  {program} check -f /etc/apache2/apache2.conf             all that is wrong with it, and what to write instead
  {program} -t -f /etc/apache2/apache2.conf                check it as httpd does: Syntax OK, or the errors
  {program} -S -f /etc/apache2/apache2.conf                show its virtual hosts and run settings
  {program} -f /etc/apache2/apache2.conf -DFOREGROUND      serve it, in the foreground
  {program} -f /etc/apache2/apache2.conf -k start          serve it as a daemon; then -k graceful, -k stop ...
  {program} -f /etc/apache2/apache2.conf -k upgrade        after its file was replaced: the new program takes over

Know what is in effect ({program} check --help, explain --help, ctl --help):
  {program} explain -f /etc/apache2/apache2.conf URL       why a request is answered as it is
  {program} explain -f /etc/apache2/apache2.conf --mpm     what the numbers of processes and threads come to
  {program} ctl -f /etc/apache2/apache2.conf status        what the running server does; also diff, config, log-level ...
  {program} completions bash|zsh|fish                      completion for your shell

{}
Names for -D that {program} itself looks at:
  FOREGROUND, NO_DETACH : do not become a daemon
  DUMP_CONFIG           : with -t and mod_info, show the configuration as it was read
",
        usage(program)
            .trim_start_matches("Usage: ")
            .split_once("Options:")
            .map_or("", |(_, options)| options)
            .trim_start_matches('\n')
    )
}
