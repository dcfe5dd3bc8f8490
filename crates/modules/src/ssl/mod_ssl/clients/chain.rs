//! Builds the chain from a certificate to a root, and finds the reason if there is none.

use rustls::pki_types::{CertificateDer, UnixTime};
use server::tls::Trust;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::X509Version;

use super::failure::{Failure, Reason};
use super::judge::{Judge, Root, Side};
use super::lists::Lists;
use super::parse::{is_self_issued, is_signed, parse, valid};
use crate::ssl::mod_ssl::values::CheckDepth;

impl Judge {
    /// Judges a certificate, which came with the other certificates in `chain`.
    pub(in super::super) fn judge(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Trust, Failure> {
        match self.verify(chain, now) {
            Ok(line) => Ok(Trust { flaw: None, depth: line.len() - 1 }),
            Err(failure) if self.tolerates_strangers && failure.reason.is_optional() => {
                for (depth, der) in chain.iter().enumerate() {
                    let certificate = parse(der).ok_or(Failure { reason: Reason::BadEncoding, depth })?;
                    in_time(valid(&certificate), now, depth)?;
                    if depth == 0 {
                        is_for(self.side, &certificate)?;
                    }
                }
                // OpenSSL continues, and has another message for a lone certificate.
                let is_alone = failure == Failure { reason: Reason::NoLocalIssuer, depth: 0 };
                let flaw = if is_alone { Reason::Unverifiable } else { failure.reason };
                Ok(Trust { flaw: Some(flaw.codes().1), depth: chain.len() - 1 })
            }
            Err(failure) => Err(failure),
        }
    }

    /// A certificate and those above it, up to the root.
    pub(super) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let broken = Failure { reason: Reason::BadEncoding, depth: 0 };
        let (first, sent) = chain.split_first().ok_or(broken)?;
        let leaf = parse(first).ok_or(broken)?;
        let lists = self.lists();
        let itself = self.roots.iter().find(|root| root.der == *first);
        let line = if let Some(root) = itself {
            in_time(valid(&leaf), now, 0)?;
            self.not_revoked(0, &leaf, (&root.subject, &root.key), &lists, now)?;
            vec![root.der.clone()]
        } else if leaf.version() == X509Version::V1 {
            let root = self.issuing_root(&leaf, now)?;
            self.not_revoked(0, &leaf, (&root.subject, &root.key), &lists, now)?;
            vec![first.clone().into_owned(), root.der.clone()]
        } else {
            self.path(chain, sent, &lists, now)?
        };
        is_for(self.side, &leaf)?;
        match line.len() - 1 {
            depth if depth > self.depth => Err(Failure { reason: Reason::TooLong, depth }),
            _ => Ok(line),
        }
    }

