//! A child's idle connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::time::Instant;
use upstream::Address;

use super::connection::{Connection, Identity};
use crate::slots::Slots;

/// The most requests of a child that may query at a time, for all directories together; also the most idle connections.
const ASKING_MAX: usize = 128;
pub(super) static ASKING: Slots = Slots::new(ASKING_MAX);

struct Idle {
    hosts: Arc<[Address]>,
    connection: Connection,
    since: Instant,
}

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Idle>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to these hosts: one bound as this identity, otherwise any. Closes those that are too old.
pub(super) fn take(hosts: &Arc<[Address]>, identity: &Identity, longest: Option<Duration>) -> Option<Connection> {
    loop {
        let mut gone = Vec::new();
        let found = {
            let mut idle = idle();
            let is_fresh = |one: &Idle| longest.is_none_or(|time| one.since.elapsed() <= time);
            gone.extend(idle.extract_if(.., |one| one.hosts == *hosts && !is_fresh(one)));
            let is_bound = |one: &Idle| one.hosts == *hosts && one.connection.bound.as_ref() == Some(identity);
            let place = idle.iter().rposition(is_bound);
            let place = place.or_else(|| idle.iter().rposition(|one| one.hosts == *hosts));
            place.map(|place| idle.swap_remove(place).connection)
        };
        gone.into_iter().for_each(|one| one.connection.close());
        match found {
            Some(connection) if connection.is_stale() => {}
            found => return found,
        }
    }
}

/// Keeps a connection; the one idle for the longest time makes room.
pub(super) fn give(hosts: Arc<[Address]>, connection: Connection) {
    let mut idle = idle();
    let oldest = (0..idle.len()).min_by_key(|at| idle[*at].since).filter(|_| idle.len() >= ASKING_MAX);
    let gone = oldest.map(|at| idle.swap_remove(at));
    idle.push(Idle { hosts, connection, since: Instant::now() });
    drop(idle);
    gone.into_iter().for_each(|one| one.connection.close());
}
