//! Asks OCSP responders about clients' certificates (`SSLOCSPEnable`), when the handshake is complete and nothing was
//! served yet. Without an answer that says "good", the client is refused.

use std::time::Duration;

use conf::Level;
use rustls::AlertDescription;
use rustls::pki_types::{CertificateDer, UnixTime};
use server::tls::{Admission, Admitted, Verdict};
use server::{Server, Session};

use super::{CheckDepth, Clients, describe, files, parse, verification_failed};
use crate::ssl::mod_ssl::ocsp::{Bad, Question, Signers};
use crate::ssl::mod_ssl::values::CertificateCheck;
use crate::ssl::mod_ssl::{SslServer, responder};

/// The size of a nonce, in bytes (RFC 8954 section 2.1).
const NONCE: usize = 32;

/// How responders are asked.
#[derive(Debug)]
pub(super) struct Online {
    check: CertificateCheck,
    responder: Option<String>,
    overrides: bool,
    timeout: Duration,
    skew: i64,
    max_age: Option<i64>,
    has_nonce: bool,
    /// Whether any responder may sign.
    is_anybody: bool,
    trusted: Vec<CertificateDer<'static>>,
    proxy: Option<String>,
}

impl Online {
    /// `None`: nobody is asked.
    pub(super) fn new(server: &SslServer) -> Result<Option<Online>, String> {
        let unasked = CertificateCheck { depth: CheckDepth::None, unknown_is_good: false };
        let check = server.ocsp_enable.or(unasked);
        if check.depth == CheckDepth::None {
            return Ok(None);
        }
        let of_file = |file: &String| files::certificates_of("SSLOCSPResponderCertificateFile", file);
        let trusted = server.ocsp_responder_certificate_file.get().map(of_file).transpose()?;
        Ok(Some(Online {
            check,
            responder: server.ocsp_default_responder.get().cloned(),
            overrides: server.ocsp_override_responder.or(false),
            timeout: Duration::from_secs(server.ocsp_responder_timeout.or(10).into()),
            skew: server.ocsp_time_skew.or(300).into(),
            max_age: server.ocsp_max_age.get().map(|age| i64::from(*age)),
            has_nonce: server.ocsp_request_nonce.or(true),
            is_anybody: server.ocsp_no_verify.or(false),
            trusted: trusted.unwrap_or_default(),
            proxy: server.ocsp_proxy_url.get().cloned(),
        }))
    }

    /// Asks about a certificate. `Err`: it is not good, or nobody says that it is.
    async fn ask(&self, one: &CertificateDer<'_>, issuer: &CertificateDer<'_>, clients: &Clients) -> Result<(), Bad> {
        let question = Question::new(one, issuer).ok_or("AH01921: could not retrieve certificate id")?;
        let own = question.url.as_ref().filter(|_| !self.overrides || self.responder.is_none());
        let Some(url) = own.or(self.responder.as_ref()) else {
            let text = "AH01918: no OCSP responder specified in certificate and no default configured";
            return if self.check.unknown_is_good { Ok(()) } else { Err(text.into()) };
        };
        let nonce: Option<[u8; NONCE]> = self.has_nonce.then(sys::random::bytes);
        let request = question.request(nonce.as_ref().map(<[u8; NONCE]>::as_slice));
        let failed = |why: String| Bad::Unknown(format!("{url}: {why}"));
        let response = responder::ask(url, &request, self.timeout, self.proxy.as_deref()).await.map_err(failed)?;
        let now = UnixTime::now().as_secs().cast_signed();
        let (answer, signed) = question.read(&response)?;
        if nonce.is_some_and(|nonce| !signed.has_nonce(&nonce)) {
            return Err("AH01924: Bad OCSP responder answer (bad nonce)".into());
        }
        let (trusted, is_anybody, algorithms) = (&self.trusted[..], self.is_anybody, clients.algorithms);
        let verified = signed.verify(&Signers { issuer, trusted, is_anybody, algorithms }, now);
        verified.map_err(|why| Bad::Unknown(format!("AH01925: failed to verify the OCSP response: {url}: {why}")))?;
        answer.until(now, self.skew, self.max_age).map(|_| ()).map_err(failed)
    }
}

/// Decides about a client whose handshake is complete. `None`: nothing is left to decide.
pub(in super::super) fn admit(server: &Server, session: &mut Session) -> Option<Admission> {
    if session.client_chain.is_empty() {
        return None;
    }
    let host = server.hosts.get(session.host)?;
    let clients = host.settings.get::<SslServer>().context.get()?.clients.clone()?;
    if clients.is_for_sections && clients.judge(&session.client_chain, UnixTime::now()).is_err() {
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
        Bad::Revoked => (AlertDescription::CertificateRevoked, 23, "certificate revoked"),
        Bad::Unknown(why) => {
            remarks.push((Level::Error, why));
            (AlertDescription::HandshakeFailure, 50, "application verification failure")
        }
    };
    let about = clients.climb(chain).get(depth).and_then(|der| parse(der)).map(|one| describe(&one));
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
async fn all_good(clients: &Clients, online: &Online, chain: &[CertificateDer<'_>]) -> Result<(), (usize, Bad)> {
    let line = clients.verify(chain, UnixTime::now()).map_err(|failure| {
        let text = "AH02038: cannot perform OCSP validation for cert if issuer has not been verified (optional_no_ca \
                    configured)";
        (failure.depth, text.into())
    })?;
    let count = if online.check.depth == CheckDepth::Leaf { 1 } else { line.len() };
    for (depth, pair) in line.windows(2).enumerate().take(count) {
        online.ask(&pair[0], &pair[1], clients).await.map_err(|bad| (depth, bad))?;
    }
    Ok(())
}
