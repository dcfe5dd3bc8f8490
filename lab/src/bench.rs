//! One measurement: start a server, see that it answers correctly, warm it up, measure, stop it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::accounting::Accounting;
use crate::client::Connection;
use crate::config::apache::Installation;
use crate::error::{Context as _, Error, Result, write_file};
use crate::host::Cores;
use crate::idle::Crowd;
use crate::launch;
use crate::procfs;
use crate::results::{Busy, Configuration, Load, Measure, Memory};
use crate::server::Server;
use crate::subject::{Account, Recipe, Site, Subject};
use crate::workload::{DOCUMENTS, Document, Kind, Profile};
use crate::wrk::{Shot, Wrk};

/// Servers get addresses of their own in 127.88.0.0/24, so that connections of one leave no trace for the next.
const NETWORK: [u8; 3] = [127, 88, 0];

/// Enough for caches and branch predictors; threads and children are there already.
const WARM_UP_SECONDS: u32 = 1;

/// How long connections rest before memory is read, so that a server can give back what only requests needed.
const REST: Duration = Duration::from_secs(1);

/// Opening so many connections takes about a second, which a measurement must not consist of.
const CONNECTIONS_PER_SECOND: u32 = 1500;

/// Everything that measurements share.
#[derive(Debug)]
pub(crate) struct Bench {
    scratch: Scratch,
    wrk: Wrk,
    cores: Cores,
    accounting: Accounting,
    descriptors: u64,
    account: Option<Account>,
    apache: Option<Installation>,
}

/// Who is measured, with what, under which configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial<'a> {
    /// The server.
    pub(crate) subject: &'static Subject,
    /// Its program.
    pub(crate) program: &'a Path,
    /// Its configuration.
    pub(crate) profile: Profile,
    /// What is done to it.
    pub(crate) kind: &'static Kind,
    /// Over how many connections.
    pub(crate) connections: u32,
    /// For how long.
    pub(crate) seconds: u32,
}

impl Bench {
    /// Sets up the scratch directory with the documents and moves the laboratory away from the server's core.
    pub(crate) fn new(wrk: PathBuf) -> Result<Self> {
        let scratch = Scratch::new()?;
        let documents = scratch.create("documents")?;
        for document in DOCUMENTS {
            write_file(documents.join(document.name), document.content())?;
        }
        let cores = Cores::choose()?;
        launch::pin(cores.generator)?;
        Ok(Self {
            wrk: Wrk::new(wrk, &scratch.0, cores.generator)?,
            scratch,
            cores,
            accounting: Accounting::detect(),
            descriptors: launch::raise_descriptor_limit()?,
            account: Account::choose(),
            apache: Installation::find(),
        })
    }

    /// How CPU time is read.
    pub(crate) fn accounting(&self) -> String {
        self.accounting.to_string()
    }

    /// Measures; also tells the exact configuration that was used.
    pub(crate) fn measure(&self, trial: &Trial<'_>) -> Result<(Measure, Configuration)> {
        let site = self.site(trial)?;
        let recipe = (trial.subject.recipe)(&site)?;
        let configuration = describe(trial, &recipe);
        let server = Server::start(&self.accounting, self.cores.server, trial.program, &recipe, &site)?;
        let measure = match trial.kind {
            Kind::Load { document, close, .. } => {
                probe(&site, document, *close)?;
                Measure::Load(self.load(&server, &site, trial, document)?)
            }
            Kind::Idle { connections } => Measure::Memory(self.idle(&server, &site, *connections)?),
            Kind::Children { count } => Measure::Memory(self.children(&server, &site, *count, trial.seconds)?),
        };
        Ok((measure, configuration))
    }

    fn site(&self, trial: &Trial<'_>) -> Result<Site> {
        let number = crate::subject::SUBJECTS.iter().position(|subject| subject.id == trial.subject.id).unwrap_or(0);
        Ok(Site {
            directory: self.server_directory()?,
            documents: self.scratch.0.join("documents"),
            address: free_address(number as u8 + 1)?,
            profile: trial.profile,
            close: matches!(trial.kind, Kind::Load { close: true, .. }),
            descriptors: self.descriptors,
            account: self.account.clone(),
            apache: self.apache.clone(),
        })
    }

    /// A fresh directory, which belongs to whom the server turns into: some open their logs only then.
    fn server_directory(&self) -> Result<PathBuf> {
        let directory = self.scratch.create_anew("server")?;
        if let Some(account) = &self.account {
            std::os::unix::fs::chown(&directory, Some(account.uid), Some(account.gid))
                .context(|| format!("give {} to {}", directory.display(), account.user))?;
        }
        Ok(directory)
    }

    fn load(&self, server: &Server, site: &Site, trial: &Trial<'_>, document: &Document) -> Result<Load> {
        let shot = Shot {
            address: site.address,
            name: document.name,
            connections: trial.connections,
            close: site.close,
            seconds: trial.seconds.max(trial.connections / CONNECTIONS_PER_SECOND),
        };
        self.wrk.fire(Shot { seconds: WARM_UP_SECONDS, ..shot })?;

        let before = self.reading(server)?;
        let counts = self.wrk.fire(shot)?;
        let after = self.reading(server)?;
        if counts.requests == 0 {
            return Err(Error::new("not one request was answered under load"));
        }
        Ok(Load {
            seconds: counts.seconds,
            requests: counts.requests,
            bytes: counts.bytes,
            server_cpu_seconds: after.server - before.server,
            p50_us: counts.p50_us,
            p99_us: counts.p99_us,
            max_us: counts.max_us,
            errors: counts.errors,
            pss_kib: server.pss_kib()?,
            processes: server.pids().len(),
            busy: after.busy_since(&before, self.cores),
        })
    }

