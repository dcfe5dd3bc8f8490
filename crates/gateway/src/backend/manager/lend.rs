//! Lending backends to children.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use runtime::executor::{timeout, yield_now};
use sys::process::Pid;
use sys::time::Instant;
use sys::watch::{Interest, Watched, watch};

use super::shared::{PIECE, Shared};
use crate::backend::class::Concurrency;
use crate::backend::manager_messages::{FromChild, FromManager, Grant, Outcome, PACKET_MAX, Question};
use crate::backend::pool::{Granted, LeaseProgress};
use crate::backend::reason::Reason;
use crate::protocol::{Frames, Messages};

/// How long to read the rest of an unwanted response.
const REST: Duration = Duration::from_secs(2);
/// How much of it is read after the backend was told that nobody wants it, in bytes.
const REST_MAX: usize = 1 << 20;
/// How often to check whether a child still needs its lease.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Serves a connection of a child, from one request to the next.
pub(super) async fn attend(shared: Arc<Shared>, connection: OwnedFd) {
    let Ok(user) = sys::local::peer_user(&connection) else { return };
    let Ok(child) = sys::local::peer_process(&connection) else { return };
    if !shared.users.is_known(user) {
        runtime::log!("core", Warn, "a process of user {user} asked for a backend, and was refused");
        return;
    }
    let Ok(connection) = watch(Arc::new(connection), Interest::READABLE) else { return };
    let mut packet = vec![0; PACKET_MAX];
    let mut request = receive(&connection, &mut packet).await;
    while let Ok(length) = request {
        let Some(FromChild::Backend(question)) = FromChild::decode(&packet[..length]) else { return };
        let Some((index, granted)) = get(&shared, &connection, child, question).await else { return };
        request = match granted {
            Granted::Backend { number, socket, grant } => {
                lend(&shared, &connection, &mut packet, Lent { index, number, socket, grant }).await
            }
            Granted::Refused { status, why } => {
                match sys::local::send(connection.get_ref(), &FromManager::Refused { status, why }.encode(), &[]) {
                    Ok(_) => receive(&connection, &mut packet).await,
                    Err(error) => Err(error),
                }
            }
        };
    }
}

/// Gets a backend of the class, and waits for it as long as the child does; also the number of its pool. `None`: the
/// child does not wait any more.
async fn get(
    shared: &Arc<Shared>,
    connection: &Watched,
    child: Pid,
    Question { came, version, class }: Question<'_>,
) -> Option<(usize, Granted)> {
    let (index, waiter, enqueued, behind) = {
        let mut state = shared.state();
        let index = state.pool(class, version)?;
        let waiter = state.number();
        let pool = &mut state.pools[index];
        let behind = pool.is_busy();
        (index, waiter, pool.enqueue(waiter, child, came, version), behind)
    };
    let granted = match enqueued {
        Err(granted) => return Some((index, granted)),
        Ok(granted) => granted,
    };
    shared.settle(index);
    let queued = behind && granted.get().is_none();
    let mut given = std::pin::pin!(granted.wait());
    // The other side can only close the connection now.
    let granted_or_gone = poll_fn(|cx| match given.as_mut().poll(cx) {
        Poll::Ready(granted) => Poll::Ready(Some(granted)),
        Poll::Pending => poll_gone(connection, cx).map(|()| None),
    })
    .await;
    let Some(mut granted) = granted_or_gone else {
        shared.state().pools[index].forget(waiter);
        // The lease may have been granted at the last moment.
        if let Some(Granted::Backend { number, grant, .. }) = granted.get() {
            give_back(shared, index, number, grant.lease, &Outcome::Ready);
        }
        return None;
    };
    if let Granted::Backend { grant, .. } = &mut granted {
        grant.queued = queued;
    }
    Some((index, granted))
}

/// A backend that a child holds.
struct Lent {
    /// The number of its pool.
    index: usize,
    number: u64,
    socket: Arc<OwnedFd>,
    grant: Grant,
}

/// Lends a backend to the child at the other end for as long as it needs it. Returns the child's next message.
async fn lend(shared: &Arc<Shared>, connection: &Watched, packet: &mut [u8], lent: Lent) -> io::Result<usize> {
    let Lent { index, number, grant, .. } = lent;
    let next =
        match sys::local::send(connection.get_ref(), &FromManager::Granted(grant).encode(), &[lent.socket.as_fd()]) {
            Ok(_) => next_message(shared, connection, packet, &lent).await,
            Err(error) => Err(error),
        };
    let message = next.as_ref().ok().and_then(|length| FromChild::decode(&packet[..*length]));
    if let Some(FromChild::Done(outcome)) = message {
        let many = shared.state().pools[index].class.concurrency != Concurrency::One;
        match outcome {
            // Other requests have other connections. The backend is busy with this one until it notices, and closes its own.
            Outcome::Abandoned(_) | Outcome::Cut | Outcome::Broken if many => {
                let shared = shared.clone();
                Shared::go(&shared.clone(), async move {
                    until_closed(lent.socket).await;
                    give_back(&shared, index, number, grant.lease, &outcome);
                });
            }
            outcome => {
                give_back(shared, index, number, grant.lease, &outcome);
                // If only this request had the connection, the backend learns now that nobody reads it any more.
                drop(lent);
            }
        }
        return receive(connection, packet).await;
    }
    // The child has gone or asks again, and does not need the lease any more that it may have kept.
    let was_kept = shared.state().pools[index].take_back(number, grant.lease);
    if was_kept {
        shared.settle_all(index);
    } else {
        // A child that has gone leaves a request behind that may be half finished.
        give_back(shared, index, number, grant.lease, &Outcome::Broken);
    }
    next
}

