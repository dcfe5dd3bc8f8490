//! Idle connections that all children share, while no child has them.
//!
//! They wait in a socket of the kernel, one for each server: a child sends the descriptor of a connection into it, and any child takes
//! it out. Nobody serves the socket, and nobody waits for it. So there are as many connections to a server as requests at a time, not as
//! many as there are children: of a hundred children of prefork, each would have its own.
//!
//! Descriptors that wait count towards a limit of the kernel, which concerns everything that this user sends in the same way: so few
//! wait, and the parent [removes](tidy) those that have ended. Encrypted connections stay with their child, which has their keys.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt as _};
use sys::local::{self, SocketKind};
use sys::rlimit::{self, Limit};
use sys::time::Instant;

use crate::remote::{Address, Keep};
use crate::stream::is_quiet;

/// For how many servers there are sockets: each takes two descriptors.
const SERVERS_MAX: usize = 128;
/// How many connections to a server wait at most.
const WAITING_MAX: usize = 64;
/// The part of the descriptors of a process that may wait in all sockets: one of so many. A reload has twice as many for a moment.
const DESCRIPTORS_PART: u64 = 8;
/// How many connections a request looks at, that needs a young one.
const LOOKS: usize = 8;
/// The length of a message: since when the connection is idle.
const MESSAGE: usize = size_of::<u64>();

/// What the children of one configuration share.
#[derive(Debug, Default)]
struct Shared {
    mailboxes: HashMap<Address, Mailbox>,
    /// How many idle connections to a server a child keeps for itself.
    own: usize,
    /// How many wait for a server at most.
    most: usize,
}

/// A socket in which descriptors wait.
#[derive(Debug)]
struct Mailbox {
    into: OwnedFd,
    out: OwnedFd,
    keep: Keep,
}

impl Mailbox {
    /// How many connections wait.
    fn waiting(&self) -> usize {
        let bytes = sys::file::waiting(&self.out).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX) / MESSAGE
    }

    fn put(&self, connection: &OwnedFd, since: Instant) -> bool {
        let message = since.nanoseconds().to_ne_bytes();
        local::send(&self.into, &message, &[connection.as_fd()]).is_ok_and(|length| length == MESSAGE)
    }

    fn take(&self) -> Option<(OwnedFd, Instant)> {
        let (mut message, mut descriptors) = ([0; MESSAGE], Vec::with_capacity(1));
        // What is sent at once with a descriptor is received at once.
        let length = local::receive(&self.out, &mut message, &mut descriptors).ok()?;
        let connection = descriptors.pop().filter(|_| length == MESSAGE)?;
        let now = Instant::now();
        let age = now.nanoseconds().saturating_sub(u64::from_ne_bytes(message));
        Some((connection, now.checked_sub(Duration::from_nanos(age)).unwrap_or(now)))
    }
}

static SHARED: RwLock<Option<Shared>> = RwLock::new(None);

fn shared() -> RwLockReadGuard<'static, Option<Shared>> {
    SHARED.read().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the children that are started from now on share their connections to these servers. `own`: how many idle ones to a server a
/// child keeps for itself. For the parent, before it starts children; the children of a former configuration share theirs with
/// each other.
///
/// # Errors
/// There are no descriptors for the sockets; then nothing is shared.
pub fn share(servers: impl Iterator<Item = (Address, Keep)>, own: usize) -> io::Result<()> {
    let mut mailboxes = HashMap::new();
    let mut result = Ok(());
    for (address, keep) in servers {
        if mailboxes.len() < SERVERS_MAX && !mailboxes.contains_key(&address) {
            match local::pair(SocketKind::Stream) {
                Ok((into, out)) => mailboxes.insert(address, Mailbox { into, out, keep }),
                Err(error) => {
                    result = Err(error);
                    mailboxes.clear();
                    break;
                }
            };
        }
    }
    let descriptors = rlimit::get(Limit::Descriptors).soft.unwrap_or(u64::MAX) / DESCRIPTORS_PART;
    let each = usize::try_from(descriptors).unwrap_or(usize::MAX) / mailboxes.len().max(1);
    let shared = Shared { mailboxes, own, most: each.min(WAITING_MAX) };
    *SHARED.write().unwrap_or_else(PoisonError::into_inner) = Some(shared);
    result
}

