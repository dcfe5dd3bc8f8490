//! The options of `simulate`, and the scenario that they describe.

use std::ops::Range;
use std::time::Duration;

use clap::Args;

use super::arrivals::{Curve, Mix, Shape, Spread};
use super::fleet::{Change, Scenario};
use super::gate::Rules;
use super::node::{Machine, State};
use super::request::{Nanos, SECOND};
use crate::machine::balance::Balance;
use crate::machine::duration::duration;
use crate::machine::error::{Error, Result};

/// The options of `simulate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateOptions {
    /// How many nodes stand behind the balancer
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "The fleet")]
    nodes: u32,

    /// Processors of a node
    #[arg(long, value_name = "N", default_value = "24", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "The fleet")]
    cores: u32,

    /// Memory of a node; the gate leaves a sixteenth of it, and at least 48 MB, to other programs
    #[arg(long, value_name = "SIZE", default_value = "16g", value_parser = size, help_heading = "The fleet")]
    memory: u64,

    /// Memory for the scripts of a node (AdmissionMemory), instead of what the gate leaves them of --memory
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "The fleet")]
    admission_memory: Option<u64>,

    /// How many scripts a node runs at once, however little they need
    #[arg(long, value_name = "N", default_value = "320", value_parser = clap::value_parser!(u64).range(1..), help_heading = "The fleet")]
    most_scripts: u64,

    /// How many files a node serves at once, further ones wait; without this option any number, as under percore
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "The fleet")]
    workers: Option<u64>,

    /// Nodes with a part of the memory and of the processors: 1-2=0.5 halves the first two
    #[arg(long, value_name = "NODES=PART", value_parser = unequal, help_heading = "The fleet")]
    unequal: Vec<(Range<usize>, f64)>,

    /// How the balancer chooses; several are simulated one beside the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "roundrobin", help_heading = "The fleet")]
    balance: Vec<Balance>,

    /// Memory of a script
    #[arg(long, value_name = "SIZE", default_value = "200m", value_parser = size, help_heading = "Requests")]
    script_memory: u64,

    /// Processor time of a script, on average
    #[arg(long, value_name = "TIME", default_value = "110ms", value_parser = duration, help_heading = "Requests")]
    script_cpu: Duration,

    /// How long a script has its memory and waits for something else, a database for instance, on average; 0 if it does not
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = time_or_none, help_heading = "Requests")]
    script_time: Duration,

    /// Processor time of a static file
    #[arg(long, value_name = "TIME", default_value = "0.03ms", value_parser = duration, help_heading = "Requests")]
    file_cpu: Duration,

    /// The share of static files among the requests, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = share, help_heading = "Requests")]
    files: f64,

    /// How these times differ from request to request
    #[arg(long, value_enum, default_value = "exponential", help_heading = "Requests")]
    times: Spread,

    /// How long clients, the balancer and the gate (AdmissionTimeout) wait; what takes longer is lost, or refused
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, help_heading = "Requests")]
    patience: Duration,

    /// Requests per second for the whole fleet; in a day, those of the evening
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "load", help_heading = "Requests")]
    rate: Option<f64>,

    /// The rate as a share of what memory and processors of the fleet can do at best
    #[arg(long, value_name = "SHARE", default_value = "0.7", value_parser = positive, help_heading = "Requests")]
    load: f64,

    /// Clients who ask for scripts, one after the other, besides the requests of --rate; with --files 1 those are files alone
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(..=1_000_000), help_heading = "Requests")]
    clients: u32,

    /// How the rate changes
    #[arg(long, value_enum, default_value = "constant", help_heading = "Requests")]
    curve: Shape,

    /// How many times the usual number of requests come with `--curve crowd`
    #[arg(long, value_name = "TIMES", default_value = "3", value_parser = positive, help_heading = "Requests")]
    crowd: f64,

    /// The simulated time. 24h makes a day of 24 hours, which takes long for a large fleet; 10m squeezes its curve into ten minutes
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    duration: Duration,

    /// The part of this time, at its beginning, that counts for nothing
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time_or_none)]
    warm_up: Duration,

    /// Nodes that die, and start again after a while: 1-2@5m+30s
    #[arg(long, value_name = "NODES@TIME+TIME", value_parser = incident, help_heading = "Incidents")]
    die: Vec<Incident>,

    /// Nodes that stand still for a while
    #[arg(long, value_name = "NODES@TIME+TIME", value_parser = incident, help_heading = "Incidents")]
    freeze: Vec<Incident>,

    /// Nodes that are stopped gracefully, and are back after a while: with the agent they say `drain` for five seconds
    /// (GracefulShutdownDelay), without it they close their ports at once
    #[arg(long, value_name = "NODES@TIME+TIME", value_parser = incident, help_heading = "Incidents")]
    drain: Vec<Incident>,

    /// The seed of the random numbers: the same seed makes the same requests, and the same result on any machine
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Print the figures as JSON
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tsubame-lab simulate                       three nodes, 70 % loaded, for ten minutes
  tsubame-lab simulate --unequal 1=0.25 --balance roundrobin,leastconn
                                             a small machine among three: does the agent help?
  tsubame-lab simulate --nodes 4 --rate 2000 --curve day --duration 24h
                                             are four enough for this evening's rate? (minutes)
  tsubame-lab simulate --curve crowd --crowd 4 --die 2@5m+1m
                                             a crowd comes, and a machine dies
  tsubame-lab simulate --cores 1 --memory 1g --script-memory 200m --script-time 1s \\
    --times constant --files 1 --rate 90 --clients 24
                                             three small machines, and 24 clients for scripts