/// Listens to a child that holds a backend. Takes the backend back if the child keeps it longer than it needs, and ends
/// it if a request takes too long.
async fn next_message(shared: &Arc<Shared>, connection: &Watched, packet: &mut [u8], lent: &Lent) -> io::Result<usize> {
    let Lent { index, number, grant, .. } = *lent;
    let class = shared.state().pools[index].class.clone();
    let busy = class.settings.busy;
    let check_interval = Some(CHECK_INTERVAL).filter(|_| grant.place != u64::MAX);
    let (mut seen, mut since) = (LeaseProgress::default(), Instant::now());
    loop {
        let left = busy.map(|busy| busy.saturating_sub(since.elapsed()));
        let Some(patience) = check_interval.into_iter().chain(left).min() else { break };
        if let Ok(message) = timeout(patience, receive(connection, packet)).await {
            return message;
        }
        let progress = shared.state().pools[index].lease_progress(number, grant.lease);
        let Some(now) = progress else {
            // The lease was taken back: the backend may have to serve, or to end.
            shared.settle_all(index);
            break;
        };
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if now.is_unused {
            // The child may need it at the same moment.
            if shared.state().pools[index].take_back(number, grant.lease) {
                shared.settle_all(index);
                break;
            }
        } else if let Some(busy) = busy.filter(|busy| since.elapsed() >= *busy) {
            let text =
                format!("{} (process {}) has served a request for {busy:?}, which is too long", class.name, grant.pid);
            runtime::log!(&class.module, Warn, "{text}");
            shared.state().pools[index].end(number, Reason::Timeout);
            // The child that waits for its response learns of it at once.
            let _ = sys::socket::shutdown(&lent.socket);
            break;
        }
    }
    receive(connection, packet).await
}

/// Ready when the other side has closed the connection, or sends anything: it has nothing to say now.
fn poll_gone(connection: &Watched, cx: &mut Context<'_>) -> Poll<()> {
    loop {
        let Ok(mut ready) = ready!(connection.poll_read_ready(cx)) else { return Poll::Ready(()) };
        match sys::socket::peek(connection.get_ref(), &mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            _ => return Poll::Ready(()),
        }
    }
}

/// Ends a lease.
fn give_back(shared: &Arc<Shared>, index: usize, number: u64, lease: u64, outcome: &Outcome) {
    let (rest, protocol) = {
        let mut state = shared.state();
        let pool = &mut state.pools[index];
        (pool.release(number, lease, outcome), pool.class.protocol)
    };
    if let Some(socket) = rest {
        let shared = shared.clone();
        let (open, frames) = match outcome {
            Outcome::Abandoned(position) => (true, Frames::at(protocol, position)),
            _ => (false, None),
        };
        Shared::go(&shared.clone(), async move {
            let ready = match (open, frames) {
                (true, Some(frames)) => timeout(REST, drain(socket, frames)).await.unwrap_or(false),
                (true, None) => false,
                (false, _) => timeout(REST, until_closed(socket)).await.unwrap_or(false),
            };
            shared.state().pools[index].drained(number, ready, open);
            shared.settle_all(index);
        });
    }
    shared.settle_all(index);
}

/// Reads the rest of an unwanted response. Returns whether it has ended.
async fn drain(socket: Arc<OwnedFd>, mut frames: Frames) -> bool {
    let Ok(watched) = watch(socket, Interest::READABLE) else { return false };
    let (mut received, mut decoded) = (vec![0; PIECE], Messages::default());
    let mut output = Vec::new();
    loop {
        match sys::socket::receive(watched.get_ref(), &mut received) {
            Ok(0) => return false,
            Ok(length) => {
                if frames.read(&received[..length], &mut output, &mut decoded).is_err() {
                    return false;
                }
                output.clear();
                decoded.errors.clear();
                decoded.notes.clear();
                if let Some(end) = decoded.end {
                    return !end.last;
                }
                // An endless response must not starve the others.
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match watched.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return false,
            },
            Err(_) => return false,
        }
    }
}

/// Tells a backend that nobody waits for a response any more, and waits until it closes the connection. Returns whether it has,
/// or will at its next output.
async fn until_closed(socket: Arc<OwnedFd>) -> bool {
    if sys::socket::shutdown_write(&socket).is_err() {
        return true;
    }
    let Ok(watched) = watch(socket, Interest::READABLE) else { return false };
    let (mut received, mut left) = (vec![0; PIECE], REST_MAX);
    loop {
        match sys::socket::receive(watched.get_ref(), &mut received) {
            Ok(0) => return true,
            // One that reads nothing learns of the end when it writes.
            Ok(length) if length >= left => return sys::socket::shutdown(watched.get_ref()).is_ok(),
            Ok(length) => {
                left -= length;
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match watched.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return false,
            },
            Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

async fn receive(connection: &Watched, packet: &mut [u8]) -> io::Result<usize> {
    loop {
        match sys::socket::receive(connection.get_ref(), packet) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => connection.readable().await?.clear_ready(),
            result => return result,
        }
    }
}
