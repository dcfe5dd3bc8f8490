//! The state of the display: the latest observations, and those of the last two minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::sample::{Process, Sample};
use crate::load::status::Status;

/// How far back the courses reach.
const REACH: Duration = Duration::from_secs(120);

/// Everything a picture is made of.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The status page.
    pub(super) url: String,
    pub(super) interval: Duration,
    pub(super) sample: Sample,
    pub(super) page: Page,
    pub(super) courses: [Series; 4],
    pub(super) order: Order,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    pub(super) is_colourful: bool,
}

/// The server's own report.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Page {
    /// The last report.
    pub(super) status: Option<Status>,
    /// `None` if the page has no counts, or the server has just started.
    pub(super) traffic: Option<Traffic>,
    /// Why it cannot be read now.
    pub(super) problem: Option<String>,
    #[serde(skip)]
    pub(super) at: Option<Instant>,
}

/// A server's work between two looks at its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Traffic {
    /// Per second, without our own looks.
    pub(super) requests: f64,
    pub(super) bytes: Option<f64>,
    /// The mean time of a request.
    pub(super) milliseconds: Option<f64>,
}

/// A figure over time, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) values: VecDeque<f64>,
    /// How many values were dropped before these.
    pub(super) gone: usize,
}

/// The sort order of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Cpu,
    Pss,
    Rss,
    Threads,
    Pid,
}

impl State {
    /// Without any observations.
    pub(super) fn new(url: String, interval: Duration, is_colourful: bool) -> Self {
        let courses = ["req/s", "cpu %", "memory %", "p99 ms"].map(|name| Series { name, ..Series::default() });
        Self {
            url,
            interval,
            sample: Sample::default(),
            page: Page::default(),
            courses,
            order: Order::default(),
            is_paused: false,
            shows_help: false,
            is_colourful,
        }
    }

    /// Takes an observation of the machine.
    pub(super) fn see(&mut self, sample: Sample) {
        self.sample = sample;
        let (machine, loads) = (&self.sample.machine, &self.sample.loads);
        let traffic = self.page.traffic.filter(|_| self.page.problem.is_none());
        let figures = [
            traffic.map_or(0.0, |traffic| traffic.requests),
            machine.all.user + machine.all.system,
            100.0 * machine.memory.used / machine.memory.total.max(1.0),
            loads.iter().map(|load| load.latest.p99_us).max().unwrap_or_default() as f64 / 1000.0,
        ];
        let most = (REACH.as_secs_f64() / self.interval.as_secs_f64()).ceil().max(1.0) as usize;
        for (course, figure) in self.courses.iter_mut().zip(figures) {
            course.values.push_back(figure);
            while course.values.len() > most {
                course.values.pop_front();
                course.gone += 1;
            }
        }
    }

    /// The server's processes in display order.
    pub(super) fn sorted(&self) -> Vec<&Process> {
        let mut list: Vec<&Process> = self.sample.processes.iter().flat_map(|processes| &processes.list).collect();
        list.sort_by(|one, other| {
            let by = match self.order {
                Order::Cpu => other.cpu.total_cmp(&one.cpu),
                Order::Pss => other.pss_kib.cmp(&one.pss_kib),
                Order::Rss => other.rss_kib.cmp(&one.rss_kib),
                Order::Threads => other.threads.cmp(&one.threads),
                Order::Pid => one.pid.cmp(&other.pid),
            };
            by.then(one.pid.cmp(&other.pid))
        });
        list
    }
}

impl Page {
    /// Takes the result of a look at the page.
    pub(super) fn take(&mut self, at: Instant, look: Result<Status, String>) {
        match look {
            Ok(status) => {
                let before = self.status.as_ref().zip(self.at);
                self.traffic = before.and_then(|(before, then)| Traffic::between(before, &status, at - then));
                self.problem = None;
                self.status = Some(status);
                self.at = Some(at);
            }
            Err(problem) => {
                self.traffic = None;
                self.problem = Some(problem);
            }
        }
    }
}

impl Traffic {
    /// Counts that decrease belong to another start of the server.
    fn between(before: &Status, now: &Status, time: Duration) -> Option<Self> {
        let grown = |before: Option<u64>, now: Option<u64>| now?.checked_sub(before?);
        let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
        // One of them was the look itself.
        let requests = grown(before.requests, now.requests)?;
        let bytes = grown(before.bytes, now.bytes).map(|bytes| bytes as f64 / seconds);
        let spent = grown(before.milliseconds, now.milliseconds).filter(|_| requests > 0);
        Some(Self {
            requests: requests.saturating_sub(1) as f64 / seconds,
            bytes,
            milliseconds: spent.map(|spent| spent as f64 / requests as f64),
        })
    }
}

impl Order {
    /// All of them, with the headers of their columns.
    pub(super) const ALL: [(Order, &'static str); 5] = [
        (Order::Cpu, "CPU %"),
        (Order::Pss, "PSS"),
        (Order::Rss, "RSS"),
        (Order::Threads, "threads"),
        (Order::Pid, "PID"),
    ];

    /// The next one.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|(order, _)| *order == self).map_or(0, |at| at + 1);
        Self::ALL[at % Self::ALL.len()].0
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::Processes;
    use super::*;

    fn status(requests: u64, bytes: u64, milliseconds: u64) -> Status {
        Status { requests: Some(requests), bytes: Some(bytes), milliseconds: Some(milliseconds), ..Status::default() }
    }

    #[test]
    fn traffic_is_what_happened_between_two_looks() {
        let start = Instant::now();
        let mut page = Page::default();
        let mut look = |second, look| {
            page.take(start + Duration::from_secs(second), look);
            (page.traffic, page.problem.clone())
        };
        assert_eq!(look(0, Ok(status(100, 0, 0))), (None, None));
        let traffic = Traffic { requests: 50.0, bytes: Some(1000.0), milliseconds: Some(2.0) };
        assert_eq!(look(2, Ok(status(201, 2000, 202))), (Some(traffic), None));
        assert_eq!(look(3, Err("gone".into())), (None, Some("gone".into())));
        assert_eq!(look(4, Ok(status(1, 0, 0))), (None, None), "it was started again");
        let quiet = Traffic { requests: 0.0, bytes: Some(0.0), milliseconds: Some(0.0) };
        assert_eq!(look(5, Ok(status(2, 0, 0))), (Some(quiet), None), "nobody but us");
    }

    #[test]
    fn courses_reach_two_minutes_back() {
        let mut state = State::new(String::new(), Duration::from_secs(2), false);
        (0..100).for_each(|_| state.see(Sample::default()));
        assert!(state.courses.iter().all(|course| course.values.len() == 60));
    }

    #[test]
    fn processes_are_sorted_by_each_column() {
        let process = |pid, cpu, pss_kib| Process { pid, cpu, pss_kib, ..Process::default() };
        let list = vec![process(3, 1.0, Some(9)), process(1, 1.0, None), process(2, 7.0, Some(10))];
        let mut state = State::new(String::new(), Duration::from_secs(1), false);
        state.sample.processes = Some(Processes { list, ended: 0.0 });
        let mut told = Vec::new();
        for _ in 0..Order::ALL.len() {
            told.push(state.sorted().iter().map(|process| process.pid).collect::<Vec<_>>());
            state.order = state.order.next();
        }
        assert_eq!(told, [[2, 1, 3], [2, 3, 1], [1, 2, 3], [1, 2, 3], [1, 2, 3]]);
        assert_eq!(state.order, Order::Cpu, "and from the beginning again");
    }
}
