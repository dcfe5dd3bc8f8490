//! Verifies the certificate of a server behind this one during the handshake (`SSLProxyVerify`).

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::ssl::mod_ssl::clients::{self, Failure, Judge, Reason};

/// The verification of servers.
pub(super) struct Servers {
    /// `None`: any chain is accepted (`SSLProxyVerify none`).
    pub(super) judge: Option<Judge>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("verifies", &self.judge.is_some()).finish_non_exhaustive()
    }
}

/// What is wrong with a certificate, in OpenSSL's words.
#[derive(Debug)]
struct Flaw(String);

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Flaw {}

impl Flaw {
    fn new(judge: &Judge, failure: Failure, chain: &[CertificateDer<'_>]) -> Flaw {
        let (is, may) = (failure.depth, judge.depth);
        if failure.reason == Reason::TooLong {
            return Flaw(format!(
                "Certificate Verification: Certificate Chain too long (chain has {is} certificates, but maximum allowed \
                 are only {may})"
            ));
        }
        let (code, words, _) = failure.reason.codes();
        let about = judge
            .climb(chain)
            .get(failure.depth)
            .and_then(|der| clients::parse(der))
            .map(|one| clients::describe(&one));
        Flaw(format!("Certificate Verification: Error ({code}): {words}{}", about.unwrap_or_default()))
    }
}

impl ServerCertVerifier for Servers {
    /// Its names are checked when the handshake is complete.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(judge) = &self.judge else { return Ok(ServerCertVerified::assertion()) };
        let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
        match judge.judge(&chain, now) {
            Ok(_) => Ok(ServerCertVerified::assertion()),
            Err(failure) => {
                let flaw = Flaw::new(judge, failure, &chain);
                Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(flaw)))))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        clients::verify_tls12(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        clients::verify_tls13(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
