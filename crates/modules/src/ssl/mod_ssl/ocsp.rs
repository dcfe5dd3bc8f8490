//! OCSP requests and responses (RFC 6960).
//!
//! Nothing here waits. A response counts only if its issuer, or a responder that the issuer has appointed, has signed it:
//! it comes over plain HTTP, so anybody on the way could have made it.

#[cfg(fuzzing)]
pub mod fuzzing;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_OCSP;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::clients::is_signed;

const BOOLEAN_OR_ENUM: u8 = 0x0a;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// SHA-1 with its parameters, the digest in certificate ids: every responder supports it.
const SHA1: &[u8] = &[0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00];
/// id-pkix-ocsp-nonce (section 4.4.1).
const NONCE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x02];

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
pub(super) struct Validity {
    /// The start of validity (`thisUpdate`), in seconds since 1970.
    pub(super) begins: i64,
    /// The time of the next response (`nextUpdate`); `None`: newer information may appear at any time.
    pub(super) ends: Option<i64>,
}

/// The reason why a certificate is not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StatusFailure {
    /// The authority says that it is revoked.
    Revoked,
    /// There is no response that counts, for this reason.
    Unknown(String),
}

impl From<&str> for StatusFailure {
    fn from(why: &str) -> StatusFailure {
        StatusFailure::Unknown(why.into())
    }
}

impl From<StatusFailure> for String {
    fn from(bad: StatusFailure) -> String {
        match bad {
            StatusFailure::Revoked => "the certificate has been revoked".into(),
            StatusFailure::Unknown(why) => why,
        }
    }
}

/// Who may sign a response.
pub(super) struct Signers<'a> {
    /// The authority that has issued the certificate.
    pub(super) issuer: &'a CertificateDer<'a>,
    /// Further responders that are trusted.
    pub(super) trusted: &'a [CertificateDer<'static>],
    /// Whether anybody may sign whose certificate comes with the response.
    pub(super) is_anybody: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

/// The parts of a response that its signature is about.
pub(super) struct Signed<'r> {
    data: &'r [u8],
    signature: &'r [u8],
    /// The certificates that came with it.
    certificates: &'r [u8],
    nonce: Option<&'r [u8]>,
}

/// What a response says about a certificate, and the response's extensions.
type Entry<'r> = (Result<Validity, StatusFailure>, Option<&'r [u8]>);

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

    /// The request in DER (section 4.1.1), with this nonce if there is one.
    pub(super) fn request(&self, nonce: Option<&[u8]>) -> Vec<u8> {
        // Nested around the id, from the inside out: Request, requestList.
        let list = (0..2).fold(self.id.clone(), |inner, _| value(SEQUENCE, &[&inner]));
        let extensions = nonce.map_or_else(Vec::new, |nonce| {
            let nonce = value(OCTETS, &[&value(OCTETS, &[nonce])]);
            let extension = value(SEQUENCE, &[&value(OID, &[NONCE]), &nonce]);
            value(0xa2, &[&value(SEQUENCE, &[&extension])])
        });
        // TBSRequest, OCSPRequest.
        value(SEQUENCE, &[&value(SEQUENCE, &[&list, &extensions])])
    }

    /// Parses a response (section 4.2.1). `Err`: why it cannot be used.
    pub(super) fn read<'r>(&self, response: &'r [u8]) -> Result<(Validity, Signed<'r>), StatusFailure> {
        const BROKEN: &str = "a response that cannot be read";
        let mut outer = whole(response, SEQUENCE).ok_or(BROKEN)?;
        match take(&mut outer).ok_or(BROKEN)? {
            (BOOLEAN_OR_ENUM, [0]) => {}
            (BOOLEAN_OR_ENUM, [status]) => {
                return Err(StatusFailure::Unknown(format!("the responder says {}", status_name(*status))));
            }
            _ => return Err(BROKEN.into()),
        }
        let basic = basic(outer).ok_or(BROKEN)?;
        let (validity, extensions) = self.single(basic).ok_or("a response that is not about this certificate")?;
        Ok((validity?, Signed { nonce: extensions.and_then(nonce), ..signed(basic).ok_or(BROKEN)? }))
    }

    /// The entry for this certificate in a response, and the response's extensions.
    fn single<'r>(&self, mut basic: &'r [u8]) -> Option<Entry<'r>> {
        let mut data = take(&mut basic)?.1;
        let mut responses = loop {
            // The fields before the entries: version, responder, time.
            match take(&mut data)? {
                (SEQUENCE, responses) => break responses,
                _ => continue,
            }
        };
        let extensions = take(&mut data).filter(|(tag, _)| *tag == 0xa1).map(|(_, extensions)| extensions);
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
            let validity = match status & 0x1f {
                0 => Ok(Validity { begins, ends }),
                1 => Err(StatusFailure::Revoked),
                _ => Err("the responder does not know the certificate".into()),
            };
            return Some((validity, extensions));
        }
        None
    }
}

