//! The functions behind the core's directives. Messages are Apache's (measured on 2.4.71).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use conf::directive::find;
use conf::expr::StringExpr;
use conf::fnmatch::is_pattern;
use conf::values::{atoi, duration, number, one_of, seconds, strtol};
use conf::words::{next_word, words};
use conf::{Allowed, Cmd, Level, Outcome, Setting, Settings};

use crate::config::core::{
    CoreDir, CoreServer, ErrorDocument, HandlerName, LogLevels, Override, Rlimit, ServerName, Tokens, Tri, options,
};

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
    Err(if line.is_empty() { first } else { rest.to_string() })
}

pub(super) fn default_charset(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let charset = match value.to_ascii_lowercase().as_str() {
        "off" => None,
        "on" => Some("iso-8859-1".to_string()),
        _ => Some(value.to_string()),
    };
    cmd.set(|d: &mut CoreDir| &mut d.default_charset, charset)
}

pub(super) fn accept_path_info(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Some(true)), ("off", Some(false)), ("default", None)];
    let value = one_of(value, &table).ok_or("AcceptPathInfo must be set to on, off or default")?;
    cmd.set(|d: &mut CoreDir| &mut d.accept_path_info, value)
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
            return Err(format!("DocumentRoot '{path}' is not a directory, or is not readable"));
        }
        let text = format!("AH00112: Warning: DocumentRoot [{path}] does not exist");
        cmd.context.notices.push(conf::Notice { module: "core", level: Level::Warn, text, bare: true, origin: None });
    }
    cmd.server_set(|s: &mut CoreServer| &mut s.document_root, path)
}

/// The name that `-T` defines.
pub const NO_ROOT_CHECK: &str = "-T";

/// What the command line defines where a configuration is only shown (`-S`, `-M`, `-L`, `-D DUMP_...`): some files need not
/// be there.
pub const SHOWN: &str = "-S";

pub(super) fn error_document(cmd: &mut Cmd<'_>, code: &str, text: &str) -> Outcome {
    let known = u16::try_from(atoi(code)).ok().filter(|code| !http1::status::reason(*code).is_empty());
    let Some(code) = known else { return Err(format!("Unsupported HTTP response code {code}")) };
    let text = text.to_string();
    let options = cmd.expr_options();
    let expr = |text: &str| {
        StringExpr::parse_with(text, options)
            .map(Arc::new)
            .map_err(|why| format!("Cannot parse expression in ErrorDocument: {why}"))
    };
    let is_text = text.contains(char::is_whitespace);
    let document = if !is_text && text.eq_ignore_ascii_case("default") {
        ErrorDocument::Default
    } else if !is_text && text.starts_with('/') {
        ErrorDocument::Path(expr(&text)?)
    } else if !is_text && is_url(&text) {
        if code == 401 {
            let text = format!(
                "AH00113: {} cannot use a full URL in a 401 ErrorDocument directive --- ignoring!",
                cmd.node.origin
            );
            cmd.context.note("core", Level::Notice, text);
            return Ok(());
        }
        ErrorDocument::Url(expr(&text)?)
    } else {
        ErrorDocument::Text(expr(&text)?)
    };
    cmd.put(|d: &mut CoreDir| &mut d.error_documents, code, document)
}

/// Whether a text begins with a scheme.
pub fn is_url(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && !rest.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    })
}

pub(super) fn allow_override(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let warn = cmd.place.enclosing.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        name.starts_with("<location") || name.starts_with("<files") || name == "<if"
    });
    if warn {
        let at = &cmd.node.origin;
        let text = format!("AH00114: Useless use of AllowOverride in line {} of {}.", at.line, at.file());
        cmd.context.note("core", Level::Warn, text);
    }
    let mut value = Override::default();
    for word in words(rest) {
        let (key, list) = match word.split_once('=') {
            Some((key, list)) => (key, Some(list)),
            None => (word.as_str(), None),
        };
        if key.eq_ignore_ascii_case("Nonfatal") {
            match list.map(str::to_ascii_lowercase).as_deref() {
                Some("override") => value.skip_forbidden = true,
                Some("unknown") => value.skip_unknown = true,
                Some("all") => (value.skip_forbidden, value.skip_unknown) = (true, true),
                // As in Apache another word says nothing.
                Some(_) => {}
                None => return Err("=Override, =Unknown or =All expected after Nonfatal".into()),
            }
            continue;
        }
        let Some((name, class)) = options::CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) else {
            return Err(format!("Illegal override option {key}"));
        };
        match (*name, list) {
            ("Options", Some(list)) => {
                value.options = 0;
                for option in list.split(',').filter(|option| !option.is_empty()) {
                    value.options |= match option.to_ascii_lowercase().as_str() {
                        "all" => options::ALL,
                        "none" => 0,
                        _ => options::option_bits(option).ok_or_else(|| format!("Illegal option {option}"))?,
                    };
                }
            }
            ("Options", None) => value.options = options::ALL,
            ("None", _) => value.classes = Allowed::NONE,
            _ => {}
        }
        value.classes = value.classes.or(*class);
    }
    cmd.set(|d: &mut CoreDir| &mut d.allow_override, value)
}

