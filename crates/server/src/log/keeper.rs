//! The log keeper: a process beside the parent, for everything about log files that a disk could hold up.
//!
//! The parent must not wait for a file system that hangs: it would start no child and follow no signal. So it looks where names
//! lead, opens log files and writes its own lines through the keeper, and waits for it only for a moment. The keeper has a
//! thread for questions and one for lines, and no state: each message has all that is needed, and any other keeper can go on.

mod message;
mod process;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sys::local::{self, SocketKind};
use sys::process::{Fork, Pid, fork};
use sys::signal::{Blocked, Signal};
use sys::time::Instant;

use crate::log::open::{Identity, Opened};
use message::{Question, Sockets, decode};

pub(super) use message::{NAMES_MAX, Name};
pub use process::be_keeper_if_asked;

/// How long the parent waits for a look, which it repeats, and for a file that it has to open.
const LOOK: Duration = Duration::from_millis(200);
const OPEN: Duration = Duration::from_secs(2);
/// After this time without an answer the log says so.
const HANGS: Duration = Duration::from_secs(3);
/// How long a file system counts as one that hangs.
const HANGING: Duration = Duration::from_secs(60);
/// How long the end of the parent waits for its last lines.
const FAREWELL: Duration = Duration::from_secs(1);
/// The pause before a keeper that ended is replaced.
const PAUSE: Duration = Duration::from_secs(1);

/// The signals that the parent gets together with its whole group, and that are not for the keeper.
const SIGNALS: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::QUIT];

/// What the parent knows of its keeper.
struct Keeper {
    /// For the list of processes.
    title: String,
    pid: Option<Pid>,
    /// When to start another one.
    due: Instant,
    /// The number of the last question.
    number: u64,
    /// The question that is not answered yet.
    asked: Option<Inquiry>,
    /// File systems that did not answer, by device, and when.
    hanging: Vec<(u64, Instant)>,
    /// Descriptors that cannot be closed while their file systems hang.
    set_aside: Vec<(u64, OwnedFd)>,
}

struct Inquiry {
    since: Instant,
    /// The names that it is about, each with the device of the open file, without those that were answered.
    about: VecDeque<(String, Option<u64>)>,
    /// The log says that there is no answer.
    told: bool,
}

static SOCKETS: OnceLock<Sockets> = OnceLock::new();
/// Nothing is logged while it is locked: that would need it.
static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);
/// The process with the keeper, as [`sys::process::forks`] numbers it, plus one: in its forked copies there is none.
static OF: AtomicU32 = AtomicU32::new(0);

/// For the parent, before it serves: from now on it does not touch log files itself. `program` is shown in the keeper's title.
pub fn keep(program: &str) -> io::Result<()> {
    let sockets = Sockets { questions: local::pair(SocketKind::Packets)?, lines: local::pair(SocketKind::Packets)? };
    let _ = SOCKETS.set(sockets);
    *keeper() = Some(Keeper {
        title: format!("{program}: logs"),
        pid: None,
        due: Instant::now(),
        number: 0,
        asked: None,
        hanging: Vec::new(),
        set_aside: Vec::new(),
    });
    OF.store(sys::process::forks() + 1, Ordering::Relaxed);
    every_second();
    Ok(())
}

/// Whether this process has a keeper.
pub(super) fn is_there() -> bool {
    OF.load(Ordering::Relaxed) == sys::process::forks() + 1
}

/// Starts a keeper if there is none, and says whether one hangs. For the parent, once a second.
pub(super) fn every_second() {
    if !is_there() {
        return;
    }
    let failed = with(|keeper| match keeper.pid {
        None if Instant::now() >= keeper.due => keeper.start().err(),
        _ => None,
    });
    if let Some(error) = failed.flatten() {
        let prefix = crate::log::os_error::os_prefix(&error);
        runtime::log!("core", Error, "{prefix}cannot start the process that keeps log files");
    }
    report_hanging();
}

/// Logs that a file system does not answer, once for each question.
fn report_hanging() {
    let late = with(|keeper| {
        keeper.drain();
        let asked = keeper.asked.as_mut().filter(|asked| !asked.told && asked.since.elapsed() >= HANGS)?;
        asked.told = true;
        keeper.note_hanging();
        keeper.asked.as_ref()?.about.front().map(|(name, _)| name.clone())
    });
    if let Some(name) = late.flatten() {
        let (seconds, text) = (HANGS.as_secs(), "renamed log files go unnoticed until it does");
        runtime::log!("core", Error, "the file system of {name} has not answered for {seconds} s: {text}");
    }
}