    /// The chain as webpki finds it.
    fn path(
        &self,
        chain: &[CertificateDer<'_>],
        sent: &[CertificateDer<'_>],
        lists: &Lists,
        now: UnixTime,
    ) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let failed = |error: &webpki::Error| self.explain(error.into(), chain, now);
        let leaf = EndEntityCert::try_from(&chain[0]).map_err(|error| failed(&error))?;
        let more: Vec<CertificateDer<'_>> = sent.iter().chain(&self.others).cloned().collect();
        let modern: Vec<&CertRevocationList<'_>> = lists.modern().collect();
        // Where there are lists that webpki does not know, it cannot tell whether something is missing.
        let has_old = modern.len() < lists.all.len();
        let revocation = match self.check.depth {
            CheckDepth::None => None,
            _ if modern.is_empty() && has_old => None,
            depth => {
                let missing = Failure { reason: Reason::NoList, depth: 0 };
                let options = RevocationOptionsBuilder::new(&modern).map_err(|_| missing)?;
                let depth = if depth == CheckDepth::Leaf {
                    RevocationCheckDepth::EndEntity
                } else {
                    RevocationCheckDepth::Chain
                };
                let policy = match self.check.unknown_is_good || has_old {
                    true => UnknownStatusPolicy::Allow,
                    false => UnknownStatusPolicy::Deny,
                };
                Some(
                    options
                        .with_depth(depth)
                        .with_status_policy(policy)
                        .with_expiration_policy(ExpirationPolicy::Enforce)
                        .build(),
                )
            }
        };
        let usage = self.side.usage();
        let path = leaf.verify_for_usage(self.algorithms.all, &self.anchors, &more, now, usage, revocation, None);
        let path = path.map_err(|error| failed(&error))?;
        let between = path.intermediate_certificates().map(|one| one.der().into_owned());
        let mut line: Vec<_> = std::iter::once(chain[0].clone().into_owned()).chain(between).collect();
        let (depth, anchor) = (line.len(), self.anchors.iter().position(|anchor| anchor == path.anchor()));
        let root = anchor.and_then(|index| self.roots.get(index)).ok_or(Failure { reason: Reason::NoIssuer, depth })?;
        in_time(root.valid, now, depth)?;
        line.push(root.der.clone());
        if has_old {
            self.none_revoked(&line, lists, now)?;
        }
        Ok(line)
    }

    /// Looks up the certificates of a whole line in all lists, webpki's included: it has checked those, but not whether
    /// there was one for each certificate.
    fn none_revoked(&self, line: &[CertificateDer<'_>], lists: &Lists, now: UnixTime) -> Result<(), Failure> {
        let parsed: Vec<_> = line.iter().filter_map(|der| parse(der)).collect();
        let count = if self.check.depth == CheckDepth::Leaf { 1 } else { parsed.len() };
        for (depth, pair) in parsed.windows(2).enumerate().take(count) {
            let issuer = &pair[1];
            let may_sign = issuer.key_usage().ok().flatten().is_none_or(|usage| usage.value.crl_sign());
            let key = if may_sign { issuer.public_key().raw } else { &[] };
            self.not_revoked(depth, &pair[0], (issuer.subject().as_raw(), key), lists, now)?;
        }
        Ok(())
    }

    /// Locates the flaw in the chain, in OpenSSL's terms; its first message is that a chain is incomplete.
    fn explain(&self, reason: Reason, chain: &[CertificateDer<'_>], now: UnixTime) -> Failure {
        let climbed: Vec<_> = self.climb(chain).into_iter().filter_map(|der| Some((der, parse(der)?))).collect();
        let Some((der, last)) = climbed.last() else { return Failure { reason, depth: 0 } };
        let depth = climbed.len() - 1;
        let issuer = last.issuer().as_raw();
        let is_known = self.roots.iter().any(|root| root.subject == issuer);
        let at_fault = |of: Reason| {
            let is_it = |(_, one): &(_, X509Certificate<'_>)| {
                in_time(valid(one), now, 0).is_err_and(|failure| failure.reason == of)
            };
            climbed.iter().position(is_it).unwrap_or(0)
        };
        match reason {
            Reason::BadEncoding => Failure { reason, depth: 0 },
            _ if !is_known && is_self_issued(last) && depth == 0 => Failure { reason: Reason::SelfSigned, depth },
            _ if !is_known && is_self_issued(last) => Failure { reason: Reason::SelfSignedInChain, depth },
            _ if !is_known && depth > 0 && self.others.contains(der) => Failure { reason: Reason::NoIssuer, depth },
            _ if !is_known => Failure { reason: Reason::NoLocalIssuer, depth },
            Reason::Expired | Reason::NotYetValid => Failure { reason, depth: at_fault(reason) },
            _ => Failure { reason, depth: 0 },
        }
    }

    /// A certificate and those above it, linked by name only, without checking signatures.
    pub(in super::super) fn climb<'c>(&'c self, chain: &'c [CertificateDer<'c>]) -> Vec<&'c CertificateDer<'c>> {
        let Some((first, sent)) = chain.split_first() else { return Vec::new() };
        let known: Vec<_> = self.others.iter().chain(sent).filter_map(|der| Some((der, parse(der)?))).collect();
        let mut climbed = vec![first];
        let mut last = parse(first);
        // Bounds the length, in case the chain is circular.
        while let Some(one) = last.filter(|one| !is_self_issued(one) && climbed.len() <= known.len()) {
            let issuer = one.issuer().as_raw();
            let Some((der, next)) = known.iter().find(|(_, one)| one.subject().as_raw() == issuer) else { break };
            climbed.push(der);
            last = Some(next.clone());
        }
        climbed
    }

    /// Verifies a version 1 certificate, which webpki rejects: a root must have issued it directly.
    fn issuing_root(&self, leaf: &X509Certificate<'_>, now: UnixTime) -> Result<&Root, Failure> {
        let issuer = leaf.issuer().as_raw();
        let mut roots = self.roots.iter().filter(|root| root.subject == issuer).peekable();
        if roots.peek().is_none() {
            let reason = if is_self_issued(leaf) { Reason::SelfSigned } else { Reason::NoLocalIssuer };
            return Err(Failure { reason, depth: 0 });
        }
        let (message, signature) = (leaf.tbs_certificate.as_ref(), &leaf.signature_value.data);
        let has_signed = |root: &&Root| is_signed(&root.key, message, signature, self.algorithms);
        let root = roots.find(has_signed).ok_or(Failure { reason: Reason::BadSignature, depth: 0 })?;
        in_time(root.valid, now, 1)?;
        in_time(valid(leaf), now, 0)?;
        Ok(root)
    }

    /// Looks up a certificate in the revocation lists of the authority with this name and key, if webpki has not done it.
    fn not_revoked(
        &self,
        depth: usize,
        one: &X509Certificate<'_>,
        (name, key): (&[u8], &[u8]),
        lists: &Lists,
        now: UnixTime,
    ) -> Result<(), Failure> {
        if self.check.depth == CheckDepth::None {
            return Ok(());
        }
        let failed = |reason| Err(Failure { reason, depth });
        let mut is_known = false;
        for list in lists.all.iter().filter(|list| list.is_signed_by(name, key, self.algorithms)) {
            if list.until.is_some_and(|until| until < now.as_secs().cast_signed()) {
                return failed(Reason::ListExpired);
            }
            if list.has(one.raw_serial()) {
                return failed(Reason::Revoked);
            }
            is_known |= list.is_whole;
        }
        if is_known || self.check.unknown_is_good { Ok(()) } else { failed(Reason::NoList) }
    }
}

/// Whether the key usage and extended key usage of a certificate allow clients, or servers.
fn is_for(side: Side, leaf: &X509Certificate<'_>) -> Result<(), Failure> {
    let (usage, purposes) = (leaf.key_usage().ok().flatten(), leaf.extended_key_usage().ok().flatten());
    let may_sign = usage.is_none_or(|usage| {
        let usage = usage.value;
        let may_encipher = side == Side::Server && usage.key_encipherment();
        usage.digital_signature() || usage.key_agreement() || may_encipher
    });
    let is_meant = purposes.is_none_or(|purposes| {
        let purposes = purposes.value;
        let own = match side {
            Side::Client => purposes.client_auth,
            Side::Server => purposes.server_auth,
        };
        own || purposes.any
    });
    if may_sign && is_meant { Ok(()) } else { Err(Failure { reason: Reason::WrongPurpose, depth: 0 }) }
}

/// Whether a time is within a certificate's validity.
fn in_time((start, end): (i64, i64), now: UnixTime, depth: usize) -> Result<(), Failure> {
    let now = now.as_secs().cast_signed();
    match now {
        now if now < start => Err(Failure { reason: Reason::NotYetValid, depth }),
        now if now > end => Err(Failure { reason: Reason::Expired, depth }),
        _ => Ok(()),
    }
}
