//! The children that are alive.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::scoreboard::Quota;
use sys::process::Pid;
use sys::time::monotonic;

use crate::recycle::Limits;

/// A child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its process slot in the scoreboard.
    pub(super) slot: usize,
    pub(super) pid: Pid,
    pub(super) generation: u32,
    /// Which of the buckets of listening sockets it accepts from.
    pub(super) bucket: usize,
    /// On the monotonic clock.
    pub(super) born: Duration,
    pub(super) standing: Standing,
    pub(super) lifetime: Lifetime,
}

impl Member {
    /// Whether it was told to end.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.standing, Standing::Leaves | Standing::LeavesReplaced)
    }
}

/// What is expected of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It serves. When it ends it is replaced.
    Serves,
    /// It serves until its successor, the child in this slot, accepts.
    ServesUntil(usize),
    /// It was told to end after its successor had begun to accept.
    LeavesReplaced,
    /// It was told to end for another reason.
    Leaves,
}

/// How long a child may live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub(super) limits: Limits,
    /// Bytes of memory it had at first.
    pub(super) born_with: u64,
    /// Bytes it had more when they were last looked at.
    pub(super) growth: u64,
}

impl Lifetime {
    /// When the child is to ring; its memory it does not know.
    pub(super) fn quota(&self) -> Quota {
        Quota { connections: self.limits.connections.unwrap_or(0), requests: self.limits.requests.unwrap_or(0) }
    }
}

/// All of them, by slot.
#[derive(Debug, Default)]
pub(super) struct Family(BTreeMap<usize, Member>);

impl Family {
    /// A child that was started just now.
    pub(super) fn add(&mut self, slot: usize, pid: Pid, generation: u32, bucket: usize, lifetime: Lifetime) {
        let standing = Standing::Serves;
        self.0.insert(slot, Member { slot, pid, generation, bucket, born: monotonic(), standing, lifetime });
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

    /// Those of a generation that serve and have no successor.
    pub(super) fn staying(&self, generation: u32) -> impl Iterator<Item = &Member> {
        self.iter().filter(move |member| member.standing == Standing::Serves && member.generation == generation)
    }

    /// How many of them accept from a bucket.
    pub(super) fn of_bucket(&self, bucket: usize, generation: u32) -> usize {
        self.staying(generation).filter(|member| member.bucket == bucket).count()
    }

    /// How many of them there are.
    pub(super) fn current(&self, generation: u32) -> usize {
        self.staying(generation).count()
    }

    /// How many are being replaced: their successors have been started, and they are not gone yet.
    pub(super) fn replaced(&self) -> usize {
        let is_replaced =
            |member: &&Member| matches!(member.standing, Standing::ServesUntil(_) | Standing::LeavesReplaced);
        self.iter().filter(is_replaced).count()
    }

    /// Notes that the child in slot `old` is to leave once the one in slot `successor` accepts.
    pub(super) fn succeed(&mut self, old: usize, successor: usize) {
        if let Some(member) = self.0.get_mut(&old) {
            member.standing = Standing::ServesUntil(successor);
        }
    }

    /// Notes that all children whose successors accept are told to end; returns them.
    pub(super) fn succeeded(&mut self, accepts: impl Fn(usize) -> bool) -> Vec<Member> {
        let ready = self
            .0
            .values_mut()
            .filter(|member| matches!(member.standing, Standing::ServesUntil(successor) if accepts(successor)));
        ready.map(|member| leave(member, Standing::LeavesReplaced)).collect()
    }

    /// After the child in slot `gone` has ended: whether it was to succeed one that still serves, and now serves on.
    pub(super) fn lost_successor(&mut self, gone: usize) -> bool {
        let old = self.0.values_mut().find(|member| member.standing == Standing::ServesUntil(gone));
        old.is_some_and(|old| {
            old.standing = Standing::Serves;
            true
        })
    }

    /// Notes that a child is told to end.
    pub(super) fn leaves(&mut self, slot: usize) -> Option<Pid> {
        self.0.get_mut(&slot).map(|member| leave(member, Standing::Leaves).pid)
    }

    /// Notes that all children of generations before this one are told to end; returns those that had not been yet.
    pub(super) fn all_leave(&mut self, before: u32) -> Vec<(usize, Pid)> {
        let staying = self.0.values_mut().filter(|member| !member.is_leaving() && member.generation < before);
        staying.map(|member| leave(member, Standing::Leaves)).map(|member| (member.slot, member.pid)).collect()
    }

    /// The child that was told to end and is the oldest.
    pub(super) fn oldest_leaving(&self) -> Option<Pid> {
        self.iter().filter(|member| member.is_leaving()).min_by_key(|member| member.born).map(|member| member.pid)
    }
}

fn leave(member: &mut Member, how: Standing) -> Member {
    member.standing = how;
    *member
}
