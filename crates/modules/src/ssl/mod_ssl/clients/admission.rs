//! Decides about a client whose handshake is complete, before anything is served: its certificate may have to be taken
//! away, or responders asked about it.

use conf::Level;
use rustls::AlertDescription;
use rustls::pki_types::{CertificateDer, UnixTime};
use server::tls::{Admission, Admitted, Verdict};
use server::{Server, Session};

use super::online::Online;
use super::parse::parse;
use super::requirements::Clients;
use super::verifier::{describe, verification_failed};
use crate::ssl::mod_ssl::context;
use crate::ssl::mod_ssl::ocsp::StatusFailure;
use crate::ssl::mod_ssl::values::CheckDepth;

/// Decides about a client whose handshake is complete. `None`: nothing is left to decide.
pub(in super::super) fn admit(server: &Server, session: &mut Session) -> Option<Admission> {
    if session.client_chain.is_empty() {
        return None;
    }
    let host = server.hosts.get(session.host)?;
    let clients = context::of(host)?.clients.clone()?;
    if clients.is_for_sections && clients.judge.judge(&session.client_chain, UnixTime::now()).is_err() {
        // Nothing may take it for a certificate that was verified.
        session.client_chain.clear();
        return None;
    }
    let (online, chain) = (clients.online.clone()?, session.client_chain.clone());
    Some(Box::pin(async move { decide(&clients, &online, &chain).await }))
}

/// Asks about a client's certificate and those above it.
async fn decide(clients: &Clients, online: &Online, chain: &[CertificateDer<'static>]) -> Admitted {
    let mut remarks = Vec::new();
    let (depth, bad) = match all_good(clients, online, chain).await {
        Ok(()) => {
            remarks.push((Level::Debug, "AH03239: OCSP validation completed, certificate status: good".into()));
            return Admitted { remarks, verdict: Verdict::Welcome };
        }
        Err(found) => found,
    };
    let (alert, code, words) = match bad {
        StatusFailure::Revoked => (AlertDescription::CertificateRevoked, 23, "certificate revoked"),
        StatusFailure::Unknown(why) => {
            remarks.push((Level::Error, why));
            (AlertDescription::HandshakeFailure, 50, "application verification failure")
        }
    };
    let about = clients.judge.climb(chain).get(depth).and_then(|der| parse(der)).map(|one| describe(&one));
    let (level, number) = verification_failed();
    let text = format!("Certificate Verification: Error ({code}): {words}");
    remarks.push((level, format!("{number}: {text}{}", about.unwrap_or_default())));
    let verdict = match clients.is_for_sections {
        true => Verdict::Anonymous,
        false => Verdict::Refused(alert, words.into()),
    };
    Admitted { remarks, verdict }
}

/// Whether the responders call all certificates good. `Err`: the depth of the first that is not.
async fn all_good(
    clients: &Clients,
    online: &Online,
    chain: &[CertificateDer<'_>],
) -> Result<(), (usize, StatusFailure)> {
    let line = clients.judge.verify(chain, UnixTime::now()).map_err(|failure| {
        let text = "AH02038: cannot perform OCSP validation for cert if issuer has not been verified (optional_no_ca \
                    configured)";
        (failure.depth, text.into())
    })?;
    let count = if online.check.depth == CheckDepth::Leaf { 1 } else { line.len() };
    for (depth, pair) in line.windows(2).enumerate().take(count) {
        online.check_status(&pair[0], &pair[1], clients.judge.algorithms).await.map_err(|bad| (depth, bad))?;
    }
    Ok(())
}
