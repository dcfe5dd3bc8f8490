//! A line `ClientLimitConnections`: how many connections, of whom.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;

use conf::ip::Subnet;
use conf::{Origin, Refusal};

use super::rule::By;

/// The highest limit: a child counts a little more.
const MOST: u64 = 60_000;

/// A limit.
#[derive(Clone, Debug)]
pub(super) struct ConnectionRule {
    pub(super) most: u64,
    by: By,
    /// Clients from here are not limited, such as balancers.
    except: Vec<Subnet>,
    /// Closes nothing, and only says so.
    pub(super) only_logs: bool,
    pub(super) origin: Origin,
}

impl ConnectionRule {
    pub(super) fn read(words: &[String], origin: Origin) -> Result<ConnectionRule, Refusal> {
        let [most, more @ ..] = words else {
            return Err(Refusal::missing("ClientLimitConnections takes a number, such as 50"));
        };
        let number = most.parse().ok().filter(|most| (1..=MOST).contains(most));
        let mut rule = ConnectionRule {
            most: number.ok_or_else(|| {
                let text = format!("ClientLimitConnections: '{most}' is not a number from 1 to {MOST}");
                Refusal::argument(1, text)
            })?,
            by: By::Address,
            except: Vec::new(),
            only_logs: false,
            origin,
        };
        for (index, word) in more.iter().enumerate() {
            let wrong = |what: &str| Refusal::argument(index + 2, format!("ClientLimitConnections: '{word}' {what}"));
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match (name.to_ascii_lowercase().as_str(), value) {
                ("by", "address") => rule.by = By::Address,
                ("by", "network") => rule.by = By::Network,
                ("by", _) => return Err(wrong("is neither by=address nor by=network")),
                ("except", networks) => {
                    let networks = networks.split(',').map(Subnet::parse).collect::<Result<Vec<_>, _>>();
                    rule.except
                        .extend(networks.map_err(|_| wrong("is no list of networks, such as 192.0.2.0/24,::1"))?);
                }
                ("only-log", "") => rule.only_logs = true,
                _ => return Err(wrong("is none of by=, except= and only-log")),
            }
        }
        Ok(rule)
    }

    /// Under which number the connections of a client count; `None`: the limit does not concern it.
    pub(super) fn key(&self, hasher: &RandomState, client: IpAddr) -> Option<u64> {
        let part = self.by.part_of(client).filter(|_| !self.except.iter().any(|network| network.contains(client)))?;
        Some(hasher.hash_one((self.origin.file(), self.origin.line, self.by.text(), part)))
    }
}

impl fmt::Display for ConnectionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientLimitConnections {}", self.most)
    }
}
