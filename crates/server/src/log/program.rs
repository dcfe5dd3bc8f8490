//! Programs that read log lines (`|/path`, `||/path`, `|$command`). The parent starts them, and restarts them when they
//! end.
//!
//! A pipe outlives its reader: the parent keeps the reading end, so that nothing is lost between two readers, and no
//! writer gets a signal.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sys::process::Pid;
use sys::signal::Signal;
use sys::time::Instant;

use super::LogFile;
use super::lost::Lost;

/// A program that ends sooner is not restarted at once: it would only end again. The pause doubles each time.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// The first pause.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// When the parent ends, it closes the pipes of its programs. A program that neither reads nor ends for so long gets
/// `SIGTERM`.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// How long a program that still reads may take in all.
const READ_MAX: Duration = Duration::from_secs(20);
/// How long a program has to follow `SIGTERM` before it gets `SIGKILL`.
const OBEY_MAX: Duration = Duration::from_secs(1);
/// How often it is looked whether it reads.
const LOOK: Duration = Duration::from_millis(100);
/// The capacity of the pipe to a program, for a slow reader: the most that any user gets, unless the system is set up
/// otherwise.
const PIPE_SIZE: usize = 1 << 20;

/// The programs of this process, the parent. A child has a useless copy of the list.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());
/// The destination of the programs' own errors: the main error log, if that is a file.
static MESSAGES: Mutex<Weak<LogFile>> = Mutex::new(Weak::new());

#[derive(Debug)]
struct Program {
    number: u64,
    command: String,
    reads: OwnedFd,
    lost: Arc<Lost>,
    /// `None`: it ended and waits to be started again.
    pid: Option<Pid>,
    started: Instant,
    /// When to restart it.
    due: Instant,
    pause: Duration,
    /// The parent no longer writes to it; children of an earlier configuration may.
    retired: bool,
}

/// Programs that start from now on have this log as their standard error.
pub(super) fn messages_go_to(log: &Arc<LogFile>) {
    // The messages of a program must not come back to it.
    let file = if log.is_program() { Weak::new() } else { Arc::downgrade(log) };
    *MESSAGES.lock().unwrap_or_else(PoisonError::into_inner) = file;
}

/// Starts a program and returns its number and the writing end of the pipe, which never blocks.
pub(super) fn start(command: &str, lost: &Arc<Lost>) -> io::Result<(u64, OwnedFd)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (reads, writes) = io::pipe()?;
    let (reads, writes) = (OwnedFd::from(reads), OwnedFd::from(writes));
    sys::file::set_nonblocking(&writes)?;
    // A smaller pipe also works.
    let _ = sys::file::set_pipe_size(&writes, PIPE_SIZE);
    let pid = Some(spawn(command, &reads)?);
    let (number, now) = (NEXT.fetch_add(1, Ordering::Relaxed), Instant::now());
    programs().push(Program {
        number,
        command: command.to_string(),
        reads,
        lost: lost.clone(),
        pid,
        started: now,
        due: now,
        pause: Duration::ZERO,
        retired: false,
    });
    Ok((number, writes))
}

/// Stops this process from writing to a program, which ends when all others have closed their ends.
pub(super) fn retire(number: u64) {
    programs().iter_mut().filter(|program| program.number == number).for_each(|program| program.retired = true);
}

/// Handles the end of a child process of the parent. Returns whether it had to do with logs.
pub fn reaped(pid: i32) -> bool {
    if super::keeper::ended(pid) {
        return true;
    }
    let mut programs = programs();
    let is_it = |program: &&mut Program| program.pid.is_some_and(|own| own.number() == pid);
    let Some(program) = programs.iter_mut().find(is_it) else { return false };
    program.ended();
    program.start_if_due();
    programs.retain(|program| !program.is_done());
    true
}

/// Restarts programs that have ended, each after its pause. For the parent.
pub(super) fn restart_ended() {
    let mut programs = programs();
    programs.iter_mut().for_each(Program::start_if_due);
    programs.retain(|program| !program.is_done());
}

/// Reports the lines that programs have lost.
pub(super) fn report_lost(at_last: bool) {
    let programs = programs();
    let lost: Vec<_> = programs.iter().map(|program| (program.lost.clone(), format!("|{}", program.command))).collect();
    // The report goes to a log, which may also be a program.
    drop(programs);
    lost.iter().for_each(|(lost, target)| lost.report(target, at_last));
}

/// When the parent ends: starts programs once more that have ended and for which lines are left, however soon after the last
/// time.
pub(super) fn start_for_the_rest() {
    for program in programs().iter_mut().filter(|program| program.pid.is_none() && program.has_lines()) {
        program.pid = spawn(&program.command, &program.reads).ok();
    }
}

