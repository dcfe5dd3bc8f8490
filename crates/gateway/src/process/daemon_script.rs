//! A script started by a daemon, from the view of a child.

use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use runtime::executor::{connect_local, timeout_at};
use sys::local::SocketKind;
use sys::process::Pid;
use sys::signal::Signal;
use sys::time::Instant;
use sys::watch::{Interest, watch};

use super::daemon_messages::{self, MESSAGE, Message};
use super::progress::Progress;
use crate::command::{Command, StartFailure};

/// A script, over the connection to its daemon. If this is dropped, the daemon ends the script, unless it has ended.
#[derive(Debug)]
pub struct DaemonScript {
    /// Its process, and an upper bound for its start in clock ticks, once the daemon has reported them.
    started: OnceLock<(Pid, u64)>,
    connection: Arc<OwnedFd>,
}

/// Asks a daemon to start a script. Once the daemon has the whole command it may start the script at any moment, but
/// never before.
pub(crate) async fn start(
    address: &Path,
    command: &Command,
    stdio: [BorrowedFd<'_>; 3],
    deadline: Instant,
) -> io::Result<DaemonScript> {
    timeout_at(deadline, async {
        // All who wait there are served one after the other.
        let connection = Arc::new(connect_local(address, SocketKind::Stream).await?);
        let bytes = daemon_messages::encode(command);
        let (mut sent, mut descriptors) = (0, &stdio[..]);
        while sent < bytes.len() {
            match sys::local::send(&connection, &bytes[sent..], descriptors) {
                Ok(more) => {
                    sent += more;
                    descriptors = &[];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(&connection).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(DaemonScript { started: OnceLock::new(), connection })
    })
    .await?
}

/// Waits until more of a long command can be sent.
async fn writable(connection: &Arc<OwnedFd>) -> io::Result<()> {
    let watched = watch(connection.clone(), Interest::WRITABLE)?;
    poll_fn(|cx| watched.poll_write_ready(cx).map_ok(drop)).await
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
    /// Its process; `None` until the daemon has started it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.started.get().map(|(pid, _)| *pid)
    }

    /// The descriptor that becomes readable when there is news of its [`progress`](DaemonScript::progress). Do not watch it
    /// for writing too: each read of the daemon would wake us.
    pub(crate) fn connection(&self) -> Arc<OwnedFd> {
        self.connection.clone()
    }

    /// Reads the daemon's next message about the script.
    pub(crate) fn progress(&self) -> Progress {
        match receive(&self.connection) {
            Ok(None) => Progress::Runs,
            Ok(Some(Message::Started(pid))) => {
                // Reported once.
                let _ = self.started.set((pid, sys::process::ticks()));
                Progress::Begun(pid)
            }
            Ok(Some(Message::Failed(number))) => {
                Progress::NotStarted(StartFailure::of_start(io::Error::from_raw_os_error(number)))
            }
            Ok(Some(Message::Refused(why))) => Progress::NotStarted(StartFailure::Refused(why)),
            Ok(Some(Message::Ended(reaped))) => Progress::Ended(Some(reaped)),
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
        // If the daemon is gone, nobody is left to do it.
        let _ = sys::socket::send(&self.connection, &[number], false);
    }
}
