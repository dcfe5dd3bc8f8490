//! `tsubame explain`: shows which configuration is in effect, for a request or for the numbers of processes and
//! threads, and why.

mod brief;
mod directives;
mod each;
mod effective;
mod json;
mod numbers;
mod text;
mod verdict;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use lexopt::prelude::*;
use mpm::settings::{Listen, MpmSettings};
use mpm::{Chosen, Fixed};
use server::Server;
use server::explain::{Explainer, Question};

pub(crate) use effective::{everything, module_ids};
pub(crate) use json::origin;

use crate::cli::{self, CONFIGURATION, HelpPage, Options, Value, misuse, with, word};
use crate::config::{self, ConfigSource};
use crate::diagnosis::print;
use crate::output;
use crate::style::Style;

/// What the command line of `tsubame explain` asks for.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// The URL or path.
    url: Option<String>,
    /// `--mpm`: explain the numbers of processes and threads instead of a request.
    numbers: bool,
    /// `--config`: show the whole configuration instead of the part that applies to a request.
    config: bool,
    method: Option<String>,
    host: Option<String>,
    fields: Vec<(String, String)>,
    from: Option<IpAddr>,
    to: Option<SocketAddr>,
    json: bool,
    /// `--all`: show every step, and every directive that applied to the request.
    all: bool,
    /// `--defaults`: also show defaults, and directives that do not concern requests.
    defaults: bool,
    /// `--each`: answer every line of standard input instead.
    each: bool,
}

/// The help page of `tsubame explain`.
pub(crate) static PAGE: HelpPage = HelpPage {
    name: "explain",
    purpose: "why a request is answered as it is",
    usage: &[
        "explain {} [options] URL",
        "explain {} --mpm | --config | --each",
        "ctl explain [options] URL            ask the running server instead",
    ],
    brief: &CONFIGURATION,
    text: "  tsubame explain -f /etc/apache2/apache2.conf http://www.example.com/report?year=2026

The first line is the verdict: the status that a client gets, and why. The directives that decided follow, each with its file
and line, and then what happened, in short.

URL is http://host:port/path?query, the same with https, or the path alone. Tsubame takes the request through all phases:
virtual host, aliases, sections, .htaccess files, access, type. It sends nothing and runs no script.
",
    column: 22,
    groups: &[
        (
            "Options",
            &[
                word(&["--all"], "show every step and every directive that the request met"),
                word(&["--defaults"], "the same, with directives that are not about requests, and defaults"),
                with(&["--method"], Value::Any("M"), "the method (GET)"),
                with(
                    &["--host"],
                    Value::Any("NAME"),
                    "what the client says in Host (the host of the URL, or ServerName); '': nothing, in HTTP/1.0",
                ),
                with(&["--header"], Value::Any("'NAME: V'"), "add a field; may be given more than once"),
                with(
                    &["--from"],
                    Value::Any("ADDRESS"),
                    "where the client is (127.0.0.1 or ::1, as the server's address is)",
                ),
                with(
                    &["--to"],
                    Value::Any("ADDRESS:PORT"),
                    "the address that the client connects to (that of the URL, or where the server listens)",
                ),
                word(&["--json"], "print JSON"),
            ],
        ),
        (
            "Instead of a URL",
            &[
                word(&["--mpm"], "processes, threads and connections: what you asked for, and what will run"),
                word(&["--config"], "the whole configuration: where each line stands, and what another line has replaced"),
                word(
                    &["--each"],
                    "many requests: answer each line of standard input, a JSON object with url and, if they matter, method, host, \
                     from, to, headers, with a line of JSON",
                ),
            ],
        ),
    ],
    end: "\
Exit status:
  0  there is an answer, whatever its status
  1  there is none: the configuration or the command line is wrong
",
    misuse: 1,
};

