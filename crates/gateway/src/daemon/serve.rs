//! The life of a daemon.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use runtime::Awaited;
use runtime::executor::{sleep, timeout};
use sys::event_loop::{EventLoop, Spawned, spawn};
use sys::process::end_of;
use sys::signal::Signal;
use sys::signal_fd::SignalFd;
use sys::time::Instant;
use sys::watch::{Interest, Watched, watch};

use super::users::{NotStarted, Users, process};
use crate::command::{Command, StartOptions};
use crate::process::daemon_messages::{self, COMMAND_MAX, Message, PATIENCE};
use crate::process::{ProcessGuard, Socket, reaper};

/// How long scripts may take to end when the daemon has to; its parent waits a second for it.
const QUICK_TERM_GRACE: Duration = Duration::from_millis(300);
/// How long to wait if there are no descriptors left to accept with.
const PAUSE: Duration = Duration::from_millis(10);
/// The size of a read, in bytes: most commands are shorter.
const PIECE: usize = 4 * 1024;

/// Serves until an order comes: `SIGTERM` ends it together with all scripts; any other order stops it from accepting,
/// and it ends with its last script.
pub fn serve(socket: &Socket, users: Users, orders: &SignalFd) -> io::Result<()> {
    EventLoop::new(|| ())?.run(accept(socket, Arc::new(users), orders))?
}

/// Reports when nobody holds it any more.
struct LastDrop(Awaited<()>);

impl Drop for LastDrop {
    fn drop(&mut self) {
        self.0.set(());
    }
}

