//! The facts on the status page: those of the server, and sums over its children.

use std::sync::Arc;

use conf::ModuleInfo;
use gateway::backend::stats::PoolStats;
use gateway::gate::GateStatus;
use runtime::scoreboard::{self, ChildState, Snapshot, State};
use server::Request;
use server::core::CoreServer;

use crate::proxy::mod_proxy::{Balancer, Counted, counted, shown};
use crate::ssl::mod_ssl::{self, Expiry};

/// The facts on the page besides the scoreboard.
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) via: String,
    pub(super) version: String,
    pub(super) mpm: String,
    /// Connections wait without a worker.
    pub(super) is_async: bool,
    pub(super) built: String,
    /// Microseconds since 1970.
    pub(super) now: u64,
    pub(super) load: [f64; 3],
    /// `ExtendedStatus`
    pub(super) extended: bool,
    /// `SeeRequestTail`
    pub(super) tail: bool,
    pub(super) uptime: u64,
    pub(super) totals: Totals,
    pub(super) gate: GateStatus,
    pub(super) pools: Vec<PoolStats>,
    /// Those that `ProxyStatus` shows.
    pub(super) balancers: Vec<Arc<Balancer>>,
    pub(super) certificates: Vec<Expiry>,
    /// Servers behind this one.
    pub(super) servers: Vec<Counted>,
}

impl Facts {
    pub(super) fn of(request: &Request, board: &Snapshot) -> Facts {
        let core = request.server.main().settings.get::<CoreServer>();
        let mpm = mpm_of(request);
        let now = u64::try_from(sys::time::realtime().as_micros()).unwrap_or(u64::MAX);
        let identity = server::identity::get();
        Facts {
            name: request.server_name().into_owned(),
            via: http::address_text(request.local().ip()),
            version: identity.map_or_else(|| request.server.software.clone(), |identity| identity.version.clone()),
            is_async: is_async(&mpm),
            mpm,
            built: identity.map_or_else(String::new, |identity| identity.built.clone()),
            now,
            load: sys::time::load().unwrap_or_default(),
            extended: core.extended_status(),
            tail: core.see_request_tail(),
            uptime: now.saturating_sub(board.restarted) / 1_000_000,
            totals: Totals::of(board),
            gate: gateway::gate::status().unwrap_or_default(),
            pools: gateway::backend::stats::pools(),
            balancers: shown(request).to_vec(),
            certificates: mod_ssl::expiries(request.server),
            servers: counted(request.server),
        }
    }
}

/// The name of the multi-processing module, as in `prefork`.
pub(in crate::generators) fn mpm_of(request: &Request) -> String {
    let name = |info: &&ModuleInfo| Some(info.log_name().strip_prefix("mpm_")?.to_string());
    request.server.infos().iter().find_map(name).unwrap_or_default()
}

/// Whether connections wait without a worker.
pub(super) fn is_async(mpm: &str) -> bool {
    matches!(mpm, "event" | "percore")
}

/// Sums over all children.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) accesses: u64,
    pub(super) kilobytes: u64,
    /// Milliseconds.
    pub(super) duration: u64,
    /// Hundredths of seconds: user, system, the same of scripts.
    pub(super) cpu: [u64; 4],
    pub(super) busy: usize,
    pub(super) graceful: usize,
    pub(super) idle: usize,
}

impl Totals {
    pub(super) fn of(board: &Snapshot) -> Totals {
        let mut totals = Totals::default();
        let mut cpu = [board.ended_user, board.ended_system, 0, 0];
        let (mut bytes, mut duration) = (0, 0);
        for process in &board.processes {
            totals.accesses += process.accesses;
            bytes += process.bytes;
            duration += process.duration;
            if process.pid == 0 {
                continue;
            }
            cpu.iter_mut().zip(process.cpu).for_each(|(sum, own)| *sum += own);
            let counts = Counts::of(process);
            totals.busy += counts.busy;
            totals.graceful += counts.graceful;
            if process.generation == board.generation && process.life != ChildState::Quiescing {
                totals.idle += counts.idle;
            }
        }
        totals.kilobytes = bytes / 1024;
        totals.duration = duration / 1000;
        totals.cpu = cpu.map(|micros| micros / 10_000);
        totals
    }
}

/// The workers of a child, by their state. Where requests need no workers, each request counts as a busy one, and there
/// are as many idle ones as busy ones: programs that read Apache's page compare the two, and must not see a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) busy: usize,
    pub(super) graceful: usize,
    pub(super) idle: usize,
}

impl Counts {
    pub(super) fn of(process: &scoreboard::Process) -> Counts {
        let mut counts = Counts::default();
        for worker in &process.workers {
            match worker.state {
                State::Ready => counts.idle += 1,
                State::Graceful => counts.graceful += 1,
                State::Dead | State::Starting | State::IdleCleanup => {}
                _ => counts.busy += 1,
            }
        }
        if let Some(unlisted) = process.unlisted {
            let served = if process.life == ChildState::Quiescing { &mut counts.graceful } else { &mut counts.busy };
            *served += usize::try_from(unlisted).unwrap_or(usize::MAX);
            counts.idle = counts.idle.max(counts.busy);
        }
        counts
    }
}
