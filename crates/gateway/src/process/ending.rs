//! The end of a script's process: no zombie stays, and no script keeps running for nobody.
//!
//! A script that has closed its outputs is about to exit, and mostly it already has: then it is reaped on the spot. A
//! thread waits for all the others at once; it exists only if there was recent need for it. It needs no signal, which
//! would affect the whole process, and no reactor: an abandoned request may leave no task to poll anything for it.

use std::io;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use runtime::executor::timeout_at;
use sys::process::{Pid, Reaped, reap};
use sys::signal::Signal;
use sys::time::Instant;
use sys::watch::{Interest, Watched, watch};

use super::progress::Progress;
use super::reaper::{self, AbandonedProcess, EXIT_GRACE, NextSignal, TERM_GRACE, abandon, expect_exit};
use super::script_process::{Permitted, ScriptProcess};
use crate::command::StartFailure;
use crate::gate;

/// The process of a running script. Dropping it first asks the script and its whole group to end, and then kills them.
#[derive(Debug)]
pub struct ProcessGuard {
    permitted: Option<Permitted>,
    /// The descriptor that reports its end, once somebody waits for that.
    end: Option<Watched>,
    /// Whether the script is ended for a failure of its own.
    failed: bool,
}

impl ProcessGuard {
    /// Takes a script that has just been started, or that a daemon may start from now on.
    pub fn new(permitted: Permitted) -> ProcessGuard {
        if let Some(pid) = permitted.process.pid() {
            permitted.permit.started(pid);
        }
        ProcessGuard { permitted: Some(permitted), end: None, failed: false }
    }

    /// Waits until its daemon has started it.
    pub(crate) async fn wait_until_started(&mut self, deadline: Instant) -> Result<(), StartFailure> {
        let Some(permitted) = &self.permitted else { return Ok(()) };
        let begun = async {
            let news = watch(permitted.process.end()?, Interest::READABLE)?;
            loop {
                match permitted.process.progress() {
                    Progress::Runs => news.readable().await?.clear_ready(),
                    state => return Ok(state),
                }
            }
        };
        match timeout_at(deadline, begun)
            .await
            .map_err(io::Error::from)
            .and_then(|state| state)
            .map_err(StartFailure::Daemon)?
        {
            Progress::Begun(pid, took) => {
                permitted.begun(pid, took);
                Ok(())
            }
            Progress::NotStarted(failure) => {
                if let Some(permitted) = self.permitted.take() {
                    permitted.permit.not_started();
                }
                Err(failure)
            }
            Progress::Runs | Progress::Lost | Progress::Ended(_) => {
                Err(StartFailure::Daemon(io::ErrorKind::InvalidData.into()))
            }
        }
    }

    /// Learns its number as soon as its daemon reports that, if nobody has waited for the report.
    pub(crate) fn poll_begun(&mut self, cx: &mut Context<'_>) {
        while let Some(permitted) = self.permitted.as_ref().filter(|permitted| permitted.process.pid().is_none()) {
            match permitted.look() {
                Progress::Runs => {}
                Progress::Begun(..) => {
                    // Nobody watches a connection to a daemon any more, which may be kept.
                    self.end = None;
                    return;
                }
                // The daemon died between the script's start and its report: no number will come, and the connection
                // stays readable for ever.
                _ => return,
            }
            let watched = match &mut self.end {
                Some(end) => end,
                none => match permitted.process.end().and_then(|end| watch(end, Interest::READABLE)) {
                    Ok(end) => none.insert(end),
                    Err(_) => return,
                },
            };
            match watched.poll_read_ready(cx) {
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                _ => return,
            }
        }
    }

    /// The script has been silent for too long: that it is ended is its own failure. Otherwise its client has gone.
    pub(crate) fn mark_failed(&mut self) {
        self.failed = true;
    }

