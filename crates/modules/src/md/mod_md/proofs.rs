//! Proves control of the names of an order: selects the challenge, puts the response where the authority looks, and
//! removes it.

use instant_acme::{AuthorizationStatus, Challenge, ChallengeType, Identifier, Order, OrderStatus};

use super::acme::{Failed, OrderContext, refused, wait_for};
use super::client::Client;
use super::domains::Domain;
use super::keys::{self, KeyKind};
use super::notify;
use super::store::{HTTP01, TLS_ALPN01_CERTIFICATE, TLS_ALPN01_KEY};

/// A challenge response that is in place, and has to be removed when the order is over.
pub(super) struct Proof {
    name: String,
    kind: ChallengeType,
    /// The value for `dns-01`.
    value: String,
}

/// Proves control of all names of an order, and waits until the authority has checked them. A fast authority rejects a
/// proof in its response to the very request that announces it: both ways end in the same reason.
pub(super) async fn prove(
    domain: &Domain,
    order: &mut Order,
    context: &OrderContext,
    client: &Client,
    proofs: &mut Vec<Proof>,
) -> Result<(), Failed> {
    let ready = |status| matches!(status, OrderStatus::Ready | OrderStatus::Valid);
    let proven = match respond_to_challenges(domain, order, context, proofs).await {
        Ok(()) => wait_for(order, client, ready).await,
        failed => failed,
    };
    match proven {
        Ok(()) => Ok(()),
        Err(failed) => Err(refused(order).await.unwrap_or(failed)),
    }
}

/// Puts a response to a challenge in place for each name of an order, and tells the authority.
async fn respond_to_challenges(
    domain: &Domain,
    order: &mut Order,
    context: &OrderContext,
    proofs: &mut Vec<Proof>,
) -> Result<(), Failed> {
    let readers = context.children.map(|(_, group)| group);
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Pending => {}
            AuthorizationStatus::Valid => continue,
            status => return Err(Failed::new(format!("unexpected AUTHZ state {status:?}"))),
        }
        let name = match authorization.identifier().identifier {
            // The name becomes part of paths: accept only ordered ones.
            Identifier::Dns(name) if is_ordered(domain, name) => name.clone(),
            other => return Err(Failed::new(format!("an authorization for {other:?}, which was not ordered"))),
        };
        let (usable, offered) = usable(domain, &authorization.challenges, authorization.wildcard, context);
        let Some(kind) = usable else { return Err(Failed::new(none_usable(domain, &name, &offered, context))) };
        runtime::log!("md", Debug, "Setting up challenge '{}' for domain {name}", kind_name(&kind));
        let Some(mut challenge) = authorization.challenge(kind.clone()) else { continue };
        let proof = challenge.key_authorization();
        proofs.push(Proof { name: name.clone(), kind: kind.clone(), value: proof.dns_value() });
        match kind {
            ChallengeType::TlsAlpn01 => {
                let key = KeyKind::curve("secp256r1").unwrap_or(KeyKind::DEFAULT).generate()?;
                let certificate = keys::challenge(&key, &name, proof.digest().as_ref())?;
                let files = [(TLS_ALPN01_KEY, key.serialize_pem()), (TLS_ALPN01_CERTIFICATE, certificate)];
                for (file, contents) in files {
                    domain.store.write_challenge(&name, file, contents.as_bytes(), readers)?;
                }
            }
            ChallengeType::Http01 => {
                let text = proof.as_str().as_bytes();
                domain.store.write_challenge(&name, HTTP01, text, readers)?;
            }
            _ => {
                let line = domain.conf().dns01.get().map_or("", String::as_str);
                notify::run(line, &["setup", &name, &proof.dns_value()], context.children).await.map_err(|error| {
                    Failed::new(format!("{name}: dns-01 setup command failed to execute for {name}: {error}"))
                })?;
            }
        }
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Whether a name was ordered. An authority omits the asterisk (RFC 8555 section 7.1.4).
fn is_ordered(domain: &Domain, name: &str) -> bool {
    domain.names.iter().any(|known| known.strip_prefix("*.").unwrap_or(known).eq_ignore_ascii_case(name))
}

