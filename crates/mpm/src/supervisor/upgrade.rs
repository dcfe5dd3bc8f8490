//! A new program takes over (`SIGUSR2`). It is started with this program's listening sockets, from the file that has
//! the program's name by then. When all its first children accept, it takes the pid file and sends the running server a
//! `SIGWINCH`; that one finishes its work and ends. If the new program fails before that, the running one stays.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::time::Duration;

use sys::notify::{Notifier, environment_of_successor};
use sys::process::{Pid, Reaped, Status};
use sys::signal::Signal;
use sys::spawn::{Directory, Spawn};
use sys::time::monotonic;

use super::Supervisor;
use crate::{Invocation, UPGRADE_MAX};

/// How long a program may take to follow an order to end.
const OBEY: Duration = Duration::from_secs(5);

/// A new program that will take over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heir {
    pub(super) pid: Pid,
    /// Birth on the monotonic clock.
    born: Duration,
}

impl Supervisor<'_> {
    /// `SIGUSR2`: starts the new program.
    pub(super) fn upgrade(&mut self) {
        if let Some(Heir { pid: heir, .. }) = self.heir {
            runtime::log!(self.module(), Notice, "SIGUSR2 received: the new program (pid {heir}) is already starting");
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
        match self.start_heir(&invocation) {
            Ok(heir) => {
                runtime::log!(self.module(), Notice, "SIGUSR2 received.  Starting the new program {file} (pid {heir})");
                self.heir = Some(Heir { pid: heir, born: monotonic() });
            }
            Err(error) => {
                let text = "the new program cannot be started, this one stays";
                runtime::log!(self.module(), Error, "{}: {file}: {text}", sys::describe(&error));
            }
        }
    }

    fn start_heir(&self, invocation: &Invocation) -> io::Result<Pid> {
        let Invocation { file, arguments, directory } = invocation;
        let (program, directory) = (terminated(file.as_os_str())?, terminated(directory.as_os_str())?);
        let argv = arguments.iter().map(|word| terminated(word)).collect::<io::Result<Vec<CString>>>()?;
        let sockets: Vec<_> = self.listeners.iter().map(AsFd::as_fd).collect();
        let env =
            environment_of_successor(sockets.len()).into_iter().map(variable).collect::<io::Result<Vec<CString>>>()?;
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        Spawn {
            program: &program,
            argv: &argv.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            env: &env.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            directory: Some(Directory::Named(&directory)),
            stdio: [input.as_fd(), output.as_fd(), error.as_fd()],
            more: &sockets,
            own_group: false,
            limits: &[],
            nicer: 0,
            end_with_us: None,
        }
        .start()
    }

    /// After the end of a process: whether it was the new program, which has then failed.
    pub(super) fn heir_ended(&mut self, reaped: &Reaped) -> bool {
        if self.heir.is_none_or(|heir| heir.pid != reaped.pid) {
            return false;
        }
        self.heir = None;
        let how = match reaped.status {
            Status::Exited(status) => format!("ended with status {status}"),
            Status::Signaled { signal, .. } => format!("was ended by a signal: {}", signal.description()),
        };
        let text = "before it served: this one stays; this log or `-t` says why";
        runtime::log!(self.module(), Error, "the new program (pid {}) {how} {text}", reaped.pid);
        true
    }

    /// The server ends, though not because the new program serves: the new one ends too.
    pub(super) fn disinherit(&mut self) {
        if let Some(heir) = self.heir.take() {
            let _ = heir.pid.kill(Signal::TERM);
        }
    }

    /// Ends a new program that does not come to serve. Called once a second.
    pub(super) fn watch_heir(&mut self) {
        let Some(Heir { pid, born }) = self.heir else { return };
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
        if let Some(Heir { pid: heir, .. }) = self.heir.take() {
            runtime::log!(self.module(), Notice, "the new program (pid {heir}) serves: finishing requests");
            // For the case that the new one has a file of another name.
            self.remove_pid_file();
            // The service manager listens to the main process only, which from now on is the new one.
            self.notifier.send(&format!("MAINPID={heir}"));
            self.notifier = Notifier::default();
        }
        self.drain(Signal::USR1)
    }

    /// As the new program: takes the place of the predecessor, once all children are there. `false`: it could not be
    /// found there.
    pub(super) fn take_over(&mut self) -> bool {
        let Some(predecessor) = self.about.predecessor else { return true };
        if self.owed > 0 || !self.family.staying(self.number).all(|member| self.board.is_running(member.slot)) {
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

fn terminated(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn variable((name, value): (OsString, OsString)) -> io::Result<CString> {
    Ok(CString::new([name.into_vec(), value.into_vec()].join(&b'='))?)
}
