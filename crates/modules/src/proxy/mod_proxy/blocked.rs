//! The words of `ProxyBlock`.

use std::net::IpAddr;

use conf::ip::Subnet;
use sys::resolve::{Family, addresses_of};

/// The reason on the client's page.
pub(crate) const BLOCKED: &str = "Connect to remote machine blocked";

/// A word of `ProxyBlock`.
#[derive(Clone, Debug)]
pub(super) enum Blocked {
    /// `*`.
    All,
    /// A text in the host's name, and the addresses that it stands for.
    Word {
        /// In lower case.
        text: String,
        /// Those of a name with a dot in it, as the server found them when it read the line.
        addresses: Vec<IpAddr>,
        /// The network, if it names one.
        network: Option<Subnet>,
    },
}

impl Blocked {
    /// Reads a word. As in Apache, a name with a dot is looked up now, and one without addresses is only a name.
    pub(super) fn parse(word: &str) -> Blocked {
        if word.starts_with('*') {
            return Blocked::All;
        }
        let network = Subnet::parse(word).ok();
        let is_name = network.is_none() && word.contains('.');
        let families = if is_name { &[Family::V4, Family::V6][..] } else { &[] };
        let addresses = families.iter().filter_map(|family| addresses_of(word, *family).ok()).flatten().collect();
        Blocked::Word { text: word.to_ascii_lowercase(), addresses, network }
    }

    pub(super) fn has_name(&self, host: &str) -> bool {
        match self {
            Blocked::All => true,
            Blocked::Word { text, .. } => host.contains(text.as_str()),
        }
    }

    pub(super) fn has_address(&self, ip: IpAddr) -> bool {
        match self {
            Blocked::All => true,
            Blocked::Word { addresses, network, .. } => {
                addresses.contains(&ip) || network.as_ref().is_some_and(|network| network.contains(ip))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_proxy_block() {
        let blocks = |word: &str, host: &str| {
            let ip = host.parse().ok();
            let one = Blocked::parse(word);
            one.has_name(host) || ip.is_some_and(|ip| one.has_address(ip))
        };
        for (word, host, want) in [
            ("*", "anything", true),
            ("BAD", "www.bad.invalid", true),
            ("bad", "www.good.invalid", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("192.168.", "192.168.3.4", true),
            ("2001:db8::/32", "2001:db8::1", true),
        ] {
            assert_eq!(blocks(word, host), want, "{word} {host}");
        }
    }
}
