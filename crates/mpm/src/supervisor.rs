//! The parent: the one loop for all multi-processing modules (MPMs).
//!
//! It waits for a signal or for the next second. Signals are read as data ([`SignalFd`]), so nothing ever interrupts
//! it. Every turn does the same: reap processes that ended, carry out requests, start missing children.

mod backoff;
mod children;
mod control_socket;
mod conversations;
mod ending;
mod family;
mod helper_life;
mod helper_processes;
mod new_program;
mod recycling;
mod restarting;
mod sizing;
mod state;
mod upgrade;
mod watchdog;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use runtime::scoreboard::{self, Rows};
use sys::notify::Notifier;
use sys::poll::any_readable;
use sys::process::Pid;
use sys::signal::Signal;
use sys::signal_fd::SignalFd;
use sys::time::monotonic;

use crate::about::About;
use crate::callbacks::{ParentCallbacks, Restart};
use crate::generation::Generation;
use crate::listen::Listeners;
use crate::plan::explain::ProcessModel;
use crate::plan::{HardLimits, When};
use crate::policy::Policy;
use crate::settings::MpmSettings;
use backoff::Backoff;
use control_socket::ControlSocket;
use family::Family;
use helper_processes::HelperProcesses;
use state::{Pending, SIGNALS, Sizing, Supervisor, TICK};
use watchdog::Watchdog;

/// The least and the most process slots beyond `ServerLimit`, for children of earlier generations that still finish.
const FINISHING_MIN: usize = 256;
const FINISHING_MAX: usize = 8192;

/// Runs the server until it is stopped. Before the call, `first` was checked ([`Chosen::check`](crate::Chosen::check))
/// and its messages printed; the process has one thread, is a daemon if it should be one, and `first.log` is set.
pub fn run(first: Generation, listeners: Listeners, about: About, callbacks: &mut dyn ParentCallbacks) -> ExitCode {
    let plan = (first.mpm.0.plan)(&first.settings, When::Start).0.for_buckets(listeners.buckets());
    let slots = if about.one_process { 1 } else { process_slots(plan.limits.servers) };
    let prepared = SignalFd::new(&SIGNALS).and_then(|signals| {
        runtime::log_levels::open()?;
        runtime::recent::open()?;
        Ok((signals, scoreboard::create(slots, plan.limits.threads, first.mpm.0.rows == Rows::OfOne)?))
    });
    let (signals, board) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let text = "Unable to create or access scoreboard (anonymous shared memory failure)";
            let HardLimits { servers, threads } = plan.limits;
            let advice = format!("for ServerLimit {servers} and {threads} workers each: lower it or ThreadLimit");
            runtime::log!("core", Crit, "{}: AH00004: {text} {advice}", sys::describe(&error));
            return ExitCode::FAILURE;
        }
    };
    if let Some(duty) = about.predecessor.and_then(|_| new_program::inherited_duty()) {
        board.set_duty(duty);
    }
    let tells_near = first.mpm.0.messages.tells_near();
    let mut supervisor = Supervisor {
        pid: Pid::own(),
        callbacks,
        board,
        notifier: Notifier::from_env(),
        signals,
        pending: Pending::Nothing,
        pid_file: first.settings.get::<MpmSettings>().pid_file.get().map(PathBuf::from),
        generation: first,
        number: 0,
        plan,
        listeners,
        family: Family::default(),
        helpers: HelperProcesses::default(),
        control_socket: ControlSocket::default(),
        watchdog: Watchdog::default(),
        sizing: Sizing { policy: Policy::new().telling_near(tells_near), backoff: Backoff::new(), owed: plan.start },
        arriving: false,
        next_tick: monotonic() + TICK,
        new_program: None,
        proven: false,
        about,
    };
    // While the predecessor serves, the file names it.
    if let Some(path) = supervisor.pid_file.clone().filter(|_| supervisor.about.predecessor.is_none())
        && !supervisor.write_pid_file(&path)
    {
        return ExitCode::FAILURE;
    }
    if supervisor.about.one_process { supervisor.serve_alone() } else { supervisor.supervise() }
}

