//! `IndexOptions`: the appearance of a listing, with its own way to merge.
//!
//! Apache manual: mod_autoindex, "IndexOptions"; the mixture of signs and levels was measured on 2.4.71.

use conf::{Merge, Origin};

/// A set of options, as bits.
pub(super) type Bits = u32;

const NONE: Bits = 1;
pub(super) const ICONS_ARE_LINKS: Bits = 1 << 1;
pub(super) const SCAN_TITLES: Bits = 1 << 2;
pub(super) const NO_ICON: Bits = 1 << 3;
pub(super) const NO_DATE: Bits = 1 << 4;
pub(super) const NO_SIZE: Bits = 1 << 5;
pub(super) const NO_DESCRIPTION: Bits = 1 << 6;
pub(super) const NO_PREAMBLE: Bits = 1 << 7;
pub(super) const NO_SORTING: Bits = 1 << 8;
pub(super) const NO_RULES: Bits = 1 << 9;
pub(super) const FOLDERS_FIRST: Bits = 1 << 10;
pub(super) const VERSION_SORT: Bits = 1 << 11;
pub(super) const TRACK_MODIFIED: Bits = 1 << 12;
pub(super) const FANCY: Bits = 1 << 13;
pub(super) const TABLE: Bits = 1 << 14;
pub(super) const IGNORE_CLIENT: Bits = 1 << 15;
pub(super) const IGNORE_CASE: Bits = 1 << 16;
pub(super) const XHTML: Bits = 1 << 17;
pub(super) const SHOW_FORBIDDEN: Bits = 1 << 18;
pub(super) const ALT_CLASS: Bits = 1 << 19;

const NAMES: [(&str, Bits); 19] = [
    ("FancyIndexing", FANCY),
    ("FoldersFirst", FOLDERS_FIRST),
    ("HTMLTable", TABLE),
    ("IconsAreLinks", ICONS_ARE_LINKS),
    ("IgnoreCase", IGNORE_CASE),
    ("IgnoreClient", IGNORE_CLIENT),
    ("ScanHTMLTitles", SCAN_TITLES),
    ("SuppressColumnSorting", NO_SORTING),
    ("SuppressDescription", NO_DESCRIPTION),
    ("SuppressHTMLPreamble", NO_PREAMBLE),
    ("SuppressIcon", NO_ICON),
    ("SuppressLastModified", NO_DATE),
    ("SuppressSize", NO_SIZE),
    ("SuppressRules", NO_RULES),
    ("TrackModified", TRACK_MODIFIED),
    ("VersionSort", VERSION_SORT),
    ("XHTML", XHTML),
    ("ShowForbidden", SHOW_FORBIDDEN),
    ("AddAltClass", ALT_CLASS),
];

/// The `IndexOptions` of one section, before they are merged with those around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The options given without a sign.
    set: Option<Bits>,
    add: Bits,
    remove: Bits,
    /// Signs count once levels are merged: those of a section always are, those outside sections only if a section says
    /// something too.
    in_section: bool,
    merged: bool,
    /// The lines that contributed to `set`, and to `add` and `remove`.
    set_lines: Vec<Origin>,
    sign_lines: Vec<Origin>,
}

impl Options {
    /// The options that are on once the signs have been applied.
    pub(super) fn effective(&self) -> Bits {
        let merged = (self.in_section && !self.merged).then(|| Merge::merge(&Options::default(), self));
        merged.as_ref().unwrap_or(self).set.unwrap_or(0)
    }

    /// Applies the words of one line. `detail` takes a keyword that is more than a bit, and whether a minus sign precedes it.
    pub(super) fn apply(
        &mut self,
        words: &[String],
        in_section: bool,
        origin: &Origin,
        mut detail: impl FnMut(&str, bool) -> Result<(), String>,
    ) -> Result<(), String> {
        (self.in_section, self.merged) = (in_section, false);
        for word in words {
            let (sign, name) = match word.chars().next() {
                Some(sign @ ('+' | '-')) => (Some(sign), &word[1..]),
                _ => (None, word.as_str()),
            };
            let bits = match NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, bits)) => *bits,
                None if name.eq_ignore_ascii_case("None") => {
                    if sign.is_some() {
                        return Err("Cannot combine '+' or '-' with 'None' keyword".into());
                    }
                    self.set_lines.clear();
                    self.begin(Some(NONE), origin);
                    continue;
                }
                None => {
                    detail(name, sign == Some('-'))?;
                    0
                }
            };
            match sign {
                None => {
                    let set = (bits != 0).then(|| self.set.unwrap_or(0) | bits);
                    self.begin(set, origin);
                }
                Some(sign) => {
                    let (on, off) = if sign == '+' { (bits, 0) } else { (0, bits) };
                    self.add = self.add & !off | on;
                    self.remove = self.remove & !on | off;
                    self.sign_lines.extend((bits != 0).then(|| origin.clone()));
                }
            }
        }
        if self.set.is_some_and(|set| set & NONE != 0 && set != NONE) {
            return Err("Cannot combine other IndexOptions keywords with 'None'".into());
        }
        Ok(())
    }

    /// Handles a word without a sign, which cancels the words with signs before it.
    fn begin(&mut self, set: Option<Bits>, origin: &Origin) {
        (self.add, self.remove) = (0, 0);
        self.sign_lines.clear();
        if set.is_some() {
            self.set = set;
            self.set_lines.push(origin.clone());
        }
    }
}

