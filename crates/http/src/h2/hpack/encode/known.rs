//! Names with an entry in the static table, and what is known about the fields that they name.

use super::hash;
use crate::h2::hpack::table::{STATIC, STATIC_LEN};

/// What is known about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The first static index of the name; 0 if it has none.
    pub(super) index: usize,
    pub(super) how: How,
}

/// How to write a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It repeats: it may enter the table (RFC 7541 section 6.2.1).
    Add,
    /// It differs from message to message (section 6.2.2).
    Plain,
    /// It is a secret that must not be guessed by the size of a table, not even behind a proxy (section 6.2.3).
    Never,
}

/// A secret's name that is not in the static table. Its place is behind it.
const UNLISTED: &[u8] = b"authentication-info";

/// By bits of a name's hash: the static index of the only name that it can be; 0 for none.
static PLACES: [u8; 1 << PLACE_BITS] = places(FACTOR);
const PLACE_BITS: u32 = 9;
/// Found at compile time: no two names have the same place.
const FACTOR: u64 = factor();

/// By static index.
static HOW: [How; STATIC_LEN + 2] = hows();

impl Known {
    /// What is known about a name in lower case.
    pub(super) fn find(name: &[u8]) -> Option<Known> {
        let index = usize::from(PLACES[place(hash::of_name(name), FACTOR)]);
        let (known, unlisted) = match STATIC.get(index.checked_sub(1)?) {
            Some((known, _)) => (*known, false),
            None => (UNLISTED, true),
        };
        hash::is_same(known, name).then(|| Known { index: if unlisted { 0 } else { index }, how: HOW[index] })
    }

    /// Is the static entry the whole field?
    pub(super) fn is_whole(self, value: &[u8]) -> bool {
        self.index.checked_sub(1).is_some_and(|at| STATIC[at].1 == value)
    }
}

const fn place(hash: u64, factor: u64) -> usize {
    (hash.wrapping_mul(factor) >> (64 - PLACE_BITS)) as usize
}

const fn name_at(index: usize) -> &'static [u8] {
    if index <= STATIC_LEN { STATIC[index - 1].0 } else { UNLISTED }
}

const fn places(factor: u64) -> [u8; 1 << PLACE_BITS] {
    let mut places = [0; 1 << PLACE_BITS];
    // From the last on, so that the first of several entries with one name stays.
    let mut index = STATIC_LEN + 1;
    while index > 0 {
        places[place(hash::of_name(name_at(index)), factor)] = index as u8;
        index -= 1;
    }
    places
}

const fn factor() -> u64 {
    let mut hashes = [0; STATIC_LEN + 2];
    let mut index = 1;
    while index <= STATIC_LEN + 1 {
        hashes[index] = hash::of_name(name_at(index));
        index += 1;
    }
    let mut factor = 1;
    while !separates(&hashes, factor) {
        factor += 2;
    }
    factor
}

/// Does each name have a place of its own?
const fn separates(hashes: &[u64; STATIC_LEN + 2], factor: u64) -> bool {
    let mut taken = [0; 1 << PLACE_BITS];
    let mut index = 1;
    while index < hashes.len() {
        let place = place(hashes[index], factor);
        if taken[place] != 0 && taken[place] != hashes[index] {
            return false;
        }
        taken[place] = hashes[index];
        index += 1;
    }
    true
}

const fn hows() -> [How; STATIC_LEN + 2] {
    let mut hows = [How::Add; STATIC_LEN + 2];
    let mut index = 1;
    while index < hows.len() {
        hows[index] = match name_at(index) {
            b":path" | b"content-length" | b"content-range" | b"age" | b"location" => How::Plain,
            b"cookie" | b"set-cookie" | b"authorization" | b"proxy-authorization" | b"www-authenticate" | UNLISTED => {
                How::Never
            }
            _ => How::Add,
        };
        index += 1;
    }
    hows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<Known> {
        let mut buffer = [0; hash::NAME_MAX];
        Known::find(hash::lower(name.as_bytes(), &mut buffer))
    }

    #[test]
    fn every_name_of_the_static_table_is_found() {
        for (at, (name, value)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(other, _)| other == name).unwrap();
            let known = find(&String::from_utf8_lossy(name).to_ascii_uppercase()).unwrap();
            assert_eq!(known.index, first + 1);
            assert_eq!(known.is_whole(value), first == at);
        }
        assert_eq!((find("x-mine"), find("")), (None, None));
    }

    #[test]
    fn what_differs_and_what_is_secret() {
        assert_eq!(find("Authentication-Info"), Some(Known { index: 0, how: How::Never }));
        assert_eq!(find("Set-Cookie"), Some(Known { index: 55, how: How::Never }));
        assert_eq!(find("Content-Length"), Some(Known { index: 28, how: How::Plain }));
        assert_eq!(find("ETag"), Some(Known { index: 34, how: How::Add }));
    }
}