/// Runs `tsubame explain` for the configuration on disk.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let query = match misuse::wish(program, &PAGE, read(Some(&mut options), lexopt::Parser::from_args(args))) {
        Ok(query) => query,
        Err(code) => return code,
    };
    let configured = match config::read(&options, &ConfigSource::File) {
        Ok(configured) => configured,
        Err(broken) => {
            print::failure(&options, &broken);
            return ExitCode::FAILURE;
        }
    };
    let server = Arc::new(configured.loaded.server);
    // Runs with the privileges of the children: files that they cannot read must count as missing, and must not be
    // revealed to others.
    if (query.url.is_some() || query.each)
        && let Err(why) = config::become_child(&server, program)
    {
        output::complain(&format!("{program} explain: {why}"));
        return ExitCode::FAILURE;
    }
    if query.each {
        return match each::answer(server, std::io::stdin().lock(), std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                output::complain(&format!("{program} explain: {why}"));
                ExitCode::FAILURE
            }
        };
    }
    match respond(&query, server, configured.mpm, None, Style::of_output()) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            output::complain(&format!("{program} explain: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Parses the command line, including httpd's options if `options` is given. `None`: the user asked for help.
pub(crate) fn read(
    mut options: Option<&mut Options>,
    mut parser: lexopt::Parser,
) -> Result<Option<Query>, lexopt::Error> {
    let mut query = Query::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("mpm") => query.numbers = true,
            Long("config") => query.config = true,
            Long("all") => query.all = true,
            Long("each") if options.is_some() => query.each = true,
            Long("defaults") => (query.all, query.defaults) = (true, true),
            Long("json") => query.json = true,
            Long("method") => query.method = Some(parser.value()?.string()?),
            Long("host") => query.host = Some(parser.value()?.string()?),
            Long("header") => {
                let field = parser.value()?.string()?;
                let (name, value) = field.split_once(':').ok_or("a header is 'NAME: VALUE'")?;
                match name.trim() {
                    name if name.eq_ignore_ascii_case("Host") => query.host = Some(value.trim().to_string()),
                    name => query.fields.push((name.to_string(), value.trim().to_string())),
                }
            }
            Long("from") => query.from = Some(parser.value()?.parse()?),
            Long("to") => query.to = Some(parser.value()?.parse()?),
            Value(url) if query.url.is_none() => query.url = Some(url.string()?),
            Short(option) => match &mut options {
                Some(options) => cli::configuration_option(options, option, &mut parser)?,
                None => return Err(arg.unexpected()),
            },
            arg => return Err(arg.unexpected()),
        }
    }
    let asked = [query.url.is_some(), query.numbers, query.config, query.each];
    if asked.into_iter().filter(|asked| *asked).count() != 1 {
        return Err("name one thing to explain: a URL, --mpm, --config or --each".into());
    }
    Ok(Some(query))
}

/// Answers a query for this server. `fixed` holds the numbers that are fixed while it runs. `Err`: why the query cannot
/// be answered.
pub(crate) fn respond(
    query: &Query,
    server: Arc<Server>,
    mpm: Chosen,
    fixed: Option<Fixed>,
    style: Style,
) -> Result<String, String> {
    if query.numbers {
        let explained = mpm.explain(&server.main().settings, fixed);
        return Ok(if query.json { numbers::json(&explained) } else { numbers::text(&explained, style) });
    }
    if query.config {
        return Ok(everything(&server, query.json, style));
    }
    // A request borrows the server for the lifetime of the process, and this process gives only one answer.
    let server: &'static Server = Box::leak(Box::new(server));
    let question = question(query, server)?;
    let doubt = unreachable(server, query, &question);
    let explanation = match Explainer::new(server).explain(&question) {
        Ok(explanation) => explanation,
        Err(refused) if query.json => return Ok(json::of_refused(&question, doubt.as_deref(), &refused)),
        Err(refused) => return Ok(text::of_refused(&question, doubt.as_deref(), &refused, style)),
    };
    let directives = |settings| directives::of(settings, server, query.defaults);
    let paths: Vec<_> = explanation.paths.iter().map(|settings| (settings, directives(settings))).collect();
    let doubt = doubt.as_deref();
    Ok(match (query.json, query.all) {
        (true, _) => json::of(&question, doubt, &explanation, &paths),
        (false, true) => text::of(&question, doubt, &explanation, &paths, style),
        (false, false) => brief::of(&question, doubt, &explanation, &paths, style),
    })
}

