//! The client's side of the control socket: finds a server, sends a request, reads the reply.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mpm::settings::MpmSettings;

use super::wire::{COLOURS, DECLINED, ERROR, OK, PATIENCE, PID, RESTART};
use crate::cli::Options;
use crate::config::{self, ConfigSource, Configured};
use crate::diagnosis::print;
use crate::output;
use crate::style::Style;

/// How to reach a server.
pub(super) struct Endpoint {
    pub(super) socket: PathBuf,
    /// The pid file of the intended server; `None` for whichever server listens.
    pub(super) pid_file: Option<PathBuf>,
}

/// A server's reply.
enum Reply {
    Answer(String),
    /// The server did not do it, for this reason.
    Refused(String),
    /// The request was not for this server, which did nothing.
    Declined(String),
}

/// How version 0.2 begins its refusals of `-k`, which it does not know, and of a request for another server.
const DECLINED_BY_0_2: [&str; 2] = ["-k: what is ", "the server that listens here has pid "];

impl Reply {
    /// Parses a reply. `None`: it is not complete.
    fn parse(reply: &str) -> Option<Reply> {
        let (code, text) = reply.split_once('\n')?;
        let text = text.to_string();
        match code {
            OK => Some(Reply::Answer(text)),
            DECLINED => Some(Reply::Declined(text)),
            // Version 0.2 has no code for a request that is not for it.
            ERROR if DECLINED_BY_0_2.iter().any(|own| text.starts_with(own)) => Some(Reply::Declined(text)),
            ERROR => Some(Reply::Refused(text)),
            _ => None,
        }
    }
}

/// Finds the control socket of the server with this configuration, even if the configuration has become unusable.
pub(super) fn configured(options: &Options) -> Result<Endpoint, ExitCode> {
    let (socket, pid_file) = match config::read(options, &ConfigSource::File) {
        Ok(configured) => {
            let settings = &configured.loaded.server.main().settings;
            let pid_file = settings.get::<MpmSettings>().pid_file.get().map(PathBuf::from);
            (mpm::control::path(settings), pid_file)
        }
        Err(failed) => match config::socket(&failed) {
            Some((socket, pid_file)) => (Some(socket), Some(pid_file)),
            None => {
                print::failure(options, &failed);
                output::complain(&format!("{} ctl: name the server's control socket with --socket", options.program));
                return Err(ExitCode::FAILURE);
            }
        },
    };
    socket.map(|socket| Endpoint { socket, pid_file }).ok_or_else(|| {
        let text = "this configuration has no control socket (ControlSocket none, or no PidFile)";
        output::complain(&format!("{} ctl: {text}", options.program));
        ExitCode::FAILURE
    })
}

/// Sends a request and returns the server's reply. `Err`: why the server refused it, or could not be reached.
pub(super) fn request(Endpoint { socket, pid_file }: &Endpoint, words: &[String]) -> Result<String, String> {
    let stream = connect(socket)?;
    let mut request = Vec::new();
    let colours = Style::of_output().0.then(|| COLOURS.to_string());
    let pid = pid_file.as_deref().map(intended_server).transpose()?;
    for word in colours.iter().chain(&pid).chain(words) {
        request.extend_from_slice(word.as_bytes());
        request.push(0);
    }
    request.push(0);
    let reply = exchange(stream, &request).map_err(|error| {
        let place = socket.display();
        match error.kind() {
            io::ErrorKind::WouldBlock => format!("{place}: no answer within {} s", PATIENCE.as_secs()),
            _ => format!("{place}: {}: the server cannot be asked", sys::describe(&error)),
        }
    })?;
    match reply {
        Some(Reply::Answer(text)) => Ok(text),
        Some(Reply::Refused(why) | Reply::Declined(why)) => Err(why),
        None => Err(format!("{}: the server gave no answer, its error log may say why", socket.display())),
    }
}

