//! Passwords as `htpasswd` stores them.
//!
//! `$apr1$` and `$1$` (MD5), `$2a$`, `$2b$`, `$2y$` (bcrypt), `$5$` and `$6$` (SHA-256 and SHA-512 crypt), `{SHA}`.
//! Apache leaves everything else to crypt(3). What of it has no well-kept Rust implementation is refused here with a
//! message: traditional crypt (13 characters, of which only 8 of the password count) and yescrypt above all.
//!
//! A check takes as long as whoever stored the password wanted it to take, and the worker that makes it does nothing
//! else meanwhile; in `percore` all connections of its process wait. [`BCRYPT_COST_MAX`] and [`SHA_ROUNDS_MAX`] bound
//! that to a fraction of a second, and what was right once is remembered, so that only the first of a browser's many
//! requests takes so long.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use md5::{Digest, Md5};
use sha_crypt::PasswordVerifier;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The highest cost of bcrypt: a third of a second. The default of `htpasswd -B` is 5; each step more takes twice the
/// time.
const BCRYPT_COST_MAX: u32 = 12;
/// The highest number of rounds of SHA-crypt: a third of a second. The default of `htpasswd -2` and `-5` is 5000.
const SHA_ROUNDS_MAX: u64 = 500_000;
/// How long a right password is remembered after its check.
const REMEMBERED: Duration = Duration::from_secs(300);
/// More remembered passwords than this are forgotten all at once.
const REMEMBERED_MAX: usize = 4096;

/// Why a password cannot be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is stored in a way that this server does not know.
    Format,
    /// A check would take too long.
    Cost,
}

impl Unusable {
    /// For the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Unusable::Format => "in a format that this server does not know (use htpasswd -B, -m, -2, -5 or -s)",
            Unusable::Cost => "at a cost that would stop this worker for too long (use htpasswd -B -C 10)",
        }
    }
}

/// Whether `password` is the one that was stored as `stored`.
pub(super) fn is_right(password: &[u8], stored: &str) -> Result<bool, Unusable> {
    if let Some(digest) = stored.strip_prefix("{SHA}") {
        let own = base64::engine::general_purpose::STANDARD.encode(sha1::Sha1::digest(password));
        return Ok(same(&own, digest));
    }
    let Some((kind, rest)) = stored.strip_prefix('$').and_then(|rest| rest.split_once('$')) else {
        return Err(Unusable::Format);
    };
    let remembered = remembered_as(password, stored);
    if is_remembered(&remembered) {
        return Ok(true);
    }
    let right = check(password, stored, kind, rest)?;
    if right {
        remember(remembered);
    }
    Ok(right)
}

fn check(password: &[u8], stored: &str, kind: &str, rest: &str) -> Result<bool, Unusable> {
    match kind {
        "apr1" | "1" => {
            let (salt, digest) = rest.split_once('$').ok_or(Unusable::Format)?;
            Ok(same(&md5_crypt(password, &format!("${kind}$"), salt), digest))
        }
        "2a" | "2b" | "2y" => {
            let cost: u32 = rest.split('$').next().and_then(|cost| cost.parse().ok()).ok_or(Unusable::Format)?;
            if cost > BCRYPT_COST_MAX {
                return Err(Unusable::Cost);
            }
            bcrypt::verify(password, stored).map_err(|_| Unusable::Format)
        }
        "5" | "6" => {
            let rounds = rest.strip_prefix("rounds=").and_then(|rest| rest.split('$').next());
            if rounds.is_some_and(|rounds| rounds.parse().is_ok_and(|rounds: u64| rounds > SHA_ROUNDS_MAX)) {
                return Err(Unusable::Cost);
            }
            match sha_crypt::ShaCrypt::default().verify_password(password, stored) {
                Ok(()) => Ok(true),
                Err(sha_crypt::password_hash::Error::PasswordInvalid) => Ok(false),
                Err(_) => Err(Unusable::Format),
            }
        }
        _ => Err(Unusable::Format),
    }
}

/// What stands for a password and how it is stored: a digest with a secret of this process, of no use to anybody who
/// does not read its memory. Another password in the file gives another digest, so nothing is remembered for too long.
type Mark = [u8; 32];