    /// Children as they were born, then again when there was work for all of them.
    fn children(&self, server: &Server, site: &Site, count: u32, seconds: u32) -> Result<Memory> {
        server.await_children(count)?;
        let before_kib = server.pss_kib()?;
        let counts = self.wrk.fire(Shot {
            address: site.address,
            name: DOCUMENTS[0].name,
            connections: count,
            close: false,
            seconds,
        })?;
        server.await_children(count)?;
        Ok(Memory {
            before_kib,
            after_kib: server.pss_kib()?,
            processes: server.pids().len(),
            lost: counts.errors.total(),
        })
    }

    fn idle(&self, server: &Server, site: &Site, connections: u32) -> Result<Memory> {
        probe(site, DOCUMENTS[0], false)?;
        let before_kib = server.pss_kib()?;
        let crowd = Crowd::gather(site.address, DOCUMENTS[0].name, connections, self.descriptors)?;
        std::thread::sleep(REST);
        let after_kib = server.pss_kib()?;
        Ok(Memory { before_kib, after_kib, processes: server.pids().len(), lost: crowd.lost() })
    }

    fn reading(&self, server: &Server) -> Result<Reading> {
        let cores = procfs::core_time(&self.cores.both())?;
        Ok(Reading {
            when: Instant::now(),
            server: server.cpu()?.as_secs_f64(),
            generator: procfs::reaped_children().as_secs_f64(),
            laboratory: procfs::own_time().as_secs_f64(),
            busy: cores.busy.as_secs_f64(),
            stolen: cores.stolen.as_secs_f64(),
        })
    }
}

/// All clocks at one moment, in seconds.
struct Reading {
    when: Instant,
    server: f64,
    generator: f64,
    laboratory: f64,
    busy: f64,
    stolen: f64,
}

impl Reading {
    fn busy_since(&self, before: &Self, cores: Cores) -> Busy {
        let elapsed = (self.when - before.when).as_secs_f64();
        let server = self.server - before.server;
        let generator = self.generator - before.generator;
        let laboratory = self.laboratory - before.laboratory;
        let all = elapsed * cores.both().len() as f64;
        let others = self.busy - before.busy - server - generator - laboratory;
        Busy {
            server: server / elapsed,
            generator: generator / elapsed,
            others: (others / all).max(0.0),
            stolen: (self.stolen - before.stolen) / all,
        }
    }
}

/// A server that answers wrongly must not be fast: the bytes are compared before anything is counted.
fn probe(site: &Site, document: &Document, close: bool) -> Result<()> {
    let mut connection = Connection::open(site.address)?;
    let requests = if close { 1 } else { 2 };
    for _ in 0..requests {
        let response = connection.get(document.name, close)?;
        if response.status != 200 || response.body != document.content() {
            return Err(Error::new(format!(
                "/{} came back with status {} and {} bytes instead of 200 and {}",
                document.name,
                response.status,
                response.body.len(),
                document.length
            )));
        }
    }
    if close { connection.await_end() } else { Ok(()) }
}

fn describe(trial: &Trial<'_>, recipe: &Recipe) -> Configuration {
    let program = trial.program.file_name().unwrap_or_default().to_string_lossy();
    let (installed, composed): (Vec<_>, Vec<_>) = recipe.files.iter().partition(|file| file.as_installed);
    Configuration {
        profile: trial.profile,
        command: format!("{program} {}", recipe.arguments.join(" ")),
        environment: recipe.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        files: composed.iter().map(|file| (file.name.clone(), file.text.clone())).collect(),
        as_installed: installed.iter().map(|file| file.name.clone()).collect(),
    }
}

/// An address of the laboratory's network with a port that is free at this moment.
fn free_address(host: u8) -> Result<SocketAddr> {
    let [a, b, c] = NETWORK;
    let ip = IpAddr::V4(Ipv4Addr::new(a, b, c, host));
    TcpListener::bind((ip, 0))
        .and_then(|listener| listener.local_addr())
        .context(|| format!("find a free port on {ip}"))
}

/// A directory for everything that is written during a run; removed when dropped.
#[derive(Debug)]
struct Scratch(PathBuf);

/// Scratch directories are called like this, followed by the number of the process they belong to.
const SCRATCH_PREFIX: &str = "tsubame-lab.";

impl Scratch {
    fn new() -> Result<Self> {
        Self::clear_leftovers();
        let path = std::env::temp_dir().join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path).context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    /// Removes what runs left behind that were killed.
    fn clear_leftovers() {
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(SCRATCH_PREFIX)?.parse::<u32>().ok());
            if owner.is_some_and(|pid| procfs::stat(pid).is_none()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    fn create(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::create_dir(&path).context(|| format!("create {}", path.display()))?;
        Ok(path)
    }

    fn create_anew(&self, name: &str) -> Result<PathBuf> {
        let _ = std::fs::remove_dir_all(self.0.join(name));
        self.create(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_that_passed() {
        let start = Instant::now();
        let reading = |seconds: f64, server: f64, generator: f64, busy: f64| Reading {
            when: start + Duration::from_secs_f64(seconds),
            server,
            generator,
            laboratory: 0.0,
            busy,
            stolen: 0.0,
        };
        let cores = Cores { server: 1, generator: 0 };
        let busy = reading(2.0, 1.0, 1.5, 3.0).busy_since(&reading(0.0, 0.0, 0.0, 0.0), cores);
        assert_eq!((busy.server, busy.generator, busy.others), (0.5, 0.75, 0.125));
    }
}
