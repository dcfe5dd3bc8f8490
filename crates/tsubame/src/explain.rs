//! `tsubame explain`: which configuration is in effect, for a request or for the numbers of processes and threads, and why.

mod config;
mod directives;
mod json;
mod numbers;
mod text;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use lexopt::prelude::*;
use mpm::settings::MpmSettings;
use mpm::{Chosen, Fixed};
use server::Server;
use server::explain::Question;

pub(crate) use config::{everything, module_ids};
pub(crate) use json::origin;

use crate::boot::{self, Text};
use crate::cli::{self, Options};
use crate::start;
use crate::style::Style;

/// What is asked.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// The URL or path.
    url: Option<String>,
    /// `--mpm`: the numbers of processes and threads, instead of a request.
    numbers: bool,
    /// `--config`: everything, instead of what a request meets.
    config: bool,
    method: Option<String>,
    host: Option<String>,
    fields: Vec<(String, String)>,
    from: Option<IpAddr>,
    to: Option<SocketAddr>,
    json: bool,
    /// `--all`: also what holds by default, and what is not about requests.
    all: bool,
}

/// The words after `tsubame explain`.
pub(crate) const USAGE: &str = "\
tsubame explain: which configuration is in effect, and why

Usage: tsubame explain [-d directory] [-f file] [-D name] [-C line] [-c line] [options] URL
       tsubame explain [-d directory] [-f file] [-D name] [-C line] [-c line] --mpm | --config
       tsubame ctl explain [options] URL            the same of the running server

URL is http://host:port/path?query, or the path alone. The request goes through all phases of the server: virtual host,
aliases, sections, .htaccess files, access, type. Nothing is sent and no script runs.

Options:
  --method M          the method (GET)
  --host NAME         what the client says in Host, where it is not that of the URL
  --header 'NAME: V'  a further field; may be given more than once
  --from ADDRESS      where the client is (127.0.0.1)
  --to ADDRESS:PORT   the address of the server that it connects to
  --mpm               processes, threads and connections: what was asked for, and what will run
  --config            the whole configuration with the origin of each line, and what was written over
  --all               also directives that are not about requests, and those that hold by default
  --json              for programs
";

/// `tsubame explain`, with the configuration as it is on disk.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let query = match read(Some(&mut options), lexopt::Parser::from_args(args)) {
        Ok(Some(query)) => query,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("{program} explain: {why}\n`{program} explain --help` says how it is used.");
            return ExitCode::FAILURE;
        }
    };
    let configured = match boot::read(&options, &Text::File) {
        Ok(configured) => configured,
        Err(broken) => {
            boot::say_broken(&options, &broken);
            return ExitCode::FAILURE;
        }
    };
    let server = Arc::new(configured.loaded.server);
    // As who serves: what children may not read is not there for them, and must not be shown to others through their files.
    if query.url.is_some()
        && let Err(why) = become_child(&server)
    {
        eprintln!("{program} explain: {why}");
        return ExitCode::FAILURE;
    }
    match answer(&query, server, configured.mpm, None, Style::of_output()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{program} explain: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Takes on the rights of the children, where this process may.
fn become_child(server: &Server) -> Result<(), String> {
    match start::identity(&server.main().settings)? {
        Some(children) => {
            children.assume().map_err(|error| format!("{}: cannot become the user who serves", sys::describe(&error)))
        }
        None => Ok(()),
    }
}

/// Reads the words; httpd's options too, where there are `options` to be filled. `None`: help is wanted.
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
            Long("json") => query.json = true,
            Long("method") => query.method = Some(parser.value()?.string()?),
            Long("host") => query.host = Some(parser.value()?.string()?),
            Long("header") => {
                let field = parser.value()?.string()?;
                let (name, value) = field.split_once(':').ok_or("a header is 'NAME: VALUE'")?;
                query.fields.push((name.trim().to_string(), value.trim().to_string()));
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
    if [query.url.is_some(), query.numbers, query.config].into_iter().filter(|asked| *asked).count() != 1 {
        return Err("one of these is to be explained: a URL, --mpm, --config".into());
    }
    Ok(Some(query))
}

/// Answers with this server, for which some numbers are `fixed` if it runs. `Err`: it cannot be asked, and why.
pub(crate) fn answer(
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
    // A request borrows the server for as long as the process lives, and this one lives for one answer.
    let server: &'static Server = Box::leak(Box::new(server));
    let question = question(query, server)?;
    let explanation = server::explain::explain(server, &question)?;
    let directives = |settings| directives::of(settings, server, query.all);
    let paths: Vec<_> = explanation.paths.iter().map(|settings| (settings, directives(settings))).collect();
    Ok(match query.json {
        true => json::of(&question, &explanation, &paths),
        false => text::of(&question, &explanation, &paths, style),
    })
}

fn question(query: &Query, server: &Server) -> Result<Question, String> {
    let url = query.url.as_deref().unwrap_or_default();
    let (host, target) = match url.split_once("://") {
        Some((scheme, rest)) if !url.starts_with('/') => {
            if !scheme.eq_ignore_ascii_case("http") {
                return Err(format!("{scheme}: only http is served"));
            }
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(rest[..end].to_string()), &rest[end..])
        }
        _ => (None, url),
    };
    let target = target.split_once('#').map_or(target, |(target, _)| target);
    let target = if target.is_empty() || target.starts_with('?') { format!("/{target}") } else { target.to_string() };
    if !target.starts_with('/') && target != "*" {
        return Err(format!("{target}: a path begins with a slash"));
    }
    let named = host.as_deref().map(|host| {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !host.ends_with(']') => (name, port.parse().ok()),
            _ => (host, None),
        };
        (name.trim_start_matches('[').trim_end_matches(']').parse().ok(), port.unwrap_or(HTTP_PORT))
    });
    let local = query.to.unwrap_or_else(|| match named {
        Some((ip, port)) => listening(server, ip, Some(port)),
        None => listening(server, None, None),
    });
    let host = query.host.clone().or(host).unwrap_or_else(|| server.main().name.clone());
    let client = SocketAddr::new(query.from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 50000);
    let method = query.method.clone().unwrap_or_else(|| "GET".into());
    Ok(Question { method, target, host: Some(host), fields: query.fields.clone(), client, local })
}

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// An address that the server listens on: that address and port as far as they are named, or else the first.
fn listening(server: &Server, ip: Option<IpAddr>, port: Option<u16>) -> SocketAddr {
    let all = &server.main().settings.get::<MpmSettings>().listen;
    let line = all.iter().find(|line| port.is_none_or(|port| line.port == port));
    let port = port.or(line.map(|line| line.port)).unwrap_or(80);
    let own = line.and_then(|line| line.addresses.first()).map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
    SocketAddr::new(ip.or(own).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port)
}