pub(super) fn allow_override_list(cmd: &mut Cmd<'_>, names: &[String]) -> Outcome {
    let mut list = HashSet::new();
    for name in names {
        if names.len() == 1 && name.eq_ignore_ascii_case("None") {
            break;
        }
        let at = cmd.node.origin.to_string();
        match find(&cmd.context.language.loaded(), name) {
            None => {
                let text = format!("AH00116: Discarding unrecognized directive `{name}' in AllowOverrideList at {at}");
                cmd.context.note("core", Level::Warn, text);
            }
            Some((_, row)) if !row.allowed.meets(Allowed::ANY) => {
                let text = format!("AH02304: Discarding directive `{name}' not allowed in AllowOverrideList at {at}");
                cmd.context.note("core", Level::Warn, text);
            }
            Some(_) => {
                list.insert(name.to_ascii_lowercase());
            }
        }
    }
    cmd.set(|d: &mut CoreDir| &mut d.allow_override_list, Arc::new(list))
}

pub(super) fn options(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let (may, origin) = (cmd.place.options, cmd.origin());
    cmd.dir.edit::<CoreDir>().options.0.apply(&words(rest), may, &origin)
}

pub(super) fn default_type(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if !value.eq_ignore_ascii_case("none") {
        let at = &cmd.node.origin;
        let text = format!("AH00117: Ignoring deprecated use of DefaultType in line {} of {}.", at.line, at.file());
        cmd.context.note("core", Level::Warn, text);
    }
    Ok(())
}

pub(super) fn file_etag(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<CoreDir>().etag.apply(&words(rest), &origin)
}

/// A number that C's `unsigned` holds.
fn unsigned(value: &str) -> Result<u32, String> {
    let number = number(value.trim_start()).and_then(|n| u32::try_from(n).ok());
    // The brackets are Apache's.
    number.ok_or_else(|| format!("parameter must be a number between 0 and (4294967295U)): {value}"))
}

pub(super) fn read_buffer_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = unsigned(value)? as usize;
    cmd.set(|d: &mut CoreDir| &mut d.read_buffer_size, size)
}

pub(super) fn flush_max_threshold(_: &mut Cmd<'_>, value: &str) -> Outcome {
    unsigned(value).map(|_| ())
}

pub(super) fn flush_max_pipelined(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match number(value.trim_start()).filter(|n| (-1..=i64::from(i32::MAX)).contains(n)) {
        Some(_) => Ok(()),
        None => Err(format!("parameter must be a number between -1 and (2147483647): {value}")),
    }
}

pub(super) fn accept_filter(cmd: &mut Cmd<'_>, protocol: &str, filter: &str) -> Outcome {
    let (protocol, filter) = (protocol.to_ascii_lowercase(), filter.to_string());
    cmd.server.edit::<seam::AcceptFilters>().filters.set(protocol, filter, &cmd.node.origin);
    Ok(())
}

pub(super) fn hostname_lookups(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("double", Tri::Other)];
    let value = one_of(value, &table).ok_or("parameter must be 'on', 'off', or 'double'")?;
    cmd.set(|d: &mut CoreDir| &mut d.hostname_lookups, value)
}