Columns stand beside each other: without and with the agents of the nodes (mod_agent).
A million requests take about a second. 3 000 nodes of 24 cores get two million of them a
second, so give such a fleet a --duration of some seconds, or squeeze its day into a minute;
a day of 24 hours is for a few nodes.
Networks, disks, caches, the kernel and the balancer's own time are left out (lab/README.md).";

/// What happens to some nodes, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Incident {
    nodes: Range<usize>,
    at: Nanos,
    length: Nanos,
}

/// How long a node says `drain` before it closes its ports.
const DRAIN: Nanos = 5 * SECOND;

/// The gate's reserve for other programs: this part of the memory, but at least so many bytes.
const RESERVE: (u64, u64) = (16, 48 << 20);

impl SimulateOptions {
    /// The scenarios, two for each way to balance: without agents and with them.
    pub(super) fn scenarios(&self) -> Result<Vec<Scenario>> {
        let machines = self.machines()?;
        let mix = Mix {
            files: self.files,
            file_work: nanos(self.file_cpu),
            script_work: nanos(self.script_cpu),
            script_pause: nanos(self.script_time),
            spread: self.times,
        };
        let rate =
            self.rate.unwrap_or_else(|| self.load * machines.iter().map(|machine| self.best(machine)).sum::<f64>());
        let (warm_up, duration) = (nanos(self.warm_up), nanos(self.duration));
        if warm_up >= duration {
            return Err(Error::new("nothing is left of --duration after --warm-up").advise("a longer --duration"));
        }
        let scenario = |balance: Balance, agent: bool| {
            Ok(Scenario {
                machines: machines.clone(),
                rules: Rules {
                    need: self.script_memory,
                    most: self.most_scripts,
                    queue: QUEUE,
                    patience: nanos(self.patience),
                },
                curve: Curve::of(self.curve, rate, self.crowd, duration),
                mix,
                clients: self.clients as usize,
                seed: self.seed,
                warm_up,
                duration,
                changes: self.changes(agent)?,
                balance,
                agent,
            })
        };
        let both = |balance: &Balance| [scenario(*balance, false), scenario(*balance, true)];
        self.balance.iter().flat_map(both).collect()
    }

    fn machines(&self) -> Result<Vec<Machine>> {
        let room = self
            .admission_memory
            .unwrap_or_else(|| self.memory.saturating_sub((self.memory / RESERVE.0).max(RESERVE.1)));
        let machine = Machine { cores: self.cores.into(), room, workers: self.workers };
        let mut machines = vec![machine; self.nodes as usize];
        for (nodes, part) in &self.unequal {
            let cores = (f64::from(self.cores) * part).round().max(1.0) as u64;
            let smaller = Machine { cores, room: (room as f64 * part) as u64, ..machine };
            let some = machines.get_mut(nodes.clone()).ok_or_else(|| self.no_such_node(nodes))?;
            some.fill(smaller);
        }
        Ok(machines)
    }

    /// Requests per second that a machine can do, if nothing ever has to wait for another.
    fn best(&self, machine: &Machine) -> f64 {
        let scripts = 1.0 - self.files;
        let places = (machine.room / self.script_memory.max(1)).min(self.most_scripts).max(1) as f64;
        let by_memory = places / (scripts * (self.script_cpu + self.script_time).as_secs_f64());
        let work = scripts * self.script_cpu.as_secs_f64() + self.files * self.file_cpu.as_secs_f64();
        by_memory.min(machine.cores as f64 / work)
    }

    fn changes(&self, agent: bool) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        let leave = match agent {
            true => vec![(0, State::Draining), (DRAIN, State::Closed)],
            false => vec![(0, State::Closed)],
        };
        let kinds =
            [(&self.die, vec![(0, State::Dead)]), (&self.freeze, vec![(0, State::Frozen)]), (&self.drain, leave)];
        for (incidents, states) in kinds {
            for incident in incidents {
                if incident.nodes.end > self.nodes as usize {
                    return Err(self.no_such_node(&incident.nodes));
                }
                let end = (incident.length, State::Serving);
                let in_time = states.iter().copied().filter(|(after, _)| *after < incident.length);
                for (after, state) in in_time.chain([end]) {
                    let change = |node| Change { at: incident.at + after, node, state };
                    changes.extend(incident.nodes.clone().map(change));
                }
            }
        }
        changes.sort_by_key(|change| change.at);
        Ok(changes)
    }

    fn no_such_node(&self, nodes: &Range<usize>) -> Error {
        Error::new(format!("there is no node {}", nodes.end))
            .advise(format!("count from 1 to the number of --nodes, which is {}", self.nodes))
    }
}

