//! The child's side: it asks the process manager for a backend, keeps it for the next request, and gives it back.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::executor::{connect_local, timeout_at};
use sys::local::SocketKind;
use sys::process::Pid;
use sys::time::Instant;
use sys::watch::{Interest, Watched, watch};

use super::class::{Class, Version};
use super::lease_state::LeaseCell;
use super::manager_messages::{FromChild, FromManager, Grant, Outcome, PACKET_MAX};
use super::stats;
use upstream::Stream;

/// How much longer than the class says to wait for the manager's response: the manager itself reports an overlong wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a request asks if one manager after the other dies.
const TRIES: u32 = 3;
/// How many unused connections to the manager are kept, and how many with leases.
const IDLE_MAX: usize = 256;
const LEASES_MAX: usize = 64;

static ADDRESS: Mutex<Option<Arc<Path>>> = Mutex::new(None);
static CONNECTIONS: Mutex<Connections> = Mutex::new(Connections { idle: Vec::new(), leases: Vec::new() });

/// Sets the address of this configuration's process manager. For the parent, before it forks the children that need it.
pub fn set_address(path: Arc<Path>) {
    *ADDRESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

/// Connections to the manager that no request uses.
struct Connections {
    idle: Vec<Watched>,
    /// Connections with leases.
    leases: Vec<IdleLease>,
}

fn connections() -> MutexGuard<'static, Connections> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    fn keep(&mut self, connection: Watched) {
        if self.idle.len() < IDLE_MAX {
            self.idle.push(connection);
        }
    }

    /// Forgets the leases that the manager has taken back, whose connections now belong to others. Returns whether
    /// there is room for another.
    fn has_room(&mut self) -> bool {
        let gone = |kept: &mut IdleLease| kept.cell.load(kept.lease.grant.lease).is_none();
        let gone: Vec<IdleLease> = self.leases.extract_if(.., gone).collect();
        gone.into_iter().for_each(|kept| self.keep(kept.lease.connection));
        self.leases.len() < LEASES_MAX
    }
}

/// Why there is no backend.
#[derive(Debug)]
pub(crate) enum NoBackend {
    /// The manager refuses: the status for the client, and why.
    Refused { status: u16, why: String },
    /// There is no manager.
    NoManager,
    /// What the class says of its program is too long for a message to the manager.
    TooLong,
    /// The process manager could not be asked.
    Failed(io::Error),
}

/// A backend that serves a request. Dropping it before the end of the request ends the backend.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The connection to the manager from which it came.
    connection: Watched,
    class: Vec<u8>,
    version: Version,
    grant: Grant,
    pub(crate) pid: Pid,
    /// How many requests the backend served before.
    pub(crate) served: u64,
    /// How long the request waited for it.
    pub(crate) waited: Duration,
    /// Another request had to end first.
    pub(crate) queued: bool,
    began: Instant,
}

/// A lease whose request is over, kept for the next request of its class.
#[derive(Debug)]
struct IdleLease {
    lease: Lease,
    cell: LeaseCell,
    stream: Stream,
}

impl Lease {
    /// Gets a backend of this class, with the connection to it: the one that served the last request, or one from the
    /// manager, after a wait.
    pub(crate) async fn of(class: &Class) -> Result<(Lease, Stream), NoBackend> {
        let (began, version, bytes) = (Instant::now(), class.program.version, class.encode());
        let connection = match take(&bytes, version) {
            Reusable::Lease(mut lease, stream) => {
                (lease.waited, lease.queued, lease.began) = (Duration::ZERO, false, began);
                return Ok((lease, stream));
            }
            Reusable::Connection(connection) => connection,
        };
        let deadline = began + class.settings.wait + PATIENCE;
        let packet = FromChild::Backend(version, &bytes).encode();
        if packet.len() > PACKET_MAX {
            return Err(NoBackend::TooLong);
        }
        let (connection, message, mut descriptors) = request_backend(connection, &packet, deadline).await?;
        match message {
            FromManager::Refused { status, why } => {
                connections().keep(connection);
                Err(NoBackend::Refused { status, why })
            }
            FromManager::Granted(grant) => {
                let socket = descriptors.pop().ok_or_else(|| NoBackend::Failed(io::ErrorKind::InvalidData.into()))?;
                let Grant { pid, served, queued, .. } = grant;
                let now = Instant::now();
                let lease = Lease {
                    connection,
                    class: bytes,
                    version,
                    grant,
                    pid,
                    served,
                    waited: now - began,
                    queued,
                    began: now,
                };
                Ok((lease, Stream::new(Arc::new(socket))))
            }
        }
    }

