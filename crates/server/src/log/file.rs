//! The files and programs that log lines go to.
//!
//! Lines are buffered until the process is about to wait, or there are 4 KiB: a busy server writes many lines with one
//! call, an idle one loses nothing. Each write ends with a whole line, and appends are atomic, so lines of several
//! processes never mix.
//!
//! The parent neither opens nor writes files itself, because a disk could hold it up: its [keeper] does. Nobody ever waits for the
//! reader of a log. Lines that a pipe does not take are buffered, up to a limit, and retried
//! whenever the process is about to wait; beyond the limit lines are lost, and [counted](super::lost). If a line is
//! longer than a pipe takes atomically, the pipe takes only the part that fits, and another process could write after
//! that: such a line is cut ([`LogFile::line_max`]).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use sys::time::Instant;

use super::lost::Lost;
use super::{keeper, program};
use crate::log::open::{Identity, Opened, could_be_opened, has_own_name, inherited, open_file, reopen_file};

/// The most bytes in one write, unless a single line is longer: as much as a pipe takes atomically.
const TOGETHER_MAX: usize = 4096;
/// The end of a line that was cut.
const CUT: &[u8] = b"...\n";
/// The most bytes that a process buffers for a slow reader, beside those in the pipe.
const KEPT_MAX: usize = 256 << 10;
/// How long an ending process waits for all slow readers together.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often a process without a parent checks its logs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A log file, or a program (`|/path` or `||/path`) that reads lines.
#[derive(Debug)]
pub struct LogFile {
    target: String,
    open: OnceLock<Open>,
    /// The number of the program.
    program: OnceLock<u64>,
    /// The open file, unless it has no name that could lead elsewhere.
    identity: Mutex<Option<Identity>>,
    kept: Mutex<LineBuffer>,
    lost: Arc<Lost>,
}

/// Where the lines go.
#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    /// A pipe, with a name or with a program at its other end.
    is_pipe: bool,
    /// A socket, as standard error is under systemd.
    is_socket: bool,
    /// Other processes have it open as well, and whether a write waits is theirs to say.
    is_shared: bool,
}

/// Lines that have not been written yet.
#[derive(Debug, Default)]
struct LineBuffer {
    lines: Vec<u8>,
    /// The reader did not take the last write.
    behind: bool,
    /// The process that buffered them ([`sys::process::forks`]): a forked copy must not write them.
    process: u32,
}

/// All open log files of this process, for [`flush_all`]: equal targets in one configuration are one file.
static FILES: Mutex<Option<Files>> = Mutex::new(None);
/// By configuration and target.
type Files = HashMap<(u64, String), Weak<LogFile>>;
/// The current configuration, which names files now.
static CONFIGURATION: AtomicU64 = AtomicU64::new(0);
/// Logs are not opened: [`LogFile::open`] only finds out whether they could be.
static NEVER_OPENS: AtomicBool = AtomicBool::new(false);
/// Whether any file has buffered lines.
static KEPT: AtomicBool = AtomicBool::new(false);
/// When this process last checked its own logs. `None`: its parent does that.
static LAST_CHECK: Mutex<Option<Instant>> = Mutex::new(None);
/// Whether [`LAST_CHECK`] is set, without a lock.
static CHECKS_OWN_LOGS: AtomicBool = AtomicBool::new(false);

impl LogFile {
    /// Names a target: an absolute path, or `|` and a command. Opens nothing yet.
    pub fn named(target: &str) -> Arc<LogFile> {
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.get_or_insert_default();
        let key = (CONFIGURATION.load(Ordering::Relaxed), target.to_string());
        if let Some(file) = files.get(&key).and_then(Weak::upgrade) {
            return file;
        }
        let file = Arc::new(LogFile {
            target: target.to_string(),
            open: OnceLock::new(),
            program: OnceLock::new(),
            identity: Mutex::default(),
            kept: Mutex::default(),
            lost: Arc::new(Lost::new()),
        });
        files.insert(key, Arc::downgrade(&file));
        file
    }

