//! A client that asks whether a server with a certain configuration is well: it trusts that configuration's own certificates.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use server::module::Duplex;
use server::{Server, VirtualHost};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::certificates::certificates;
use super::context;
use super::settings::SslServer;
use crate::trusted;

/// Encrypts a connection to a server that should have this configuration. The handshake is made when something is said.
///
/// The server's certificate has to be one that the system trusts, or one of the configuration's own that has not expired. It
/// has to be for the name `host`; if that is an address, each of the configuration's own will do.
pub(super) fn connect(stream: Box<dyn Duplex>, host: &str, server: &Server) -> io::Result<Box<dyn Duplex>> {
    let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
    let provider = trusted::provider();
    let system = WebPkiServerVerifier::builder_with_provider(Arc::new(trusted::system_roots()), provider.clone());
    // A system may trust nobody.
    let verifier = Verifier { own: own(server), system: system.build().ok(), provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let client = ClientConnection::new(Arc::new(config.with_no_client_auth()), name).map_err(io::Error::other)?;
    Ok(Box::new(StreamOwned::new(client, stream)))
}

/// The certificates that a server with this configuration may show. The files are read even if their keys may not be.
fn own(server: &Server) -> Vec<CertificateDer<'static>> {
    let of = |host: &VirtualHost| {
        let files = host.settings.get::<SslServer>().certificate_files.get().into_iter().flatten();
        let read = files.filter_map(|file| std::fs::read(server::paths::os_path(&file.path)).ok());
        let first = read.filter_map(|text| certificates(&text).ok()?.into_iter().next());
        let managed = context::of(host).map(|context| context.choice.current());
        let managed = managed.iter().flat_map(|all| all.iter()).filter_map(|one| one.cert.first().cloned());
        first.chain(managed).collect::<Vec<_>>()
    };
    server.hosts.iter().flat_map(of).collect()
}

/// Trusts the configuration's own certificates, and those that the system trusts.
#[derive(Debug)]
struct Verifier {
    own: Vec<CertificateDer<'static>>,
    system: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.contains(certificate) {
            is_valid(certificate, now)?;
            if matches!(name, ServerName::DnsName(_)) {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match &self.system {
            Some(system) => system.verify_server_cert(certificate, chain, name, staple, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether this is a certificate's time.
fn is_valid(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let (validity, now) = (parsed.validity(), now.as_secs().cast_signed());
    match (validity.not_before.timestamp() <= now, now <= validity.not_after.timestamp()) {
        (false, _) => Err(CertificateError::NotValidYet),
        (_, false) => Err(CertificateError::Expired),
        _ => Ok(()),
    }
}
