//! The form in which OCSP responses are published, and the response for a certificate.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};

use super::published::{Part, Published};

/// The size of the digest that identifies a certificate, in bytes.
const DIGEST: usize = 32;

/// A published response, with the end of its validity and the time of the next request.
pub(super) struct Entry {
    pub(super) ends: i64,
    pub(super) next: i64,
    pub(super) response: Vec<u8>,
}

/// The published responses in a part, with the digests of their certificates.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], Entry);

    fn next(&mut self) -> Option<(&'a [u8], Entry)> {
        let (digest, rest) = self.0.split_at_checked(DIGEST)?;
        let (ends, rest) = rest.split_first_chunk::<8>()?;
        let (next, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (response, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        let (ends, next) = (i64::from_le_bytes(*ends), i64::from_le_bytes(*next));
        Some((digest, Entry { ends, next, response: response.to_vec() }))
    }
}

/// The published response for a certificate of a virtual host.
pub(super) fn response_for(certificate: &[u8], part: &Part) -> Option<Vec<u8>> {
    let wanted = digest(&SHA256, certificate);
    Entries(&part.bytes).find(|(known, _)| *known == wanted.as_ref()).map(|(_, entry)| entry.response)
}

/// The published responses, by the digests of their certificates.
pub(super) fn known(published: &Published, count: usize) -> BTreeMap<Vec<u8>, Entry> {
    let parts: Vec<_> = (0..count).filter_map(|host| published.part(host)).collect();
    let entries = parts.iter().flat_map(|(_, part)| Entries(&part.bytes));
    entries.map(|(digest, entry)| (digest.to_vec(), entry)).collect()
}

/// Appends a response to a part.
pub(super) fn append(bytes: &mut Vec<u8>, digest: &[u8], (ends, next): (i64, i64), response: &[u8]) {
    bytes.extend_from_slice(digest);
    bytes.extend_from_slice(&ends.to_le_bytes());
    bytes.extend_from_slice(&next.to_le_bytes());
    bytes.extend_from_slice(&(response.len() as u32).to_le_bytes());
    bytes.extend_from_slice(response);
}
