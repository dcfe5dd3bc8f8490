//! What a storage of responses offers to mod_cache.

use std::fmt;
use std::io;

use bytes::Bytes;
use server::{Account, Body, FilePart, Request, Unsent, Waiting};

use super::entry::Entry;

/// A storage.
pub(crate) struct Storage {
    /// Its name in `CacheEnable`.
    pub(crate) name: &'static str,
    /// The response for this key and the fields of this request.
    pub(crate) find: for<'a> fn(&'a Request, key: &'a str) -> Waiting<'a, Result<Found, Missing>>,
    /// Begins to store a response of this length under a key; `None`: the storage does not want it.
    pub(crate) begin: Begin,
    /// Removes all responses under a key.
    pub(crate) remove: fn(&Request, key: &str) -> Job,
    /// How much of a body is stored before it goes out: bytes, and milliseconds after which it goes out anyway; 0 is no limit.
    pub(crate) gather: fn(&Request) -> (u64, u64),
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Why no response is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is none for the key.
    Key,
    /// There are some for the key, but none for the fields of this request.
    Variant,
}

/// Begins to store a response: its key, its head, and the length of its body.
type Begin = fn(&Request, &str, Entry, Option<u64>) -> Option<Box<dyn Draft>>;

/// Work on a storage, which waits instead of blocking.
pub(crate) type Job = Waiting<'static, io::Result<()>>;

/// A stored response.
pub(crate) struct Found {
    pub(crate) entry: Entry,
    pub(crate) content: Content,
    pub(crate) place: Box<dyn Place>,
    /// `None`: whether it is still there cannot be told at once.
    pub(crate) watch: Option<Watch>,
}

/// Whether a request with this account, which asks the same, would find the same response.
pub(crate) type Watch = Box<dyn Fn(&Account) -> bool + Send + Sync>;

/// The body of a stored response.
#[derive(Clone)]
pub(crate) enum Content {
    Bytes(Bytes),
    File(FilePart),
    /// That of a `HEAD`: only its length is known, if it is.
    Unsent(Option<u64>),
}

impl From<Content> for Body {
    fn from(content: Content) -> Body {
        match content {
            Content::Bytes(bytes) if bytes.is_empty() => Body::Empty,
            Content::Bytes(bytes) => Body::Bytes(bytes),
            Content::File(part) => Body::File(part),
            Content::Unsent(length) => Body::Stream(Box::new(Unsent(length))),
        }
    }
}

/// Where a response is stored.
pub(crate) trait Place: Send + Sync {
    /// Replaces the head of the response.
    fn refresh(self: Box<Self>, entry: Entry) -> Job;
    /// Removes the response.
    fn remove(self: Box<Self>) -> Job;
}

/// A response that is being stored. Nobody finds it before it is complete, and it leaves nothing behind if it never is.
pub(crate) trait Draft: Send + Sync {
    /// Adds to the body; may block.
    fn write(&mut self, piece: &[u8]) -> io::Result<()>;
    /// The body is complete. [`AlreadyExists`](io::ErrorKind::AlreadyExists): another response has just taken its place;
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy): another one takes it, and that takes too long.
    fn commit(self: Box<Self>) -> Job;
}
