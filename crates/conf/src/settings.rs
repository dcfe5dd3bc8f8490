//! Typed settings: each value knows its origin, and the field's type defines how values merge.
//!
//! A module declares its settings with [`settings!`](crate::settings!); the server keeps one [`SettingsMap`] per
//! virtual host and one per section, and merges them without knowing any of the types.

mod fields;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::source::Origin;
pub use fields::{Gathered, Keyed, Listed, Own, Setting, Single, Stacked};

/// How an inner level (`add`) merges with the values that it inherits (`base`).
pub trait Merge {
    /// The value in effect in the inner level.
    fn merge(base: &Self, add: &Self) -> Self;

    /// Calls `see` with the line of each value, without those that a merge has replaced.
    fn origins(&self, see: &mut dyn FnMut(&Origin));
}

/// A module's settings of one level. Implemented by [`settings!`](crate::settings!) only.
pub trait Settings: Any + Clone + Default + Send + Sync {
    /// Merges field by field.
    fn merged(base: &Self, add: &Self) -> Self;
    /// Calls `see` with the line of each value, field by field.
    fn origins(&self, see: &mut dyn FnMut(&Origin));
    /// The place of this type in every [`SettingsMap`].
    fn slot() -> usize;
    /// The settings of a level that sets nothing.
    fn unset() -> &'static Self;
}

/// Hands out slot numbers; used by [`settings!`](crate::settings!).
#[derive(Debug)]
pub struct SlotId(OnceLock<usize>);

impl SlotId {
    /// A slot without a number yet.
    #[allow(clippy::new_without_default, reason = "a static's initialiser")]
    pub const fn new() -> SlotId {
        SlotId(OnceLock::new())
    }

    /// The number, the same for the life of the process.
    #[inline]
    pub fn get(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        *self.0.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Declares the settings of a module: a struct of [`Setting`], [`Listed`] or other [`Merge`] fields.
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$fmeta:meta])* $fvis:vis $field:ident : $ty:ty $(= $default:expr)?),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        #[allow(missing_docs, reason = "the table of directives says what a field is")]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $ty),* }

        #[allow(missing_docs, reason = "the table of directives says what a field is")]
        impl $name {
            $($(
                #[inline]
                $fvis fn $field(&self) -> <$ty as $crate::settings::Single>::Value {
                    self.$field.value_or($default)
                }
            )?)*
        }

        impl $crate::settings::Settings for $name {
            fn merged(base: &Self, add: &Self) -> Self {
                $name { $($field: $crate::settings::Merge::merge(&base.$field, &add.$field)),* }
            }
            fn origins(&self, see: &mut dyn FnMut(&$crate::Origin)) {
                $($crate::settings::Merge::origins(&self.$field, see);)*
            }
            fn slot() -> usize {
                static ID: $crate::settings::SlotId = $crate::settings::SlotId::new();
                ID.get()
            }
            fn unset() -> &'static Self {
                static UNSET: std::sync::LazyLock<$name> = std::sync::LazyLock::new($name::default);
                &UNSET
            }
        }
    };
}

