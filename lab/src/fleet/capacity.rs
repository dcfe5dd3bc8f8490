//! How much several nodes do together, beside one of them: the table of arrangements, and one measurement.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::clients::{Answer, Crowd, Kind, Load};
use super::group;
use super::haproxy::{HaProxy, configuration};
use super::network::Network;
use super::node::{Equipment, Node};
use super::results::Capacity;
use crate::machine::balance::Balance;
use crate::machine::error::Result;
use crate::machine::interrupt;
use crate::machine::stats::percentile;

/// How long a load goes on before it counts: the gates get to know the script, and the balancer the weights.
const WARM_UP: Duration = Duration::from_secs(5);

/// How often to look whether somebody wants the laboratory to end.
const INTERVAL: Duration = Duration::from_millis(50);

/// Twice as many clients as a whole node can serve at once: four scripts of 200 MB fit into 1 GB.
const SCRIPT_CLIENTS_PER_NODE: u32 = 8;

/// Requests for the file, per second and node.
const FILES_PER_NODE: u32 = 30;

/// How large a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Whole,
    /// A third of the memory.
    Third,
}

impl Size {
    /// Memory, and a share of a processor that is enough for the scripts that fit: they sleep most of their time. Three nodes,
    /// the balancer and the clients have to fit a machine of two cores.
    pub(super) fn capacity(self) -> group::Capacity {
        let memory = match self {
            Self::Whole => 1 << 30,
            Self::Third => (1 << 30) / 3,
        };
        group::Capacity { memory, percent: 45 }
    }
}

/// Nodes, and how work is divided among them.
#[derive(Debug)]
pub(super) struct Arrangement {
    /// Its name for the command line and the results.
    pub(super) id: &'static str,
    /// What it is, for people.
    pub(super) title: &'static str,
    /// The nodes.
    pub(super) nodes: &'static [Size],
    /// How HAProxy divides work.
    pub(super) balance: Balance,
    /// Whether it asks the nodes' agents.
    pub(super) has_agent: bool,
    /// Whether the weights tell how large nodes are; otherwise all have the same.
    has_weights: bool,
    /// The arrangements whose sum it should reach.
    pub(super) target: &'static [&'static str],
}

const ONE: &[Size] = &[Size::Whole];
const SMALL: &[Size] = &[Size::Third];
const EQUAL: &[Size] = &[Size::Whole, Size::Whole, Size::Whole];
const UNEQUAL: &[Size] = &[Size::Whole, Size::Whole, Size::Third];
const THREE_TIMES: &[&str] = &["one", "one", "one"];
const TWO_AND_SMALL: &[&str] = &["one", "one", "small"];

/// All arrangements, in the order in which they are measured.
pub(super) static ARRANGEMENTS: [Arrangement; 12] = [
    arrangement("one", "one node", ONE, Balance::Roundrobin, false),
    arrangement("small", "one node with a third of the memory", SMALL, Balance::Roundrobin, false),
    arrangement("equal-roundrobin", "three nodes, roundrobin", EQUAL, Balance::Roundrobin, false),
    arrangement("equal-leastconn", "three nodes, leastconn", EQUAL, Balance::Leastconn, false),
    arrangement("equal-roundrobin-agent", "three nodes, roundrobin, agent", EQUAL, Balance::Roundrobin, true),
    arrangement("equal-leastconn-agent", "three nodes, leastconn, agent", EQUAL, Balance::Leastconn, true),
    arrangement("unequal-roundrobin", "two nodes and a small one, roundrobin", UNEQUAL, Balance::Roundrobin, false),
    arrangement("unequal-leastconn", "two nodes and a small one, leastconn", UNEQUAL, Balance::Leastconn, false),
    arrangement(
        "unequal-roundrobin-agent",
        "two and a small one, roundrobin, agent",
        UNEQUAL,
        Balance::Roundrobin,
        true,
    ),
    arrangement("unequal-leastconn-agent", "two and a small one, leastconn, agent", UNEQUAL, Balance::Leastconn, true),
    Arrangement {
        has_weights: true,
        ..arrangement(
            "weights-roundrobin",
            "two and a small one with less weight, roundrobin",
            UNEQUAL,
            Balance::Roundrobin,
            false,
        )
    },
    Arrangement {
        has_weights: true,
        ..arrangement(
            "weights-roundrobin-agent",
            "two and a small one with less weight, roundrobin, agent",
            UNEQUAL,
            Balance::Roundrobin,
            true,
        )
    },
];

