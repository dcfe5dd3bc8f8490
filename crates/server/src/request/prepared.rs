//! What becomes of a request that the phases have prepared.

use std::any::Any;
use std::ffi::CString;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use http::name::FieldSet;
use runtime::tick::Look;
use sys::file::Meta;
use sys::time::Instant;

use crate::message::response_head::ResponseHead;
use crate::message::tested_field::Outcome;
use crate::request::mapped::Mapped;
use crate::site::directory_cache::Walked;
use crate::site::watched::{WatchedDirectories, WatchedPath};

/// What becomes of a request that the phases have prepared, and of others about which they would decide the same.
pub(crate) struct Prepared {
    /// The handler that answers it, by its place among all handlers.
    pub(crate) handler: usize,
    /// The fields of its head that were looked up so far.
    pub(crate) asked: FieldSet,
    /// What other fields of its head have matched.
    pub(crate) outcomes: Vec<Outcome>,
    /// The response before the handler.
    pub(super) response: ResponseHead,
    /// The file that the phases have looked at.
    pub(crate) file: Option<FileBefore>,
    /// What the handler has worked out for all requests that begin there.
    pub(super) plan: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// Without a plan.
    pub(super) fn new(
        handler: usize,
        asked: FieldSet,
        outcomes: Vec<Outcome>,
        before: &ResponseHead,
        file: Option<FileBefore>,
    ) -> Prepared {
        let mut response = ResponseHead::default();
        response.become_like(before);
        Prepared { handler, asked, outcomes, response, file, plan: OnceLock::new() }
    }
}

/// A file that the phases have looked at, such as a script, before a handler does with it what it likes.
pub(crate) struct FileBefore {
    /// Its path, in the form for the system.
    path: CString,
    /// What the system said about it.
    meta: Meta,
    /// When the system last confirmed that.
    look: Look,
    /// The findings on the way to its directory.
    walked: Arc<Walked>,
}

impl FileBefore {
    /// The file of a request with all that was asked about it. `Err`: nobody could ask the same again. `Ok(None)`: there is no file.
    pub(super) fn of(mapped: &Mapped) -> Result<Option<FileBefore>, ()> {
        let has_other = mapped.kept.is_some() || mapped.is_directory;
        match (&mapped.looked, &mapped.walked) {
            _ if has_other => Err(()),
            (None, None) => Ok(None),
            (Some((path, meta)), Some(walked)) => {
                let (path, walked) = (path.clone(), walked.clone());
                Ok(Some(FileBefore { path, meta: *meta, look: Look::default(), walked }))
            }
            _ => Err(()),
        }
    }

    /// Whether a request that came at `start`, announced by `tick`, would find it and the way to it as they were.
    pub(crate) fn holds(&self, watched: &WatchedDirectories, tick: Option<NonZeroU64>, start: Instant) -> bool {
        let is_there = || sys::file::stat(&self.path).is_ok_and(|meta| meta == self.meta);
        self.look.shares(tick, start, is_there) && self.walked.holds(watched, tick, start)
    }

    /// How much memory it takes, in bytes; `None`: more than a table may hold, because of the access files on the way.
    pub(crate) fn memory(&self, most: u64) -> Option<usize> {
        let way = self.walked.way.as_ref().map_or(0, WatchedPath::size);
        (way <= most).then_some(size_of::<FileBefore>() + self.path.count_bytes())
    }
}
