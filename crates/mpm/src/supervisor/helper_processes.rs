//! Processes beside the children ([`HelperProcess`]): each generation has its own, for as long as it has children.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use seam::HelperProcess;
use sys::process::{Fork, Pid, Reaped, Status, die_with, exit_now, fork, set_title};
use sys::signal::{Signal, SignalFd, unblock};
use sys::time::monotonic;

use super::backoff::Backoff;
use super::{Supervisor, TICK};
use crate::child::{FATAL, Order};

/// Those of all generations.
#[derive(Debug, Default)]
pub(super) struct HelperProcesses(Vec<Group>);

/// The helpers of one kind, of one generation.
#[derive(Debug)]
struct Group {
    helper: Rc<HelperProcess>,
    generation: u32,
    alive: Vec<Alive>,
    backoff: Backoff,
    /// Its generation has no children any more.
    leaving: bool,
}

#[derive(Clone, Copy, Debug)]
struct Alive {
    pid: Pid,
    /// On the monotonic clock.
    born: Duration,
}

impl Group {
    fn lacks(&self) -> bool {
        !self.leaving && self.alive.len() < self.helper.count
    }
}

impl HelperProcesses {
    /// Takes the helpers of a new generation.
    pub(super) fn add(&mut self, helpers: Vec<HelperProcess>, generation: u32) {
        let group = |helper| Group {
            helper: Rc::new(helper),
            generation,
            alive: Vec::new(),
            backoff: Backoff::new(),
            leaving: false,
        };
        self.0.extend(helpers.into_iter().map(group));
    }

    pub(super) fn are_gone(&self) -> bool {
        self.0.iter().all(|group| group.alive.is_empty())
    }

    /// When one may be started again, on the monotonic clock, if one is missing.
    pub(super) fn next(&self) -> Option<Duration> {
        self.0.iter().filter(|group| group.lacks()).map(|group| group.backoff.until()).min()
    }

    /// Sends a signal to all, and starts no others.
    fn order(&mut self, signal: Signal) {
        for group in &mut self.0 {
            group.leaving = true;
            group.alive.iter().for_each(|alive| drop(alive.pid.kill(signal)));
        }
    }
}

impl Supervisor<'_> {
    /// Starts the helpers that are missing, and lets those leave whose children have gone.
    pub(super) fn accompany(&mut self) {
        for index in 0..self.helpers.0.len() {
            while self.helpers.0[index].lacks() && monotonic() >= self.helpers.0[index].backoff.until() {
                if !self.start_companion(index) {
                    break;
                }
            }
        }
        let (current, family) = (self.number, &self.family);
        for group in &mut self.helpers.0 {
            let number = group.generation;
            if !group.leaving && number != current && !family.any(|member| member.generation == number) {
                group.leaving = true;
                group.alive.iter().for_each(|alive| drop(alive.pid.kill(Signal::USR1)));
            }
        }
        self.helpers.0.retain(|group| !group.leaving || !group.alive.is_empty());
    }

    fn start_companion(&mut self, index: usize) -> bool {
        let helper = self.helpers.0[index].helper.clone();
        let now = monotonic();
        match fork() {
            Ok(Fork::Parent(pid)) => {
                let group = &mut self.helpers.0[index];
                group.backoff.started(now, TICK);
                group.alive.push(Alive { pid, born: now });
                true
            }
            // Nothing of the parent may run in it after this, not even while unwinding.
            Ok(Fork::Child) => {
                let life = || self.become_companion(&helper);
                exit_now(catch_unwind(AssertUnwindSafe(life)).unwrap_or(FATAL))
            }
            Err(error) => {
                seam::log!(self.module(), Error, "{}: cannot start a {} daemon", sys::describe(&error), helper.name);
                self.helpers.0[index].backoff.failed(now);
                false
            }
        }
    }

    /// Lives as a helper process. Returns the exit status. The order matters as it does for a child.
    fn become_companion(&mut self, helper: &HelperProcess) -> i32 {
        // Nobody can connect to it, and nobody to others through it.
        drop(self.leave_parent());
        let prepared = SignalFd::new(&Order::SIGNALS).and_then(|orders| {
            unblock(&[Signal::CHLD])?;
            set_title(&format!("{}: {} daemon", self.about.program, helper.name))?;
            if let Some(identity) = self.generation.identity.as_ref().filter(|_| !helper.privileged) {
                identity.assume()?;
            }
            Ok((orders, die_with(self.pid, Signal::TERM)?))
        });
        let ended = match prepared {
            Ok((orders, true)) => {
                seam::log::begun();
                (helper.life)(&orders)
            }
            Ok((_, false)) => Ok(()),
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => 0,
            Err(error) => {
                seam::log!(self.module(), Alert, "{}: a {} daemon cannot go on", sys::describe(&error), helper.name);
                1
            }
        }
    }

    /// Takes leave of a helper process; `false`: it was none.
    pub(super) fn companion_ended(&mut self, reaped: &Reaped) -> bool {
        let module = self.module();
        let find = |group: &Group| group.alive.iter().position(|alive| alive.pid == reaped.pid);
        let Some((group, at)) = self.helpers.0.iter_mut().find_map(|group| Some(find(group)?).map(|at| (group, at)))
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
            seam::log!(module, Error, "{name} daemon process died ({how}), restarting the {name} daemon (pid {pid})");
            group.backoff.died(born, monotonic());
        }
        true
    }

    /// Ends all helpers; the children they were for have gone.
    pub(super) fn end_companions(&mut self) {
        self.helpers.order(Signal::TERM);
        let end = monotonic() + TICK;
        while !self.helpers.are_gone() && monotonic() < end {
            self.wait(end.saturating_sub(monotonic()));
            self.reap();
        }
        self.helpers.order(Signal::KILL);
        self.helpers.0.clear();
    }
}