const fn arrangement(
    id: &'static str,
    title: &'static str,
    nodes: &'static [Size],
    balance: Balance,
    has_agent: bool,
) -> Arrangement {
    let target = match nodes {
        [_] => &[],
        [_, _, Size::Third] => TWO_AND_SMALL,
        _ => THREE_TIMES,
    };
    Arrangement { id, title, nodes, balance, has_agent, has_weights: false, target }
}

impl Arrangement {
    /// Its configuration of HAProxy.
    pub(super) fn configuration(&self) -> String {
        let weight = |size: &Size| if self.has_weights && *size == Size::Third { 33 } else { 100 };
        let weights: Vec<u32> = self.nodes.iter().map(weight).collect();
        configuration(&weights, self.balance, self.has_agent)
    }

    fn crowd(&self) -> Crowd {
        let nodes = self.nodes.len() as u32;
        Crowd { files_per_second: FILES_PER_NODE * nodes, scripts: SCRIPT_CLIENTS_PER_NODE * nodes, posts: 0 }
    }

    /// Starts the nodes and the balancer, and measures for so many seconds.
    pub(super) fn measure(
        &self,
        equipment: &Rc<Equipment>,
        network: &Rc<Network>,
        haproxy: &std::path::Path,
        round: u32,
        seconds: u32,
    ) -> Result<Capacity> {
        let start = |(index, size): (usize, &Size)| Node::start(equipment, network, index, size.capacity(), false);
        let _nodes: Vec<Node> = self.nodes.iter().enumerate().map(start).collect::<Result<_>>()?;
        let front = HaProxy::start(haproxy, equipment.directory(), &self.configuration())?;
        let window = [WARM_UP, WARM_UP + Duration::from_secs(seconds.into())];
        let (load, (to, answers)) = (Load::new(), channel());
        std::thread::scope(|scope| {
            load.start(scope, self.crowd(), &to);
            while load.age() < window[1] && !interrupt::is_asked() {
                std::thread::sleep(INTERVAL);
            }
            load.end();
            // What still waits would wait for long, and counts no more.
            drop(front);
        });
        drop(to);
        interrupt::check()?;
        Ok(summary(self.id, round, window, &answers.into_iter().collect::<Vec<_>>()))
    }
}

/// What came of the requests that ended within the window.
fn summary(id: &str, round: u32, window: [Duration; 2], answers: &[Answer]) -> Capacity {
    let counted: Vec<&Answer> =
        answers.iter().filter(|answer| (window[0]..window[1]).contains(&answer.ended())).collect();
    let times = |kind: Kind| {
        let good = counted.iter().filter(|answer| answer.kind == kind && answer.failure.is_none());
        let mut times: Vec<u64> = good.map(|answer| answer.took.as_micros() as u64).collect();
        times.sort_unstable();
        times
    };
    let (scripts, files) = (times(Kind::Script), times(Kind::File));
    let quantiles = |times: &[u64]| [0.5, 0.99].map(|share| percentile(times, share) as f64 / 1000.0);
    Capacity {
        arrangement: id.to_owned(),
        round,
        scripts_per_second: scripts.len() as f64 / (window[1] - window[0]).as_secs_f64(),
        script_ms: quantiles(&scripts),
        file_ms: quantiles(&files),
        failed: reasons(counted.iter().copied()),
    }
}

/// How many requests failed, by reason.
pub(super) fn reasons<'a>(answers: impl Iterator<Item = &'a Answer>) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for failure in answers.filter_map(|answer| answer.failure.clone()) {
        *reasons.entry(failure).or_default() += 1;
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_sums_of_arrangements_of_one_node() {
        for arrangement in &ARRANGEMENTS {
            let alone = |id: &&str| ARRANGEMENTS.iter().any(|other| other.id == *id && other.nodes.len() == 1);
            assert!(arrangement.target.iter().all(alone), "{}", arrangement.id);
            assert_eq!(arrangement.target.is_empty(), arrangement.nodes.len() == 1, "{}", arrangement.id);
        }
    }

    #[test]
    fn only_what_ends_within_the_window_counts() {
        let second = Duration::from_secs(1);
        let answer = |due: u32, failure: Option<&str>| Answer {
            kind: Kind::Script,
            due: second * due,
            took: second,
            failure: failure.map(str::to_owned),
            number: None,
        };
        let answers = [answer(0, None), answer(1, None), answer(2, Some("503")), answer(3, None), answer(9, None)];
        let capacity = summary("one", 1, [second * 2, second * 6], &answers);
        assert!((capacity.scripts_per_second - 0.5).abs() < 1e-9, "{capacity:?}");
        assert!((capacity.script_ms[1] - 1000.0).abs() < 1e-9, "{capacity:?}");
        assert_eq!(capacity.failed, BTreeMap::from([("503".to_owned(), 1)]));
    }
}
