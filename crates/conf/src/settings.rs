//! Typed settings: each value knows its origin, and how values merge is a property of the field's type.
//!
//! A module declares its settings with [`settings!`](crate::settings!); the server keeps one [`SettingsMap`] per virtual host
//! and one per section, and merges them without knowing any of the types.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::source::Origin;

/// How an inner level (`add`) joins what it inherits (`base`).
pub trait Merge {
    /// The value that is in effect in the inner level.
    fn merge(base: &Self, add: &Self) -> Self;

    /// Shows the line of each value that is still there: what a merge has replaced is not.
    fn origins(&self, see: &mut dyn FnMut(&Origin));
}

/// A single value: the inner one replaces the outer one. Unset is `None`, never a magic number.
#[derive(Clone, Debug)]
pub struct Setting<T>(Option<(T, Origin)>);

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Setting(None)
    }
}

impl<T> Setting<T> {
    /// Sets the value, as written at `origin`.
    pub fn set(&mut self, value: T, origin: &Origin) {
        self.0 = Some((value, origin.clone()));
    }

    /// The value, if any level set it.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(value, _)| value)
    }

    /// Where the value was written.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.as_ref().map(|(_, origin)| origin)
    }

    /// Whether any level set it.
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

impl<T: Copy> Setting<T> {
    /// The value, or `default` where no level set one.
    #[inline]
    pub fn or(&self, default: T) -> T {
        self.get().copied().unwrap_or(default)
    }
}

/// A field that has one value, and so may have a default: `settings!` makes a method of the field's name that gives the
/// value or the default.
pub trait Single {
    /// What is set.
    type Value;
}

impl<T> Single for Setting<T> {
    type Value = T;
}

impl<T: Clone> Merge for Setting<T> {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.is_set() { add.clone() } else { base.clone() }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.origin().into_iter().for_each(see);
    }
}

/// A value that several lines of one level make up; an inner level that says anything replaces it as a whole.
#[derive(Clone, Debug)]
pub struct Gathered<T>(Option<(T, Vec<Origin>)>);

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Gathered(None)
    }
}

impl<T: Default> Gathered<T> {
    /// The value to be added to, by the line at `origin`.
    pub fn edit(&mut self, origin: &Origin) -> &mut T {
        let (value, lines) = self.0.get_or_insert_default();
        // A directive may add word by word.
        if lines.last() != Some(origin) {
            lines.push(origin.clone());
        }
        value
    }

    /// A new value, from the line at `origin`: what the lines before it said does not count any more.
    pub fn begin(&mut self, origin: &Origin) -> &mut T {
        self.0 = None;
        self.edit(origin)
    }
}

impl<T> Gathered<T> {
    /// A line of this level of which nothing is left in the value.
    pub fn forget(&mut self, origin: &Origin) {
        self.0.iter_mut().for_each(|(_, lines)| lines.retain(|line| line != origin));
    }

    /// The value, if any level set it.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(value, _)| value)
    }

    /// The last line that had a part in it.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.as_ref().and_then(|(_, lines)| lines.last())
    }
}

impl<T: Clone> Merge for Gathered<T> {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.0.is_some() { add.clone() } else { base.clone() }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().flat_map(|(_, lines)| lines).for_each(see);
    }
}

/// Values that add up: the outer ones first, then the inner ones, each with its origin.
#[derive(Clone, Debug)]
pub struct Listed<T>(Vec<(T, Origin)>);

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed(Vec::new())
    }
}

impl<T> Listed<T> {
    /// Adds a value at the end.
    pub fn push(&mut self, value: T, origin: &Origin) {
        self.0.push((value, origin.clone()));
    }

    /// The values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter().map(|(value, _)| value)
    }

    /// The values with their origins, in order.
    pub fn entries(&self) -> &[(T, Origin)] {
        &self.0
    }

    /// The values to change in place.
    pub fn entries_mut(&mut self) -> &mut Vec<(T, Origin)> {
        &mut self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Clone> Merge for Listed<T> {
    fn merge(base: &Self, add: &Self) -> Self {
        Listed(base.0.iter().chain(&add.0).cloned().collect())
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().map(|(_, origin)| origin).for_each(see);
    }
}

/// Values that are searched from the innermost level outwards: the inner ones first, then the outer ones.
#[derive(Clone, Debug)]
pub struct Stacked<T>(Vec<(T, Origin)>);

impl<T> Default for Stacked<T> {
    fn default() -> Self {
        Stacked(Vec::new())
    }
}

impl<T> Stacked<T> {
    /// Adds a value behind those of the same level.
    pub fn push(&mut self, value: T, origin: &Origin) {
        self.0.push((value, origin.clone()));
    }

    /// The values in the order of the search.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter().map(|(value, _)| value)
    }

    /// The values with their origins, in the order of the search.
    pub fn entries(&self) -> &[(T, Origin)] {
        &self.0
    }
}

