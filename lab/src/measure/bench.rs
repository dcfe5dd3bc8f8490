//! One measurement: start a server, check that it answers correctly, warm it up, measure, stop it.

mod faults;
mod many;
mod memory_pressure;
mod probe;
mod queue;
mod reuse;

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::experiments::config::origin;
use crate::experiments::installation::Installation;
use crate::experiments::profile::Profile;
use crate::experiments::recipe::Recipe;
use crate::experiments::site::{self, Account, Many, Site};
use crate::experiments::subject::Subject;
use crate::experiments::workload::{DOCUMENTS, LoadShape, MixedConnections, Protocol, SMALL};
use crate::experiments::workloads::many::{CLIENTS, host};
use crate::load::tls::Client;
use crate::machine::accounting::{Accounting, CpuTimeSource};
use crate::machine::descriptors;
use crate::machine::descriptors::DESCRIPTORS_IN_RESERVE;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::host::Cores;
use crate::machine::identity::Identity;
use crate::machine::interrupt;
use crate::machine::launch;
use crate::machine::scratch::Scratch;
use crate::measure::generator::{Counts, LoadRun};
use crate::measure::idle_connections::{IdleConnections, IdleLoad, Manner, fresh, subprocesses_for};
use crate::measure::monitor::Monitor;
use crate::measure::origins::Origins;
use crate::measure::reading::Reading;
use crate::measure::results::Errors;
use crate::measure::results::{Configuration, FRESH_LIMIT, Load, Measure, Memory};
use crate::measure::server::{Server, Watch};
use probe::{probe, probe_script};

/// Servers get addresses of their own in 127.88.0.0/24, so that connections of one leave no trace for the next; if one
/// is not enough, they get another in 127.88.1.0/24, and so on.
const NETWORK: [u8; 2] = [127, 88];

/// A client has 28 000 ports for each address of a server, and the search for a free one takes longer the fewer are
/// left; those of the warm-up are not free yet.
const CONNECTIONS_PER_ADDRESS: u32 = 10_000;

/// The directory of scripts in the scratch directory.
const SCRIPTS: &str = "scripts";

/// Enough for caches and branch predictors; threads and children are there already.
const WARM_UP_SECONDS: u32 = 1;

/// How long connections rest before memory is read, so that a server can release memory that only requests needed.
const REST: Duration = Duration::from_secs(1);

/// Opening this many connections takes about a second, which must not dominate a measurement.
const CONNECTIONS_PER_SECOND: u32 = 1500;

/// With a thousand clients a request waits for a second or more; one that takes five counts as a failure, and must have
/// the time to become one.
const CLIENTS_PER_SECOND: u32 = 100;

/// The most lines of a configuration to keep beside the results.
const LINES_MAX: usize = 200;

/// How many fresh requests may go unanswered before we stop sending them.
const SILENCES_MAX: u64 = 10;

/// Everything that measurements share.
#[derive(Debug)]
pub(crate) struct Bench {
    scratch: Scratch,
    cores: Cores,
    accounting: Accounting,
    descriptors: u64,
    account: Option<Account>,
    apache: Option<Installation>,
    identity: OnceCell<Identity>,
}

/// The subject of a measurement, its configuration and its load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial<'a> {
    /// The server.
    pub(crate) subject: &'static Subject,
    /// Its program.
    pub(crate) program: &'a Path,
    /// Its configuration.
    pub(crate) profile: Profile,
    /// The shape of the load.
    pub(crate) shape: &'static LoadShape,
    /// The number of connections.
    pub(crate) connections: u32,
    /// The duration.
    pub(crate) seconds: u32,
}

impl Bench {
    /// Sets up the scratch directory with the documents and moves the laboratory away from the server's core.
    pub(crate) fn new() -> Result<Self> {
        let scratch = Scratch::new()?;
        let documents = scratch.create("documents")?;
        for document in DOCUMENTS {
            write_file(documents.join(document.name), document.content())?;
        }
        let cores = Cores::choose()?;
        scratch.create(SCRIPTS)?;
        launch::pin(&[cores.generator])?;
        Ok(Self {
            scratch,
            cores,
            accounting: Accounting::detect(),
            descriptors: descriptors::raise_limit()?,
            account: Account::choose(),
            apache: Installation::find(),
            identity: OnceCell::new(),
        })
    }