/// When the parent ends, after the last line: waits for the programs, which find the end of their lines now. Those that take no
/// more lines, or do not end, are told to, and then made to. Lines that nobody has read are lost, and counted.
pub(super) fn end_all() {
    let mut programs = std::mem::take(&mut *programs());
    let mut orders = [(IDLE_MAX, Signal::TERM), (OBEY_MAX, Signal::KILL)].into_iter().peekable();
    let (begun, mut since, mut waiting) = (Instant::now(), Instant::now(), Vec::new());
    let (mut again, mut told): (Vec<bool>, bool) = (vec![true; programs.len()], false);
    loop {
        for (program, again) in programs.iter_mut().zip(&mut again) {
            // One that a signal to all has ended together with the server.
            let ended = program.pid.is_some_and(|pid| !matches!(sys::process::reap(Some(pid)), Ok(None)));
            if ended {
                let may = std::mem::take(again) && !told && program.has_lines();
                program.pid = if may { spawn(&program.command, &program.reads).ok() } else { None };
            }
        }
        let alive: Vec<Pid> = programs.iter().filter_map(|program| program.pid).collect();
        if alive.is_empty() {
            break;
        }
        let now: Vec<u64> = programs.iter().map(|program| sys::file::waiting(&program.reads).unwrap_or(0)).collect();
        if std::mem::replace(&mut waiting, now) != waiting && begun.elapsed() < READ_MAX {
            since = Instant::now();
        }
        match orders.peek() {
            Some((body_deadline, signal)) if since.elapsed() >= *body_deadline => {
                alive.iter().for_each(|pid| drop(pid.kill(*signal)));
                orders.next();
                told = true;
                since = Instant::now();
            }
            None if since.elapsed() >= OBEY_MAX => break,
            _ => {}
        }
        let _ = sys::process::end_of(alive[0]).and_then(|end| sys::poll::readable(&end, Some(LOOK)));
    }
    for program in &programs {
        program.lost.count(program.unread_lines(), None);
        program.lost.report(&format!("|{}", program.command), true);
    }
}

/// Notices programs that have ended, in a process that does not wait for just any child.
pub(super) fn reap() {
    let pids: Vec<Pid> = programs().iter().filter_map(|program| program.pid).collect();
    for pid in pids {
        if let Ok(Some(ended)) = sys::process::reap(Some(pid)) {
            reaped(ended.pid.number());
        }
    }
}

fn programs() -> std::sync::MutexGuard<'static, Vec<Program>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Program {
    fn has_lines(&self) -> bool {
        sys::file::waiting(&self.reads).is_ok_and(|bytes| bytes > 0)
    }

    /// Takes what nobody has read.
    fn unread_lines(&self) -> u64 {
        let (mut lines, mut part) = (0, [0; 4096]);
        while self.has_lines()
            && let Ok(count @ 1..) = sys::file::read(&self.reads, &mut part)
        {
            lines += memchr::memchr_iter(b'\n', &part[..count]).count() as u64;
        }
        lines
    }

    fn ended(&mut self) {
        let now = Instant::now();
        self.pid = None;
        if self.is_done() {
            return;
        }
        self.pause = match now - self.started {
            life if life >= SHORT_LIFE => Duration::ZERO,
            _ => (self.pause * 2).clamp(PAUSE, PAUSE_MAX),
        };
        self.due = now + self.pause;
        let again = match self.pause {
            Duration::ZERO => "it is started again".into(),
            pause => format!("it is started again in {} s", pause.as_secs()),
        };
        runtime::log!("core", Error, "AH00106: piped log program '{}' failed unexpectedly: {again}", self.command);
    }

    /// Whether nobody needs it any more.
    fn is_done(&self) -> bool {
        self.pid.is_none() && self.retired && sys::poll::is_at_end(&self.reads).unwrap_or(true)
    }

    fn start_if_due(&mut self) {
        let now = Instant::now();
        if self.pid.is_some() || now < self.due || self.is_done() {
            return;
        }
        self.started = now;
        match spawn(&self.command, &self.reads) {
            Ok(pid) => self.pid = Some(pid),
            Err(error) => {
                self.pause = (self.pause * 2).clamp(PAUSE, PAUSE_MAX);
                self.due = now + self.pause;
                let prefix = crate::log::os_error::os_prefix(&error);
                runtime::log!("core", Error, "{prefix}AH00104: unable to start piped log program '{}'", self.command);
            }
        }
    }
}

/// Whether a program is there and may be executed. Nothing is started.
pub(super) fn could_be_started(command: &str) -> io::Result<()> {
    let words = words(command)?;
    sys::file::may_access(words.first().ok_or(io::ErrorKind::InvalidInput)?, true)
}

/// `|command` and `||command` run the program directly, `|$command` through the shell (Apache manual, piped logs). As in
/// Apache the shell gets the arguments with a blank between each two: their quotes are gone.
fn words(command: &str) -> io::Result<Vec<CString>> {
    let command = command.strip_prefix('|').unwrap_or(command);
    let words = match command.strip_prefix('$') {
        Some(line) => vec!["/bin/sh".to_string(), "-c".into(), conf::words::argv(line).join(" ")],
        None => conf::words::argv(command),
    };
    let words = words.iter().map(|word| CString::new(http::text::to_bytes(word)));
    words.collect::<Result<_, _>>().map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn spawn(command: &str, reads: &OwnedFd) -> io::Result<Pid> {
    let argv = words(command)?;
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let env = std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let env = env.map(CString::new).collect::<Result<Vec<CString>, _>>().map_err(invalid)?;
    let program = argv.first().ok_or(io::ErrorKind::InvalidInput)?;
    let messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let error = io::stderr();
    let error = messages.as_ref().and_then(|log| log.descriptor()).unwrap_or(error.as_fd());
    sys::spawn::Spawn {
        program,
        argv: &argv.iter().map(CString::as_c_str).collect::<Vec<_>>(),
        env: &env.iter().map(CString::as_c_str).collect::<Vec<_>>(),
        directory: None,
        stdio: [reads.as_fd(), error, error],
        more: &[],
        own_group: false,
        limits: &[],
        nicer: 0,
        end_with_us: None,
    }
    .start()
}
