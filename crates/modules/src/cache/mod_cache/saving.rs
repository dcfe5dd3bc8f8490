//! A body that is stored while it goes out.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use runtime::{Load, offload, offload_apart};
use server::{Body, BodyStream, FilePart, Piece, VirtualHost};
use sys::time::Instant;

use super::lock::Lock;
use super::queue::End;
use crate::cache::complaint::complain;
use crate::cache::storage::{Draft, Job, Place};
use crate::cache_counts::{Counted, count};

/// A part of a file up to this size is stored before it goes out, in bytes: it then goes out without passing through memory.
const AT_ONCE: u64 = 1024 * 1024;

/// A response that is being stored, and the lock that keeps others from doing the same.
pub(super) struct Keeping {
    pub(super) draft: Box<dyn Draft>,
    pub(super) lock: Option<Lock>,
    /// The stored response whose place it takes: it goes, too, if this one does not fit.
    pub(super) replaces: Option<Box<dyn Place>>,
    /// Somebody gets the response, stored or not.
    pub(super) is_wanted: bool,
    pub(super) host: &'static VirtualHost,
}

impl Keeping {
    /// The body is complete.
    pub(super) async fn commit(self) {
        self.go_on(true, |_| Ok(())).await;
    }

    /// Stores more of the body, or the last part of it. `None`: that is all.
    async fn go_on(
        self,
        is_last: bool,
        write: impl FnOnce(&mut dyn Draft) -> io::Result<()> + Send + 'static,
    ) -> Option<Keeping> {
        let Keeping { mut draft, lock, replaces, is_wanted, host } = self;
        let written = offload(Load::Wait, move || match write(&mut *draft) {
            Err(error) => Step::Failed(error, lock),
            Ok(()) if !is_last => Step::Written(draft, lock),
            Ok(()) => Step::Complete(draft.commit(), lock),
        });
        let (stored, lock) = match written.await {
            Step::Written(draft, lock) => return Some(Keeping { draft, lock, replaces, is_wanted, host }),
            Step::Failed(error, lock) => (Err(error), lock),
            Step::Complete(job, lock) => (job.await, lock),
        };
        let end = match stored.as_ref().map_err(io::Error::kind) {
            Ok(()) => {
                count(Counted::Store);
                End::Stored
            }
            Err(io::ErrorKind::AlreadyExists) => End::Stored,
            Err(io::ErrorKind::ResourceBusy) => End::Alone,
            // The body is none that is stored.
            Err(io::ErrorKind::FileTooLarge | io::ErrorKind::UnexpectedEof) => {
                if let Some(replaces) = replaces
                    && let Err(error) = replaces.remove().await
                {
                    complain(host, "cache", Some(&error), "a stored response cannot be removed");
                }
                End::Unstorable
            }
            Err(_) => {
                complain(host, "cache", stored.as_ref().err(), "a response cannot be stored");
                End::Unstorable
            }
        };
        if let Some(lock) = lock {
            lock.settle(end);
        }
        None
    }
}

/// What has become of a piece.
enum Step {
    /// There is more to come.
    Written(Box<dyn Draft>, Option<Lock>),
    /// The response cannot be stored.
    Failed(io::Error, Option<Lock>),
    /// The response is complete; what stores it.
    Complete(Job, Option<Lock>),
}

/// The body, on its way to the client.
pub(super) struct Saving {
    source: Box<dyn BodyStream>,
    keeping: Option<Keeping>,
    /// Somebody gets it, stored or not.
    is_wanted: bool,
    /// How many bytes are still to come, if that is known.
    left: Option<u64>,
    /// How many bytes are stored before they go out, and how long that may take; zero: as long as it takes.
    gather: (u64, Duration),
    /// The source has ended, or failed.
    ended: Option<Option<io::Error>>,
}

impl Saving {
    /// Has a body stored: at once if it is there, otherwise while it goes out. `gather`: bytes and milliseconds.
    pub(super) async fn begin(keeping: Keeping, body: Body, gather: (u64, u64)) -> Body {
        match &body {
            Body::Empty => keeping.commit().await,
            Body::Bytes(bytes) => {
                let bytes = bytes.clone();
                keeping.go_on(true, move |draft| draft.write(&bytes)).await;
            }
            Body::File(part) if part.length <= AT_ONCE => {
                let part = part.clone();
                keeping.go_on(true, move |draft| draft.write(&whole(&part)?)).await;
            }
            _ => {
                if let Some(lock) = &keeping.lock {
                    lock.begin_body().await;
                }
                let (bytes, milliseconds) = gather;
                let source = body.into_stream();
                return Body::Stream(Box::new(Saving {
                    left: source.length(),
                    source,
                    is_wanted: keeping.is_wanted,
                    keeping: Some(keeping),
                    gather: (bytes, Duration::from_millis(milliseconds)),
                    ended: None,
                }));
            }
        }
        body
    }

    /// The next piece, as large as the configuration wants it.
    async fn gather(&mut self) -> Option<io::Result<Bytes>> {
        let first = self.source.next().await;
        let (size, time) = self.gather;
        let Some(Ok(piece)) = &first else { return first };
        if piece.len() as u64 >= size {
            return first;
        }
        let (start, mut all) = (Instant::now(), piece.to_vec());
        while (all.len() as u64) < size && (time.is_zero() || start.elapsed() < time) {
            match self.source.next().await {
                Some(Ok(piece)) => all.extend_from_slice(&piece),
                end => {
                    self.ended = Some(end.and_then(Result::err));
                    break;
                }
            }
        }
        Some(Ok(all.into()))
    }

    async fn step(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(end) = self.ended.take() {
            self.ended = Some(None);
            return end.map(Err);
        }
        // A client that has gone ends this here, and nothing is stored.
        let Some(keeping) = self.keeping.take() else {
            return if self.is_wanted { self.source.next().await } else { None };
        };
        let piece = self.gather().await;
        match &piece {
            None => keeping.commit().await,
            Some(Err(_)) => discard(keeping),
            Some(Ok(piece)) => {
                self.left = self.left.map(|left| left.saturating_sub(piece.len() as u64));
                // A client that knows the length may ask again as soon as it has the last byte.
                let is_last = self.left == Some(0) || matches!(self.ended, Some(None));
                let piece = piece.clone();
                match self.ended {
                    Some(Some(_)) => discard(keeping),
                    _ => self.keeping = keeping.go_on(is_last, move |draft| draft.write(&piece)).await,
                }
            }
        }
        piece
    }
}

impl BodyStream for Saving {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(self.step())
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }

    fn is_unsent(&self) -> bool {
        self.source.is_unsent()
    }

    fn notes(&self) -> Vec<(String, String)> {
        self.source.notes()
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.keeping.take().into_iter().for_each(discard);
    }
}

/// Removes what there is of a response. Freeing a large file takes a while.
fn discard(keeping: Keeping) {
    offload_apart(Load::Wait, move || drop(keeping));
}

/// The bytes of a part of a file.
fn whole(part: &FilePart) -> io::Result<Vec<u8>> {
    let (mut bytes, length) = (Vec::new(), part.length as usize);
    while bytes.len() < length {
        let read = bytes.len();
        if sys::file::read_at_into(&*part.file, &mut bytes, length - read, part.offset + read as u64)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(bytes)
}
