//! The process of the log keeper: its start, its answers and the lines that it writes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use sys::local;
use sys::process::Pid;
use sys::signal::Signal;

use super::message::{MESSAGE_MAX, Name, Question, Sockets, encode, files_in};
use crate::log::open::{Identity, open_file, reopen_file};

/// The variable of a keeper that has begun anew: the number of its parent, and those of its two sockets.
const ANEW: &str = "TSUBAME_LOG_KEEPER";

/// For the first line of the program: keeps the log files of its parent to its end, if that is what it was started for. Such a
/// keeper needs nothing of the configuration, which its parent has in memory; a copy of the parent would hold the pages of the
/// first one for ever.
pub fn be_keeper_if_asked() {
    let Ok(numbers) = std::env::var(ANEW) else { return };
    let numbers: Vec<i32> = numbers.split(' ').map_while(|number| number.parse().ok()).collect();
    let [parent, questions, lines] = numbers[..] else { return };
    let Some(parent) = Pid::new(parent).filter(|parent| Pid::parent() == Some(*parent)) else {
        // The parent has ended meanwhile. Whatever else the program would do, a keeper was not started for it.
        sys::process::exit_now(0);
    };
    // The list of processes would show the file that was executed, `exe`.
    let _ = sys::process::set_short_name(c"tsubame");
    let sockets = sys::process::left_descriptor(questions).and_then(|questions| {
        let lines = sys::process::left_descriptor(lines)?;
        Ok((Box::leak(Box::new(questions)), lines))
    });
    let lived = sockets.and_then(|(questions, lines)| live(parent, questions, &lines));
    sys::process::exit_now(i32::from(lived.is_err()))
}

/// The whole of a process that the parent has forked. It keeps the descriptors `held` open.
pub(super) fn run<'a>(
    title: &str,
    parent: Pid,
    sockets: &'static Sockets,
    held: impl Iterator<Item = BorrowedFd<'a>>,
) -> ! {
    let (questions, lines) = (&sockets.questions.1, &sockets.lines.1);
    let kept: Vec<_> = held.chain([questions.as_fd(), lines.as_fd()]).collect();
    let lived = prepare(title, &kept).and_then(|()| {
        forget(title, parent, sockets, &kept);
        live(parent, questions, lines)
    });
    sys::process::exit_now(i32::from(lived.is_err()))
}

/// In a new process: gives up what is the parent's.
fn prepare(title: &str, kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    sys::process::close_others(kept)?;
    sys::process::set_title(title)
}

/// Begins anew. Returns if that is impossible: then the copy of the parent keeps the files.
fn forget(title: &str, parent: Pid, sockets: &Sockets, kept: &[BorrowedFd<'_>]) {
    let Ok(title) = std::ffi::CString::new(title) else { return };
    let number = |socket: &OwnedFd| socket.as_raw_fd();
    let numbers = format!("{parent} {} {}", number(&sockets.questions.1), number(&sockets.lines.1));
    let _ = sys::process::begin_anew(&[&title], (ANEW, &numbers), kept);
}

/// The life of the keeper.
fn live(parent: Pid, questions: &'static OwnedFd, lines: &OwnedFd) -> io::Result<()> {
    if !sys::process::die_with(parent, Signal::KILL)? {
        return Ok(());
    }
    std::thread::Builder::new().name("questions".into()).spawn(|| answer_all(questions))?;
    write_all(lines)
}

/// Writes lines until the parent has no more. Those that cannot be written are lost. They stay in the socket until they are
/// written: another keeper may have to do it.
fn write_all(lines: &OwnedFd) -> io::Result<()> {
    while let Some((message, descriptors)) = next(lines, local::peek)? {
        let mut rest = &*message;
        while let Some(Ok(count @ 1..)) = descriptors.first().map(|file| sys::file::write(file, rest)) {
            rest = &rest[count..];
        }
        local::receive(lines, &mut [0], &mut Vec::new())?;
    }
    Ok(())
}

fn answer_all(questions: &OwnedFd) -> io::Result<()> {
    while let Some((message, _)) = next(questions, local::receive)? {
        let Some((number, [kind, rest @ ..])) = message.split_first_chunk::<8>() else { continue };
        let reply = |answer: &[u8], descriptor: &[BorrowedFd<'_>]| {
            local::send(questions, &[number, answer].concat(), descriptor).map(drop)
        };
        let opened = match Question::of(*kind) {
            Some(Question::Look) => {
                for name in look(rest) {
                    reply(&[name as u8], &[])?;
                }
                continue;
            }
            Some(Question::Open) => open_file(&http::text::from_bytes(rest)),
            Some(Question::Reopen) => reopen_file(&http::text::from_bytes(rest)),
            None => continue,
        };
        let descriptor: Vec<_> = opened.iter().map(|opened| opened.fd.as_fd()).collect();
        reply(&encode(&opened), &descriptor)?;
    }
    Ok(())
}

/// Where the names in a question lead, looked up one by one.
fn look(question: &[u8]) -> impl Iterator<Item = Name> {
    files_in(question).map(|(name, identity)| leads_to(name, identity))
}

type Take<'a> = fn(&'a OwnedFd, &mut [u8], &mut Vec<OwnedFd>) -> io::Result<usize>;

/// The next message to the keeper, with what came with it.
fn next<'a>(socket: &'a OwnedFd, take: Take<'a>) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let (mut message, mut descriptors) = (vec![0; MESSAGE_MAX], Vec::new());
    loop {
        sys::poll::readable(socket, None)?;
        match take(socket, &mut message, &mut descriptors) {
            Ok(0) => return Ok(None),
            Ok(length) => {
                message.truncate(length);
                return Ok(Some((message, descriptors)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn leads_to(name: &[u8], open: Identity) -> Name {
    let Ok(path) = std::ffi::CString::new(name) else { return Name::Ours };
    match sys::file::stat(&path) {
        Ok(named) if named.is_file() && (named.dev, named.ino) != open => Name::Another,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Name::Gone,
        _ => Name::Ours,
    }
}
