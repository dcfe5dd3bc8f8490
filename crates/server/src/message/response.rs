//! A handler's response, and the source of its bytes.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use sys::pipe::Pipe;

use crate::message::fields::Fields;
use crate::message::tunnel::Tunnel;

/// A handler's response to a request.
pub enum HandlerResult {
    /// Not responsible.
    Declined,
    /// This status, with the server's own page or `ErrorDocument`.
    Status(u16),
    /// This body; status and fields are in the request.
    Body(Body),
    /// This body of an earlier response that has been through all filters; status and fields are in the request.
    Recalled(Body),
    /// Start again with this URL path (and query), escaped as in a request line.
    Redirect {
        /// Path with query.
        uri: String,
        /// The parts of the request that stay.
        keep: Keep,
    },
    /// From now on the client and a handler speak over the connection; fields are in the request.
    Tunnel(Box<Tunnel>),
    /// The script speaks to the client itself: the body is the whole response, head included.
    Raw(Body),
}

/// The parts of a request that an internal redirect keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The method, otherwise `GET`, and the body.
    pub method: bool,
    /// The media type, if the new path has none of its own.
    pub media_type: bool,
}

/// A piece of a stream being fetched; `None` at its end.
pub type Piece<'a> = Pin<Box<dyn Future<Output = Option<io::Result<Bytes>>> + Send + 'a>>;

/// What comes next of a stream on its way into a pipe.
pub type Splice<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// A body that is produced while it is sent. The connection asks for the next piece only when the last one has gone
/// out, so nothing piles up.
pub trait BodyStream: Send {
    /// The next piece.
    fn next(&mut self) -> Piece<'_>;
    /// Whether what comes next may go through a [pipe](BodyStream::splice), past this process.
    fn splices(&self) -> bool {
        false
    }
    /// Moves what comes next into an empty pipe. Nothing: it is complete.
    fn splice<'a>(&'a mut self, _pipe: &'a mut Pipe) -> Splice<'a> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
    /// The total number of bytes, if it is known in advance.
    fn length(&self) -> Option<u64> {
        None
    }
    /// Whether nothing of it comes: it is the body of a response to `HEAD`.
    fn is_unsent(&self) -> bool {
        false
    }
    /// The fields after the body, complete at its end. `None`: there are none, whatever comes.
    fn trailers(&self) -> Option<Fields> {
        None
    }
    /// Findings on the way, available at the end: notes for the log.
    fn notes(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// A body of which only the length is known, if it is: that of a response to `HEAD`.
pub struct Unsent(pub Option<u64>);

impl BodyStream for Unsent {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(std::future::ready(None))
    }

    fn length(&self) -> Option<u64> {
        self.0
    }

    fn is_unsent(&self) -> bool {
        true
    }
}

/// A part of an open file.
#[derive(Clone, Debug)]
pub struct FilePart {
    /// The open file, which other parts may share.
    pub file: Arc<OwnedFd>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// The body of a response.
#[derive(Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// In memory.
    Bytes(Bytes),
    /// A part of a file, sent without passing through memory.
    File(FilePart),
    /// Several parts, one after the other (multipart ranges).
    Parts(Vec<Body>),
    /// Produced on the way.
    Stream(Box<dyn BodyStream>),
}

impl Body {
    /// A body in memory with this text.
    pub fn text(text: impl Into<String>) -> Body {
        Body::Bytes(Bytes::from(text.into()))
    }

    /// The number of bytes, if it is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File(part) => Some(part.length),
            Body::Parts(parts) => parts.iter().map(Body::length).sum(),
            Body::Stream(stream) => stream.length(),
        }
    }

    /// Whether nothing of it comes, although it may have a length.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Body::Stream(stream) if stream.is_unsent())
    }

    /// The body as a stream, of whatever kind: for filters.
    pub fn into_stream(self) -> Box<dyn BodyStream> {
        match self {
            Body::Stream(stream) => stream,
            other => Box::new(Whole { parts: vec![other] }),
        }
    }
}

/// The size of the pieces in which a filter gets a file, in bytes.
const PIECE: u64 = 64 * 1024;

/// A complete body, as a stream.
struct Whole {
    parts: Vec<Body>,
}

impl BodyStream for Whole {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            loop {
                match self.parts.first_mut()? {
                    Body::Empty => {
                        self.parts.remove(0);
                    }
                    Body::Bytes(bytes) => {
                        let bytes = std::mem::take(bytes);
                        self.parts.remove(0);
                        return Some(Ok(bytes));
                    }
                    Body::File(part) if part.length == 0 => {
                        self.parts.remove(0);
                    }
                    Body::File(part) => {
                        let mut piece = vec![0; part.length.min(PIECE) as usize];
                        let read = match sys::file::read_at(&part.file, &mut piece, part.offset) {
                            Ok(0) => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
                            Ok(read) => read,
                            Err(error) => return Some(Err(error)),
                        };
                        piece.truncate(read);
                        part.offset += read as u64;
                        part.length -= read as u64;
                        return Some(Ok(piece.into()));
                    }
                    Body::Parts(parts) => {
                        let inner = std::mem::take(parts);
                        self.parts.splice(0..1, inner);
                    }
                    Body::Stream(stream) => match stream.next().await {
                        None => {
                            self.parts.remove(0);
                        }
                        piece => return piece,
                    },
                }
            }
        })
    }

    fn length(&self) -> Option<u64> {
        self.parts.iter().map(Body::length).sum()
    }
}
