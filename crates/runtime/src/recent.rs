//! The last complaints of all processes, in memory that they share: what a page shows of the error logs.
//!
//! There is room for [`LINES`] lines of 496 bytes, 25 KiB. Nobody waits for anybody: a line that is being replaced is left out.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use conf::Level;
use sys::shm::Shared;

/// How many lines are kept.
pub const LINES: usize = 50;
/// The least grave level that is kept.
const LEAST: Level = Level::Warn;

/// Words of a line: its number, its time in µs with the level in the four lowest bits, and its text.
const WORDS: usize = 64;

/// In front of the lines: how many there were.
struct Lines {
    count: Shared<AtomicU64>,
    rows: Shared<[AtomicU64; WORDS]>,
}

static MEMORY: OnceLock<Lines> = OnceLock::new();

/// A line of an error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was written, in µs since 1970.
    pub at: u64,
    /// How grave it is.
    pub level: Level,
    /// As it stands in the log, cut to 496 bytes.
    pub text: String,
}

/// Makes the memory. Once, before the first fork.
pub fn open() -> std::io::Result<()> {
    if MEMORY.get().is_none() {
        let _ = MEMORY.set(Lines { count: Shared::new(1)?, rows: Shared::new(LINES)? });
    }
    Ok(())
}

/// Keeps a line, if it is grave enough.
pub fn note(level: Level, text: &[u8]) {
    let Some(memory) = MEMORY.get().filter(|_| level <= LEAST) else { return };
    // Numbers begin with 1: 0 stands for a line that is being written.
    let number = memory.count[0].fetch_add(1, Relaxed);
    let [own, time, words @ ..] = &memory.rows[place(number)];
    own.store(0, Relaxed);
    fence(Release);
    let micros = u64::try_from(sys::time::realtime_coarse().as_micros()).unwrap_or(0);
    time.store(micros & !0xf | level as u64, Relaxed);
    let mut bytes = text.chunks(8);
    for word in words {
        let mut whole = [0; 8];
        let part = bytes.next().unwrap_or_default();
        whole[..part.len()].copy_from_slice(part);
        word.store(u64::from_ne_bytes(whole), Relaxed);
    }
    own.store(number + 1, Release);
}

/// How many there were, and those that are kept, the latest first.
pub fn lines() -> (u64, Vec<Line>) {
    let Some(memory) = MEMORY.get() else { return (0, Vec::new()) };
    let count = memory.count[0].load(Relaxed);
    let kept = (count.saturating_sub(LINES as u64)..count).rev();
    (count, kept.filter_map(|number| read(&memory.rows[place(number)], number + 1)).collect())
}

fn place(number: u64) -> usize {
    usize::try_from(number % LINES as u64).unwrap_or(0)
}

fn read([own, time, words @ ..]: &[AtomicU64; WORDS], number: u64) -> Option<Line> {
    if own.load(Acquire) != number {
        return None;
    }
    let time = time.load(Relaxed);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    fence(Acquire);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (_, level) = *Level::NAMES.get((time & 0xf) as usize)?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    (own.load(Relaxed) == number).then_some(Line { at: time & !0xf, level, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        note(Level::Error, b"before there is memory");
        open().expect("memory");
        assert_eq!(lines(), (0, Vec::new()));
        note(Level::Notice, b"not grave");
        let long = "x".repeat(1000);
        note(Level::Warn, long.as_bytes());
        note(Level::Crit, b"grave");
        let (count, kept) = lines();
        let told: Vec<(Level, &str)> = kept.iter().map(|line| (line.level, line.text.as_str())).collect();
        assert_eq!((count, told), (2, vec![(Level::Crit, "grave"), (Level::Warn, &long[..496])]));
        for number in 0..LINES + 5 {
            note(Level::Error, number.to_string().as_bytes());
        }
        let (count, kept) = lines();
        assert_eq!((count, kept.len(), kept[0].text.as_str()), (57, LINES, "54"));
    }
}
