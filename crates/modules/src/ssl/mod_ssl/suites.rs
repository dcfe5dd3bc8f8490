//! OpenSSL's names for cipher suites and versions, and the suites offered for them.
//!
//! The TLS 1.2 suites here have forward secrecy (ECDHE) and are safe from padding attacks (AEAD). OpenSSL's security
//! level 2 and Mozilla's intermediate configuration leave the same ones, plus key exchange with finite fields (DHE).
//! See openssl-ciphers(1).

use rustls::crypto::aws_lc_rs::cipher_suite as known;
use rustls::{ProtocolVersion, SupportedCipherSuite};

/// A cipher suite of TLS 1.2.
struct Suite {
    /// OpenSSL's name.
    name: &'static str,
    suite: SupportedCipherSuite,
    /// OpenSSL's keywords that include the suite.
    words: &'static [&'static str],
    /// The size of its key, in bits.
    bits: u32,
}

const ECDHE: &[&str] = &["ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH", "FIPS"];

/// The suites of TLS 1.2 in OpenSSL's order of preference.
static TLS12: &[Suite] = &[
    Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite: known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        words: &["aECDSA", "ECDSA", "AES256", "AES", "AESGCM", "SHA384", "SUITEB192"],
        bits: 256,
    },
    Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        suite: known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        words: &["aRSA", "AES256", "AES", "AESGCM", "SHA384"],
        bits: 256,
    },
    Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite: known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        words: &["aECDSA", "ECDSA", "CHACHA20"],
        bits: 256,
    },
    Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        suite: known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        words: &["aRSA", "CHACHA20"],
        bits: 256,
    },
    Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite: known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        words: &["aECDSA", "ECDSA", "AES128", "AES", "AESGCM", "SHA256", "SUITEB128"],
        bits: 128,
    },
    Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        suite: known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        words: &["aRSA", "AES128", "AES", "AESGCM", "SHA256"],
        bits: 128,
    },
];

/// The suites of TLS 1.3 in OpenSSL's order of preference.
static TLS13: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", known::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", known::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", known::TLS13_AES_128_GCM_SHA256),
];

/// OpenSSL's name of a suite, and the size of its key in bits.
pub(super) fn describe(suite: SupportedCipherSuite) -> (&'static str, u32) {
    let old = TLS12.iter().find(|one| one.suite == suite).map(|one| (one.name, one.bits));
    let new = TLS13.iter().find(|(_, one)| *one == suite);
    let new = new.map(|(name, _)| (*name, if name.contains("128") { 128 } else { 256 }));
    old.or(new).unwrap_or(("", 0))
}

/// The TLS 1.2 suites that an OpenSSL cipher list selects, and the names in it that are not offered.
pub(super) fn tls12(list: &str) -> (Vec<SupportedCipherSuite>, Vec<&str>) {
    let mut chosen: Vec<&Suite> = Vec::new();
    let mut removed: Vec<&str> = Vec::new();
    let mut missing = Vec::new();
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        if let Some(command) = word.strip_prefix('@') {
            if command == "STRENGTH" {
                chosen.sort_by_key(|suite| std::cmp::Reverse(suite.bits));
            }
            continue;
        }
        let (sign, name) = match word.as_bytes()[0] {
            sign @ (b'!' | b'-' | b'+') => (sign, &word[1..]),
            _ => (0, word),
        };
        let named: Vec<&Suite> = TLS12.iter().filter(|suite| suite.is_named(name)).collect();
        match sign {
            b'!' => {
                chosen.retain(|one| !named.iter().any(|suite| suite.name == one.name));
                removed.extend(named.iter().map(|suite| suite.name));
            }
            b'-' => chosen.retain(|one| !named.iter().any(|suite| suite.name == one.name)),
            b'+' => chosen.sort_by_key(|one| named.iter().any(|suite| suite.name == one.name)),
            _ => {
                let is_new = |suite: &&&Suite| {
                    !removed.contains(&suite.name) && !chosen.iter().any(|one| one.name == suite.name)
                };
                let new: Vec<&Suite> = named.iter().filter(is_new).copied().collect();
                chosen.extend(new);
                // A hyphen tells the name of one suite from a keyword for many.
                if named.is_empty() && name.contains('-') {
                    missing.push(name);
                }
            }
        }
    }
    (chosen.iter().map(|suite| suite.suite).collect(), missing)
}

/// The suites for TLS 1.3, whose list only contains names.
pub(super) fn tls13(list: &str) -> (Vec<SupportedCipherSuite>, Vec<&str>) {
    let words = list.split(':').filter(|word| !word.is_empty());
    let (mut chosen, mut missing) = (Vec::new(), Vec::new());
    for word in words {
        match TLS13.iter().find(|(name, _)| *name == word) {
            Some((_, suite)) => chosen.push(*suite),
            None => missing.push(word),
        }
    }
    (chosen, missing)
}

/// All TLS 1.3 suites.
pub(super) fn all_tls13() -> Vec<SupportedCipherSuite> {
    TLS13.iter().map(|(_, suite)| *suite).collect()
}

impl Suite {
    /// Whether a name includes the suite; `A+B` is the intersection.
    fn is_named(&self, name: &str) -> bool {
        let is = |part: &str| self.name == part || ECDHE.contains(&part) || self.words.contains(&part);
        name.split('+').all(is)
    }
}

/// OpenSSL's name for a version.
pub(super) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        tls12(list).0.into_iter().map(|suite| describe(suite).0).collect()
    }

    #[test]
    fn lists_as_openssl_reads_them() {
        let all: Vec<&str> = TLS12.iter().map(|suite| suite.name).collect();
        for (list, expected) in [
            ("DEFAULT", all.clone()),
            ("HIGH:MEDIUM:!aNULL:!MD5:!SEED:!IDEA", all.clone()),
            ("ALL:!ADH:!EXPORT56:RC4+RSA:+HIGH:+MEDIUM:+LOW:+SSLv2:+EXP:+eNULL", all.clone()),
            ("ECDHE+AESGCM", vec![all[0], all[1], all[4], all[5]]),
            ("EECDH+aRSA+AES128", vec![all[5]]),
            ("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384", vec![all[5], all[0]]),
            ("ALL:!AES:ECDHE-RSA-AES128-GCM-SHA256", vec![all[2], all[3]]),
            ("ALL:-AES:ECDHE-RSA-AES128-GCM-SHA256", vec![all[2], all[3], all[5]]),
            ("ALL:+AES256", vec![all[2], all[3], all[4], all[5], all[0], all[1]]),
            ("AES128:AES256:@STRENGTH", vec![all[0], all[1], all[4], all[5]]),
            ("RC4-SHA:AES128-SHA", vec![]),
            ("kRSA", vec![]),
        ] {
            assert_eq!(names(list), expected, "{list}");
        }
        assert_eq!(tls12("RC4-SHA:HIGH:!MD5:nonsense").1, ["RC4-SHA"]);
        assert_eq!(tls13("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256").1, ["TLS_AES_128_CCM_SHA256"]);
    }
}
