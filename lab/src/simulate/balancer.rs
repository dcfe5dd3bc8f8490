//! The balancer: which node gets a request, as HAProxy decides it.

use super::turns::{Key, NEVER, Turns};
use crate::machine::balance::Balance;

/// How many checks in a row must fail until a node gets no more work, and pass until it gets some again (HAProxy's `fall` and
/// `rise`).
const FALL: u32 = 3;
const RISE: u32 = 2;

/// The way between two turns of a node with weight 1.
const WAY: u64 = 1 << 32;

/// What the balancer knows of the nodes.
#[derive(Debug)]
pub(super) struct Balancer {
    balance: Balance,
    nodes: Vec<Known>,
    turns: Turns,
    /// How far round robin has come.
    position: u64,
    /// How many requests were given away: among equals, the node that has waited longest comes first.
    given: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// In percent.
    weight: u8,
    drains: bool,
    is_up: bool,
    /// Checks in a row that say the opposite of `is_up`.
    against: u32,
    /// Requests that the node has not answered.
    open: u64,
    /// When round robin gave it a request last.
    last: u64,
}

impl Balancer {
    /// All nodes are up, and have full weight.
    pub(super) fn new(balance: Balance, nodes: usize) -> Self {
        let known = Known { weight: 100, drains: false, is_up: true, against: 0, open: 0, last: 0 };
        let mut balancer = Self { balance, nodes: vec![known; nodes], turns: Turns::new(nodes), position: 0, given: 0 };
        for node in 0..nodes {
            balancer.enter(node);
        }
        balancer
    }

    /// The node for a request, which has not refused it just now; `None`: there is no other.
    pub(super) fn choose(&mut self, refused: Option<usize>) -> Option<usize> {
        let set_aside = refused.map(|node| (node, self.turns.key(node)));
        if let Some((node, _)) = set_aside {
            self.turns.set(node, NEVER);
        }
        let (key, node) = self.turns.first();
        if let Some((node, key)) = set_aside {
            self.turns.set(node, key);
        }
        if key == NEVER {
            return None;
        }
        self.given += 1;
        let known = &mut self.nodes[node];
        known.last = self.given;
        known.open += 1;
        let next = match self.balance {
            Balance::Roundrobin => {
                self.position = self.position.max(key.0);
                (key.0 + WAY / u64::from(known.weight), self.given)
            }
            Balance::Leastconn => known.key_of_connections(),
        };
        self.turns.set(node, next);
        Some(node)
    }

    /// A node has answered a request, refused or lost it.
    pub(super) fn ended(&mut self, node: usize) {
        self.nodes[node].open -= 1;
        self.rank(node);
    }

    /// The answer of a node's agent.
    pub(super) fn agent_said(&mut self, node: usize, weight: u8, drains: bool) {
        let known = &mut self.nodes[node];
        let before = std::mem::replace(&mut known.weight, weight);
        let was_in = known.is_in();
        known.drains = drains;
        match (was_in, known.is_in()) {
            (true, true) if before != weight => self.reweigh(node, before),
            (false, true) => self.enter(node),
            (true, false) => self.turns.set(node, NEVER),
            _ => {}
        }
    }

    /// The result of a health check.
    pub(super) fn checked(&mut self, node: usize, passed: bool) {
        let known = &mut self.nodes[node];
        if passed == known.is_up {
            known.against = 0;
            return;
        }
        known.against += 1;
        if known.against < if known.is_up { FALL } else { RISE } {
            return;
        }
        known.against = 0;
        known.is_up = passed;
        match known.is_in() {
            true => self.enter(node),
            false => self.turns.set(node, NEVER),
        }
    }

    /// A node gets its first turn.
    fn enter(&mut self, node: usize) {
        let known = &self.nodes[node];
        let key = match self.balance {
            Balance::Roundrobin => (self.position + WAY / u64::from(known.weight), known.last),
            Balance::Leastconn => known.key_of_connections(),
        };
        self.turns.set(node, key);
    }

    /// The rest of the way to a node's turn becomes shorter or longer with its weight.
    fn reweigh(&mut self, node: usize, before: u8) {
        let (key, second) = self.turns.key(node);
        let rest = key.saturating_sub(self.position);
        if self.balance == Balance::Roundrobin {
            let weight = u64::from(self.nodes[node].weight);
            self.turns.set(node, (self.position + rest / weight * u64::from(before), second));
        }
        self.rank(node);
    }

    fn rank(&mut self, node: usize) {
        let known = &self.nodes[node];
        if self.balance == Balance::Leastconn && known.is_in() {
            self.turns.set(node, known.key_of_connections());
        }
    }
}

impl Known {
    fn is_in(&self) -> bool {
        self.is_up && !self.drains
    }

    /// An idle node comes first, whatever its weight.
    fn key_of_connections(&self) -> Key {
        let share = if self.open == 0 { 0 } else { ((self.open + 1) << 16) / u64::from(self.weight) };
        (share, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(balancer: &mut Balancer, requests: usize) -> Vec<usize> {
        let mut counts = vec![0; balancer.nodes.len()];
        for _ in 0..requests {
            counts[balancer.choose(None).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn work_follows_weights() {
        for balance in [Balance::Roundrobin, Balance::Leastconn] {
            let mut balancer = Balancer::new(balance, 3);
            assert_eq!(chosen(&mut balancer, 300), [100, 100, 100], "{balance:?}");
            let mut balancer = Balancer::new(balance, 3);
            balancer.agent_said(1, 50, false);
            let counts = chosen(&mut balancer, 500);
            assert!(counts[1].abs_diff(100) < 3 && counts[0].abs_diff(200) < 3, "{balance:?} {counts:?}");
        }
    }

    #[test]
    fn fewest_connections_come_first() {
        let mut balancer = Balancer::new(Balance::Leastconn, 2);
        assert_eq!(chosen(&mut balancer, 4), [2, 2]);
        balancer.ended(1);
        balancer.ended(1);
        assert_eq!(chosen(&mut balancer, 2), [0, 2]);
    }

    #[test]
    fn a_recovered_weight_counts_at_once() {
        let mut balancer = Balancer::new(Balance::Roundrobin, 2);
        balancer.agent_said(0, 1, false);
        assert_eq!(chosen(&mut balancer, 50), [0, 50]);
        balancer.agent_said(0, 100, false);
        assert!(chosen(&mut balancer, 50)[0] >= 24);
    }

    #[test]
    fn nodes_that_fail_their_checks_or_drain_get_nothing() {
        for balance in [Balance::Roundrobin, Balance::Leastconn] {
            let mut balancer = Balancer::new(balance, 2);
            balancer.checked(0, false);
            balancer.checked(0, true);
            balancer.checked(0, false);
            balancer.checked(0, false);
            assert!(chosen(&mut balancer, 10)[0] > 0, "three in a row are needed");
            balancer.checked(0, false);
            assert_eq!(chosen(&mut balancer, 10), [0, 10]);
            balancer.agent_said(1, 100, true);
            assert_eq!(balancer.choose(None), None);
            balancer.checked(0, true);
            balancer.checked(0, true);
            assert_eq!(chosen(&mut balancer, 10), [10, 0]);
            assert_eq!(balancer.choose(Some(0)), None, "the only one has refused");
            balancer.agent_said(1, 100, false);
            assert_eq!(balancer.choose(Some(0)), Some(1));
        }
    }
}
