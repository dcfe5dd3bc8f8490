//! The name that a misspelled one was probably meant to be.

/// The name closest to a misspelled one, if it is close enough to be the intended one.
pub fn nearest_name(names: impl Iterator<Item = &'static str>, name: &str) -> Option<&'static str> {
    let far = (name.len() / 3).clamp(1, 3);
    let mut rows = Rows::default();
    names.filter_map(|other| Some((rows.distance(name, other, far)?, other))).min().map(|(_, other)| other)
}

/// The last three rows of the edit distance table, reused for each pair of words.
#[derive(Default)]
struct Rows {
    before_last: Vec<usize>,
    last: Vec<usize>,
    row: Vec<usize>,
}

impl Rows {
    /// The edit distance in bytes, ignoring case: it counts wrong, missing, extra and transposed letters. `None` if it
    /// exceeds `far`. It stops as soon as that is certain: a long nonsense word is compared with each of 1 000 names,
    /// once for each line that contains it.
    fn distance(&mut self, a: &str, b: &str, far: usize) -> Option<usize> {
        if a.len().abs_diff(b.len()) > far {
            return None;
        }
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let Rows { before_last, last, row } = self;
        last.clear();
        last.extend(0..=b.len());
        for (i, x) in a.iter().enumerate() {
            row.clear();
            row.push(i + 1);
            for (j, y) in b.iter().enumerate() {
                let is_same = x.eq_ignore_ascii_case(y);
                let mut steps = (last[j] + usize::from(!is_same)).min(last[j + 1] + 1).min(row[j] + 1);
                if i > 0 && j > 0 && x.eq_ignore_ascii_case(&b[j - 1]) && a[i - 1].eq_ignore_ascii_case(y) {
                    steps = steps.min(before_last[j - 1] + 1);
                }
                row.push(steps);
            }
            if row.iter().all(|steps| *steps > far) {
                return None;
            }
            std::mem::swap(before_last, last);
            std::mem::swap(last, row);
        }
        Some(last[b.len()]).filter(|steps| *steps <= far)
    }
}
