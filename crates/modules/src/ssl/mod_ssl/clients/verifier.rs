//! Verifies the client's certificate during the handshake, and logs what is wrong with it in Apache's words.

use conf::Level;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use server::tls::remark;
use x509_parser::certificate::X509Certificate;

use super::failure::{Failure, Reason};
use super::parse::parse;
use super::requirements::Clients;
use super::signatures;
use crate::ssl::mod_ssl::{names, notation};

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.asked
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
        match self.judge.judge(&chain, now) {
            Ok(trust) => {
                if trust.flaw.is_some() {
                    remark(
                        Level::Info,
                        "AH02009: SSL client authentication failed, accepting certificate based on \"SSLVerifyClient \
                         optional_no_ca\" configuration"
                            .into(),
                    );
                }
                Ok(ClientCertVerified::assertion())
            }
            Err(failure) => {
                self.remark(failure, &chain);
                if self.is_for_sections {
                    // `admit` takes it away.
                    return Ok(ClientCertVerified::assertion());
                }
                let (_, _, alert) = failure.reason.codes();
                Err(Error::InvalidCertificate(alert))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signatures::verify_tls12(message, cert, dss, &self.judge.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signatures::verify_tls13(message, cert, dss, &self.judge.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.algorithms.supported_schemes()
    }
}

impl Clients {
    /// Logs the flaw of a certificate as Apache does.
    fn remark(&self, failure: Failure, chain: &[CertificateDer<'_>]) {
        let (code, words, _) = failure.reason.codes();
        let about = self.judge.climb(chain).get(failure.depth).and_then(|der| parse(der)).map(|one| describe(&one));
        let about = about.unwrap_or_default();
        if failure.reason != Reason::TooLong {
            let (level, number) = verification_failed();
            remark(level, format!("{number}: Certificate Verification: Error ({code}): {words}{about}"));
        }
        if failure.depth > self.judge.depth {
            let (is, may) = (failure.depth, self.judge.depth);
            remark(
                Level::Error,
                format!(
                    "AH02040: Certificate Verification: Certificate Chain too long (chain has {is} certificates, but maximum \
                     allowed are only {may})"
                ),
            );
        }
        if self.is_for_sections {
            remark(Level::Info, "the client's certificate is not valid, and counts as none".into());
        }
    }
}

/// The level and the number of the line about a certificate that is not valid.
pub(super) fn verification_failed() -> (Level, &'static str) {
    match runtime::log::enabled("ssl", Level::Info) {
        true => (Level::Info, "AH02276"),
        false => (Level::Error, "AH02039"),
    }
}

/// Describes a certificate in a log line.
pub(in super::super) fn describe(one: &X509Certificate<'_>) -> String {
    let [subject, issuer] = [one.subject(), one.issuer()].map(|name| names::ascii(&names::rfc2253(name)));
    let serial = notation::serial(one.raw_serial());
    let [start, end] = [one.validity().not_before, one.validity().not_after].map(notation::date);
    format!(" [subject: {subject} / issuer: {issuer} / serial: {serial} / notbefore: {start} / notafter: {end}]")
}
