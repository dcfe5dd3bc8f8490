//! Bodies of requests whose length nobody has said, gathered: some protocols want it before the first byte.
//!
//! The beginning stays in memory, and what is longer goes into a temporary file that has no name. `LimitRequestBody` bounds it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use seam::{Load, offload};
use server::{BodyError, BodySource, Fields, Request, RequestBody};

/// How much of a body stays in memory, in bytes.
const MEMORY_MAX: usize = 256 * 1024;
/// How much is read from the file at once, in bytes.
const PIECE: usize = 64 * 1024;

/// Why there is no body.
#[derive(Debug)]
pub enum Error {
    /// The client does not send it.
    Body(BodyError),
    /// It cannot be kept.
    File(io::Error),
}

/// Reads the whole body where its length is unknown, and puts it back: its length is known from then on.
pub async fn gather(request: &mut Request) -> Result<(), Error> {
    if request.body.length().is_some() {
        return Ok(());
    }
    let (mut memory, mut file, mut length) = (Vec::new(), None, 0);
    while let Some(piece) = request.body.read().await.map_err(Error::Body)? {
        length += piece.len() as u64;
        memory.extend_from_slice(&piece);
        if memory.len() > MEMORY_MAX {
            let (kept, bytes) = (file.take(), std::mem::take(&mut memory));
            file = Some(offload(Load::Wait, move || write(kept, &bytes)).await.map_err(Error::File)?);
        }
        server::pass().await;
    }
    let bytes = Bytes::from(memory);
    let in_file = length - bytes.len() as u64;
    request.body = RequestBody::new(Box::new(Gathered { file, in_file, read: 0, bytes }));
    Ok(())
}

/// Appends to the file, which is made where there is none yet.
fn write(file: Option<File>, bytes: &[u8]) -> io::Result<File> {
    let mut file = match file {
        Some(file) => file,
        None => nameless()?,
    };
    file.write_all(bytes)?;
    Ok(file)
}

/// A temporary file whose name is gone already: it goes with its last descriptor, however the process ends.
fn nameless() -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Nobody who guesses the name can take it first, or have us open something else: that is an error.
    let name = format!("tsubame-body.{}.{number}.{:x}", sys::process::Pid::own(), sys::random::number());
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// A body that is all there.
struct Gathered {
    file: Option<File>,
    /// How much is in the file, and how much of that was read.
    in_file: u64,
    read: u64,
    /// What comes behind it.
    bytes: Bytes,
}

impl BodySource for Gathered {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        if let Some(file) = self.file.as_ref().filter(|_| self.read < self.in_file) {
            let mut piece = vec![0; usize::try_from(self.in_file - self.read).unwrap_or(PIECE).min(PIECE)];
            return Poll::Ready(match sys::file::read_at(file.as_fd(), &mut piece, self.read) {
                Ok(read @ 1..) => {
                    self.read += read as u64;
                    piece.truncate(read);
                    Ok(Some(piece.into()))
                }
                // The disk has lost what it was given a moment ago.
                Ok(0) | Err(_) => Err(BodyError::Closed),
            });
        }
        Poll::Ready(Ok(Some(std::mem::take(&mut self.bytes)).filter(|bytes| !bytes.is_empty())))
    }

    fn length(&self) -> Option<u64> {
        Some(self.in_file - self.read + self.bytes.len() as u64)
    }

    /// The client has sent all of it.
    fn is_done(&self) -> bool {
        true
    }

    fn trailers(&self) -> Fields {
        Fields::default()
    }
}