    /// Gives it back after the request, which left the connection in this state.
    pub(crate) fn done(mut self, outcome: Outcome, stream: Stream) {
        let Grant { lease, row, place, more, .. } = self.grant;
        stats::count_served(row, self.began.elapsed());
        if outcome == Outcome::Ready
            && more > 0
            && let Some(cell) = stats::lease_cell(row, place)
        {
            let mut connections = connections();
            // From here on the manager may take it back.
            if connections.has_room() && cell.keep(lease) {
                self.served += 1;
                self.grant.more -= 1;
                connections.leases.push(IdleLease { lease: self, cell, stream });
                return;
            }
        }
        // The manager may give it to another child at once.
        drop(stream);
        if sys::local::send(self.connection.get_ref(), &FromChild::Done(outcome).encode(), &[]).is_ok() {
            connections().keep(self.connection);
        }
    }
}

/// Asks the manager for a backend. Returns its response, with the connection used.
async fn request_backend(
    mut connection: Option<Watched>,
    packet: &[u8],
    deadline: Instant,
) -> Result<(Watched, FromManager, Vec<OwnedFd>), NoBackend> {
    let mut tries = 1;
    loop {
        let mut descriptors = Vec::new();
        let connection = match send_on_kept(connection.take(), packet) {
            Some(connection) => connection,
            None => {
                let address = ADDRESS.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let address = address.ok_or(NoBackend::NoManager)?;
                let connected = timeout_at(deadline, connect(&address)).await.map_err(io::Error::from);
                let connection = connected.and_then(|connection| connection).map_err(NoBackend::Failed)?;
                sys::local::send(connection.get_ref(), packet, &[]).map_err(NoBackend::Failed)?;
                connection
            }
        };
        // Only the manager's response can end this wait.
        let message = runtime::release_worker(timeout_at(deadline, receive(&connection, &mut descriptors))).await;
        match message.map_err(io::Error::from).and_then(|message| message) {
            Ok(message) => return Ok((connection, message, descriptors)),
            // The manager has died, and its successor knows no waiting requests.
            Err(error) if is_end(&error) && tries < TRIES => tries += 1,
            Err(error) => return Err(NoBackend::Failed(error)),
        }
    }
}

/// The resources that were kept for a request.
enum Reusable {
    Lease(Lease, Stream),
    /// A connection to the manager, perhaps with a lease that a new request gives back.
    Connection(Option<Watched>),
}

/// Takes the kept lease of this class that was used last.
fn take(class: &[u8], version: Version) -> Reusable {
    let mut connections = connections();
    let mut connection = None;
    while let Some(index) = connections.leases.iter().rposition(|kept| kept.lease.class == class) {
        let IdleLease { lease, cell, stream } = connections.leases.remove(index);
        // The program's file may have changed, the backend may have gone, or the manager may have taken it back.
        if lease.version == version && stream.is_quiet() && cell.resume(lease.grant.lease) {
            return Reusable::Lease(lease, stream);
        }
        // Closing a lease's connection gives it back, too.
        connection = Some(lease.connection);
    }
    Reusable::Connection(connection)
}

/// Sends on this connection or a kept one; `None`: there is none any more.
fn send_on_kept(mut connection: Option<Watched>, packet: &[u8]) -> Option<Watched> {
    loop {
        let connection = connection.take().or_else(|| connections().idle.pop())?;
        // The manager may have been replaced.
        if sys::local::send(connection.get_ref(), packet, &[]).is_ok() {
            return Some(connection);
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

async fn connect(address: &Path) -> io::Result<Watched> {
    watch(Arc::new(connect_local(address, SocketKind::Packets).await?), Interest::READABLE)
}

async fn receive(connection: &Watched, descriptors: &mut Vec<OwnedFd>) -> io::Result<FromManager> {
    let mut bytes = vec![0; 4096];
    loop {
        match sys::local::receive(connection.get_ref(), &mut bytes, descriptors) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                return FromManager::decode(&bytes[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => connection.readable().await?.clear_ready(),
            Err(error) => return Err(error),
        }
    }
}
