//! Log rotation: log files that were renamed or removed are noticed, and opened again by their names.
//!
//! Apache goes on writing to a renamed file until it is restarted. Debian's configuration of logrotate restarts only programs
//! named `apache2`, so nobody would tell us.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::time::Instant;

use super::file::{LogFile, all};
use super::keeper::{self, NAMES_MAX, Name};
use crate::log::os_error::os_prefix;

/// How often names are looked at. Every so many files make it a second more, so that the parent of a thousand virtual hosts
/// has no more to do.
const LOOK: Duration = Duration::from_secs(1);
const FILES_PER_LOOK: usize = 100;
/// How long it takes until a file is tried again that could not be opened.
const AGAIN: Duration = Duration::from_secs(60);

/// What the parent saw last.
struct Seen {
    /// A name led nowhere.
    gone: bool,
    /// When to look again.
    due: Option<Instant>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen { gone: false, due: None });

/// For the parent, about once a second: opens log files again by their names that were renamed or removed. `true`: some were,
/// and what is forked from now on writes to the new ones.
pub fn reopen_renamed() -> bool {
    let renamed = renamed();
    !renamed.is_empty() && reopen(&renamed)
}

/// The files whose names lead elsewhere. Where a name leads nowhere, whoever renamed the file may be about to make a new one
/// (logrotate's `create`), which must not find ours in its place: that counts from the second look on.
fn renamed() -> Vec<Arc<LogFile>> {
    let now = Instant::now();
    let mut seen = seen();
    if seen.due.is_some_and(|due| now < due) {
        return Vec::new();
    }
    let files: Vec<_> = all().into_iter().filter_map(|file| Some((file.named_file()?, file))).collect();
    let many = u32::try_from(files.len() / FILES_PER_LOOK).unwrap_or(u32::MAX);
    seen.due = now.checked_add(LOOK.saturating_mul(many));
    let mut names = Vec::new();
    for files in files.chunks(NAMES_MAX) {
        let named: Vec<_> = files.iter().map(|(named, _)| named.clone()).collect();
        // Without a response the next look begins anew.
        let Some(found) = keeper::names_of(&named) else { return Vec::new() };
        names.extend(found);
    }
    let gone = names.contains(&Name::Gone);
    if gone & !std::mem::replace(&mut seen.gone, gone) {
        return Vec::new();
    }
    let elsewhere = files.into_iter().zip(names).filter(|(_, name)| *name != Name::Ours);
    elsewhere.map(|((_, file), _)| file).collect()
}

/// For the parent, before a restart: finds the file systems that hang, by one open file of each. What lies there is left alone.
pub fn find_hanging() {
    let files = all().into_iter().filter_map(|file| file.named_file());
    let of_each: BTreeMap<u64, _> = files.map(|file| (file.1.0, file)).collect();
    of_each.into_values().for_each(keeper::probe);
}

/// Whether a log is open, and its file system hangs.
pub fn hangs(target: &str) -> bool {
    all().iter().any(|file| file.target() == target && file.hangs())
}

/// One that cannot be opened keeps its old file, and the others are opened all the same.
fn reopen(files: &[Arc<LogFile>]) -> bool {
    let mut opened = false;
    for file in files {
        match file.reopen() {
            Ok(()) => opened = true,
            Err(error) => {
                seen().due = Instant::now().checked_add(AGAIN);
                let (prefix, name, seconds) = (os_prefix(&error), file.target(), AGAIN.as_secs());
                let text = "was renamed or removed and cannot be opened again: its lines go on to the old file";
                runtime::log!("core", Error, "{prefix}{name} {text}; the next try is in {seconds} s");
            }
        }
    }
    opened
}

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}