/// Removes a challenge response that is no longer needed.
pub(super) async fn withdraw(domain: &Domain, proof: &Proof, context: &OrderContext) {
    let Proof { name, kind, value } = proof;
    if *kind != ChallengeType::Dns01 {
        return domain.store.remove_challenges(name);
    }
    let line = domain.conf().dns01.get().map_or("", String::as_str);
    let arguments = ["teardown", name, value];
    let count = if context.dns01_version == 1 { 2 } else { 3 };
    if let Err(error) = notify::run(line, &arguments[..count], context.children).await {
        runtime::log!("md", Warn, "{name}: dns-01 teardown command failed ({error}) for {name}");
    }
}

/// The first challenge type for a name that both sides support, and the names of the offered ones.
fn usable(
    domain: &Domain,
    offered: &[Challenge],
    wildcard: bool,
    context: &OrderContext,
) -> (Option<ChallengeType>, String) {
    let names: Vec<&str> = offered.iter().map(|challenge| kind_name(&challenge.r#type)).collect();
    let kinds = available(domain, context).into_iter();
    let usable = kinds.filter(|kind| !wildcard || *kind == ChallengeType::Dns01);
    let found = usable.into_iter().find(|kind| offered.iter().any(|challenge| challenge.r#type == *kind));
    (found, names.join(" "))
}

/// The challenge types that the configuration allows, in its order (`MDCAChallenges`).
fn available(domain: &Domain, context: &OrderContext) -> Vec<ChallengeType> {
    const ALL: [(&str, ChallengeType); 3] = [
        ("tls-alpn-01", ChallengeType::TlsAlpn01),
        ("http-01", ChallengeType::Http01),
        ("dns-01", ChallengeType::Dns01),
    ];
    let known = |name: &str| ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| kind.clone());
    let kinds: Vec<ChallengeType> = match domain.conf().challenges.get() {
        Some(names) => names.iter().filter_map(|name| known(name)).collect(),
        None => ALL.iter().map(|(_, kind)| kind.clone()).collect(),
    };
    let (http, https) = context.reachable;
    let is_usable = |kind: &ChallengeType| match kind {
        ChallengeType::TlsAlpn01 => https && domain.takes_tls_alpn,
        ChallengeType::Http01 => http,
        _ => domain.conf().dns01.get().is_some_and(|line| !line.trim().is_empty()),
    };
    kinds.into_iter().filter(is_usable).collect()
}

fn none_usable(domain: &Domain, name: &str, offered: &str, context: &OrderContext) -> String {
    let kinds = available(domain, context);
    let names: Vec<&str> = kinds.iter().map(kind_name).collect();
    let (http, https) = context.reachable;
    let mut text = format!(
        "None of offered challenge types for domain {name} are supported. The server offered '{offered}' and available are: \
         '{}'.",
        names.join(" ")
    );
    let disabled = [
        (!http, " The http: challenge 'http-01' is disabled because the server seems not reachable on public port 80."),
        (
            !https,
            " The https: challenge 'tls-alpn-01' is disabled because the server seems not reachable on public port 443.",
        ),
        (
            https && !domain.takes_tls_alpn,
            " The https: challenge 'tls-alpn-01' is disabled because the Protocols configuration does not include the \
             'acme-tls/1' protocol.",
        ),
        (
            domain.conf().dns01.get().is_none(),
            " The DNS challenge 'dns-01' is disabled because the directive 'MDChallengeDns01' is not configured.",
        ),
    ];
    disabled.iter().filter(|(is_so, _)| *is_so).for_each(|(_, why)| text.push_str(why));
    text
}

fn kind_name(kind: &ChallengeType) -> &str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::Dns01 => "dns-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Unknown(name) => name,
        _ => "another",
    }
}
