//! The environment of a program, in one piece of memory.

use std::ffi::CStr;

/// Lines `NAME=value`, each with the zero byte that ends it for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    bytes: Vec<u8>,
    lines: usize,
}

impl Environment {
    /// An empty one, with room for this many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Environment {
        Environment { bytes: Vec::with_capacity(bytes), lines: 0 }
    }

    /// The lines in these bytes; `None` unless the last one is whole.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Environment> {
        let lines = memchr::memchr_iter(0, bytes).count();
        bytes.last().is_none_or(|last| *last == 0).then(|| Environment { bytes: bytes.to_vec(), lines })
    }

    /// Adds a variable. Returns whether that is possible: no process could have one with a zero byte.
    #[must_use]
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> bool {
        if [name, value].iter().any(|text| memchr::memchr(0, text).is_some()) {
            return false;
        }
        for part in [name, b"=", value, b"\0"] {
            self.bytes.extend_from_slice(part);
        }
        self.lines += 1;
        true
    }

    /// The lines, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let line = CStr::from_bytes_until_nul(rest).ok()?;
            rest = &rest[line.count_bytes() + 1..];
            Some(line)
        })
    }

    /// The number of lines.
    pub(crate) fn len(&self) -> usize {
        self.lines
    }

    /// All lines, one after the other.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<'a> FromIterator<&'a CStr> for Environment {
    fn from_iter<T: IntoIterator<Item = &'a CStr>>(lines: T) -> Environment {
        let mut all = Environment::default();
        for line in lines {
            all.bytes.extend_from_slice(line.to_bytes_with_nul());
            all.lines += 1;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_was_added() {
        let mut all = Environment::default();
        assert!(all.add(b"A", b"1") && all.add(b"B", b"") && all.add(b"", b"=\xff"));
        assert!(!all.add(b"C", b"a\0b") && !all.add(b"D\0", b""));
        assert!(all.iter().eq([c"A=1", c"B=", c"==\xff"]));
        assert_eq!((all.len(), all.as_bytes()), (3, &b"A=1\0B=\0==\xff\0"[..]));
        assert_eq!(Environment::from_bytes(all.as_bytes()), Some(all.clone()));
        assert_eq!(all.iter().collect::<Environment>(), all);
        assert_eq!(Environment::from_bytes(b""), Some(Environment::default()));
        assert_eq!(Environment::from_bytes(b"A=1\0B"), None);
    }
}
