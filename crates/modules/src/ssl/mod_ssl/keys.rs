//! Private keys: PKCS#8, PKCS#1 and SEC1, plain or encrypted.
//!
//! Encrypted keys are PKCS#8 with PBES2 (RFC 8018), or in OpenSSL's traditional format (`Proc-Type: 4,ENCRYPTED`, RFC
//! 1421), which has its own key derivation: EVP_BytesToKey(3).

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{self, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use des::TdesEde3;
use des::cipher::{Array, BlockCipherDecrypt, KeyInit};
use md5::{Digest, Md5};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use super::pem::{Section, element, sections};

/// A key as its file has it.
pub(super) enum Key {
    Plain(PrivateKeyDer<'static>),
    Encrypted(Encrypted),
}

/// A key that needs a pass phrase.
pub(super) struct Encrypted {
    derivation: Derivation,
    cipher: Cipher,
    iv: Vec<u8>,
    data: Vec<u8>,
    /// The PEM label that tells the format of the content.
    label: &'static str,
}

/// Derives a cipher's key from a pass phrase.
enum Derivation {
    /// One round of MD5 with this salt.
    Md5([u8; 8]),
    Pbkdf2 {
        hash: pbkdf2::Algorithm,
        salt: Vec<u8>,
        iterations: NonZeroU32,
    },
}

#[derive(Clone, Copy)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    DesEde3,
}

/// The first key in a file. `Ok(None)`: there is none. `Err`: why a key cannot be used.
pub(super) fn find(file: &[u8]) -> Result<Option<Key>, String> {
    let sections = sections(file)?;
    if let Some(section) = sections.into_iter().find(|section| section.label.ends_with("PRIVATE KEY")) {
        return of_section(section).map(Some);
    }
    if let Some(parts) = pkcs8_parts(file) {
        return pkcs8_encrypted(parts).map(|key| Some(Key::Encrypted(key)));
    }
    Ok(PrivateKeyDer::try_from(file).ok().map(|key| Key::Plain(key.clone_key())))
}

/// The key in a section of PEM. `Err`: why it cannot be used.
pub(super) fn of_section(section: Section) -> Result<Key, String> {
    let label = match section.label.as_str() {
        "ENCRYPTED PRIVATE KEY" => {
            let parts = pkcs8_parts(&section.der).ok_or("its ENCRYPTED PRIVATE KEY is damaged")?;
            return pkcs8_encrypted(parts).map(Key::Encrypted);
        }
        "PRIVATE KEY" => "PRIVATE KEY",
        "RSA PRIVATE KEY" => "RSA PRIVATE KEY",
        "EC PRIVATE KEY" => "EC PRIVATE KEY",
        other => return Err(format!("{other}: keys of this kind are not supported")),
    };
    if section.header("Proc-Type").is_none_or(|kind| !kind.contains("ENCRYPTED")) {
        return Ok(Key::Plain(plain(label, section.der)));
    }
    let info = section.header("DEK-Info").unwrap_or_default();
    let (name, iv) = info.split_once(',').ok_or("its DEK-Info is damaged")?;
    let cipher = match name {
        "AES-128-CBC" => Cipher::Aes128,
        "AES-192-CBC" => Cipher::Aes192,
        "AES-256-CBC" => Cipher::Aes256,
        "DES-EDE3-CBC" => Cipher::DesEde3,
        other => return Err(too_old(other)),
    };
    let iv = bytes_of_hex(iv).filter(|iv| iv.len() == cipher.lengths().1).ok_or("its DEK-Info is damaged")?;
    let salt = iv.first_chunk().copied().ok_or("its DEK-Info is damaged")?;
    Ok(Key::Encrypted(Encrypted { derivation: Derivation::Md5(salt), cipher, iv, data: section.der, label }))
}

fn plain(label: &str, der: Vec<u8>) -> PrivateKeyDer<'static> {
    match label {
        "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(der).into(),
        "EC PRIVATE KEY" => PrivateSec1KeyDer::from(der).into(),
        _ => PrivatePkcs8KeyDer::from(der).into(),
    }
}