/// Handles the end of a child process of the parent. Returns whether it was the keeper.
pub(super) fn ended(pid: i32) -> bool {
    let was_it = with(|keeper| {
        let is_it = keeper.pid.is_some_and(|own| own.number() == pid);
        if is_it {
            (keeper.pid, keeper.asked, keeper.due) = (None, None, Instant::now() + PAUSE);
        }
        is_it
    });
    let was_it = was_it.unwrap_or(false);
    if was_it {
        runtime::log!("core", Error, "the process that keeps log files ended (pid {pid}): it is started again");
    }
    was_it
}

/// Writes lines to a file through the keeper. Never waits.
pub(super) fn write(file: BorrowedFd<'_>, lines: &[u8]) -> io::Result<usize> {
    let sockets = SOCKETS.get().ok_or(io::ErrorKind::NotConnected)?;
    local::send(&sockets.lines.0, lines, &[file])
}

/// Waits until the keeper may take lines, or the time is over.
pub(super) fn writable(time: Duration) -> io::Result<bool> {
    let sockets = SOCKETS.get().ok_or(io::ErrorKind::NotConnected)?;
    sys::poll::writable(&sockets.lines.0, Some(time))
}

/// Where the names of up to [`NAMES_MAX`] open files lead. `None`: nobody knows yet.
pub(super) fn names_of(files: &[(String, Identity)]) -> Option<Vec<Name>> {
    with(|keeper| {
        keeper.ask_for_names(files)?;
        let end = Instant::now() + LOOK;
        let mut names = Vec::new();
        while names.len() < files.len() {
            names.push(match keeper.answer(end)?.0.first()? {
                0 => Name::Ours,
                1 => Name::Another,
                _ => Name::Gone,
            });
        }
        Some(names)
    })?
}

/// Finds out whether the file system of an open file answers: later [`hangs`] says so.
pub(super) fn probe(file: (String, Identity)) {
    let _ = with(|keeper| {
        keeper.be_free().ok()?;
        keeper.ask_for_names(&[file])?;
        if keeper.answer(Instant::now() + OPEN).is_none() {
            keeper.note_hanging();
        }
        Some(())
    });
}

/// Opens a file for appending. `TimedOut`: its file system has not answered.
pub(super) fn open(name: &str, device: Option<u64>) -> io::Result<Opened> {
    ask_for_file(Question::Open, name, device)
}

/// Opens a file for appending when nobody has given an order: see [`reopen_file`](crate::log::open::reopen_file).
pub(super) fn reopen(name: &str, device: Option<u64>) -> io::Result<Opened> {
    ask_for_file(Question::Reopen, name, device)
}

fn ask_for_file(kind: Question, name: &str, device: Option<u64>) -> io::Result<Opened> {
    let answer: Option<io::Result<_>> = with(|keeper| {
        keeper.be_free()?;
        let question = [&[kind as u8], &*http::text::to_bytes(name)].concat();
        let asked = keeper.send_question(&question, VecDeque::from([(name.to_string(), device)]));
        let answer = asked.and_then(|()| keeper.answer(Instant::now() + OPEN));
        if answer.is_none() {
            keeper.note_hanging();
        }
        Ok(answer)
    });
    let text = format!("its file system has not answered for {} s", OPEN.as_secs());
    let late = || io::Error::new(io::ErrorKind::TimedOut, text);
    let (answer, descriptor) = answer.ok_or(io::ErrorKind::NotConnected)??.ok_or_else(late)?;
    decode(&answer, descriptor)
}

/// Whether a file system did not answer a moment ago.
pub(super) fn hangs(device: u64) -> bool {
    is_there() && with(|keeper| keeper.hanging.iter().any(|(hangs, _)| *hangs == device)).unwrap_or(false)
}

/// Takes a descriptor of a file system that hangs: closing it would wait, too.
pub(super) fn set_aside(device: u64, descriptor: OwnedFd) {
    let _ = with(|keeper| keeper.set_aside.push((device, descriptor)));
}

