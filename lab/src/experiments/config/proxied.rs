//! Passing requests on, for every server that can: to one origin or several, over TLS or not, with or without a store.

use std::net::SocketAddr;

use crate::experiments::config::origin;
use crate::experiments::profile::Profile;
use crate::experiments::site::{Origins, Site};
use crate::machine::identity::{Identity, NAME};

/// How many connections to origins a process keeps open, where it has to be said: more than there are clients.
pub(crate) const KEPT: u32 = 256;

/// How long an origin that has just failed rests, in seconds: one that was started again should soon have work.
pub(crate) const REST_SECONDS: u32 = 1;

/// The lines of Apache and Tsubame.
pub(crate) fn apache(site: &Site, modules: &str) -> String {
    if !origin::is_wanted(site) {
        return String::new();
    }
    let load = |names: &[&str]| -> String {
        names.iter().map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n")).collect()
    };
    let directory = site.directory.display();
    let passed = match &site.origins {
        None => format!("ProxyPass / unix:{}|http://localhost/\n", origin::socket(site).display()),
        Some(origins) => match &origins.addresses[..] {
            [one] => format!("ProxyPass / {}/\n", url(origins, *one)),
            several => {
                let member =
                    |each: &SocketAddr| format!("    BalancerMember {} retry={REST_SECONDS}\n", url(origins, *each));
                let members: String = several.iter().map(member).collect();
                load(&["slotmem_shm", "proxy_balancer", "lbmethod_bybusyness"])
                    + &format!(
                        "DefaultRuntimeDir {directory}\n<Proxy \"balancer://origins\">\n{members}    \
                         ProxySet lbmethod=bybusyness\n</Proxy>\nProxyPass / balancer://origins/\n"
                    )
            }
        },
    };
    let to_tls = match certificate(site) {
        Some(Identity { certificate, .. }) => {
            let verify = format!("SSLProxyVerify require\nSSLProxyCACertificateFile {}\n", certificate.display());
            load(&["ssl"]) + "SSLProxyEngine on\n" + &verify
        }
        None => String::new(),
    };
    let cache = match site.profile {
        Profile::Cached => load(&["cache", "cache_disk"]) + &format!("CacheRoot {directory}\nCacheEnable disk /\n"),
        _ => String::new(),
    };
    load(&["proxy", "proxy_http"]) + &passed + &to_tls + &cache
}

/// The lines of nginx: those of `http`, and those of `server`.
pub(crate) fn nginx(site: &Site) -> (String, String) {
    let servers: String = match &site.origins {
        None => format!(" server unix:{};", origin::socket(site).display()),
        Some(origins) => match &origins.addresses[..] {
            [one] => format!(" server {one};"),
            several => {
                let server = |each: &SocketAddr| format!(" server {each} max_fails=1 fail_timeout={REST_SECONDS}s;");
                " least_conn;".to_owned() + &several.iter().map(server).collect::<String>()
            }
        },
    };
    let upstream = format!("    upstream origin {{{servers} keepalive {KEPT}; keepalive_requests 1000000000; }}\n");
    let (store, cache) = match site.profile {
        Profile::Cached => (
            format!("    proxy_cache_path {}/cache keys_zone=cache:10m;\n", site.directory.display()),
            "            proxy_cache cache;\n",
        ),
        _ => (String::new(), ""),
    };
    let (scheme, to_tls) = match certificate(site) {
        Some(Identity { certificate, .. }) => (
            "https",
            format!(
                "            proxy_ssl_protocols TLSv1.3;\n            proxy_ssl_verify on;\n            \
                 proxy_ssl_trusted_certificate {};\n            proxy_ssl_name {NAME};\n",
                certificate.display()
            ),
        ),
        None => ("http", String::new()),
    };
    let location = format!(
        "        location / {{
            proxy_pass {scheme}://origin;
            proxy_http_version 1.1;
            proxy_max_temp_file_size 0;
            proxy_set_header Connection \"\";
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Host $host;
            proxy_set_header X-Forwarded-Server $server_name;
{to_tls}{cache}        }}
"
    );
    (upstream + &store, location)
}