/// The content of the `BasicOCSPResponse` in a response.
fn basic(mut rest: &[u8]) -> Option<&[u8]> {
    let mut bytes = whole(take(&mut rest)?.1, SEQUENCE)?;
    take(&mut bytes)?; // The response type: there is only one.
    whole(take(&mut bytes)?.1, SEQUENCE)
}

/// Splits it into its parts.
fn signed(mut basic: &[u8]) -> Option<Signed<'_>> {
    let start = basic;
    take(&mut basic)?;
    let data = &start[..start.len() - basic.len()];
    take(&mut basic)?; // The algorithm: the key decides which ones are tried.
    let (BITS, [0, signature @ ..]) = take(&mut basic)? else { return None };
    let certificates = match take(&mut basic) {
        Some((0xa0, list)) => whole(list, SEQUENCE)?,
        _ => &[],
    };
    Some(Signed { data, signature, certificates, nonce: None })
}

/// The nonce among the extensions of a response.
fn nonce(extensions: &[u8]) -> Option<&[u8]> {
    let mut all = whole(extensions, SEQUENCE)?;
    while let Some((SEQUENCE, mut one)) = take(&mut all) {
        if take(&mut one)? == (OID, NONCE) {
            // A flag that it is critical may come first.
            let value = std::iter::from_fn(|| take(&mut one)).find(|(tag, _)| *tag == OCTETS)?.1;
            return whole(value, OCTETS);
        }
    }
    None
}

impl Validity {
    /// The end of the time for which a response counts, given a tolerated difference of the clocks and a maximum age.
    pub(super) fn until(&self, now: i64, skew: i64, max_age: Option<i64>) -> Result<i64, String> {
        if self.begins > now.saturating_add(skew) {
            return Err("it is not valid yet: compare the clocks".into());
        }
        let ends = self.ends.map_or(i64::MAX, |ends| ends.saturating_add(skew));
        let ends = ends.min(max_age.map_or(i64::MAX, |age| self.begins.saturating_add(age)));
        if ends <= now { Err("it is too old".into()) } else { Ok(ends) }
    }
}

impl Signed<'_> {
    /// Whether the response answers the request with this nonce.
    pub(super) fn has_nonce(&self, nonce: &[u8]) -> bool {
        self.nonce == Some(nonce)
    }

    /// Checks that somebody has signed it who may (section 4.2.2.2). `Err`: why nobody has.
    pub(super) fn verify(&self, signers: &Signers<'_>, now: i64) -> Result<(), String> {
        let has_signed = |signer: &X509Certificate<'_>| {
            is_signed(signer.public_key().raw, self.data, self.signature, signers.algorithms)
        };
        let broken = || "the issuer's certificate cannot be read".to_string();
        let (_, issuer) = X509Certificate::from_der(signers.issuer).map_err(|_| broken())?;
        if has_signed(&issuer) {
            return Ok(());
        }
        let mut trusted = signers.trusted.iter().filter_map(|der| X509Certificate::from_der(der).ok());
        if trusted.any(|(_, one)| has_signed(&one)) {
            return Ok(());
        }
        let mut rest = self.certificates;
        while let Ok((after, one)) = X509Certificate::from_der(rest) {
            rest = after;
            if has_signed(&one) {
                return if signers.is_anybody { Ok(()) } else { is_appointed(&one, &issuer, signers.algorithms, now) };
            }
        }
        Err("its signature is not the authority's".into())
    }
}

