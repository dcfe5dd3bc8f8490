//! `ClientLimitConnections`: how many connections a client may have open at once.
//!
//! They are counted in the scoreboard, over all children. Whoever has too many costs an `accept` and a `close`: no byte is read, no
//! handshake is made.

use std::net::IpAddr;

use conf::{Cmd, Level, Outcome};
use runtime::scoreboard::{self, CountedConnection, NUMBERS_MAX, Workers};
use server::{Reception, Request, Server};

use super::connection_rule::ConnectionRule;
use super::settings::ClientLimitServer;
use super::table::{CLIENTS_OF_SERVER, Refused};

pub(super) static RECEPTION: Reception = Reception { is_used, receive };

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