    /// The limit on open files of a process.
    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// Where the CPU time of servers is read from.
    pub(crate) fn cpu_time_source(&self) -> CpuTimeSource {
        self.accounting.source()
    }

    /// Measures; also returns the exact configuration.
    pub(crate) fn measure(&self, trial: &Trial<'_>) -> Result<(Measure, Configuration)> {
        let site = self.site(trial)?;
        let recipe = (trial.subject.recipe)(&site)?;
        let configuration = describe(trial, &recipe, &site);
        let cores = match trial.shape.has_all_cores() {
            true => self.cores.both(),
            false => vec![self.cores.server],
        };
        let origins = Origins::start(&site, self.cores.generator)?;
        let server = Server::start(&self.accounting, &cores, trial.program, &recipe, &site)?.before(origins);
        let measure = self.take(&server, &site, trial);
        // If the server is gone, this is the reason for any other error.
        server.check_alive(&site)?;
        Ok((measure?, configuration))
    }

    fn take(&self, server: &Server, site: &Site, trial: &Trial<'_>) -> Result<Measure> {
        match trial.shape {
            LoadShape::Load { document, close, protocol, .. } => {
                probe(site, client(*protocol)?.as_ref(), document, *close)?;
                let expected = site.documents.join(document.name);
                // Only the generator can parse frames of HTTP/2, so it compares their contents.
                let expect = matches!(protocol, Protocol::Http2 { .. }).then_some(expected.as_path());
                let load_run = load_run(site, document.name, trial.connections, trial.seconds);
                self.measure_load(server, site, LoadRun { protocol: *protocol, expect, ..load_run }).map(Measure::from)
            }
            LoadShape::Script { script, .. } => {
                let name = format!("cgi-bin/{}", script.name);
                let seconds = trial.seconds.max(trial.connections / CLIENTS_PER_SECOND);
                probe_script(site, &name, script)?;
                self.measure_load(server, site, load_run(site, &name, trial.connections, seconds)).map(Measure::from)
            }
            LoadShape::Rate { per_second, per_connection, .. } => {
                probe(site, None, &SMALL, false)?;
                let load_run = load_run(site, SMALL.name, trial.connections, trial.seconds);
                let (per_connection, per_second) = (*per_connection, Some(*per_second));
                self.measure_load(server, site, LoadRun { per_connection, per_second, ..load_run }).map(Measure::from)
            }
            LoadShape::MixedConnections(crowd) => self.mixed_connections(server, site, crowd).map(Measure::from),
            LoadShape::Queue(queue) => self.queue(server, site, queue).map(Measure::from),
            LoadShape::Reuse(reuse) => self.reuse(server, site, reuse).map(Measure::from),
            LoadShape::Faults(faults) => self.faults(server, site, faults, trial.seconds).map(Measure::from),
            LoadShape::MemoryPressure(memory_pressure) => {
                self.memory_pressure(server, site, memory_pressure, trial.seconds).map(Measure::from)
            }
            LoadShape::Many { requested, protocol, .. } => {
                self.many(server, site, trial.connections, *requested, *protocol, trial.seconds).map(Measure::from)
            }
            LoadShape::Idle { connections, protocol } => {
                self.idle(server, site, *connections, *protocol).map(Measure::Memory)
            }
            LoadShape::Children { count, clients } => {
                let load_run = load_run(site, SMALL.name, *clients, trial.seconds);
                self.children(server, *count, load_run).map(Measure::Memory)
            }
        }
    }