/// Whether an authority has appointed a responder: it has issued its certificate, for this purpose.
fn is_appointed(
    one: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    algorithms: WebPkiSupportedAlgorithms,
    now: i64,
) -> Result<(), String> {
    let (message, signature) = (one.tbs_certificate.as_ref(), &one.signature_value.data);
    let is_issued = one.issuer().as_raw() == issuer.subject().as_raw()
        && is_signed(issuer.public_key().raw, message, signature, algorithms);
    if !is_issued {
        return Err("it is signed by a responder whose certificate the authority has not issued".into());
    }
    if !one.extended_key_usage().ok().flatten().is_some_and(|usage| usage.value.ocsp_signing) {
        return Err("it is signed with a certificate that is not for signing responses (id-kp-OCSPSigning)".into());
    }
    let validity = one.validity();
    match (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now) {
        true => Ok(()),
        false => Err("it is signed by a responder whose certificate has expired or is not valid yet".into()),
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
        let read = |response: &[u8]| question.read(response).map(|(validity, _)| validity);
        assert_eq!(read(&response(&question, 0, &next)), Ok(Validity { begins, ends: Some(begins + 3600) }));
        assert_eq!(read(&response(&question, 0, &[])), Ok(Validity { begins, ends: None }));
        assert_eq!(read(&response(&question, 1, &next)), Err(StatusFailure::Revoked));
        let other = Question { id: value(SEQUENCE, &[SHA1, b"\x02\x01\x06"]), url: None };
        assert!(read(&response(&other, 0, &next)).is_err());
        assert_eq!(read(b"\x30\x03\x0a\x01\x03"), Err("the responder says tryLater".into()));
        let whole = response(&question, 0, &next);
        (0..whole.len()).for_each(|end| assert!(read(&whole[..end]).is_err()));
    }

    #[test]
    fn responses_age() {
        let (now, validity) = (1_000_000, |begins, ends| Validity { begins, ends });
        for (validity, skew, max_age, until) in [
            (validity(now, None), 0, None, Some(i64::MAX)),
            (validity(now, Some(now + 4)), 0, None, Some(now + 4)),
            (validity(now - 9, Some(now)), 0, None, None),
            (validity(now - 9, Some(now)), 300, None, Some(now + 300)),
            (validity(now + 300, None), 300, None, Some(i64::MAX)),
            (validity(now + 301, None), 300, None, None),
            (validity(now - 9, Some(now + 99)), 0, Some(10), Some(now + 1)),
            (validity(now - 10, Some(now + 99)), 0, Some(10), None),
        ] {
            assert_eq!(validity.until(now, skew, max_age).ok(), until, "{validity:?} {skew} {max_age:?}");
        }
    }

    /// The nonce goes where a responder looks for it, and comes back.
    #[test]
    fn nonces() {
        let question = Question { id: value(SEQUENCE, &[SHA1, b"\x02\x01\x05"]), url: None };
        let plain = question.request(None);
        let with = question.request(Some(b"number used once"));
        assert_eq!(
            plain,
            value(SEQUENCE, &[&value(SEQUENCE, &[&value(SEQUENCE, &[&value(SEQUENCE, &[&question.id])])])])
        );
        let tbs = whole(whole(&with, SEQUENCE).expect("OCSPRequest"), SEQUENCE).expect("TBSRequest");
        let mut rest = tbs;
        take(&mut rest);
        let (tag, extensions) = take(&mut rest).expect("extensions");
        assert_eq!((tag, nonce(extensions)), (0xa2, Some(&b"number used once"[..])));
        assert_eq!(nonce(b""), None);
    }
}
