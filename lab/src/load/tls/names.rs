//! The names of suites and groups: OpenSSL's names, which people type, and those of the standards.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};

use crate::machine::error::{Error, Result};

/// A suite: its name, the size of its keys in bits, and OpenSSL's groups that contain it.
struct Suite(&'static str, SupportedCipherSuite, u32, &'static str);

/// All suites, by preference.
static SUITES: [Suite; 9] = [
    Suite("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384, 256, ""),
    Suite("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, 256, ""),
    Suite("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256, 128, ""),
    Suite(
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        256,
        "ECDSA aECDSA AES AES256 AESGCM SHA384",
    ),
    Suite(
        "ECDHE-RSA-AES256-GCM-SHA384",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        256,
        "RSA aRSA AES AES256 AESGCM SHA384",
    ),
    Suite(
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        256,
        "ECDSA aECDSA CHACHA20",
    ),
    Suite(
        "ECDHE-RSA-CHACHA20-POLY1305",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        256,
        "RSA aRSA CHACHA20",
    ),
    Suite(
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        128,
        "ECDSA aECDSA AES AES128 AESGCM SHA256",
    ),
    Suite(
        "ECDHE-RSA-AES128-GCM-SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        128,
        "RSA aRSA AES AES128 AESGCM SHA256",
    ),
];

/// The groups that contain all suites of TLS 1.2.
const ALWAYS: [&str; 9] =
    ["ALL", "COMPLEMENTOFDEFAULT", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "AEAD"];

impl Suite {
    /// Whether a word of a list matches it, perhaps among others: `ECDHE+AESGCM` is the intersection of both.
    fn matches_word(&self, word: &str) -> bool {
        let Suite(name, suite, _, groups) = self;
        let is_in = |part: &str| {
            let is_new = suite.tls13().is_some();
            !is_new && (ALWAYS.contains(&part) || groups.split(' ').any(|group| group == part))
        };
        *name == word || format!("{:?}", suite.suite()) == word || word.split('+').all(is_in)
    }
}

/// The suites of a list in OpenSSL's words. A TLS version without any suite in the list keeps all of its own: ab's `-Z`
/// does not affect TLS 1.3.
///
/// # Errors
/// None of them is supported.
pub(super) fn suites(list: Option<&str>) -> Result<Vec<SupportedCipherSuite>> {
    let Some(list) = list else { return Ok(SUITES.iter().map(|Suite(_, suite, ..)| *suite).collect()) };
    let mut chosen: Vec<&Suite> = Vec::new();
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let meant = |word: &'_ str| SUITES.iter().filter(|suite| suite.matches_word(word)).collect::<Vec<_>>();
        match word.strip_prefix(['!', '-']) {
            Some(word) => chosen.retain(|suite| !suite.matches_word(word)),
            None => {
                let more = meant(word.trim_start_matches('+'));
                chosen.extend(
                    more.into_iter().filter(|suite| !chosen.iter().any(|one| one.0 == suite.0)).collect::<Vec<_>>(),
                );
            }
        }
    }
    if chosen.is_empty() {
        let all: Vec<&str> = SUITES.iter().map(|Suite(name, ..)| *name).collect();
        let text = format!("no cipher suite in {list:?} is supported");
        return Err(Error::new(text).advise(format!("some of {}", all.join(":"))));
    }
    let is_new = |suite: &Suite| suite.1.tls13().is_some();
    for version in [true, false] {
        if !chosen.iter().any(|suite| is_new(suite) == version) {
            chosen.extend(SUITES.iter().filter(|suite| is_new(suite) == version));
        }
    }
    Ok(chosen.into_iter().map(|Suite(_, suite, ..)| *suite).collect())
}

/// OpenSSL's name of a suite, and the size of its keys in bits.
pub(super) fn of_suite(suite: CipherSuite) -> (String, u32) {
    let row = SUITES.iter().find(|row| row.1.suite() == suite);
    row.map_or_else(|| (format!("{suite:?}"), 0), |Suite(name, _, bits, _)| ((*name).to_owned(), *bits))
}

/// A group: its names, ab's name for it, and whether it is a default.
struct Group(&'static [&'static str], &'static dyn SupportedKxGroup, &'static str, bool);

static GROUPS: [Group; 5] = [
    Group(&["X25519"], kx_group::X25519, "X25519 253 bits", true),
    Group(&["P-256", "prime256v1", "secp256r1"], kx_group::SECP256R1, "ECDH prime256v1 256 bits", true),
    Group(&["P-384", "secp384r1"], kx_group::SECP384R1, "ECDH secp384r1 384 bits", true),
    Group(&["X25519MLKEM768"], kx_group::X25519MLKEM768, "X25519MLKEM768", false),
    Group(&["SecP256r1MLKEM768"], kx_group::SECP256R1MLKEM768, "SecP256r1MLKEM768", false),
];

/// The groups of a list.
///
/// # Errors
/// One is unknown.
pub(super) fn groups(list: Option<&str>) -> Result<Vec<&'static dyn SupportedKxGroup>> {
    let Some(list) = list else {
        return Ok(GROUPS.iter().filter(|Group(.., is_usual)| *is_usual).map(|Group(_, group, ..)| *group).collect());
    };
    let find = |word: &str| {
        let row = GROUPS.iter().find(|Group(names, ..)| names.iter().any(|name| name.eq_ignore_ascii_case(word)));
        row.map(|Group(_, group, ..)| *group).ok_or_else(|| {
            let all: Vec<&str> = GROUPS.iter().map(|Group(names, ..)| names[0]).collect();
            Error::new(format!("{word:?} is not a supported key exchange group"))
                .advise(format!("some of {}", all.join(":")))
        })
    };
    list.split([':', ',']).map(find).collect()
}

/// ab's name for a group.
pub(super) fn of_group(group: NamedGroup) -> String {
    let row = GROUPS.iter().find(|row| row.1.name() == group);
    row.map_or_else(|| format!("{group:?}"), |Group(_, _, told, _)| (*told).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Vec<String> {
        suites(Some(list)).unwrap().iter().map(|suite| of_suite(suite.suite()).0).collect()
    }

    #[test]
    fn lists_are_openssls() {
        let new = ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];
        let one = chosen("ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(one[0], "ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(one[1..], new, "those of TLS 1.3 are not meant");
        let modern = chosen("ECDHE+AESGCM:!aRSA:AES128-SHA");
        assert_eq!(modern[..2], ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"]);
        assert_eq!(modern.len(), 2 + new.len());
        assert_eq!(chosen("HIGH:!aNULL:!MD5").len(), SUITES.len());
        assert_eq!(chosen("TLS_AES_128_GCM_SHA256").len(), 1 + 6);
        let error = suites(Some("AES128-SHA:!ECDSA")).unwrap_err().to_string();
        assert!(error.contains("ECDHE-RSA-AES256-GCM-SHA384"), "{error}");
    }

    #[test]
    fn groups_have_several_names() {
        let names = |list| groups(list).unwrap().iter().map(|group| of_group(group.name())).collect::<Vec<_>>();
        assert_eq!(names(Some("prime256v1:x25519")), ["ECDH prime256v1 256 bits", "X25519 253 bits"]);
        assert_eq!(names(None).len(), 3);
        assert!(groups(Some("P-257")).unwrap_err().to_string().contains("P-256"));
    }
}