impl Merge for Options {
    fn merge(base: &Self, add: &Self) -> Self {
        let merged = Options { in_section: true, merged: true, ..Options::default() };
        match add.set {
            // Signs beside an absolute set are lost here, as in Apache.
            Some(set) => Options { set: Some(set), set_lines: add.set_lines.clone(), ..merged },
            None => {
                let (plus, minus) = ((base.add | add.add) & !add.remove, base.remove | add.remove);
                let set = (base.set.unwrap_or(0) & !NONE | plus) & !minus;
                Options {
                    set: Some(set).filter(|_| base.set.is_some() || set != 0),
                    add: plus,
                    remove: minus,
                    set_lines: base.set_lines.clone(),
                    sign_lines: [&base.sign_lines[..], &add.sign_lines[..]].concat(),
                    ..merged
                }
            }
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        let signs_count = self.merged || self.in_section && self.set.is_none();
        self.set_lines.iter().chain(self.sign_lines.iter().filter(|_| signs_count)).for_each(see);
    }
}

/// The width of the column for names or descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    /// At least this many bytes, or exactly as many if the width does not adjust.
    pub(super) bytes: usize,
    /// Whether the column is as wide as its longest entry.
    pub(super) adjust: bool,
}

/// Apache's widths without `NameWidth` and `DescriptionWidth`.
pub(super) const WIDTH: usize = 23;

#[cfg(test)]
mod tests {
    use super::super::settings::IndexDir;
    use super::*;
    use crate::testing::{apply, check};

    #[test]
    fn levels_as_measured() {
        let outside = |lines: &str| apply(lines).unwrap().dir.get::<IndexDir>().options.clone();
        let section = |lines: &str| Options { in_section: true, ..outside(lines) };
        assert_eq!(outside("IndexOptions +FancyIndexing").effective(), 0);
        assert_eq!(section("IndexOptions +FancyIndexing").effective(), FANCY);
        assert_eq!(section("IndexOptions FancyIndexing +HTMLTable").effective(), FANCY);
        let table = [
            ("IndexOptions FancyIndexing", "IndexOptions +HTMLTable", FANCY | TABLE),
            ("IndexOptions FancyIndexing +HTMLTable", "IndexIgnore x", FANCY | TABLE),
            ("IndexOptions FancyIndexing HTMLTable", "IndexOptions None", NONE),
            ("IndexOptions FancyIndexing HTMLTable", "IndexOptions -HTMLTable", FANCY),
            ("IndexOptions FancyIndexing HTMLTable", "IndexOptions NameWidth=*", FANCY | TABLE),
            ("IndexOptions None", "IndexOptions +HTMLTable", TABLE),
            ("IndexOptions HTMLTable", "IndexOptions FancyIndexing", FANCY),
        ];
        for (base, add, want) in table {
            assert_eq!(Options::merge(&outside(base), &section(add)).effective(), want, "{base} / {add}");
        }
    }

    #[test]
    fn errors_as_apache_has_them() {
        let narrow = "NameWidth value must be greater than 5";
        check(&[
            ("IndexOptions None FancyIndexing", "Cannot combine other IndexOptions keywords with 'None'"),
            ("IndexOptions FancyIndexing None", ""),
            ("IndexOptions None -FancyIndexing", ""),
            ("IndexOptions +None", "Cannot combine '+' or '-' with 'None' keyword"),
            ("IndexOptions -IconWidth=5", "Cannot combine '-' with IconWidth=n"),
            ("IndexOptions -IconHeight=5", "Cannot combine '-' with IconHeight=n"),
            ("IndexOptions +NameWidth", "NameWidth with no value may only appear as '-NameWidth'"),
            ("IndexOptions NameWidth=4", narrow),
            ("IndexOptions NameWidth=-3", narrow),
            ("IndexOptions DescriptionWidth=5", "DescriptionWidth value must be greater than 12"),
            ("IndexOptions DescriptionWidth", "DescriptionWidth with no value may only appear as '-DescriptionWidth'"),
            ("IndexOptions -DescriptionWidth=5", "Cannot combine '-' with DescriptionWidth=n"),
            ("IndexOptions Bogus", "Invalid directory indexing option"),
            ("IndexOptions", ""),
            ("IndexOptions -NameWidth +Charset=y -UseOldDateFormat NameWidth=* IconWidth", ""),
        ]);
    }
}