/// How many children the scoreboard has room for: three times as many as may serve may still be finishing, within
/// limits. When even those slots run out, the oldest child is ended.
fn process_slots(server_limit: usize) -> usize {
    server_limit + (server_limit * 3).clamp(FINISHING_MIN, FINISHING_MAX)
}

impl Supervisor<'_> {
    fn module(&self) -> &'static str {
        self.generation.mpm.0.info.log_name()
    }

    /// Shown on a status page even if no child has it.
    fn shown(&self) -> usize {
        self.plan.children * self.plan.workers
    }

    fn begin_generation(&self, reset: bool) {
        self.board.begin_generation(self.number, self.shown(), reset);
        let mpm = &self.generation.mpm.0;
        self.board.set_held(mpm.waiting_holds.then(|| self.shown()));
        // Rows of requests only serve display: a request without one is served all the same.
        self.board.set_limit((mpm.rows != Rows::OfRequests).then(|| self.shown()));
    }

    fn supervise(&mut self) -> ExitCode {
        if !self.prepare_helpers() {
            return ExitCode::FAILURE;
        }
        self.begin_generation(false);
        if self.about.predecessor.is_none() {
            self.open_control(None);
        }
        self.start_helpers();
        self.spawn_owed();
        self.announce();
        loop {
            self.wait_with_control(self.until_next());
            if !self.reap() {
                self.end_children();
                self.end_helpers();
                self.remove_pid_file();
                return ExitCode::FAILURE;
            }
            match std::mem::replace(&mut self.pending, Pending::Nothing) {
                Pending::Nothing => {}
                Pending::Upgrade => self.upgrade(),
                Pending::Restart(how) => self.restart(how),
                Pending::HandOver if self.new_program.is_some() => return self.hand_over(),
                // The new program has ended since.
                Pending::HandOver => {}
                Pending::GracefulStop => return self.stop_gracefully(),
                Pending::Stop => return self.stop(),
            }
            self.note_first_child();
            self.retire_replaced();
            self.serve_control_socket();
            self.start_helpers();
            self.spawn_owed();
            if !self.take_over() {
                self.end_children();
                self.end_helpers();
                return ExitCode::FAILURE;
            }
            if monotonic() >= self.next_tick {
                self.next_tick = monotonic() + TICK;
                self.maintain();
                self.callbacks.tick();
                if self.callbacks.logs_reopened() {
                    self.follow_renamed_logs();
                }
            }
            self.spawn_if_none_idle();
            self.recycle();
        }
    }

    /// Prepares the helper processes of the first generation. `false`: the server cannot start.
    fn prepare_helpers(&mut self) -> bool {
        match self.generation.service.helpers(self.generation.identity.as_ref()) {
            Ok(helpers) => {
                self.helpers.add(helpers, self.number);
                true
            }
            Err(message) => {
                runtime::log!("core", Crit, "{message}");
                self.remove_pid_file();
                false
            }
        }
    }

    /// `-X`: this process is the only child. Its helper processes are started once, and end with it.
    fn serve_alone(&mut self) -> ExitCode {
        if !self.prepare_helpers() {
            return ExitCode::FAILURE;
        }
        self.helpers.tie();
        self.plan.children = 1;
        self.begin_generation(false);
        self.board.claim(0, 0, self.plan.workers);
        self.start_helpers();
        self.announce();
        self.callbacks.serving();
        self.ready();
        let helpers = std::mem::take(&mut self.helpers);
        let status = self.become_child(0, 0);
        helpers.end_with_us();
        self.remove_pid_file();
        if status == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// In a new process: gives up everything that belongs to the parent alone. Returns the listening sockets, which
    /// this process may need.
    fn leave_parent(&mut self) -> Listeners {
        self.notifier = Notifier::default();
        self.helpers = HelperProcesses::default();
        self.control_socket = ControlSocket::default();
        std::mem::take(&mut self.listeners)
    }

    /// Like [`wait`](Supervisor::wait), but also wakes for a client of the control socket. Used only where
    /// conversations are accepted.
    fn wait_with_control(&mut self, most: Duration) {
        match self.control_socket.descriptor() {
            Some(control) => {
                let waited = any_readable([self.signals.as_fd(), self.board.attention().as_fd(), control], most);
                self.read_signals(waited);
            }
            None => self.wait(most),
        }
    }

    /// Waits for a signal or a child's event, and records the request.
    fn wait(&mut self, most: Duration) {
        let waited = any_readable([self.signals.as_fd(), self.board.attention().as_fd()], most);
        self.read_signals(waited);
    }

    fn read_signals(&mut self, waited: std::io::Result<()>) {
        if let Err(error) = waited {
            runtime::log!(self.module(), Alert, "{}: waiting for signals", sys::describe(&error));
        }
        self.board.attention().lower();
        while let Ok(Some((signal, sender))) = self.signals.read() {
            let request = match signal {
                Signal::TERM | Signal::INT | Signal::QUIT => Pending::Stop,
                Signal::WINCH if sender.is_some() && sender == self.new_program.map(|program| program.pid) => {
                    Pending::HandOver
                }
                Signal::WINCH => Pending::GracefulStop,
                Signal::USR2 => Pending::Upgrade,
                Signal::HUP if self.about.ends_with_terminal => Pending::Stop,
                Signal::HUP => Pending::Restart(Restart::Hard),
                Signal::USR1 => Pending::Restart(Restart::Graceful),
                _ => Pending::Nothing,
            };
            self.pending = self.pending.max(request);
        }
        if self.pending == Pending::Stop {
            self.helpers.expect_end();
        }
    }

    /// The time until the next second, or until a child may be started again.
    fn until_next(&self) -> Duration {
        let held_back = (self.sizing.owed > 0 && self.room() > 0).then(|| self.sizing.backoff.until());
        let next = [held_back, self.helpers.next()].into_iter().flatten().fold(self.next_tick, Duration::min);
        next.saturating_sub(monotonic())
    }

    fn announce(&self) {
        let (module, words) = (self.module(), &self.generation.mpm.0.messages);
        runtime::log!(
            module,
            Notice,
            "{}{} configured -- resuming normal operations",
            words.configured,
            self.about.server
        );
        runtime::log!(module, Info, "{}Server built: {}", words.built, self.about.built);
        runtime::log!("core", Notice, "AH00094: Command line: '{}'", self.about.command_line);
    }

    /// Tells the service manager that the server serves.
    fn ready(&self) {
        let (name, plan) = (self.generation.mpm.name(), self.plan);
        self.notifier
            .send(&format!("READY=1\nSTATUS=Serving with {name}, {} to {} children", plan.start, plan.children));
    }

    fn maintain(&mut self) {
        self.notifier.alive();
        self.board.note_moment();
        self.measure_memory();
        self.report_stalls();
        let counts = self.counts();
        self.note_first_child();
        self.end_slow_new_program();
        if self.sizing.owed > 0 || monotonic() < self.sizing.backoff.until() {
            return;
        }
        self.adjust_children(counts);
    }

    /// Reports workers that make no progress.
    fn report_stalls(&mut self) {
        let after = self.generation.settings.get::<MpmSettings>().stall_timeout();
        if after.is_zero() {
            return;
        }
        let alone = self.generation.mpm.0.kind == ProcessModel::Processes;
        let stalls = self.watchdog.observe(self.board, &self.family, alone, after);
        if !stalls.is_empty() {
            self.callbacks.stalled(&stalls);
        }
    }

    /// As soon as a child serves, the server has started: says so to those who wait for that.
    pub(super) fn note_first_child(&mut self) {
        if !self.proven && self.family.any(|member| self.board.is_running(member.slot)) {
            self.proven = true;
            self.callbacks.serving();
            self.ready();
        }
    }
}
