//! The sections of the core: their matching, and the settings inside (Apache manual, "Configuration Sections").

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use conf::expr::Expr;
use conf::fnmatch::is_pattern;
use conf::pattern::{Flags, Regex};
use conf::words::{next_word, words};
use conf::{Allowed, Cmd, Failure, InArgument as _, Level, Limited, Refusal, SettingsMap};

use crate::settings::core::{CoreDir, CoreServer, HostAddress, HostDraft, Methods};
use crate::settings::section::{Matcher, Section};

/// `<Directory>`, `<DirectoryMatch>`.
pub(super) fn directory(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    let matcher = matcher(cmd, argument, "<DirectoryMatch", |path| {
        if path.starts_with('/') { conf::paths::join("/", path).trim_end_matches('/').to_string() } else { path.into() }
    })?;
    let section = section(cmd, matcher, argument)?;
    Ok(cmd.server_push(|s: &mut CoreServer| &mut s.directories, section)?)
}

/// `<Location>`, `<LocationMatch>`.
pub(super) fn location(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    let matcher = matcher(cmd, argument, "<LocationMatch", str::to_string)?;
    let section = section(cmd, matcher, argument)?;
    Ok(cmd.server_push(|s: &mut CoreServer| &mut s.locations, section)?)
}

/// `<Files>`, `<FilesMatch>`.
pub(super) fn files(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    in_full(cmd)?;
    for outer in ["<Location", "<LocationMatch"] {
        if cmd.place.inside(outer) {
            return Err(cmd.cannot_occur(&format!("{outer}> section")).into());
        }
    }
    let matcher = matcher(cmd, argument, "<FilesMatch", str::to_string)?;
    let section = section(cmd, matcher, argument)?;
    Ok(cmd.push(|d: &mut CoreDir| &mut d.files, section)?)
}

/// `<If>`, `<ElseIf>`, `<Else>`.
pub(super) fn condition(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    in_full(cmd)?;
    let mut rest = argument;
    let text = next_word(&mut rest);
    let (matcher, after) = match cmd.row.name {
        "<Else" if argument.is_empty() => (Matcher::Else, true),
        "<Else" => return Err("<Else> sections do not take an argument".into()),
        name => {
            if text.is_empty() {
                return Err(Refusal::missing(format!("{name}> directive requires additional arguments")).into());
            }
            if !rest.is_empty() {
                return Err(Refusal::surplus(2, format!("Multiple {name}> arguments not (yet) supported.")).into());
            }
            let expr = Expr::parse_with(&text, cmd.expr_options()).map_err(|error| {
                Refusal::expression(1, 0, &error, format!("Cannot parse condition clause: {error}"))
            })?;
            (Matcher::If(Arc::new(expr)), name == "<ElseIf")
        }
    };
    if after && !cmd.dir.get::<CoreDir>().ifs.iter().next_back().is_some_and(|s| !matches!(s.matcher, Matcher::Else)) {
        return Err("<Else> or <ElseIf> section without previous <If> or <ElseIf> section in same scope".into());
    }
    let mut section = section(cmd, matcher, "")?;
    if let Some(section) = Arc::get_mut(&mut section) {
        section.after = after;
    }
    Ok(cmd.push(|d: &mut CoreDir| &mut d.ifs, section)?)
}

/// A section has settings of its own, so it cannot be where lines apply only in part: inside `<Limit>`, or inside the
/// containers of mod_authz_core.
fn in_full(cmd: &Cmd<'_>) -> Result<(), Failure> {
    const PARTIAL: [&str; 5] = ["<Limit", "<LimitExcept", "<RequireAll", "<RequireAny", "<RequireNone"];
    match PARTIAL.iter().any(|outer| cmd.place.inside(outer)) {
        true => Err(cmd.cannot_occur("<Limit> or <LimitExcept> section").into()),
        false => Ok(()),
    }
}

/// `<Limit>`, `<LimitExcept>`: no settings of their own; the lines inside apply to some methods.
pub(super) fn limit(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    if cmd.place.limited.is_some() {
        return Err(cmd.cannot_occur("<Limit> or <LimitExcept> section").into());
    }
    let methods = words(argument);
    if methods.is_empty() {
        return Err(Refusal::missing(format!("{}> directive requires additional arguments", cmd.row.name)).into());
    }
    let except = cmd.row.name.eq_ignore_ascii_case("<LimitExcept");
    if let Some(at) = methods.iter().position(|method| method == "TRACE").filter(|_| !except) {
        return Err(Refusal::argument(at + 1, "TRACE cannot be controlled by <Limit>, see TraceEnable").into());
    }
    for (method, number) in methods.iter().zip(1..) {
        let known = method == "TRACE" || cmd.context.language.kept.get::<Methods>().knows(method);
        if !known && cmd.place.htaccess {
            let name = cmd.row.name;
            let message = format!("Could not register method '{method}' for {name} from .htaccess configuration");
            return Err(Refusal::argument(number, message).into());
        }
        if !known {
            Methods::add(cmd, method);
        }
    }
    let mut place = cmd.inner_place(cmd.place.allowed, None);
    place.limited = Some(Arc::new(Limited { except, methods }));
    let children = cmd.node.children.as_deref().unwrap_or_default();
    Ok(conf::apply(children, cmd.server, cmd.dir, &place, cmd.context)?)
}