    /// The target.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether a program reads the lines.
    pub(super) fn is_program(&self) -> bool {
        self.target.starts_with('|')
    }

    /// Opens the file, or starts the program. A second call does nothing. After [`never_open`] nothing is opened.
    pub fn open(&self) -> io::Result<()> {
        if self.open.get().is_some() {
            return Ok(());
        }
        let command = self.target.strip_prefix('|');
        if NEVER_OPENS.load(Ordering::Relaxed) {
            return command.map_or_else(|| could_be_opened(&self.target), program::could_be_started);
        }
        let (opened, is_shared) = match command {
            Some(command) => {
                let (number, fd) = program::start(command, &self.lost)?;
                let _ = self.program.set(number);
                (Opened::of(fd)?, false)
            }
            None => match inherited(&self.target) {
                Some(fd) => (Opened::of(fd)?, true),
                None => (self.opened_or_kept()?, false),
            },
        };
        let Opened { fd, is_pipe, is_socket, identity } = opened;
        self.set_identity(identity);
        // Both callers would have opened the same thing.
        let _ = self.open.set(Open { fd, is_pipe, is_socket, is_shared });
        Ok(())
    }

    /// Opens the file by its name; if its file system hangs, goes on with the file that the configuration before has open under
    /// this name.
    fn opened_or_kept(&self) -> io::Result<Opened> {
        let before = keeper::is_there().then(|| self.before()).flatten();
        let device = before.as_ref().and_then(|before| Some(before.identity()?.0));
        let opened = match device {
            Some(device) if keeper::hangs(device) => Err(io::ErrorKind::TimedOut.into()),
            _ => self.opened(device),
        };
        match (opened, before.as_ref().and_then(|before| before.copy())) {
            (Err(error), Some(kept)) if error.kind() == io::ErrorKind::TimedOut => {
                runtime::log!("core", Warn, "the file system of {} does not answer: the open file stays", self.target);
                Ok(kept)
            }
            (opened, _) => opened,
        }
    }

    /// Opens the file by its name. `device`: where it was last.
    fn opened(&self, device: Option<u64>) -> io::Result<Opened> {
        if keeper::is_there() && has_own_name(&self.target) {
            keeper::open(&self.target, device)
        } else {
            open_file(&self.target)
        }
    }

    /// The log of another configuration that has the same name, and is open.
    fn before(&self) -> Option<Arc<LogFile>> {
        all().into_iter().find(|file| file.target == self.target && file.open.get().is_some())
    }

    /// A copy of the open file.
    fn copy(&self) -> Option<Opened> {
        let (open, identity) = (self.open.get()?, self.identity());
        Some(Opened { fd: open.fd.try_clone().ok()?, is_pipe: open.is_pipe, is_socket: open.is_socket, identity })
    }

    fn identity(&self) -> Option<Identity> {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_identity(&self, identity: Option<Identity>) {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = identity.filter(|_| has_own_name(&self.target));
    }

    /// Its name and the file that is open under it, if the name may come to lead elsewhere. `/dev/stderr` and its like are no
    /// names of files: they lead to whatever is open there by now.
    pub(super) fn named_file(&self) -> Option<(String, Identity)> {
        Some((self.target.clone(), self.identity()?))
    }

    /// Whether its file system does not answer.
    pub(super) fn hangs(&self) -> bool {
        self.identity().is_some_and(|(device, _)| keeper::hangs(device))
    }

    /// Opens the file that has the name now, without an order to do so: what this process and its later children write goes there.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let Some(fd) = self.descriptor() else { return Ok(()) };
        let device = self.identity().map(|(device, _)| device);
        let new = match keeper::is_there() && has_own_name(&self.target) {
            true => keeper::reopen(&self.target, device)?,
            false => reopen_file(&self.target)?,
        };
        self.flush();
        self.set_identity(new.identity);
        sys::file::redirect(fd, new.fd)
    }

