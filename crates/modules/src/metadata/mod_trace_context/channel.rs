//! The way of spans from the children to the process that exports them: a pipe that never makes a request wait.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use sys::shm::Shared;

/// The longest line, in bytes: a pipe takes it whole or not at all (`PIPE_BUF`, pipe(7)).
pub(super) const LINE_MAX: usize = 4096;

/// The capacity of the pipe, in bytes: a thousand spans and more, for the moments in which the collector does not answer.
const CAPACITY: usize = 1 << 20;

/// A pipe of lines, one for each span.
#[derive(Debug)]
pub(super) struct Channel {
    reader: File,
    writer: File,
}

impl Channel {
    /// Neither end blocks.
    pub(super) fn new() -> io::Result<Channel> {
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        sys::file::set_nonblocking(&reader)?;
        sys::file::set_nonblocking(&writer)?;
        // A smaller pipe also works.
        let _ = sys::file::set_pipe_size(&writer, CAPACITY);
        Ok(Channel { reader: reader.into(), writer: writer.into() })
    }

    /// Hands a line over, or counts it as lost if there is no room.
    pub(super) fn send(&self, line: &[u8]) {
        let is_sent = line.len() <= LINE_MAX && (&self.writer).write(line).is_ok_and(|written| written == line.len());
        if !is_sent {
            count(Outcome::Lost, 1);
        }
    }

    /// Appends what is in the pipe.
    ///
    /// # Errors
    /// `WouldBlock`: the pipe is empty.
    pub(super) fn receive(&self, into: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = [0; 16 * LINE_MAX];
        let length = (&self.reader).read(&mut piece)?;
        into.extend_from_slice(&piece[..length]);
        Ok(())
    }

    /// The end to wait at.
    pub(super) fn reader(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::new(self.reader.try_clone()?.into()))
    }
}

/// What becomes of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The collector has taken it.
    Sent,
    /// It was thrown away, since the collector did not take it in time.
    Lost,
}

static COUNTS: OnceLock<Shared<[AtomicU64; 2]>> = OnceLock::new();

/// Makes the places to count in, once for all configurations.
pub(super) fn start_to_count() -> io::Result<()> {
    if COUNTS.get().is_none() {
        // Only the parent comes here, and has one thread.
        let _ = COUNTS.set(Shared::new(1)?);
    }
    Ok(())
}

/// Counts spans.
pub(super) fn count(outcome: Outcome, spans: u64) {
    COUNTS.get().iter().for_each(|counts| _ = counts[0][outcome as usize].fetch_add(spans, Relaxed));
}

/// How many spans were sent, and how many were lost. `None`: none are exported.
pub(super) fn counts() -> Option<(u64, u64)> {
    let count = |outcome: Outcome| Some(COUNTS.get()?[0][outcome as usize].load(Relaxed));
    Some((count(Outcome::Sent)?, count(Outcome::Lost)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_takes_no_part_of_a_line() {
        start_to_count().expect("memory");
        let channel = Channel::new().expect("a pipe");
        let line = [b"x".repeat(LINE_MAX - 1), vec![b'\n']].concat();
        let before = counts().expect("counts").1;
        for _ in 0..=CAPACITY / LINE_MAX {
            channel.send(&line);
        }
        assert!(counts().expect("counts").1 > before, "one line too many");
        let mut all = Vec::new();
        while channel.receive(&mut all).is_ok() {}
        assert!(all.len() >= LINE_MAX && all.chunks(LINE_MAX).all(|one| one == line), "{}", all.len());
    }
}
