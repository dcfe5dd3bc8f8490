//! Fields of one name count as one, their values joined (RFC 9110 section 5.3): how long that is.

use std::collections::HashMap;

/// What joins two values.
const SEPARATOR: &str = ", ";

/// Whether a field, joined with all others of its name, is longer than `most` bytes. `counted`: what a name counts.
pub(crate) fn is_longer<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    counted: fn(&[u8]) -> usize,
    most: usize,
) -> bool {
    let mut lengths: HashMap<Vec<u8>, usize> = HashMap::new();
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        let before = lengths.get(&name).map_or_else(|| counted(&name), |length| length + SEPARATOR.len());
        let joined = before + value.len();
        if joined > most {
            return true;
        }
        lengths.insert(name, joined);
    }
    false
}