pub(super) fn server_name(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if is_pattern(value) {
        return Err(format!("Invalid ServerName \"{value}\" use ServerAlias to set multiple server names."));
    }
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(u16::try_from(atoi(port)).unwrap_or(0))),
        None => (rest, None),
    };
    if port == Some(0) {
        return Err(format!("The port number \"{value}\" is outside the appropriate range (i.e., 1..65535)."));
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

pub(super) fn signature(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("off", Tri::Off), ("on", Tri::On), ("email", Tri::Other)];
    let value = one_of(value, &table).ok_or("ServerSignature: use one of: off | on | email")?;
    cmd.set(|d: &mut CoreDir| &mut d.signature, value)
}

pub(super) fn error_log(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let name = name.to_string();
    cmd.server_set(|s: &mut CoreServer| &mut s.error_log, name)
}

pub(super) fn error_log_format(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    match second.filter(|second| !second.is_empty()) {
        None => {
            let format = first.to_string();
            crate::log::Format::parse(&format)?;
            cmd.server_set(|s: &mut CoreServer| &mut s.error_log_format, format)
        }
        // Lines of their own for a connection or a request are not written; the formats are checked all the same.
        Some(format) => match one_of(first, &[("connection", ()), ("request", ())]) {
            Some(()) => crate::log::Format::check_once(format),
            None => Err("ErrorLogFormat type must be one of request, connection".into()),
        },
    }
}

pub(super) fn timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = seconds(value);
    cmd.server_set(|s: &mut CoreServer| &mut s.timeout, value)
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
    cmd.context.notices.push(conf::Notice { module: "core", level: Level::Warn, text, bare: true, origin: None });
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

/// A lenient number that must not be negative, with the directive's name in the message.
fn limit(cmd: &Cmd<'_>, value: &str, zero: &str) -> Result<usize, String> {
    let name = cmd.row.name;
    usize::try_from(atoi(value)).map_err(|_| format!("{name} \"{value}\" must be a non-negative integer{zero}"))
}

pub(super) fn limit_line(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = limit(cmd, value, "")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.limit_request_line, size)
}

pub(super) fn limit_field_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = limit(cmd, value, "")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.limit_request_field_size, size)
}

pub(super) fn limit_fields(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let count = limit(cmd, value, " (0 = no limit)")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.limit_request_fields, count)
}

pub(super) fn limit_body(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = number(value.trim_start()).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| match strtol(value) {
        i64::MIN | i64::MAX => "LimitRequestBody argument is not parsable.",
        _ => "LimitRequestBody requires a non-negative integer.",
    })?;
    cmd.set(|d: &mut CoreDir| &mut d.limit_request_body, size)
}

pub(super) fn limit_xml_body(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    /// What Apache can still escape: every character may become six, and an end is to follow.
    const MOST: u64 = u64::MAX / 6 - 1;
    let size = u64::try_from(strtol(value)).map_err(|_| "LimitXMLRequestBody requires a non-negative integer.")?;
    if size > MOST {
        return Err(format!("LimitXMLRequestBody must not exceed {MOST}"));
    }
    cmd.set(|d: &mut CoreDir| &mut d.limit_xml_request_body, size)
}

pub(super) fn ranges(cmd: &mut Cmd<'_>, field: fn(&mut CoreDir) -> &mut Setting<Option<u32>>, value: &str) -> Outcome {
    let default = if cmd.row.name == "MaxRanges" { 200 } else { 20 };
    let limit = match value.to_ascii_lowercase().as_str() {
        "none" => Some(0),
        "default" => Some(default),
        "unlimited" => None,
        _ => match u32::try_from(atoi(value)) {
            Ok(0) | Err(_) => {
                return Err(format!("{} requires 'none', 'default', 'unlimited' or a positive integer", cmd.row.name));
            }
            Ok(n) => Some(n),
        },
    };
    cmd.set(field, limit)
}

pub(super) fn rlimit(
    cmd: &mut Cmd<'_>,
    field: fn(&mut CoreDir) -> &mut Setting<Rlimit>,
    soft: &str,
    hard: Option<&str>,
) -> Outcome {
    // As in C, a negative number is a large one; -1 is no limit at all.
    let parse = |text: &str| (!text.eq_ignore_ascii_case("max")).then(|| strtol(text) as u64);
    cmd.set(field, (parse(soft), hard.map(parse)))
}

pub(super) fn regex_options(_: &mut Cmd<'_>, words: &[String]) -> Outcome {
    for word in words {
        let name = word.strip_prefix(['+', '-']).unwrap_or(word);
        if !["icase", "extended", "dotall", "dollar_endonly", "none"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("RegexDefaultOptions: option '{name}' unknown"));
        }
    }
    Ok(())
}

