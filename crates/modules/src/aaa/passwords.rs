//! Passwords as `htpasswd` and the system store them.
//!
//! `$apr1$` and `{SHA}` are Apache's own; everything else is a matter of crypt(3): bcrypt, SHA-crypt, yescrypt, scrypt,
//! DES and more, as many as the C library knows.
//!
//! A check takes as long as the stored password wants it to take, beside the event loop. A table of the highest costs
//! ([`cost`]) bounds that to about a third of a second and to 64 MB, and a password is no longer than crypt(3) takes. What
//! was right once is remembered, so that only the first of a browser's many requests takes so long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use md5::{Digest, Md5};
use seam::{Load, offload};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use sys::crypt::PASSWORD_MAX;

/// The highest cost of bcrypt. The default of `htpasswd -B` is 5; each step more takes twice the time.
const BCRYPT_COST_MAX: u64 = 12;
/// The highest number of rounds of SHA-crypt (the default of `htpasswd -2` and `-5` is 5000), each of which works through
/// the password: this holds for up to [`SHA_BLOCK`] bytes of it.
const SHA_ROUNDS_MAX: u64 = 500_000;
const SHA_BLOCK: usize = 64;
/// The highest number of rounds of `$sha1$`; 262144 are usual.
const SHA1_ROUNDS_MAX: u64 = 300_000;
/// The highest number of rounds of `$md5$`, of which none are usual.
const SUN_ROUNDS_MAX: u64 = 100_000;
/// The highest number of rounds of extended DES; 725 are usual.
const DES_ROUNDS_MAX: u64 = 1 << 20;
/// As much memory as yescrypt (16 MB are usual) and scrypt (64 MB) may work through.
const MEMORY_MAX: u64 = 64 << 20;
/// As long as a text must be to come from crypt(3): DES makes the shortest.
const STORED_MIN: usize = 13;
/// How long a right password is remembered after its check.
const REMEMBERED: Duration = Duration::from_secs(300);
/// More remembered passwords than this are forgotten all at once.
const REMEMBERED_MAX: usize = 4096;

/// As many passwords are checked at a time, those that wait for a processor included: at the highest cost that is half a
/// minute of two processors, and longer no client waits.
const CHECKED_MAX: usize = 128;

/// Why a password was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchecked {
    /// The way it is stored does not permit it; the text says why, for the log.
    Unusable(&'static str),
    /// Too many others are being checked.
    Busy,
}

const FORMAT: Unchecked =
    Unchecked::Unusable("in a format that neither this server nor its C library knows (use htpasswd -B)");
const COST: Unchecked = Unchecked::Unusable("at a cost that takes too long to check (use htpasswd -B -C 10)");

/// Whether `password` is the one that was stored as `stored`. A password that is too long for crypt(3), or that holds a
/// NUL, is never right: it is not cut.
pub(super) async fn is_right(password: &[u8], stored: &str) -> Result<bool, Unchecked> {
    if password.len() > PASSWORD_MAX || password.contains(&0) {
        return Ok(false);
    }
    if let Some(digest) = stored.strip_prefix("{SHA}") {
        let own = base64::engine::general_purpose::STANDARD.encode(sha1::Sha1::digest(password));
        return Ok(same(&own, digest));
    }
    if cost(stored, password).ok_or(FORMAT)? == Cost::TooHigh {
        return Err(COST);
    }
    let mark = remembered_as(password, stored);
    if is_remembered(&mark) {
        return Ok(true);
    }
    let turn = Turn::take().ok_or(Unchecked::Busy)?;
    let (password, stored) = (password.to_vec(), stored.to_string());
    let right = offload(Load::Compute, move || check(&password, &stored)).await?;
    drop(turn);
    if right {
        remember(mark);
    }
    Ok(right)
}

/// One of [`CHECKED_MAX`].
struct Turn;

static CHECKED: AtomicUsize = AtomicUsize::new(0);