    fn site(&self, trial: &Trial<'_>) -> Result<Site> {
        // Each subject has an address of its own.
        let number = crate::experiments::subject::SUBJECTS
            .iter()
            .position(|subject| subject.id == trial.subject.id)
            .expect("each trial is of a subject in the table");
        let (many, clients) = match trial.shape {
            LoadShape::Many { protocol, .. } => (Some(self.made(trial.connections, *protocol)?), CLIENTS),
            _ => (None, trial.connections),
        };
        let first = many.as_ref().and_then(|many| many.identities.first().cloned());
        Ok(Site {
            directory: self.server_directory()?,
            documents: self.scratch.path().join("documents"),
            addresses: free_addresses(number as u8 + 1, clients)?,
            profile: trial.profile,
            close: matches!(
                trial.shape,
                LoadShape::Load { close: true, .. }
                    | LoadShape::Script { .. }
                    | LoadShape::Many { protocol: Protocol::Tls, .. }
            ),
            script: self.script(trial.shape)?,
            memory: match trial.shape {
                LoadShape::MemoryPressure(memory_pressure) => Some(memory_pressure.memory),
                _ => None,
            },
            descriptors: self.descriptors,
            account: self.account.clone(),
            identity: self.identity(trial.profile.has_tls())?.or(first),
            origins: self.origins(trial.profile)?,
            many,
            apache: self.apache.clone(),
        })
    }

    /// The script of a measurement, or the first of them; makes them on first use.
    fn script(&self, shape: &LoadShape) -> Result<Option<PathBuf>> {
        let scripts = match shape {
            LoadShape::Script { script, .. } => std::slice::from_ref(script),
            LoadShape::Queue(queue) => std::slice::from_ref(&queue.script),
            LoadShape::MemoryPressure(memory_pressure) => memory_pressure.scripts,
            _ => &[],
        };
        let made = scripts.iter().map(|script| script.prepare(&self.scripts_directory()));
        made.collect::<Result<Vec<PathBuf>>>().map(|paths| paths.into_iter().next())
    }

    /// Hosts, lines or certificates by the thousand.
    fn made(&self, count: u32, protocol: Protocol) -> Result<Many> {
        let hosts = if protocol == Protocol::Clear { 0 } else { count };
        let directory = self.scratch.create_anew("certificates")?;
        let identities =
            (0..hosts).map(|number| Identity::make_for(&host(number), &directory)).collect::<Result<_>>()?;
        Ok(Many { count, identities })
    }

    /// The places of the servers behind a proxy.
    fn origins(&self, profile: Profile) -> Result<Option<site::Origins>> {
        let free = |_| free_port(IpAddr::V4(Ipv4Addr::LOCALHOST)).map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let addresses = (0..profile.origins()).map(free).collect::<Result<Vec<SocketAddr>>>()?;
        let identity = self.identity(profile == Profile::ProxiedToTls)?;
        Ok((!addresses.is_empty()).then_some(site::Origins { addresses, identity }))
    }

    /// The certificate for servers that speak TLS, made on first use.
    fn identity(&self, is_wanted: bool) -> Result<Option<Identity>> {
        if !is_wanted {
            return Ok(None);
        }
        if let Some(made) = self.identity.get() {
            return Ok(Some(made.clone()));
        }
        let made = Identity::make(&self.scratch.create("identity")?)?;
        Ok(Some(self.identity.get_or_init(|| made).clone()))
    }

    fn scripts_directory(&self) -> PathBuf {
        self.scratch.path().join(SCRIPTS)
    }

    /// A fresh directory, owned by the user that the server changes to: some servers open their logs only then.
    fn server_directory(&self) -> Result<PathBuf> {
        let directory = self.scratch.create_anew("server")?;
        if let Some(account) = &self.account {
            std::os::unix::fs::chown(&directory, Some(account.uid), Some(account.gid))
                .context(|| format!("give {} to {}", directory.display(), account.user))?;
        }
        Ok(directory)
    }

    /// Warms the server up, then measures it under load.
    fn measure_load(&self, server: &Server, site: &Site, load_run: LoadRun<'_>) -> Result<Load> {
        self.measure_while(server, site, load_run, &mut || Ok(()))
    }

