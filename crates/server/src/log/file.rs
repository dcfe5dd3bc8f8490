//! Files and programs that log lines go to.
//!
//! Lines are kept back until the process is about to wait, or 4 KiB have come together: a busy server writes many lines
//! with one call, an idle one loses nothing. Each write ends with a whole line, and appends are atomic, so lines of
//! several processes never mix.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::files::paths::c_path;

/// This much is written at once at most, in bytes, unless a single line is longer: what a pipe takes atomically.
const TOGETHER_MAX: usize = 4096;
/// A program that ends sooner is not started again at once: it would only end again.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// A log file, or a program (`|/path` or `||/path`) that reads lines.
#[derive(Debug)]
pub struct LogFile {
    target: String,
    fd: OnceLock<OwnedFd>,
    /// The number of the program in [`PROGRAMS`].
    program: OnceLock<u64>,
    kept: Mutex<Vec<u8>>,
}

/// All open log files of this process, for [`flush_all`]: equal targets of one configuration are one file.
static FILES: Mutex<Option<Files>> = Mutex::new(None);
/// By configuration and target.
type Files = HashMap<(u64, String), Weak<LogFile>>;
/// The configuration that names files now.
static CONFIGURATION: AtomicU64 = AtomicU64::new(0);
/// Whether any file has lines kept back.
static KEPT: AtomicBool = AtomicBool::new(false);
/// The programs that run, with the end of the pipe they read: should one die, another gets the same end.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Program {
    number: u64,
    /// `None`: it ended and waits to be started again.
    pid: Option<sys::process::Pid>,
    started: Instant,
    command: String,
    reads: Arc<OwnedFd>,
}

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
            program: OnceLock::new(),
            kept: Mutex::new(Vec::new()),
        });
        files.insert(key, Arc::downgrade(&file));
        file
    }

    /// The target.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Opens the file, or starts the program. A second call does nothing.
    pub fn open(&self) -> io::Result<()> {
        if self.fd.get().is_some() {
            return Ok(());
        }
        let fd = match self.target.strip_prefix('|') {
            Some(command) => {
                let (number, fd) = start(command)?;
                let _ = self.program.set(number);
                fd
            }
            None => {
                let path = c_path(&self.target).ok_or(io::ErrorKind::InvalidInput)?;
                sys::file::open_append(&path, 0o644)?
            }
        };
        // Both callers would have opened the same thing.
        let _ = self.fd.set(fd);
        Ok(())
    }

    /// The open file; `None` for a program, and before it is open.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.get().filter(|_| self.program.get().is_none()).map(AsFd::as_fd)
    }

    /// Adds a line (with its line feed); it is written soon.
    pub fn append(&self, line: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let full = !kept.is_empty() && kept.len() + line.len() > TOGETHER_MAX;
        let written = if full { self.write(&mut kept) } else { Ok(()) };
        kept.extend_from_slice(line);
        KEPT.store(true, Ordering::Relaxed);
        drop(kept);
        self.say_lost(written);
    }

    pub(super) fn flush(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.write(&mut kept);
        drop(kept);
        self.say_lost(written);
    }

    /// Writes lines, and forgets them in any case: a full disk or a dead program must not stop the server.
    fn write(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = &lines[..];
        let mut result = Ok(());
        while let Some(fd) = self.fd.get().filter(|_| !rest.is_empty() && result.is_ok()) {
            match sys::file::write(fd, rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
        }
        lines.clear();
        result
    }

    /// Lines that could not be written are lost; the error log says so once. It may be this very file, so its lines must
    /// not be locked here.
    fn say_lost(&self, written: io::Result<()>) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if let Err(error) = written
            && !SAID.swap(true, Ordering::Relaxed)
        {
            seam::log!("log_config", Error, "{error}: lines for {} are lost", self.target);
        }
    }
}

impl Drop for LogFile {
    /// A program whose pipe is closed ends, and shall not be started again.
    fn drop(&mut self) {
        self.flush();
        if let Some(number) = self.program.get() {
            let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
            programs.retain(|program| program.number != *number);
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
        flush_last();
    }
}

/// The same before the process ends: also what another thread has taken upon itself to write and has not written yet.
pub fn flush_last() {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    for file in files.iter().flat_map(HashMap::values).filter_map(Weak::upgrade) {
        file.flush();
    }
}

/// Starts a program and returns its number and the end of the pipe to write to.
fn start(command: &str) -> io::Result<(u64, OwnedFd)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (reads, writes) = io::pipe()?;
    let reads = Arc::new(OwnedFd::from(reads));
    let pid = spawn(command, &reads)?;
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    programs.push(Program { number, pid: Some(pid), started: Instant::now(), command: command.to_string(), reads });
    Ok((number, writes.into()))
}

/// `|command` and `||command` run the program directly, `|$command` through the shell (Apache manual, piped logs).
fn spawn(command: &str, reads: &OwnedFd) -> io::Result<sys::process::Pid> {
    let command = command.strip_prefix('|').unwrap_or(command);
    let words = match command.strip_prefix('$') {
        Some(line) => vec!["/bin/sh".to_string(), "-c".into(), line.into()],
        None => conf::words::words(command),
    };
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let argv = words.iter().map(|word| CString::new(http1::text::to_bytes(word)));
    let argv = argv.collect::<Result<Vec<CString>, _>>().map_err(invalid)?;
    let env = std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let env = env.map(CString::new).collect::<Result<Vec<CString>, _>>().map_err(invalid)?;
    let program = argv.first().ok_or(io::ErrorKind::InvalidInput)?;
    let error = io::stderr();
    sys::spawn::Spawn {
        program,
        argv: &argv.iter().map(CString::as_c_str).collect::<Vec<_>>(),
        env: &env.iter().map(CString::as_c_str).collect::<Vec<_>>(),
        directory: None,
        stdio: [reads.as_fd(), error.as_fd(), error.as_fd()],
        more: &[],
        own_group: false,
        limits: &[],
    }
    .start()
}

/// Tells that a child process has ended: a logging program is started again, one that ran for less than a second with
/// the next [`revive`]. Returns whether it was one.
pub fn reaped(pid: i32) -> bool {
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |program: &&mut Program| program.pid.is_some_and(|own| own.number() == pid);
    let Some(program) = programs.iter_mut().find(is_it) else { return false };
    seam::log!("core", Error, "AH00106: piped log program '{}' failed unexpectedly", program.command);
    program.pid = None;
    if program.started.elapsed() >= SHORT_LIFE {
        program.start();
    }
    true
}

/// Starts logging programs again that ended soon after their start. Called once a second.
pub fn revive() {
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.iter_mut().filter(|program| program.pid.is_none()).for_each(Program::start);
}

impl Program {
    fn start(&mut self) {
        self.started = Instant::now();
        match spawn(&self.command, &self.reads) {
            Ok(pid) => self.pid = Some(pid),
            Err(error) => {
                let prefix = super::os_prefix(&error);
                seam::log!("core", Error, "{prefix}AH00104: unable to start piped log program '{}'", self.command);
            }
        }
    }
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
