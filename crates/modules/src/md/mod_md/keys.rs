//! Private keys (`MDPrivateKeys`), certificate signing requests, and self-signed certificates: the fallback until an
//! authority has issued a certificate, and those for the challenge `tls-alpn-01`.

use std::time::Duration;

use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, RsaKeySize, SignatureAlgorithm,
};

/// The algorithm of a key, with its size (`MDPrivateKeys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// RSA with this many bits.
    Rsa(u32),
    /// ECDSA on this curve.
    Curve(&'static Curve),
}

/// A supported curve, with its names and its algorithm for signatures.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Curve {
    /// Its name in file names.
    name: &'static str,
    /// Further names, case-insensitive.
    others: &'static [&'static str],
    algorithm: &'static SignatureAlgorithm,
}

static CURVES: [Curve; 3] = [
    Curve { name: "secp256r1", others: &["P-256", "prime256v1"], algorithm: &PKCS_ECDSA_P256_SHA256 },
    Curve { name: "secp384r1", others: &["P-384"], algorithm: &PKCS_ECDSA_P384_SHA384 },
    Curve { name: "secp521r1", others: &["P-521"], algorithm: &PKCS_ECDSA_P521_SHA512 },
];

/// The largest RSA key, in bits.
pub(super) const RSA_MAX: u32 = 4096;
/// The sizes of generated RSA keys.
const RSA_SIZES: [(u32, RsaKeySize); 3] =
    [(2048, RsaKeySize::_2048), (3072, RsaKeySize::_3072), (RSA_MAX, RsaKeySize::_4096)];
/// The validity of a self-signed certificate.
const FALLBACK_LIFE: Duration = Duration::from_secs(60 * 24 * 60 * 60);
/// The value of the TLS feature extension for must-staple (RFC 7633): `status_request`.
const MUST_STAPLE: &[u8] = &[0x30, 0x03, 0x02, 0x01, 0x05];
const TLS_FEATURE: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 1, 24];

impl KeyKind {
    /// The kind if `MDPrivateKeys` names none.
    pub(super) const DEFAULT: KeyKind = KeyKind::Rsa(2048);

    /// The curve with this name.
    pub(super) fn curve(name: &str) -> Option<KeyKind> {
        let is_named = |curve: &&Curve| {
            std::iter::once(&curve.name).chain(curve.others).any(|known| known.eq_ignore_ascii_case(name))
        };
        CURVES.iter().find(is_named).map(KeyKind::Curve)
    }

    /// The name of a file for this kind of key: `privkey.pem` for RSA, `privkey.secp384r1.pem` for a curve, as in
    /// mod_md.
    pub(super) fn file(self, stem: &str) -> String {
        match self {
            KeyKind::Rsa(_) => format!("{stem}.pem"),
            KeyKind::Curve(curve) => format!("{stem}.{}.pem", curve.name),
        }
    }

    /// Its name: `RSA`, or that of the curve.
    pub(super) fn name(self) -> &'static str {
        match self {
            KeyKind::Rsa(_) => "RSA",
            KeyKind::Curve(curve) => curve.name,
        }
    }

    /// Generates a key.
    pub(super) fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            KeyKind::Curve(curve) => KeyPair::generate_for(curve.algorithm),
            KeyKind::Rsa(bits) => {
                let (_, size) = RSA_SIZES.iter().find(|(size, _)| *size >= bits).unwrap_or(&RSA_SIZES[2]);
                KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, *size)
            }
        }
    }
}

/// A certificate signing request for these names, in DER.
pub(super) fn request(key: &KeyPair, names: &[String], must_staple: bool) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    if must_staple {
        params.custom_extensions.push(CustomExtension::from_oid_content(TLS_FEATURE, MUST_STAPLE.to_vec()));
    }
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// A self-signed certificate for these names, in PEM. Its subject says so, as mod_md's does.
pub(super) fn fallback(key: &KeyPair, names: &[String]) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Apache Managed Domain Fallback");
    let now = rcgen::date_time_ymd(1970, 1, 1) + sys::time::realtime();
    (params.not_before, params.not_after) = (now, now + FALLBACK_LIFE);
    Ok(params.self_signed(key)?.pem())
}

/// The certificate for a name's `tls-alpn-01` challenge (RFC 8737 section 3), in PEM.
pub(super) fn challenge(key: &KeyPair, name: &str, digest: &[u8]) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_string()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "tls-alpn-01-challenge");
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    Ok(params.self_signed(key)?.pem())
}
