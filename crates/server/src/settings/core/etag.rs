//! `FileETag`: the parts of a file's `ETag`, with its own way to merge.

use conf::{InArgument as _, Merge, Origin, Outcome, Refusal};

/// A set of components, as bits.
pub type Bits = u32;

/// The inode number.
pub const INODE: Bits = 1;
/// The time of change.
pub const MTIME: Bits = 2;
/// The size.
pub const SIZE: Bits = 4;
/// A digest of the content.
pub const DIGEST: Bits = 8;
/// No `ETag` at all.
const NONE: Bits = 16;

const NAMES: [(&str, Bits); 6] = [
    ("INode", INODE),
    ("MTime", MTIME),
    ("Size", SIZE),
    ("Digest", DIGEST),
    ("All", INODE | MTIME | SIZE),
    ("None", NONE),
];

/// `FileETag` of one level, as in Apache: a set, and changes to the inherited one. An empty set counts as none:
/// additions to nothing stand alone, and if everything was removed the default applies again.
#[derive(Clone, Debug, Default)]
pub struct FileETag {
    set: Bits,
    add: Bits,
    remove: Bits,
    /// The lines that contributed to it.
    lines: Vec<Origin>,
}

impl FileETag {
    /// The set in effect: the default is `MTime Size`. A digest makes the others redundant, and is used even beside
    /// `None`.
    pub fn effective(&self) -> Bits {
        match if self.set == 0 { self.add } else { self.set } {
            0 => MTIME | SIZE,
            set if set & DIGEST != 0 => DIGEST,
            set if set & NONE != 0 => 0,
            set => set,
        }
    }

    /// Applies the line at `origin`.
    pub(crate) fn apply(&mut self, words: &[String], origin: &Origin) -> Outcome {
        if words.iter().any(|word| !word.starts_with(['+', '-'])) {
            self.lines.clear();
        }
        self.lines.push(origin.clone());
        self.read(words)
    }

    fn read(&mut self, words: &[String]) -> Outcome {
        let mut begun = false;
        for (word, number) in words.iter().zip(1..) {
            let name = word.strip_prefix(['+', '-']).unwrap_or(word);
            let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let (known, bits) =
                known.ok_or_else(|| format!("Unknown keyword '{name}' for FileETag directive")).in_argument(number)?;
            match word.chars().next() {
                Some('+' | '-') if matches!(*known, "All" | "None") => {
                    let message = format!("FileETag keyword '{known}' cannot be used with '+' or '-'");
                    return Err(Refusal::argument(number, message));
                }
                Some('+') => (self.add, self.remove) = (self.add | bits, self.remove & !bits),
                Some('-') => (self.add, self.remove) = (self.add & !bits, self.remove | bits),
                _ => {
                    if !std::mem::replace(&mut begun, true) {
                        (self.set, self.add, self.remove) = (0, 0, 0);
                    }
                    self.set |= bits;
                }
            }
        }
        self.set = match self.set {
            0 => 0,
            set if set & NONE != 0 => set & (NONE | DIGEST),
            set => (set & !self.remove) | self.add,
        };
        Ok(())
    }
}

impl Merge for FileETag {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.set != 0 {
            return add.clone();
        }
        let added = (base.add & !add.remove) | add.add;
        let removed = (base.remove & !add.add) | add.remove;
        // An added part replaces the digest, in which it would be lost.
        let replaced = if add.add & !DIGEST != 0 { DIGEST } else { 0 };
        let set = (base.set & !removed & !replaced) | added;
        FileETag {
            // An addition to none makes a set.
            set: if set == NONE { set } else { set & !NONE },
            add: added,
            remove: removed,
            lines: [&base.lines[..], &add.lines[..]].concat(),
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.lines.iter().for_each(see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> FileETag {
        let mut level = FileETag::default();
        for line in text.split(';').filter(|line| !line.is_empty()) {
            let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            level.read(&words).expect("a line");
        }
        level
    }

    /// As measured with apache2: an outer level, an inner one, and the components of the `ETag`.
    #[test]
    fn merging_as_in_apache() {
        let cases = [
            ("", "", MTIME | SIZE),
            ("", "+Size", SIZE),
            ("", "-INode", MTIME | SIZE),
            ("", "-MTime", MTIME | SIZE),
            ("", "INode;Size", SIZE),
            ("", "INode;+Size", INODE | SIZE),
            ("", "+Size INode", INODE),
            ("", "None;+Size", 0),
            ("", "+Size;-INode", SIZE),
            ("", "-INode;-Size", MTIME | SIZE),
            ("", "All -INode", MTIME | SIZE),
            ("INode", "+Size", INODE | SIZE),
            ("INode", "-INode", MTIME | SIZE),
            ("INode", "-MTime", INODE),
            ("All", "-MTime", INODE | SIZE),
            ("None", "+INode", INODE),
            ("None", "-INode", 0),
            ("None +Size", "-INode", SIZE),
            ("None;+Size", "+MTime", SIZE | MTIME),
            ("+Size", "", SIZE),
            ("+Size", "-Size", MTIME | SIZE),
            ("", "Digest Size", DIGEST),
            ("", "None Digest", DIGEST),
            ("Digest", "+Size", SIZE),
            ("Digest", "-Digest", MTIME | SIZE),
        ];
        for (outer, inner, want) in cases {
            let merged = FileETag::merge(&FileETag::merge(&FileETag::default(), &level(outer)), &level(inner));
            assert_eq!(merged.effective(), want, "{outer} / {inner}");
        }
    }
}
