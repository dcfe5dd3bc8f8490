//! Obtains a certificate by ACME (RFC 8555), from the order to files in the store.

use std::io;

use instant_acme::{Account, Error, ExternalAccountKey, HttpClient, Identifier, NewAccount, NewOrder, OrderStatus};
use rcgen::KeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::acme::{Failed, OrderContext, wait_for};
use super::client::Client;
use super::domains::Domain;
use super::keys::{self, KeyKind};
use super::{certificates, proofs};

/// The problem type for an account that the authority does not know, or no longer knows.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Fetches new certificates for a domain from the authority at this URL, and replaces the current ones.
pub(super) async fn renew(domain: &Domain, authority: &str, context: &OrderContext) -> Result<(), Failed> {
    let client = Client::new(domain.conf().ca_file.get().and_then(Option::as_deref), context.proxy.as_deref())?;
    let fetched = fetch(domain, authority, context, &client).await;
    fetched.map_err(|failed| Failed { retry_after: client.retry_after(), ..failed })
}

async fn fetch(domain: &Domain, authority: &str, context: &OrderContext, client: &Client) -> Result<(), Failed> {
    let (id, account) = account(domain, authority, client).await?;
    domain.store.begin(&domain.name)?;
    let tmp = |file: &str| ["tmp".to_string(), domain.name.clone(), file.to_string()];
    for kind in domain.key_kinds() {
        let ordered = order(domain, &account, *kind, context, client).await;
        if let Err(Failed { problem, .. }) = &ordered
            && problem == NO_ACCOUNT
        {
            // The next attempt creates a new account.
            let mut known = domain.store.read_json(&["accounts", &id, "account.json"]);
            known["status"] = "deactivated".into();
            domain.store.write_json(&["accounts", &id, "account.json"], &known)?;
        }
        let (key, chain) = ordered?;
        for (stem, contents) in [("privkey", &key), ("pubcert", &chain)] {
            let parts = tmp(&kind.file(stem));
            domain.store.write(&parts.each_ref().map(String::as_str), contents.as_bytes())?;
        }
    }
    let about = json!({
        "name": domain.name,
        "domains": domain.names,
        "contacts": domain.contact().into_iter().collect::<Vec<_>>(),
        "ca": { "proto": "ACME", "urls": [authority], "account": id },
        "must-staple": domain.conf().must_staple(),
        "state": 2,
    });
    let parts = tmp("md.json");
    domain.store.write_json(&parts.each_ref().map(String::as_str), &about)?;
    Ok(domain.store.activate(&domain.name)?)
}

/// The account at an authority and its name in the store: the existing one, or a new one.
async fn account(domain: &Domain, authority: &str, client: &Client) -> Result<(String, Account), Failed> {
    let contact = domain.contact();
    let ids = domain.store.names("accounts");
    for id in &ids {
        let known = domain.store.read_json(&["accounts", id, "account.json"]);
        let fits = known["ca-url"] == authority && known["status"] == "valid";
        let same = known["contact"].as_array().is_none_or(|known| known.iter().eq(contact.iter()));
        let key = domain.store.read(&["accounts", id, "account.pem"])?;
        let key = key.and_then(|pem| PrivatePkcs8KeyDer::from_pem_slice(&pem).ok());
        if let (true, true, Some(url), Some(key)) = (fits, same, known["url"].as_str(), key) {
            let builder = Account::builder_with_http(Box::new(client.clone()));
            match builder.from_parts(url.into(), key, authority.into()).await {
                // The library rejects keys of other kinds, such as those that Apache makes: go on with a new account.
                Err(Error::KeyRejected) => {}
                account => return Ok((id.clone(), account?)),
            }
        }
    }
    accept_terms(domain, authority, client).await?;
    let binding = external_account(domain)?;
    let contacts: Vec<&str> = contact.as_deref().into_iter().collect();
    let wanted = NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let (account, credentials) = builder.create(&wanted, authority.into(), binding.as_ref()).await?;
    let host =
        authority.parse::<http_types::Uri>().ok().and_then(|url| url.host().map(str::to_string)).unwrap_or_default();
    // Another queue may have made an account in the meantime.
    let ids = domain.store.names("accounts");
    let free = (0..).map(|number| format!("ACME-{host}-{number:04}")).find(|id| !ids.contains(id));
    let id = free.unwrap_or_default();
    let key = KeyPair::try_from(credentials.private_key())?;
    domain.store.write(&["accounts", &id, "account.pem"], key.serialize_pem().as_bytes())?;
    let about = json!({ "status": "valid", "ca-url": authority, "url": account.id(), "contact": contacts });
    domain.store.write_json(&["accounts", &id, "account.json"], &about)?;
    runtime::log!("md", Notice, "registered new account {} at {authority}", account.id());
    Ok((id, account))
}

