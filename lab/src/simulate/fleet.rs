//! The simulation: lets one thing happen after the other. Pure: no clock, no files, no threads.

use std::cmp::Reverse;

use super::arrivals::{Arrivals, Curve, Mix};
use super::balancer::Balancer;
use super::gate::Rules;
use super::node::{Answer, Machine, Node, State};
use super::request::{Nanos, Request, SECOND};
use super::tally::Tally;
use super::turns::{NEVER, Turns};
use crate::machine::balance::Balance;

/// What is simulated.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) machines: Vec<Machine>,
    pub(super) rules: Rules,
    pub(super) curve: Curve,
    pub(super) mix: Mix,
    /// Clients who ask for scripts, one after the other, beside the requests of the curve.
    pub(super) clients: usize,
    pub(super) seed: u64,
    /// What happens before this moment counts for nothing.
    pub(super) warm_up: Nanos,
    pub(super) duration: Nanos,
    /// What happens to nodes, in the order of time.
    pub(super) changes: Vec<Change>,
    pub(super) balance: Balance,
    /// Whether the balancer asks the nodes' agents.
    pub(super) agent: bool,
}

/// A node becomes something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Nanos,
    pub(super) node: usize,
    pub(super) state: State,
}

/// The fleet after its time.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) tally: Tally,
    pub(super) nodes: Vec<Node>,
    /// How many things happened: arrivals, ends, looks at a node.
    pub(super) events: u64,
}

/// The balancer looks at each node once a second (`agent-inter 1s`), not at all of them at once.
const PARTS: u64 = 20;

/// It checks a node's health every other time (HAProxy's default, `inter 2s`).
const CHECK: u64 = 2;

/// How many other nodes are tried after refused connections (HAProxy's default, `retries 3`, with `option redispatch 1`).
const RETRIES: u32 = 3;

/// Simulates a scenario.
pub(super) fn simulate(scenario: &Scenario) -> Ended {
    let mut fleet = Fleet::new(scenario);
    if scenario.warm_up > 0 {
        while fleet.step(scenario.warm_up) {}
        fleet.advance(scenario.warm_up);
        fleet.tally.count_from(scenario.warm_up);
        fleet.nodes.iter_mut().for_each(Node::count_anew);
    }
    while fleet.step(scenario.duration) {}
    fleet.advance(scenario.duration);
    Ended { tally: fleet.tally, nodes: fleet.nodes, events: fleet.events }
}

struct Fleet<'s> {
    scenario: &'s Scenario,
    nodes: Vec<Node>,
    /// When something ends next on each node.
    ends: Turns,
    balancer: Balancer,
    arrivals: Arrivals,
    arrival: Option<Request>,
    /// How many of the scenario's changes have happened, and how many looks.
    changed: usize,
    looks: u64,
    tally: Tally,
    events: u64,
}

impl<'s> Fleet<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let mut arrivals = Arrivals::new(scenario.curve.clone(), scenario.mix, scenario.seed);
        let nodes = scenario.machines.iter().map(|machine| Node::new(*machine, scenario.rules));
        Self {
            scenario,
            nodes: nodes.collect(),
            ends: Turns::new(scenario.machines.len()),
            balancer: Balancer::new(scenario.balance, scenario.machines.len()),
            arrival: arrivals.next(),
            arrivals,
            changed: 0,
            looks: 0,
            tally: Tally::new(scenario.clients),
            events: 0,
        }
    }

    /// Lets the next thing happen. Returns whether there was one by then.
    fn step(&mut self, until: Nanos) -> bool {
        let ((end, _), node) = self.ends.first();
        let change = self.scenario.changes.get(self.changed).copied();
        let change_at = change.map_or(Nanos::MAX, |change| change.at);
        let look = self.looks * (SECOND / PARTS);
        let arrival = self.arrival.map_or(Nanos::MAX, |request| request.born);
        let client = self.tally.returns.peek().map_or(Nanos::MAX, |Reverse(at)| *at);
        let now = end.min(change_at).min(look).min(client).min(arrival);
        if now > until {
            return false;
        }
        if now == end {
            self.events += 1;
            self.finish(node, now);
        } else if let Some(change) = change.filter(|change| change.at == now) {
            self.changed += 1;
            self.change(change);
        } else if now == look {
            self.look(now);
        } else if now == client {
            self.events += 1;
            self.tally.returns.pop();
            let request = self.arrivals.of_client(now);
            self.dispatch(request);
        } else if let Some(request) = self.arrival.take() {
            self.events += 1;
            self.arrival = self.arrivals.next();
            self.dispatch(request);
        }
        true
    }

    /// Lets time pass in which nothing happens.
    fn advance(&mut self, now: Nanos) {
        self.nodes.iter_mut().for_each(|node| node.advance(now));
        self.tally.advance(now);
    }

    fn finish(&mut self, node: usize, now: Nanos) {
        self.nodes[node].advance(now);
        let left = self.nodes[node].finish(&mut self.tally);
        self.settle(node, left);
    }

    fn change(&mut self, Change { at, node, state }: Change) {
        self.nodes[node].advance(at);
        let lost = self.nodes[node].change(state, &mut self.tally);
        self.settle(node, lost);
    }

    /// Looks at a part of the nodes.
    fn look(&mut self, now: Nanos) {
        let (second, part) = (self.looks / PARTS, self.looks % PARTS);
        self.looks += 1;
        let first = |part: u64| (part as usize * self.nodes.len()).div_ceil(PARTS as usize);
        for node in first(part)..first(part + 1) {
            self.events += 1;
            self.nodes[node].advance(now);
            let left = self.nodes[node].look(&mut self.tally);
            self.settle(node, left);
            if self.scenario.agent
                && let Some((weight, drains)) = self.nodes[node].agent()
            {
                self.balancer.agent_said(node, weight, drains);
            }
            if second.is_multiple_of(CHECK) {
                let passes = matches!(self.nodes[node].state(), State::Serving | State::Draining);
                self.balancer.checked(node, passes);
            }
        }
    }

    /// Gives a request to a node; to another one, if that has closed its ports.
    fn dispatch(&mut self, request: Request) {
        let now = request.born;
        self.tally.arrives(now);
        let mut refused = None;
        for _ in 0..=RETRIES {
            let Some(node) = self.balancer.choose(refused) else { break };
            self.nodes[node].advance(now);
            match self.nodes[node].accept(request, &mut self.tally) {
                Answer::Taken => return self.settle(node, 0),
                Answer::Full => return self.settle(node, 1),
                Answer::Closed => self.settle(node, 1),
            }
            self.tally.redispatched += 1;
            refused = Some(node);
        }
        // The balancer's own 503.
        self.tally.refuses(&request, now);
    }

    /// After something has happened at a node, and so many of its requests have left.
    fn settle(&mut self, node: usize, left: u64) {
        for _ in 0..left {
            self.balancer.ended(node);
        }
        self.ends.set(node, self.nodes[node].next().map_or(NEVER, |end| (end, 0)));
    }
}