/// Removes connections that have ended, or have been idle for too long. For the parent, now and then.
pub fn tidy() {
    for mailbox in shared().iter().flat_map(|shared| shared.mailboxes.values()) {
        for _ in 0..mailbox.waiting() {
            let Some((connection, since)) = mailbox.take() else { break };
            if mailbox.keep.allows(since) && is_quiet(&connection) {
                mailbox.put(&connection, since);
            }
        }
    }
}

/// How many idle connections to a server no child has.
pub fn waiting(address: &Address) -> usize {
    shared().as_ref().and_then(|shared| shared.mailboxes.get(address)).map_or(0, Mailbox::waiting)
}

/// How many idle connections to a server a child keeps for itself.
pub(crate) fn own(address: &Address) -> usize {
    let shared = shared();
    shared.as_ref().filter(|shared| shared.mailboxes.contains_key(address)).map_or(usize::MAX, |shared| shared.own)
}

/// Gives a connection that was just in use to all children, if this one `has_enough`: it has so many idle ones. `Err`: it has not, nobody
/// shares them, or there is no room.
pub(crate) fn put(
    address: &Address,
    connection: Arc<OwnedFd>,
    has_enough: impl FnOnce(usize) -> bool,
) -> Result<(), Arc<OwnedFd>> {
    let shared = shared();
    let Some((shared, mailbox)) = shared.as_ref().and_then(|shared| Some((shared, shared.mailboxes.get(address)?)))
    else {
        return Err(connection);
    };
    let has_room = || mailbox.waiting() < shared.most.min(mailbox.keep.max);
    let is_put = has_enough(shared.own) && has_room() && mailbox.put(&connection, Instant::now());
    if is_put { Ok(()) } else { Err(connection) }
}

/// Takes a connection that is good, and was in use within this time, if one is given. The one that has waited longest comes first.
pub(crate) fn take(address: &Address, keep: Keep, within: Option<Duration>) -> Option<Arc<OwnedFd>> {
    let shared = shared();
    let mailbox = shared.as_ref()?.mailboxes.get(address)?;
    let mut looks = LOOKS;
    loop {
        let (connection, since) = mailbox.take()?;
        if !keep.allows(since) || !is_quiet(&connection) {
            continue;
        }
        if within.is_none_or(|time| since.elapsed() <= time) {
            return Some(Arc::new(connection));
        }
        // It is for a request that may be sent twice.
        mailbox.put(&connection, since);
        looks -= 1;
        if looks == 0 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_put_is_taken_once() {
        let (known, other) = (Address::Unix("/shared/known".into()), Address::Unix("/shared/other".into()));
        let keep = Keep { max: 40, idle: None };
        share([(known.clone(), keep), (known.clone(), keep)].into_iter(), 3).expect("a socket");
        let enough = |own: usize| {
            assert_eq!(own, 3);
            true
        };
        let take = |within| take(&known, keep, within);
        assert!(take(None).is_none(), "nothing is there yet");
        let pair = || {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("it does not block");
            (Arc::new(OwnedFd::from(ours)), theirs)
        };
        assert!(put(&other, pair().0, enough).is_err(), "nobody shares it");
        let ((one, theirs), (two, gone)) = (pair(), pair());
        put(&known, two, enough).expect("room");
        let one = put(&known, one, |_| false).expect_err("the child keeps it");
        put(&known, one, enough).expect("room");
        drop(gone);
        assert!(take(Some(Duration::ZERO)).is_none(), "the one that is good was not in use just now");
        assert!(take(None).is_some() && take(None).is_none(), "it stays for others");
        drop(theirs);
        let all: Vec<_> = (0..50).map(|_| pair()).collect();
        let room = all.iter().take_while(|(ours, _)| put(&known, ours.clone(), enough).is_ok()).count();
        assert_eq!(room, 40);
        drop(all);
        tidy();
        assert!(put(&known, pair().0, enough).is_ok(), "those that have ended are gone");
    }
}
