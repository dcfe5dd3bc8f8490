//! Idle connections that all children share, while no child has them.
//!
//! They wait in a socket of the kernel, one for each server: a child sends the descriptor of a connection into it, and any child takes
//! it out. Nobody serves the socket, and nobody waits for it. So there are as many connections to a server as requests at a time, not as
//! many as there are children: of a hundred children of prefork, each would have its own.
//!
//! Encrypted connections stay with their child, which has their keys.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sys::local::{self, SocketKind};
use sys::time::Instant;

use crate::remote::Address;

/// For how many servers there are sockets: each takes two descriptors.
const SERVERS_MAX: usize = 128;

/// What the children of one configuration share.
#[derive(Debug, Default)]
struct Shared {
    mailboxes: HashMap<Address, Mailbox>,
    /// How many idle connections to a server a child keeps for itself.
    own: usize,
}

/// A socket in which descriptors wait.
#[derive(Debug)]
struct Mailbox {
    into: OwnedFd,
    out: OwnedFd,
}

static SHARED: RwLock<Option<Shared>> = RwLock::new(None);

/// Lets the children that are started from now on share their connections to these servers. `own`: how many idle ones to a server a
/// child keeps for itself. For the parent, before it starts children; the children of a former configuration share theirs with
/// each other.
///
/// # Errors
/// There are no descriptors for the sockets; then nothing is shared.
pub fn share(servers: impl Iterator<Item = Address>, own: usize) -> io::Result<()> {
    let mut mailboxes = HashMap::new();
    let mut result = Ok(());
    for address in servers {
        if mailboxes.len() < SERVERS_MAX && !mailboxes.contains_key(&address) {
            match local::pair(SocketKind::Stream) {
                Ok((into, out)) => mailboxes.insert(address, Mailbox { into, out }),
                Err(error) => {
                    result = Err(error);
                    mailboxes.clear();
                    break;
                }
            };
        }
    }
    *SHARED.write().unwrap_or_else(PoisonError::into_inner) = Some(Shared { mailboxes, own });
    result
}

/// How many idle connections to a server a child keeps for itself. `None`: all, since nobody shares them.
pub(crate) fn own_of(address: &Address) -> Option<usize> {
    let shared = SHARED.read().unwrap_or_else(PoisonError::into_inner);
    shared.as_ref().filter(|shared| shared.mailboxes.contains_key(address)).map(|shared| shared.own)
}

/// Gives an idle connection to all children. `Err`: there is no room.
pub(crate) fn put(address: &Address, connection: Arc<OwnedFd>, since: Instant) -> Result<(), Arc<OwnedFd>> {
    let shared = SHARED.read().unwrap_or_else(PoisonError::into_inner);
    let Some(mailbox) = shared.as_ref().and_then(|shared| shared.mailboxes.get(address)) else {
        return Err(connection);
    };
    let message = since.nanoseconds().to_ne_bytes();
    match local::send(&mailbox.into, &message, &[connection.as_fd()]) {
        Ok(length) if length == message.len() => Ok(()),
        _ => Err(connection),
    }
}

/// Takes the connection that has waited longest, and since when it is idle.
pub(crate) fn take(address: &Address) -> Option<(Arc<OwnedFd>, Instant)> {
    let shared = SHARED.read().unwrap_or_else(PoisonError::into_inner);
    let mailbox = shared.as_ref()?.mailboxes.get(address)?;
    let (mut message, mut descriptors) = ([0; 8], Vec::with_capacity(1));
    // What is sent at once with a descriptor is received at once.
    let length = local::receive(&mailbox.out, &mut message, &mut descriptors).ok()?;
    let connection = descriptors.pop().filter(|_| length == message.len())?;
    let now = Instant::now();
    let age = now.nanoseconds().saturating_sub(u64::from_ne_bytes(message));
    Some((Arc::new(connection), now.checked_sub(Duration::from_nanos(age)).unwrap_or(now)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_put_is_taken_once() {
        let (known, other) = (Address::Unix("/shared/known".into()), Address::Unix("/shared/other".into()));
        share([known.clone(), known.clone()].into_iter(), 3).expect("a socket");
        assert_eq!((own_of(&known), own_of(&other)), (Some(3), None));
        assert!(take(&known).is_none(), "nothing is there yet");
        let descriptor = || -> Arc<OwnedFd> { Arc::new(UnixStream::pair().expect("a pair").0.into()) };
        assert!(put(&other, descriptor(), Instant::now()).is_err(), "nobody shares it");
        let since = Instant::now();
        put(&known, descriptor(), since).expect("room");
        put(&known, descriptor(), Instant::now()).expect("room");
        let (_, first) = take(&known).expect("the first");
        assert!(first.saturating_duration_since(since) < Duration::from_millis(1), "it has waited longest");
        assert!(take(&known).is_some() && take(&known).is_none());
        let room = (0..10_000).take_while(|_| put(&known, descriptor(), since).is_ok()).count();
        assert!((100..10_000).contains(&room), "{room}");
    }
}
