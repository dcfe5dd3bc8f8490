//! The types of fields: each says how its values merge.

use std::collections::BTreeMap;

use super::Merge;
use crate::source::Origin;

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

    /// The line that set the value.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.as_ref().map(|(_, origin)| origin)
    }

    /// Whether any level set it.
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

impl<T: Copy> Setting<T> {
    /// The value, or `default` if no level set one.
    #[inline]
    pub fn value_or(&self, default: T) -> T {
        self.get().copied().unwrap_or(default)
    }
}

/// A field with a single value, which may have a default: `settings!` then defines a method with the field's name that
/// returns the value or the default.
pub trait Single {
    /// The type of the value.
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

/// A single value of one level alone: an inner level does not inherit it. Apache has few of these.
#[derive(Clone, Debug)]
pub struct Own<T>(pub Setting<T>);

impl<T> Default for Own<T> {
    fn default() -> Self {
        Own(Setting::default())
    }
}

impl<T: Copy> Own<T> {
    /// The value, or `default` if this level does not set one.
    #[inline]
    pub fn value_or(&self, default: T) -> T {
        self.0.value_or(default)
    }
}

impl<T> Single for Own<T> {
    type Value = T;
}

impl<T: Clone> Merge for Own<T> {
    fn merge(_: &Self, add: &Self) -> Self {
        add.clone()
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.origins(see);
    }
}

/// A value that several lines of one level build up; an inner level that sets it replaces it as a whole.
#[derive(Clone, Debug)]
pub struct Gathered<T>(Option<(T, Vec<Origin>)>);

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Gathered(None)
    }
}

impl<T: Default> Gathered<T> {
    /// The value, to be extended by the line at `origin`.
    pub fn edit(&mut self, origin: &Origin) -> &mut T {
        let (value, lines) = self.0.get_or_insert_default();
        // A directive may add several words, one at a time.
        if lines.last() != Some(origin) {
            lines.push(origin.clone());
        }
        value
    }

    /// Starts a new value with the line at `origin`: drops the values of the lines before it.
    pub fn begin(&mut self, origin: &Origin) -> &mut T {
        self.0 = None;
        self.edit(origin)
    }
}

impl<T> Gathered<T> {
    /// Drops a line that no longer contributes to the value from its origins.
    pub fn forget(&mut self, origin: &Origin) {
        self.0.iter_mut().for_each(|(_, lines)| lines.retain(|line| line != origin));
    }

    /// The value, if any level set it.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(value, _)| value)
    }

    /// The last line that contributed to the value.
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
pub type Listed<T> = Values<T, false>;

/// Values that are searched from the innermost level outwards: the inner ones first, then the outer ones, each with its
/// origin.
pub type Stacked<T> = Values<T, true>;

/// The values of all levels, [`Listed`] or [`Stacked`].
#[derive(Clone, Debug)]
pub struct Values<T, const INNER_FIRST: bool>(Vec<(T, Origin)>);

impl<T, const INNER_FIRST: bool> Default for Values<T, INNER_FIRST> {
    fn default() -> Self {
        Values(Vec::new())
    }
}

impl<T, const INNER_FIRST: bool> Values<T, INNER_FIRST> {
    /// Adds a value after those of the same level.
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

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Clone, const INNER_FIRST: bool> Merge for Values<T, INNER_FIRST> {
    fn merge(base: &Self, add: &Self) -> Self {
        let (first, second) = if INNER_FIRST { (add, base) } else { (base, add) };
        Values(first.0.iter().chain(&second.0).cloned().collect())
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

    /// The line that set the value of a key.
    pub fn origin<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&Origin>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key).map(|entry| &entry.origin)
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
