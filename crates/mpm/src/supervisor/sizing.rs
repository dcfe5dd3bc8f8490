//! The number of children: carries out the policy's decisions.

use sys::signal::Signal;
use sys::time::monotonic;

use super::state::Supervisor;
use crate::plan::Spare;
use crate::policy::{Counts, Decision, Remark};

impl Supervisor<'_> {
    /// Runs between two ticks, as soon as a child reports that no worker is idle: the next client would have to wait. A
    /// starting child counts as idle, so the next round comes only when it is taken too.
    pub(super) fn spawn_if_none_idle(&mut self) {
        let may = matches!(self.plan.spare, Spare::Between(..))
            && self.sizing.owed == 0
            && monotonic() >= self.sizing.backoff.until();
        if may && self.room() > 0 {
            let counts = self.counts();
            if counts.idle == 0 {
                self.adjust_children(counts);
            }
        }
        self.board.set_growing(may && self.room() > 0);
    }

    pub(super) fn adjust_children(&mut self, counts: Counts) {
        let (decision, remark) = self.sizing.policy.decide(self.plan.spare, self.plan.children, counts);
        self.log(remark, decision, counts);
        match decision {
            Decision::Spawn(more) => {
                self.sizing.owed += more;
                self.spawn_owed();
            }
            _ if self.buckets_without_idle() > 0 && self.room() > 0 => {
                // Workers that are idle elsewhere do not help the clients that wait there.
                self.sizing.owed += self.buckets_without_idle().min(self.room());
                self.spawn_owed();
            }
            Decision::Retire(less) => self.retire(less),
            Decision::Keep => {}
        }
    }

    /// How many of several buckets have no idle worker.
    fn buckets_without_idle(&self) -> usize {
        let buckets = self.listeners.buckets();
        if buckets == 1 { 0 } else { (0..buckets).filter(|bucket| self.idle_in(*bucket) == 0).count() }
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts { children: 0, idle: 0, room: self.room() };
        for member in self.family.staying(self.number) {
            counts.children += 1;
            counts.idle += self.board.idle_workers(member.slot);
        }
        counts
    }

    fn log(&mut self, remark: Option<Remark>, decision: Decision, counts: Counts) {
        let Some(words) = &self.generation.mpm.0.messages.sizing else { return };
        match (remark, decision) {
            (Some(Remark::LimitReached), _) => {
                runtime::log!(self.module(), Error, "{}", words.limit_reached);
                self.callbacks.limit_reached();
            }
            (Some(Remark::LimitNear), _) => {
                runtime::log!(self.module(), Error, "{}", words.limit_near.unwrap_or(words.limit_reached));
            }
            (Some(Remark::Busy(rate)), Decision::Spawn(spawned)) => {
                runtime::log!(self.module(), Info, "{}", (words.busy)(rate, spawned, counts));
            }
            _ => {}
        }
    }

    /// Lets idle children leave, those in the highest slots first, but never the last one of a bucket.
    fn retire(&mut self, less: usize) {
        let idle: Vec<(usize, usize)> = self
            .family
            .staying(self.number)
            .filter(|member| self.board.idle_workers(member.slot) >= self.plan.workers)
            .map(|member| (member.slot, member.bucket))
            .collect();
        let mut left = less;
        for (slot, bucket) in idle.into_iter().rev() {
            if left > 0
                && self.family.of_bucket(bucket, self.number) > 1
                && let Some(pid) = self.family.leaves(slot)
            {
                left -= 1;
                self.board.set_quiescing(slot);
                let _ = pid.kill(Signal::USR1);
            }
        }
    }
}