    /// The open file; `None` for a program, and before it is open.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.open.get().filter(|_| !self.is_program()).map(|open| open.fd.as_fd())
    }

    /// The most bytes in a line, without its line feed. A caller that knows the parts of a line cuts it with less loss.
    pub fn line_max(&self) -> usize {
        match self.open.get() {
            Some(Open { is_pipe: true, .. }) => TOGETHER_MAX - 1,
            _ => usize::MAX,
        }
    }

    /// Lets a program find the end of its lines. Nothing more reaches it.
    fn close(&self) {
        if let Some(open) = self.open.get()
            && let Ok(nowhere) = sys::file::open_append(c"/dev/null", 0)
        {
            let _ = sys::file::redirect(&open.fd, nowhere);
        }
    }

    /// Adds a line (with its line feed), to be written soon.
    pub fn append(&self, line: &[u8]) {
        if line.len().saturating_sub(1) > self.line_max() {
            return self.append(&[&line[..TOGETHER_MAX - CUT.len()], CUT].concat());
        }
        let mut kept = self.kept();
        if !kept.behind && !kept.lines.is_empty() && kept.lines.len() + line.len() > TOGETHER_MAX {
            self.write(&mut kept);
        }
        if !kept.lines.is_empty() && kept.lines.len() + line.len() > KEPT_MAX {
            self.lost.count(1, None);
        } else {
            kept.lines.extend_from_slice(line);
        }
        KEPT.store(true, Ordering::Relaxed);
    }

    /// Writes as much of the buffer as possible now.
    pub(super) fn flush(&self) {
        self.write(&mut self.kept());
    }

    fn kept(&self) -> MutexGuard<'_, LineBuffer> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let process = sys::process::forks();
        if kept.process != process {
            *kept = LineBuffer { process, ..LineBuffer::default() };
        }
        kept
    }

    /// Writes lines without ever waiting. Lines that cannot be written at all are lost: a full disk or a dead program
    /// must not stop the server.
    fn write(&self, kept: &mut LineBuffer) {
        let mut written = 0;
        kept.behind = false;
        while let Some(open) = self.open.get().filter(|_| written < kept.lines.len()) {
            match open.write(together(&kept.lines[written..])) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    kept.behind = true;
                    kept.lines.drain(..written);
                    KEPT.store(true, Ordering::Relaxed);
                    return;
                }
                Err(error) => {
                    self.lost.count(lines(&kept.lines[written..]), Some(&error));
                    break;
                }
            }
        }
        kept.lines.clear();
    }

    /// Like [`flush`](LogFile::flush), but waits for a slow reader. The rest is lost.
    fn flush_until(&self, end: Instant) {
        let mut kept = self.kept();
        self.write(&mut kept);
        while let Some(open) = self.open.get().filter(|_| kept.behind) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || open.writable(left).is_err() {
                self.lost.count(lines(&kept.lines), None);
                kept.lines.clear();
                return;
            }
            self.write(&mut kept);
        }
    }
}

impl Open {
    /// Writes as much as goes without waiting.
    fn write(&self, lines: &[u8]) -> io::Result<usize> {
        if self.is_socket {
            return sys::socket::send(&self.fd, lines, false);
        }
        if self.is_kept() {
            return keeper::write(self.fd.as_fd(), lines);
        }
        if self.is_shared && !sys::poll::writable(&self.fd, Some(Duration::ZERO))? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        sys::file::write(&self.fd, lines)
    }

    /// Whether the keeper writes to it.
    fn is_kept(&self) -> bool {
        !self.is_pipe && !self.is_shared && keeper::is_there()
    }

    /// Waits until there may be room for lines, or the time is over.
    fn writable(&self, time: Duration) -> io::Result<bool> {
        if self.is_kept() { keeper::writable(time) } else { sys::poll::writable(&self.fd, Some(time)) }
    }
}

