//! What the clients of three nodes notice when something happens to one of them: the table of failures, and one
//! measurement.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::capacity::{Size, reasons};
use super::clients::{Answer, Crowd, Kind, Load};
use super::haproxy::{HaProxy, configuration};
use super::network::Network;
use super::node::{Equipment, Node};
use super::results;
use super::store::Store;
use crate::machine::balance::Balance;
use crate::machine::error::Result;
use crate::machine::interrupt;

/// How many nodes there are; the first of them fails.
pub(super) const NODES: usize = 3;

/// Few enough that two nodes can serve them all.
const CROWD: Crowd = Crowd { files_per_second: 80, scripts: 5, posts: 4 };

/// How often to look whether somebody wants the laboratory to end.
const INTERVAL: Duration = Duration::from_millis(50);

/// Something that happens under load, and how it is undone.
pub(super) struct Failure {
    /// Its name for the command line and the results.
    pub(super) id: &'static str,
    /// What happens, for people.
    pub(super) title: &'static str,
    deeds: Deeds,
}

/// The beginning and the end of a failure.
#[derive(Clone, Copy)]
enum Deeds {
    ToNode(Deed<Node>, Deed<Node>),
    /// Then nodes count what clients ask in a store that they share.
    ToStore(Deed<Store>, Deed<Store>),
}

type Deed<T> = fn(&mut T) -> Result<()>;

/// All failures, in the order in which they are measured.
pub(super) static FAILURES: [Failure; 8] = [
    failure("killed", "killed (SIGKILL to all processes), started again", Node::kill, Node::start_again),
    failure("frozen", "frozen (SIGSTOP to all processes), continued", Node::freeze, Node::thaw),
    failure("partitioned", "partitioned (its cable is pulled out), plugged in again", Node::unplug, Node::plug),
    failure("out-of-memory", "out of memory: other programs take 850 of 1024 MB", Node::let_hogs_in, Node::end_hogs),
    failure("drained", "drained (`tsubame ctl drain`), then made `ready`", Node::drain, Node::make_ready),
    failure("stopped", "stopped gracefully, started again", Node::stop_gracefully, Node::start_after_end),
    failure("upgraded", "upgraded (`-k upgrade`)", Node::upgrade, Node::leave),
    Failure {
        id: "redis-killed",
        title: "without its store: the Redis of all three killed, started again",
        deeds: Deeds::ToStore(Store::kill, Store::start),
    },
];

const fn failure(id: &'static str, title: &'static str, begin: Deed<Node>, end: Deed<Node>) -> Failure {
    Failure { id, title, deeds: Deeds::ToNode(begin, end) }
}

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Before the failure.
    pub(super) before: Duration,
    /// From its beginning to its end.
    pub(super) during: Duration,
    /// After that.
    pub(super) after: Duration,
}

/// The configuration of HAProxy.
pub(super) fn front_configuration() -> String {
    configuration(&[100; NODES], Balance::Leastconn, true)
}

impl Failure {
    /// Starts the nodes and the balancer, and lets it happen under load.
    pub(super) fn measure(
        &self,
        equipment: &Rc<Equipment>,
        network: &Rc<Network>,
        haproxy: &Path,
        round: u32,
        times: Times,
    ) -> Result<results::Failure> {
        equipment.forget_counted()?;
        let mut store = Store::new(equipment.directory());
        let has_store = matches!(self.deeds, Deeds::ToStore(..));
        if has_store {
            store.start()?;
        }
        let start = |index| Node::start(equipment, network, index, Size::Whole.capacity(), has_store);
        let mut nodes: Vec<Node> = (0..NODES).map(start).collect::<Result<_>>()?;
        let front = HaProxy::start(haproxy, equipment.directory(), &front_configuration())?;
        let (load, (to, answers)) = (Load::new(), channel());
        let happened = std::thread::scope(|scope| {
            load.start(scope, CROWD, &to);
            let happened = match self.deeds {
                Deeds::ToNode(begin, end) => happen(&load, times, &mut nodes[0], begin, end),
                Deeds::ToStore(begin, end) => happen(&load, times, &mut store, begin, end),
            };
            load.end();
            happened
        });
        drop((to, front));
        happened?;
        store.check()?;
        interrupt::check()?;
        let answers: Vec<Answer> = answers.into_iter().collect();
        Ok(summary(self.id, round, &answers, &equipment.counted()?))
    }
}

