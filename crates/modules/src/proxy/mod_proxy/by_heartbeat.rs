//! Elects a member by what it says about itself: chance decides, and each waiting worker of a member is one lot.

use std::net::IpAddr;
use std::time::Duration;

use super::member::Member;
use crate::cluster::heartbeats;

/// How old what a member says may be, as in Apache.
const OLD: Duration = Duration::from_secs(10);

/// The member that gets the request. `None`: nobody has said that it could take one.
pub(super) fn elect<'m>(members: impl Iterator<Item = (usize, &'m Member)>) -> Option<usize> {
    let known: Vec<_> = heartbeats::all().filter(|one| one.age < OLD && one.ready > 0).collect();
    let ready = |member: &Member| {
        let host = member.worker.target.host.trim_start_matches('[').trim_end_matches(']');
        let ip: IpAddr = host.parse().ok()?;
        known.iter().find(|one| one.ip == ip.to_canonical()).map(|one| u64::from(one.ready))
    };
    let lots: Vec<(usize, u64)> = members.filter_map(|(index, member)| Some((index, ready(member)?))).collect();
    drawn(&lots, sys::random::number())
}

/// The one that a number falls to.
fn drawn(lots: &[(usize, u64)], number: u64) -> Option<usize> {
    let all: u64 = lots.iter().map(|(_, lots)| lots).sum();
    let mut left = number.checked_rem(all)?;
    lots.iter().find_map(|(index, lots)| match left.checked_sub(*lots) {
        None => Some(*index),
        Some(rest) => {
            left = rest;
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lot_counts() {
        let lots = [(4, 2), (7, 0), (9, 1)];
        let drawn: Vec<_> = (0..6).map(|number| drawn(&lots, number)).collect();
        assert_eq!(drawn, [Some(4), Some(4), Some(9), Some(4), Some(4), Some(9)]);
        assert_eq!(super::drawn(&[], 5), None);
    }
}
