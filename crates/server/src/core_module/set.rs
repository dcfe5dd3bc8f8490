//! The functions of the core's other directives. Messages are Apache's (measured on 2.4.71).

use std::time::Duration;

use conf::fnmatch::is_pattern;
use conf::values::{atoi, duration, one_of};
use conf::words::next_word;
use conf::{Cause, Cmd, InArgument as _, Level, Notice, Outcome, Refusal, Setting, Settings};

use crate::log::LogLevels;
use crate::settings::core::{CoreDir, CoreServer, ServerName, Tokens, Tri};

pub(super) fn on_off<S: Settings>(cmd: &mut Cmd<'_>, field: fn(&mut S) -> &mut Setting<bool>, value: &str) -> Outcome {
    match conf::values::on_off(value) {
        Some(on) => cmd.set(field, on),
        None => Err("parameter must be 'on' or 'off'".into()),
    }
}

pub(super) fn ignored(_: &mut Cmd<'_>, _: &str) -> Outcome {
    Ok(())
}

pub(super) fn error(_: &mut Cmd<'_>, rest: &str) -> Outcome {
    if rest.is_empty() {
        return Err("The Error directive was used with no message.".into());
    }
    let mut line = rest;
    let first = next_word(&mut line);
    Err(if line.is_empty() { first.into() } else { rest.to_string().into() })
}

pub(super) fn access_file_name(cmd: &mut Cmd<'_>, names: &[String]) -> Outcome {
    let names = names.to_vec();
    cmd.server_set(|s: &mut CoreServer| &mut s.access_file_names, names)
}

pub(super) fn document_root(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let path = cmd.context.server_relative_as_written(value);
    let check = !cmd.context.language.is_defined(NO_ROOT_CHECK);
    if check && !cmd.context.system.is_dir(&path) {
        if !cmd.place.virtual_host {
            return Err(format!("DocumentRoot '{path}' is not a directory, or is not readable").into());
        }
        let text = format!("AH00112: Warning: DocumentRoot [{path}] does not exist");
        let notice = Notice::new("core", Level::Warn, text).bare();
        cmd.context.notices.push(notice.because(Cause::NoDocumentRoot));
    }
    cmd.server_set(|s: &mut CoreServer| &mut s.document_root, path)
}

/// The name that `-T` defines.
pub const NO_ROOT_CHECK: &str = "-T";

/// Defined by the command line if a configuration is only shown (`-S`, `-M`, `-L`, `-D DUMP_...`): some files need not
/// exist then.
pub const SHOWN: &str = "-S";

pub(super) fn hostname_lookups(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("double", Tri::Other)];
    let value = one_of(value, &table).ok_or("parameter must be 'on', 'off', or 'double'")?;
    cmd.set(|d: &mut CoreDir| &mut d.hostname_lookups, value)
}

pub(super) fn server_name(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if is_pattern(value) {
        return Err(format!("Invalid ServerName \"{value}\" use ServerAlias to set multiple server names.").into());
    }
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(u16::try_from(atoi(port)).unwrap_or(0))),
        None => (rest, None),
    };
    if port == Some(0) {
        return Err(format!("The port number \"{value}\" is outside the appropriate range (i.e., 1..65535).").into());
    }
    let name = name.split('/').next().unwrap_or_default().to_string();
    let value = ServerName { https: scheme.eq_ignore_ascii_case("https"), name, port };
    cmd.server_set(|s: &mut CoreServer| &mut s.server_name, value)
}

pub(super) fn server_alias(cmd: &mut Cmd<'_>, names: &[String]) -> Outcome {
    if !cmd.place.virtual_host {
        return Err("ServerAlias only used in <VirtualHost>".into());
    }
    for name in names {
        cmd.server_push(|s: &mut CoreServer| &mut s.server_aliases, name.clone())?;
    }
    Ok(())
}

pub(super) fn error_log(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let name = name.to_string();
    cmd.server_set(|s: &mut CoreServer| &mut s.error_log, name)
}

pub(super) fn error_log_format(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    match second.filter(|second| !second.is_empty()) {
        None => {
            let format = first.to_string();
            crate::log::Format::parse(&format).in_argument(1)?;
            cmd.server_set(|s: &mut CoreServer| &mut s.error_log_format, format)
        }
        // Log lines about a connection or a request are not written separately; their formats are still checked.
        Some(format) => match one_of(first, &[("connection", ()), ("request", ())]) {
            Some(()) => crate::log::Format::check_once(format).in_argument(2),
            None => Err(Refusal::argument(1, "ErrorLogFormat type must be one of request, connection")),
        },
    }
}

pub(super) fn canonical_name(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("dns", Tri::Other)];
    let value = one_of(value, &table).ok_or("parameter must be 'on', 'off', or 'dns'")?;
    cmd.set(|d: &mut CoreDir| &mut d.canonical_name, value)
}

pub(super) fn log_level(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    const KEYWORDS: &str =
        "Log level keyword must be one of emerg/alert/crit/error/warn/notice/info/debug/trace1/.../trace8";
    let (module, level) = match word.split_once(':') {
        Some((module, level)) => (Some(module), level),
        None => (None, word),
    };
    let level = Level::parse(level).ok_or(KEYWORDS)?;
    let name = match module {
        None => None,
        Some(module) => {
            let loaded = cmd.context.language.loaded();
            let info = loaded.iter().find(|info| info.logs_as(module));
            Some(info.ok_or_else(|| format!("Cannot find module {module}"))?.log_name().to_string())
        }
    };
    let levels = match cmd.place.path {
        Some(_) => &mut cmd.dir.edit::<CoreDir>().log_level,
        None => &mut cmd.server.edit::<CoreServer>().log_level,
    };
    match name {
        Some(name) => levels.modules.set(name, level, &cmd.node.origin),
        None => {
            *levels = LogLevels::default();
            levels.all.set(level, &cmd.node.origin);
        }
    }
    Ok(())
}

pub(super) fn name_virtual_host(cmd: &mut Cmd<'_>, _: &str) -> Outcome {
    let at = &cmd.node.origin;
    let text = format!("AH00548: NameVirtualHost has no effect and will be removed in the next release {at}");
    cmd.context.notices.push(Notice::new("core", Level::Warn, text).bare());
    Ok(())
}

pub(super) fn server_tokens(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [
        ("prod", Tokens::Prod),
        ("productonly", Tokens::Prod),
        ("major", Tokens::Major),
        ("minor", Tokens::Minor),
        ("min", Tokens::Min),
        ("minimal", Tokens::Min),
        ("os", Tokens::Os),
        ("full", Tokens::Full),
    ];
    let tokens = one_of(value, &table)
        .ok_or("ServerTokens takes 1 argument: 'Prod(uctOnly)', 'Major', 'Minor', 'Min(imal)', 'OS', or 'Full'")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.server_tokens, tokens)
}

pub(super) fn regex_options(_: &mut Cmd<'_>, words: &[String]) -> Outcome {
    for (word, number) in words.iter().zip(1..) {
        let name = word.strip_prefix(['+', '-']).unwrap_or(word);
        if !["icase", "extended", "dotall", "dollar_endonly", "none"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(Refusal::argument(number, format!("RegexDefaultOptions: option '{name}' unknown")));
        }
    }
    Ok(())
}

pub(super) fn watchdog_interval(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match duration(value, Duration::from_secs(1)) {
        None => Err("Unparse-able WatchdogInterval setting".into()),
        Some(interval) if interval < Duration::from_millis(100) => {
            Err("Invalid WatchdogInterval: minimal value 100ms".into())
        }
        Some(_) => Ok(()),
    }
}
