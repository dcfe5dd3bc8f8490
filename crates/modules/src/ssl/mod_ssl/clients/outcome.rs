//! The result of verifying a client's certificate, for the requests on its connection.

use rustls::ProtocolVersion;
use rustls::pki_types::UnixTime;
use server::tls::Trust;
use server::{Request, Session};

use super::failure::Reason;
use crate::ssl::mod_ssl::context;

/// The result of verifying the client's certificate, in the form of `SSL_CLIENT_VERIFY`.
pub(in super::super) fn outcome(request: &Request, session: &Session) -> String {
    if session.client_chain.is_empty() {
        return "NONE".into();
    }
    match trust(request, session) {
        Some(Trust { flaw: None, .. }) => "SUCCESS".into(),
        // Measured with Apache: the result in TLS 1.3.
        Some(Trust { flaw: Some(words), .. }) if session.version == ProtocolVersion::TLSv1_3 => {
            format!("FAILED:{words}")
        }
        Some(_) => "GENEROUS".into(),
        None => format!("FAILED:{}", Reason::Other.codes().1),
    }
}

/// The trust in the client's certificate. The verification during the handshake keeps no result, so the first call
/// verifies the certificate again.
pub(in super::super) fn trust(request: &Request, session: &Session) -> Option<Trust> {
    *session.trust.get_or_init(|| {
        let host = request.server.hosts.get(session.host)?;
        let clients = context::of(host)?.clients.as_ref()?;
        clients.judge.judge(&session.client_chain, UnixTime::now()).ok()
    })
}
