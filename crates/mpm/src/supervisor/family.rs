//! The children that are alive.

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::scoreboard::Quota;
use sys::process::Pid;
use sys::time::monotonic;

use crate::recycle_policy::Limits;

/// A living child, and what the parent expects of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its process slot in the scoreboard.
    pub(super) slot: usize,
    pub(super) pid: Pid,
    pub(super) generation: u32,
    /// The bucket of listening sockets that it accepts from.
    pub(super) bucket: usize,
    /// Birth on the monotonic clock.
    pub(super) born: Duration,
    pub(super) state: ChildState,
    pub(super) lifetime: Lifetime,
}

impl Member {
    /// Whether it has an order to end.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state, ChildState::Leaves | ChildState::LeavesReplaced)
    }
}

/// A child's expected future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildState {
    /// Serves. When the child ends, it is replaced.
    Serves,
    /// Serves until its successor, the child in this slot, accepts.
    ServesUntil(usize),
    /// Got the order to end after its successor had begun to accept.
    LeavesReplaced,
    /// Got the order to end for another reason.
    Leaves,
}

/// The limits of a child's life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub(super) limits: Limits,
    /// Its memory at birth, in bytes.
    pub(super) born_with: u64,
    /// The growth of its memory at the last check, in bytes.
    pub(super) growth: u64,
}

impl Lifetime {
    /// The limits at which the child calls the parent; it does not watch its own memory.
    pub(super) fn quota(&self) -> Quota {
        Quota { connections: self.limits.connections.unwrap_or(0), requests: self.limits.requests.unwrap_or(0) }
    }
}

/// All children, by slot.
#[derive(Debug, Default)]
pub(super) struct Family(BTreeMap<usize, Member>);

impl Family {
    /// Adds a child that has just started.
    pub(super) fn add(&mut self, slot: usize, pid: Pid, generation: u32, bucket: usize, lifetime: Lifetime) {
        let state = ChildState::Serves;
        self.0.insert(slot, Member { slot, pid, generation, bucket, born: monotonic(), state, lifetime });
    }

    pub(super) fn remove(&mut self, pid: Pid) -> Option<Member> {
        let slot = self.iter().find(|member| member.pid == pid)?.slot;
        self.0.remove(&slot)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.0.values_mut()
    }

    pub(super) fn any(&self, test: impl Fn(&Member) -> bool) -> bool {
        self.iter().any(test)
    }

    pub(super) fn pid(&self, slot: usize) -> Option<Pid> {
        self.0.get(&slot).map(|member| member.pid)
    }

    /// The children of a generation that serve and have no successor.
    pub(super) fn staying(&self, generation: u32) -> impl Iterator<Item = &Member> {
        self.iter().filter(move |member| member.state == ChildState::Serves && member.generation == generation)
    }

    /// How many of them accept from a bucket.
    pub(super) fn of_bucket(&self, bucket: usize, generation: u32) -> usize {
        self.staying(generation).filter(|member| member.bucket == bucket).count()
    }

    /// How many of them there are.
    pub(super) fn current(&self, generation: u32) -> usize {
        self.staying(generation).count()
    }

    /// How many children of all generations serve and have no successor.
    pub(super) fn serving(&self) -> usize {
        self.iter().filter(|member| member.state == ChildState::Serves).count()
    }

    /// How many are being replaced: their successors have started, and they still run.
    pub(super) fn replaced(&self) -> usize {
        let is_replaced =
            |member: &&Member| matches!(member.state, ChildState::ServesUntil(_) | ChildState::LeavesReplaced);
        self.iter().filter(is_replaced).count()
    }

    /// Records that the child in slot `old` should leave once the one in slot `successor` accepts.
    pub(super) fn succeed(&mut self, old: usize, successor: usize) {
        if let Some(member) = self.0.get_mut(&old) {
            member.state = ChildState::ServesUntil(successor);
        }
    }

    /// Marks all children whose successors accept as ordered to end; returns them.
    pub(super) fn succeeded(&mut self, accepts: impl Fn(usize) -> bool) -> Vec<Member> {
        let ready = self
            .0
            .values_mut()
            .filter(|member| matches!(member.state, ChildState::ServesUntil(successor) if accepts(successor)));
        ready.map(|member| leave(member, ChildState::LeavesReplaced)).collect()
    }

    /// After the end of the child in slot `gone`: whether it was the successor of a child that still serves, and that
    /// now stays.
    pub(super) fn lost_successor(&mut self, gone: usize) -> bool {
        let old = self.0.values_mut().find(|member| member.state == ChildState::ServesUntil(gone));
        old.is_some_and(|old| {
            old.state = ChildState::Serves;
            true
        })
    }

    /// Marks a child as ordered to end.
    pub(super) fn leaves(&mut self, slot: usize) -> Option<Pid> {
        self.0.get_mut(&slot).map(|member| leave(member, ChildState::Leaves).pid)
    }

    /// Marks all children of generations before this one as ordered to end; returns those that were not yet.
    pub(super) fn all_leave(&mut self, before: u32) -> Vec<(usize, Pid)> {
        let staying = self.0.values_mut().filter(|member| !member.is_leaving() && member.generation < before);
        staying.map(|member| leave(member, ChildState::Leaves)).map(|member| (member.slot, member.pid)).collect()
    }

    /// Marks the children of these buckets in generations before this one as ordered to end; returns those that were not
    /// yet.
    pub(super) fn leave_buckets(&mut self, before: u32, buckets: &[bool]) -> Vec<(usize, Pid)> {
        let chosen = |member: &Member| {
            let replaced = buckets.get(member.bucket).copied().unwrap_or(true);
            !member.is_leaving() && member.generation < before && replaced
        };
        let leaving = self.0.values_mut().filter(|member| chosen(member));
        leaving.map(|member| leave(member, ChildState::Leaves)).map(|member| (member.slot, member.pid)).collect()
    }

    /// The oldest child with an order to end.
    pub(super) fn oldest_leaving(&self) -> Option<Pid> {
        self.iter().filter(|member| member.is_leaving()).min_by_key(|member| member.born).map(|member| member.pid)
    }
}

fn leave(member: &mut Member, how: ChildState) -> Member {
    member.state = how;
    *member
}
