//! OCSP requests and responses (RFC 6960), limited to what stapling needs.
//!
//! Nothing here waits. The authority signs a response and the client verifies the signature; the server only checks
//! that the response is about its own certificate, and how long it is valid.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_OCSP;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

const BOOLEAN_OR_ENUM: u8 = 0x0a;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// SHA-1 with its parameters, the digest in certificate ids: every responder supports it.
const SHA1: &[u8] = &[0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00];

/// The OCSP request for a certificate, and its responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The `CertID`: digests of the issuer's name and key, and the serial number.
    id: Vec<u8>,
    /// The responder's URL from the certificate.
    pub(super) url: Option<String>,
}

/// The validity of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The start of validity (`thisUpdate`), in seconds since 1970.
    pub(super) begins: i64,
    /// The time of the next response (`nextUpdate`); `None`: newer information may appear at any time.
    pub(super) ends: Option<i64>,
}

impl Question {
    /// A question about a certificate that `issuer` has signed.
    pub(super) fn new(certificate: &[u8], issuer: &[u8]) -> Option<Question> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        let hash = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
        let name = hash(issuer.subject().as_raw());
        let key = hash(&issuer.public_key().subject_public_key.data);
        let id = [
            SHA1.to_vec(),
            value(OCTETS, &[name.as_ref()]),
            value(OCTETS, &[key.as_ref()]),
            value(INTEGER, &[certificate.raw_serial()]),
        ];
        let url = certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityInfoAccess(access) => access.iter().find_map(|one| match one.access_location {
                GeneralName::URI(url) if one.access_method == OID_PKIX_ACCESS_DESCRIPTOR_OCSP => Some(url.to_string()),
                _ => None,
            }),
            _ => None,
        });
        Some(Question { id: value(SEQUENCE, &[&id.concat()]), url })
    }

    /// The request in DER (section 4.1.1).
    pub(super) fn request(&self) -> Vec<u8> {
        // Nested around the id, from the inside out: Request, requestList, TBSRequest, OCSPRequest.
        (0..4).fold(self.id.clone(), |inner, _| value(SEQUENCE, &[&inner]))
    }

    /// Parses a response (section 4.2.1). `Err`: why it cannot be used.
    pub(super) fn answer(&self, response: &[u8]) -> Result<Answer, String> {
        let broken = || "a response that cannot be read".to_string();
        let mut outer = whole(response, SEQUENCE).ok_or_else(broken)?;
        match take(&mut outer).ok_or_else(broken)? {
            (BOOLEAN_OR_ENUM, [0]) => {}
            (BOOLEAN_OR_ENUM, [status]) => return Err(format!("the responder says {}", status_name(*status))),
            _ => return Err(broken()),
        }
        self.single(outer).ok_or_else(|| "a response that is not about this certificate".to_string())?
    }

    /// The entry for this certificate in a response.
    fn single(&self, mut rest: &[u8]) -> Option<Result<Answer, String>> {
        let mut bytes = whole(take(&mut rest)?.1, SEQUENCE)?;
        take(&mut bytes)?; // The response type: there is only one.
        let mut basic = whole(take(&mut bytes)?.1, SEQUENCE)?;
        let mut data = take(&mut basic)?.1;
        let mut responses = loop {
            // The fields before the entries: version, responder, time.
            match take(&mut data)? {
                (SEQUENCE, responses) => break responses,
                _ => continue,
            }
        };
        while let Some((SEQUENCE, mut single)) = take(&mut responses) {
            let before = single;
            take(&mut single)?;
            if before[..before.len() - single.len()] != self.id[..] {
                continue;
            }
            let status = take(&mut single)?.0;
            let begins = time(&mut single)?;
            let ends = match take(&mut single) {
                Some((0xa0, mut next)) => Some(time(&mut next)?),
                _ => None,
            };
            return Some(match status & 0x1f {
                0 => Ok(Answer { begins, ends }),
                1 => Err("the certificate has been revoked".into()),
                _ => Err("the responder does not know the certificate".into()),
            });
        }
        None
    }
}

