//! Connections that stay open between requests, as plain descriptors: each child has its own.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::time::Instant;

use crate::remote::{Address, Keep};
use crate::stream::is_quiet;

/// The most idle connections to all servers together, whatever is configured.
const IDLE_MAX: usize = 1024;

/// How long a connection may be idle if the configuration does not say.
const IDLE: Duration = Duration::from_secs(60);

/// An idle connection, and since when.
type Idle = (Arc<OwnedFd>, Instant);

/// The connections of a child to one server.
#[derive(Default)]
struct Connections {
    idle: Vec<Idle>,
    /// Requests over fresh connections that the server has not begun to answer.
    awaited_responses: usize,
}

static CONNECTIONS: Mutex<Option<HashMap<Address, Connections>>> = Mutex::new(None);

fn connections() -> MutexGuard<'static, Option<HashMap<Address, Connections>>> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request over a fresh connection, until its response begins. It may wait for the very process that a kept
/// connection would occupy: meanwhile none is kept.
#[derive(Debug)]
pub struct AwaitedResponse(Address);

impl AwaitedResponse {
    /// The request to this server begins to wait.
    pub fn new(address: &Address) -> AwaitedResponse {
        connections().get_or_insert_default().entry(address.clone()).or_default().awaited_responses += 1;
        AwaitedResponse(address.clone())
    }
}

impl Drop for AwaitedResponse {
    fn drop(&mut self) {
        if let Some(one) = connections().as_mut().and_then(|all| all.get_mut(&self.0)) {
            one.awaited_responses -= 1;
        }
    }
}

/// Takes the kept connection that was used last, within this time if one is given. Forgets those that the server has
/// closed, or over which it has sent what nobody has asked for.
pub fn take(address: &Address, keep: Keep, within: Option<Duration>) -> Option<Arc<OwnedFd>> {
    let mut connections = connections();
    let kept = &mut connections.as_mut()?.get_mut(address)?.idle;
    while kept.last().is_some_and(|(_, since)| within.is_none_or(|time| since.elapsed() <= time))
        && let Some((socket, since)) = kept.pop()
    {
        if is_good(&socket, since, keep.idle) {
            return Some(socket);
        }
    }
    None
}

/// Keeps a connection, unless a request waits for the process at its other end. The one that has been idle for the
/// longest time makes room for it.
pub fn give(address: Address, keep: Keep, socket: Arc<OwnedFd>) {
    let mut connections = connections();
    let all = connections.get_or_insert_default();
    if all.values().map(|one| one.idle.len()).sum::<usize>() >= IDLE_MAX {
        all.values_mut().for_each(|one| one.idle.retain(|(socket, since)| is_good(socket, *since, None)));
        all.retain(|_, one| !one.idle.is_empty() || one.awaited_responses > 0);
    }
    let has_room = all.values().map(|one| one.idle.len()).sum::<usize>() < IDLE_MAX;
    let Connections { idle: kept, awaited_responses } = all.entry(address).or_default();
    let limit = keep.idle.unwrap_or(IDLE);
    kept.retain(|(_, since)| since.elapsed() < limit);
    if kept.len() >= keep.max && !kept.is_empty() {
        kept.remove(0);
    }
    if kept.len() < keep.max && has_room && *awaited_responses == 0 {
        kept.push((socket, Instant::now()));
    }
}

/// Whether a connection may be used: it is not too old, and its other end has neither closed it nor sent anything.
fn is_good(socket: &OwnedFd, since: Instant, limit: Option<Duration>) -> bool {
    since.elapsed() < limit.unwrap_or(IDLE) && is_quiet(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn connections_are_kept_while_they_are_good() {
        let address = Address::Unix("/connections/are/kept".into());
        let keep = Keep { max: 1, idle: None };
        let pair = || {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("it does not block");
            (ours, theirs)
        };
        let ((first, _other), (second, gone)) = (pair(), pair());
        give(address.clone(), keep, Arc::new(first.into()));
        give(address.clone(), keep, Arc::new(second.into()));
        drop(gone);
        assert!(take(&address, keep, None).is_none(), "the second took the place of the first, and has ended");
        assert!(take(&address, keep, None).is_none());
        let (first, _other) = pair();
        give(address.clone(), keep, Arc::new(first.into()));
        assert!(take(&address, keep, Some(Duration::ZERO)).is_none(), "it was not in use just now");
        assert!(take(&address, keep, None).is_some(), "it stays for others");
        let (first, other) = pair();
        give(address.clone(), keep, Arc::new(first.into()));
        drop(other);
        assert!(take(&address, keep, None).is_none(), "the server has closed it");
        let (first, _other) = pair();
        give(address.clone(), keep, Arc::new(first.into()));
        assert!(take(&address, Keep { idle: Some(Duration::ZERO), ..keep }, None).is_none(), "it is too old");
    }
}