pub(super) fn internal_recursion(cmd: &mut Cmd<'_>, redirects: &str, lookups: Option<&str>) -> Outcome {
    let positive = |text: &str, what: &str| {
        let n = u32::try_from(atoi(text)).ok().filter(|n| *n > 0);
        n.ok_or_else(|| format!("The recursion limit must be greater than zero.{what}"))
    };
    let first = positive(redirects, "")?;
    let second = lookups.map_or(Ok(first), |text| positive(text, ""))?;
    cmd.server_set(|s: &mut CoreServer| &mut s.internal_recursion, (first, second))
}

pub(super) fn cgi_var(cmd: &mut Cmd<'_>, name: &str, rule: &str) -> Outcome {
    if name != "REQUEST_URI" {
        return Err(format!("Unrecognized CGI variable: \"{name}\""));
    }
    if !matches!(rule, "current-uri" | "original-uri") {
        return Err("Valid rules for REQUEST_URI are 'current-uri' and 'original-uri'".into());
    }
    cmd.put(|d: &mut CoreDir| &mut d.cgi_vars, name.to_string(), rule.to_string())
}

pub(super) fn force_type(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = (!value.eq_ignore_ascii_case("none")).then(|| value.to_ascii_lowercase());
    cmd.set(|d: &mut CoreDir| &mut d.force_type, value)
}

pub(super) fn set_handler(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let handler = if value.eq_ignore_ascii_case("none") {
        HandlerName::Name(None)
    } else if value.contains("%{") {
        let expr = StringExpr::parse_with(value, cmd.expr_options())
            .map_err(|why| format!("Can't parse expression : {why}"))?;
        HandlerName::Expr(Arc::new(expr))
    } else {
        HandlerName::Name(Some(value.to_string()))
    };
    cmd.set(|d: &mut CoreDir| &mut d.handler, handler)
}

pub(super) fn filters(cmd: &mut Cmd<'_>, field: fn(&mut CoreDir) -> &mut Setting<Vec<String>>, value: &str) -> Outcome {
    let names = value.split(';').filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"));
    let names = names.map(str::to_string).collect();
    cmd.set(field, names)
}

pub(super) fn encoded_slashes(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("nodecode", Tri::Other)];
    let value = one_of(value, &table).ok_or("AllowEncodedSlashes must be On, Off or NoDecode")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.encoded_slashes, value)
}

pub(super) fn trace(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("extended", Tri::Other)];
    let value = one_of(value, &table).ok_or("TraceEnable must be one of 'on', 'off', or 'extended'")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.trace, value)
}

pub(super) fn protocols(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.server.edit::<CoreServer>().protocols.edit(&cmd.node.origin).push(name.to_string());
    Ok(())
}

pub(super) fn protocols_honor_order(_: &mut Cmd<'_>, value: &str) -> Outcome {
    conf::values::on_off(value).map(|_| ()).ok_or_else(|| "ProtocolsHonorOrder must be 'on' or 'off'".into())
}

pub(super) fn protocol_options(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let (field, on): (fn(&mut CoreServer) -> &mut Setting<bool>, bool) = match word.to_ascii_lowercase().as_str() {
        "allow0.9" => (|s| &mut s.allow_0_9, true),
        "require1.0" => (|s| &mut s.allow_0_9, false),
        "strict" => (|s| &mut s.strict, true),
        "unsafe" => (|s| &mut s.strict, false),
        "registeredmethods" => (|s| &mut s.registered_methods, true),
        "lenientmethods" => (|s| &mut s.registered_methods, false),
        _ => {
            return Err("HttpProtocolOptions accepts 'Unsafe' or 'Strict' (default), 'RegisteredMethods' or \
                        'LenientMethods' (default), and 'Require1.0' or 'Allow0.9' (default)"
                .into());
        }
    };
    cmd.server_set(field, on)
}

pub(super) fn keep_alive_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = duration(value, Duration::from_secs(1)).ok_or("KeepAliveTimeout has wrong format")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.keep_alive_timeout, value)
}

pub(super) fn max_keep_alive_requests(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let count = u32::try_from(atoi(value)).unwrap_or(0);
    cmd.server_set(|s: &mut CoreServer| &mut s.max_keep_alive_requests, count)
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
