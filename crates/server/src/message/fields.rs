//! Names and values in order: header fields, the request's environment, notes. Names ignore case.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A value: a constant, a string of its own, or one shared with a cache.
#[derive(Clone, Debug)]
pub enum Value {
    /// A constant of the program.
    Static(&'static str),
    /// A string that only this field holds.
    Own(String),
    /// A shared text.
    Shared(Arc<str>),
    /// A part of a shared text.
    Part(TextPart),
}

/// A part of a text that others are parts of, too, such as a value in a received head.
#[derive(Clone, Debug)]
pub struct TextPart {
    all: Arc<str>,
    start: u32,
    end: u32,
}

impl TextPart {
    /// This part of a text, if it is one of at most 4 GB.
    pub fn new(all: &Arc<str>, part: Range<usize>) -> Option<TextPart> {
        all.get(part.clone())?;
        let (start, end) = (u32::try_from(part.start).ok()?, u32::try_from(part.end).ok()?);
        Some(TextPart { all: all.clone(), start, end })
    }
}

impl TextPart {
    /// Whether this is the same part of the same text.
    fn is(&self, other: &TextPart) -> bool {
        Arc::ptr_eq(&self.all, &other.all) && (self.start, self.end) == (other.start, other.end)
    }
}

impl Deref for TextPart {
    type Target = str;

    fn deref(&self) -> &str {
        // `new` has found it.
        self.all.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl Deref for Value {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Value::Static(text) => text,
            Value::Own(text) => text,
            Value::Shared(text) => text,
            Value::Part(text) => text,
        }
    }
}

impl Value {
    /// A part of a shared text. Of a text of more than 4 GB, it is a copy.
    pub fn part(all: &Arc<str>, part: Range<usize>) -> Value {
        TextPart::new(all, part.clone()).map_or_else(|| Value::Own(all[part].to_string()), Value::Part)
    }

    fn become_like(&mut self, other: &Value) {
        match (self, other) {
            (Value::Own(text), Value::Own(other)) => text.clone_from(other),
            (Value::Part(text), Value::Part(other)) if text.is(other) => {}
            (Value::Shared(text), Value::Shared(other)) if Arc::ptr_eq(text, other) => {}
            (Value::Static(text), Value::Static(other)) => *text = other,
            (value, other) => *value = other.clone(),
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Own(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Own(text.clone())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Own(text.to_string())
    }
}

impl From<Cow<'_, str>> for Value {
    fn from(text: Cow<'_, str>) -> Value {
        Value::Own(text.into_owned())
    }
}

impl From<TextPart> for Value {
    fn from(part: TextPart) -> Value {
        Value::Part(part)
    }
}

impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Value {
        Value::Shared(text)
    }
}

/// Whether two names are the same. Most are spelled alike.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one == other || one.eq_ignore_ascii_case(other))
}

/// A table like httpd's: ordered, names ignore case, and a name may have several values.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<(Cow<'static, str>, Value)>);

impl Fields {
    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| is_same(have, name)).map(|(_, value)| &**value)
    }

    /// The place of the first value of a name, for [`own_mut`](Self::own_mut).
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(have, _)| is_same(have, name))
    }

    /// The same, for a name that is at this place unless the list has changed.
    pub(crate) fn place_near(&self, name: &str, place: usize) -> Option<usize> {
        match self.0.get(place) {
            Some((have, _)) if is_same(have, name) => Some(place),
            _ => self.place(name),
        }
    }

    /// The value at a place, if it is a string of its own.
    pub(crate) fn own_mut(&mut self, place: usize) -> Option<&mut String> {
        match self.0.get_mut(place) {
            Some((_, Value::Own(text))) => Some(text),
            _ => None,
        }
    }

    /// All values of a name joined by `", "`.
    pub fn joined(&self, name: &str) -> Option<String> {
        let mut values = self.0.iter().filter(|(have, _)| is_same(have, name)).map(|(_, value)| value);
        let first = values.next()?.to_string();
        Some(values.fold(first, |all, value| all + ", " + value))
    }

    /// Replaces all values of a name with one; it keeps the place of the first.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter().position(|(have, _)| is_same(have, &name)) {
            Some(at) => {
                self.0[at] = (name, value);
                let mut i = at + 1;
                while i < self.0.len() {
                    if self.0[i].0.eq_ignore_ascii_case(&self.0[at].0) {
                        self.0.remove(i);
                    } else {
                        i += 1;
                    }
                }
            }
            None => self.0.push((name, value)),
        }
    }

    /// Adds a value; others of the same name stay.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        self.0.push((name.into(), value.into()));
    }

    /// Makes room for so many more fields.
    pub fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    /// Appends to the value of a name, after `", "`.
    pub fn merge(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        let name = name.into();
        match self.0.iter_mut().find(|(have, _)| is_same(have, &name)) {
            Some((_, have)) => *have = Value::Own(format!("{}, {value}", &**have)),
            None => self.0.push((name, value.into())),
        }
    }

    /// Removes a name, with all its values.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(have, _)| !is_same(have, name));
    }

    /// Whether there is a value for a name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), &**value))
    }

    /// The fields with a prefix for each name. The last value of a name stays, at the place of the first.
    pub(crate) fn prefixed(&self, prefix: &str) -> Fields {
        let mut places = HashMap::with_capacity(self.0.len());
        let mut out = Fields::default();
        for (name, value) in &self.0 {
            let field = (Cow::Owned(format!("{prefix}{name}")), value.clone());
            match places.entry(name.to_ascii_lowercase()) {
                Entry::Occupied(place) => out.0[*place.get()] = field,
                Entry::Vacant(place) => {
                    place.insert(out.0.len());
                    out.0.push(field);
                }
            }
        }
        out
    }

    /// Becomes like other fields, and keeps the memory of its own values.
    pub(crate) fn become_like(&mut self, other: &Fields) {
        self.0.truncate(other.0.len());
        let have = self.0.len();
        for ((name, value), (new_name, new_value)) in self.0.iter_mut().zip(&other.0) {
            if *name != *new_name {
                name.clone_from(new_name);
            }
            value.become_like(new_value);
        }
        self.0.extend_from_slice(&other.0[have..]);
    }

    /// How many bytes the names and values have.
    pub(crate) fn size(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends everything in `other`.
    pub fn extend(&mut self, other: &Fields) {
        self.0.extend(other.0.iter().cloned());
    }
}

/// Adds field names to `Vary`, each once.
pub fn add_vary(out: &mut Fields, name: &str) {
    let have = out.get("Vary").unwrap_or_default();
    if !have.split(',').any(|one| one.trim().eq_ignore_ascii_case(name) || one.trim() == "*") {
        // Without a blank, as in Apache's final list.
        let list = if have.is_empty() { name.to_string() } else { format!("{have},{name}") };
        out.set("Vary", list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixed_names_are_there_once() {
        let mut fields = Fields::default();
        for (name, value) in [("a", "1"), ("B", "2"), ("A", "3"), ("c", "4"), ("b", "5"), ("a", "6")] {
            fields.add(name, value);
        }
        let mut want = Fields::default();
        fields.iter().for_each(|(name, value)| want.set(format!("X_{name}"), value));
        assert!(fields.prefixed("X_").iter().eq(want.iter()));
        assert!(want.iter().eq([("X_a", "6"), ("X_b", "5"), ("X_c", "4")]));
    }
}
