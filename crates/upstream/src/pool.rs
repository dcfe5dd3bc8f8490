//! Connections that stay open between requests: those of a child, and those that all children [share](crate::shared).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use sys::time::Instant;

use crate::connection::Connection;
use crate::remote::{Keep, Key, Kind};
use crate::stream::Stream;
use crate::tally::{IdleMark, Tally};
use crate::{resting, shared};

/// The most idle connections to all servers together, whatever is configured.
const IDLE_MAX: usize = 1024;

/// An idle connection, and since when.
type Idle = (Connection, Instant, Option<IdleMark>);

/// The interchangeable connections of a child.
#[derive(Default)]
struct Connections {
    idle: Vec<Idle>,
    /// Requests over fresh connections that the server has not begun to answer.
    awaited_responses: usize,
}

impl Connections {
    /// Whether there is nothing to know about them. Names that clients choose are part of their kind, so there may be
    /// many kinds.
    fn is_empty(&self) -> bool {
        self.idle.is_empty() && self.awaited_responses == 0
    }

    /// Takes the kept connection that was used last: see [`take`].
    fn take(&mut self, keep: Keep, within: Option<Duration>) -> Option<Connection> {
        let kept = &mut self.idle;
        while kept.last().is_some_and(|(_, since, _)| within.is_none_or(|time| since.elapsed() <= time))
            && let Some((mut connection, since, _)) = kept.pop()
        {
            if is_good(&mut connection, since, keep) {
                return Some(connection);
            }
        }
        None
    }
}

static CONNECTIONS: Mutex<Option<HashMap<Key, Connections>>> = Mutex::new(None);

fn connections() -> MutexGuard<'static, Option<HashMap<Key, Connections>>> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request over a fresh connection, until its response begins. It may wait for the very process that a kept
/// connection would occupy: meanwhile none is kept.
#[derive(Debug)]
pub struct AwaitedResponse(Key);

impl AwaitedResponse {
    /// The request over a connection of this kind begins to wait.
    pub fn new(kind: Kind) -> AwaitedResponse {
        connections().get_or_insert_default().entry(kind.key.clone()).or_default().awaited_responses += 1;
        AwaitedResponse(kind.key)
    }
}

impl Drop for AwaitedResponse {
    fn drop(&mut self) {
        let mut connections = connections();
        let Some(all) = connections.as_mut() else { return };
        if let Some(one) = all.get_mut(&self.0) {
            one.awaited_responses -= 1;
            if one.is_empty() {
                all.remove(&self.0);
            }
        }
    }
}

/// Takes the kept connection that was used last, within this time if one is given. Forgets those that the server has
/// closed, or over which it has sent what nobody has asked for.
pub fn take(kind: &Kind, keep: Keep, within: Option<Duration>) -> Option<Connection> {
    own(kind, keep, within).or_else(|| shared::take(kind.key.plain()?, keep, within).map(Connection::from))
}

/// Like [`take`], for code that reads and writes: a connection that the thread's reactor still watches comes first.
pub fn take_stream(kind: &Kind, keep: Keep, within: Option<Duration>) -> Option<Stream> {
    resting::take(kind, keep, within).or_else(|| take(kind, keep, within).map(Stream::new))
}

/// Like [`give`], for a connection that the thread's reactor may go on watching. `by_any`: no worker had to go on with its last
/// request, nor will with the next one of that kind.
pub fn give_stream(kind: &Kind, keep: Keep, stream: Stream, by_any: bool) {
    if let Err(stream) = resting::give(kind, keep, stream, by_any)
        && let Some(connection) = stream.into_connection()
    {
        give(kind, keep, connection);
    }
}

/// Like [`give_stream`], for a server whose processes serve one connection at a time each: the connection closes if a request waits
/// for one of them, and no more rest here than a child keeps for itself.
pub fn give_scarce(kind: &Kind, keep: Keep, stream: Stream) {
    let is_awaited =
        || connections().as_ref().and_then(|all| all.get(&kind.key)).is_some_and(|one| one.awaited_responses > 0);
    let most = keep.max.min(kind.key.plain().map_or(usize::MAX, shared::own));
    let rests = match is_awaited() {
        true => Err(stream),
        false => resting::give(kind, Keep { max: most, ..keep }, stream, false),
    };
    if let Err(stream) = rests
        && let Some(connection) = stream.into_connection()
    {
        give(kind, keep, connection);
    }
}

