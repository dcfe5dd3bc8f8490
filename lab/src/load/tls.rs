//! TLS as a client speaks it: translates our options into rustls's. The cryptography is aws-lc's, as fast as OpenSSL's,
//! so that the servers are the bottleneck.

mod certificate;
mod names;
mod verification;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, CommonState, ProtocolVersion, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

use crate::machine::error::{Context as _, Error, Result};
use verification::{AnyCertificate, TrustedCertificates};

/// The number of servers whose sessions are stored; there is only one. A TLS 1.3 ticket is used once, as in browsers.
const SERVERS: usize = 8;

/// Where systems keep the certificates of their authorities.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The options of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tls {
    /// The expected server, by name or address.
    pub(crate) name: String,
    /// Whether to send the name (SNI); addresses are never sent.
    pub(crate) tells_name: bool,
    /// Whether connections resume earlier sessions.
    pub(crate) resumes: bool,
    pub(crate) versions: Versions,
    /// Suites in OpenSSL's words, by preference; all by default.
    pub(crate) suites: Option<String>,
    /// Groups of key exchange, by preference; X25519, P-256 and P-384 by default.
    pub(crate) groups: Option<String>,
    /// Protocols to choose from (ALPN).
    pub(crate) protocols: Vec<String>,
    pub(crate) trust: Trust,
    /// A file with our own certificate, its chain, and its key.
    pub(crate) identity: Option<PathBuf>,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Versions {
    Both,
    Only12,
    Only13,
}

/// The trusted certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trust {
    /// Any: nothing is verified, not even that the server has the key.
    Any,
    /// Certificates that the machine trusts.
    System,
    /// Certificates signed by the certificates in a file.
    File(PathBuf),
}

impl Versions {
    fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Both => vec![&TLS13, &TLS12],
            Self::Only12 => vec![&TLS12],
            Self::Only13 => vec![&TLS13],
        }
    }
}

/// The data from which connections are made.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// The options for a server of this name: everything as usual, and nothing verified.
    pub(crate) fn to(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            tells_name: true,
            resumes: true,
            versions: Versions::Both,
            suites: None,
            groups: None,
            protocols: Vec::new(),
            trust: Trust::Any,
            identity: None,
        }
    }

    /// The data for connections, which share its sessions.
    ///
    /// # Errors
    /// A file cannot be read, the name is invalid, or no suites or groups are left.
    pub(crate) fn client(&self) -> Result<Client> {
        let provider = CryptoProvider {
            cipher_suites: names::suites(self.suites.as_deref())?,
            kx_groups: names::groups(self.groups.as_deref())?,
            ..aws_lc_rs::default_provider()
        };
        let schemes = provider.signature_verification_algorithms.supported_schemes();
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(&self.versions.supported());
        let builder = builder.context(|| "choose versions and suites of TLS".to_owned())?;
        let builder = match self.trust.certificates()? {
            Some(certificates) => {
                let verifier = TrustedCertificates::new(provider, certificates)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate { schemes })),
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let chain = certificates(path)?;
                let key = PrivateKeyDer::from_pem_file(path).context(|| format!("read a key in {}", path.display()))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .context(|| format!("use the certificate and key in {}", path.display()))?
            }
        };
        config.enable_sni = self.tells_name;
        config.alpn_protocols = self.protocols.iter().map(|name| name.clone().into_bytes()).collect();
        config.resumption = if self.resumes { Resumption::in_memory_sessions(SERVERS) } else { Resumption::disabled() };
        let name = ServerName::try_from(self.name.clone());
        let name = name.map_err(|_| Error::new(format!("{:?} is not a server name", self.name)))?;
        Ok(Client { config: Arc::new(config), name })
    }
}

impl Trust {
    /// The trusted certificates, or those of their signers; `None` if any is trusted.
    fn certificates(&self) -> Result<Option<Vec<CertificateDer<'static>>>> {
        let path = match self {
            Self::Any => return Ok(None),
            Self::File(path) => path,
            Self::System => AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
                Error::new("this machine has no trusted certificates")
                    .advise("apt-get install ca-certificates, or --cacert FILE")
            })?,
        };
        match certificates(path)? {
            none if none.is_empty() => Err(Error::new(format!("{} has no certificate in it", path.display()))),
            some => Ok(Some(some)),
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    all.context(|| format!("read certificates in {}", path.display()))
}

/// The result of a handshake, in OpenSSL's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agreed {
    /// `TLSv1.3`.
    pub(crate) version: String,
    pub(crate) suite: String,
    /// The sizes of the server's key, and of the encryption key, in bits.
    pub(crate) key_bits: u32,
    pub(crate) secret_bits: u32,
    /// The group of the key exchange and its bits; a resumed session may have none.
    pub(crate) group: Option<String>,
}

impl Agreed {
    /// The parameters of a connection whose handshake is complete.
    pub(crate) fn of(connection: &CommonState) -> Option<Self> {
        let suite = connection.negotiated_cipher_suite()?;
        let (name, secret_bits) = names::of_suite(suite.suite());
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLSv1.2",
        };
        Some(Self {
            version: version.to_owned(),
            suite: name,
            key_bits: certificate.and_then(|certificate| certificate::key_bits(certificate)).unwrap_or(0),
            secret_bits,
            group: connection.negotiated_key_exchange_group().map(|group| names::of_group(group.name())),
        })
    }
}