/// Restarts a running server, and waits until the new generation serves or the old one goes on: what `word` of `-k` says.
/// `Err`: why it has failed. `None`: the server cannot be asked over its control socket, and was told nothing.
pub(crate) fn restart(configured: &Configured, word: &str) -> Option<Result<(), String>> {
    let settings = &configured.loaded.server.main().settings;
    let pid_file = settings.get::<MpmSettings>().pid_file.get().map(PathBuf::from);
    restart_at(&Endpoint { socket: mpm::control::path(settings)?, pid_file }, word)
}

/// The same for the server at this socket.
pub(super) fn restart_at(Endpoint { socket, pid_file }: &Endpoint, word: &str) -> Option<Result<(), String>> {
    let pid = pid_file.as_deref().and_then(|file| intended_server(file).ok())?;
    let stream = connect(socket).ok()?;
    let request = [pid.as_str(), RESTART, word, ""].join("\0") + "\0";
    let failed = |why: String| Some(Err(format!("{}: {why}", socket.display())));
    match exchange(stream, request.as_bytes()) {
        Ok(Some(Reply::Answer(_))) => Some(Ok(())),
        Ok(Some(Reply::Declined(_))) => None,
        Ok(Some(Reply::Refused(why))) => Some(Err(why.trim_end().to_string())),
        Ok(None) => failed("the server gave no answer, its error log may say why".into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            failed(format!("the server has not restarted within {} s: its error log may say why", PATIENCE.as_secs()))
        }
        Err(error) => failed(sys::describe(&error)),
    }
}

/// Connects to a server that runs as this user or as root, and to no other. Root may also connect to another user's
/// server if its socket is in a directory of that user.
pub(super) fn connect(socket: &Path) -> Result<UnixStream, String> {
    let place = socket.display();
    let connected = sys::local::connect(socket, sys::local::SocketKind::Stream)
        .and_then(|fd| Ok((sys::local::peer_user(&fd)?, UnixStream::from(fd))));
    let (user, stream) = connected.map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "no server runs there, or it has no control socket (-X, ControlSocket none)"
            }
            io::ErrorKind::PermissionDenied => "only root and the user who started the server may ask it",
            io::ErrorKind::WouldBlock => "too many ask it already",
            _ => "the server cannot be asked",
        };
        format!("{place}: {}: {what}", sys::describe(&error))
    })?;
    let at_home = || {
        let directory = socket.parent().and_then(|directory| std::fs::metadata(directory).ok());
        sys::cred::is_root() && directory.is_some_and(|directory| directory.uid() == user)
    };
    if user != 0 && user != sys::cred::uid() && !at_home() {
        return Err(format!("{place}: a program of the user with number {user} listens there: ask it as that user"));
    }
    Ok(stream)
}

/// The word that identifies the intended server.
fn intended_server(pid_file: &Path) -> Result<String, String> {
    let name = pid_file.display();
    match mpm::pidfile::read(pid_file) {
        Ok(Some(pid)) => Ok(format!("{PID}{pid}")),
        Ok(None) => Err(format!("{name}: no such PidFile, so another server listens; use --socket to ask that one")),
        Err(error) => Err(format!(
            "{name}: {}: the PidFile cannot be read, so it is unknown which server you mean",
            sys::describe(&error)
        )),
    }
}

/// Sends a request. Returns the reply, or `None` if the server has ended the conversation without one.
fn exchange(mut stream: UnixStream, request: &[u8]) -> io::Result<Option<Reply>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(Reply::parse(&reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_version_0_2_declines_in_words() {
        for text in [
            "-k: what is graceful?",
            "the server that listens here has pid 7, the PidFile names 8; --socket asks whoever listens",
        ] {
            assert!(matches!(Reply::parse(&format!("error\n{text}\n")), Some(Reply::Declined(_))), "{text}");
        }
        assert!(matches!(Reply::parse("error\nSyntax error\n"), Some(Reply::Refused(_))));
        assert!(matches!(Reply::parse("declined\nanother server\n"), Some(Reply::Declined(_))));
        assert!(matches!(Reply::parse("ok\n"), Some(Reply::Answer(_))));
        assert!(Reply::parse("ok").is_none());
    }
}
