//! New connections, and whether their clients may have them.

use std::net::{IpAddr, SocketAddr};

use runtime::scoreboard::Workers;
use runtime::{Connection, Stage, Stepping};

use crate::exchange::Running;
use crate::request::client::Announced;
use crate::transport::endpoint::Transport;

/// Whether the client of a new connection may have it. One whose proxy will announce its client is asked about that
/// ([`receive_announced`]).
pub(super) fn receive(
    running: Running,
    transport: &dyn Transport,
    peer: SocketAddr,
    workers: &'static Workers,
) -> bool {
    let Some(_) = running.hooks.reception else { return true };
    let peer = peer.ip().to_canonical();
    let is_announced = running
        .hooks
        .preface
        .is_some_and(|preface| transport.local().is_ok_and(|local| (preface.is_expected)(running.server, peer, local)));
    is_announced || ask(running, transport, peer, workers)
}

/// The same for the client that a proxy announces. A proxy that speaks for itself looks after its clients.
pub(super) fn receive_announced(
    running: Running,
    transport: &dyn Transport,
    announced: Announced,
    workers: &'static Workers,
) -> bool {
    match announced {
        Announced::Client(client) => ask(running, transport, client.ip().to_canonical(), workers),
        Announced::Nobody => true,
    }
}

fn ask(running: Running, transport: &dyn Transport, client: IpAddr, workers: &'static Workers) -> bool {
    let Some(reception) = running.hooks.reception else { return true };
    match (reception.receive)(running.server, client, workers) {
        Some(counted) => {
            transport.keep(counted);
            true
        }
        None => false,
    }
}

/// A connection that its client may not have: it is closed.
pub(super) struct TurnedAway;

impl Connection for TurnedAway {
    fn step(&mut self, _: Stage) -> Stepping<'_> {
        Stepping::Done(Stage::Closed)
    }

    fn has_input(&self) -> bool {
        false
    }
}
