//! Apache's own digest of passwords, `$apr1$`.

use md5::{Digest, Md5};

use super::cost::DIGITS;

/// The name of Apache's variant of MD5 crypt.
pub(super) const APR1: &str = "$apr1$";

/// Apache's variant of Poul-Henning Kamp's MD5 crypt, which differs in its name only (Apache manual, "Password Formats";
/// crypt(5)). The digest without name and salt.
pub(super) fn apr1(password: &[u8], salt: &str) -> String {
    let salt = http::text::to_bytes(salt);
    let salt = &salt[..salt.len().min(8)];
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(APR1).chain_update(salt);
    for start in (0..password.len()).step_by(inner.len()) {
        outer.update(&inner[..inner.len().min(password.len() - start)]);
    }
    // One byte per bit of the length, from the lowest.
    let mut bits = password.len();
    while bits > 0 {
        match bits & 1 {
            1 => outer.update([0]),
            _ => outer.update(&password[..1]),
        }
        bits >>= 1;
    }
    let mut digest = outer.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        let (first, last): (&[u8], &[u8]) = if round % 2 == 1 { (password, &digest) } else { (&digest, password) };
        next.update(first);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(last);
        digest = next.finalize();
    }
    let mut text = String::with_capacity(22);
    let mut put = |high: u8, middle: u8, low: u8, digits: u32| {
        let bits = u32::from_be_bytes([0, high, middle, low]);
        text.extend((0..digits).map(|digit| char::from(DIGITS[(bits >> (6 * digit) & 63) as usize])));
    };
    for i in 0..5 {
        put(digest[i], digest[i + 6], digest[if i == 4 { 5 } else { i + 12 }], 4);
    }
    put(0, 0, digest[11], 2);
    text
}
