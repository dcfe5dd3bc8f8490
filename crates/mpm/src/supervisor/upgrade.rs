//! A new program takes over (`SIGUSR2`). It is started with this program's listening sockets, from the file that has
//! the program's name by then. When all its first children accept, it takes the pid file and sends the running server a
//! `SIGWINCH`; that one finishes its work and ends. If the new program fails before that, the running one stays.

use std::process::ExitCode;
use std::time::Duration;

use runtime::scoreboard::Duty;
use sys::notify::Notifier;
use sys::process::{Pid, Reaped, Status};
use sys::signal::Signal;
use sys::time::monotonic;

use super::new_program::NewProgram;
use super::state::Supervisor;
use crate::about::UPGRADE_MAX;

/// How long a program may take to follow an order to end.
const OBEY: Duration = Duration::from_secs(5);

impl Supervisor<'_> {
    /// `SIGUSR2`: starts the new program.
    pub(super) fn upgrade(&mut self) {
        if let Some(NewProgram { pid: new_program, .. }) = self.new_program {
            runtime::log!(
                self.module(),
                Notice,
                "SIGUSR2 received: the new program (pid {new_program}) is already starting"
            );
            return;
        }
        let Some(invocation) = self.about.invocation.clone() else {
            runtime::log!(
                self.module(),
                Error,
                "SIGUSR2 received: a server that was started like this cannot be upgraded"
            );
            return;
        };
        let file = invocation.file.display();
        match NewProgram::start(&invocation, &self.listeners, self.board.duty()) {
            Ok(new_program) => {
                runtime::log!(
                    self.module(),
                    Notice,
                    "SIGUSR2 received.  Starting the new program {file} (pid {})",
                    new_program.pid
                );
                self.new_program = Some(new_program);
            }
            Err(error) => {
                let text = "the new program cannot be started, this one stays";
                runtime::log!(self.module(), Error, "{}: {file}: {text}", sys::describe(&error));
            }
        }
    }

    /// After the end of a process: whether it was the new program, which has then failed.
    pub(super) fn new_program_ended(&mut self, reaped: &Reaped) -> bool {
        if self.new_program.is_none_or(|new_program| new_program.pid != reaped.pid) {
            return false;
        }
        self.new_program = None;
        let how = match reaped.status {
            Status::Exited(status) => format!("ended with status {status}"),
            Status::Signaled { signal, .. } => format!("was ended by a signal: {}", signal.description()),
        };
        let text = "before it served: this one stays; this log or `-t` says why";
        runtime::log!(self.module(), Error, "the new program (pid {}) {how} {text}", reaped.pid);
        true
    }

    /// The server ends, though not because the new program serves: the new one ends too.
    pub(super) fn end_new_program(&mut self) {
        if let Some(new_program) = self.new_program.take() {
            let _ = new_program.pid.kill(Signal::TERM);
        }
    }

    /// Ends a new program that does not come to serve. Called once a second.
    pub(super) fn end_slow_new_program(&mut self) {
        let Some(NewProgram { pid, born }) = self.new_program else { return };
        let age = monotonic().saturating_sub(born);
        if age >= UPGRADE_MAX {
            let (seconds, late) = (age.as_secs(), age >= UPGRADE_MAX + OBEY);
            runtime::log!(
                self.module(),
                Error,
                "the new program (pid {pid}) does not serve after {seconds} s: it is ended"
            );
            let _ = pid.kill(if late { Signal::KILL } else { Signal::TERM });
        }
    }

    /// The new program serves: finishes this one's work.
    pub(super) fn hand_over(&mut self) -> ExitCode {
        self.board.set_duty(Duty::Replaced);
        if let Some(NewProgram { pid: new_program, .. }) = self.new_program.take() {
            runtime::log!(self.module(), Notice, "the new program (pid {new_program}) serves: finishing requests");
            // For the case that the new one has a file of another name.
            self.remove_pid_file();
            // The service manager listens to the main process only, which from now on is the new one.
            self.notifier.send(&format!("MAINPID={new_program}"));
            self.notifier = Notifier::default();
        }
        self.drain(Signal::USR1)
    }

    /// As the new program: takes the place of the predecessor, once all children are there. `false`: it could not be
    /// found there.
    pub(super) fn take_over(&mut self) -> bool {
        let Some(predecessor) = self.about.predecessor else { return true };
        if self.sizing.owed > 0 || !self.family.staying(self.number).all(|member| self.board.is_running(member.slot)) {
            return true;
        }
        if let Some(path) = self.pid_file.clone()
            && !self.write_pid_file(&path)
        {
            return false;
        }
        self.about.predecessor = None;
        self.open_control(Some(predecessor));
        // Without a predecessor there is nobody to tell, and its number may have been reused.
        if Pid::parent() == Some(predecessor) {
            let _ = predecessor.kill(Signal::WINCH);
        }
        runtime::log!(self.module(), Notice, "took over from the program with pid {predecessor}");
        true
    }
}
