//! Parses the command line: options of httpd, and two of our own for a first look.

use std::ffi::OsString;
use std::process::ExitCode;

use conf::Level;
use lexopt::prelude::*;

use super::command::is_no_directory;
use super::error::{CommandLineError, refused};
use super::options::{Action, Demo, EXPLICIT_START, Options, SIGNALS, configuration_option};
use super::program::is_httpd_name;
use super::usage::help;
use crate::output;

/// The outcome of [`parse`].
pub(crate) enum Parsed {
    /// Continue with these options.
    Run(Box<Options>),
    /// Exit; the output is complete.
    Done(ExitCode),
}

/// Parses the command line. Options are httpd's, with its messages and exit statuses. `--port`, `--help`, `--version`
/// and a directory are ours; they cannot be combined with httpd's options.
pub(crate) fn parse(program: &str, args: Vec<OsString>) -> Parsed {
    let mut options = Options::new(program, &args);
    let mut demo = Demo::default();
    match read(&mut options, &mut demo, lexopt::Parser::from_args(args)) {
        Ok(None) => {}
        Ok(Some(done)) => return Parsed::Done(done),
        Err(bad) => return Parsed::Done(refused(program, &demo, &bad)),
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
        return Parsed::Done(refused(program, &demo, &CommandLineError::Mixed));
    }
    if let Some(word) = demo.root.as_ref().map(|root| root.to_string_lossy()).filter(|word| is_no_directory(word)) {
        return Parsed::Done(refused(program, &demo, &CommandLineError::Command(word.into_owned())));
    }
    if !httpd && !is_httpd_name(program) {
        options.action = Action::Demo(demo);
    }
    Parsed::Run(Box::new(options))
}

fn read(
    options: &mut Options,
    demo: &mut Demo,
    mut parser: lexopt::Parser,
) -> Result<Option<ExitCode>, CommandLineError> {
    // The parser itself reports only missing or unexpected values.
    let value = |parser: &mut lexopt::Parser| parser.value().map(|v| v.to_string_lossy().into_owned());
    while let Some(arg) = parser.next().map_err(CommandLineError::Other)? {
        match arg {
            Short(option @ ('d' | 'f' | 'C' | 'c' | 'D')) => {
                configuration_option(options, option, &mut parser).map_err(|_| CommandLineError::Missing(option))?;
            }
            Short('e') => {
                let word = value(&mut parser).map_err(|_| CommandLineError::Missing('e'))?;
                options.level = Some(Level::parse(&word).ok_or(CommandLineError::Level(word))?);
            }
            Short('E') => options.errors = Some(value(&mut parser).map_err(|_| CommandLineError::Missing('E'))?),
            Short('k') => {
                let word = value(&mut parser).map_err(|_| CommandLineError::Signal(None))?;
                let known = SIGNALS.iter().find(|(name, _)| *name == word);
                let (_, signal) = known.ok_or(CommandLineError::Signal(Some(word)))?;
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
            Short('h') => return Err(CommandLineError::Help),
            Long("help") => {
                output::print(&help(&options.program));
                return Ok(Some(ExitCode::SUCCESS));
            }
            Long("version") => options.action = Action::Version,
            Long("port") => {
                let port = value(&mut parser).map_err(|_| CommandLineError::Port(None))?;
                let number = port.parse().ok().filter(|number| *number > 0);
                demo.port = Some(number.ok_or(CommandLineError::Port(Some(port)))?);
            }
            Value(root) if demo.root.is_none() => demo.root = Some(root),
            Short(other) => return Err(CommandLineError::Option(format!("-{other}"))),
            Long(other) => return Err(CommandLineError::Option(format!("--{other}"))),
            Value(word) => return Err(CommandLineError::Word(word)),
        }
    }
    Ok(None)
}

/// The names for `-D` that show something instead of starting a server. `DUMP_CONFIG` and `DUMP_CERTS` work only with
/// `-t`.
const SHOWN_BY: [&str; 4] = ["DUMP_VHOSTS", "DUMP_RUN_CFG", "DUMP_MODULES", "DUMP_INCLUDES"];