/// [`Settings`] without their type.
trait AnySettings: Any + Send + Sync {
    fn merge_any(&self, add: &dyn AnySettings) -> Arc<dyn AnySettings>;
    fn origins_any(&self, see: &mut dyn FnMut(&Origin));
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<S: Settings> AnySettings for S {
    fn merge_any(&self, add: &dyn AnySettings) -> Arc<dyn AnySettings> {
        match add.as_any().downcast_ref::<S>() {
            Some(add) => Arc::new(S::merged(self, add)),
            None => unreachable!("a slot holds one type"),
        }
    }
    fn origins_any(&self, see: &mut dyn FnMut(&Origin)) {
        self.origins(see);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The settings of all modules for one level: a server, a section, an `.htaccess` file, or a merge of several.
#[derive(Clone, Default)]
pub struct SettingsMap(Vec<Option<Arc<dyn AnySettings>>>);

impl SettingsMap {
    /// The settings of one type; all unset if this level sets none.
    #[inline]
    pub fn get<S: Settings>(&self) -> &S {
        self.peek().unwrap_or_else(|| S::unset())
    }

    /// The settings of one type, if this level sets any.
    #[inline]
    pub fn peek<S: Settings>(&self) -> Option<&S> {
        self.0.get(S::slot())?.as_deref()?.as_any().downcast_ref()
    }

    /// The settings of one type, to change them.
    pub fn edit<S: Settings>(&mut self) -> &mut S {
        let slot = S::slot();
        if self.0.len() <= slot {
            self.0.resize(slot + 1, None);
        }
        let own = match &self.0[slot] {
            Some(shared) if Arc::strong_count(shared) == 1 => None,
            Some(shared) => shared.as_any().downcast_ref::<S>().cloned(),
            None => Some(S::default()),
        };
        if let Some(own) = own {
            self.0[slot] = Some(Arc::new(own));
        }
        match self.0[slot].as_mut().and_then(Arc::get_mut).and_then(|any| any.as_any_mut().downcast_mut()) {
            Some(settings) => settings,
            None => unreachable!("a slot holds one type and was just made our own"),
        }
    }

    /// The settings in effect when `add` is inside `base`.
    pub fn merge(base: &SettingsMap, add: &SettingsMap) -> SettingsMap {
        let longest = base.0.len().max(add.0.len());
        fn at(slots: &SettingsMap, i: usize) -> Option<&Arc<dyn AnySettings>> {
            slots.0.get(i)?.as_ref()
        }
        SettingsMap(
            (0..longest)
                .map(|i| match (at(base, i), at(add, i)) {
                    (Some(base), Some(add)) => Some(base.merge_any(&**add)),
                    (base, add) => add.or(base).cloned(),
                })
                .collect(),
        )
    }

    /// Calls `see` with the line of each value of all modules.
    pub fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().flatten().for_each(|settings| settings.origins_any(see));
    }

    /// Whether no module has settings here.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl fmt::Debug for SettingsMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SettingsMap({} set)", self.0.iter().flatten().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    settings! {
        struct Sample { one: Setting<u32>, many: Listed<u32>, near: Stacked<u32>, table: Keyed<&'static str, u32> }
    }

    fn at(line: u32) -> Origin {
        Origin { source: Arc::new(Source::new("f")), line }
    }

    #[test]
    fn the_type_decides_the_merge() {
        let (mut outer, mut inner) = (SettingsMap::default(), SettingsMap::default());
        outer.edit::<Sample>().one.set(1, &at(1));
        outer.edit::<Sample>().many.push(1, &at(2));
        outer.edit::<Sample>().table.set("a", 1, &at(3));
        outer.edit::<Sample>().table.set("b", 1, &at(3));
        inner.edit::<Sample>().many.push(2, &at(4));
        outer.edit::<Sample>().near.push(1, &at(2));
        inner.edit::<Sample>().near.push(2, &at(4));
        inner.edit::<Sample>().table.set("a", 2, &at(5));
        let merged = SettingsMap::merge(&outer, &inner);
        let sample = merged.get::<Sample>();
        assert_eq!((sample.one.value_or(9), sample.one.origin().map(|o| o.line)), (1, Some(1)));
        assert_eq!(sample.many.iter().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(sample.near.iter().copied().collect::<Vec<_>>(), [2, 1]);
        assert_eq!((sample.table.get("a"), sample.table.get("b")), (Some(&2), Some(&1)));
        assert_eq!(outer.get::<Sample>().many.len(), 1, "merging changes neither side");
        assert_eq!(SettingsMap::default().get::<Sample>().one.value_or(9), 9);
        let mut lines = Vec::new();
        merged.origins(&mut |origin| lines.push(origin.line));
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 2, 3, 4, 4, 5], "line 3 still says what `b` is");
    }
}
