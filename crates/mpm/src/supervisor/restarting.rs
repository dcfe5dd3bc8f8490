//! Restarts: a new generation replaces the old one, or nothing changes.

use conf::Notice;
use runtime::HelperProcess;
use sys::signal::Signal;
use sys::time::monotonic;

use super::backoff::Backoff;
use super::family::Member;
use super::state::Supervisor;
use crate::callbacks::Restart;
use crate::generation::Generation;
use crate::listen::Listeners;
use crate::plan::{Plan, When};
use crate::policy::Policy;

/// A generation that is ready to begin.
struct Next {
    generation: Generation,
    plan: Plan,
    notices: Vec<Notice>,
    listeners: Listeners,
    helpers: Vec<HelperProcess>,
}

impl Supervisor<'_> {
    pub(super) fn restart(&mut self, how: Restart) {
        let words = &self.generation.mpm.0.messages;
        let text = if how == Restart::Graceful { words.graceful } else { words.restart };
        runtime::log!(self.module(), Notice, "{text}");
        let now = monotonic().as_micros();
        self.notifier.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=Reading configuration"));
        match self.next_generation(how) {
            Ok(next) => {
                runtime::log_levels::clear();
                self.begin(how, next);
            }
            Err(reason) => {
                let lines = reason.lines().filter(|line| !line.trim().is_empty());
                lines.for_each(|line| runtime::log!("core", Error, "{line}"));
                let text = "the new configuration is not used: the server goes on with the old one";
                runtime::log!("core", Error, "{text}");
                self.board.conclude(false);
                self.notifier.send("READY=1\nSTATUS=Serving with the old configuration: the new one has errors");
            }
        }
    }

    /// Log files were renamed, and what is forked from now on writes to new ones: a generation with the same configuration
    /// takes the place of this one, as at a graceful restart.
    pub(super) fn follow_renamed_logs(&mut self) {
        runtime::log!("core", Notice, "log files were renamed or removed: new ones are open, for new children");
        match self.same_generation() {
            Ok(next) => self.begin(Restart::Graceful, next),
            Err(reason) => {
                let text = "the children cannot be replaced, and write to the old log files until the next restart";
                runtime::log!("core", Error, "{reason}: {text}");
            }
        }
    }

    fn same_generation(&mut self) -> Result<Next, String> {
        let generation = self.generation.clone();
        let listeners = self.listeners.follow(&generation.settings).map_err(|error| error.to_string())?;
        let helpers = generation.service.helpers(generation.identity.as_ref())?;
        Ok(Next { generation, plan: self.plan, notices: Vec::new(), listeners, helpers })
    }

    /// Prepares everything of a new generation that can fail. Nothing of the old one changes until this succeeds.
    fn next_generation(&mut self, how: Restart) -> Result<Next, String> {
        let next = self.callbacks.reload(how)?;
        self.generation.mpm.can_become(&next.mpm)?;
        let when = When::Restart(self.plan.limits);
        let (plan, _) = (next.mpm.0.plan)(&next.settings, when);
        let notices = next.mpm.check(&next.settings, when);
        let listeners = self.listeners.follow(&next.settings).map_err(|error| error.to_string())?;
        let helpers = next.service.helpers(next.identity.as_ref())?;
        let plan = plan.for_buckets(listeners.buckets());
        Ok(Next { generation: next, plan, notices, listeners, helpers })
    }

    fn begin(&mut self, how: Restart, next: Next) {
        let Next { generation: next, plan, notices, listeners, helpers } = next;
        let before = self.family.serving();
        if how == Restart::Hard {
            self.end_children();
        }
        runtime::log::set(next.log.clone());
        self.callbacks.begun();
        for Notice { module, level, text, .. } in notices {
            runtime::log::log(module, level, format_args!("{text}"));
        }
        // The limits stay those of the first start: the scoreboard was made for them.
        self.plan = Plan { limits: self.plan.limits, ..plan };
        self.generation = next;
        self.listeners = listeners;
        // The old configuration lay among the pages of the new one; the children that follow should not inherit the holes.
        sys::memory::give_back();
        self.number += 1;
        self.sizing.backoff = Backoff::new();
        self.begin_generation(how == Restart::Hard);
        self.helpers.add(helpers, self.number);
        self.start_helpers();
        let tells_near = self.generation.mpm.0.messages.tells_near();
        if how == Restart::Graceful {
            // As many as before, so that the clients of the old generation do not overrun the new one: those that turn
            // out to be too many leave one by one.
            self.sizing.owed = plan.start.max(before).min(plan.children);
            self.sizing.policy = Policy::after_graceful().telling_near(tells_near);
        } else {
            self.sizing.owed = plan.start;
            self.sizing.policy = Policy::new().telling_near(tells_near);
        }
        self.arriving = true;
        self.spawn_owed();
        self.move_pid_file();
        self.open_control(None);
        self.announce();
    }

    /// Lets the children of earlier generations leave where one of this generation accepts: if the system has no room for a
    /// new process, or the new ones cannot serve, the old ones go on. When all are told, the restart is complete.
    pub(super) fn retire_replaced(&mut self) {
        if !self.arriving {
            return;
        }
        let accepts = |bucket| self.family.any(|member| self.accepts_in(member, bucket));
        let replaced: Vec<bool> = (0..self.listeners.buckets()).map(accepts).collect();
        for (slot, pid) in self.family.leave_buckets(self.number, &replaced) {
            self.board.set_quiescing(slot);
            let _ = pid.kill(Signal::USR1);
        }
        if replaced.iter().all(|replaced| *replaced) {
            self.arriving = false;
            self.board.conclude(true);
            self.ready();
        }
    }

    fn accepts_in(&self, member: &Member, bucket: usize) -> bool {
        member.generation == self.number && member.bucket == bucket && self.board.is_running(member.slot)
    }
}
