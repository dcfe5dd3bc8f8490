//! From the settings of connections to what they are made with.

use std::sync::Arc;

use conf::{Level, Setting};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use upstream::TlsSettings;

use super::machine::Machines;
use super::material::Material;
use super::peer::Checks;
use super::verifier::Servers;
use crate::ssl::mod_ssl::clients::{Current, Judge, List, Side};
use crate::ssl::mod_ssl::context::{at, note_missing, versions};
use crate::ssl::mod_ssl::settings::{SslProxy, VERIFY_DEPTH};
use crate::ssl::mod_ssl::suites;
use crate::ssl::mod_ssl::values::{CertificateCheck, CheckDepth, Protocols, Verify};

/// Makes what connections with these settings need. `Err`: why there can be none. `host`: the name of the virtual host.
pub(super) fn make(
    settings: &SslProxy,
    material: &Material,
    host: &str,
    notes: &mut Vec<(Level, String)>,
) -> Result<TlsSettings, String> {
    let asked = settings.protocols.value_or(Protocols::DEFAULT);
    let mut versions = versions(asked, &settings.protocols, notes)?;
    let provider = Arc::new(provider(settings, notes));
    versions.retain(|version| provider.cipher_suites.iter().any(|suite| suite.version() == *version));
    let bad = |why: String| format!("AH01898: Unable to configure permitted SSL ciphers{why}");
    if versions.is_empty() {
        let origin = settings.cipher_suites.origin().or(settings.tls13_cipher_suites.origin());
        return Err(bad(format!("{}: none of them is offered here", at(origin))));
    }
    let algorithms = provider.signature_verification_algorithms;
    let judge = judge(settings, material, host, notes)?;
    let is_judged = judge.is_some();
    let machines = Machines(material.machines(settings)?);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| bad(format!(": {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Servers { judge, algorithms }))
        .with_client_cert_resolver(Arc::new(machines));
    if is_judged {
        // Nobody judges the chain of a resumed session again, and it may have expired since.
        config.resumption = Resumption::disabled();
    }
    let checks = Checks::new(settings);
    Ok(TlsSettings::new(config, Box::new(move |certificates, name| checks.check(certificates, name))))
}

/// What chains are judged by; `None`: any is accepted.
fn judge(
    settings: &SslProxy,
    material: &Material,
    host: &str,
    notes: &mut Vec<(Level, String)>,
) -> Result<Option<Judge>, String> {
    let mode = settings.verify.value_or(Verify::None);
    let check =
        settings.revocation_check.value_or(CertificateCheck { depth: CheckDepth::None, unknown_is_good: false });
    let lists = match check.depth {
        CheckDepth::None => {
            if settings.revocation_file.is_set() || settings.revocation_path.is_set() {
                let text = "X.509 CRL storage locations configured, but CRL checking (SSLProxyCARevocationCheck) is not enabled";
                notes.push((Level::Warn, format!("AH01902: Host {host}: {text}")));
            }
            Vec::new()
        }
        _ if !settings.revocation_file.is_set() && !settings.revocation_path.is_set() => {
            let at = at(settings.revocation_check.origin());
            return Err(format!(
                "AH01899: Host {host}: CRL checking has been enabled{at}, but neither SSLProxyCARevocationFile nor \
                 SSLProxyCARevocationPath is configured"
            ));
        }
        _ => material.lists(settings)?,
    };
    // Even if nobody uses them, they have to be in order.
    let trusted = material.authorities(settings)?;
    let lists: Result<Vec<List>, String> = lists.into_iter().map(List::read).collect();
    let lists = Current::new(0, lists?);
    if mode == Verify::None {
        return Ok(None);
    }
    if trusted.is_empty() {
        let at = at(settings.verify.origin());
        let text = format!("SSLProxyVerify{at} accepts no server: no CAs are known (SSLProxyCACertificateFile)");
        notes.push((Level::Warn, text));
    }
    let depth = settings.verify_depth.value_or(VERIFY_DEPTH) as usize;
    let mut judge = Judge::new(Side::Server, trusted, depth, check, lists)?;
    judge.tolerates_strangers = mode == Verify::OptionalNoCa;
    Ok(Some(judge))
}

/// The cipher suites and key exchange groups.
fn provider(settings: &SslProxy, notes: &mut Vec<(Level, String)>) -> CryptoProvider {
    let list = |setting: &Setting<String>| setting.get().cloned();
    let old = list(&settings.cipher_suites).unwrap_or_else(|| "DEFAULT".into());
    let (old, missing) = suites::tls12(&old);
    note_missing("suite", &missing, settings.cipher_suites.origin(), notes);
    if old.is_empty() {
        let at = at(settings.cipher_suites.origin());
        notes.push((
            Level::Warn,
            format!("SSLProxyCipherSuite{at}: no suite of TLS 1.2 is left, so TLS 1.2 is not offered"),
        ));
    }
    let new = match list(&settings.tls13_cipher_suites) {
        None => suites::all_tls13(),
        Some(list) => {
            let (new, missing) = suites::tls13(&list);
            note_missing("suite", &missing, settings.tls13_cipher_suites.origin(), notes);
            new
        }
    };
    let cipher_suites = new.into_iter().chain(old).collect();
    CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() }
}
