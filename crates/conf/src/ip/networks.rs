//! Many networks at once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Bits, Subnet};

/// Networks: whether one of them has an address takes as long for ten thousand as for ten.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    v4: Ranges,
    v6: Ranges,
    /// Networks with masks such as `255.0.255.0`, which are no ranges.
    others: Vec<Subnet>,
}

impl Networks {
    /// Whether one of them contains `address`, which may be an IPv4 address in IPv6 form.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let in_ranges = match address {
            IpAddr::V4(address) => self.v4.contains(address.to_bits().into()),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        };
        in_ranges || self.others.iter().any(|network| network.contains(address))
    }

    /// Adds those of `more`.
    pub fn add_all(&mut self, more: &Networks) {
        more.v4.0.iter().for_each(|(first, last)| self.v4.add(*first, *last));
        more.v6.0.iter().for_each(|(first, last)| self.v6.add(*first, *last));
        self.others.extend(&more.others);
    }
}

impl FromIterator<Subnet> for Networks {
    fn from_iter<I: IntoIterator<Item = Subnet>>(all: I) -> Self {
        let mut networks = Networks::default();
        for network in all {
            match network.0 {
                Bits::V4 { network, mask } if mask.leading_ones() == mask.count_ones() => {
                    networks.v4.add(network.into(), (network | !mask).into());
                }
                Bits::V4 { .. } => networks.others.push(network),
                Bits::V6 { network, mask } => networks.v6.add(network, network | !mask),
            }
        }
        networks
    }
}

/// Ranges of addresses, none of which overlap: from the first to the last.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u128, u128>);

impl Ranges {
    fn contains(&self, address: u128) -> bool {
        self.0.range(..=address).next_back().is_some_and(|(_, last)| *last >= address)
    }

    fn add(&mut self, mut first: u128, mut last: u128) {
        // Takes the place of those that it overlaps.
        while let Some((&from, &to)) = self.0.range(..=last).next_back().filter(|(_, to)| **to >= first) {
            self.0.remove(&from);
            (first, last) = (first.min(from), last.max(to));
        }
        self.0.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_one_after_another() {
        const NETWORKS: [&str; 14] = [
            "10.0.0.0/8",
            "10.1",
            "10.1.2.3",
            "10.1.2.4",
            "10.1.2.4/30",
            "0.0.0.0/1",
            "255.255.255.255",
            "10.0.2.0/255.0.255.0",
            "192.168.1",
            "::1",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "8000::/1",
            "2001:db8::5",
        ];
        const ADDRESSES: [&str; 18] = [
            "10.0.0.0",
            "10.1.2.3",
            "10.1.2.4",
            "10.1.2.7",
            "10.1.2.8",
            "10.255.255.255",
            "11.0.0.0",
            "9.9.2.9",
            "10.9.2.9",
            "255.255.255.255",
            "192.168.1.77",
            "192.168.2.1",
            "::1",
            "::ffff:10.1.2.3",
            "2001:db8::5",
            "2001:db8:1::9",
            "2001:db9::",
            "ffff::",
        ];
        // Every choice of them.
        for chosen in 0_u32..1 << NETWORKS.len() {
            let list: Vec<Subnet> = (0..NETWORKS.len())
                .filter(|n| chosen & 1 << n != 0)
                .map(|n| Subnet::parse(NETWORKS[n]).unwrap())
                .collect();
            let (front, back) = list.split_at(list.len() / 2);
            let mut networks: Networks = back.iter().copied().collect();
            networks.add_all(&front.iter().copied().collect());
            for address in ADDRESSES {
                let address = address.parse().unwrap();
                assert_eq!(
                    networks.contains(address),
                    list.iter().any(|network| network.contains(address.to_canonical())),
                    "{address} in {list:?}"
                );
            }
        }
    }
}
