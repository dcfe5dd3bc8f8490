//! A script that a daemon has started, as a child sees it.

use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seam::executor::Timer;
use sys::process::{Pid, Reaped};
use sys::signal::Signal;
use sys::watch::watch;
use tokio::io::Interest;

use super::wire::{self, REPORT, Report};
use crate::command::{Command, Failure};

/// How often somebody tries to connect where too many wait already.
const RETRY: Duration = Duration::from_millis(5);

/// A script, over the connection to its daemon. Dropped, the daemon ends it, if it has not ended.
#[derive(Debug)]
pub struct Remote {
    pid: Pid,
    /// By when that was started, in clock ticks.
    started_by: u64,
    connection: Arc<OwnedFd>,
}

/// Lets a daemon start a script; `timeout` is how long that may take.
pub(crate) async fn start(
    address: &Path,
    command: &Command,
    stdio: [BorrowedFd<'_>; 3],
    timeout: Duration,
) -> Result<Remote, Failure> {
    let mut timer = Timer::default();
    let started = timer.until(Instant::now() + timeout, ask(address, command, stdio)).await;
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let (connection, report) = started.unwrap_or_else(|| Err(late())).map_err(Failure::Daemon)?;
    match report {
        Report::Started(pid) => Ok(Remote { pid, started_by: sys::process::ticks(), connection }),
        Report::Failed(number) => Err(Failure::of_start(io::Error::from_raw_os_error(number))),
        Report::Refused(why) => Err(Failure::Refused(why)),
        Report::Ended(_) => Err(Failure::Daemon(io::ErrorKind::InvalidData.into())),
    }
}

/// Sends a command and waits for what becomes of it.
async fn ask(address: &Path, command: &Command, stdio: [BorrowedFd<'_>; 3]) -> io::Result<(Arc<OwnedFd>, Report)> {
    let connection = Arc::new(connect(address).await?);
    let bytes = wire::encode(command);
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
    // Not for writing too: each time that the daemon reads would wake us.
    let watched = watch(connection.clone(), Interest::READABLE)?;
    loop {
        match receive(&connection)? {
            Some(report) => return Ok((connection, report)),
            None => watched.readable().await?.clear_ready(),
        }
    }
}

async fn connect(address: &Path) -> io::Result<OwnedFd> {
    loop {
        match sys::local::connect(address) {
            // All who wait there are served one after the other.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Timer::default().until(Instant::now() + RETRY, pending::<()>()).await;
            }
            result => return result,
        }
    }
}

/// Waits until more of a long command can be sent.
async fn writable(connection: &Arc<OwnedFd>) -> io::Result<()> {
    let watched = watch(connection.clone(), Interest::WRITABLE)?;
    poll_fn(|cx| watched.poll_write_ready(cx).map_ok(drop)).await
}

/// The next report; `None`: not yet. The end of the connection is an error: the daemon is gone.
fn receive(connection: &OwnedFd) -> io::Result<Option<Report>> {
    let mut bytes = [0; REPORT];
    match sys::socket::receive(connection, &mut bytes) {
        // A report is sent at once, so it arrives at once.
        Ok(REPORT) => Report::decode(&bytes).map(Some),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

impl Remote {
    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether its process is there, where its daemon is not.
    pub(crate) fn is_there(&self) -> bool {
        sys::process::is_there_since(self.pid, self.started_by)
    }

    /// What can be read once it has ended.
    pub(crate) fn connection(&self) -> Arc<OwnedFd> {
        self.connection.clone()
    }

    /// How it ended, once it has. An error: its daemon is gone, and nobody will tell.
    pub(crate) fn ended(&self) -> io::Result<Option<Reaped>> {
        match receive(&self.connection)? {
            Some(Report::Ended(reaped)) => Ok(Some(reaped)),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(None),
        }
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        let number = u8::try_from(signal.number()).unwrap_or_default();
        // Where the daemon is gone nobody is left to do it.
        let _ = sys::socket::send(&self.connection, &[number], false);
    }
}
