//! The server's side of a conversation over the control socket, in a forked copy of the parent.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use conf::Level;
use mpm::When;
use server::module::find_command;
use sys::process::{Pid, die_with};
use sys::signal::Signal;
use sys::time::monotonic;

use super::wire::{COLOURS, DECLINED, ERROR, OK, PATIENCE, PID, RESTART, RESTART_MAX, WORDS_MAX};
use super::{difference, levels, status};
use crate::cli::misuse;
use crate::config::{self, Configured};
use crate::diagnosis::explanation;
use crate::diagnosis::preflight;
use crate::explain;
use crate::running::{ControlContext, Running};
use crate::style::Style;

/// How often the end of a restart is looked for.
const RESTART_LOOK: Duration = Duration::from_millis(10);

/// A text, and the signal to send to the parent once the client has received the text.
type Reply = (String, Option<Signal>);

/// Why the server did not do what a client asked.
struct NotDone {
    /// The first line of the reply.
    code: &'static str,
    text: String,
}

impl<T: Into<String>> From<T> for NotDone {
    fn from(text: T) -> NotDone {
        NotDone { code: ERROR, text: text.into() }
    }
}

/// Answers one client; returns the signal to send to the parent.
pub(crate) fn serve(connection: OwnedFd, context: &ControlContext<'_>) -> Option<Signal> {
    let answered = UnixStream::from(connection);
    converse(&answered, context).unwrap_or_else(|error| {
        runtime::log!("core", Debug, "{}: control socket", sys::describe(&error));
        None
    })
}

