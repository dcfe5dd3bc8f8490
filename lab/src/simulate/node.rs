//! A node: processors, the gate for scripts, the workers for files.

use std::collections::{BinaryHeap, VecDeque};

use super::gate::{Gate, Rules};
use super::processors::{Due, Processors};
use super::request::{Kind, Nanos, Request, SECOND};
use super::tally::Tally;
use super::weight::{Load, Weight, share};

/// What a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) cores: u64,
    /// The memory for scripts, in bytes.
    pub(super) room: u64,
    /// How many files are served at once; `None`: no limit, as under percore.
    pub(super) workers: Option<u64>,
}

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Serving,
    /// It serves, and tells the balancer that it will stop.
    Draining,
    /// Its ports are closed; it finishes what it has.
    Closed,
    /// Nothing moves; the kernel still accepts connections.
    Frozen,
    Dead,
}

/// A node's answer to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Taken,
    /// A 503 at once.
    Full,
    /// The connection was refused.
    Closed,
}

/// How much a node was used, in nanoseconds times processors or scripts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) processors: u64,
    pub(super) scripts: u64,
    /// Requests that it took.
    pub(super) taken: u64,
}

/// How much of the pressure of a second enters the average of ten seconds: 1 - e^(-1/10), as in the kernel.
const FRESH: f64 = 0.095_162_6;

/// A node of the fleet.
#[derive(Debug)]
pub(super) struct Node {
    machine: Machine,
    rules: Rules,
    state: State,
    now: Nanos,
    processors: Processors,
    /// Scripts that wait for something else than a processor.
    pausing: BinaryHeap<Due>,
    gate: Gate,
    /// Files that are served, and files that wait for a worker.
    serving: u64,
    files: VecDeque<Request>,
    usage: Usage,
    /// How long work has waited for a processor since the agent looked last, and its average of ten seconds.
    pressed: Nanos,
    pressure: f64,
    told: Option<Weight>,
}

