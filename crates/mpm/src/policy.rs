//! How many children there should be: counts in, decision out (Apache manual, mpm_common and
//! prefork; the arithmetic was measured on 2.4.71). Pure.

use crate::plan::Spare;

/// The most children started in one round.
const RATE_MAX: usize = 32;
/// From this rate on, a round of spawning is worth a line in the log.
const RATE_BUSY: usize = 8;
/// Rounds after a graceful restart in which the rate does not double: the old generation is still leaving.
const HOLD_OFF: u32 = 10;

/// The counts that a decision is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Children that accept or are starting.
    pub children: usize,
    /// Their idle workers; all workers of a starting child count as idle.
    pub idle: usize,
    /// How many more children there may be.
    pub room: usize,
}

/// What the parent should do about the number of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start this many children.
    Spawn(usize),
    /// Let this many idle children leave.
    Retire(usize),
    /// Keep the children there are.
    Keep,
}

/// Something the log should say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// There is no room for more children and no worker is idle, for the first time.
    LimitReached,
    /// There is no room for more children and fewer workers are idle than should be, for the first time.
    LimitNear,
    /// Many children are started at once: this many, at the present rate.
    Busy(usize),
}

/// The state that one round leaves for the next.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    rate: usize,
    hold_off: u32,
    /// Whether to distinguish "too few idle" from "none idle" when there is no room.
    tells_near: bool,
    reached_reported: bool,
    near_reported: bool,
}

impl Policy {
    /// The state at the start of a server, and after a restart that ended all children.
    pub fn new() -> Policy {
        Policy { rate: 1, hold_off: 0, tells_near: false, reached_reported: false, near_reported: false }
    }

    /// The state after a graceful restart.
    pub fn after_graceful() -> Policy {
        Policy { hold_off: HOLD_OFF, ..Policy::new() }
    }

    /// Sets whether to distinguish "none idle" from "too few idle" when there is no room for more children.
    pub fn telling_near(self, tells_near: bool) -> Policy {
        Policy { tells_near, ..self }
    }

    /// Decides one round: once a second, and as soon as no worker is idle.
    pub fn decide(&mut self, spare: Spare, wanted: usize, counts: Counts) -> (Decision, Option<Remark>) {
        match spare {
            Spare::FixedChildren => (fixed(wanted, counts.children), None),
            Spare::Between(min, max) => self.between(min, max, counts),
        }
    }

    fn between(&mut self, min: usize, max: usize, counts: Counts) -> (Decision, Option<Remark>) {
        if counts.idle > max {
            self.rate = 1;
            return (Decision::Retire(1), None);
        }
        if counts.idle >= min {
            self.rate = 1;
            return (Decision::Keep, None);
        }
        if counts.room == 0 {
            self.rate = 1;
            let (reported, remark) = match counts.idle {
                1.. if self.tells_near => (&mut self.near_reported, Remark::LimitNear),
                _ => (&mut self.reached_reported, Remark::LimitReached),
            };
            let first = !std::mem::replace(reported, true);
            return (Decision::Keep, first.then_some(remark));
        }
        let remark = (self.rate >= RATE_BUSY).then_some(Remark::Busy(self.rate));
        let spawn = self.rate.min(counts.room);
        if self.hold_off > 0 {
            self.hold_off -= 1;
        } else {
            self.rate = (self.rate * 2).min(RATE_MAX);
        }
        (Decision::Spawn(spawn), remark)
    }
}

fn fixed(wanted: usize, children: usize) -> Decision {
    match children {
        few if few < wanted => Decision::Spawn(wanted - few),
        many if many > wanted => Decision::Retire(many - wanted),
        _ => Decision::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds in which every child is idle; returns the number of children after each.
    fn rounds(
        policy: &mut Policy,
        spare: Spare,
        limit: usize,
        per_child: usize,
        start: usize,
        rounds: usize,
    ) -> Vec<usize> {
        let mut children = start;
        let mut seen = vec![children];
        for _ in 0..rounds {
            let counts = Counts { children, idle: children * per_child, room: limit - children };
            match policy.decide(spare, limit, counts).0 {
                Decision::Spawn(more) => children += more,
                Decision::Retire(less) => children -= less,
                Decision::Keep => {}
            }
            seen.push(children);
        }
        seen
    }

    #[test]
    fn the_sequences_of_capture_14() {
        let prefork = |start, min, max| rounds(&mut Policy::new(), Spare::Between(min, max), 60, 1, start, 10);
        // The capture's first reading comes before the first round.
        assert_eq!(prefork(1, 40, 60), [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]);
        assert_eq!(prefork(20, 2, 4), [20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10]);
        assert_eq!(prefork(1, 10, 11), [1, 2, 4, 8, 16, 15, 14, 13, 12, 11, 11]);
        let threads = |start, min, max| rounds(&mut Policy::new(), Spare::Between(min, max), 30, 2, start, 7);
        assert_eq!(threads(1, 40, 60), [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(threads(8, 2, 5), [8, 7, 6, 5, 4, 3, 2, 2]);
    }

    #[test]
    fn as_many_idle_as_wanted_are_left_alone() {
        for (idle, want) in
            [(1, Decision::Spawn(1)), (2, Decision::Keep), (4, Decision::Keep), (5, Decision::Retire(1))]
        {
            let counts = Counts { children: 9, idle, room: 9 };
            assert_eq!(Policy::new().decide(Spare::Between(2, 4), 9, counts).0, want, "{idle}");
        }
    }

    #[test]
    fn a_graceful_restart_holds_the_doubling_off() {
        let seen = rounds(&mut Policy::after_graceful(), Spare::Between(100, 200), 100, 1, 1, 14);
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 18, 26]);
    }

    #[test]
    fn remarks() {
        let mut policy = Policy::new().telling_near(true);
        let spare = Spare::Between(40, 60);
        let mut remarks = Vec::new();
        for children in [1, 2, 4, 8, 16, 32] {
            let counts = Counts { children, idle: children, room: 100 };
            remarks.push(policy.decide(spare, 100, counts).1);
        }
        assert_eq!(remarks, [None, None, None, Some(Remark::Busy(8)), Some(Remark::Busy(16)), Some(Remark::Busy(32))]);
        let full = Counts { children: 100, idle: 0, room: 0 };
        assert_eq!(policy.decide(spare, 100, full), (Decision::Keep, Some(Remark::LimitReached)));
        assert_eq!(policy.decide(spare, 100, full), (Decision::Keep, None), "said once");
        let near = Counts { idle: 1, ..full };
        assert_eq!(policy.decide(spare, 100, near), (Decision::Keep, Some(Remark::LimitNear)));
        assert_eq!(policy.decide(spare, 100, near), (Decision::Keep, None), "said once");
        let mut policy = Policy::new();
        assert_eq!(policy.decide(spare, 100, near), (Decision::Keep, Some(Remark::LimitReached)), "no difference");
        assert_eq!(policy.decide(spare, 100, full), (Decision::Keep, None), "said once");
        let spawn = policy.decide(spare, 100, Counts { children: 1, idle: 0, room: 1 });
        assert_eq!(spawn, (Decision::Spawn(1), None), "the rate starts again from 1");
    }

    #[test]
    fn a_fixed_number_is_kept() {
        let decide = |children| Policy::new().decide(Spare::FixedChildren, 4, Counts { children, idle: 0, room: 9 }).0;
        assert_eq!([decide(1), decide(4), decide(6)], [Decision::Spawn(3), Decision::Keep, Decision::Retire(2)]);
    }
}
