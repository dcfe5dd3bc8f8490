//! The life of a daemon.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use seam::executor::{sleep, timeout};
use sys::process::{Pid, end_of};
use sys::signal::{Signal, SignalFd};
use sys::watch::{Watched, watch};
use tokio::io::Interest;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use super::socket::Socket;
use super::users::{Refused, Users, process};
use super::wire::{self, COMMAND_MAX, Message};
use crate::command::{Command, Given, expose};
use crate::ending::Process;
use crate::reaper;

/// How long a child may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long scripts may take to end when the daemon has to; its parent waits a second for it.
const OBEY: Duration = Duration::from_millis(300);
/// How long is waited where there are no descriptors left to accept with.
const PAUSE: Duration = Duration::from_millis(10);
/// How much is received at once, in bytes: most commands are shorter.
const PIECE: usize = 16 * 1024;

/// Serves until an order comes: `SIGTERM` ends it, and with it all scripts; any other lets it accept nobody any more and end
/// with its last script.
pub fn serve(socket: &Socket, users: Users, orders: &SignalFd) -> io::Result<()> {
    // What it starts inherits that. A daemon has little memory, and is replaced.
    expose(Pid::own());
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(LocalSet::new().run_until(accept(socket, Rc::new(users), orders)))
}

async fn accept(socket: &Socket, users: Rc<Users>, orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let listener = watch(socket.listener(), Interest::READABLE)?;
    let (mut runs, mut leaving) = (JoinSet::new(), false);
    while !(leaving && runs.is_empty()) {
        let (ordered, came) = poll_fn(|cx| {
            let ordered = order.poll_read_ready(cx);
            let came = if leaving { Poll::Pending } else { listener.poll_read_ready(cx) };
            // Those that have ended are forgotten; while others run, that is nothing to act on.
            let mut ended = false;
            while let Poll::Ready(Some(_)) = runs.poll_join_next(cx) {
                ended = true;
            }
            if ordered.is_pending() && came.is_pending() && !ended {
                return Poll::Pending;
            }
            Poll::Ready((ordered, came))
        })
        .await;
        if let Poll::Ready(ready) = ordered {
            match orders.read()? {
                Some((Signal::TERM, _)) => break,
                Some(_) => leaving = true,
                None => ready?.clear_ready(),
            }
        }
        if let Poll::Ready(ready) = came {
            match sys::local::accept(listener.get_ref()) {
                Ok(connection) => drop(runs.spawn_local(attend(connection, users.clone()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready?.clear_ready(),
                // Those who connect wait meanwhile.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
    // Dropped, they are asked to end; there will be nobody to insist later.
    runs.shutdown().await;
    let end = Instant::now() + if leaving { reaper::OBEY } else { OBEY };
    while reaper::is_anybody_left() && Instant::now() < end {
        sleep(PAUSE).await;
    }
    reaper::kill_all();
    Ok(())
}

/// Serves a connection from its command to the end of the script. Whatever goes wrong with it, the child sees its end.
async fn attend(connection: OwnedFd, users: Rc<Users>) {
    let Ok(user) = sys::local::peer_user(&connection) else { return };
    if !users.is_known(user) {
        seam::log!("cgid", Warn, "a process of user {user} asked for a script, and is not answered");
        return;
    }
    let Ok(connection) = watch(Arc::new(connection), Interest::READABLE) else { return };
    let Ok(Ok((command, stdio))) = timeout(PATIENCE, receive(&connection)).await else { return };
    // A signal, or the end: the client went while others were served.
    if sys::socket::peek(connection.get_ref(), &mut [0]).is_ok() {
        return;
    }
    let started = users.start(command, Given::script(stdio.each_ref().map(AsFd::as_fd))).await;
    drop(stdio);
    let process = match started {
        Ok(pid) => process(pid),
        Err(Refused::Owner(why)) => return Message::Refused(why).send(&connection),
        Err(Refused::System(error)) => {
            return Message::Failed(error.raw_os_error().unwrap_or_default()).send(&connection);
        }
    };
    let Some(pid) = process.pid() else { return };
    Message::Started(pid).send(&connection);
    if let Ok(end) = end_of(pid).and_then(|end| watch(Arc::new(end), Interest::READABLE)) {
        accompany(process, &connection, &end).await;
    }
}

impl Message {
    /// Sends it. A child that is gone wants no message.
    fn send(&self, connection: &Watched) {
        let _ = sys::socket::send(connection.get_ref(), &self.encode(), false);
    }
}

/// Waits for the end of a script, or of the interest in it, and passes signals on. A process that is dropped here is ended.
async fn accompany(mut process: Process, connection: &Watched, end: &Watched) {
    let mut asked = false;
    loop {
        let (ended, said) = poll_fn(|cx| match (end.poll_read_ready(cx), connection.poll_read_ready(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            some => Poll::Ready(some),
        })
        .await;
        if let Poll::Ready(ended) = ended {
            if let Some(reaped) = process.ended(asked) {
                return Message::Ended(reaped).send(connection);
            }
            let Ok(mut ready) = ended else { return };
            ready.clear_ready();
        }
        if let Poll::Ready(said) = said {
            let mut number = [0];
            match (sys::socket::receive(connection.get_ref(), &mut number), said) {
                (Ok(1), _) => {
                    asked = true;
                    if let Some(signal) = Signal::new(number[0].into()) {
                        process.signal(signal);
                    }
                }
                (Err(error), Ok(mut ready)) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                _ => return,
            }
        }
    }
}

/// Receives a command, with the script's standard descriptors.
async fn receive(connection: &Watched) -> io::Result<(Command, [OwnedFd; 3])> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut bytes, mut filled, mut descriptors) = (vec![0; PIECE], 0, Vec::new());
    loop {
        match sys::local::receive(connection.get_ref(), &mut bytes[filled..], &mut descriptors) {
            Ok(_) if descriptors.len() > 3 => return Err(wrong()),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.readable().await?.clear_ready();
                continue;
            }
            Err(error) => return Err(error),
        }
        let Some(length) = wire::length(&bytes[..filled]) else { continue };
        if length > COMMAND_MAX || filled > length {
            return Err(wrong());
        }
        if filled == length {
            let command = wire::decode(&bytes[..filled]).ok_or_else(wrong)?;
            return Ok((command, descriptors.try_into().map_err(|_| wrong())?));
        }
        // No more room than for as much again as has come.
        bytes.resize(length.min(2 * filled.max(PIECE)), 0);
    }
}
