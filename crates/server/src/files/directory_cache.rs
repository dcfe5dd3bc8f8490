//! The cache of directories: their sections' settings, and the way there.

use std::sync::Arc;

use foldhash::HashMap;

use crate::config::merge::Merged;
use crate::files::watched::Way;

/// The sections' settings of directories, by path (with a slash at the end).
#[derive(Debug, Default)]
pub(crate) struct DirectoryCache(pub(crate) HashMap<String, Arc<Walked>>);

/// The sections' settings of a directory.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) merged: Merged,
    /// The findings on the way there, if `.htaccess` files are looked up or links checked.
    pub(crate) way: Option<Way>,
    /// The depth of a name in it, if a `<Directory>` section might match one.
    pub(crate) files_at: Option<usize>,
    /// The length of the part of its path in which links may be followed.
    pub(crate) followed: usize,
}
