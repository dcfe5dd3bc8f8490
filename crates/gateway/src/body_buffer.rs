//! A body that is received whole before anything begins: programs rely on `CONTENT_LENGTH`, which somebody has to
//! count, and a slow client delays only itself.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use runtime::{Load, offload};
use server::{BodyError, BodySource, Fields, Request, RequestBody};

/// The size of a read from a file, in bytes.
const PIECE: usize = 64 * 1024;

/// Why a whole body could not be buffered.
#[derive(Debug)]
pub enum BufferError {
    /// Longer than allowed; this much has come.
    TooLong(u64),
    /// The client does not send all of it.
    Body(BodyError),
    /// There is no room for it.
    File(io::Error),
}

/// How much of a body is kept in memory by default, in bytes.
pub const IN_MEMORY: u64 = 256 * 1024;

impl BufferError {
    /// The status for it.
    pub fn status(&self) -> u16 {
        match self {
            BufferError::TooLong(_) => 413,
            BufferError::Body(error) => error.status(),
            BufferError::File(_) => 500,
        }
    }
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferError::TooLong(length) => write!(f, "{length} bytes or more are too many"),
            BufferError::Body(error) => f.write_str(&sys::describe(&io::Error::from(*error))),
            BufferError::File(error) => write!(f, "it cannot be kept in a file: {}", sys::describe(error)),
        }
    }
}

/// Buffers the body of a request, of at most `max` bytes: up to `in_memory` bytes in memory, a longer one in an unnamed
/// file. Afterwards the request has a body of known length.
pub async fn buffer_body(request: &mut Request, in_memory: u64, max: u64) -> Result<(), BufferError> {
    if request.body.is_none() {
        return Ok(());
    }
    if let Some(length) = request.body.length().filter(|length| *length > max) {
        return Err(BufferError::TooLong(length));
    }
    let (mut pieces, mut held, mut length, mut file) = (Vec::new(), 0, 0, None);
    while let Some(piece) = request.body.read().await.map_err(BufferError::Body)? {
        length += piece.len() as u64;
        held += piece.len() as u64;
        pieces.push(piece);
        if length > max {
            return Err(BufferError::TooLong(length));
        }
        if held > in_memory {
            held = 0;
            file = Some(keep(file.take(), std::mem::take(&mut pieces)).await.map_err(BufferError::File)?);
        }
    }
    if let Some(started) = file.take() {
        file = Some(keep(Some(started), std::mem::take(&mut pieces)).await.map_err(BufferError::File)?);
    }
    let source = BufferedBody {
        pieces: pieces.into(),
        file,
        at: 0,
        left: length,
        reading: None,
        trailers: request.body.trailers(),
    };
    request.body = RequestBody::new(Box::new(source));
    let read = std::mem::take(&mut request.mapped.read_fields);
    let headers = request.headers_mut();
    for (name, value) in read {
        match value {
            Some(value) => headers.set(name, value),
            None => headers.remove(name),
        }
    }
    headers.remove("Transfer-Encoding");
    headers.set("Content-Length", length.to_string());
    Ok(())
}

/// The content of a file, up to that length, as a body.
pub(crate) fn body_of(file: Arc<OwnedFd>, length: u64) -> RequestBody {
    let source = BufferedBody {
        pieces: std::collections::VecDeque::new(),
        file: Some(file),
        at: 0,
        left: length,
        reading: None,
        trailers: Fields::default(),
    };
    RequestBody::new(Box::new(source))
}

/// Appends pieces to those already in a file.
async fn keep(file: Option<Arc<OwnedFd>>, pieces: Vec<Bytes>) -> io::Result<Arc<OwnedFd>> {
    offload(Load::Wait, move || {
        let file = match file {
            Some(file) => file,
            None => Arc::new(sys::file::unnamed(&std::env::temp_dir(), 0o600)?),
        };
        for mut piece in pieces {
            while !piece.is_empty() {
                let written = sys::file::write(&*file, &piece)?;
                drop(piece.split_to(written));
            }
        }
        Ok(file)
    })
    .await
}

/// A read in progress.
type Reading = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send>>;

/// A buffered body, either in memory or in a file.
struct BufferedBody {
    pieces: std::collections::VecDeque<Bytes>,
    file: Option<Arc<OwnedFd>>,
    /// How much of the file has been read.
    at: u64,
    left: u64,
    reading: Option<Reading>,
    trailers: Fields,
}

impl BodySource for BufferedBody {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        if self.left == 0 {
            return Poll::Ready(Ok(None));
        }
        let mut piece = match (self.pieces.pop_front(), &self.file) {
            (Some(piece), _) => piece,
            (None, Some(file)) => {
                let (file, at) = (file.clone(), self.at);
                let reading =
                    self.reading.get_or_insert_with(|| Box::pin(offload(Load::Wait, move || read(&file, at))));
                let read = ready!(reading.as_mut().poll(cx));
                self.reading = None;
                // The file has shrunk since a moment ago.
                Bytes::from(read.ok().filter(|piece| !piece.is_empty()).ok_or(BodyError::Closed)?)
            }
            (None, None) => return Poll::Ready(Err(BodyError::Closed)),
        };
        piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.at += piece.len() as u64;
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Ok(Some(piece)))
    }

    fn length(&self) -> Option<u64> {
        Some(self.left)
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn trailers(&self) -> Fields {
        self.trailers.clone()
    }
}

fn read(file: &OwnedFd, at: u64) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; PIECE];
    let length = sys::file::read_at(file, &mut piece, at)?;
    piece.truncate(length);
    Ok(piece)
}
