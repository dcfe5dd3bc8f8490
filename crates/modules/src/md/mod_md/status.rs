//! The handler `md-status`: the managed domains as JSON, with mod_md's names, for programs that watch them.
//!
//! A child cannot read the store. It knows the certificates that it serves, and the process that orders new ones tells in
//! shared memory how that goes.

use http::date::http_date;
use serde_json::{Map, Value, json};
use server::{Body, HandlerResult, Request, Server};

use super::acme::LETS_ENCRYPT;
use super::certificates;
use super::domains::{self, Domain};
use super::keys::KeyKind;
use super::settings::MdServer;
use super::values::{RenewMode, Span};
use crate::ssl::mod_ssl::{ShownCertificate, shown_certificates};

const HANDLER: &str = "md-status";
/// mod_md's numbers for the state of a domain.
const INCOMPLETE: u32 = 1;
const COMPLETE: u32 = 2;

/// Answers with all domains, or with the one that the path names.
pub(super) fn handle(request: &mut Request) -> HandlerResult {
    if request.handler_name() != Some(HANDLER) || !request.server.main().settings.get::<MdServer>().status() {
        return HandlerResult::Declined;
    }
    if !matches!(&*request.data.method, "GET" | "HEAD") {
        return HandlerResult::Status(501);
    }
    let (server, all) = (request.server, domains::all(request.server));
    let wanted = request.mapped.path_info.rsplit('/').next().unwrap_or_default();
    let text = match all.iter().find(|domain| domain.name == wanted) {
        Some(domain) => about(server, domain),
        None => {
            let domains: Vec<Value> = all.iter().map(|domain| about(server, domain)).collect();
            json!({ "version": concat!("Tsubame/", env!("CARGO_PKG_VERSION")), "managed-domains": domains })
        }
    };
    request.response.set_content_type("application/json");
    HandlerResult::Body(Body::text(format!("{text:#}\n")))
}

fn about(server: &Server, domain: &Domain) -> Value {
    let conf = domain.conf();
    let certificates = certificates(server, domain);
    let has_all = !certificates.is_empty() && (domain.is_static() || domain.is_ready());
    let urls = conf.authorities.get().filter(|urls| !urls.is_empty()).cloned();
    let mode = match conf.renew_mode() {
        _ if domain.is_static() => 0,
        RenewMode::Manual => 0,
        RenewMode::Auto => 1,
        RenewMode::Always => 2,
    };
    let mut about = json!({
        "name": domain.name,
        "domains": domain.names,
        "contacts": domain.contact().into_iter().collect::<Vec<_>>(),
        "transitive": u32::from(conf.members_auto()),
        "ca": {
            "proto": "ACME",
            "urls": urls.unwrap_or_else(|| vec![LETS_ENCRYPT.into()]),
            "agreement": conf.agreement.get(),
        },
        "privkey": keys(domain.key_kinds()),
        "state": if has_all { COMPLETE } else { INCOMPLETE },
        "renew-mode": mode,
        "renew-window": conf.renew_window().to_string(),
        "warn-window": conf.warn_window().to_string(),
        "must-staple": conf.must_staple(),
        "stapling": conf.stapling(),
        "profile": conf.profile.get(),
        "profile-mandatory": conf.profile_is_mandatory(),
        "ari-renewals": false,
        "watched": domain.is_driven(),
        "cert": {},
    });
    if !has_all {
        about["state-descr"] = "a certificate is missing".into();
    } else {
        about["cert"] = shown(domain, &certificates);
        let windows = certificates.iter().map(|one| one.ends - conf.renew_window().of(one.ends - one.begins));
        about["renew-at"] = windows.min().map(date).into();
    }
    let progress = domain.progress();
    if domain.is_driven() && progress.last > 0 {
        about["renew"] = true.into();
        about["renewal"] = json!({
            "name": domain.name,
            "finished": progress.errors == 0 && progress.next == 0,
            "errors": progress.errors,
            "last-run": date(progress.last),
            "next-run": (progress.next > 0).then(|| date(progress.next)),
        });
    }
    about.as_object_mut().into_iter().for_each(|fields| fields.retain(|_, value| !value.is_null()));
    about
}

/// The certificates that a host of the domain serves.
fn certificates(server: &Server, domain: &Domain) -> Vec<ShownCertificate> {
    let mut hosts = server.hosts.iter().filter(|host| certificates::is_of(host, &domain.name));
    hosts.find_map(shown_certificates).unwrap_or_default()
}

/// The certificates by the kinds of their keys, or by their numbers if the administrator provides them.
fn shown(domain: &Domain, certificates: &[ShownCertificate]) -> Value {
    let mut all = Map::new();
    for (index, one) in certificates.iter().enumerate() {
        let kind = domain.key_kinds().get(index).filter(|_| !domain.is_static());
        let name = kind.map_or_else(|| index.to_string(), |kind| kind.name().to_ascii_lowercase());
        let about = json!({
            "issuer-name": one.issuer,
            "valid": valid(one.begins, one.ends),
            "serial": one.serial,
            "sha256-fingerprint": one.fingerprint,
        });
        all.insert(name, about);
    }
    let begins = certificates.iter().map(|one| one.begins).max();
    let ends = certificates.iter().map(|one| one.ends).min();
    if let (Some(begins), Some(ends)) = (begins, ends) {
        all.insert("valid".into(), valid(begins, ends));
    }
    all.into()
}

fn valid(begins: i64, ends: i64) -> Value {
    json!({ "from": date(begins), "until": date(ends) })
}

/// The kinds of keys: one as an object, several as a list.
fn keys(kinds: &[KeyKind]) -> Value {
    let one = |kind: &KeyKind| match kind {
        KeyKind::Rsa(bits) => json!({ "type": "RSA", "bits": bits }),
        KeyKind::Curve(_) => json!({ "type": "EC", "curve": kind.name() }),
    };
    match kinds {
        [kind] => one(kind),
        kinds => kinds.iter().map(one).collect(),
    }
}

fn date(seconds: i64) -> String {
    String::from_utf8_lossy(&http_date(seconds)[..]).into_owned()
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Span::Percent(percent) => write!(f, "{percent}%"),
            Span::Time(time) if time.as_secs() % (24 * 60 * 60) == 0 => {
                write!(f, "{}d", time.as_secs() / (24 * 60 * 60))
            }
            Span::Time(time) => write!(f, "{}s", time.as_secs()),
        }
    }
}
