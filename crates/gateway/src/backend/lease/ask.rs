//! Asks the process manager for a backend.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use runtime::executor::{connect_local, timeout_at};
use sys::local::SocketKind;
use sys::time::Instant;
use sys::watch::{Interest, Watched, watch};

use crate::backend::class::EncodedClass;
use crate::backend::manager_messages::{FromChild, FromManager, PACKET_MAX, Question};

/// How many unused connections to the manager are kept.
const IDLE_MAX: usize = 256;
/// The longest answer, in bytes.
const ANSWER_MAX: usize = 4096;

static ADDRESS: Mutex<Option<Arc<Path>>> = Mutex::new(None);
/// Connections to the manager that nobody uses.
static IDLE: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

/// Why there is no backend.
#[derive(Debug)]
pub(crate) enum NoBackend {
    /// There is none for this request: the status for the client, and why.
    Refused { status: u16, why: String },
    /// There is no manager.
    NoManager,
    /// What the class says of its program is too long for a message to the manager.
    TooLong,
    /// The process manager could not be asked.
    Failed(io::Error),
}

/// Sets the address of this configuration's process manager. For the parent, before it forks the children that need it.
pub fn set_address(path: Arc<Path>) {
    *ADDRESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

fn idle() -> MutexGuard<'static, Vec<Watched>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a connection that nobody uses any more.
pub(super) fn keep(connection: Watched) {
    let mut idle = idle();
    if idle.len() < IDLE_MAX {
        idle.push(connection);
    }
}

/// Asks the manager for a backend of the class, for a request that came at that time. Returns the connection on which the answer comes.
pub(super) async fn send(class: &EncodedClass, came: Instant, deadline: Instant) -> Result<Watched, NoBackend> {
    let question = Question { came: came.nanoseconds(), version: class.version, class: &class.bytes };
    let packet = FromChild::Backend(question).encode();
    if packet.len() > PACKET_MAX {
        return Err(NoBackend::TooLong);
    }
    if let Some(connection) = send_on_idle(&packet) {
        return Ok(connection);
    }
    let address = ADDRESS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let address = address.ok_or(NoBackend::NoManager)?;
    let connected = timeout_at(deadline, connect(&address)).await.map_err(io::Error::from);
    let connection = connected.and_then(|connection| connection).map_err(NoBackend::Failed)?;
    sys::local::send(connection.get_ref(), &packet, &[]).map_err(NoBackend::Failed)?;
    Ok(connection)
}

/// Sends on an idle connection; `None`: there is none.
fn send_on_idle(packet: &[u8]) -> Option<Watched> {
    loop {
        let connection = idle().pop()?;
        // The manager may have been replaced.
        if sys::local::send(connection.get_ref(), packet, &[]).is_ok() {
            return Some(connection);
        }
    }
}

async fn connect(address: &Path) -> io::Result<Watched> {
    watch(Arc::new(connect_local(address, SocketKind::Packets).await?), Interest::READABLE)
}

/// The manager's answer, and the connection to the backend that came with it.
pub(super) fn poll_answer(
    connection: &Watched,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(FromManager, Option<OwnedFd>)>> {
    let mut bytes = [0; ANSWER_MAX];
    let mut descriptors = Vec::new();
    loop {
        match sys::local::receive(connection.get_ref(), &mut bytes, &mut descriptors) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(length) => {
                let message = FromManager::decode(&bytes[..length]).ok_or(io::ErrorKind::InvalidData);
                return Poll::Ready(message.map_err(io::Error::from).map(|message| (message, descriptors.pop())));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(connection.poll_read_ready(cx))?.clear_ready();
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

/// Whether the manager has gone.
pub(super) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
