//! Nonces: a time, and a digest that only this server can make, or several with one secret. No state is needed for them.

use std::io;
use std::sync::{LazyLock, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::aaa::passwords::same;

/// The length of the time, in characters.
const TIME: usize = 12;
/// The length of the digest, in hexadecimal digits.
const HASH: usize = 40;

/// The least length of a secret in a file, in bytes.
const SECRET_MIN: usize = 32;

/// A secret shared by all processes of this server, of any generation, and by nobody else.
static OWN_SECRET: LazyLock<[u8; 32]> = LazyLock::new(sys::random::bytes);

/// The secret from a file, which several servers may share.
static SHARED_SECRET: RwLock<Option<[u8; 32]>> = RwLock::new(None);

/// What becomes the secret from a file when the configuration that names it comes into effect.
static NEXT_SECRET: RwLock<Option<[u8; 32]>> = RwLock::new(None);

/// Draws the secret, or reads it from a file. Runs in the parent, before there are children. The configuration may still be refused:
/// [`take_effect`] makes nonces depend on it.
///
/// # Errors
/// The file cannot be read, or is too short to be a secret.
pub(super) fn prepare(file: Option<&str>) -> io::Result<()> {
    LazyLock::force(&OWN_SECRET);
    let shared = match file.map(std::fs::read).transpose()? {
        None => None,
        Some(bytes) if bytes.len() < SECRET_MIN => {
            return Err(io::Error::other(format!("it has fewer than {SECRET_MIN} bytes")));
        }
        Some(bytes) => Some(Sha256::digest(bytes).into()),
    };
    *NEXT_SECRET.write().unwrap_or_else(PoisonError::into_inner) = shared;
    Ok(())
}

/// The configuration that was prepared last comes into effect.
pub(super) fn take_effect() {
    let next = *NEXT_SECRET.read().unwrap_or_else(PoisonError::into_inner);
    *SHARED_SECRET.write().unwrap_or_else(PoisonError::into_inner) = next;
}

fn secret() -> [u8; 32] {
    SHARED_SECRET.read().unwrap_or_else(PoisonError::into_inner).unwrap_or(*OWN_SECRET)
}

/// A nonce of that time, for a realm and a client.
pub(super) fn make(time: u64, realm: &str, opaque: Option<&str>) -> String {
    let mut nonce = STANDARD.encode(time.to_be_bytes());
    let hash = hash(&nonce, realm, opaque);
    nonce.push_str(&hash);
    nonce
}

/// Whether a text looks like one of our nonces.
pub(super) fn has_form(nonce: &str) -> bool {
    nonce.len() == TIME + HASH && nonce.is_ascii() && nonce.as_bytes()[TIME - 1] == b'='
}

/// When a nonce was made; `Err`: it is not one of ours, and this is the correct digest.
pub(super) fn time_of(nonce: &str, realm: &str, opaque: Option<&str>) -> Result<u64, String> {
    let (time, theirs) = nonce.split_at_checked(TIME).unwrap_or((nonce, ""));
    let ours = hash(time, realm, opaque);
    let time = STANDARD.decode(time).ok().and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
    match time {
        Some(time) if same(&ours, theirs) => Ok(time),
        _ => Err(ours),
    }
}

/// The lengths separate the hashed parts.
fn hash(time: &str, realm: &str, opaque: Option<&str>) -> String {
    let mut digest = Sha256::new();
    digest.update(secret());
    for part in [Some(time), Some(realm), opaque] {
        digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
        digest.update(part.unwrap_or_default());
    }
    let all: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    all[..HASH].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_are_good() {
        let nonce = make(7, "r", Some("1"));
        assert!(has_form(&nonce), "{nonce}");
        assert_eq!(time_of(&nonce, "r", Some("1")), Ok(7));
        for (realm, opaque) in [("s", Some("1")), ("r", Some("2")), ("r", None), ("r1", Some(""))] {
            assert!(time_of(&nonce, realm, opaque).is_err(), "{realm} {opaque:?}");
        }
        let later = format!("{}{}", STANDARD.encode(8_u64.to_be_bytes()), &nonce[TIME..]);
        assert!(time_of(&later, "r", Some("1")).is_err());
        assert!(!has_form(&nonce[1..]) && !has_form(&"x".repeat(52)) && !has_form(""));
    }
}
