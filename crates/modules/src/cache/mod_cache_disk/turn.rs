//! Turns at the files of a response, a head and a body: if two processes changed them at once, a head and a body that do not belong
//! together could stay.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use runtime::executor::sleep_until;
use runtime::{Load, offload, offload_apart, release_worker};
use sys::time::Instant;

use super::draft::make;
use super::paths::Paths;

/// How soon to look again whether others have finished: first, and at last. Two files are replaced in a moment, and nobody waits for a
/// process that is stuck.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_LAST: Duration = Duration::from_millis(64);

/// What becomes of somebody who wants to change the files of a response.
pub(super) enum Turn {
    /// Until this is dropped, no other process changes them.
    Held(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File),
    /// Another process changes them now.
    Taken,
    /// Nothing is stored there.
    Nowhere,
}

/// Takes a turn at the files of a response, to change or remove them.
pub(super) fn hold(paths: &Paths) -> io::Result<Turn> {
    let directory = directory(paths);
    let file = match File::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Turn::Nowhere),
        opened => opened?,
    };
    if !sys::file::try_lock(&file)? {
        return Ok(Turn::Taken);
    }
    // The directory may have been removed meanwhile.
    let is_there = fs::metadata(directory).is_ok_and(|now| file.metadata().is_ok_and(|own| now.ino() == own.ino()));
    Ok(if is_there { Turn::Held(file) } else { Turn::Taken })
}

/// Takes a turn at the files of a response that is to be stored: its directory is made.
pub(super) fn hold_to_store(paths: &Paths) -> io::Result<Turn> {
    match hold(paths)? {
        Turn::Nowhere => {
            make(directory(paths))?;
            hold(paths)
        }
        turn => Ok(turn),
    }
}

fn directory(paths: &Paths) -> &Path {
    paths.header.parent().unwrap_or(Path::new("/"))
}

/// Does blocking work on the files of a response once no other process changes them, or without that if it takes too long.
pub(super) async fn in_turn<T: Send + 'static>(
    hold: fn(&Paths) -> io::Result<Turn>,
    paths: Paths,
    work: impl FnOnce(Turn) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (mut work, mut pause) = (Undone(Some(work)), PAUSE_FIRST);
    loop {
        let (paths, is_last) = (paths.clone(), pause > PAUSE_LAST);
        let done = offload(Load::Wait, move || match hold(&paths) {
            Err(error) => Ok(Err(error)),
            Ok(Turn::Taken) if !is_last => Err(work),
            Ok(turn) => Ok(work.take()(turn)),
        });
        match done.await {
            Ok(result) => return result,
            Err(undone) => work = undone,
        }
        release_worker(sleep_until(Instant::now() + pause)).await;
        pause *= 2;
    }
}

/// Work that waits for its turn. If nobody waits for it any more, the files that belong to it are removed beside the event loop.
struct Undone<F: Send + 'static>(Option<F>);

impl<F: Send + 'static> Undone<F> {
    /// The work, to be done.
    fn take(mut self) -> F {
        self.0.take().unwrap_or_else(|| unreachable!("work is done once"))
    }
}

impl<F: Send + 'static> Drop for Undone<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            offload_apart(Load::Wait, move || drop(work));
        }
    }
}
