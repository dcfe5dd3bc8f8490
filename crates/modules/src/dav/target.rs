//! A resource by its two names: its URL path, and its file.

use server::paths::{dir_name, join};

use super::if_header::bare;

/// A resource by both its names.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The decoded URL path.
    pub(super) uri: String,
    /// The file, without a slash at its end.
    pub(super) path: String,
}

impl Target {
    /// The member of this collection with that name.
    pub(super) fn child(&self, name: &str) -> Target {
        Target { uri: join(&self.uri, name), path: join(&self.path, name) }
    }

    /// The collection that contains it.
    pub(super) fn parent(&self) -> Target {
        let parent = |path: &str| bare(dir_name(bare(path))).to_string();
        Target { uri: parent(&self.uri), path: parent(&self.path) }
    }

    /// The URL path of something below it.
    pub(super) fn uri_of(&self, path: &str) -> String {
        format!("{}{}", self.uri.trim_end_matches('/'), path.strip_prefix(&self.path).unwrap_or_default())
    }
}

/// A URL path in the form of log lines.
pub(super) fn escaped(target: &Target) -> String {
    http::uri::escape_html(&target.uri).into_owned()
}
