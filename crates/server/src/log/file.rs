//! Files and programs that log lines go to.
//!
//! Lines are kept back until the process is about to wait, or 4 KiB have come together: a busy server writes many lines
//! with one call, an idle one loses nothing. Each write ends with a whole line, and appends are atomic, so lines of
//! several processes never mix.
//!
//! Nobody ever waits for the reader of a log. What a pipe does not take is kept back, up to a limit, and tried again
//! whenever the process is about to wait; beyond the limit lines are lost, and [counted](super::lost). A pipe takes as much
//! of a line that is longer than it takes atomically as it has room for, and another process could go on behind that: such a
//! line is cut ([`LogFile::line_max`]).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::lost::Lost;
use super::program;
use crate::paths::c_path;

/// This much is written at once at most, in bytes, unless a single line is longer: what a pipe takes atomically.
const TOGETHER_MAX: usize = 4096;
/// What ends a line that was cut.
const CUT: &[u8] = b"...\n";
/// What a process keeps back for a reader that is behind, in bytes, beside what is in the pipe.
const KEPT_MAX: usize = 256 << 10;
/// How long a process that ends waits for all readers together that are behind.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often the parent looks after its logs.
const TEND: Duration = Duration::from_secs(1);

/// A log file, or a program (`|/path` or `||/path`) that reads lines.
#[derive(Debug)]
pub struct LogFile {
    target: String,
    fd: OnceLock<OwnedFd>,
    /// It is a pipe, with a name or with a program at its other end.
    is_pipe: OnceLock<bool>,
    /// The number of the program.
    program: OnceLock<u64>,
    kept: Mutex<Kept>,
    lost: Arc<Lost>,
}

/// Lines that are not written yet.
#[derive(Debug, Default)]
struct Kept {
    lines: Vec<u8>,
    /// The reader did not take what was written last.
    behind: bool,
    /// The process that keeps them ([`sys::process::forks`]): a copy of it has no part in them.
    process: u32,
}

/// All open log files of this process, for [`flush_all`]: equal targets of one configuration are one file.
static FILES: Mutex<Option<Files>> = Mutex::new(None);
/// By configuration and target.
type Files = HashMap<(u64, String), Weak<LogFile>>;
/// The configuration that names files now.
static CONFIGURATION: AtomicU64 = AtomicU64::new(0);
/// Whether any file has lines kept back.
static KEPT: AtomicBool = AtomicBool::new(false);
/// Set where no parent looks after the logs of this process, which does it itself; when it did so last.
static ALONE: Mutex<Option<Instant>> = Mutex::new(None);
/// Whether it is, without a lock.
static IS_ALONE: AtomicBool = AtomicBool::new(false);

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
            fd: OnceLock::new(),
            is_pipe: OnceLock::new(),
            program: OnceLock::new(),
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

    /// Opens the file, or starts the program. A second call does nothing.
    pub fn open(&self) -> io::Result<()> {
        if self.fd.get().is_some() {
            return Ok(());
        }
        let fd = match self.target.strip_prefix('|') {
            Some(command) => {
                let (number, fd) = program::start(command, &self.lost)?;
                let _ = self.program.set(number);
                fd
            }
            None => {
                let path = c_path(&self.target).ok_or(io::ErrorKind::InvalidInput)?;
                sys::file::open_append(&path, 0o644)?
            }
        };
        let _ = self.is_pipe.set(sys::file::fstat(&fd)?.is_pipe());
        // Both callers would have opened the same thing.
        let _ = self.fd.set(fd);
        Ok(())
    }

    /// The open file; `None` for a program, and before it is open.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.get().filter(|_| !self.is_program()).map(AsFd::as_fd)
    }

    /// How many bytes a line may have, without its line feed. What is cut by whoever knows its parts loses less.
    pub fn line_max(&self) -> usize {
        match self.is_pipe.get() {
            Some(true) => TOGETHER_MAX - 1,
            _ => usize::MAX,
        }
    }

    /// Adds a line (with its line feed); it is written soon.
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

    /// Writes what is kept back and can be written now.
    pub(super) fn flush(&self) {
        self.write(&mut self.kept());
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let process = sys::process::forks();
        if kept.process != process {
            *kept = Kept { process, ..Kept::default() };
        }
        kept
    }

    /// Writes lines as far as that makes nobody wait. What cannot be written at all is lost: a full disk or a program that is
    /// gone must not stop the server.
    fn write(&self, kept: &mut Kept) {
        let mut written = 0;
        kept.behind = false;
        while let Some(fd) = self.fd.get().filter(|_| written < kept.lines.len()) {
            match sys::file::write(fd, together(&kept.lines[written..])) {
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

    /// As [`flush`](LogFile::flush), and waits for a reader that is behind. What is left is lost.
    fn flush_until(&self, end: Instant) {
        let mut kept = self.kept();
        self.write(&mut kept);
        while let Some(fd) = self.fd.get().filter(|_| kept.behind) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || sys::poll::writable(fd, Some(left)).is_err() {
                self.lost.count(lines(&kept.lines), None);
                kept.lines.clear();
                return;
            }
            self.write(&mut kept);
        }
    }
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
    /// A program whose pipe nobody has open any more ends, and shall not be started again.
    fn drop(&mut self) {
        self.flush();
        match self.program.get() {
            Some(number) => program::retire(*number),
            None => self.lost.say(&self.target, true),
        }
    }
}

/// From now on files are named anew: what a restarted server writes to is opened by its names again, which may have been
/// given to other files since (log rotation).
pub(crate) fn new_configuration() {
    CONFIGURATION.fetch_add(1, Ordering::Relaxed);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.get_or_insert_default().retain(|_, file| file.strong_count() > 0);
}

/// Writes what is kept back. Called when the process is about to wait.
pub fn flush_all() {
    if KEPT.swap(false, Ordering::Relaxed) {
        let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().flat_map(HashMap::values).filter_map(Weak::upgrade).for_each(|file| file.flush());
        drop(files);
        if IS_ALONE.load(Ordering::Relaxed) {
            tend_if_alone();
        }
    }
}

/// The same before the process ends: also what another thread has taken upon itself to write and has not written yet.
pub fn flush_last() {
    let end = Instant::now() + FAREWELL;
    all().iter().for_each(|file| file.flush_until(end));
}

/// Once a second, in the parent: starts programs again that have ended, and says which lines were lost.
pub fn tend() {
    flush_all();
    tell(false);
}

/// When the parent ends.
pub fn tend_last() {
    tell(true);
    flush_last();
}

fn tell(at_last: bool) {
    program::tend(at_last);
    all().iter().filter(|file| !file.is_program()).for_each(|file| file.lost.say(&file.target, at_last));
}

/// This process is its own parent: it looks after its logs itself.
pub fn alone() {
    *ALONE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    IS_ALONE.store(true, Ordering::Relaxed);
}

fn tend_if_alone() {
    let mut last = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() < TEND) {
        return;
    }
    *last = Some(Instant::now());
    drop(last);
    program::reap();
    tell(false);
}

fn all() -> Vec<Arc<LogFile>> {
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
        // What another thread does first of all in `flush_all`, when the process ends.
        KEPT.store(false, Ordering::Relaxed);
        flush_all();
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "", "somebody else writes");
        flush_last();
        let written = std::fs::read_to_string(&path);
        std::fs::remove_file(&path).expect("remove");
        assert_eq!(written.expect("read"), "a line\n");
    }
}
