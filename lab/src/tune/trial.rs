//! One trial: starts a server with a configuration, loads it for a while, and ends it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::halving::Score;
use crate::compare::{self, Calm, FIGURES, Starter};
use crate::frontends::load::LoadOptions;
use crate::load::Plan;
use crate::load::url::Url;
use crate::machine::error::{Error, Result};
use crate::machine::interrupt;
use crate::machine::listener::Listener;
use crate::machine::procfs;
use crate::measure::server::{Server, check_memory};

/// The data shared by trials.
#[derive(Debug)]
pub(super) struct Trials<'o> {
    pub(super) starter: Starter,
    pub(super) load: &'o LoadOptions,
    pub(super) destination: Destination,
    /// All cores, the load generator's and the servers'.
    pub(super) cores: Vec<usize>,
    pub(super) calm: Calm,
}

/// Where the requests of a trial go.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// This path, at the first address the server listens on.
    Path(String),
    Url(String),
}

/// The result of a trial.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    pub(super) seconds: f64,
    #[serde(rename = "answers")]
    pub(super) responses: u64,
    pub(super) per_second: f64,
    pub(super) per_cpu_second: Option<f64>,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) memory_mb: Option<f64>,
    /// Requests that failed, and responses with the wrong status or body.
    pub(super) failures: u64,
    /// Clients that waited in vain for more than half of the time.
    pub(super) starved: u64,
    /// All processes of the server at the end, including the parent and its helpers.
    pub(super) processes: usize,
}

/// The figure to improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Goal {
    /// Responses per second
    Rate,
    /// Responses per second of CPU time
    Cpu,
    /// The time that one of a hundred responses exceeds
    P99,
}

impl Goal {
    /// Its row among the [`FIGURES`].
    pub(super) fn row(self) -> usize {
        match self {
            Self::Cpu => 0,
            Self::Rate => 1,
            Self::P99 => 3,
        }
    }

    /// The name of the figure.
    pub(super) fn name(self) -> &'static str {
        FIGURES[self.row()].0
    }

    /// Whether more of it is better.
    pub(super) fn wants_more(self) -> bool {
        FIGURES[self.row()].1
    }

    /// The figure in a measurement.
    pub(super) fn of(self, measurement: &Measurement) -> Option<f64> {
        match self {
            Self::Rate => Some(measurement.per_second),
            Self::Cpu => measurement.per_cpu_second,
            Self::P99 => Some(measurement.p99_ms),
        }
    }

    /// The quality of a measurement. A server that leaves clients waiting for ever is flawed, however fast it answers
    /// the others.
    pub(super) fn worth(self, measurement: &Measurement) -> Score {
        let Some(figure) = self.of(measurement) else { return Score::None };
        let figure = if self.wants_more() { figure } else { -figure };
        match measurement.is_flawed() {
            false => Score::Good(figure),
            true => Score::Flawed(figure),
        }
    }
}

impl Measurement {
    /// Whether something failed.
    pub(super) fn is_flawed(&self) -> bool {
        self.failures + self.starved > 0
    }
}

/// How often to read memory figures that take time.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

impl Trials<'_> {
    /// Starts a server, and returns the URL to request.
    pub(super) fn start(&self, configuration: &Path) -> Result<(Server, String)> {
        let (server, address) = self.starter.start(configuration)?;
        match &self.destination {
            Destination::Path(path) => Ok((server, format!("http://{address}{path}"))),
            Destination::Url(url) => {
                let asked = Url::parse(url)?.resolve(false)?;
                let holder = Listener::at(asked);
                let pids = server.pids();
                match holder.is_some_and(|holder| holder.roots().iter().any(|root| pids.contains(root))) {
                    true => Ok((server, url.clone())),
                    false => Err(Error::new(format!("the server does not listen on {asked}, but on {address}"))
                        .advise("use --path, which uses the address it listens on")),
                }
            }
        }
    }

    /// Loads a server with this configuration for `time`, and calls `look` now and then meanwhile.
    ///
    /// # Errors
    /// The server does not start, answers nothing, or took so much memory that it was ended; or the user interrupts.
    pub(super) fn measure(
        &self,
        configuration: &Path,
        time: Duration,
        mut look: impl FnMut(&Listener),
    ) -> Result<Measurement> {
        let (server, url) = self.start(configuration)?;
        let plan = self.load.plan(&[url])?;
        let listener = plan.servers.first().and_then(|address| Listener::at(*address));
        self.load.warm_up(&plan)?;
        self.calm.wait(&self.cores)?;
        let plan = Plan { count: None, time: Some(time), ..plan };
        let swapped = procfs::swapped_out();
        let mut trouble = None;
        let mut looked = Instant::now();
        let began = Instant::now();
        let measured = compare::measure(&plan, listener.as_ref(), |live| {
            if let Err(error) = check_memory() {
                trouble = Some(error);
                live.stop();
            }
            if let Some(listener) = listener.as_ref().filter(|_| looked.elapsed() > LOOK_INTERVAL) {
                look(listener);
                looked = Instant::now();
            }
        })?;
        let seconds = began.elapsed().as_secs_f64();
        if let Some(listener) = &listener {
            look(listener);
        }
        interrupt::check()?;
        if let Some(error) = trouble {
            return Err(error);
        }
        if procfs::swapped_out() > swapped {
            return Err(Error::new("the machine swapped meanwhile"));
        }
        if measured.responses == 0 {
            return Err(Error::new("no request was answered"));
        }
        let [per_cpu_second, per_second, p50, p99, memory_mb] = measured.figures;
        Ok(Measurement {
            seconds,
            responses: measured.responses,
            per_second: per_second.unwrap_or_default(),
            per_cpu_second,
            p50_ms: p50.unwrap_or_default(),
            p99_ms: p99.unwrap_or_default(),
            memory_mb,
            failures: measured.failures,
            starved: measured.starved,
            processes: server.pids().len(),
        })
    }
}