/// RFC 6960 section 4.2.1, `OCSPResponseStatus`.
fn status_name(status: u8) -> &'static str {
    match status {
        1 => "malformedRequest",
        2 => "internalError",
        3 => "tryLater",
        5 => "sigRequired",
        6 => "unauthorized",
        _ => "an unknown status",
    }
}

/// Encodes a value with this tag in DER.
fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length as u8),
        _ => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Takes the next DER value: its tag and content.
fn take<'b>(rest: &mut &'b [u8]) -> Option<(u8, &'b [u8])> {
    let (&tag, after) = rest.split_first()?;
    let (&first, after) = after.split_first()?;
    let (length, after) = match first {
        0..=0x7f => (usize::from(first), after),
        0x81..=0x84 => {
            let (bytes, after) = after.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), after)
        }
        _ => return None,
    };
    let (content, after) = after.split_at_checked(length)?;
    *rest = after;
    Some((tag, content))
}

/// The content of the only value in `bytes`, which must have this tag.
fn whole(mut bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    let (tag, content) = take(&mut bytes)?;
    (tag == wanted && bytes.is_empty()).then_some(content)
}

fn time(rest: &mut &[u8]) -> Option<i64> {
    let (after, time) = ASN1Time::from_der(rest).ok()?;
    *rest = after;
    Some(time.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_nested() {
        assert_eq!(value(SEQUENCE, &[b"a", b"bc"]), b"\x30\x03abc");
        let long = value(OCTETS, &[&[7; 300]]);
        assert_eq!(long[..4], [OCTETS, 0x82, 1, 44]);
        assert_eq!(whole(&long, OCTETS), Some(&[7; 300][..]));
        for broken in [&long[..303], &[OCTETS][..], &[OCTETS, 0x80, 0, 0], &[OCTETS, 0x85, 0, 0, 0, 0, 0], &[]] {
            assert_eq!(whole(broken, OCTETS), None);
        }
    }

    /// A response whose fields are arbitrary where a server does not look at them.
    fn response(question: &Question, status: u8, next: &[u8]) -> Vec<u8> {
        let time = |text: &str| value(0x18, &[text.as_bytes()]);
        let single = value(SEQUENCE, &[&question.id, &[0x80 | status, 0], &time("20261124120000Z"), next]);
        let data = value(SEQUENCE, &[&value(0xa2, &[b"key"]), &time("20261124120001Z"), &value(SEQUENCE, &[&single])]);
        let basic = value(SEQUENCE, &[&data, b"\x30\x00", b"\x03\x01\x00"]);
        let bytes = value(SEQUENCE, &[&value(6, &[b"kind"]), &value(OCTETS, &[&basic])]);
        value(SEQUENCE, &[&[BOOLEAN_OR_ENUM, 1, 0], &value(0xa0, &[&bytes])])
    }

    #[test]
    fn responses_are_read() {
        let question = Question { id: value(SEQUENCE, &[SHA1, b"\x02\x01\x05"]), url: None };
        let begins = 1_795_521_600;
        let next = value(0xa0, &[&value(0x18, &[b"20261124130000Z"])]);
        assert_eq!(question.answer(&response(&question, 0, &next)), Ok(Answer { begins, ends: Some(begins + 3600) }));
        assert_eq!(question.answer(&response(&question, 0, &[])), Ok(Answer { begins, ends: None }));
        assert_eq!(question.answer(&response(&question, 1, &next)), Err("the certificate has been revoked".into()));
        let other = Question { id: value(SEQUENCE, &[SHA1, b"\x02\x01\x06"]), url: None };
        assert!(question.answer(&response(&other, 0, &next)).is_err());
        assert_eq!(question.answer(b"\x30\x03\x0a\x01\x03"), Err("the responder says tryLater".into()));
        let whole = response(&question, 0, &next);
        (0..whole.len()).for_each(|end| assert!(question.answer(&whole[..end]).is_err()));
    }
}