/// `<VirtualHost>`.
pub(super) fn virtual_host(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    let names = words(argument);
    if names.is_empty() {
        return Err(Refusal::missing("<VirtualHost> directive requires additional arguments").into());
    }
    let mut addresses = Vec::new();
    for (name, number) in names.iter().zip(1..) {
        addresses.extend(host_addresses(cmd, name).in_argument(number)?);
    }
    let mut place = cmd.inner_place(cmd.place.allowed, None);
    place.virtual_host = true;
    let (mut server, mut dir) = (SettingsMap::default(), SettingsMap::default());
    let children = cmd.node.children.as_deref().unwrap_or_default();
    conf::apply(children, &mut server, &mut dir, &place, cmd.context)?;
    let draft = HostDraft { addresses, server, dir, main_port: main_port(cmd) };
    Ok(cmd.server_push(|s: &mut CoreServer| &mut s.virtual_hosts, draft)?)
}

/// The port of the main server's name, if that has been read: as in Apache, a virtual host without a port uses it.
fn main_port(cmd: &Cmd<'_>) -> Option<u16> {
    cmd.server.get::<CoreServer>().server_name.get().and_then(|name| name.port)
}

/// The addresses of one word of a `<VirtualHost>` line.
fn host_addresses(cmd: &mut Cmd<'_>, word: &str) -> Result<Vec<HostAddress>, String> {
    if word.is_empty() {
        return Ok(Vec::new());
    }
    let (bare, any_port) = word.strip_suffix(":*").map_or((word, false), |bare| (bare, true));
    let (name, port) = name_and_port(bare)?;
    let port = if any_port || name == "*" { port } else { port.or_else(|| main_port(cmd)) };
    let any = vec![HostAddress { ip: None, port }];
    if name == "*" || name.eq_ignore_ascii_case("_default_") {
        return Ok(any);
    }
    let literal = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    if let Ok(ip) = literal.parse::<IpAddr>() {
        let ip = ip.to_canonical();
        return Ok(if ip.is_unspecified() { any } else { vec![HostAddress { ip: Some(ip), port }] });
    }
    match cmd.context.system.resolve(name) {
        Ok(ips) if !ips.is_empty() => Ok(ips.into_iter().map(|ip| HostAddress { ip: Some(ip), port }).collect()),
        _ => {
            let text = format!(
                "(EAI 3)Temporary failure in name resolution: AH00547: Could not resolve host name {name} -- ignoring!"
            );
            cmd.context.note("core", Level::Error, text);
            Ok(Vec::new())
        }
    }
}

/// Splits a word of a `<VirtualHost>` line like Apache's library: the port is the digits at its end, after a colon or
/// alone.
fn name_and_port(word: &str) -> Result<(&str, Option<u16>), String> {
    const BAD: &str = "The address or port is invalid";
    let before = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &word[before.len()..];
    let port = || digits.parse().ok().filter(|port| *port != 0).ok_or(BAD);
    let (name, port) = match before.strip_suffix(':') {
        _ if before.is_empty() => {
            port()?;
            return Err("Missing address for VirtualHost".into());
        }
        Some("") => return Err(BAD.into()),
        Some(name) if !digits.is_empty() => (name, Some(port()?)),
        _ => (word, None),
    };
    if let Some(literal) = name.strip_prefix('[') {
        let address = literal.strip_suffix(']').and_then(|literal| literal.split('%').next());
        if address.is_none_or(|address| address.parse::<Ipv6Addr>().is_err()) {
            return Err(BAD.into());
        }
    }
    Ok((name, port))
}

/// The matcher for the argument of a section with paths, wildcards or expressions.
fn matcher(cmd: &Cmd<'_>, argument: &str, regex_name: &str, clean: fn(&str) -> String) -> Result<Matcher, Refusal> {
    let name = cmd.row.name;
    let mut rest = argument;
    let mut word = next_word(&mut rest);
    if word.is_empty() && argument.is_empty() {
        return Err(Refusal::missing(format!("{name}> directive requires additional arguments")));
    }
    let mut number = 1;
    let mut regex = name.eq_ignore_ascii_case(regex_name);
    if word == "~" {
        (regex, number) = (true, 2);
        // As in Apache, a missing expression is an empty one, which matches anywhere.
        word = next_word(&mut rest);
    }
    if !rest.is_empty() {
        let message = format!("Multiple {name}> arguments not (yet) supported.");
        return Err(Refusal::surplus(number + 1, message));
    }
    if regex {
        return Regex::new(&word, Flags::default())
            .map(Matcher::Regex)
            .map_err(|error| Refusal::pattern(number, 0, &error, "Regex could not be compiled"));
    }
    let path = clean(&word);
    Ok(if is_pattern(&path) { Matcher::Wild(path) } else { Matcher::Path(path) })
}

/// Applies the lines inside a section.
fn section(cmd: &mut Cmd<'_>, matcher: Matcher, argument: &str) -> Result<Arc<Section>, Failure> {
    let path = words(argument).into_iter().find(|word| word != "~");
    let place = cmd.inner_place(Allowed::IN_SECTION, path.as_deref());
    let mut dir = SettingsMap::default();
    cmd.apply_children(None, &mut dir, &place)?;
    Ok(Arc::new(Section::new(matcher, dir, cmd.origin())))
}
