//! Traces of valgrind: the system calls of one request, and its accesses to memory as the cache lines and pages that it
//! touches.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde::Serialize;

use crate::count::requests::CountedRequest;
use crate::count::traced::{Setup, Traced};
use crate::experiments::site::Account;
use crate::experiments::subject::Subject;
use crate::machine::error::{Context as _, Error, Result};

/// How many requests are looked at. The first one has a new connection; of the others the cheapest counts, since a timer's work
/// falls into some.
const REQUESTS: u32 = 6;

/// Requests before those.
const WARM_UP: u32 = 30;

/// Without a trace for this long, the server waits for the next request.
const SILENCE: Duration = Duration::from_millis(100);

/// The pause between requests.
const PAUSE: Duration = Duration::from_millis(300);

/// The sizes of a cache line and of a page, as powers of two.
const LINE: u32 = 6;
const PAGE: u32 = 12;

/// The distinct places in memory that one request touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Footprint {
    pub(super) instructions: u64,
    pub(super) code_lines: usize,
    pub(super) data_lines: usize,
    /// Those of the lines of data that were written.
    pub(super) written_lines: usize,
    pub(super) code_pages: usize,
    pub(super) data_pages: usize,
    /// The system calls, in order.
    #[serde(skip)]
    system_calls: Vec<String>,
}

/// The system calls of one request, in order.
pub(super) fn system_calls(
    setup: &Setup<'_>,
    subject: &Subject,
    program: &Path,
    request: &CountedRequest,
) -> Result<Vec<String>> {
    trace(setup, &["--tool=none"], subject, program, request).map(|footprint| footprint.system_calls)
}

/// The cache lines and pages of one request, as lackey shows them.
pub(super) fn footprint(
    setup: &Setup<'_>,
    subject: &Subject,
    program: &Path,
    request: &CountedRequest,
) -> Result<Footprint> {
    trace(setup, &["--tool=lackey", "--basic-counts=no", "--trace-mem=yes"], subject, program, request)
}

/// Looks at single requests.
fn trace(
    setup: &Setup<'_>,
    tool: &[&str],
    subject: &Subject,
    program: &Path,
    request: &CountedRequest,
) -> Result<Footprint> {
    // Not a socket: on one, each of valgrind's small writes waits until the one before is acknowledged.
    let path = setup.scratch.path().join(format!("{}.{}.trace", request.id, subject.id));
    let open = || -> std::io::Result<File> {
        let _ = std::fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        if let Some(Account { uid, gid, .. }) = &setup.account {
            std::os::unix::fs::chown(&path, Some(*uid), Some(*gid))?;
        }
        // Also for writing, so that there is no end before valgrind has come.
        File::options().read(true).write(true).open(&path)
    };
    let pipe = open().context(|| "make a pipe for valgrind's output".to_owned())?;
    let mut tool: Vec<String> = tool.iter().map(|option| (*option).to_owned()).collect();
    tool.extend(["--trace-syscalls=yes".to_owned(), format!("--log-file={}", path.display())]);
    let (is_wanted, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let footprints = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(pipe, &is_wanted, &is_over));
        let serve = || -> Result<()> {
            let server = Traced::start(setup, &tool, subject, program, request)?;
            server.ask(WARM_UP, Duration::ZERO)?;
            std::thread::sleep(SILENCE * 2);
            is_wanted.store(true, Relaxed);
            server.ask(REQUESTS, PAUSE)?;
            std::thread::sleep(SILENCE * 2);
            server.end()
        };
        let served = serve();
        is_over.store(true, Relaxed);
        let footprints = reader.join().map_err(|_| Error::new("the reader of valgrind's output failed"))?;
        served.and(footprints)
    })?;
    smallest(footprints.into_iter().skip(1).collect())
}

/// The smallest footprint of a request among those of requests, of timers and of the connection's end. A request has all system calls
/// that most of the others have, too: the end of a connection sends no file.
fn smallest(all: Vec<Footprint>) -> Result<Footprint> {
    // What a timer does between two requests is far smaller.
    let longest = all.iter().map(|one| one.system_calls.len()).max().unwrap_or_default();
    let whole: Vec<Footprint> = all.into_iter().filter(|one| one.system_calls.len() > longest / 3).collect();
    let is_usual = |name: &String| 2 * whole.iter().filter(|one| one.system_calls.contains(name)).count() > whole.len();
    let usual: HashSet<String> =
        whole.iter().flat_map(|one| &one.system_calls).filter(|name| is_usual(name)).cloned().collect();
    let requests = whole.into_iter().filter(|one| usual.iter().all(|name| one.system_calls.contains(name)));
    let size = |one: &Footprint| (one.code_lines + one.data_lines, one.system_calls.len());
    requests.min_by_key(size).ok_or_else(|| Error::new("valgrind has shown no request"))
}

