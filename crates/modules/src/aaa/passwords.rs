//! Passwords as `htpasswd` and the system store them.
//!
//! `$apr1$` and `{SHA}` are Apache's own; everything else is left to crypt(3): bcrypt, SHA-crypt, yescrypt, scrypt, DES
//! and more, as many as the C library knows.
//!
//! The stored hash determines how long a check takes, beside the event loop. A table of maximum costs ([`cost()`])
//! limits that to about a third of a second and to 64 MB, and a password may be no longer than crypt(3) allows. Correct
//! passwords are cached, so that only the first of a browser's many requests takes that long.

mod apr1;
mod cost;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use conf::Level;
use md5::{Digest, Md5};
use runtime::{Load, offload};
use server::Request;
use server::authz::{Authn, RealmDigest};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use sys::crypt::PASSWORD_MAX;
use sys::time::Instant;

use apr1::{APR1, apr1};
use cost::{Cost, cost};

use super::mod_authn_socache;
use crate::slots::Slots;

/// How long a correct password is cached.
const REMEMBERED: Duration = Duration::from_secs(300);
/// At this many cached passwords, all are forgotten.
const REMEMBERED_MAX: usize = 4096;

/// The most checks at a time, including those that wait for a processor: at the highest cost that is half a minute of
/// two processors, and no client waits longer.
const CHECKED_MAX: usize = 128;
static CHECKED: Slots = Slots::new(CHECKED_MAX);

/// Why a password was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchecked {
    /// The form in which it is stored does not permit it; the text says why, for the log.
    Unusable(&'static str),
    /// Too many others are being checked.
    Busy,
}

const FORMAT: Unchecked =
    Unchecked::Unusable("in a format that neither this server nor its C library knows (use htpasswd -B)");
const COST: Unchecked = Unchecked::Unusable("at a cost that takes too long to check (use htpasswd -B -C 10)");

/// Whether `password` matches the stored `stored`. A password that is too long for crypt(3), or that holds a NUL, is
/// never right: it is not cut.
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
    let slot = CHECKED.take().ok_or(Unchecked::Busy)?;
    let (password, stored) = (password.to_vec(), stored.to_string());
    let right = offload(Load::Compute, move || check(&password, &stored)).await?;
    drop(slot);
    if right {
        remember(mark);
    }
    Ok(right)
}

/// The answer of a module that has found a user's stored password, about the one the client sent.
pub(super) async fn check_stored(
    request: &Request,
    module: &'static str,
    user: &str,
    password: &str,
    stored: &str,
) -> Authn {
    // For next time, if mod_authn_socache should cache this source's results.
    let source = module.strip_prefix("authn_").unwrap_or(module);
    mod_authn_socache::remember(request, source, user, None, stored).await;
    match is_right(&http::text::to_bytes(password), stored).await {
        Ok(true) => Authn::Granted,
        Ok(false) => Authn::Denied,
        Err(Unchecked::Busy) => {
            let text = format!("the password of user {user} is not checked: too many are being checked already");
            request.log(module, Level::Error, text);
            Authn::Busy
        }
        Err(Unchecked::Unusable(why)) => {
            request.log(module, Level::Warn, format!("the password of user {user} is stored {why}"));
            Authn::Denied
        }
    }
}

fn check(password: &[u8], stored: &str) -> Result<bool, Unchecked> {
    if let Some(rest) = stored.strip_prefix(APR1) {
        let (salt, digest) = rest.split_once('$').ok_or(FORMAT)?;
        return Ok(same(&apr1(password, salt), digest));
    }
    let stored = http::text::to_bytes(stored);
    let hashed = sys::crypt::crypt(password, &stored).map_err(|_| FORMAT)?;
    Ok(hashed.ct_eq(&stored).into())
}

/// Stands for a password and its stored form: a digest with a secret of this process, useless to anybody who cannot
/// read its memory. A changed password in the file gives another digest, so nothing is cached for too long.
type Mark = [u8; 32];

static SECRET: LazyLock<[u8; 32]> = LazyLock::new(sys::random::bytes);
static RIGHT: LazyLock<Mutex<HashMap<Mark, Instant>>> = LazyLock::new(Mutex::default);

fn remembered_as(password: &[u8], stored: &str) -> Mark {
    let mut digest = Sha256::new();
    digest.update(*SECRET);
    // The length separates the two.
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

/// Whether two texts are equal; takes the same time for every text of that length.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// The number of hexadecimal digits in a digest.
pub(super) fn digits(digest: RealmDigest) -> usize {
    match digest {
        RealmDigest::Md5 => 32,
        RealmDigest::Sha256 => 64,
    }
}

/// The digest of a text, as hexadecimal digits.
pub(super) fn hex(digest: RealmDigest, text: &[u8]) -> String {
    let all = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match digest {
        RealmDigest::Md5 => all(&Md5::digest(text)),
        RealmDigest::Sha256 => all(&Sha256::digest(text)),
    }
}

#[cfg(test)]
mod tests;
