//! A child's side: asking the process manager for a backend, and giving it back.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use seam::executor::{sleep, timeout_at};
use sys::local::Kind;
use sys::process::Pid;
use sys::watch::{Interest, Watched, watch};

use super::Class;
use super::wire::{Asked, PACKET_MAX, Told};

pub(crate) use super::wire::Outcome;

/// How often somebody tries to connect where too many wait already.
const RETRY: Duration = Duration::from_millis(5);
/// How much longer than the class says an answer of the manager's is waited for: it says itself when it has been too long.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a request asks, where one manager after the other dies.
const TRIES: u32 = 3;
/// How many connections to the manager are kept though nobody uses them.
const KEPT: usize = 256;

static ADDRESS: Mutex<Option<Arc<Path>>> = Mutex::new(None);
/// Connections to the manager that nobody uses.
static LINES: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

/// Says where the process manager of this configuration is asked. For the parent, before it forks the children that are to
/// know.
pub fn set_address(path: Arc<Path>) {
    *ADDRESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

fn lines() -> std::sync::MutexGuard<'static, Vec<Watched>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why there is no backend.
#[derive(Debug)]
pub(crate) enum NoBackend {
    /// The manager says so: the status for the client, and why.
    Refused(u16, String),
    /// There is no manager.
    NoManager,
    /// It cannot be asked.
    Failed(io::Error),
}

/// A backend that serves one request. Dropped before the end of that, the backend is ended.
#[derive(Debug)]
pub(crate) struct Lease {
    line: Option<Watched>,
    /// The connection to the backend.
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) pid: Pid,
    /// How many requests it has served before.
    pub(crate) served: u64,
    /// How long it was waited for.
    pub(crate) waited: Duration,
    /// Another request had to end first.
    pub(crate) queued: bool,
}

impl Lease {
    /// Asks for a backend of this class, and waits for it.
    pub(crate) async fn of(class: &Class) -> Result<Lease, NoBackend> {
        let began = Instant::now();
        let deadline = began + class.settings.wait + PATIENCE;
        let asked = Asked::Backend(class.program.version, &class.encode()).encode();
        if asked.len() > PACKET_MAX {
            return Err(NoBackend::Failed(io::ErrorKind::FileTooLarge.into()));
        }
        let mut tries = 1;
        let (line, told, mut descriptors) = loop {
            let mut descriptors = Vec::new();
            let line = match send_on_kept(&asked) {
                Some(line) => line,
                None => {
                    let address = ADDRESS.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let address = address.ok_or(NoBackend::NoManager)?;
                    let connected = timeout_at(deadline, connect(&address)).await.map_err(io::Error::from);
                    let line = connected.and_then(|line| line).map_err(NoBackend::Failed)?;
                    sys::local::send(line.get_ref(), &asked, &[]).map_err(NoBackend::Failed)?;
                    line
                }
            };
            // The manager's answer is all that brings this on.
            let told = seam::release_worker(timeout_at(deadline, receive(&line, &mut descriptors))).await;
            match told.map_err(io::Error::from).and_then(|told| told) {
                Ok(told) => break (line, told, descriptors),
                // The manager has died, and the next one knows of nobody who waits.
                Err(error) if is_end(&error) && tries < TRIES => tries += 1,
                Err(error) => return Err(NoBackend::Failed(error)),
            }
        };
        match told {
            Told::Refused(status, text) => {
                keep(line);
                Err(NoBackend::Refused(status, text))
            }
            Told::Granted(pid, served, queued) => {
                let socket = descriptors.pop().ok_or_else(|| NoBackend::Failed(io::ErrorKind::InvalidData.into()))?;
                let (socket, waited) = (Arc::new(socket), began.elapsed());
                Ok(Lease { line: Some(line), socket, pid, served, waited, queued })
            }
        }
    }

    /// The request is over.
    pub(crate) fn done(mut self, outcome: Outcome) {
        if let Some(line) = self.line.take()
            && sys::local::send(line.get_ref(), &Asked::Done(outcome).encode(), &[]).is_ok()
        {
            keep(line);
        }
    }
}

/// Sends on a connection that was kept; `None`: there is none any more.
fn send_on_kept(asked: &[u8]) -> Option<Watched> {
    loop {
        let line = lines().pop()?;
        // The manager may have been replaced.
        if sys::local::send(line.get_ref(), asked, &[]).is_ok() {
            return Some(line);
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn keep(line: Watched) {
    let mut lines = lines();
    if lines.len() < KEPT {
        lines.push(line);
    }
}

async fn connect(address: &Path) -> io::Result<Watched> {
    loop {
        match sys::local::connect(address, Kind::Packets) {
            Ok(socket) => return watch(Arc::new(socket), Interest::READABLE),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(RETRY).await,
            Err(error) => return Err(error),
        }
    }
}

async fn receive(line: &Watched, descriptors: &mut Vec<OwnedFd>) -> io::Result<Told> {
    let mut bytes = vec![0; 4096];
    loop {
        match sys::local::receive(line.get_ref(), &mut bytes, descriptors) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => return Told::decode(&bytes[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => line.readable().await?.clear_ready(),
            Err(error) => return Err(error),
        }
    }
}