/// Checks that the terms of the authority are accepted, if it has any (RFC 8555 section 7.1.1); without that no account
/// is created.
async fn accept_terms(domain: &Domain, authority: &str, client: &Client) -> Result<(), Failed> {
    let request = http_types::Request::get(authority).body(instant_acme::BodyWrapper::default());
    let mut response = client.request(request.map_err(io::Error::other)?).await?;
    let text = response.body.into_bytes().await.map_err(io::Error::other)?;
    let directory: Value = serde_json::from_slice(&text).unwrap_or_default();
    if directory["newOrder"].is_null() {
        return Err(Failed::new(format!(
            "Unable to understand ACME server response from <{authority}>. Wrong ACME protocol version or link?"
        )));
    }
    let terms = directory["meta"]["termsOfService"].as_str();
    match (terms, domain.conf().agreement.get()) {
        (Some(terms), agreement) if agreement.is_none_or(|said| said != "accepted" && said != terms) => {
            Err(Failed::new(format!(
                "the CA requires you to accept the terms-of-service as specified in <{terms}>. Please read the document that you \
                 find at that URL and, if you agree to the conditions, configure \"MDCertificateAgreement accepted\" in your \
                 Apache. Then (graceful) restart the server to activate."
            )))
        }
        _ => Ok(()),
    }
}

fn external_account(domain: &Domain) -> Result<Option<ExternalAccountKey>, Failed> {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let Some(Some((id, key))) = domain.conf().account_binding.get() else { return Ok(None) };
    let key = URL_SAFE_NO_PAD.decode(key.trim_end_matches('='));
    let key = key.map_err(|_| Failed::new("external account binding HMAC value is not valid base64"))?;
    Ok(Some(ExternalAccountKey::new(id.clone(), &key)))
}

/// Orders a certificate. Returns the key, and the certificate with its chain, both in PEM.
async fn order(
    domain: &Domain,
    account: &Account,
    kind: KeyKind,
    context: &OrderContext,
    client: &Client,
) -> Result<(String, String), Failed> {
    let identifiers: Vec<Identifier> = domain.names.iter().cloned().map(Identifier::Dns).collect();
    let mut wanted = NewOrder::new(&identifiers);
    if let Some(profile) = domain.conf().profile.get() {
        match account.profiles().any(|known| known.name == profile) {
            true => wanted = wanted.profile(profile),
            false if domain.conf().profile_is_mandatory() => {
                return Err(Failed::new(format!("mandatory ACME profile '{profile}' is not offered by CA")));
            }
            false => {}
        }
    }
    let mut order = account.new_order(&wanted).await?;
    let mut proofs = Vec::new();
    let proven = proofs::prove(domain, &mut order, context, client, &mut proofs).await;
    for proof in &proofs {
        proofs::withdraw(domain, proof, context).await;
    }
    proven?;
    let key = kind.generate()?;
    let request = keys::request(&key, &domain.names, domain.conf().must_staple())?;
    order.finalize_csr(&request).await?;
    wait_for(&mut order, client, |status| status == OrderStatus::Valid).await?;
    let chain =
        order.certificate().await?.ok_or_else(|| Failed::new("Order valid, but certificate url is missing."))?;
    certificates::check(domain, &key, &chain)
        .map_err(|wrong| Failed::new(format!("the authority has sent {wrong}")))?;
    Ok((key.serialize_pem(), chain))
}