impl Node {
    pub(super) fn new(machine: Machine, rules: Rules) -> Self {
        Self {
            machine,
            rules,
            state: State::Serving,
            now: 0,
            processors: Processors::new(machine.cores),
            pausing: BinaryHeap::new(),
            gate: Gate::new(rules, machine.room),
            serving: 0,
            files: VecDeque::new(),
            usage: Usage::default(),
            pressed: 0,
            pressure: 0.0,
            told: None,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Forgets how much it was used.
    pub(super) fn count_anew(&mut self) {
        self.usage = Usage::default();
    }

    /// How many processors it has, and how many scripts its memory holds.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.processors.count(), self.gate.places())
    }

    /// When something ends here next; `None`: nothing, if no request comes.
    pub(super) fn next(&self) -> Option<Nanos> {
        if matches!(self.state, State::Frozen | State::Dead) {
            return None;
        }
        let done = self.processors.next().map(|time| self.now + time);
        let woken = self.pausing.peek().map(|due| due.at.max(self.now));
        done.into_iter().chain(woken).min()
    }

    /// Lets time pass, until the next end at most.
    pub(super) fn advance(&mut self, now: Nanos) {
        let time = now - std::mem::replace(&mut self.now, now);
        if matches!(self.state, State::Frozen | State::Dead) {
            return;
        }
        self.usage.processors += time * self.processors.busy();
        self.usage.scripts += time * self.gate.running();
        if self.processors.jobs() > self.processors.count() {
            self.pressed += time;
        }
        self.processors.advance(time);
    }

    /// A request comes.
    pub(super) fn accept(&mut self, request: Request, tally: &mut Tally) -> Answer {
        if matches!(self.state, State::Closed | State::Dead) {
            return Answer::Closed;
        }
        match request.kind {
            Kind::Script if self.gate.enters(self.now) => self.processors.start(request),
            Kind::Script if self.gate.queue(request) => tally.queues(),
            Kind::Script => {
                tally.refuses(&request, self.now);
                return Answer::Full;
            }
            Kind::File => self.serve(request),
        }
        self.usage.taken += 1;
        Answer::Taken
    }

    /// Ends what is due now. Returns how many requests have left the node.
    pub(super) fn finish(&mut self, tally: &mut Tally) -> u64 {
        let mut left = 0;
        while let Some(request) = self.processors.take_done() {
            match request.kind {
                Kind::Script if request.pause > 0 => {
                    self.pausing.push(Due { at: self.now + request.pause, request });
                    continue;
                }
                Kind::Script => left += self.end_script(&request, tally),
                Kind::File => left += self.end_file(&request, tally),
            }
        }
        while self.pausing.peek().is_some_and(|due| due.at <= self.now)
            && let Some(due) = self.pausing.pop()
        {
            left += self.end_script(&due.request, tally);
        }
        left
    }

    /// What the agent and the gate do every second. Returns how many requests have left the node.
    pub(super) fn look(&mut self, tally: &mut Tally) -> u64 {
        if matches!(self.state, State::Frozen | State::Dead) {
            return 0;
        }
        let pressed = std::mem::take(&mut self.pressed) as f64 / SECOND as f64;
        self.pressure += (pressed.min(1.0) - self.pressure) * FRESH;
        self.gate.look(self.now);
        self.admit(tally)
    }

    /// The agent's answer, once a second: the weight in percent, and whether it says `drain`. `None`: nobody answers.
    pub(super) fn agent(&mut self) -> Option<(u8, bool)> {
        if matches!(self.state, State::Frozen | State::Dead) {
            return None;
        }
        let free = |limit: u64| limit.saturating_sub(self.serving) as f64 / limit as f64;
        let load = Load {
            memory: self.gate.free(),
            running: self.gate.running(),
            waiting: self.gate.waiting(),
            workers: self.machine.workers.map_or(1.0, free),
            processors: self.pressure,
        };
        let share = share(load);
        let told = self.told.map_or_else(|| Weight::first(share), |before| before.next(share));
        self.told = Some(told);
        Some((told.percent, self.state != State::Serving))
    }

    /// Changes the state. Returns how many requests are lost by that.
    pub(super) fn change(&mut self, state: State, tally: &mut Tally) -> u64 {
        let before = std::mem::replace(&mut self.state, state);
        if before == State::Dead {
            // It starts anew, and knows nothing of before.
            let fresh = Self::new(self.machine, self.rules);
            *self = Self { state, now: self.now, usage: self.usage, ..fresh };
        }
        if state != State::Dead {
            return 0;
        }
        tally.waiting -= self.gate.waiting();
        let pausing = self.pausing.drain().map(|due| due.request);
        let all = self.processors.drain().chain(pausing).chain(self.gate.drain()).chain(self.files.drain(..));
        all.map(|request| tally.loses(&request, self.now)).count() as u64
    }

    /// How many requests it has.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.processors.jobs() + self.pausing.len() as u64 + self.gate.waiting() + self.files.len() as u64
    }

    fn serve(&mut self, request: Request) {
        if self.machine.workers.is_some_and(|workers| self.serving >= workers) {
            return self.files.push_back(request);
        }
        self.serving += 1;
        self.processors.start(request);
    }

    fn end_file(&mut self, request: &Request, tally: &mut Tally) -> u64 {
        tally.answers(request, self.now, self.rules.patience);
        self.serving -= 1;
        if let Some(next) = self.files.pop_front() {
            self.serve(next);
        }
        1
    }

    fn end_script(&mut self, request: &Request, tally: &mut Tally) -> u64 {
        tally.answers(request, self.now, self.rules.patience);
        self.gate.leave();
        1 + self.admit(tally)
    }

    /// Turns away those who have waited too long, and starts those for whom there is memory. Returns how many were turned away.
    fn admit(&mut self, tally: &mut Tally) -> u64 {
        let mut late = 0;
        while let Some(request) = self.gate.take_late(self.now) {
            tally.waiting -= 1;
            tally.refuses(&request, self.now);
            late += 1;
        }
        while let Some(request) = self.gate.admit(self.now) {
            tally.waiting -= 1;
            self.processors.start(request);
        }
        late
    }
}
