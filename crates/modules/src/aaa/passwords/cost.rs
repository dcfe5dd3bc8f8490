//! The cost of checking a stored password, and its limits.

/// The highest cost of bcrypt. The default of `htpasswd -B` is 5; each further step doubles the time.
const BCRYPT_COST_MAX: u64 = 12;
/// The highest number of rounds of SHA-crypt (the default of `htpasswd -2` and `-5` is 5000). Each round processes the
/// password: the limit applies to up to [`SHA_BLOCK`] bytes of it.
const SHA_ROUNDS_MAX: u64 = 500_000;
const SHA_BLOCK: usize = 64;
/// The highest number of rounds of `$sha1$`; 262144 are usual.
const SHA1_ROUNDS_MAX: u64 = 300_000;
/// The highest number of additional rounds of `$md5$`; none are usual.
const SUN_ROUNDS_MAX: u64 = 100_000;
/// The highest number of rounds of extended DES; 725 are usual.
const DES_ROUNDS_MAX: u64 = 1 << 20;
/// The most memory for yescrypt (16 MB are usual) and scrypt (64 MB).
const MEMORY_MAX: u64 = 64 << 20;
/// The shortest output of crypt(3): that of DES.
const STORED_MIN: usize = 13;

/// Whether the server can afford to check a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    Bearable,
    TooHigh,
}

impl Cost {
    fn up_to(max: u64, cost: u64) -> Cost {
        if cost <= max { Cost::Bearable } else { Cost::TooHigh }
    }
}

/// The cost of checking a stored password (crypt(5)); `None`: its form is unknown.
pub(super) fn cost(stored: &str, password: &[u8]) -> Option<Cost> {
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
        // The only form that crypt(3) makes: `j`, the power of two, and the size of a block, a digit each.
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
pub(super) const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn digit(byte: u8) -> Option<u64> {
    DIGITS.iter().position(|digit| *digit == byte).map(|value| value as u64)
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().rev().try_fold(0, |so_far, byte| Some(so_far << 6 | digit(byte)?))
}