impl Turn {
    fn take() -> Option<Turn> {
        let more = |count| (count < CHECKED_MAX).then_some(count + 1);
        CHECKED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        CHECKED.fetch_sub(1, Ordering::Relaxed);
    }
}

fn check(password: &[u8], stored: &str) -> Result<bool, Unchecked> {
    if let Some(rest) = stored.strip_prefix(APR1) {
        let (salt, digest) = rest.split_once('$').ok_or(FORMAT)?;
        return Ok(same(&apr1(password, salt), digest));
    }
    let stored = http1::text::to_bytes(stored);
    let hashed = sys::crypt::crypt(password, &stored).map_err(|_| FORMAT)?;
    Ok(hashed.ct_eq(&stored).into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Bearable,
    TooHigh,
}

impl Cost {
    fn up_to(max: u64, cost: u64) -> Cost {
        if cost <= max { Cost::Bearable } else { Cost::TooHigh }
    }
}

/// What the check of a stored password costs (crypt(5)); `None`: it is stored in an unknown way.
fn cost(stored: &str, password: &[u8]) -> Option<Cost> {
    if stored.len() < STORED_MIN {
        return None;
    }
    if let Some(rest) = stored.strip_prefix('_') {
        return Some(Cost::up_to(DES_ROUNDS_MAX, number(rest.get(..4)?)?));
    }
    let Some(rest) = stored.strip_prefix('$') else { return Some(Cost::Bearable) };
    let (kind, rest) = rest.split_once('$')?;
    let parameter = rest.split('$').next().unwrap_or_default();
    Some(match kind {
        "apr1" | "1" | "3" | "md5" => Cost::Bearable,
        "2a" | "2b" | "2x" | "2y" => Cost::up_to(BCRYPT_COST_MAX, parameter.parse().ok()?),
        "5" | "6" => match parameter.strip_prefix("rounds=") {
            None => Cost::Bearable,
            Some(rounds) => {
                let blocks = password.len().div_ceil(SHA_BLOCK).max(1) as u64;
                Cost::up_to(SHA_ROUNDS_MAX / blocks, rounds.parse().ok()?)
            }
        },
        "sha1" => Cost::up_to(SHA1_ROUNDS_MAX, parameter.parse().ok()?),
        // The one form that crypt(3) makes: `j`, the power of two, and the size of a block, a digit each.
        "y" | "gy" => match parameter.as_bytes() {
            [b'j', power @ b'.'..b'j', size] => memory(digit(*power)? + 1, digit(*size)? + 1),
            _ => Cost::TooHigh,
        },
        "7" => {
            let (size, parallel) = (number(parameter.get(1..6)?)?, number(parameter.get(6..11)?)?);
            memory(number(parameter.get(..1)?)?, size.saturating_mul(parallel))
        }
        _ => Cost::up_to(SUN_ROUNDS_MAX, kind.strip_prefix("md5,rounds=")?.parse().ok()?),
    })
}

/// Two to the `power`, times `size` blocks of 128 bytes.
fn memory(power: u64, size: u64) -> Cost {
    let bytes = 1u64.checked_shl(power as u32).unwrap_or(u64::MAX).saturating_mul(size).saturating_mul(128);
    Cost::up_to(MEMORY_MAX, bytes)
}

/// The digits of crypt(3), least significant first.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn digit(byte: u8) -> Option<u64> {
    DIGITS.iter().position(|digit| *digit == byte).map(|value| value as u64)
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().rev().try_fold(0, |so_far, byte| Some(so_far << 6 | digit(byte)?))
}

/// What stands for a password and how it is stored: a digest with a secret of this process, of no use to anybody who
/// does not read its memory. Another password in the file gives another digest, so nothing is remembered for too long.
type Mark = [u8; 32];

static SECRET: LazyLock<[u8; 32]> = LazyLock::new(sys::random::bytes);
static RIGHT: LazyLock<Mutex<HashMap<Mark, Instant>>> = LazyLock::new(Mutex::default);

