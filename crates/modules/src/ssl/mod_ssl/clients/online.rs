//! Asks OCSP responders about clients' certificates (`SSLOCSPEnable`). Without a response that says "good", the client is
//! refused.

use std::time::Duration;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::files;
use crate::ssl::mod_ssl::ocsp::{Question, Signers, StatusFailure};
use crate::ssl::mod_ssl::responder;
use crate::ssl::mod_ssl::settings::SslServer;
use crate::ssl::mod_ssl::values::{CertificateCheck, CheckDepth};

/// The size of a nonce, in bytes (RFC 8954 section 2.1).
const NONCE: usize = 32;

/// How responders are asked.
#[derive(Debug)]
pub(super) struct Online {
    pub(super) check: CertificateCheck,
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
        let check = server.ocsp_enable.value_or(unasked);
        if check.depth == CheckDepth::None {
            return Ok(None);
        }
        let of_file = |file: &String| files::certificates_of("SSLOCSPResponderCertificateFile", file);
        let trusted = server.ocsp_responder_certificate_file.get().map(of_file).transpose()?;
        Ok(Some(Online {
            check,
            responder: server.ocsp_default_responder.get().cloned(),
            overrides: server.ocsp_override_responder.value_or(false),
            timeout: Duration::from_secs(server.ocsp_responder_timeout.value_or(10).into()),
            skew: server.ocsp_time_skew.value_or(300).into(),
            max_age: server.ocsp_max_age.get().map(|age| i64::from(*age)),
            has_nonce: server.ocsp_request_nonce.value_or(true),
            is_anybody: server.ocsp_no_verify.value_or(false),
            trusted: trusted.unwrap_or_default(),
            proxy: server.ocsp_proxy_url.get().cloned(),
        }))
    }

    /// Asks about a certificate. `Err`: it is not good, or nobody says that it is.
    pub(super) async fn check_status(
        &self,
        one: &CertificateDer<'_>,
        issuer: &CertificateDer<'_>,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<(), StatusFailure> {
        let question = Question::new(one, issuer).ok_or("AH01921: could not retrieve certificate id")?;
        let own = question.url.as_ref().filter(|_| !self.overrides || self.responder.is_none());
        let Some(url) = own.or(self.responder.as_ref()) else {
            let text = "AH01918: no OCSP responder specified in certificate and no default configured";
            return if self.check.unknown_is_good { Ok(()) } else { Err(text.into()) };
        };
        let nonce: Option<[u8; NONCE]> = self.has_nonce.then(sys::random::bytes);
        let request = question.request(nonce.as_ref().map(<[u8; NONCE]>::as_slice));
        let failed = |why: String| StatusFailure::Unknown(format!("{url}: {why}"));
        let response =
            responder::status_of(url, &request, self.timeout, self.proxy.as_deref()).await.map_err(failed)?;
        let now = UnixTime::now().as_secs().cast_signed();
        let (validity, signed) = question.read(&response)?;
        if nonce.is_some_and(|nonce| !signed.has_nonce(&nonce)) {
            return Err("AH01924: Bad OCSP responder answer (bad nonce)".into());
        }
        let (trusted, is_anybody) = (&self.trusted[..], self.is_anybody);
        let verified = signed.verify(&Signers { issuer, trusted, is_anybody, algorithms }, now);
        verified.map_err(|why| {
            StatusFailure::Unknown(format!("AH01925: failed to verify the OCSP response: {url}: {why}"))
        })?;
        validity.until(now, self.skew, self.max_age).map(|_| ()).map_err(failed)
    }
}
