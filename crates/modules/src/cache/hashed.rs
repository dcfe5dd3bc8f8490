//! The names of files for keys, as Apache makes them.

use md5::{Digest, Md5};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@";

/// The name for a key, below so many directories with names of this length.
pub(crate) fn hashed(key: &[u8], levels: usize, length: usize) -> String {
    let mut name = String::with_capacity(32);
    // 22 letters of 6 bits each; the last one has only 2.
    let digest: [u8; 16] = Md5::digest(key).into();
    let mut bits = u128::from_be_bytes(digest);
    for place in 0..22 {
        if place > 0 && place <= levels * length && place % length == 0 {
            name.push('/');
        }
        name.push(char::from(LETTERS[(bits >> 122) as usize]));
        bits <<= 6;
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_of_apache() {
        let hashed = |key: &str, levels, length| super::hashed(key.as_bytes(), levels, length);
        assert_eq!(hashed("http://127.0.0.1:7401/s.txt?", 2, 2), "WJ/5U/iScIUdeOT836GJ5G9g");
        assert_eq!(hashed("http://127.0.0.1:7401/cgi/c.sh?max-age=1", 1, 3), "nf1/rmoNsMkr_FjYK9U360A");
        assert_eq!(hashed("http://127.0.0.1:7401/cgi/c.sh?max-age=1", 0, 0), "nf1rmoNsMkr_FjYK9U360A");
    }
}