fn remembered_as(password: &[u8], stored: &str) -> Mark {
    let mut digest = Sha256::new();
    digest.update(*SECRET);
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

/// The name of Apache's variant of MD5 crypt.
const APR1: &str = "$apr1$";

/// Apache's variant of Poul-Henning Kamp's MD5 crypt, which differs in its name only (Apache manual, "Password Formats";
/// crypt(5)). The digest without name and salt.
fn apr1(password: &[u8], salt: &str) -> String {
    let salt = http1::text::to_bytes(salt);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(password: &[u8], stored: &str) -> Result<bool, Unchecked> {
        sys::block_on::block_on(super::is_right(password, stored), || ()).expect("an answer")
    }

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

    /// Made with crypt(3) of libxcrypt 4.4.33; the password is `good`.
    #[test]
    fn what_the_c_library_makes() {
        for stored in [
            "abb1oGxjdYbAs",
            "_J9..rasmDI5VWQRVJXM",
            "$2a$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK",
            "$2b$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK",
            "$2x$05$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK",
            "$3$$895f465356a0403458759a6b104b7242",
            "$5$rounds=1000$salt$.lo0MGvWxRAQOBzinZQ8m8dPpu49hSvDG.mzzwOj0aB",
            "$sha1$1000$salt$Gb1xD7CntT97qvdExMTXZdTdo9M3",
            "$md5$salt$t04vtYCpSqx/T/.VBzuW8/",
            "$md5,rounds=100$salt$$m6UohyjdcgO1bBI2UnfO41",
            "$y$j75$saltsalt$mBWv165UunuP6N5KeO1csgNBpnDnG4OusQWLrJ9M78A",
            "$gy$j75$saltsalt$rOGrGSCs/jOVcJKqNa2ysYnS7hraraI9XDzvCe1uB12",
            "$7$8/..../....salt$rsIMcjX1wRCNeqEAtQapMY8FdasdvCzR43FTiiGVO68",
        ] {
            assert_eq!(is_right(b"good", stored), Ok(true), "{stored}");
            assert_eq!(is_right(b"bad", stored), Ok(false), "{stored}");
        }
        // Of the oldest, eight characters count, or as many as were given.
        assert_eq!(is_right(b"passwords", "abJnggxhB/yWI"), is_right(b"password", "abJnggxhB/yWI"));
        let long = "abkcfEndDLESYRx8JE5HhGcITyog1/ww0vUb.WsL9nYFyY";
        assert_eq!(is_right(b"a longer password than eight", long), Ok(true));
    }

    #[test]
    fn what_is_refused() {
        for (stored, why) in [
            ("good", FORMAT),
            ("", FORMAT),
            ("*", FORMAT),
            ("!PYj.I5rcTK8h2", FORMAT),
            ("$y$j9T$x$y", FORMAT),
            ("$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$x", FORMAT),
            ("$2z$05$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK", FORMAT),
            ("$2y$05$short", FORMAT),
            ("$2y$05$short, but longer", FORMAT),
            ("$apr1$nosalt", FORMAT),
            ("$apr1$no salt and no hash", FORMAT),
            ("$5$rounds=x999999999$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8", FORMAT),
            ("$6$", FORMAT),
            ("$", FORMAT),
            ("_J9", FORMAT),
            ("$2y$13$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK", COST),
            ("$5$rounds=999999999$WbiiIqi27I3DhzwA$68h6rs2L4TJA/8KXfu2Z..TdYqIv8vYPomftyQIBHa4", COST),
            ("$sha1$999999999$salt$Gb1xD7CntT97qvdExMTXZdTdo9M3", COST),
            ("$md5,rounds=999999999$salt$$m6UohyjdcgO1bBI2UnfO41", COST),
            ("_zzzzrasmA4H2x8o5VyM", COST),
            ("$y$jCT$saltsalt$/cE6V4EpFKzHBHm3GwTVaAXdKw6THJKLgLZ27b8dLh6", COST),
            ("$y$jzzzzT$saltsalt$/cE6V4EpFKzHBHm3GwTVaAXdKw6THJKLgLZ27b8dLh6", COST),
            ("$7$DU..../....salt$L7PlyM4AgftFCquIqw0bACMnVKuTJWLFLNwb/xTyQW1", COST),
            ("$7$CU....0....salt$L7PlyM4AgftFCquIqw0bACMnVKuTJWLFLNwb/xTyQW1", COST),
        ] {
            assert_eq!(is_right(b"good", stored), Err(why), "{stored}");
        }
    }

    /// What is usual passes, however long it takes here.
    #[test]
    fn usual_costs_are_bearable() {
        for stored in [
            "$2y$12$dCiMbPZfy2M4m3rD3YK1DuuEKu3NgvHf8uNfoyV4hI2KQYKE5WuNK",
            "$6$rounds=500000$salt$ly5dcrZ81p",
            "$sha1$262144$salt$vYA0lqQvAs",
            "$y$j9T$saltsalt$EL6EfbOUG7PX",
            "$y$jBT$saltsalt$X3Ec0vKYKZsV",
            "$7$CU..../....salt$L7PlyM4AgftFCquIqw0bACMnVKuTJWLFLNwb/xTyQW1",
        ] {
            assert_eq!(cost(stored, b"good"), Some(Cost::Bearable), "{stored}");
        }
    }

    /// Hashing takes longer for longer passwords, and half a megabyte of them would take for ever.
    #[test]
    fn long_passwords() {
        let dear = "$6$rounds=500000$salt$ly5dcrZ81p";
        for (length, want) in [(64, Cost::Bearable), (65, Cost::TooHigh), (511, Cost::TooHigh)] {
            assert_eq!(cost(dear, &vec![b'a'; length]), Some(want), "{length}");
        }
        assert_eq!(cost("$6$rounds=5000$salt$ly5dcrZ81p", &[b'a'; 511]), Some(Cost::Bearable));
        for kind in ["$1$salt", "$6$rounds=1000$salt", "$y$j75$salt", "$2y$04$abcdefghijklmnopqrstuu", "ab"] {
            let longest = vec![b'a'; PASSWORD_MAX];
            let stored = sys::crypt::crypt(&longest, kind.as_bytes()).expect("hashed");
            let stored = String::from_utf8(stored).expect("plain text");
            assert_eq!(is_right(&longest, &stored), Ok(true), "{kind}");
            let longer = vec![b'a'; PASSWORD_MAX + 1];
            assert_eq!(is_right(&longer, &stored), Ok(false), "{kind}");
        }
        let sha = |length| base64::engine::general_purpose::STANDARD.encode(sha1::Sha1::digest(vec![b'a'; length]));
        assert_eq!(is_right(&[b'a'; 511], &format!("{{SHA}}{}", sha(511))), Ok(true));
        assert_eq!(is_right(&[b'a'; 512], &format!("{{SHA}}{}", sha(512))), Ok(false));
        assert_eq!(is_right(b"good\0", "abb1oGxjdYbAs"), Ok(false));
    }

    /// Only for that password stored in that way: a wrong one stays wrong, and a right one is of no use elsewhere.
    #[test]
    fn only_what_was_right_is_remembered() {
        let (good, other) = ("abb1oGxjdYbAs", "abJnggxhB/yWI");
        for _ in 0..3 {
            assert_eq!(is_right(b"good", good), Ok(true));
            assert_eq!(is_right(b"good", other), Ok(false), "of the same length");
            assert_eq!(is_right(b"bad", good), Ok(false));
        }
    }

    #[test]
    fn a_check_gives_its_turn_back() {
        for number in 0..CHECKED_MAX + 10 {
            assert_eq!(is_right(format!("{number}").as_bytes(), "abb1oGxjdYbAs"), Ok(false), "{number}");
        }
    }

    #[test]
    fn digests_of_realms() {
        assert_eq!(md5_hex(b"joe:realm:good").len(), 32);
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
