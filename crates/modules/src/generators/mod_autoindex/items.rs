//! What directives say about files: icons, alternative texts and descriptions for them, and the names to be ignored.

use std::sync::Arc;

use conf::fnmatch::{fnmatch, wildcard, wildcard_ignoring_case};
use conf::{Merge, Origin, Setting, Stacked, fnmatch};
use server::Request;
use server::paths::base_name;

/// The property by which `AddIcon` and similar directives select files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectedBy {
    Path,
    Type,
    Encoding,
    Ignore,
}

/// An icon, an alternative text, or a name to be ignored, and the files it is for.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: SelectedBy,
    pub(super) to: String,
    pub(super) path: String,
    pub(super) data: Arc<str>,
}

/// Stands for directories, and for the space above the icons.
pub(super) const DIRECTORY: &str = "^^DIRECTORY^^";

pub(super) const BLANK: &str = "^^BLANKICON^^";

impl Item {
    /// `path` is the place of the directive.
    pub(super) fn new(kind: SelectedBy, to: &str, path: &str, data: &str) -> Item {
        let to = match kind {
            SelectedBy::Path if to == "**DIRECTORY**" => format!("*{DIRECTORY}"),
            // A name without wildcards is the end of a path.
            SelectedBy::Path if !fnmatch::is_wildcard(to) => format!("*{to}"),
            SelectedBy::Encoding => to.to_ascii_lowercase(),
            _ => to.to_string(),
        };
        Item { kind, to, path: format!("{path}*"), data: data.into() }
    }

    pub(super) fn is_for(&self, path: &str, file: Option<&Request>) -> bool {
        let special = path.starts_with('^');
        if !special && !wildcard(&self.path, path) {
            return false;
        }
        if self.to.is_empty() {
            return true;
        }
        if self.kind == SelectedBy::Path || special {
            return wildcard(&self.to, path);
        }
        let Some(file) = file else { return false };
        match (self.kind, &file.response.content_encoding) {
            (SelectedBy::Type, None) => file.response.content_type().is_some_and(|text| {
                wildcard_ignoring_case(&self.to, text.split(';').next().unwrap_or_default().trim())
            }),
            (SelectedBy::Encoding, Some(coding)) => wildcard_ignoring_case(&self.to, coding),
            _ => false,
        }
    }
}

/// The first item for a path; types and encodings count only for a `file`.
pub(super) fn find(list: &Stacked<Item>, path: &str, file: Option<&Request>) -> Option<Arc<str>> {
    list.iter().find(|item| item.is_for(path, file)).map(|item| item.data.clone())
}

/// The default of `IndexIgnoreReset`.
pub(super) const RESET: bool = false;

/// `IndexIgnore`, and whether it discards the outer lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Ignored {
    pub(super) list: Stacked<Item>,
    /// `IndexIgnoreReset`: the lists of outer levels do not count.
    pub(super) reset: Setting<bool>,
    /// The line that discarded them.
    pub(super) done: Option<Origin>,
}

impl Merge for Ignored {
    fn merge(base: &Self, add: &Self) -> Self {
        let (list, done) = match add.reset.origin().filter(|_| add.reset.value_or(RESET)) {
            Some(line) => (add.list.clone(), Some(line.clone())),
            None => (Merge::merge(&base.list, &add.list), base.done.clone()),
        };
        Ignored { list, reset: Setting::default(), done }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.list.origins(see);
        self.reset.origins(see);
        self.done.iter().for_each(see);
    }
}

impl Ignored {
    pub(super) fn covers(&self, path: &str) -> bool {
        self.list.iter().any(|item| wildcard(&item.path, path) && wildcard(base_name(&item.to), base_name(path)))
    }
}

/// `AddDescription`
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) pattern: String,
    pub(super) wildcards: bool,
    pub(super) full_path: bool,
    pub(super) text: Arc<str>,
}

impl Description {
    pub(super) fn new(text: &str, to: &str) -> Description {
        let full_path = to.contains('/');
        let wildcards = full_path || fnmatch::is_pattern(to);
        let prefix = if full_path { "*/" } else { "*" };
        let pattern = if wildcards { format!("{prefix}{to}*") } else { to.to_string() };
        Description { pattern, wildcards, full_path, text: text.into() }
    }

    pub(super) fn is_for(&self, path: &str) -> bool {
        let name = if self.full_path { path } else { base_name(path) };
        if self.wildcards { fnmatch(&self.pattern, name, fnmatch::Flags::PLAIN) } else { name.contains(&self.pattern) }
    }
}
