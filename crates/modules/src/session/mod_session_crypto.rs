//! Sessions that only this server can read or change.
//!
//! AES-256-GCM with a nonce for each response; the key is derived from the passphrase once, when the configuration is
//! read. Sessions encrypted by Apache cannot be read: they begin anew.
//!
//! Apache manual: mod_session_crypto.

use std::sync::Arc;

use aes_gcm::aead::Aead;
use aes_gcm::{Aes256Gcm, KeyInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conf::directive::Args::{Iterate, Take1};
use conf::words::words;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, SettingsMap, row, settings};
use server::{Module, Request};
use sha2::{Digest, Sha256};

use super::data::PLACES;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "session_crypto_module",
        source: "mod_session_crypto.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[],
};

const ONE_CIPHER: &str = "Sessions are encrypted with AES-256-GCM, which also detects changes.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SessionCryptoPassphrase", PLACES, Iterate(add_passphrase), "", "The passphrase(s) used to encrypt the session. First will be used for encryption, all phrases will be accepted for decryption").differs("Programs (`exec:`) are refused. Sessions that Apache has encrypted start over."),
    row("SessionCryptoPassphraseFile", Allowed::CONF, Take1(read_passphrases), "", "File containing passphrase(s) used to encrypt the session, one per line. First will be used for encryption, all phrases will be accepted for decryption"),
    row("SessionCryptoCipher", PLACES, Take1(|_, _| Ok(())), "aes256", "The underlying crypto cipher to use").without_effect(ONE_CIPHER),
    row("SessionCryptoDriver", Allowed::GLOBAL, Iterate(|_, _| Ok(())), "", "The underlying crypto library driver to use").without_effect(ONE_CIPHER),
];

/// A key; its debug output reveals nothing.
#[derive(Clone)]
pub struct Key(Arc<Aes256Gcm>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

settings! {
    /// The module's settings of a section.
    pub struct CryptoDir {
        keys: Gathered<Vec<Key>>,
    }
}

fn add_passphrase(cmd: &mut Cmd<'_>, phrase: &str) -> Outcome {
    if phrase.starts_with("exec:") {
        return Err("SessionCryptoPassphrase: programs are not run (exec:): use SessionCryptoPassphraseFile".into());
    }
    let key = key_of(phrase).ok_or("SessionCryptoPassphrase: no key can be derived from it")?;
    let origin = cmd.origin();
    cmd.dir.edit::<CryptoDir>().keys.edit(&origin).push(key);
    Ok(())
}

fn read_passphrases(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let why = error.raw_os_error().map_or_else(|| error.to_string(), |_| sys::reason(&error));
        format!("{}: Could not open file {path}: {why}", cmd.row.name)
    })?;
    let phrases: Vec<String> = text.lines().flat_map(|line| words(line.trim())).collect();
    // Without a key sessions would not be encrypted.
    if phrases.is_empty() {
        return Err(format!("{}: there is no passphrase in {path}", cmd.row.name).into());
    }
    phrases.iter().try_for_each(|phrase| add_passphrase(cmd, phrase))
}

/// The key of a passphrase. Trying one takes about as long as checking a strong password hash.
fn key_of(phrase: &str) -> Option<Key> {
    // Whatever its length, crypt(3) gets the same number of bytes.
    let digest: String =
        Sha256::digest(http::text::to_bytes(phrase)).iter().map(|byte| format!("{byte:02x}")).collect();
    let slow = sys::crypt::crypt(digest.as_bytes(), b"$6$rounds=5000$tsubame.session$").ok()?;
    Aes256Gcm::new_from_slice(&Sha256::digest(slow)).ok().map(|cipher| Key(Arc::new(cipher)))
}

/// The length of the nonce before each text, in bytes.
const NONCE: usize = 12;

/// Encrypts a session for the client. `None`: that failed, and the client must not get it in clear.
pub(super) fn seal(request: &Request, slots: &SettingsMap, text: String) -> Option<String> {
    let Some(Key(cipher)) = slots.get::<CryptoDir>().keys.get().and_then(|keys| keys.first()) else {
        return Some(text);
    };
    if text.is_empty() {
        return Some(text);
    }
    let nonce = sys::random::bytes::<NONCE>();
    match cipher.encrypt(&nonce.into(), http::text::to_bytes(&text).as_ref()) {
        Ok(sealed) => Some(STANDARD.encode([&nonce[..], &sealed].concat())),
        Err(_) => {
            request.log("session_crypto", Level::Error, "AH01841: encrypt session failed");
            None
        }
    }
}

/// Decrypts a client's session. `None`: no key fits.
pub(super) fn open(request: &Request, slots: &SettingsMap, text: String) -> Option<String> {
    let Some(keys) = slots.get::<CryptoDir>().keys.get() else { return Some(text) };
    if text.is_empty() {
        return Some(text);
    }
    let bytes = STANDARD.decode(&text).unwrap_or_default();
    let opened = bytes
        .split_first_chunk::<NONCE>()
        .and_then(|(nonce, sealed)| keys.iter().find_map(|Key(cipher)| cipher.decrypt(nonce.into(), sealed).ok()));
    if opened.is_none() {
        request.log("session_crypto", Level::Error, "AH01842: decrypt session failed, wrong passphrase?");
    }
    opened.map(|bytes| http::text::from_bytes(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        crate::testing::check(&[
            ("SessionCryptoPassphrase one two\nSessionCryptoCipher aes128\nSessionCryptoDriver openssl", ""),
            (
                "SessionCryptoPassphraseFile /none",
                "SessionCryptoPassphraseFile: Could not open file /none: No such file or directory",
            ),
            (
                "SessionCryptoPassphraseFile /dev/null",
                "SessionCryptoPassphraseFile: there is no passphrase in /dev/null",
            ),
            (
                "SessionCryptoPassphrase exec:/bin/echo",
                "SessionCryptoPassphrase: programs are not run (exec:): use SessionCryptoPassphraseFile",
            ),
        ]);
    }
}