/// How many requests may wait for memory on a node (`AdmissionQueue` under percore and event).
const QUEUE: usize = 4000;

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MOST_TIME)
}

/// The longest time, a month: counts of nanoseconds times processors must not overflow.
const MOST_TIME: Nanos = 31 * 86_400 * SECOND;

fn time_or_none(text: &str) -> std::result::Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses `200m`, `16g`; bytes without a unit.
fn size(text: &str) -> std::result::Result<u64, String> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(format!("{unit:?} is not a unit of memory: k, m, g or t")),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (1..=1 << 50).contains(bytes))
        .ok_or_else(|| "a size is a number and a unit, like 200m".to_owned())
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (1e-6..=1e9).contains(number));
    number.ok_or_else(|| "this is a number above 0".to_owned())
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a share is a number from 0 to 1".to_owned())
}

/// Parses `3`, or `1-10`; counted from 1.
fn nodes(text: &str) -> std::result::Result<Range<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok(first - 1..last),
        _ => Err("nodes are a number, or two like 1-10, counted from 1".into()),
    }
}

fn unequal(text: &str) -> std::result::Result<(Range<usize>, f64), String> {
    let (some, part) = text.split_once('=').ok_or("write the nodes and their part, like 1-10=0.5")?;
    Ok((nodes(some)?, positive(part)?))
}

fn incident(text: &str) -> std::result::Result<Incident, String> {
    let form = "write the nodes, the moment and the time until they are back, like 1-2@5m+30s";
    let (some, times) = text.split_once('@').ok_or(form)?;
    let (at, length) = times.split_once('+').ok_or(form)?;
    Ok(Incident { nodes: nodes(some)?, at: nanos(time_or_none(at)?), length: nanos(duration(length)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn options(line: &str) -> SimulateOptions {
        let words = ["lab", "simulate"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words) {
            Ok(Cli { command: Command::Simulate(options) }) => *options,
            Ok(_) => panic!("{line} is another command"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn sizes_and_nodes_are_read() {
        assert_eq!((size("200m"), size("1G"), size("7")), (Ok(200 << 20), Ok(1 << 30), Ok(7)));
        assert!(["", "m", "1x", "0", "-1", "9999999t"].into_iter().all(|text| size(text).is_err()));
        assert_eq!((nodes("3"), nodes("1-10")), (Ok(2..3), Ok(0..10)));
        assert!(["0", "3-2", "x", ""].into_iter().all(|text| nodes(text).is_err()));
        assert_eq!(incident("2@0+1s"), Ok(Incident { nodes: 1..2, at: 0, length: SECOND }));
        assert!(["2", "2@1s", "2@1s+0"].into_iter().all(|text| incident(text).is_err()));
    }

    #[test]
    fn the_memory_for_scripts_is_what_the_gate_leaves_them() {
        let room = |line: &str| options(line).machines().unwrap()[0].room;
        assert_eq!(room("--memory 16g"), 15 << 30);
        assert_eq!(room("--memory 512m"), (512 - 48) << 20);
        assert_eq!(room("--memory 1g --admission-memory 1g"), 1 << 30);
    }

    #[test]
    fn some_nodes_are_smaller() {
        let machines = options("--nodes 4 --cores 24 --admission-memory 8g --unequal 2-3=0.25").machines().unwrap();
        let sizes: Vec<_> = machines.iter().map(|machine| (machine.cores, machine.room >> 30)).collect();
        assert_eq!(sizes, [(24, 8), (6, 2), (6, 2), (24, 8)]);
        assert!(options("--nodes 2 --unequal 3=0.5").scenarios().is_err());
        assert!(options("--nodes 2 --die 2-3@1s+1s").scenarios().is_err());
        assert!(options("--duration 5s --warm-up 5s").scenarios().is_err());
    }

    #[test]
    fn a_drain_is_announced_by_agents_only() {
        let options = options("--drain 1@10s+20s --freeze 2@15s+1s");
        let states = |agent| {
            let changes = options.changes(agent).unwrap().into_iter();
            changes.map(|change| (change.at / SECOND, change.node, change.state)).collect::<Vec<_>>()
        };
        let frozen = [(15, 1, State::Frozen), (16, 1, State::Serving), (30, 0, State::Serving)];
        assert_eq!(states(false), [&[(10, 0, State::Closed)], &frozen[..]].concat());
        let announced = [(10, 0, State::Draining), frozen[0], (15, 0, State::Closed), frozen[1], frozen[2]];
        assert_eq!(states(true), announced);
    }
}
