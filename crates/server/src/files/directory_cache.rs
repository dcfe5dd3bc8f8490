//! What is remembered of directories: what the sections say of them, and the way there.

use std::sync::Arc;

use foldhash::HashMap;

use crate::config::merge::Merged;
use crate::files::watched::Way;

/// What the sections say of directories, by path (with a slash at the end).
#[derive(Debug, Default)]
pub(crate) struct DirectoryCache(pub(crate) HashMap<String, Arc<Walked>>);

/// What the sections say of a directory.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) merged: Merged,
    /// What was found on the way there, where `.htaccess` files are to be looked for, or links to be checked.
    pub(crate) way: Option<Way>,
    /// The depth of a name in it, if a `<Directory>` section might mean one.
    pub(crate) files_at: Option<usize>,
}