/// From now on logs are not opened: [`LogFile::open`] says whether they could be, and leaves no trace. For a check of a
/// configuration that may be another server's.
pub fn never_open() {
    NEVER_OPENS.store(true, Ordering::Relaxed);
}

/// As many whole lines as may be written with one call.
fn together(lines: &[u8]) -> &[u8] {
    if lines.len() <= TOGETHER_MAX {
        return lines;
    }
    let end = memchr::memrchr(b'\n', &lines[..TOGETHER_MAX]).or_else(|| memchr::memchr(b'\n', lines));
    &lines[..end.map_or(lines.len(), |end| end + 1)]
}

fn lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

impl Drop for LogFile {
    /// A program whose pipe nobody has open any more ends, and must not be restarted. A file is not closed while that would
    /// wait.
    fn drop(&mut self) {
        self.flush();
        match self.program.get() {
            Some(number) => program::retire(*number),
            None => self.lost.report(&self.target, true),
        }
        let device = self.identity().map(|(device, _)| device);
        if let Some(device) = device.filter(|device| keeper::hangs(*device))
            && let Some(open) = self.open.take()
        {
            keeper::set_aside(device, open.fd);
        }
    }
}

/// From now on files are named anew: a restarted server opens its files by name again, because the names may belong to
/// other files since (log rotation).
pub(crate) fn new_configuration() {
    CONFIGURATION.fetch_add(1, Ordering::Relaxed);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.get_or_insert_default().retain(|_, file| file.strong_count() > 0);
}

/// Writes all buffers. Called when the process is about to wait.
pub fn flush_all() {
    if KEPT.load(Ordering::Relaxed) && KEPT.swap(false, Ordering::Relaxed) {
        let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().flat_map(HashMap::values).filter_map(Weak::upgrade).for_each(|file| file.flush());
        drop(files);
        if CHECKS_OWN_LOGS.load(Ordering::Relaxed) {
            check_if_due();
        }
    }
}

/// Writes all collected lines before the process ends, also those that another thread is about to write.
pub fn flush_last() {
    let end = Instant::now() + FAREWELL;
    all().iter().for_each(|file| file.flush_until(end));
}

/// Restarts programs that have ended, and reports lost lines and disks that hang. For the parent, once a second.
pub fn every_second() {
    keeper::every_second();
    flush_all();
    program::restart_ended();
    report_lost(false);
}

/// Writes and reports what is left, and lets the log programs end. For the parent, when it ends.
pub fn parent_ends() {
    report_lost(true);
    flush_all();
    program::start_for_the_rest();
    flush_last();
    for file in all().iter().filter(|file| file.is_program()) {
        file.close();
    }
    program::end_all();
    keeper::end();
}

fn report_lost(at_last: bool) {
    program::report_lost(at_last);
    all().iter().filter(|file| !file.is_program()).for_each(|file| file.lost.report(&file.target, at_last));
}

/// From now on this process checks its logs itself: it has no parent that would do so.
pub fn check_own_logs() {
    *LAST_CHECK.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    CHECKS_OWN_LOGS.store(true, Ordering::Relaxed);
}

fn check_if_due() {
    let mut last = LAST_CHECK.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() < CHECK_INTERVAL) {
        return;
    }
    *last = Some(Instant::now());
    drop(last);
    program::reap();
    program::restart_ended();
    report_lost(false);
}

/// The log files of this process.
pub(super) fn all() -> Vec<Arc<LogFile>> {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_nobody_who_is_about_to_write() {
        let path = std::env::temp_dir().join(format!("tsubame-log-{}", std::process::id()));
        let log = LogFile::named(path.to_str().expect("a path"));
        log.open().expect("open");
        log.append(b"a line\n");
        // The first step of `flush_all` in another thread, when the process ends.
        KEPT.store(false, Ordering::Relaxed);
        flush_all();
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "", "somebody else writes");
        flush_last();
        let written = std::fs::read_to_string(&path);
        std::fs::remove_file(&path).expect("remove");
        assert_eq!(written.expect("read"), "a line\n");
    }
}