static SECRET: LazyLock<[u64; 4]> = LazyLock::new(|| {
    let random = RandomState::new();
    [0, 1, 2, 3].map(|part| random.hash_one(part))
});
static RIGHT: LazyLock<Mutex<HashMap<Mark, Instant>>> = LazyLock::new(Mutex::default);

fn remembered_as(password: &[u8], stored: &str) -> Mark {
    let mut digest = Sha256::new();
    SECRET.iter().for_each(|part| digest.update(part.to_ne_bytes()));
    // The length keeps the two apart.
    digest.update(stored.len().to_ne_bytes());
    digest.update(stored);
    digest.update(password);
    digest.finalize().into()
}

fn is_remembered(mark: &Mark) -> bool {
    let right = RIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    right.get(mark).is_some_and(|when| when.elapsed() < REMEMBERED)
}

fn remember(mark: Mark) {
    let mut right = RIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    if right.len() >= REMEMBERED_MAX {
        right.clear();
    }
    right.insert(mark, Instant::now());
}

/// Whether two texts are the same; takes as long for every text of that length.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// The MD5 digest of a text, as hexadecimal digits.
pub(super) fn md5_hex(text: &[u8]) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digits of crypt(3), least significant first.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Poul-Henning Kamp's MD5 crypt, and Apache's variant of it, which differs in its name only (Apache manual, "Password
/// Formats"; crypt(5)). The digest without name and salt.
fn md5_crypt(password: &[u8], name: &str, salt: &str) -> String {
    let salt = http1::text::to_bytes(salt);
    let salt = &salt[..salt.len().min(8)];
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(name).chain_update(salt);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with htpasswd 2.4.71 and openssl 3.0; the password is `good` where nothing else is said.
    #[test]
    fn what_htpasswd_and_openssl_make() {
        let long = "a password of more than sixteen, even more than thirty-two bytes: ümläut";
        for (password, stored) in [
            ("good", "$apr1$CFQl1fnU$SajJAavFQLYjej9.TxyOb1"),
            ("good", "$1$3kRzVyQO$Gu.S4qI/vCMeHG7s9/hOK."),
            ("good", "$2y$05$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK"),
            ("good", "{SHA}/BkxjdExKM4UNE0GZRCpgiacJBs="),
            ("good", "$5$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8KXfu2Z..TdYqIv8vYPomftyQIBHa4"),
            (
                "good",
                "$6$fAhlCpOc3PMU3PKa$K/GT8e/S1KFvMZYGVsgbnwASWgoGYdaAC7BGnhOS1MzCbVRlXyEVXPJGgkZoMf0uYysGghhKO6rxhBB52cYdV0",
            ),
            (long, LONG_APR1),
            ("", EMPTY_APR1),
        ] {
            assert_eq!(is_right(password.as_bytes(), stored), Ok(true), "{stored}");
            assert_eq!(is_right(password.as_bytes(), stored), Ok(true), "again: {stored}");
            assert_eq!(is_right(b"bad", stored), Ok(false), "{stored}");
        }
    }

    const LONG_APR1: &str = "$apr1$abcdefgh$GSIWCFTThXsvA2H6Rqgmt.";
    const EMPTY_APR1: &str = "$apr1$x$tMwYqBfQwi3FYAr0aJc8M/";

    #[test]
    fn what_is_refused() {
        use Unusable::{Cost, Format};
        for (stored, why) in [
            ("good", Format),
            ("", Format),
            ("PYj.I5rcTK8h2", Format),
            ("$y$j9T$x$y", Format),
            ("$2x$05$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK", Format),
            ("$2y$13$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK", Cost),
            ("$2y$05$short", Format),
            ("$apr1$nosalt", Format),
            ("$5$rounds=999999999$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8KXfu2Z..TdYqIv8vYPomftyQIBHa4", Cost),
            ("$6$", Format),
            ("$", Format),
        ] {
            assert_eq!(is_right(b"good", stored), Err(why), "{stored}");
        }
    }

    #[test]
    fn digests_of_realms() {
        assert_eq!(md5_hex(b"joe:realm:good").len(), 32);
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
