//! How children begin and end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sys::process::{Fork, Pid, Status, exit_now, fork, reap};
use sys::signal::{Signal, unblock};
use sys::signal_fd::SignalFd;
use sys::time::monotonic;

use super::family::ChildState;
use super::state::{Supervisor, TICK};
use crate::birth::{Birth, failure_status};
use crate::child::{FATAL, Order, SICK};
use crate::listen::Listeners;
use crate::plan::Spare;
use crate::settings::MpmSettings;

impl Supervisor<'_> {
    /// Starts the children that are owed, within the room there is, unless a pause holds them back.
    pub(super) fn spawn_owed(&mut self) {
        while self.sizing.owed > 0 && self.room() > 0 && monotonic() >= self.sizing.backoff.until() {
            if self.spawn(self.neediest_bucket()).is_none() {
                return;
            }
            self.sizing.owed -= 1;
        }
    }

    /// How many more children there may be. As in Apache those that leave do not count among the children that serve,
    /// only among all processes (`ServerLimit`): slow clients of old children must not starve the new ones. A
    /// generation has at least one child, however long the old ones take, and a child that is replaced counts only as
    /// its successor.
    pub(super) fn room(&self) -> usize {
        let current = self.family.current(self.number);
        match self.plan.spare {
            Spare::FixedChildren => self.plan.children.saturating_sub(current),
            Spare::Between(..) if self.deserted() > 0 => self.deserted(),
            Spare::Between(..) => {
                let all = self.family.len() - self.family.replaced();
                let (serving, processes) = (self.plan.children, self.plan.limits.servers);
                serving.saturating_sub(current).min(processes.saturating_sub(all))
            }
        }
    }

    /// How many buckets have no child of this generation.
    fn deserted(&self) -> usize {
        (0..self.listeners.buckets()).filter(|bucket| self.family.of_bucket(*bucket, self.number) == 0).count()
    }

    /// How many workers are idle among the children that accept from a bucket.
    pub(super) fn idle_in(&self, bucket: usize) -> usize {
        let staying = self.family.staying(self.number).filter(|member| member.bucket == bucket);
        staying.map(|member| self.board.idle_workers(member.slot)).sum()
    }

    /// The bucket that needs a child most: one without any, then one with the fewest idle workers.
    fn neediest_bucket(&self) -> usize {
        let buckets = self.listeners.buckets();
        if buckets == 1 {
            return 0;
        }
        let children = |bucket: usize| self.family.of_bucket(bucket, self.number);
        (0..buckets).min_by_key(|bucket| (children(*bucket) > 0, self.idle_in(*bucket), children(*bucket))).unwrap_or(0)
    }

    /// Starts a child for a bucket; returns its slot. Logs a failure, and records how long to wait before the next
    /// attempt.
    pub(super) fn spawn(&mut self, bucket: usize) -> Option<usize> {
        let Some(slot) = self.board.free_slot() else {
            // Only finishing children can have taken so many slots. The oldest has had the longest time.
            if let Some(oldest) = self.family.oldest_leaving() {
                let text = "no slot is free for a new child: the oldest one that is finishing is ended";
                runtime::log!(self.module(), Warn, "{text} (pid {oldest})");
                let _ = oldest.kill(Signal::TERM);
            }
            self.sizing.backoff.hold(monotonic(), TICK);
            return None;
        };
        self.board.claim(slot, self.number, self.plan.workers);
        let lifetime = self.lifetime();
        self.board.set_quota(slot, lifetime.quota());
        match fork() {
            Ok(Fork::Parent(pid)) => {
                self.board.set_pid(slot, pid);
                self.sizing.backoff.started(monotonic(), TICK);
                self.family.add(slot, pid, self.number, bucket, lifetime);
                Some(slot)
            }
            // Nothing of the parent may run in the child after this, not even while unwinding.
            Ok(Fork::Child) => {
                exit_now(catch_unwind(AssertUnwindSafe(|| self.become_child(slot, bucket))).unwrap_or(FATAL))
            }
            Err(error) => {
                self.board.retire(slot, None);
                let text = self.generation.mpm.0.messages.cannot_fork;
                runtime::log!(self.module(), Error, "{}: {text}", sys::describe(&error));
                self.sizing.backoff.failed(monotonic());
                None
            }
        }
    }

    /// Runs as a child, with orders of its own instead of the parent's signals. Returns the exit status.
    pub(super) fn become_child(&mut self, slot: usize, bucket: usize) -> i32 {
        let listeners = self.leave_parent();
        match SignalFd::new(&Order::SIGNALS).and_then(|orders| unblock(&[Signal::CHLD]).map(|()| orders)) {
            Ok(orders) => self.signals = orders,
            Err(error) => return failure_status(self.module(), &error, "a child cannot read signals"),
        }
        self.birth(slot, listeners.only(bucket)).live()
    }

    /// Collects everything a child takes with it. It moves rather than copies: the listeners, so that they close for
    /// good when the child closes its own; and everything else, because memory that a child does not write to stays
    /// shared with its parent.
    fn birth(&mut self, slot: usize, listeners: Listeners) -> Birth {
        let settings = self.generation.settings.get::<MpmSettings>();
        let (core_dump_directory, max_mem_free) =
            (settings.core_dump_directory.get().cloned(), settings.max_mem_free.get().copied());
        Birth {
            mpm: self.generation.mpm.0,
            service: self.generation.service.clone(),
            plan: self.plan,
            listeners,
            board: self.board,
            slot,
            orders: self.signals.clone(),
            identity: self.generation.identity.take(),
            core_dump_directory,
            max_mem_free,
            parent: (!self.about.one_process).then(|| (self.pid, std::mem::take(&mut self.about.program))),
        }
    }

    /// Reaps all processes that have ended, and plans a replacement for each child that ended without an order and has
    /// none. `false`: the server cannot start, because its first children cannot.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            let reaped = match reap(None) {
                Ok(Some(reaped)) => reaped,
                Ok(None) => return true,
                Err(error) => {
                    runtime::log!(self.module(), Alert, "{}: waiting for children", sys::describe(&error));
                    return true;
                }
            };
            let Some(member) = self.family.remove(reaped.pid) else {
                if !self.new_program_ended(&reaped) && !self.helper_ended(&reaped) && !self.conversation_ended(&reaped)
                {
                    self.callbacks.ended(&reaped);
                }
                continue;
            };
            self.board.retire(member.slot, Some(&reaped));
            let leaving = member.is_leaving();
            let failed = self.report(reaped.pid, reaped.status, leaving);
            self.note_first_child();
            if reaped.status == Status::Exited(FATAL) && !leaving && !self.proven {
                let text = "returned a Fatal error...";
                let (pid, server) = (reaped.pid, &self.about.program);
                runtime::log!("core", Alert, "AH00050: Child {pid} {text} {server} is exiting!");
                return false;
            }
            if !leaving {
                // Children of this generation that replace earlier ones are owed already.
                let is_current = member.generation == self.number && member.state == ChildState::Serves;
                self.sizing.owed += usize::from(!self.family.lost_successor(member.slot) && is_current);
                if reaped.status == Status::Exited(SICK) {
                    self.sizing.backoff.shortage(monotonic(), TICK);
                } else if let Some(delay) = failed.then(|| self.sizing.backoff.died(member.born, monotonic())).flatten()
                {
                    let text = "children die as soon as they start; the next one starts in";
                    runtime::log!(self.module(), Error, "{text} {} s", delay.as_secs());
                }
            }
        }
    }

    /// Logs the end of a child if that is worth a line. Returns whether it was a failure.
    fn report(&self, pid: Pid, status: Status, leaving: bool) -> bool {
        match status {
            // The child has already logged the reason.
            Status::Exited(0 | SICK) => false,
            Status::Exited(status) => {
                runtime::log!("core", Warn, "child pid {pid} exit status {status}");
                true
            }
            Status::Signaled { signal: Signal::TERM | Signal::KILL, .. } if leaving => false,
            Status::Signaled { signal, core } => {
                let text = format!("{} ({})", signal.description(), signal.number());
                let directory = self.generation.settings.get::<MpmSettings>().core_dump_directory.get();
                match directory.filter(|_| core) {
                    Some(directory) => {
                        let dump = format!("possible coredump in {directory}");
                        runtime::log!("core", Notice, "AH00051: child pid {pid} exit signal {text}, {dump}");
                    }
                    None => runtime::log!("core", Notice, "AH00052: child pid {pid} exit signal {text}"),
                }
                true
            }
        }
    }
}
