//! The end of children and of the server, and the pid file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use runtime::scoreboard::Duty;
use sys::signal::Signal;
use sys::time::monotonic;

use super::state::{Pending, Supervisor, TICK};
use crate::listen::Listeners;
use crate::pidfile;
use crate::settings::MpmSettings;

/// The signals for children that should end at once, with their times in seconds; at the last one we go on without
/// them.
const ESCALATION: [(u64, Option<Signal>); 6] = [
    (0, Some(Signal::TERM)),
    (3, Some(Signal::TERM)),
    (5, Some(Signal::TERM)),
    (7, Some(Signal::TERM)),
    (9, Some(Signal::KILL)),
    (10, None),
];

/// How often a graceful stop looks for children that have nothing left to finish.
const IDLE_LOOK: Duration = Duration::from_millis(250);

impl Supervisor<'_> {
    /// Ends all children, by force if they take too long.
    pub(super) fn end_children(&mut self) {
        self.family.all_leave(u32::MAX);
        let began = monotonic();
        for (seconds, signal) in ESCALATION {
            let due = began + Duration::from_secs(seconds);
            while !self.family.is_empty() && monotonic() < due {
                self.wait(due.saturating_sub(monotonic()));
                self.reap();
            }
            for member in self.family.iter() {
                let pid = member.pid;
                match signal {
                    Some(signal) => {
                        if signal == Signal::KILL {
                            runtime::log!(
                                "core",
                                Error,
                                "AH00046: child process {pid} still did not exit, sending a SIGKILL"
                            );
                        } else if seconds > 0 {
                            runtime::log!(
                                "core",
                                Warn,
                                "AH00045: child process {pid} still did not exit, sending a SIGTERM"
                            );
                        }
                        let _ = pid.kill(signal);
                    }
                    None => {
                        let text = "attempting to continue anyway";
                        runtime::log!("core", Error, "AH00047: could not make child process {pid} exit, {text}");
                    }
                }
            }
        }
    }

    /// Ends the children, and then the server (`SIGTERM`).
    pub(super) fn stop(&mut self) -> ExitCode {
        self.notifier.send("STOPPING=1\nSTATUS=Stopping");
        self.end_new_program();
        // From here on no client of the control socket is answered.
        self.close_control();
        self.listeners = Listeners::default();
        self.end_children();
        self.end_helpers();
        self.remove_pid_file();
        runtime::log!(self.module(), Notice, "{}", self.generation.mpm.0.messages.terminated);
        ExitCode::SUCCESS
    }

    /// `SIGWINCH`: no new connections. Open requests have `GracefulShutdownTimeout`, or until `SIGTERM`.
    pub(super) fn stop_gracefully(&mut self) -> ExitCode {
        self.notifier.send("STOPPING=1\nSTATUS=Finishing requests");
        self.end_new_program();
        self.serve_until_balancers_know();
        self.remove_pid_file();
        runtime::log!(self.module(), Notice, "{}", self.generation.mpm.0.messages.graceful_stop);
        self.drain(Signal::WINCH)
    }

    /// Accepts connections for `GracefulShutdownDelay` longer, while load balancers hear that no new clients are wanted. Another
    /// order to stop ends that.
    fn serve_until_balancers_know(&mut self) {
        let delay = self.generation.settings.get::<MpmSettings>().graceful_shutdown_delay();
        if delay.is_zero() {
            return;
        }
        self.board.set_duty(Duty::Drain);
        let end = monotonic() + delay;
        while self.pending < Pending::GracefulStop && monotonic() < end {
            self.wait_with_control(end.saturating_sub(monotonic()).min(TICK));
            self.reap();
            self.serve_control_socket();
            self.start_helpers();
            self.spawn_owed();
            self.notifier.alive();
            self.callbacks.tick();
        }
    }

    /// Ends when all children have finished; `order` is the signal that tells them to.
    pub(super) fn drain(&mut self, order: Signal) -> ExitCode {
        self.listeners = Listeners::default();
        for (slot, pid) in self.family.all_leave(u32::MAX) {
            self.board.set_quiescing(slot);
            let _ = pid.kill(order);
        }
        let seconds = self.generation.settings.get::<MpmSettings>().graceful_shutdown_timeout();
        let limit = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let end = limit.map(|seconds| monotonic() + Duration::from_secs(seconds));
        let (mut idle, mut look) = (Vec::new(), monotonic() + IDLE_LOOK);
        while !self.family.is_empty() {
            let left = end.map_or(IDLE_LOOK, |end| end.saturating_sub(monotonic()).min(IDLE_LOOK));
            self.wait(left);
            self.reap();
            if order == Signal::WINCH && monotonic() >= look {
                idle = self.end_idle(&idle);
                look = monotonic() + IDLE_LOOK;
            }
            self.start_helpers();
            self.notifier.alive();
            self.callbacks.tick();
            if self.pending == Pending::Stop || end.is_some_and(|end| monotonic() >= end) {
                self.end_children();
            }
        }
        self.end_helpers();
        ExitCode::SUCCESS
    }

    /// Ends the children whose clients have sent nothing, neither now nor at the look before. Others cannot serve those
    /// clients until this server has ended. Returns the slots of those that are idle now.
    fn end_idle(&self, before: &[usize]) -> Vec<usize> {
        let idle = || self.family.iter().filter(|member| self.board.is_idle(member.slot));
        for member in idle().filter(|member| before.contains(&member.slot)) {
            let _ = member.pid.kill(Signal::TERM);
        }
        idle().map(|member| member.slot).collect()
    }

    /// Writes the pid file. `false`: it cannot be written.
    pub(super) fn write_pid_file(&self, path: &Path) -> bool {
        let name = path.display();
        match pidfile::write(path) {
            Ok(None) => {}
            Ok(before) if before == self.about.predecessor => {}
            Ok(_) => {
                let text = "overwritten -- Unclean shutdown of previous Apache run?";
                runtime::log!("core", Warn, "AH00098: pid file {name} {text}");
            }
            Err(error) => {
                let program = &self.about.program;
                runtime::log!("core", Error, "{}: AH00099: could not create {name}", sys::describe(&error));
                runtime::log!("core", Error, "AH00100: {program}: could not log pid to file {name}");
                return false;
            }
        }
        true
    }

    /// After a restart, which may have configured another name.
    pub(super) fn move_pid_file(&mut self) {
        let next = self.generation.settings.get::<MpmSettings>().pid_file.get().map(PathBuf::from);
        if next == self.pid_file || next.as_ref().is_some_and(|path| !self.write_pid_file(path)) {
            return;
        }
        self.remove_pid_file();
        self.pid_file = next;
    }

    pub(super) fn remove_pid_file(&mut self) {
        self.close_control();
        if let Some(path) = &self.pid_file
            && pidfile::remove(path)
        {
            runtime::log!("core", Info, "AH00096: removed PID file {} (pid={})", path.display(), self.pid);
        }
    }
}