fn converse(stream: &UnixStream, context: &ControlContext<'_>) -> io::Result<Option<Signal>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = sys::local::peer_user(stream)?;
    // Reads the words even if the peer will be refused: closing a socket with unread data would discard the answer.
    let words = words(stream)?;
    let reply = match peer == 0 || peer == sys::cred::uid() {
        true => reply(words, context),
        // The mode of the socket already prevents this, unless somebody changes it.
        false => Err("only root and the user who started the server may ask it".into()),
    };
    let mut out = stream;
    match reply {
        Ok((text, order)) => {
            write!(out, "{OK}\n{text}")?;
            Ok(order)
        }
        Err(NotDone { code, text }) => {
            writeln!(out, "{code}\n{}", text.trim_end())?;
            Ok(None)
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

fn reply(mut words: Vec<String>, context: &ControlContext<'_>) -> Result<Reply, NotDone> {
    let mut style = Style(false);
    while let Some(word) = words.first() {
        match word.strip_prefix(PID) {
            Some(pid) if *pid == context.parent.to_string() => {}
            Some(pid) => {
                let text = format!(
                    "the server that listens here has pid {}, the PidFile names {pid}; use --socket to ask the one that \
                     listens",
                    context.parent
                );
                return Err(NotDone { code: DECLINED, text });
            }
            None if word == COLOURS => style = Style(true),
            None => break,
        }
        words.remove(0);
    }
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    match command.as_str() {
        "explain" => Ok((explained(rest, context, style)?, None)),
        RESTART => {
            restart_and_wait(&rest, context)?;
            Ok((String::new(), None))
        }
        "graceful" | "restart" | "graceful-stop" | "stop" => {
            no_more(&command, &rest)?;
            Ok(signal_parent(&command, context)?)
        }
        _ => match find_command(context.running.server.infos(), &command) {
            Some(run) => {
                let (json, rest): (Vec<String>, Vec<String>) = rest.into_iter().partition(|word| word == "--json");
                no_more(&command, &rest)?;
                Ok((run(&context.running.server, !json.is_empty())?, None))
            }
            None => Ok((shown(&command, &rest, context, style)?, None)),
        },
    }
}

fn no_more(command: &str, words: &[impl AsRef<str>]) -> Result<(), String> {
    words.first().map_or(Ok(()), |word| Err(format!("{command}: unexpected word '{}'", word.as_ref())))
}

/// Answers the commands that show something, and `log-level`.
fn shown(command: &str, words: &[String], context: &ControlContext<'_>, style: Style) -> Result<String, NotDone> {
    let json = words.iter().any(|word| word == "--json");
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--json").collect();
    let server = &context.running.server;
    // First of all: a later version's command may have words of its own.
    if !super::commands().any(|known| known == command) {
        return Err(NotDone { code: DECLINED, text: misuse::unknown("command", command, super::commands()) });
    }
    if command != "log-level" {
        no_more(command, &words)?;
    }
    match command {
        "status" => Ok(status::server(context, json, style)),
        "scripts" => Ok(status::scripts(json, style)),
        "config" => Ok(explain::everything(server, json, style)),
        "diff" => Ok(difference::of(server, &on_disk(context)?.loaded.server, &context.running.drift(), json, style)),
        "log-level" => Ok(levels::change(server, &words, json)?),
        other => Err(format!("{other}: no module that this server has loaded knows the command").into()),
    }
}

/// Answers the commands that signal the parent.
fn signal_parent(command: &str, context: &ControlContext<'_>) -> Result<Reply, String> {
    match command {
        "graceful" => restart(context, Signal::USR1, "a graceful restart"),
        "restart" => restart(context, Signal::HUP, "a restart"),
        "graceful-stop" => Ok(("the server stops when it has finished what it serves\n".into(), Some(Signal::WINCH))),
        _ => Ok(("the server stops\n".into(), Some(Signal::TERM))),
    }
}

/// Restarts, for a client that has checked the configuration, and waits until the new generation serves alone.
fn restart_and_wait(words: &[String], context: &ControlContext<'_>) -> Result<(), String> {
    let signal = match words {
        [word] if word == "graceful" => Signal::USR1,
        [word] if word == "restart" => Signal::HUP,
        _ => return Err(format!("{RESTART}: unexpected words")),
    };
    let board = runtime::scoreboard::get().ok_or("the server does not serve yet")?;
    let (concluded, refused) = board.concluded();
    let (began, (logged, _)) = (monotonic(), runtime::recent::lines());
    context.parent.kill(signal).map_err(|error| format!("{}: sending signal to server", sys::describe(&error)))?;
    while board.concluded().0 == concluded {
        if Pid::parent() != Some(context.parent) {
            return Err("the server has ended: its error log says why".into());
        }
        if monotonic().saturating_sub(began) > RESTART_MAX {
            let seconds = RESTART_MAX.as_secs();
            let text = "no child with the new configuration serves, the server goes on trying: its error log says why";
            return Err(format!("after {seconds} s {text}"));
        }
        #[expect(clippy::disallowed_methods, reason = "a process of its own, beside the server")]
        std::thread::sleep(RESTART_LOOK);
    }
    if board.concluded().1 == refused {
        return Ok(());
    }
    let (now, lines) = runtime::recent::lines();
    let new = usize::try_from(now - logged).unwrap_or(usize::MAX);
    let reasons = lines.into_iter().take(new).filter(|line| line.level <= Level::Error).map(|line| line.text);
    let reasons: Vec<String> = reasons.collect();
    Err(reasons.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// The configuration as the parent would read it now.
fn on_disk(context: &ControlContext<'_>) -> Result<Configured, String> {
    config::read(context.options, context.text).map_err(|broken| {
        unusable(&explanation::of(&broken.error, &(&*broken).into(), &context.options.program, Style(false)))
    })
}

fn unusable(why: &str) -> String {
    format!("the configuration on disk cannot be used:\n{why}")
}

/// Checks the configuration on disk and asks for a restart. A configuration that cannot run is refused. The answer
/// includes the notices that the parent will log about its numbers.
fn restart(context: &ControlContext<'_>, signal: Signal, what: &str) -> Result<Reply, String> {
    let Configured { loaded, mpm, .. } = on_disk(context)?;
    context.running.mpm.can_become(&mpm).and_then(|()| loaded.server.can_be_served()).map_err(|why| unusable(&why))?;
    let mut text = format!("the configuration on disk can be used: {what} begins\n");
    let stops = preflight::look(&loaded.server).stops;
    if !stops.is_empty() {
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        return Err(unusable(&stops.join("\n")));
    }
    let said = mpm.check(&loaded.server.main().settings, When::Restart(context.fixed.limits));
    for notice in said.iter().filter(|notice| notice.level <= Level::Warn) {
        text += &format!("{}\n", notice.text);
    }
    Ok((text, Some(signal)))
}

/// Answers `explain` with the privileges of the children, so that files that they cannot read are not revealed.
fn explained(words: Vec<String>, context: &ControlContext<'_>, style: Style) -> Result<String, String> {
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let query = match explain::read(None, lexopt::Parser::from_args(words)) {
        Ok(Some(query)) => query,
        Ok(None) => return Ok(explain::PAGE.page()),
        Err(why) => return Err(format!("explain: {why}")),
    };
    if let Some(children) = context.children {
        // A change of user clears the parent-death signal, so it is set again.
        let became = children.assume().and_then(|()| die_with(context.parent, Signal::KILL));
        match became {
            Ok(true) => {}
            Ok(false) => return Err("the server has ended".into()),
            Err(error) => return Err(format!("cannot become the server's user: {}", sys::describe(&error))),
        }
    }
    let Running { server, mpm, .. } = context.running.clone();
    explain::respond(&query, server, mpm, Some(context.fixed), style)
}