fn too_old(cipher: &str) -> String {
    format!(
        "it is encrypted with {cipher}, which is not supported: encrypt it again with `openssl pkcs8 -topk8 -v2 aes256`"
    )
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(|byte| Some(char::from(byte).to_digit(16)? as u8)).collect();
    digits
        .filter(|digits| digits.len() % 2 == 0)
        .map(|digits| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The algorithm of an EncryptedPrivateKeyInfo (RFC 5958, section 3) with its parameters, and the encrypted data.
fn pkcs8_parts(der: &[u8]) -> Option<(Identifier<'_>, &[u8])> {
    let (0x30, info, _) = element(der)? else { return None };
    let (0x30, algorithm, rest) = element(info)? else { return None };
    let (0x04, data, _) = element(rest)? else { return None };
    let (0x06, name, parameters) = element(algorithm)? else { return None };
    Some(([name, parameters], data))
}

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];

/// Pseudo-random functions of PBKDF2 (RFC 8018, appendix B.1): the last byte of their object identifiers after
/// 1.2.840.113549.2.
const HASHES: &[(u8, pbkdf2::Algorithm)] = &[
    (7, pbkdf2::PBKDF2_HMAC_SHA1),
    (9, pbkdf2::PBKDF2_HMAC_SHA256),
    (10, pbkdf2::PBKDF2_HMAC_SHA384),
    (11, pbkdf2::PBKDF2_HMAC_SHA512),
];

const CIPHERS: &[(&[u8], Cipher)] = &[
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2], Cipher::Aes128),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 22], Cipher::Aes192),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42], Cipher::Aes256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7], Cipher::DesEde3),
];

fn pkcs8_encrypted(([name, parameters], data): (Identifier<'_>, &[u8])) -> Result<Encrypted, String> {
    if name != PBES2 {
        return Err(too_old("a scheme older than PBES2"));
    }
    let damaged = || "the parameters of its encryption are damaged".to_string();
    let (derivation, scheme) = pbes2(parameters).ok_or_else(damaged)?;
    let ([kdf, values], [cipher, iv]) = (derivation, scheme);
    if kdf != PBKDF2 {
        return Err(too_old("a key derivation other than PBKDF2"));
    }
    let (salt, iterations, hash) = pbkdf2_values(values).ok_or_else(damaged)?;
    let hash =
        HASHES.iter().find(|(known, _)| *known == hash).ok_or_else(|| too_old("a hash that is not SHA-1 or SHA-2"))?.1;
    let cipher = CIPHERS.iter().find(|(known, _)| *known == cipher);
    let cipher = cipher.ok_or_else(|| too_old("a cipher that is not AES or 3DES in CBC mode"))?.1;
    let (0x04, iv, _) = element(iv).ok_or_else(damaged)? else { return Err(damaged()) };
    if iv.len() != cipher.lengths().1 {
        return Err(damaged());
    }
    let derivation = Derivation::Pbkdf2 { hash, salt: salt.to_vec(), iterations };
    Ok(Encrypted { derivation, cipher, iv: iv.to_vec(), data: data.to_vec(), label: "PRIVATE KEY" })
}

/// The object identifier of an algorithm, and its parameters.
type Identifier<'a> = [&'a [u8]; 2];

/// The key derivation and the cipher of PBES2.
fn pbes2(parameters: &[u8]) -> Option<(Identifier<'_>, Identifier<'_>)> {
    let (0x30, inside, _) = element(parameters)? else { return None };
    let (0x30, derivation, rest) = element(inside)? else { return None };
    let (0x30, scheme, _) = element(rest)? else { return None };
    let split = |algorithm| element(algorithm).map(|(_, name, parameters)| [name, parameters]);
    Some((split(derivation)?, split(scheme)?))
}

