//! The server's side of a conversation, in a process of its own that is a copy of the parent.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use mpm::Chosen;
use mpm::control::Request;
use server::Server;
use sys::cred::Identity;
use sys::process::Pid;

use super::{COLOURS, PATIENCE, WORDS_MAX, difference, levels, status};
use crate::boot::{self, Configured, Text};
use crate::cli::Options;
use crate::explain;
use crate::style::Style;

/// The configuration that is in effect.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) mpm: Chosen,
}

/// What a conversation has to work with.
pub(crate) struct Asked<'a> {
    pub(crate) running: &'a Running,
    pub(crate) options: &'a Options,
    pub(crate) text: &'a Text<'a>,
    pub(crate) parent: Pid,
    pub(crate) children: Option<&'a Identity>,
}

/// Answers one client; returns what the parent is to do for it.
pub(crate) fn serve(connection: OwnedFd, asked: &Asked<'_>) -> Request {
    let answered = UnixStream::from(connection);
    match converse(&answered, asked) {
        Ok(request) => request,
        Err(error) => {
            seam::log!("core", Debug, "{}: control socket", sys::describe(&error));
            Request::Nothing
        }
    }
}

fn converse(stream: &UnixStream, asked: &Asked<'_>) -> io::Result<Request> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = sys::local::peer_user(stream)?;
    // Also of who is refused: an end with something unread would take the answer away.
    let words = words(stream)?;
    let answer = match peer == 0 || peer == sys::cred::uid() {
        true => answer(words, asked),
        // The mode of the socket has seen to it already; this is for who changes that.
        false => Err("only root and the user who started the server may ask it".into()),
    };
    let mut out = stream;
    match answer {
        Ok((text, request)) => {
            write!(out, "ok\n{text}")?;
            Ok(request)
        }
        Err(text) => {
            writeln!(out, "error\n{}", text.trim_end())?;
            Ok(Request::Nothing)
        }
    }
}

fn words(stream: &UnixStream) -> io::Result<Vec<String>> {
    let mut reader = BufReader::new(Read::take(stream, WORDS_MAX));
    let mut words = Vec::new();
    loop {
        let mut word = Vec::new();
        reader.read_until(0, &mut word)?;
        if word.pop() != Some(0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if word.is_empty() {
            return Ok(words);
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
}

fn answer(mut words: Vec<String>, asked: &Asked<'_>) -> Result<(String, Request), String> {
    let style = Style(words.first().is_some_and(|word| word == COLOURS));
    if style.0 {
        words.remove(0);
    }
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let json = rest.iter().any(|word| word == "--json");
    let plain: Vec<&str> = rest.iter().map(String::as_str).filter(|word| *word != "--json").collect();
    let nothing = |text: String| Ok((text, Request::Nothing));
    let no_more = || match plain.first() {
        Some(word) => Err(format!("{command}: what is {word}?")),
        None => Ok(()),
    };
    let running = asked.running;
    match command.as_str() {
        "status" => no_more().and_then(|()| nothing(status::server(asked, json, style))),
        "scripts" => no_more().and_then(|()| nothing(status::scripts(json, style))),
        "config" => no_more().and_then(|()| nothing(explain::everything(&running.server, json, style))),
        "diff" => no_more()
            .and_then(|()| nothing(difference::of(&running.server, &on_disk(asked)?.loaded.server, json, style))),
        "explain" => nothing(explained(rest, asked, style)?),
        "log-level" => nothing(levels::change(&running.server, &plain, json)?),
        "graceful" => restart(asked, Request::Graceful, "a graceful restart"),
        "restart" => restart(asked, Request::Restart, "a restart"),
        "graceful-stop" => Ok(("the server stops when it has finished what it serves\n".into(), Request::GracefulStop)),
        "stop" => Ok(("the server stops\n".into(), Request::Stop)),
        other => Err(format!("{other}: no such command; `tsubame ctl --help` names them")),
    }
}

/// The configuration as the parent would read it now.
fn on_disk(asked: &Asked<'_>) -> Result<Configured, String> {
    boot::read(asked.options, asked.text).map_err(|broken| {
        let why = broken.error.render(&asked.options.program).replace("{program}", &asked.options.program);
        unusable(&why)
    })
}

fn unusable(why: &str) -> String {
    format!("the configuration on disk cannot be used:\n{why}")
}

/// Nothing is restarted with a configuration that cannot run.
fn restart(asked: &Asked<'_>, request: Request, what: &str) -> Result<(String, Request), String> {
    on_disk(asked)?.loaded.server.can_be_served().map_err(|why| unusable(&why))?;
    Ok((format!("the configuration on disk can be used: {what} begins\n"), request))
}

/// As who serves: what children may not read is not there for them.
fn explained(words: Vec<String>, asked: &Asked<'_>, style: Style) -> Result<String, String> {
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let query = match explain::read(None, lexopt::Parser::from_args(words)) {
        Ok(Some(query)) => query,
        Ok(None) => return Ok(explain::USAGE.to_string()),
        Err(why) => return Err(format!("explain: {why}")),
    };
    if let Some(children) = asked.children {
        children.assume().map_err(|error| format!("cannot become the user who serves: {}", sys::describe(&error)))?;
    }
    let Running { server, mpm } = asked.running.clone();
    explain::answer(&query, server, mpm, style)
}
