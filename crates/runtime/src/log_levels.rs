//! Log levels that were changed while the server runs, in memory shared by all its processes. They hold until the next
//! configuration is read.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use conf::Level;
use sys::shm::Shared;

/// How many modules may have a level of their own at once.
const PLACES: usize = 31;

/// Stands for all modules except those that got a level of their own afterwards.
pub const ALL: &str = "*";

/// The first word counts the others in use; each of those holds a module's name as a number, and its level in the upper
/// bits.
static WORDS: OnceLock<Shared<[AtomicU64; PLACES + 1]>> = OnceLock::new();

/// Makes the memory. Call it once, before the first fork.
pub fn open() -> std::io::Result<()> {
    if WORDS.get().is_none() {
        let _ = WORDS.set(Shared::new(1)?);
    }
    Ok(())
}

/// Sets the level of a module, or of [`ALL`], which (as with `LogLevel`) cancels earlier levels of single modules.
/// `Err`: too many modules have one.
pub fn set(module: &str, level: Level) -> Result<(), String> {
    let Some(words) = words() else { return Err("no server runs in this process".into()) };
    let used = if module == ALL { 0 } else { used(words) };
    let word = number(module) << 8 | level as u64;
    let place = (1..=used).find(|place| words[*place].load(Relaxed) >> 8 == number(module)).unwrap_or(used + 1);
    let Some(entry) = words.get(place) else {
        return Err(format!("{PLACES} modules have a level of their own already"));
    };
    entry.store(word, Relaxed);
    words[0].store(used.max(place) as u64, Relaxed);
    Ok(())
}

/// Forgets all levels.
pub fn clear() {
    if let Some(words) = words() {
        words[0].store(0, Relaxed);
    }
}

/// The level set for a module, or for all.
#[inline]
pub fn of(module: &str) -> Option<Level> {
    let words = words()?;
    match used(words) {
        0 => None,
        used => find(words, used, module).or_else(|| find(words, used, ALL)),
    }
}

/// Whether any level is set.
pub fn are_changed() -> bool {
    words().is_some_and(|words| used(words) > 0)
}

/// The level set for exactly this name.
pub fn own(module: &str) -> Option<Level> {
    let words = words()?;
    find(words, used(words), module)
}

fn words() -> Option<&'static [AtomicU64; PLACES + 1]> {
    WORDS.get().and_then(|words| words.first())
}

fn used(words: &[AtomicU64; PLACES + 1]) -> usize {
    usize::try_from(words[0].load(Relaxed)).unwrap_or(0).min(PLACES)
}

fn find(words: &[AtomicU64; PLACES + 1], used: usize, module: &str) -> Option<Level> {
    let number = number(module);
    let entry = words[1..=used].iter().map(|word| word.load(Relaxed)).find(|word| word >> 8 == number)?;
    Level::NAMES.get((entry & 0xff) as usize).map(|(_, level)| *level)
}

/// FNV-1a, cut to 56 bits: there are few names, and all of them are known.
fn number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_found_and_forgotten() {
        open().expect("memory");
        assert_eq!(of("core"), None);
        set("core", Level::Debug).expect("set");
        set("alias", Level::Info).expect("set");
        set("core", Level::Trace3).expect("set again");
        assert_eq!((of("core"), of("alias"), of("dir")), (Some(Level::Trace3), Some(Level::Info), None));
        set(ALL, Level::Error).expect("set");
        assert_eq!((of("core"), of("alias"), own("alias")), (Some(Level::Error), Some(Level::Error), None));
        set("core", Level::Debug).expect("set");
        assert_eq!((of("core"), of("alias")), (Some(Level::Debug), Some(Level::Error)));
        for i in 0..PLACES - 2 {
            set(&format!("m{i}"), Level::Info).expect("room");
        }
        assert!(set("one too many", Level::Info).is_err());
        clear();
        assert_eq!((of("core"), of("m3")), (None, None));
    }
}