fn question(query: &Query, server: &Server) -> Result<Question, String> {
    let url = query.url.as_deref().unwrap_or_default();
    let (host, target) = match url.split_once("://") {
        Some((scheme, rest)) if !url.starts_with('/') => {
            let Some((_, usual)) = SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)) else {
                return Err(format!("{scheme}: a URL begins with http:// or https://"));
            };
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some((rest[..end].to_string(), *usual)), &rest[end..])
        }
        _ => (None, url),
    };
    let target = target.split_once('#').map_or(target, |(target, _)| target);
    let target = if target.is_empty() || target.starts_with('?') { format!("/{target}") } else { target.to_string() };
    if !target.starts_with('/') && target != "*" {
        return Err(format!("{target}: a path begins with a slash"));
    }
    let named = host.as_ref().map(|(host, usual)| {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()),
            _ => (host.as_str(), None),
        };
        (name.trim_start_matches('[').trim_end_matches(']').parse().ok(), port.unwrap_or(*usual))
    });
    let local = query.to.unwrap_or_else(|| match named {
        Some((ip, port)) => listening(server, ip, Some(port), query.from),
        None => listening(server, None, None, query.from),
    });
    let host = query.host.clone().or(host.map(|(host, _)| host)).unwrap_or_else(|| server.main().name.clone());
    let host = Some(host).filter(|host| !host.is_empty());
    let client = SocketAddr::new(query.from.unwrap_or(loopback(is_ipv6(local.ip()))), 50000);
    let method = query.method.clone().unwrap_or_else(|| "GET".into());
    Ok(Question { method, target, host, fields: query.fields.clone(), client, local })
}

/// The URL schemes, with their default ports.
const SCHEMES: [(&str, u16); 2] = [("http", HTTP_PORT), ("https", 443)];
const HTTP_PORT: u16 = 80;

/// Whether an address is IPv6; both addresses of a connection are of the same family.
fn is_ipv6(ip: IpAddr) -> bool {
    ip.to_canonical().is_ipv6()
}

fn loopback(ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
}

/// An address that the server listens on: the given address and port, with the missing part taken from the first
/// address that a client at `from` can connect to.
fn listening(server: &Server, ip: Option<IpAddr>, port: Option<u16>, from: Option<IpAddr>) -> SocketAddr {
    let near = loopback(from.is_some_and(is_ipv6));
    let open = |line: &Listen| -> Vec<SocketAddr> {
        let own = line.addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
        let mut own: Vec<_> = own.map(|ip| SocketAddr::new(ip, line.port)).collect();
        if own.is_empty() {
            own.push(SocketAddr::new(near, line.port));
        }
        own
    };
    let lines = server.main().settings.get::<MpmSettings>().listen.iter();
    let all: Vec<SocketAddr> = lines.filter(|line| port.is_none_or(|port| line.port == port)).flat_map(open).collect();
    let meets = |own: &&SocketAddr| from.is_none_or(|from| is_ipv6(own.ip()) == is_ipv6(from));
    let found = all.iter().find(meets).or(all.first()).copied();
    let own = found.unwrap_or(SocketAddr::new(near, port.unwrap_or(HTTP_PORT)));
    SocketAddr::new(ip.unwrap_or(own.ip()), own.port())
}

/// The scheme of the URL, if it has one.
fn asked_scheme(query: &Query) -> Option<&'static str> {
    let (scheme, _) = query.url.as_deref()?.split_once("://")?;
    SCHEMES.iter().map(|(known, _)| *known).find(|known| scheme.eq_ignore_ascii_case(known))
}

/// The reason why no client can send this request, if there is one.
fn unreachable(server: &Server, query: &Query, question: &Question) -> Option<String> {
    let Question { client, local, .. } = question;
    if is_ipv6(client.ip()) != is_ipv6(local.ip()) {
        return Some(format!("a client at {} cannot connect to {local}", client.ip()));
    }
    let lines = server.main().settings.get::<MpmSettings>().listen.entries();
    if lines.iter().any(|(line, _)| line.hears(*local)) {
        let expected = server.host_at(*local, None).0.scheme_of_connections();
        let scheme = asked_scheme(query).filter(|scheme| *scheme != expected)?;
        return Some(format!("connections to {local} are {expected}, not {scheme}"));
    }
    let wanted = match lines.iter().any(|(line, _)| line.port == local.port()) {
        true => local.to_string(),
        false => format!("port {}", local.port()),
    };
    let there: Vec<String> = lines.iter().map(|(line, origin)| format!("{line} ({origin})")).collect();
    let there = if there.is_empty() { "nothing".to_string() } else { there.join(", ") };
    Some(format!("no Listen line has {wanted}; the server listens at {there}"))
}