    /// Its number, until it is reaped.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.permitted.as_ref()?.process.pid()
    }

    /// Makes the kernel's OOM killer prefer it to the server; `false`: not yet.
    pub(crate) fn expose(&self) -> bool {
        self.permitted.as_ref().is_none_or(|permitted| permitted.process.expose())
    }

    /// Waits for its end, after which its cost is known; returns at once if nobody would report the end.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(permitted) = self.permitted.take() else { return Poll::Ready(()) };
        let mut abandoned = AbandonedProcess::new(permitted, NextSignal::Term(Instant::now() + EXIT_GRACE));
        loop {
            if abandoned.has_ended() {
                // Nobody watches a connection to a daemon any more, which may be kept.
                self.end = None;
                return Poll::Ready(());
            }
            let polled = match &mut self.end {
                _ if abandoned.lost => break,
                Some(end) => end.poll_read_ready(cx),
                none => match abandoned.script.end().and_then(|end| watch(end, Interest::READABLE)) {
                    Ok(end) => none.insert(end).poll_read_ready(cx),
                    Err(error) => Poll::Ready(Err(error)),
                },
            };
            match polled {
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                Poll::Ready(Err(_)) => break,
                Poll::Pending => {
                    self.permitted = abandoned.into_permitted();
                    return Poll::Pending;
                }
            }
        }
        abandon(abandoned);
        Poll::Ready(())
    }

    /// Its outputs are closed: there is no more to come. Mostly it has already ended.
    pub fn expect_exit(mut self) {
        let Some(permitted) = self.permitted.take() else { return };
        expect_exit(AbandonedProcess::new(permitted, NextSignal::Term(Instant::now() + EXIT_GRACE)));
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(permitted) = &self.permitted {
            permitted.process.signal(signal, true);
        }
    }

    /// Its result, once it has ended; then only the rest of its group is left to end, if it was `signaled`.
    pub(crate) fn ended(&mut self, signaled: bool) -> Option<Reaped> {
        let Progress::Ended(reaped) = self.permitted.as_ref()?.process.progress() else { return None };
        let permitted = self.permitted.take()?;
        if signaled && permitted.process.has_group() {
            abandon(AbandonedProcess::new(permitted, NextSignal::Kill(Instant::now() + TERM_GRACE)).reaped());
        }
        reaped
    }
}

/// How long scripts may take to end together with the process that started them; its parent waits three seconds before
/// it complains.
const LAST: Duration = Duration::from_secs(2);
/// How often to check whether they have.
const PAUSE: Duration = Duration::from_millis(5);

static ENDING: RwLock<bool> = RwLock::new(false);

/// Whether this process is about to end: the requests it serves are abandoned.
pub(crate) fn is_ending() -> bool {
    *ENDING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Permission to start a script: [`end_all`] waits until it is given back, and ends that script too. `None`: no script
/// may start any more.
pub(crate) fn may_start() -> Option<RwLockReadGuard<'static, bool>> {
    Some(ENDING.read().unwrap_or_else(PoisonError::into_inner)).filter(|ending| !**ending)
}

