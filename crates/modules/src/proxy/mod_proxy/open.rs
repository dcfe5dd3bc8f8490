//! Who may use a forward proxy: a configuration that says nothing about it, or lets everybody, is refused.

use conf::{Context, Error, SettingsMap};
use server::Draft;
use server::settings::satisfy::Satisfy;

use super::settings::{ProxySection, ProxyServer};
use crate::aaa::{mod_access_compat, mod_authz_core};

/// URLs that only sections about every URL can mean.
const ANYWHERE: [&str; 3] =
    ["http://anywhere.invalid/anything", "https://anywhere.invalid/anything", "anywhere.invalid:443"];

/// Whether the settings of a request, or of a section, keep anybody out; `None`: they say nothing about it.
pub(super) fn restricts(settings: &SettingsMap) -> Option<bool> {
    let (by_host, by_rule) = (mod_access_compat::restricts(settings), mod_authz_core::restricts(settings));
    if by_host.is_none() && by_rule.is_none() {
        return None;
    }
    let (by_host, by_rule) = (by_host.unwrap_or(false), by_rule.unwrap_or(false));
    Some(if settings.get::<Satisfy>().any("GET") { by_host && by_rule } else { by_host || by_rule })
}

/// Refuses an open proxy. Everybody who finds one uses it, for spam and for attacks, in its owner's name.
pub(super) fn refuse(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    for conf in draft.servers().map(SettingsMap::get::<ProxyServer>).filter(|conf| conf.requests()) {
        let sections = || conf.sections.iter().map(|section| &**section);
        let anywhere = |url: &str| settings_for(sections(), url);
        let why = if ANYWHERE.iter().any(|url| restricts(&anywhere(url)) == Some(false)) {
            "its <Proxy> sections let everybody use it"
        } else if !sections().any(|section| restricts(&section.layer.slots) == Some(true)) {
            "no <Proxy> section says who may use it"
        } else {
            continue;
        };
        let text = format!(
            "ProxyRequests On makes an open proxy: {why}. Say who may: <Proxy \"*\">, Require ip 192.0.2.0/24 (your \
             clients' network), </Proxy>. If you want a reverse proxy (ProxyPass), write ProxyRequests Off"
        );
        return Err(match conf.requests.origin() {
            Some(origin) => Error::at(conf::error::Phase::Apply, origin, text),
            None => Error::check(text),
        });
    }
    Ok(())
}

/// What the sections for a URL say. A regular expression that cannot decide about it is left out.
fn settings_for<'s>(sections: impl Iterator<Item = &'s ProxySection>, url: &str) -> SettingsMap {
    let meant = sections.filter(|section| section.matcher.is_for(url).unwrap_or(false));
    meant.fold(SettingsMap::default(), |all, section| SettingsMap::merge(&all, &section.layer.slots))
}
