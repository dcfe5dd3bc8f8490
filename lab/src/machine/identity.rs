//! The certificate for measured servers: elliptic curve (P-256), self-signed, the same for all.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

use crate::machine::error::{Context as _, Result, write_file};

/// The name in it.
pub(crate) const NAME: &str = "localhost";

/// The characters of a line of PEM (RFC 7468 section 2).
const LINE: usize = 64;

/// The files of certificate and key.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Identity {
    /// Makes one in a directory.
    pub(crate) fn make(directory: &Path) -> Result<Self> {
        Self::make_for(NAME, directory)
    }

    /// Makes one for that name.
    pub(crate) fn make_for(name: &str, directory: &Path) -> Result<Self> {
        let make = || {
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            let certificate = CertificateParams::new(vec![name.to_owned()])?.self_signed(&key)?;
            Ok((pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", key.serialized_der())))
        };
        let made: std::result::Result<_, rcgen::Error> = make();
        let (certificate, key) = made.context(|| "make a certificate".to_owned())?;
        let file = |what: &str| directory.join(format!("{name}.{what}.pem"));
        let made = Self { certificate: file("certificate"), key: file("key") };
        write_file(made.both(), certificate.clone() + &key)?;
        write_file(&made.certificate, certificate)?;
        write_file(&made.key, key)?;
        Ok(made)
    }

    /// The file with both, for programs that take one file.
    pub(crate) fn both(&self) -> PathBuf {
        self.key.with_extension("both.pem")
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tls::{Tls, Trust};
    use crate::machine::scratch::Scratch;

    #[test]
    fn a_generated_certificate_can_be_verified_and_shown() {
        let scratch = Scratch::for_test("identity");
        let made = Identity::make(scratch.path()).unwrap();
        let tls = Tls { trust: Trust::File(made.certificate.clone()), identity: Some(made.both()), ..Tls::to(NAME) };
        assert!(tls.client().is_ok());
        let error = Tls { trust: Trust::File(made.key), ..Tls::to(NAME) }.client().unwrap_err().to_string();
        assert!(error.contains("no certificate in it"), "{error}");
    }
}