/// The lines of h2o for a path; it knows one origin for each.
pub(crate) fn h2o(site: &Site) -> String {
    let url = match site.origins.as_ref().and_then(|origins| Some((origins, *origins.addresses.first()?))) {
        Some((origins, address)) => url(origins, address),
        None => format!("http://[unix:{}]", origin::socket(site).display()),
    };
    let to_tls = match certificate(site) {
        Some(Identity { certificate, .. }) => format!("\n        proxy.ssl.cafile: {}", certificate.display()),
        None => String::new(),
    };
    format!(
        "proxy.preserve-host: ON\n        proxy.timeout.keepalive: 600000{to_tls}\n        proxy.reverse.url: \"{url}/\""
    )
}

/// The lines of caddy for a site.
pub(crate) fn caddy(site: &Site) -> Option<String> {
    let origins = site.origins.as_ref()?;
    let addresses: Vec<String> = origins.addresses.iter().map(|address| url(origins, *address)).collect();
    let to_tls = match certificate(site) {
        Some(Identity { certificate, .. }) => {
            format!("            tls_server_name {NAME}\n            tls_trusted_ca_certs {}\n", certificate.display())
        }
        None => String::new(),
    };
    let several = match addresses.len() {
        1 => String::new(),
        _ => {
            format!("        lb_policy least_conn\n        lb_try_duration 5s\n        fail_duration {REST_SECONDS}s\n")
        }
    };
    Some(format!(
        "    reverse_proxy {} {{
{several}        transport http {{
            keepalive_idle_conns_per_host {KEPT}
{to_tls}        }}
    }}
",
        addresses.join(" ")
    ))
}

/// The URL of an origin, without a slash at its end. Over TLS it has the name that its certificate is for.
fn url(origins: &Origins, address: SocketAddr) -> String {
    match origins.identity {
        Some(_) => format!("https://{NAME}:{}", address.port()),
        None => format!("http://{address}"),
    }
}

/// The certificate of origins that speak TLS.
pub(crate) fn certificate(site: &Site) -> Option<&Identity> {
    site.origins.as_ref()?.identity.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::site::example_site;

    fn site(profile: Profile, identity: Option<Identity>) -> Site {
        let addresses = (1..=profile.origins() as u16).map(|port| ([127, 0, 0, 1], port).into()).collect();
        Site { origins: Some(Origins { addresses, identity }), ..example_site(profile) }
    }

    #[test]
    fn every_origin_is_named_once() {
        for (profile, count) in [(Profile::Proxied, 1), (Profile::Balanced, 3)] {
            let site = site(profile, None);
            let nginx = nginx(&site).0;
            for (text, word) in
                [(apache(&site, "modules"), "http://"), (nginx, " server "), (caddy(&site).unwrap(), "http://")]
            {
                assert_eq!(text.matches(&format!("{word}127.0.0.1:")).count(), count, "{text}");
            }
        }
    }

    #[test]
    fn a_certificate_is_verified_under_its_name() {
        let identity = Identity { certificate: "/lab/certificate.pem".into(), key: "/lab/key.pem".into() };
        let site = site(Profile::ProxiedToTls, Some(identity));
        let nginx = nginx(&site).1;
        for text in [apache(&site, "modules"), nginx, h2o(&site), caddy(&site).unwrap()] {
            assert!(text.contains("/lab/certificate.pem") && text.contains("localhost"), "{text}");
            assert!(text.contains("https://"), "{text}");
        }
    }

    #[test]
    fn without_origins_it_is_the_one_behind_a_unix_socket() {
        let site = example_site(Profile::Proxied);
        for text in [apache(&site, "modules"), nginx(&site).0, h2o(&site)] {
            assert!(text.contains("unix:/lab/server/origin.sock"), "{text}");
        }
        assert!(apache(&example_site(Profile::Bare), "modules").is_empty());
    }
}
