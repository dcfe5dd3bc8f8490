//! The entry point of the fuzz target `ocsp`.

use super::{INTEGER, OCTETS, Question, SEQUENCE, SHA1, Signers, value};

/// Reads a responder's response about the certificate with the number 5, whose issuer has empty digests.
///
/// # Panics
/// If a response counts that nobody has signed.
pub fn ocsp(response: &[u8]) {
    let id = [SHA1.to_vec(), value(OCTETS, &[]), value(OCTETS, &[]), value(INTEGER, &[&[5]])].concat();
    let question = Question { id: value(SEQUENCE, &[&id]), url: None };
    if let Ok((answer, signed)) = question.read(response) {
        let _ = answer.until(0, 300, Some(1));
        let _ = signed.has_nonce(b"nonce");
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let signers = Signers { issuer: &Vec::new().into(), trusted: &[], is_anybody: true, algorithms };
        assert!(signed.verify(&signers, 0).is_err());
    }
}
