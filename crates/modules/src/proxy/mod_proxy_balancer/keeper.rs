//! `BalancerPersist`: what the page `balancer-manager` has changed outlives the server.
//!
//! A process beside the children writes it into a file, soon after each change and at the end, and a server that starts reads that. A
//! server that restarts takes over what its predecessor has in memory.

use std::fs::{self, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use runtime::HelperProcess;
use runtime::executor::Timer;
use serde_json::Value;
use server::{HelperHook, Server};
use sys::cred::{self, Identity};
use sys::event_loop::EventLoop;
use sys::shm::Shared;
use sys::signal_fd::SignalFd;
use sys::time::Instant;
use sys::watch::{Interest, watch};

use super::state::{self, Named};
use crate::proxy::mod_proxy::{BALANCER_LOG_NAME, all_of_hosts};

/// How often the process looks for changes.
const LOOK: Duration = Duration::from_secs(1);
/// The longest file, in bytes: with a hundred balancers of a hundred members it is shorter.
const FILE_MAX: u64 = 16 << 20;

pub(super) static HELPER: HelperHook = helper;

/// The balancers of a configuration that are kept.
struct Kept {
    balancers: Vec<Named>,
    file: PathBuf,
    /// What the processes of this and of a later configuration have said: [`BEGUN`], [`FORMER`].
    marks: Shared<AtomicU64>,
}

/// The configuration is in use: its process runs.
const BEGUN: usize = 0;
/// The process of a later configuration writes the file.
const FORMER: usize = 1;

/// Those of the configuration in use and of the one that was read last, for the parent. Another module may yet refuse the latter.
static KEPT: Mutex<Vec<Arc<Kept>>> = Mutex::new(Vec::new());

/// Brings the balancers into the state of before, and starts the process, if any are to be kept.
fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let mut known = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let balancers: Vec<Named> = all_of_hosts(server).into_iter().filter(|(_, balancer)| balancer.persists).collect();
    if balancers.is_empty() {
        // What an earlier configuration has kept stays known: its process must not write when a later one does.
        return Ok(None);
    }
    let file = Path::new(&*server.language.runtime_dir()).join(file_name(server.file.as_deref().unwrap_or_default()));
    let marks = Shared::new(2).map_err(|error| format!("{}: no shared memory", sys::describe(&error)))?;
    let kept = Arc::new(Kept { balancers, file, marks });
    // One whose process has not come to run yet, and whose page has changed nothing, is as its predecessor was.
    let former = known.iter().rev().find(|kept| kept.is(BEGUN) || kept.changes() > 0).cloned();
    *known = former.iter().chain([&kept]).cloned().collect();
    restore(&kept, former.as_deref(), server);
    Ok(Some(HelperProcess {
        name: "balancers",
        count: 1,
        // The file belongs to the parent's user: nobody else can make a state.
        privileged: true,
        starts_scripts: false,
        life: Box::new(move |orders| {
            kept.mark(BEGUN);
            former.iter().for_each(|former| former.mark(FORMER));
            EventLoop::new(|| ())?.run(live(&kept, orders))?
        }),
    }))
}

/// The name of the file: servers with different configurations may share a directory.
fn file_name(configuration: &str) -> String {
    // FNV-1a, which stays the same from version to version.
    let hash = configuration
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("balancers-{hash:016x}.json")
}

/// Brings balancers into the state of those before a restart, or into that of the file.
fn restore(kept: &Kept, former: Option<&Kept>, server: &Server) {
    let state = match former {
        Some(former) => Ok(Some(state::of(&former.balancers))),
        None => read(&kept.file),
    };
    let applied = state.and_then(|state| match state {
        Some(state) => state::apply(&state, &kept.balancers, server).map_err(str::to_string),
        None => Ok(Vec::new()),
    });
    match applied {
        Ok(lost) => lost.iter().for_each(|text| runtime::log!(BALANCER_LOG_NAME, Warn, "{text}")),
        Err(why) => {
            let file = kept.file.display();
            let text = "balancers begin as they are configured";
            runtime::log!(BALANCER_LOG_NAME, Warn, "{file} is ignored: {why}; {text} (BalancerPersist)");
        }
    }
}

/// The state in a file. `Ok(None)`: there is none. `Err`: why it does not count.
fn read(path: &Path) -> Result<Option<Value>, String> {
    let describe = |error: io::Error| sys::describe(&error);
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(describe)?,
    };
    const OTHERS: &str = "others may have written it";
    // What is no file is not opened: a pipe would have to be waited for.
    if !found.is_file() {
        return Err(OTHERS.into());
    }
    let file = fs::File::open(path).map_err(describe)?;
    let opened = file.metadata().map_err(describe)?;
    // Who can write it decides where requests go.
    let is_it = (opened.dev(), opened.ino()) == (found.dev(), found.ino());
    if !is_it || opened.uid() != cred::uid() || opened.mode() & 0o022 != 0 {
        return Err(OTHERS.into());
    }
    let mut text = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut text).map_err(describe)?;
    if text.len() as u64 > FILE_MAX {
        return Err("it is too long".into());
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| format!("it is no JSON: {error}"))
}

/// Writes the file after changes, until an order from the parent arrives, and then once more.
async fn live(kept: &Kept, orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let (mut timer, mut next) = (Timer::default(), Instant::now() + LOOK);
    // A process that takes the place of another one does not know what that one has seen.
    let (mut saved, mut complained) = (u64::MAX, false);
    poll_fn(|cx| {
        loop {
            let is_last = order.poll_read_ready(cx).is_ready() && matches!(orders.read(), Ok(Some(_)));
            if !is_last && timer.poll_passed(cx, next).is_pending() {
                return Poll::Pending;
            }
            next = Instant::now() + LOOK;
            let changes = kept.changes();
            if (is_last || changes != saved) && !kept.is(FORMER) {
                let written = write(&kept.file, &state::of(&kept.balancers));
                if let (Err(error), false) = (&written, complained) {
                    let (why, file) = (sys::describe(error), kept.file.display());
                    runtime::log!(BALANCER_LOG_NAME, Error, "{why}: {file} cannot be written (BalancerPersist)");
                }
                complained = written.is_err();
                saved = changes;
            }
            if is_last {
                return Poll::Ready(Ok(()));
            }
        }
    })
    .await
}

impl Kept {
    fn is(&self, mark: usize) -> bool {
        self.marks[mark].load(Relaxed) != 0
    }

    fn mark(&self, mark: usize) {
        self.marks[mark].store(1, Relaxed);
    }

    /// How often the page has changed something.
    fn changes(&self) -> u64 {
        self.balancers.iter().map(|(_, balancer)| balancer.changes().load(Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// Writes the file anew: readers see the former one or this one.
fn write(path: &Path, state: &Value) -> io::Result<()> {
    let beside = path.with_extension(format!("{:016x}.tmp", sys::random::number()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(format!("{state:#}\n").as_bytes()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left is of no use.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_has_its_file() {
        assert_eq!(file_name("/etc/apache2/apache2.conf"), file_name("/etc/apache2/apache2.conf"));
        assert_ne!(file_name("/etc/apache2/apache2.conf"), file_name("/etc/apache2-b/apache2.conf"));
        assert_eq!(file_name(""), "balancers-cbf29ce484222325.json");
    }
}