#[expect(clippy::disallowed_methods, reason = "a daemon has an event loop of its own")]
async fn accept(socket: &Socket, users: Arc<Users>, orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let listener = watch(socket.listener(), Interest::READABLE)?;
    let all_ended = Awaited::default();
    // Held by every running script, and here until the daemon should leave.
    let mut held = Some(Arc::new(LastDrop(all_ended.clone())));
    let mut runs: Vec<Spawned> = Vec::new();
    let mut ended = pin!(all_ended.wait());
    loop {
        let looked = poll_fn(|cx| {
            if ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            let ordered = order.poll_read_ready(cx);
            let came = if held.is_some() { listener.poll_read_ready(cx) } else { Poll::Pending };
            match (&ordered, &came) {
                (Poll::Pending, Poll::Pending) => Poll::Pending,
                _ => Poll::Ready(Some((ordered, came))),
            }
        })
        .await;
        let Some((ordered, came)) = looked else { break };
        if let Poll::Ready(ready) = ordered {
            match orders.read()? {
                Some((Signal::TERM, _)) => break,
                Some(_) => held = None,
                None => ready?.clear_ready(),
            }
        }
        if let (Poll::Ready(ready), Some(held)) = (came, &held) {
            match sys::local::accept(listener.get_ref()) {
                Ok(connection) => {
                    runs.retain(|run| !run.is_over());
                    let (users, held) = (users.clone(), held.clone());
                    runs.push(spawn(async move {
                        attend(connection, users).await;
                        drop(held);
                    }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready?.clear_ready(),
                // New connections wait meanwhile.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
    let leaves = held.take().is_none();
    // Dropping them orders the scripts to end; nobody can insist later.
    runs.iter().for_each(Spawned::abort);
    all_ended.wait().await;
    let end = Instant::now() + if leaves { reaper::TERM_GRACE } else { QUICK_TERM_GRACE };
    while reaper::is_any_left() && Instant::now() < end {
        sleep(PAUSE).await;
    }
    reaper::kill_all();
    Ok(())
}

/// Serves a connection: one script after the other, for as long as its child keeps it. On any failure the child sees the
/// connection end.
async fn attend(connection: OwnedFd, users: Arc<Users>) {
    let Ok(user) = sys::local::peer_user(&connection) else { return };
    if !users.is_known(user) {
        runtime::log!("cgid", Warn, "a process of user {user} asked for a script, and was refused");
        return;
    }
    let Ok(connection) = watch(Arc::new(connection), Interest::READABLE) else { return };
    while let Ok(Ok((command, stdio))) = timeout(2 * PATIENCE, receive(&connection)).await {
        if !run(command, stdio, &connection, &users).await {
            return;
        }
    }
}

/// Runs a script from its command to its end. Returns whether another one may follow.
async fn run(command: Command, stdio: [OwnedFd; 3], connection: &Watched, users: &Users) -> bool {
    if !is_silent(connection).await {
        return false;
    }
    let started = users.start(command, StartOptions::script(stdio.each_ref().map(AsFd::as_fd))).await;
    drop(stdio);
    let process = match started {
        Ok(pid) => process(pid),
        Err(why) => {
            let message = match why {
                NotStarted::Owner(why) => Message::Refused(why),
                NotStarted::System(error) => Message::Failed(error.raw_os_error().unwrap_or(sys::errno::IO)),
            };
            message.send(connection);
            return false;
        }
    };
    let Some(pid) = process.pid() else { return false };
    Message::Started { pid, at: Instant::now().nanoseconds(), by: sys::process::ticks() }.send(connection);
    match end_of(pid).and_then(|end| watch(Arc::new(end), Interest::READABLE)) {
        Ok(end) => accompany(process, connection, &end).await,
        Err(_) => false,
    }
}

/// Whether nothing has come after the command: neither a signal, nor the end because the client left while others were served.
async fn is_silent(connection: &Watched) -> bool {
    poll_fn(|cx| {
        Poll::Ready(match connection.poll_read_ready(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(mut ready)) => ready.try_io(|fd| sys::socket::peek(fd, &mut [0])).is_none(),
            Poll::Ready(Err(_)) => false,
        })
    })
    .await
}

impl Message {
    /// Sends it. A child that is gone needs no message.
    fn send(&self, connection: &Watched) {
        let _ = sys::socket::send(connection.get_ref(), &self.encode(), false);
    }
}

/// Waits for the end of a script, or for the child to lose interest, and passes signals on. A process that is dropped
/// here is ended. Returns whether its end was reported, and no signal can have crossed that report.
async fn accompany(mut process: ProcessGuard, connection: &Watched, end: &Watched) -> bool {
    let mut signaled = false;
    loop {
        let (ended, readable) = poll_fn(|cx| match (end.poll_read_ready(cx), connection.poll_read_ready(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            some => Poll::Ready(some),
        })
        .await;
        if let Poll::Ready(ended) = ended {
            if let Some(reaped) = process.ended(signaled) {
                Message::Ended(reaped).send(connection);
                return !signaled;
            }
            let Ok(mut ready) = ended else { return false };
            ready.clear_ready();
        }
        if let Poll::Ready(readable) = readable {
            let mut number = [0];
            match (sys::socket::receive(connection.get_ref(), &mut number), readable) {
                (Ok(1), _) => {
                    signaled = true;
                    if let Some(signal) = Signal::new(number[0].into()) {
                        process.signal(signal);
                    }
                }
                (Err(error), Ok(mut ready)) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                _ => return false,
            }
        }
    }
}

/// Receives a command, with the script's standard descriptors.
async fn receive(connection: &Watched) -> io::Result<(Command, [OwnedFd; 3])> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut bytes, mut filled, mut descriptors) = (vec![0; PIECE], 0, Vec::new());
    loop {
        let mut ready = match timeout(PATIENCE, connection.readable()).await {
            Ok(ready) => ready?,
            Err(_) if filled > 0 => continue,
            // From now on the child notices that it cannot send. What it has sent before is still read.
            Err(_) => {
                sys::local::refuse(connection.get_ref())?;
                continue;
            }
        };
        match ready.try_io(|fd| sys::local::receive(fd, &mut bytes[filled..], &mut descriptors)) {
            None => continue,
            Some(Ok(_)) if descriptors.len() > 3 => return Err(wrong()),
            Some(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Ok(more)) => filled += more,
            Some(Err(error)) => return Err(error),
        }
        let Some(length) = daemon_messages::length(&bytes[..filled]) else { continue };
        if length > COMMAND_MAX || filled > length {
            return Err(wrong());
        }
        if filled == length {
            let command = daemon_messages::decode(&bytes[..filled]).ok_or_else(wrong)?;
            return Ok((command, descriptors.try_into().map_err(|_| wrong())?));
        }
        // Make room only for as much again as has come.
        bytes.resize(length.min(2 * filled.max(PIECE)), 0);
    }
}
