//! Which hosts are never connected to: those of `ProxyBlock`, and what a forward proxy must not reach for its clients.

use std::net::IpAddr;

use server::{Request, VirtualHost};

use super::schemes::port_of;
use super::settings::{ProxyServer, Url};
use super::target::Target;

/// Whether `ProxyBlock` names a host, whatever its addresses.
pub(super) fn is_named(conf: &ProxyServer, host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse().ok();
    conf.blocked.iter().any(|one| one.has_name(host) || ip.is_some_and(|ip| one.has_address(ip)))
}

/// Why an address must not be connected to; `None`: it may. `guarded`: a client of the forward proxy has named it.
pub(super) fn reason(vhost: &VirtualHost, guarded: bool, ip: IpAddr) -> Option<String> {
    let ip = ip.to_canonical();
    if vhost.settings.get::<ProxyServer>().blocked.iter().any(|one| one.has_address(ip)) {
        return Some(format!("IP {ip} matched"));
    }
    let what = what_is_behind(ip).filter(|_| guarded)?;
    Some(format!(
        "{ip} is {what}, which no client of a forward proxy may reach; a <Proxy> section for this host allows it"
    ))
}

/// What an address leads to that only this machine can reach. `None`: anybody could connect to it.
fn what_is_behind(ip: IpAddr) -> Option<&'static str> {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    match () {
        () if ip.is_loopback() || ip.is_unspecified() => Some("this machine"),
        () if is_link_local => Some("on this machine's link"),
        () if ip.is_multicast() => Some("a group of machines"),
        // An address that cannot be judged is refused.
        () if sys::socket::is_own(ip).unwrap_or(true) => Some("this machine"),
        () => None,
    }
}

/// Whether a `<Proxy>` section of the configuration is about this host in particular, and not just about a pattern that
/// its name fits.
pub(super) fn is_expected(request: &Request, host: &str, port: u16) -> bool {
    let sections = &request.host::<ProxyServer>().sections;
    sections.iter().any(|section| match &section.matcher {
        Url::Pattern(_) => false,
        Url::Prefix(text) | Url::Wild(text) => names(text, host, port),
    })
}

/// Whether the URL of a section, or its `host:port`, names this host and this port; a host alone stands for all its ports.
fn names(text: &str, host: &str, port: u16) -> bool {
    let is_url = text.contains("://");
    let url = if is_url { text.to_string() } else { format!("tunnel://{text}") };
    let Some(named) = Target::parse(&url).ok().filter(|named| named.host == host) else { return false };
    let own = named.port.or(is_url.then(|| port_of(&named.scheme)));
    own.is_none_or(|own| own == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_only_this_machine_can_reach() {
        for (ip, want) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("224.0.0.1", true),
            ("::1", true),
            ("::", true),
            ("fe80::1", true),
            ("ff02::1", true),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            let ip: IpAddr = ip.parse().expect("an address");
            assert_eq!(what_is_behind(ip).is_some(), want, "{ip}");
        }
    }

    #[test]
    fn sections_about_one_host() {
        for (text, want) in [
            ("http://intern.example/*", false),
            ("intern.example", true),
            ("http://intern.example:8080/*", true),
            ("http://intern.example:81/*", false),
            ("http://intern.exampl", false),
            ("http://intern.example.org/", false),
            ("http://*/", false),
            ("http://intern.*", false),
            ("*", false),
            ("intern.example:8080", true),
        ] {
            assert_eq!(names(text, "intern.example", 8080), want, "{text}");
        }
    }
}