fn happen<T>(load: &Load, times: Times, to: &mut T, begin: Deed<T>, end: Deed<T>) -> Result<()> {
    wait_until(load, times.before)?;
    begin(to)?;
    wait_until(load, load.age() + times.during)?;
    end(to)?;
    wait_until(load, load.age() + times.after)
}

fn wait_until(load: &Load, age: Duration) -> Result<()> {
    while load.age() < age {
        interrupt::check()?;
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// What came of all requests; `counted` has a line for each run of the script that counts.
fn summary(id: &str, round: u32, answers: &[Answer], counted: &str) -> results::Failure {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    for number in counted.lines().filter_map(|line| line.parse().ok()) {
        *runs.entry(number).or_default() += 1;
    }
    let (posts, idempotent): (Vec<&Answer>, Vec<&Answer>) =
        answers.iter().partition(|answer| answer.kind == Kind::Post);
    let done = posts.iter().filter(|answer| answer.failure.is_none()).filter_map(|answer| answer.number);
    let slowest = |kind: Kind| {
        let took = answers.iter().filter(|answer| answer.kind == kind).map(|answer| answer.took);
        took.max().unwrap_or_default().as_secs_f64()
    };
    results::Failure {
        failure: id.to_owned(),
        round,
        idempotent: idempotent.len() as u64,
        idempotent_failed: reasons(idempotent.iter().copied()),
        posts: posts.len() as u64,
        posts_failed: reasons(posts.iter().copied()),
        posts_doubled: runs.values().filter(|times| **times > 1).count() as u64,
        posts_lost: done.filter(|number| !runs.contains_key(number)).count() as u64,
        silence: silence(answers).as_secs_f64(),
        slowest_file: slowest(Kind::File),
        slowest_script: slowest(Kind::Script),
    }
}

/// The longest time between two good answers to requests for the file.
fn silence(answers: &[Answer]) -> Duration {
    let good = answers.iter().filter(|answer| answer.kind == Kind::File && answer.failure.is_none());
    let mut ends: Vec<Duration> = good.map(Answer::ended).collect();
    ends.sort_unstable();
    ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: Kind, due: u64, failure: Option<&str>, number: Option<u64>) -> Answer {
        let took = Duration::from_millis(500);
        Answer { kind, due: Duration::from_secs(due), took, failure: failure.map(str::to_owned), number }
    }

    #[test]
    fn posts_are_compared_with_what_ran() {
        let answers = [
            answer(Kind::Post, 0, None, Some(0)),
            answer(Kind::Post, 1, None, Some(1)),
            answer(Kind::Post, 2, Some("503"), Some(2)),
            answer(Kind::Script, 3, Some("502"), None),
        ];
        let found = summary("killed", 1, &answers, "0\n0\n2\n");
        assert_eq!((found.posts, found.posts_doubled, found.posts_lost), (3, 1, 1), "{found:?}");
        assert_eq!(found.posts_failed, BTreeMap::from([("503".to_owned(), 1)]));
        assert_eq!(found.idempotent_failed, BTreeMap::from([("502".to_owned(), 1)]));
    }

    #[test]
    fn silence_lies_between_good_answers() {
        let file = |due, failure| answer(Kind::File, due, failure, None);
        let answers = [file(1, None), file(7, None), file(3, Some("503")), file(2, None)];
        assert_eq!(silence(&answers), Duration::from_secs(5));
        assert_eq!(silence(&[]), Duration::ZERO);
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<&str> = FAILURES.iter().map(|failure| failure.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAILURES.len());
    }
}
