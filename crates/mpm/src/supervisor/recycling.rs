//! Replaces children that have done enough: carries out the decisions of [`recycle_policy`].

use sys::process::{Pid, anonymous_memory};
use sys::signal::Signal;
use sys::time::monotonic;

use super::family::{Lifetime, Member};
use super::state::Supervisor;
use crate::recycle_policy::{self, Each, Reason};

impl Supervisor<'_> {
    /// Draws the limits of the next child.
    pub(super) fn lifetime(&self) -> Lifetime {
        let limits = recycle_policy::draw(self.plan.recycling, sys::random::number);
        // A forked child begins with the memory of its parent.
        let born_with = limits.memory.and_then(|_| anonymous_memory(Pid::own()).ok());
        Lifetime { limits, born_with: born_with.unwrap_or(0), growth: 0 }
    }

    /// Measures how much the memory of the children has grown, if that is limited. Called once a second.
    pub(super) fn measure_memory(&mut self) {
        if self.plan.recycling.memory.is_some() {
            for member in self.family.iter_mut() {
                // A child that is gone is reaped in a moment.
                if let Ok(now) = anonymous_memory(member.pid) {
                    member.lifetime.growth = now.saturating_sub(member.lifetime.born_with);
                }
            }
        }
    }

    /// Orders the children whose successors accept to leave, and starts successors for those that have reached a limit,
    /// the oldest first, within the number of turns.
    pub(super) fn recycle(&mut self) {
        if !recycle_policy::is_configured(self.plan.recycling) {
            return;
        }
        for old in self.family.succeeded(|successor| self.board.is_running(successor)) {
            self.board.set_quiescing(old.slot);
            let _ = old.pid.kill(Signal::USR1);
        }
        let turns = recycle_policy::turns(self.family.current(self.number), self.family.replaced());
        if turns == 0 {
            return;
        }
        let staying = self.family.staying(self.number);
        let mut due: Vec<(Member, Reason)> =
            staying.filter_map(|member| Some((*member, self.reason(member)?))).collect();
        due.sort_by_key(|(member, _)| member.born);
        for (old, reason) in due.into_iter().take(turns) {
            if monotonic() < self.sizing.backoff.until() {
                return;
            }
            let Some(successor) = self.spawn(old.bucket) else { return };
            self.family.succeed(old.slot, successor);
            let next = self.family.pid(successor);
            let next = next.map_or_else(String::new, |next| format!("child {next} takes its place"));
            runtime::log!(self.module(), Info, "child {} {reason}: {next}", old.pid);
        }
    }

    fn reason(&self, member: &Member) -> Option<Reason> {
        let spent = Each {
            connections: self.board.accepted(member.slot),
            requests: self.board.answered(member.slot),
            memory: member.lifetime.growth,
        };
        recycle_policy::reached(member.lifetime.limits, spent)
    }
}
