//! Log lines that could not be written: all processes count them, and the parent reports them in the error log.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sys::shm::Shared;
use sys::time::Instant;

/// How many logs have counters of their own; any further ones share them.
const COUNTERS: usize = 4096;
/// How often the error log repeats that a log loses lines.
const REPEAT: Duration = Duration::from_secs(60);

/// The counts of all processes: how many lines, and the error of the last one (0: the reader was too slow). The first
/// counter is for all logs together.
static COUNTED: OnceLock<Option<Shared<[AtomicU64; 2]>>> = OnceLock::new();

/// The lost lines of one log.
#[derive(Debug)]
pub(super) struct Lost {
    counter: usize,
    said: Mutex<Reported>,
}

#[derive(Debug, Default)]
struct Reported {
    lines: u64,
    when: Option<Instant>,
}

fn counted() -> Option<&'static Shared<[AtomicU64; 2]>> {
    // Without the memory nothing is counted, and everything else continues.
    COUNTED.get_or_init(|| Shared::new(COUNTERS).ok()).as_ref()
}

/// How many lines of all logs were lost since the server was started.
pub fn lines_lost() -> u64 {
    counted().map_or(0, |counters| counters[0][0].load(Relaxed))
}

impl Lost {
    /// For a separate log, before any fork.
    pub(super) fn new() -> Lost {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = usize::try_from(NEXT.fetch_add(1, Relaxed)).unwrap_or(0);
        let counter = 1 + number % (COUNTERS - 1);
        let lines = counted().map_or(0, |counters| counters[counter][0].load(Relaxed));
        Lost { counter, said: Mutex::new(Reported { lines, when: None }) }
    }

    /// Counts lines. No error means that their reader was too slow.
    pub(super) fn count(&self, lines: u64, error: Option<&io::Error>) {
        let number = error.and_then(io::Error::raw_os_error).unwrap_or(0);
        if let Some(counters) = counted() {
            counters[self.counter][1].store(u64::from(number.unsigned_abs()), Relaxed);
            counters[self.counter][0].fetch_add(lines, Relaxed);
            counters[0][0].fetch_add(lines, Relaxed);
        }
    }

    /// Reports in the error log what is not reported yet, but not too often. For the parent. The log may be the error
    /// log itself, so its lines must not be locked here.
    pub(super) fn report(&self, target: &str, at_last: bool) {
        let Some(counters) = counted() else { return };
        let (lines, error) = (counters[self.counter][0].load(Relaxed), counters[self.counter][1].load(Relaxed));
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let more = lines - said.lines;
        let soon = said.when.is_some_and(|when| when.elapsed() < REPEAT);
        if more == 0 || (soon && !at_last) {
            return;
        }
        *said = Reported { lines, when: Some(Instant::now()) };
        drop(said);
        match i32::try_from(error) {
            Ok(number @ 1..) => {
                let prefix = crate::log::os_error::os_prefix(&io::Error::from_raw_os_error(number));
                runtime::log!("core", Error, "{prefix}{more} lines for '{target}' are lost");
            }
            _ => runtime::log!("core", Error, "{more} lines for '{target}' are lost: they are not read fast enough"),
        }
    }
}