    /// The same; calls `meanwhile` again and again during what counts.
    fn measure_while(
        &self,
        server: &Server,
        site: &Site,
        load_run: LoadRun<'_>,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Load> {
        let mut watch = Watch::new(server);
        LoadRun { seconds: WARM_UP_SECONDS, ..load_run }.run(self.cores.generator, &mut || watch.look())?;
        server.await_quiet()?;

        let mut watch = Watch::new(server);
        let before = Reading::take(server, self.cores)?;
        let mut monitor = Monitor::new(server, self.cores);
        let counts = load_run.run(self.cores.generator, &mut || {
            monitor.look();
            meanwhile()?;
            watch.look()
        })?;
        let after = Reading::take(server, self.cores)?;
        let busiest = watch.busiest();
        let fresh = fresh(site.address(), client(load_run.protocol)?.as_ref(), FRESH_LIMIT);
        if counts.requests == 0 {
            return Err(Error::new("no request was answered under load"));
        }
        Ok(Load {
            fresh_us: fresh.unwrap_or(FRESH_LIMIT).as_micros() as u64,
            moments: monitor.moments.into(),
            replaced: watch.newcomers(),
            busiest,
            ..self.figures(server, counts, &before, &after)?
        })
    }

    fn figures(&self, server: &Server, counts: Counts, before: &Reading, after: &Reading) -> Result<Load> {
        Ok(Load {
            seconds: counts.seconds,
            requests: counts.requests,
            bytes: counts.bytes,
            server_cpu_seconds: after.server - before.server,
            min_us: counts.min_us,
            mean_us: counts.mean_us,
            p50_us: counts.p50_us,
            p99_us: counts.p99_us,
            max_us: counts.max_us,
            handshakes: counts.handshakes,
            errors: counts.errors,
            reopened: counts.reopened,
            late_p99_us: counts.late_p99_us,
            pss_kib: server.pss_kib()?,
            processes: server.pids().len(),
            busy: after.busy_since(before, self.cores),
            lost: 0,
            replaced: 0,
            fresh_us: 0,
            busiest: 0.0,
            pressure: None,
            begun: None,
            accepted: None,
            latencies: counts.latencies.into(),
            moments: Box::default(),
            intervals: counts.intervals.into(),
            averages: Some(after.averages_since(before)),
            swap_before_kib: before.swap_used_kib,
        })
    }

    /// Sends fresh requests while a crowd stays. Lingering connections come last: a server need not wait for them long.
    fn mixed_connections(&self, server: &Server, site: &Site, crowd: &MixedConnections) -> Result<Load> {
        probe(site, None, &SMALL, false)?;
        let subprocesses = subprocesses_for(self.descriptors, crowd.idle + crowd.slow + crowd.lingering);
        let open = |manner, count| {
            IdleConnections::open(&IdleLoad { manner, address: site.address(), tls: None, count }, subprocesses)
        };
        let mut idle = open(Manner::Idle, crowd.idle)?;
        let mut slow = open(Manner::Slow, crowd.slow)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| slow.read_slowly(&stop));
            let lingering = open(Manner::Lingering, crowd.lingering);
            let before = Reading::take(server, self.cores);
            let counts = ask(site.address(), crowd.fresh);
            let after = Reading::take(server, self.cores);
            stop.store(true, Relaxed);
            let load = self.figures(server, counts, &before?, &after?)?;
            Ok((load, lingering?.missing().failed))
        })
        .map(|(load, lingering)| Load { lost: idle.missing().all + slow.missing().failed + lingering, ..load })
    }

    /// The children just after their start, and again when all of them had work.
    fn children(&self, server: &Server, count: u32, load_run: LoadRun<'_>) -> Result<Memory> {
        server.await_children(count)?;
        let before_kib = server.pss_kib()?;
        let mut watch = Watch::new(server);
        let counts = load_run.run(self.cores.generator, &mut || watch.look())?;
        server.await_children(count)?;
        Ok(Memory {
            before_kib,
            after_kib: server.pss_kib()?,
            processes: server.pids().len(),
            lost: counts.errors.total(),
        })
    }

    fn idle(&self, server: &Server, site: &Site, connections: u32, protocol: Protocol) -> Result<Memory> {
        probe(site, client(protocol)?.as_ref(), &SMALL, false)?;
        let before_kib = server.pss_kib()?;
        let idle_load =
            IdleLoad { manner: Manner::Idle, address: site.address(), tls: protocol.tls(), count: connections };
        let mut idle = IdleConnections::open(&idle_load, subprocesses_for(self.descriptors, connections))?;
        std::thread::sleep(REST);
        let after_kib = server.pss_kib()?;
        Ok(Memory { before_kib, after_kib, processes: server.pids().len(), lost: idle.missing().all })
    }
}