/// When the parent ends: waits for its last lines.
pub(super) fn end() {
    let (Some(sockets), true) = (SOCKETS.get(), is_there()) else { return };
    let Some(pid) = with(|keeper| keeper.pid).flatten() else { return };
    let _ = local::finish(&sockets.lines.0);
    let ended = sys::process::end_of(pid).and_then(|end| sys::poll::readable(&end, Some(FAREWELL)));
    if !matches!(ended, Ok(true)) {
        let _ = pid.kill(Signal::KILL);
    }
}

fn keeper() -> MutexGuard<'static, Option<Keeper>> {
    KEEPER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(action: impl FnOnce(&mut Keeper) -> T) -> Option<T> {
    keeper().as_mut().map(action)
}

impl Keeper {
    fn start(&mut self) -> io::Result<()> {
        let Some(sockets) = SOCKETS.get() else { return Ok(()) };
        self.due = Instant::now() + PAUSE;
        let parent = Pid::own();
        // Before the fork: a Ctrl-C right after the start must not find a keeper that has not blocked the signals yet.
        let _blocked = Blocked::new(&SIGNALS)?;
        match fork()? {
            Fork::Parent(pid) => self.pid = Some(pid),
            Fork::Child => {
                process::run(&self.title, parent, sockets, self.set_aside.iter().map(|(_, held)| held.as_fd()))
            }
        }
        Ok(())
    }

    /// Another one takes the place of one that hangs: it may hang for ever, and the next question is about another file.
    fn be_free(&mut self) -> io::Result<()> {
        self.drain();
        if self.asked.is_none() {
            return Ok(());
        }
        self.note_hanging();
        if let Some(pid) = self.pid.take() {
            // The process goes when its file system lets it.
            let _ = pid.kill(Signal::KILL);
        }
        self.asked = None;
        self.start()
    }

    fn note_hanging(&mut self) {
        let device = self.asked.as_ref().and_then(|asked| asked.about.front()?.1);
        self.hanging.retain(|(hangs, since)| Some(*hangs) != device && since.elapsed() < HANGING);
        self.hanging.extend(device.map(|device| (device, Instant::now())));
    }

    /// Sends a question, unless another one is not answered yet.
    fn send_question(&mut self, question: &[u8], about: VecDeque<(String, Option<u64>)>) -> Option<()> {
        self.drain();
        let sockets = SOCKETS.get().filter(|_| self.asked.is_none() && self.pid.is_some())?;
        self.number += 1;
        let question = [&self.number.to_ne_bytes(), question].concat();
        local::send(&sockets.questions.0, &question, &[]).ok()?;
        self.asked = Some(Inquiry { since: Instant::now(), about, told: false });
        Some(())
    }

    fn ask_for_names(&mut self, files: &[(String, Identity)]) -> Option<()> {
        self.send_question(
            &message::look(files),
            files.iter().map(|(name, (device, _))| (name.clone(), Some(*device))).collect(),
        )
    }

    /// The next answer to the question; `None`: the time is over.
    fn answer(&mut self, end: Instant) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let sockets = SOCKETS.get()?;
        loop {
            if let Some(answer) = self.received(sockets) {
                return Some(answer);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            sys::poll::readable(&sockets.questions.0, Some(left)).ok()?;
        }
    }

    /// Takes answers that nobody waits for any more.
    fn drain(&mut self) {
        while SOCKETS.get().is_some_and(|sockets| self.received(sockets).is_some()) {}
    }

    /// An answer that is there. Those to earlier questions count no more.
    fn received(&mut self, sockets: &Sockets) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        loop {
            let (mut answer, mut descriptors) = (vec![0; 64], Vec::new());
            let length = local::receive(&sockets.questions.0, &mut answer, &mut descriptors).ok()?;
            answer.truncate(length);
            let (number, rest) = answer.split_first_chunk()?;
            let Some(asked) = self.asked.as_mut().filter(|_| u64::from_ne_bytes(*number) == self.number) else {
                continue;
            };
            let device = asked.about.pop_front().and_then(|(_, device)| device);
            if asked.about.is_empty() {
                self.asked = None;
            }
            self.answers(device);
            return Some((rest.to_vec(), descriptors.pop()));
        }
    }

    /// A file system has answered.
    fn answers(&mut self, device: Option<u64>) {
        self.hanging.retain(|(hangs, _)| Some(*hangs) != device);
        self.set_aside.retain(|(held, _)| Some(*held) != device);
    }
}
