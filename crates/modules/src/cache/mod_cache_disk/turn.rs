//! Turns at the files of a response, a head and a body: if two processes changed them at once, a head and a body that do not belong
//! together could stay.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use runtime::executor::sleep_until;
use runtime::{Load, offload, release_worker};
use sys::time::Instant;

use super::draft::make;
use super::paths::Paths;

/// How soon to look again whether others have finished: first, and at last. Two files are replaced in a moment, and nobody waits for a
/// process that is stuck.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_LAST: Duration = Duration::from_millis(64);

/// Until this is dropped, no other process changes the files of a response. `None`: another one does that now.
pub(super) fn hold(paths: &Paths) -> io::Result<Option<File>> {
    let directory = paths.header.parent().unwrap_or(Path::new("/"));
    let file = match File::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(directory)?;
            File::open(directory)?
        }
        opened => opened?,
    };
    if !sys::file::try_lock(&file)? {
        return Ok(None);
    }
    // The directory may have been removed meanwhile.
    let is_there = fs::metadata(directory).is_ok_and(|now| file.metadata().is_ok_and(|own| now.ino() == own.ino()));
    Ok(Some(file).filter(|_| is_there))
}

/// Does blocking work on the files of a response once no other process changes them, or without that if it takes too long.
pub(super) async fn in_turn<T: Send + 'static>(
    paths: Paths,
    mut work: impl FnOnce(Option<File>) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let mut pause = PAUSE_FIRST;
    loop {
        let (paths, is_last) = (paths.clone(), pause > PAUSE_LAST);
        let done = offload(Load::Wait, move || match hold(&paths) {
            Err(error) => Ok(Err(error)),
            Ok(None) if !is_last => Err(work),
            Ok(held) => Ok(work(held)),
        });
        match done.await {
            Ok(result) => return result,
            Err(undone) => work = undone,
        }
        release_worker(sleep_until(Instant::now() + pause)).await;
        pause *= 2;
    }
}
