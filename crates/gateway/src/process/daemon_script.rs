//! A script started by a daemon, from the view of a child.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use runtime::executor::{connect_local, timeout_at};
use sys::local::SocketKind;
use sys::process::{Pid, Reaped};
use sys::signal::Signal;
use sys::time::Instant;
use sys::watch::{Interest, watch};

use super::daemon_messages::{self, MESSAGE, Message, PATIENCE};
use super::progress::Progress;
use crate::command::{Command, StartFailure};

/// A script, over the connection to its daemon. If this is dropped, the daemon ends the script, unless it has ended.
#[derive(Debug)]
pub struct DaemonScript {
    /// When it was asked for.
    asked: Instant,
    /// Its process, and an upper bound for its start in clock ticks, once the daemon has reported them.
    started: OnceLock<(Pid, u64)>,
    connection: Arc<OwnedFd>,
    /// The daemons' address, if the connection may be kept.
    address: Option<Arc<Path>>,
    /// Its end, once the daemon has reported it.
    ended: OnceLock<Reaped>,
    /// Whether it was ever sent a signal.
    signaled: AtomicBool,
}

impl Drop for DaemonScript {
    fn drop(&mut self) {
        // The daemon would take a signal that crosses its report of the end for the beginning of the next command, and
        // whoever still watches the connection would take the next script's news for news of this one.
        let is_clean = self.ended.get().is_some() && !self.signaled.load(Ordering::Relaxed);
        if let Some(address) = self.address.take()
            && is_clean
            && Arc::strong_count(&self.connection) == 1
        {
            keep(KeptConnection { connection: self.connection.clone(), address, since: Instant::now() });
        }
    }
}

/// A connection whose script has ended, for another script.
#[derive(Debug)]
struct KeptConnection {
    connection: Arc<OwnedFd>,
    address: Arc<Path>,
    since: Instant,
}

/// How many connections are kept.
const KEPT_MAX: usize = 16;
/// How long each is kept: a daemon that hangs is given no more scripts after this time. The daemon keeps its end for much
/// longer.
const KEPT_FOR: Duration = PATIENCE.checked_div(10).unwrap();

static KEPT: Mutex<VecDeque<KeptConnection>> = Mutex::new(VecDeque::new());

fn kept() -> MutexGuard<'static, VecDeque<KeptConnection>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(connection: KeptConnection) {
    forget_expired();
    let mut kept = kept();
    if kept.len() < KEPT_MAX {
        kept.push_back(connection);
    }
}

/// Closes the connections that have been kept for long enough.
pub(super) fn forget_expired() {
    let mut kept = kept();
    while kept.front().is_some_and(|first| first.since.elapsed() >= KEPT_FOR) {
        kept.pop_front();
    }
}

/// A kept connection to a daemon: the one that was kept first, so that all daemons have work.
fn take_kept(address: &Arc<Path>) -> Option<Arc<OwnedFd>> {
    loop {
        let KeptConnection { connection, address: there, since } = kept().pop_front()?;
        if Arc::ptr_eq(&there, address) && since.elapsed() < KEPT_FOR {
            return Some(connection);
        }
    }
}

/// Asks a daemon to start a script. Once the daemon has the whole command it may start the script at any moment, but
/// never before.
pub(crate) async fn start(
    address: &Arc<Path>,
    command: &Command,
    stdio: [BorrowedFd<'_>; 3],
    deadline: Instant,
) -> io::Result<DaemonScript> {
    let asked = Instant::now();
    let bytes = daemon_messages::encode(command);
    // A program that runs as its owner is checked first, which may take a while: whoever is free should do that.
    let kept_for = Some(address).filter(|_| command.owner.is_none());
    timeout_at(deadline, async {
        // To a daemon that has gone meanwhile, nothing can be sent.
        let kept = kept_for.and_then(take_kept);
        let connection = match &kept {
            Some(kept) if send(kept, &bytes, stdio).await.is_ok() => kept.clone(),
            _ => {
                // All who wait there are served one after the other.
                let fresh = Arc::new(connect_local(address, SocketKind::Stream).await?);
                send(&fresh, &bytes, stdio).await?;
                fresh
            }
        };
        Ok(DaemonScript::new(asked, connection, kept_for.cloned()))
    })
    .await?
}

/// Sends a whole command, with the script's standard descriptors.
async fn send(connection: &Arc<OwnedFd>, bytes: &[u8], stdio: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let (mut sent, mut descriptors) = (0, &stdio[..]);
    while sent < bytes.len() {
        match sys::local::send(connection, &bytes[sent..], descriptors) {
            Ok(more) => {
                sent += more;
                descriptors = &[];
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(connection).await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until more of a long command can be sent.
async fn writable(connection: &Arc<OwnedFd>) -> io::Result<()> {
    let watched = watch(connection.clone(), Interest::WRITABLE)?;
    poll_fn(|cx| watched.poll_write_ready(cx).map_ok(|mut ready| ready.clear_ready())).await
}

/// The next message; `None`: not yet. The end of the connection is an error: the daemon is gone.
fn receive(connection: &OwnedFd) -> io::Result<Option<Message>> {
    let mut bytes = [0; MESSAGE];
    match sys::socket::receive(connection, &mut bytes) {
        // A message is sent at once, so it arrives at once.
        Ok(MESSAGE) => Message::decode(&bytes).map(Some),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

impl DaemonScript {
    /// A script that was asked for over this connection, which may be kept for others if it has an `address`.
    pub(super) fn new(asked: Instant, connection: Arc<OwnedFd>, address: Option<Arc<Path>>) -> DaemonScript {
        DaemonScript {
            asked,
            started: OnceLock::new(),
            connection,
            address,
            ended: OnceLock::new(),
            signaled: AtomicBool::new(false),
        }
    }

    /// Its process; `None` until the daemon has started it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.started.get().map(|(pid, _)| *pid)
    }

    /// The descriptor that becomes readable when there is news of its [`progress`](DaemonScript::progress). Do not watch it
    /// for writing too: each read of the daemon would wake us.
    pub(crate) fn connection(&self) -> Arc<OwnedFd> {
        self.connection.clone()
    }

    /// Reads the daemon's next message about the script. The last one is that of its end.
    pub(crate) fn progress(&self) -> Progress {
        if let Some(reaped) = self.ended.get() {
            return Progress::Ended(Some(*reaped));
        }
        match receive(&self.connection) {
            Ok(None) => Progress::Runs,
            Ok(Some(Message::Started { pid, at, by })) => {
                // Reported once.
                let _ = self.started.set((pid, by));
                Progress::Begun(pid, Duration::from_nanos(at.saturating_sub(self.asked.nanoseconds())))
            }
            Ok(Some(Message::Failed(number))) => {
                Progress::NotStarted(StartFailure::of_start(io::Error::from_raw_os_error(number)))
            }
            Ok(Some(Message::Refused(why))) => Progress::NotStarted(StartFailure::Refused(why)),
            Ok(Some(Message::Ended(reaped))) => {
                // A process ends once.
                Progress::Ended(Some(*self.ended.get_or_init(|| reaped)))
            }
            // Its daemon is gone.
            Err(error) => match self.started.get() {
                None => Progress::NotStarted(StartFailure::Daemon(error)),
                Some((pid, by)) if sys::process::is_there_since(*pid, *by) => Progress::Lost,
                Some(_) => Progress::Ended(None),
            },
        }
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        let number = u8::try_from(signal.number()).unwrap_or_default();
        self.signaled.store(true, Ordering::Relaxed);
        // If the daemon is gone, nobody is left to do it.
        let _ = sys::socket::send(&self.connection, &[number], false);
    }
}