fn load_run<'a>(site: &'a Site, name: &'a str, connections: u32, seconds: u32) -> LoadRun<'a> {
    LoadRun {
        addresses: &site.addresses,
        name,
        // A few fewer than wanted are as good; the report says so.
        connections: u64::from(connections).min(site.descriptors - DESCRIPTORS_IN_RESERVE) as u32,
        per_connection: u32::from(site.close),
        host: None,
        urls: None,
        requests: None,
        per_second: None,
        // The generator has its core to itself.
        spins: true,
        seconds: seconds.max(connections / CONNECTIONS_PER_SECOND),
        protocol: Protocol::Clear,
        expect: None,
    }
}

/// The client for checks, if the server speaks TLS.
fn client(protocol: Protocol) -> Result<Option<Client>> {
    protocol.tls().map(|tls| tls.client()).transpose()
}

/// Sends so many requests, one after the other, each on a connection of its own.
fn ask(address: SocketAddr, times: u32) -> Counts {
    let began = Instant::now();
    let mut latencies_us = Vec::new();
    let mut errors = Errors::default();
    for _ in 0..times {
        let asked = Instant::now();
        match fresh(address, None, FRESH_LIMIT) {
            Ok(latency) => latencies_us.push(latency.as_micros() as u64),
            Err(_) if asked.elapsed() >= FRESH_LIMIT => errors.timeout += 1,
            Err(_) => errors.read += 1,
        }
        if errors.total() == SILENCES_MAX || interrupt::is_asked() {
            errors.timeout += u64::from(times) - latencies_us.len() as u64 - errors.total();
            break;
        }
    }
    Counts::of_latencies(began.elapsed().as_secs_f64(), latencies_us, errors)
}

/// The servers behind it differ in their addresses only, so the first one is enough.
fn describe(trial: &Trial<'_>, recipe: &Recipe, site: &Site) -> Configuration {
    let program = trial.program.file_name().unwrap_or_default().to_string_lossy();
    let behind = site.origins.as_ref().and_then(|origins| origin::members(site, origins).into_iter().next());
    let beside = recipe.backend.iter().chain(&behind).map(|backend| &backend.file);
    let (installed, composed): (Vec<_>, Vec<_>) = recipe.files.iter().chain(beside).partition(|file| file.as_installed);
    Configuration {
        profile: trial.profile,
        command: format!("{program} {}", recipe.arguments.join(" ")),
        environment: recipe.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        files: composed.iter().map(|file| (file.name.clone(), beginning(&file.text))).collect(),
        as_installed: installed.iter().map(|file| file.name.clone()).collect(),
    }
}

/// The text of a file, without most of the thousands of lines that are alike.
fn beginning(text: &str) -> String {
    let mut lines = text.lines();
    let kept: Vec<&str> = lines.by_ref().take(LINES_MAX).collect();
    match lines.count() {
        0 => text.to_owned(),
        more => format!("{}\n# {more} more lines\n", kept.join("\n")),
    }
}

/// Addresses of the laboratory's networks with a port that is free right now: as many as the connections need.
fn free_addresses(host: u8, connections: u32) -> Result<Vec<SocketAddr>> {
    let ip = |network| IpAddr::V4(Ipv4Addr::new(NETWORK[0], NETWORK[1], network, host));
    let port = free_port(ip(0))?;
    let networks = connections.div_ceil(CONNECTIONS_PER_ADDRESS).clamp(1, 255) as u8;
    Ok((0..networks).map(|network| (ip(network), port).into()).collect())
}

/// A port that is free right now.
fn free_port(ip: IpAddr) -> Result<u16> {
    let listener = TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).context(|| format!("find a free port on {ip}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_connections_are_spread_over_addresses_with_one_port() {
        assert_eq!(free_addresses(7, 10_000).unwrap().len(), 1);
        let addresses = free_addresses(7, 20_000).unwrap();
        assert_eq!(addresses.len(), 2);
        assert_eq!(addresses[1], SocketAddr::from(([127, 88, 1, 7], addresses[0].port())));
    }
}
