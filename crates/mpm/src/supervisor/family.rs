//! The children that are alive.

use std::collections::BTreeMap;
use std::time::Duration;

use sys::process::Pid;
use sys::time::monotonic;

/// A child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its process slot in the scoreboard.
    pub(super) slot: usize,
    pub(super) pid: Pid,
    pub(super) generation: u32,
    /// On the monotonic clock.
    pub(super) born: Duration,
    /// Whether it was told to end, so that it needs no replacement.
    pub(super) leaving: bool,
}

/// All of them, by slot.
#[derive(Debug, Default)]
pub(super) struct Family(BTreeMap<usize, Member>);

impl Family {
    pub(super) fn add(&mut self, slot: usize, pid: Pid, generation: u32) {
        self.0.insert(slot, Member { slot, pid, generation, born: monotonic(), leaving: false });
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

    pub(super) fn any(&self, test: impl Fn(&Member) -> bool) -> bool {
        self.iter().any(test)
    }

    /// Those of a generation that were not told to end.
    pub(super) fn staying(&self, generation: u32) -> impl Iterator<Item = &Member> {
        self.iter().filter(move |member| !member.leaving && member.generation == generation)
    }

    /// How many of them there are.
    pub(super) fn current(&self, generation: u32) -> usize {
        self.staying(generation).count()
    }

    /// Notes that a child is told to end.
    pub(super) fn leaves(&mut self, slot: usize) -> Option<Pid> {
        let member = self.0.get_mut(&slot)?;
        member.leaving = true;
        Some(member.pid)
    }

    /// Notes that all children of generations before this one are told to end; returns those that had not been yet.
    pub(super) fn all_leave(&mut self, before: u32) -> Vec<(usize, Pid)> {
        let staying = self.0.values_mut().filter(|member| !member.leaving && member.generation < before);
        staying
            .map(|member| {
                member.leaving = true;
                (member.slot, member.pid)
            })
            .collect()
    }

    /// The child that was told to end and is the oldest.
    pub(super) fn oldest_leaving(&self) -> Option<Pid> {
        self.iter().filter(|member| member.leaving).min_by_key(|member| member.born).map(|member| member.pid)
    }
}
