//! HAProxy: one thread.

use crate::experiments::config::proxied::{KEPT, certificate};
use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::{BACKLOG, CAPACITY, KEEP_ALIVE_SECONDS, Site};
use crate::machine::error::{Error, Result};
use crate::machine::identity::{Identity, NAME};

/// HAProxy, which serves no files: it has to have something to pass requests on to.
pub(crate) fn recipe(site: &Site) -> Result<Recipe> {
    let configuration = configuration(site).ok_or_else(|| Error::new("it serves nothing by itself"))?;
    let path = site.directory.join("haproxy.cfg").display().to_string();
    Ok(Recipe {
        files: vec![ConfigFile::composed("haproxy.cfg", configuration)],
        arguments: ["-db", "-f", &path].map(str::to_owned).to_vec(),
        ..Recipe::default()
    })
}

fn configuration(site: &Site) -> Option<String> {
    let origins = site.origins.as_ref()?;
    let account = match &site.account {
        Some(account) => format!("    user {}\n    group {}\n", account.user, account.group),
        None => String::new(),
    };
    let protocols = if site.profile.has_http2() { "h2,http/1.1" } else { "http/1.1" };
    let tls = match &site.identity {
        Some(identity) => format!(" ssl crt {} alpn {protocols}", identity.both().display()),
        None => String::new(),
    };
    let to_tls = match certificate(site) {
        Some(Identity { certificate, .. }) => {
            let verify = format!("verify required ca-file {} verifyhost {NAME}", certificate.display());
            format!(" ssl ssl-min-ver TLSv1.3 sni str({NAME}) {verify}")
        }
        None => String::new(),
    };
    let servers: String = origins
        .addresses
        .iter()
        .enumerate()
        .map(|(number, address)| format!("    server origin-{number} {address} pool-max-conn {KEPT}{to_tls}\n"))
        .collect();
    let several = match origins.addresses.len() {
        1 => "",
        _ => {
            "    balance leastconn\n    retries 3\n    option redispatch 1\n    \
             retry-on conn-failure empty-response response-timeout\n"
        }
    };
    let address = site.address();
    // A connection takes a file on each side, and HAProxy does not start with fewer files than it might need.
    let connections = (site.descriptors / 3).min(CAPACITY.into());
    Some(format!(
        "\
global
    nbthread 1
    maxconn {connections}
{account}defaults
    mode http
    timeout connect 5s
    timeout client {KEEP_ALIVE_SECONDS}s
    timeout server {KEEP_ALIVE_SECONDS}s
    option http-keep-alive
    option splice-auto
    http-reuse always
frontend clients
    bind {address} backlog {BACKLOG}{tls}
    option forwardfor
    default_backend origins
backend origins
{several}{servers}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::profile::Profile;
    use crate::experiments::site::{Origins, example_site};

    #[test]
    fn it_needs_something_behind_it() {
        assert!(recipe(&example_site(Profile::Bare)).is_err());
        let addresses = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        let site = Site { origins: Some(Origins { addresses, identity: None }), ..example_site(Profile::Balanced) };
        let text = configuration(&site).unwrap();
        assert!(text.contains("server origin-2 127.0.0.1:3 ") && text.contains("balance leastconn"), "{text}");
    }
}
