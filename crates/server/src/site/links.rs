//! Which symbolic links the way to a file may lead through, checked once more when the file is opened.
//!
//! The walk through the directories has looked for links already. A user who may write to a directory could exchange a file
//! for a link between that look and the opening, so the kernel checks the way that it goes itself.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use crate::settings::core::options::{Bits, SYM_LINKS, SYM_OWNER};

/// The links that may be on the way to a request's file (`Options FollowSymLinks`, `SymLinksIfOwnerMatch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Links {
    /// All of them.
    Any,
    /// Links in the first part of the path.
    Until {
        /// The length of that part, in bytes: it ends before a slash.
        length: usize,
        /// Behind it, those whose target belongs to the link's owner.
        same_owner: bool,
    },
}

impl Links {
    /// The links that these options allow behind the first `followed` bytes of a path, where all may be followed. The
    /// walk found `same_owner` on its way.
    pub(crate) fn of(options: Bits, followed: usize, same_owner: bool) -> Links {
        match options & SYM_LINKS {
            0 => Links::Until { length: followed, same_owner: same_owner || options & SYM_OWNER != 0 },
            _ => Links::Any,
        }
    }

    /// Opens a file for reading. A loop as the error ([`sys::file::is_loop`]): there is a link on the way that may not
    /// be followed.
    pub fn open(self, path: &CStr) -> io::Result<OwnedFd> {
        match self {
            Links::Any => sys::file::open(path),
            Links::Until { length, same_owner } => sys::file::open_guarded(path, length, same_owner),
        }
    }
}
