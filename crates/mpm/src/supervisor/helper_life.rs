//! How helper processes ([`HelperProcess`]) begin and end. Each generation has its own, for as long as it has children.

use std::io::{self, PipeReader};
use std::panic::{AssertUnwindSafe, catch_unwind};

use runtime::HelperProcess;
use sys::process::{Fork, Reaped, Status, die_with, exit_now, expose_to_shortage, fork, set_title, signal_of_end};
use sys::signal::{Signal, unblock};
use sys::signal_fd::SignalFd;
use sys::time::monotonic;

use super::helper_processes::{Alive, ENDING_MAX, Group};
use super::state::{Supervisor, TICK};
use crate::child::{BEFORE_CHILDREN, BEFORE_PARENT, FATAL, Order};

impl Supervisor<'_> {
    /// Starts missing helpers, and lets the helpers of departed children leave.
    pub(super) fn start_helpers(&mut self) {
        for index in 0..self.helpers.groups.len() {
            while self.helpers.groups[index].lacks() && monotonic() >= self.helpers.groups[index].backoff.until() {
                if !self.start_helper(index) {
                    break;
                }
            }
        }
        let (current, family) = (self.number, &self.family);
        for group in &mut self.helpers.groups {
            let number = group.generation;
            if !group.leaving && number != current && !family.any(|member| member.generation == number) {
                group.leaving = true;
                group.alive.iter().for_each(|alive| drop(alive.pid.kill(Signal::USR1)));
            }
        }
        self.helpers.groups.retain(|group| !group.leaving || !group.alive.is_empty());
    }

    fn start_helper(&mut self, index: usize) -> bool {
        let helper = self.helpers.groups[index].helper.clone();
        let now = monotonic();
        let tie = self.helpers.ties.is_some().then(io::pipe).transpose();
        match tie.and_then(|tie| Ok((fork()?, tie))) {
            Ok((Fork::Parent(pid), tie)) => {
                if let (Some(ties), Some((_, writer))) = (&mut self.helpers.ties, tie) {
                    ties.push(writer);
                }
                let group = &mut self.helpers.groups[index];
                group.backoff.started(now, TICK);
                group.alive.push(Alive { pid, born: now });
                true
            }
            // Nothing of the parent may run in it after this, not even while unwinding.
            Ok((Fork::Child, tie)) => {
                let life = || self.become_helper(&helper, tie.map(|(reader, _)| reader));
                exit_now(catch_unwind(AssertUnwindSafe(life)).unwrap_or(FATAL))
            }
            Err(error) => {
                runtime::log!(self.module(), Error, "{}: cannot start a {} daemon", sys::describe(&error), helper.name);
                self.helpers.groups[index].backoff.failed(now);
                false
            }
        }
    }

    /// Runs as a helper process. Returns the exit status. The order of steps matters as it does for a child.
    fn become_helper(&mut self, helper: &HelperProcess, tie: Option<PipeReader>) -> i32 {
        // So nobody can connect to the helper, or through it to others.
        drop(self.leave_parent());
        let prepared = SignalFd::new(&Order::SIGNALS).and_then(|orders| {
            unblock(&[Signal::CHLD])?;
            // Its scripts inherit this; as another user it could not do it any more.
            let more = if helper.starts_scripts { BEFORE_CHILDREN } else { 0 };
            let _ = expose_to_shortage(BEFORE_PARENT + more);
            set_title(&format!("{}: {} daemon", self.about.program, helper.name))?;
            if let Some(identity) = self.generation.identity.as_ref().filter(|_| !helper.privileged) {
                identity.assume()?;
            }
            let is_wanted = die_with(self.pid, Signal::TERM)?;
            if let Some(tie) = &tie {
                signal_of_end(tie, Signal::TERM)?;
            }
            Ok((orders, is_wanted))
        });
        let ended = match prepared {
            Ok((orders, true)) => {
                runtime::log::begun();
                (helper.life)(&orders)
            }
            Ok((_, false)) => Ok(()),
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => 0,
            Err(error) => {
                runtime::log!(self.module(), Alert, "{}: a {} daemon cannot go on", sys::describe(&error), helper.name);
                1
            }
        }
    }

    /// Handles the end of a helper process; `false`: the process was none.
    pub(super) fn helper_ended(&mut self, reaped: &Reaped) -> bool {
        let module = self.module();
        let find = |group: &Group| group.alive.iter().position(|alive| alive.pid == reaped.pid);
        let Some((group, at)) =
            self.helpers.groups.iter_mut().find_map(|group| Some(find(group)?).map(|at| (group, at)))
        else {
            return false;
        };
        let Alive { pid, born } = group.alive.remove(at);
        if !group.leaving {
            let how = match reaped.status {
                Status::Exited(status) => format!("exit status {status}"),
                Status::Signaled { signal, .. } => format!("signal {} ({})", signal.description(), signal.number()),
            };
            let name = group.helper.name;
            runtime::log!(
                module,
                Error,
                "{name} daemon process died ({how}), restarting the {name} daemon (pid {pid})"
            );
            group.backoff.died(born, monotonic());
        }
        true
    }

    /// Ends all helpers; their children have gone.
    pub(super) fn end_helpers(&mut self) {
        self.helpers.order(Signal::TERM);
        let end = monotonic() + ENDING_MAX;
        while !self.helpers.have_ended() && monotonic() < end {
            self.wait(end.saturating_sub(monotonic()));
            self.reap();
        }
        self.helpers.order(Signal::KILL);
        self.helpers.groups.clear();
    }
}