/// Takes one of the child's own.
fn own(kind: &Kind, keep: Keep, within: Option<Duration>) -> Option<Connection> {
    let mut connections = connections();
    let all = connections.as_mut()?;
    let one = all.get_mut(&kind.key)?;
    let taken = one.take(keep, within);
    // The place of a server that the configuration names stays.
    if one.is_empty() && kind.key.plain().is_none() {
        all.remove(&kind.key);
    }
    taken
}

/// Keeps a connection, unless a request waits for the process at its other end. The one that has been idle for the
/// longest time makes room for it.
pub fn give(kind: &Kind, keep: Keep, connection: Connection) {
    let Some(connection) = offered(kind, connection) else { return };
    let mut connections = connections();
    let all = connections.get_or_insert_default();
    if all.values().map(|one| one.idle.len()).sum::<usize>() >= IDLE_MAX {
        // Connections of other kinds may be idle for another time.
        let usual = Keep { idle: None, ..keep };
        all.values_mut()
            .for_each(|one| one.idle.retain_mut(|(connection, since, _)| is_good(connection, *since, usual)));
        all.retain(|_, one| !one.is_empty());
    }
    let has_room = all.values().map(|one| one.idle.len()).sum::<usize>() < IDLE_MAX;
    if !all.contains_key(&kind.key) {
        all.insert(kind.key.clone(), Connections::default());
    }
    let Some(one) = all.get_mut(&kind.key) else { return };
    let Connections { idle: kept, awaited_responses } = &mut *one;
    kept.retain(|(_, since, _)| keep.allows(*since));
    if kept.len() >= keep.max && !kept.is_empty() {
        kept.remove(0).0.close();
    }
    if kept.len() < keep.max && has_room && *awaited_responses == 0 {
        kept.push((connection, Instant::now(), kind.tally.as_ref().map(Tally::idle_one)));
    } else {
        connection.close();
    }
    if one.is_empty() {
        all.remove(&kind.key);
    }
}

/// Gives a connection to all children, if this one has enough. Returns the one that it keeps.
fn offered(kind: &Kind, connection: Connection) -> Option<Connection> {
    let Some(address) = kind.key.plain() else { return Some(connection) };
    let has_enough = |most: usize| {
        let idle = || connections().as_ref().and_then(|all| all.get(&kind.key)).map_or(0, |one| one.idle.len());
        most == 0 || resting::count(&kind.key) + idle() >= most
    };
    match connection.into_descriptor() {
        Ok(socket) => shared::put(address, socket, has_enough).err().map(Connection::from),
        Err(encrypted) => Some(encrypted),
    }
}

/// Whether a connection may be used: it is not too old, and its other end has neither closed it nor sent anything.
fn is_good(connection: &mut Connection, since: Instant, keep: Keep) -> bool {
    keep.allows(since) && connection.is_quiet()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::remote::{Address, RemoteServer};

    #[test]
    fn connections_are_kept_while_they_are_good() {
        let address = Address::Unix("/connections/are/kept".into());
        let (name, connect) = (address.to_string(), Duration::ZERO);
        let kind = RemoteServer { address, name, connect, keep: None, tls: None, way: None, tally: None }.kind();
        let keep = Keep { max: 1, idle: None };
        let pair = || {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("it does not block");
            (ours, theirs)
        };
        let kept = |ours: UnixStream| Connection::from(Arc::new(ours.into()));
        let ((first, _other), (second, gone)) = (pair(), pair());
        give(&kind, keep, kept(first));
        give(&kind, keep, kept(second));
        drop(gone);
        assert!(take(&kind, keep, None).is_none(), "the second took the place of the first, and has ended");
        assert!(take(&kind, keep, None).is_none());
        let (first, _other) = pair();
        give(&kind, keep, kept(first));
        assert!(take(&kind, keep, Some(Duration::ZERO)).is_none(), "it was not in use just now");
        assert!(take(&kind, keep, None).is_some(), "it stays for others");
        let (first, other) = pair();
        give(&kind, keep, kept(first));
        drop(other);
        assert!(take(&kind, keep, None).is_none(), "the server has closed it");
        let (first, _other) = pair();
        give(&kind, keep, kept(first));
        assert!(take(&kind, Keep { idle: Some(Duration::ZERO), ..keep }, None).is_none(), "it is too old");
    }
}
