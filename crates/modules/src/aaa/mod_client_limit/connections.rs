//! `ClientLimitConnections`: how many connections a client may have open at once.
//!
//! They are counted in the scoreboard, over all children. Whoever has too many costs an `accept` and a `close`: no byte is read, no
//! handshake is made.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;

use conf::ip::Subnet;
use conf::{Cmd, Level, Origin, Outcome, Refusal};
use runtime::scoreboard::{self, CountedConnection, NUMBERS_MAX, Workers};
use server::{Reception, Request, Server};

use super::rule::By;
use super::table::Refused;
use super::{CLIENTS_OF_SERVER, ClientLimitServer};

pub(super) static RECEPTION: Reception = Reception { is_used, receive };

/// The highest limit: a child counts a little more.
const MOST: u64 = 60_000;

/// A limit.
#[derive(Clone, Debug)]
pub(super) struct ConnectionRule {
    most: u64,
    by: By,
    /// Clients from here are not limited, such as balancers.
    except: Vec<Subnet>,
    /// Closes nothing, and only says so.
    only_logs: bool,
    origin: Origin,
}

pub(super) fn set(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let rule = ConnectionRule::read(words, cmd.origin())?;
    if cmd.server.edit::<ClientLimitServer>().connections.iter().count() == NUMBERS_MAX {
        return Err(format!("ClientLimitConnections: there may be {NUMBERS_MAX} lines of it").into());
    }
    cmd.server_push(|s: &mut ClientLimitServer| &mut s.connections, rule)
}

fn is_used(server: &Server) -> bool {
    rules(server).next().is_some()
}

fn rules(server: &Server) -> impl Iterator<Item = &ConnectionRule> {
    server.main().settings.get::<ClientLimitServer>().connections.iter()
}

/// Makes room for the counts, if there is a limit. Runs in the parent.
pub(super) fn prepare(server: &Server) -> std::io::Result<()> {
    if is_used(server) { scoreboard::count_clients() } else { Ok(()) }
}

/// Counts a new connection. `None`: its client has too many.
fn receive(server: &Server, client: IpAddr, workers: &'static Workers) -> Option<Vec<CountedConnection>> {
    let (table, hasher) = CLIENTS_OF_SERVER.get()?;
    let mut counted = Vec::new();
    for rule in rules(server) {
        let Some(key) = rule.key(hasher, client) else { continue };
        let (connection, count) = workers.count_connection(key);
        if count > rule.most {
            table.count(Refused::Connection, !rule.only_logs);
            let what = if rule.only_logs { "would refuse" } else { "refuses" };
            let text = format!("{rule} {what} {client} a connection beside {} others", count - 1);
            server.main().log("client_limit", Level::Info, &text);
            if !rule.only_logs {
                return None;
            }
        }
        counted.push(connection);
    }
    Some(counted)
}

/// Shows a request that nobody has sent how many connections its client has.
pub(super) fn explain(request: &mut Request) {
    let Some((_, hasher)) = CLIENTS_OF_SERVER.get() else { return };
    let (server, client) = (request.server, request.client().connection().peer.ip().to_canonical());
    for rule in rules(server) {
        let Some(key) = rule.key(hasher, client) else { continue };
        let open = scoreboard::get().map_or(0, |board| board.connections_of(key));
        request.note_step("client_limit", Some(&rule.origin), |_| format!("{rule}: {client} has {open} open"));
    }
}

impl ConnectionRule {
    fn read(words: &[String], origin: Origin) -> Result<ConnectionRule, Refusal> {
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
    fn key(&self, hasher: &RandomState, client: IpAddr) -> Option<u64> {
        let part = self.by.part_of(client).filter(|_| !self.except.iter().any(|network| network.contains(client)))?;
        Some(hasher.hash_one((self.origin.file(), self.origin.line, self.by.text(), part)))
    }
}

impl fmt::Display for ConnectionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientLimitConnections {}", self.most)
    }
}
