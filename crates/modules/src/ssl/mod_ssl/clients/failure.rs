//! Reasons to reject a certificate, with OpenSSL's numbers and messages (openssl-verification-options(1),
//! "Diagnostics").

use rustls::CertificateError;

/// A reason, and the depth of the flawed certificate in the chain; the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Failure {
    pub(in super::super) reason: Reason,
    pub(in super::super) depth: usize,
}

/// The reason for a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Reason {
    NoIssuer,
    NoList,
    BadSignature,
    NotYetValid,
    Expired,
    ListExpired,
    BadEncoding,
    SelfSigned,
    SelfSignedInChain,
    NoLocalIssuer,
    Unverifiable,
    TooLong,
    Revoked,
    NotACa,
    PathTooLong,
    WrongPurpose,
    UnknownExtension,
    Names,
    Other,
}

impl Reason {
    /// OpenSSL's number and message, and the error that rustls reports to the client.
    pub(in super::super) fn codes(self) -> (u32, &'static str, CertificateError) {
        use CertificateError as Alert;
        match self {
            Reason::Other => (1, "unspecified certificate verification error", Alert::ApplicationVerificationFailure),
            Reason::NoIssuer => (2, "unable to get issuer certificate", Alert::UnknownIssuer),
            Reason::NoList => (3, "unable to get certificate CRL", Alert::UnknownRevocationStatus),
            Reason::BadSignature => (7, "certificate signature failure", Alert::BadSignature),
            Reason::NotYetValid => (9, "certificate is not yet valid", Alert::NotValidYet),
            Reason::Expired => (10, "certificate has expired", Alert::Expired),
            Reason::ListExpired => (12, "CRL has expired", Alert::ExpiredRevocationList),
            Reason::BadEncoding => (13, "format error in certificate's notBefore field", Alert::BadEncoding),
            Reason::SelfSigned => (18, "self-signed certificate", Alert::UnknownIssuer),
            Reason::SelfSignedInChain => (19, "self-signed certificate in certificate chain", Alert::UnknownIssuer),
            Reason::NoLocalIssuer => (20, "unable to get local issuer certificate", Alert::UnknownIssuer),
            Reason::Unverifiable => (21, "unable to verify the first certificate", Alert::UnknownIssuer),
            Reason::TooLong => (22, "certificate chain too long", Alert::UnknownIssuer),
            Reason::Revoked => (23, "certificate revoked", Alert::Revoked),
            Reason::PathTooLong => (25, "path length constraint exceeded", Alert::UnknownIssuer),
            Reason::WrongPurpose => (26, "unsuitable certificate purpose", Alert::InvalidPurpose),
            Reason::UnknownExtension => (34, "unhandled critical extension", Alert::UnhandledCriticalExtension),
            Reason::Names => (47, "permitted subtree violation", Alert::ApplicationVerificationFailure),
            Reason::NotACa => (79, "invalid CA certificate", Alert::UnknownIssuer),
        }
    }

    /// Whether `SSLVerifyClient optional_no_ca` tolerates the flaw.
    pub(super) fn is_optional(self) -> bool {
        use Reason::{NoIssuer, NoLocalIssuer, SelfSigned, SelfSignedInChain};
        matches!(self, NoIssuer | NoLocalIssuer | SelfSigned | SelfSignedInChain)
    }
}

impl From<&webpki::Error> for Reason {
    fn from(error: &webpki::Error) -> Reason {
        use webpki::Error as Found;
        match error {
            Found::UnknownIssuer => Reason::NoLocalIssuer,
            Found::CertExpired { .. } | Found::InvalidCertValidity => Reason::Expired,
            Found::CertNotValidYet { .. } => Reason::NotYetValid,
            Found::CertRevoked => Reason::Revoked,
            Found::UnknownRevocationStatus | Found::IssuerNotCrlSigner => Reason::NoList,
            Found::CrlExpired { .. } => Reason::ListExpired,
            Found::InvalidSignatureForPublicKey => Reason::BadSignature,
            Found::BadDer | Found::BadDerTime | Found::TrailingData(_) => Reason::BadEncoding,
            Found::EndEntityUsedAsCa => Reason::NotACa,
            Found::PathLenConstraintViolated => Reason::PathTooLong,
            Found::MaximumPathDepthExceeded => Reason::TooLong,
            Found::RequiredEkuNotFoundContext(_) | Found::EmptyEkuExtension | Found::CaUsedAsEndEntity => {
                Reason::WrongPurpose
            }
            Found::UnsupportedCriticalExtension => Reason::UnknownExtension,
            Found::NameConstraintViolation => Reason::Names,
            _ => Reason::Other,
        }
    }
}
