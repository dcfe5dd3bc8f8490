//! Conversations over the control socket: a process for each.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sys::process::{Fork, Pid, Reaped, die_after, die_with, exit_now, expose_to_shortage, fork, set_title};
use sys::signal::{Signal, unblock};
use sys::time::monotonic;

use super::control_socket::Socket;
use super::state::{SIGNALS, Supervisor};
use crate::child::BEFORE_PARENT;
use crate::control::{self, Conversation};
use crate::plan::Fixed;

/// How long a conversation may take; after this long the client has forgotten about it.
const TALKING_LONGEST: Duration = Duration::from_secs(60);

impl Supervisor<'_> {
    /// Listens on the configured socket from now on. The server also runs without a control socket, and keeps the old
    /// one if it cannot open the new one.
    pub(super) fn open_control(&mut self, predecessor: Option<Pid>) {
        let Some(path) = control::path(&self.generation.settings) else { return self.close_control() };
        let old = self.control_socket.socket.as_ref();
        if old.is_some_and(|old| old.path == path && old.is_there()) {
            return;
        }
        match Socket::open(path.clone(), predecessor) {
            Ok(socket) => {
                if let Some(old) = self.control_socket.socket.replace(socket) {
                    old.close();
                }
            }
            Err(error) => {
                let (error, path) = (sys::describe(&error), path.display());
                let text = match old {
                    Some(old) if old.is_there() => format!("the control socket stays {}", old.path.display()),
                    _ => "no control socket: `tsubame ctl` cannot ask this server".into(),
                };
                runtime::log!("core", Warn, "{error}: {path}: {text} (see ControlSocket)");
            }
        }
    }

    pub(super) fn close_control(&mut self) {
        if let Some(socket) = self.control_socket.socket.take() {
            socket.close();
        }
    }

    /// Accepts waiting conversations, and ends those that take too long.
    pub(super) fn serve_control_socket(&mut self) {
        let now = monotonic();
        for (pid, began) in &self.control_socket.talking {
            if now.saturating_sub(*began) > TALKING_LONGEST {
                let _ = pid.kill(Signal::KILL);
            }
        }
        while let Some(listener) = self.control_socket.descriptor() {
            let connection = match sys::local::accept(listener) {
                Ok(connection) => connection,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.close_broken_socket(&error),
            };
            match fork() {
                Ok(Fork::Parent(pid)) => {
                    self.control_socket.talking.push((pid, now));
                    self.control_socket.deaf_until = None;
                }
                Ok(Fork::Child) => {
                    let life = || self.run_conversation(connection);
                    exit_now(catch_unwind(AssertUnwindSafe(life)).unwrap_or(1))
                }
                Err(error) => return self.close_broken_socket(&error),
            }
        }
    }

    /// Leaves clients waiting until the next tick; logged once, until one is answered again.
    fn close_broken_socket(&mut self, error: &io::Error) {
        if self.control_socket.deaf_until.replace(self.next_tick).is_none() {
            runtime::log!(self.module(), Error, "{}: cannot answer at the control socket", sys::describe(error));
        }
    }

    /// Runs as the process of a conversation. Returns an exit status that nobody reads.
    fn run_conversation(&mut self, connection: OwnedFd) -> i32 {
        let fixed = Fixed { limits: self.plan.limits, buckets: self.leave_parent().buckets() };
        let _ = expose_to_shortage(BEFORE_PARENT);
        let prepared = set_title(&format!("{}: control", self.about.program))
            .and_then(|()| die_with(self.pid, Signal::KILL))
            .and_then(|alive| unblock(&SIGNALS).map(|()| alive));
        // The parent enforces the time limit only while it lives.
        die_after(TALKING_LONGEST);
        match prepared {
            Ok(true) => {
                let children = self.generation.identity.as_ref();
                let order = self.callbacks.converse(Conversation { connection, parent: self.pid, children, fixed });
                if let Some(signal) = order.filter(|_| Pid::parent() == Some(self.pid)) {
                    let _ = self.pid.kill(signal);
                }
                0
            }
            Ok(false) => 0,
            Err(error) => {
                runtime::log!(self.module(), Error, "{}: cannot answer at the control socket", sys::describe(&error));
                1
            }
        }
    }

    /// Handles the end of a conversation; `false`: the process was none.
    pub(super) fn conversation_ended(&mut self, reaped: &Reaped) -> bool {
        let Some(at) = self.control_socket.talking.iter().position(|(pid, _)| *pid == reaped.pid) else { return false };
        self.control_socket.talking.swap_remove(at);
        true
    }
}