/// Ends the scripts of this process, which is about to end: those that still run for a request and those left alone.
/// Waits for them, but not for long; kills those that do not obey.
pub fn end_all() {
    *ENDING.write().unwrap_or_else(PoisonError::into_inner) = true;
    let lives = |pid: Pid| matches!(reap(Some(pid)), Ok(None));
    // A daemon's scripts are not our children, and the daemon ends them.
    let mut processes: Vec<Pid> = gate::own_processes().into_iter().filter(|pid| lives(*pid)).collect();
    processes.iter().for_each(|pid| ScriptProcess::Own(*pid).signal(Signal::TERM, true));
    let end = Instant::now() + LAST;
    loop {
        processes.retain(|pid| lives(*pid) || pid.group_exists());
        if processes.is_empty() && !reaper::is_any_left() || Instant::now() >= end {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "the process has nothing else to do any more")]
        std::thread::sleep(PAUSE);
    }
    processes.iter().for_each(|pid| ScriptProcess::Own(*pid).signal(Signal::KILL, lives(*pid)));
    reaper::kill_all();
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let Some(mut permitted) = self.permitted.take() else { return };
        if permitted.process.pid().is_none() {
            permitted.look();
        }
        if !self.failed {
            permitted.permit.give_up();
        }
        permitted.process.signal(Signal::TERM, true);
        abandon(AbandonedProcess::new(permitted, NextSignal::Kill(Instant::now() + TERM_GRACE)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use server::ScriptUse;

    use crate::gate::Permit;
    use crate::process::daemon_script::DaemonScript;
    use std::ffi::CStr;
    use std::io::{BufRead, Read};
    use std::os::fd::AsFd;

    /// Starts a shell with its output in a pipe.
    fn shell(line: &CStr) -> (ProcessGuard, Pid, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().expect("pipe");
        let null = std::fs::File::open("/dev/null").expect("open");
        let stdio = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let argv = [c"sh", c"-c", line];
        let spawn = sys::spawn::Spawn {
            program: c"/bin/sh",
            argv: &argv,
            env: &[],
            directory: None,
            stdio,
            more: &[],
            own_group: true,
            limits: &[],
            nicer: 0,
            end_with_us: None,
        };
        let pid = spawn.start().expect("start");
        let cost = Arc::new(ScriptUse::new(Duration::ZERO));
        (ProcessGuard::new(Permitted { process: ScriptProcess::Own(pid), permit: Permit::free(), cost }), pid, reader)
    }

    /// The process number that the script prints.
    fn child_of(reader: std::io::PipeReader) -> Pid {
        let mut line = String::new();
        std::io::BufReader::new(reader).read_line(&mut line).expect("it runs");
        line.trim().parse().ok().and_then(Pid::new).expect("a number")
    }

    /// Whether a process still does anything. Zombies that are not our children are reaped by init, in its own time.
    fn runs(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    fn until_not(limit: Duration, still: impl Fn() -> bool) -> bool {
        let end = Instant::now() + limit;
        while still() {
            if Instant::now() > end {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    #[test]
    fn a_script_that_ended_is_reaped() {
        let (process, pid, mut reader) = shell(c"echo x");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        process.expect_exit();
        assert!(until_not(EXIT_GRACE, || pid.exists()), "neither a zombie nor a process is left");
    }

    #[test]
    fn a_script_that_is_given_up_ends_with_its_children() {
        let (process, pid, reader) = shell(c"sleep 100 & echo $!; wait");
        let child = child_of(reader);
        drop(process);
        assert!(until_not(TERM_GRACE / 2, || pid.exists() || runs(child)));
    }

    #[test]
    fn a_script_that_does_not_obey_is_ended() {
        let (process, pid, mut reader) = shell(c"trap '' TERM; echo x; while :; do sleep 100; done");
        reader.read_exact(&mut [0; 2]).expect("it runs");
        drop(process);
        assert!(until_not(TERM_GRACE * 2, || pid.exists()));
    }

    #[test]
    fn nobody_spins_when_a_daemon_dies_before_it_reports_a_start() {
        let (ours, daemon) = sys::local::pair(sys::local::SocketKind::Stream).expect("a pair");
        let process = ScriptProcess::ByDaemon(DaemonScript::new(Instant::now(), Arc::new(ours), None));
        let cost = Arc::new(ScriptUse::new(Duration::ZERO));
        let mut process = ProcessGuard::new(Permitted { process, permit: Permit::free(), cost });
        let looks = async {
            std::future::poll_fn(|cx| {
                process.poll_begun(cx);
                Poll::Ready(())
            })
            .await;
            drop(daemon);
            // The first look wakes with the end of the connection; the second one meets an end that was already seen.
            for _ in 0..2 {
                runtime::executor::yield_now().await;
                std::future::poll_fn(|cx| {
                    process.poll_begun(cx);
                    Poll::Ready(())
                })
                .await;
            }
            std::future::poll_fn(|cx| process.poll_end(cx)).await;
        };
        sys::event_loop::EventLoop::new(|| ()).and_then(|mut event_loop| event_loop.run(looks)).expect("event loop");
    }

    #[test]
    fn a_daemon_may_stay() {
        let (process, pid, reader) = shell(c"sleep 100 </dev/null >/dev/null & echo $!");
        let daemon = child_of(reader);
        process.expect_exit();
        assert!(until_not(EXIT_GRACE, || pid.exists()));
        assert!(runs(daemon), "only the script itself was waited for");
        let _ = daemon.kill(Signal::KILL);
    }
}
