//! The certificates that clients trust: certain ones, or all.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::machine::error::{Context as _, Result};

/// What a verifier says.
type Verified<T> = std::result::Result<T, rustls::Error>;

/// Trusts certificates signed by these, and these themselves: many servers have a self-signed one.
#[derive(Debug)]
pub(super) struct TrustedCertificates {
    by_signature: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl TrustedCertificates {
    /// Trusts these certificates.
    ///
    /// # Errors
    /// None of them can be parsed.
    pub(super) fn new(provider: Arc<CryptoProvider>, certificates: Vec<CertificateDer<'static>>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        // A system may have some that are no longer valid.
        roots.add_parsable_certificates(certificates.iter().cloned());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { by_signature: verifier.context(|| "use the trusted certificates".to_owned())?, certificates })
    }
}

impl ServerCertVerifier for TrustedCertificates {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Verified<ServerCertVerified> {
        if self.certificates.contains(own) {
            verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.by_signature.verify_server_cert(own, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        self.by_signature.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        self.by_signature.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_signature.supported_verify_schemes()
    }
}

/// Trusts every server without checking: the purpose is load, and verification takes as long as the server's work.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    pub(super) schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Verified<ServerCertVerified> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