impl<T: Clone> Merge for Stacked<T> {
    fn merge(base: &Self, add: &Self) -> Self {
        Stacked(add.0.iter().chain(&base.0).cloned().collect())
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().map(|(_, origin)| origin).for_each(see);
    }
}

/// Values under keys: an inner value replaces the outer one of the same key.
#[derive(Clone, Debug)]
pub struct Keyed<K, T>(BTreeMap<K, Entry<T>>);

/// A value, the line that set it, and those that changed it.
#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    origin: Origin,
    changes: Vec<Origin>,
}

impl<K, T> Default for Keyed<K, T> {
    fn default() -> Self {
        Keyed(BTreeMap::new())
    }
}

impl<K: Ord, T> Keyed<K, T> {
    /// Sets the value of a key.
    pub fn set(&mut self, key: K, value: T, origin: &Origin) {
        self.0.insert(key, Entry { value, origin: origin.clone(), changes: Vec::new() });
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key).map(|entry| &entry.value)
    }

    /// The value of a key, to be changed by the line at `origin`.
    pub fn edit<Q: Ord + ?Sized>(&mut self, key: &Q, origin: &Origin) -> Option<&mut T>
    where
        K: std::borrow::Borrow<Q>,
    {
        let entry = self.0.get_mut(key)?;
        entry.changes.push(origin.clone());
        Some(&mut entry.value)
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.0.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Whether no key is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Ord + Clone, T: Clone> Merge for Keyed<K, T> {
    fn merge(base: &Self, add: &Self) -> Self {
        let mut merged = base.0.clone();
        merged.extend(add.0.iter().map(|(key, value)| (key.clone(), value.clone())));
        Keyed(merged)
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        for entry in self.0.values() {
            see(&entry.origin);
            entry.changes.iter().for_each(&mut *see);
        }
    }
}

/// A module's settings of one level. Implemented by [`settings!`](crate::settings!) only.
pub trait Settings: Any + Clone + Default + Send + Sync {
    /// Merges field by field.
    fn merged(base: &Self, add: &Self) -> Self;
    /// Shows the line of each value, field by field.
    fn origins(&self, see: &mut dyn FnMut(&Origin));
    /// The place of this type in every [`SettingsMap`].
    fn slot() -> usize;
    /// What a level that says nothing has.
    fn unset() -> &'static Self;
}

/// Hands out slot numbers; used by [`settings!`](crate::settings!).
#[derive(Debug)]
pub struct SlotId(OnceLock<usize>);

impl SlotId {
    /// Not numbered yet.
    #[allow(clippy::new_without_default, reason = "a static's initialiser")]
    pub const fn new() -> SlotId {
        SlotId(OnceLock::new())
    }

    /// The number: the same for the life of the process.
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
                    self.$field.or($default)
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
    /// The settings of one type; all unset if this level says nothing.
    #[inline]
    pub fn get<S: Settings>(&self) -> &S {
        self.peek().unwrap_or_else(|| S::unset())
    }

    /// The settings of one type, if this level says anything.
    #[inline]
    pub fn peek<S: Settings>(&self) -> Option<&S> {
        self.0.get(S::slot())?.as_deref()?.as_any().downcast_ref()
    }

    /// The settings of one type, to be filled.
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

    /// What is in effect when `add` stands inside `base`.
    pub fn merge(base: &SettingsMap, add: &SettingsMap) -> SettingsMap {
        let longest = base.0.len().max(add.0.len());
        let at = |slots: &SettingsMap, i: usize| slots.0.get(i).cloned().flatten();
        SettingsMap(
            (0..longest)
                .map(|i| match (at(base, i), at(add, i)) {
                    (Some(base), Some(add)) => Some(base.merge_any(&*add)),
                    (base, add) => add.or(base),
                })
                .collect(),
        )
    }

    /// Shows the line of each value of all modules.
    pub fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().flatten().for_each(|settings| settings.origins_any(see));
    }

    /// Whether no module said anything.
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
        assert_eq!((sample.one.or(9), sample.one.origin().map(|o| o.line)), (1, Some(1)));
        assert_eq!(sample.many.iter().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(sample.near.iter().copied().collect::<Vec<_>>(), [2, 1]);
        assert_eq!((sample.table.get("a"), sample.table.get("b")), (Some(&2), Some(&1)));
        assert_eq!(outer.get::<Sample>().many.len(), 1, "merging changes neither side");
        assert_eq!(SettingsMap::default().get::<Sample>().one.or(9), 9);
        let mut lines = Vec::new();
        merged.origins(&mut |origin| lines.push(origin.line));
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 2, 3, 4, 4, 5], "line 3 still says what `b` is");
    }
}