/// Salt, iterations, and the last byte of the object identifier of the pseudo-random function; the default is HMAC with
/// SHA-1.
fn pbkdf2_values(parameters: &[u8]) -> Option<(&[u8], NonZeroU32, u8)> {
    let (0x30, inside, _) = element(parameters)? else { return None };
    let (0x04, salt, rest) = element(inside)? else { return None };
    let (0x02, count, mut rest) = element(rest)? else { return None };
    let count = count.iter().try_fold(0u32, |count, byte| count.checked_mul(256)?.checked_add(u32::from(*byte)));
    if let Some((0x02, _, behind)) = element(rest) {
        rest = behind;
    }
    let hash = match element(rest) {
        Some((0x30, algorithm, _)) => *element(algorithm)?.1.last()?,
        _ => 7,
    };
    Some((salt, NonZeroU32::new(count?)?, hash))
}

impl Cipher {
    /// The sizes of the cipher's key and block, in bytes.
    fn lengths(self) -> (usize, usize) {
        match self {
            Cipher::Aes128 => (16, 16),
            Cipher::Aes192 => (24, 16),
            Cipher::Aes256 => (32, 16),
            Cipher::DesEde3 => (24, 8),
        }
    }

    /// Decrypts in CBC mode, and removes the padding (RFC 8018, section 6.1.1). `None`: the padding is invalid.
    fn decrypt(self, key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let algorithm = match self {
            Cipher::Aes128 => &cipher::AES_128,
            Cipher::Aes192 => &cipher::AES_192,
            Cipher::Aes256 => &cipher::AES_256,
            Cipher::DesEde3 => return des_ede3(key, iv, data),
        };
        let key = UnboundCipherKey::new(algorithm, key).ok()?;
        let context = DecryptionContext::Iv128(FixedLength::try_from(iv).ok()?);
        let mut data = data.to_vec();
        Some(PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?.decrypt(&mut data, context).ok()?.to_vec())
    }
}

fn des_ede3(key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let cipher = TdesEde3::new_from_slice(key).ok()?;
    let mut out = Vec::with_capacity(data.len());
    let mut before: [u8; 8] = iv.try_into().ok()?;
    for chunk in data.chunks(8) {
        let sealed: [u8; 8] = chunk.try_into().ok()?;
        let mut block = Array::from(sealed);
        cipher.decrypt_block(&mut block);
        out.extend(block.iter().zip(before).map(|(byte, before)| byte ^ before));
        before = sealed;
    }
    let padding = usize::from(*out.last()?);
    let rest = out.len().checked_sub(padding).filter(|_| (1..=8).contains(&padding))?;
    let fits = out[rest..].iter().all(|byte| usize::from(*byte) == padding);
    out.truncate(rest);
    fits.then_some(out)
}

impl Encrypted {
    /// The decrypted key. `None`: the pass phrase is wrong.
    pub(super) fn decrypt(&self, pass_phrase: &[u8]) -> Option<PrivateKeyDer<'static>> {
        let secret = self.derivation.derive(pass_phrase, self.cipher.lengths().0);
        let der = self.cipher.decrypt(&secret, &self.iv, &self.data)?;
        // After a wrong pass phrase the padding may be valid by accident.
        element(&der).filter(|(tag, _, behind)| *tag == 0x30 && behind.is_empty())?;
        Some(plain(self.label, der))
    }
}

impl Derivation {
    fn derive(&self, pass_phrase: &[u8], length: usize) -> Vec<u8> {
        let mut secret = vec![0; length];
        match self {
            Derivation::Pbkdf2 { hash, salt, iterations } => {
                pbkdf2::derive(*hash, *iterations, salt, pass_phrase, &mut secret);
            }
            Derivation::Md5(salt) => {
                let mut before: Vec<u8> = Vec::new();
                for piece in secret.chunks_mut(16) {
                    let digest =
                        Md5::new().chain_update(&before).chain_update(pass_phrase).chain_update(salt).finalize();
                    piece.copy_from_slice(&digest[..piece.len()]);
                    before = digest.to_vec();
                }
            }
        }
        secret
    }
}