/// Reads a trace until it is over. Returns a footprint for each time between two pauses from when they are wanted.
fn read(mut pipe: File, is_wanted: &AtomicBool, is_over: &AtomicBool) -> Result<Vec<Footprint>> {
    let silence = Timespec::try_from(SILENCE).context(|| "limit the time of a read".to_owned())?;
    let mut footprints = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    let mut rest = 0;
    let mut trace = Trace::default();
    loop {
        let ready = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&silence));
        if ready.context(|| "wait for valgrind's output".to_owned())? == 0 {
            let footprint = std::mem::take(&mut trace).footprint();
            if !footprint.system_calls.is_empty() {
                footprints.push(footprint);
            }
            if is_over.load(Relaxed) {
                return Ok(footprints);
            }
            continue;
        }
        let count = pipe.read(&mut buffer[rest..]).context(|| "read valgrind's output".to_owned())?;
        let all = &buffer[..rest + count];
        let end = all.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if is_wanted.load(Relaxed) {
            all[..end].split(|byte| *byte == b'\n').for_each(|line| trace.add(line));
        }
        let all = rest + count;
        buffer.copy_within(end..all, 0);
        rest = all - end;
        if rest == buffer.len() {
            return Err(Error::new("a line of valgrind's output has no end"));
        }
    }
}

/// The accesses of one request.
#[derive(Debug, Default)]
struct Trace {
    instructions: u64,
    code: HashSet<u64>,
    data: HashSet<u64>,
    written: HashSet<u64>,
    system_calls: Vec<String>,
}

impl Trace {
    /// A line of the trace: `I  ADDRESS,SIZE`, ` L ADDRESS,SIZE` (also `S` and `M`: load, store, modify), or
    /// `SYSCALL[PID,THREAD](NUMBER) sys_NAME ...`.
    fn add(&mut self, line: &[u8]) {
        let (kind, access) = line.split_at(line.len().min(3));
        let lines = match kind {
            b"I  " => &mut self.code,
            b" L " | b" S " | b" M " => &mut self.data,
            _ => return self.add_call(line),
        };
        let Some((first, last)) = lines_of(access) else { return };
        lines.extend(first..=last);
        match kind {
            b"I  " => self.instructions += 1,
            b" S " | b" M " => self.written.extend(first..=last),
            _ => {}
        }
    }

    fn add_call(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let name = text.strip_prefix("SYSCALL[").and_then(|rest| rest.split_once(" sys_"));
        let name = name.and_then(|(_, rest)| rest.split([' ', '(']).next());
        self.system_calls.extend(name.map(str::to_owned));
    }

    fn footprint(self) -> Footprint {
        let pages = |lines: &HashSet<u64>| lines.iter().map(|line| line >> (PAGE - LINE)).collect::<HashSet<_>>().len();
        Footprint {
            instructions: self.instructions,
            code_lines: self.code.len(),
            data_lines: self.data.len(),
            written_lines: self.written.len(),
            code_pages: pages(&self.code),
            data_pages: pages(&self.data),
            system_calls: self.system_calls,
        }
    }
}

/// The first and the last cache line of `ADDRESS,SIZE`.
fn lines_of(access: &[u8]) -> Option<(u64, u64)> {
    let (address, size) = std::str::from_utf8(access).ok()?.trim().split_once(',')?;
    let (address, size) = (u64::from_str_radix(address, 16).ok()?, size.parse::<u64>().ok()?);
    Some((address >> LINE, (address + size.max(1) - 1) >> LINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_timer_nor_the_end_of_a_connection_is_a_request() {
        let print = |calls: &str| Footprint {
            system_calls: calls.split(' ').map(str::to_owned).collect(),
            ..Footprint::default()
        };
        let request = "recvfrom setsockopt writev sendfile setsockopt epoll_wait";
        let with_timer = format!("{request} getrusage epoll_wait");
        let groups = ["epoll_wait", &with_timer, request, &with_timer, request, "recvfrom close epoll_wait"];
        assert_eq!(smallest(groups.map(print).into()).expect("a request"), print(request));
        assert!(smallest(Vec::new()).is_err());
    }

    #[test]
    fn lines_and_pages_are_counted_once() {
        let mut trace = Trace::default();
        let text = "I  04016b80,3\nI  04016b83,5\nI  04016bbe,4\n L 1ffeffe7e0,8\n S 1ffeffe7e8,8\n M 1ffeffffff,1\n\
            SYSCALL[1,1](232) sys_epoll_wait ( 3, 0x1, 1, -1 ) --> [async] ...\nnoise\n";
        text.lines().for_each(|line| trace.add(line.as_bytes()));
        let wanted = Footprint {
            instructions: 3,
            code_lines: 2,
            data_lines: 2,
            written_lines: 2,
            code_pages: 1,
            data_pages: 2,
            system_calls: vec!["epoll_wait".to_owned()],
        };
        assert_eq!(trace.footprint(), wanted);
    }
}
