//! The sections' settings for extensions.

use std::sync::Arc;

use conf::{Merge, Origin};
use foldhash::HashMap;

/// A property of an extension; the number is its place in [`Extension`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the directives")]
pub(super) enum Trait {
    Type,
    Charset,
    Encoding,
    Handler,
    Language,
    InputFilter,
    OutputFilter,
}

/// What an extension says about a file: a value for each [`Trait`], and the line that sets it.
#[derive(Clone, Debug, Default)]
pub(super) struct Extension([Option<(Arc<str>, Origin)>; 7]);

impl Extension {
    /// The line that sets a property.
    pub(super) fn origin(&self, what: Trait) -> Option<&Origin> {
        self.0[what as usize].as_ref().map(|(_, origin)| origin)
    }

    pub(super) fn get(&self, what: Trait) -> Option<&str> {
        self.0[what as usize].as_ref().map(|(value, _)| &**value)
    }
}

/// The settings of a section, or of several merged ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Extensions {
    table: HashMap<Box<str>, Extension>,
    /// Settings of outer sections that this one removes.
    removed: Vec<(Box<str>, Trait)>,
    /// The lines that remove something.
    removals: Vec<Origin>,
}

impl Extensions {
    /// `AddType` and its kin. Both are stored in lower case; a dot before the extension is ignored.
    pub(super) fn add(&mut self, what: Trait, value: &str, extension: &str, origin: &Origin) {
        let value = (value.to_ascii_lowercase().into(), origin.clone());
        self.table.entry(key(extension)).or_default().0[what as usize] = Some(value);
    }

    /// `RemoveType` and its kin. A type is removed at once, even that of `mime.types`, and may be set again; anything
    /// else when sections are merged, even if this section adds it (so lines outside sections remove nothing).
    pub(super) fn remove(&mut self, what: Trait, extension: &str, origin: &Origin) {
        match what {
            Trait::Type => self.add(what, "", extension, origin),
            _ => {
                self.removed.push((key(extension), what));
                self.removals.push(origin.clone());
            }
        }
    }

    /// Forgets the removals; if `act`, executes them first.
    pub(super) fn settle(&mut self, act: bool) {
        for (extension, what) in std::mem::take(&mut self.removed) {
            if act && let Some(have) = self.table.get_mut(&extension) {
                have.0[what as usize] = None;
            }
        }
    }

    /// The properties of an extension in lower case.
    pub(super) fn get(&self, extension: &str) -> Option<&Extension> {
        self.table.get(extension)
    }
}

fn key(extension: &str) -> Box<str> {
    extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase().into()
}

impl Merge for Extensions {
    fn merge(base: &Self, add: &Self) -> Self {
        let mut table = base.table.clone();
        for (extension, said) in &add.table {
            let have = table.entry(extension.clone()).or_default();
            for (have, said) in have.0.iter_mut().zip(&said.0) {
                if said.is_some() {
                    have.clone_from(said);
                }
            }
        }
        let removals = [&base.removals[..], &add.removals[..]].concat();
        let mut merged = Extensions { table, removed: add.removed.clone(), removals };
        merged.settle(true);
        merged
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        let said = self.table.values().flat_map(|extension| extension.0.iter().flatten());
        said.map(|(_, origin)| origin).chain(&self.removals).for_each(see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Origin {
        Origin { source: Arc::new(conf::Source::new("f")), line: 1 }
    }

    #[test]
    fn removing_as_measured() {
        let said = |extensions: &Extensions, extension: &str, what| {
            extensions.get(extension).and_then(|e| e.get(what)).map(str::to_string)
        };
        let mut outer = Extensions::default();
        outer.add(Trait::Handler, "H", ".A", &line());
        outer.remove(Trait::Handler, "a", &line());
        outer.add(Trait::Type, "X/Y", "a", &line());
        outer.add(Trait::Language, "en", "a", &line());
        assert_eq!(said(&outer, "a", Trait::Handler).as_deref(), Some("h"));
        let mut inner = Extensions::default();
        inner.remove(Trait::Type, "a", &line());
        inner.remove(Trait::Handler, ".a", &line());
        inner.add(Trait::Handler, "late", "a", &line());
        inner.remove(Trait::Type, "b", &line());
        inner.add(Trait::Type, "b/b", "b", &line());
        let merged = Extensions::merge(&outer, &inner);
        assert_eq!(said(&merged, "a", Trait::Handler), None);
        assert_eq!(said(&merged, "a", Trait::Type).as_deref(), Some(""));
        assert_eq!(said(&merged, "a", Trait::Language).as_deref(), Some("en"));
        assert_eq!(said(&merged, "b", Trait::Type).as_deref(), Some("b/b"));
        let again = Extensions::merge(&merged, &Extensions::default());
        assert_eq!(said(&again, "a", Trait::Language).as_deref(), Some("en"));
    }
}
