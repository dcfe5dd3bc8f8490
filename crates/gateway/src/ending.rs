//! The end of a script's process: no zombie stays, and no script runs on for nobody.
//!
//! Where a script has closed its outputs it is about to exit, and mostly it has: then it is reaped on the spot. The others
//! are left to a thread, which waits for all of them at once and is there only when it was needed of late. It needs no signal,
//! which would be a matter of the whole process, and no reactor: a request that is given up may leave nobody who would poll
//! anything for it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use server::ScriptUse;
use sys::poll::Poller;
use sys::process::{Pid, Reaped, end_of, own_max_rss, reap};
use sys::signal::Signal;
use sys::watch::{Watched, watch};
use tokio::io::Interest;

use crate::daemon::Remote;
use crate::gate::Permit;

/// How long a script that has closed its outputs may go on, before it is asked to end.
pub(crate) const LEAVE: Duration = Duration::from_secs(1);
/// How long a script that was asked to end may take, before it is ended (as in Apache).
const OBEY: Duration = Duration::from_secs(3);
/// How often those are looked at of which nothing can be waited for: groups that outlive their leaders.
const LOOK: Duration = Duration::from_millis(100);
/// How long the thread stays when nothing is left to it.
const STAY: Duration = Duration::from_secs(10);

/// The process of a script, which leads a group of its own.
#[derive(Debug)]
pub enum Leader {
    /// A child of ours.
    Own(Pid),
    /// A child of a daemon.
    Remote(Remote),
}

impl Leader {
    fn pid(&self) -> Pid {
        match self {
            Leader::Own(pid) => *pid,
            Leader::Remote(remote) => remote.pid(),
        }
    }

    /// How far it is.
    fn state(&self) -> State {
        match self {
            Leader::Own(pid) => match reap(Some(*pid)) {
                Ok(Some(reaped)) => State::Ended(Some(reaped)),
                // Should somebody else have reaped it, nobody must wait for it for ever.
                _ if pid.exists() => State::Runs,
                _ => State::Ended(None),
            },
            Leader::Remote(remote) => match remote.ended() {
                Ok(Some(reaped)) => State::Ended(Some(reaped)),
                Ok(None) => State::Runs,
                // Its daemon is gone.
                Err(_) if remote.pid().exists() => State::Lost,
                Err(_) => State::Ended(None),
            },
        }
    }

    /// Sends a signal to its group, and to itself, should it have left that, as long as it `lives`.
    fn signal(&self, signal: Signal, lives: bool) {
        match self {
            // Its leader was not reaped, or it has members: the number is its own.
            Leader::Own(pid) => {
                let _ = pid.kill_group(signal);
                if lives {
                    let _ = pid.kill(signal);
                }
            }
            Leader::Remote(remote) => remote.signal(signal),
        }
    }

    /// What the process had that started it, KiB, which is counted into its peak.
    fn floor(&self) -> u64 {
        match self {
            Leader::Own(_) => own_max_rss(),
            // A daemon has little, and does not grow.
            Leader::Remote(_) => 0,
        }
    }

    /// What can be read once it has ended.
    fn end(&self) -> std::io::Result<Arc<OwnedFd>> {
        match self {
            Leader::Own(pid) => Ok(Arc::new(end_of(*pid)?)),
            Leader::Remote(remote) => Ok(remote.connection()),
        }
    }

    /// Whether there is somebody of the group left who is for us to end: of a daemon's, the daemon ends them.
    fn has_group(&self) -> bool {
        match self {
            Leader::Own(pid) => pid.group_exists(),
            Leader::Remote(_) => false,
        }
    }
}

/// How far a script's process is.
enum State {
    Runs,
    /// It runs, but nobody will tell when it ends.
    Lost,
    /// It has ended, and how, if that can be known.
    Ended(Option<Reaped>),
}

/// A script that runs: its process, by what right, and what it costs.
#[derive(Debug)]
pub struct Run {
    /// Its process.
    pub leader: Leader,
    /// Given back when the process has ended: only then is its memory free.
    pub permit: Permit,
    /// For the access log.
    pub cost: Arc<ScriptUse>,
}

/// The process of a script that runs. Dropped, it is asked to end with all its group, and then ended.
#[derive(Debug)]
pub struct Process {
    run: Option<Run>,
    /// What tells that it has ended, once somebody waits for that.
    end: Option<Watched>,
}

impl Process {
    /// Takes a script that was started just now.
    pub fn new(run: Run) -> Process {
        run.permit.started(run.leader.pid());
        Process { run: Some(run), end: None }
    }

    /// Its number, as long as it was not reaped.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.run.as_ref().map(|run| run.leader.pid())
    }

    /// Waits for its end, after which its cost is known; not where nobody would tell.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(run) = self.run.take() else { return Poll::Ready(()) };
        let mut left = Left::new(run, Patience::UntilTerm(Instant::now() + LEAVE));
        loop {
            if left.has_ended() {
                return Poll::Ready(());
            }
            let polled = match &mut self.end {
                _ if left.lost => break,
                Some(end) => end.poll_read_ready(cx),
                none => match left.leader.end().and_then(|end| watch(end, Interest::READABLE)) {
                    Ok(end) => none.insert(end).poll_read_ready(cx),
                    Err(error) => Poll::Ready(Err(error)),
                },
            };
            match polled {
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                Poll::Ready(Err(_)) => break,
                Poll::Pending => {
                    self.run = left.into_run();
                    return Poll::Pending;
                }
            }
        }
        keep(left);
        Poll::Ready(())
    }

    /// Its outputs are closed: it has nothing to say any more. Mostly it has ended already.
    pub fn leave(mut self) {
        let Some(run) = self.run.take() else { return };
        let mut left = Left::new(run, Patience::UntilTerm(Instant::now() + LEAVE));
        if !left.has_ended() {
            keep(left);
        }
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(run) = &self.run {
            run.leader.signal(signal, true);
        }
    }

    /// How it ended, once it has; then nothing is left to do, but to end what is left of its group if that was `asked` to.
    pub(crate) fn ended(&mut self, asked: bool) -> Option<Reaped> {
        let State::Ended(reaped) = self.run.as_ref()?.leader.state() else { return None };
        let run = self.run.take()?;
        if asked && run.leader.has_group() {
            keep(Left { ended: true, ..Left::new(run, Patience::UntilKill(Instant::now() + OBEY)) });
        }
        reaped
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        run.leader.signal(Signal::TERM, true);
        keep(Left::new(run, Patience::UntilKill(Instant::now() + OBEY)));
    }
}

/// A process that was left alone.
#[derive(Debug)]
struct Left {
    leader: Leader,
    /// By what right it runs and what it costs, until it is reaped.
    account: Option<(Permit, Arc<ScriptUse>)>,
    ended: bool,
    /// Nobody will tell when it ends.
    lost: bool,
    /// What tells, where somebody will.
    end: Option<Arc<OwnedFd>>,
    patience: Patience,
}

#[derive(Clone, Copy, Debug)]
enum Patience {
    /// It ends by itself; what else is in its group may stay (daemons).
    UntilTerm(Instant),
    /// It was asked, and all its group with it.
    UntilKill(Instant),
}

impl Left {
    fn new(run: Run, patience: Patience) -> Left {
        let Run { leader, permit, cost } = run;
        Left { leader, account: Some((permit, cost)), ended: false, lost: false, end: None, patience }
    }

    /// What it was made of, if that has not ended.
    fn into_run(self) -> Option<Run> {
        let (permit, cost) = self.account?;
        Some(Run { leader: self.leader, permit, cost })
    }

    /// Whether the process has ended; then its permit is given back.
    fn has_ended(&mut self) -> bool {
        if self.ended {
            return true;
        }
        let reaped = match self.leader.state() {
            State::Runs => return false,
            State::Lost => {
                self.lost = true;
                return false;
            }
            State::Ended(reaped) => reaped,
        };
        self.ended = true;
        if let Some((permit, cost)) = self.account.take()
            && let Some(reaped) = reaped
        {
            permit.ended(&reaped, self.leader.floor());
            cost.set_ended(reaped);
        }
        true
    }

    /// Whether there is nothing left to do.
    fn is_over(&mut self, now: Instant) -> bool {
        let ended = self.has_ended();
        match self.patience {
            Patience::UntilTerm(_) if ended => true,
            Patience::UntilTerm(end) if now >= end => {
                self.leader.signal(Signal::TERM, true);
                self.patience = Patience::UntilKill(now + OBEY);
                false
            }
            Patience::UntilTerm(_) => false,
            // A group keeps its number from being used again for as long as it has members.
            Patience::UntilKill(_) if ended && !self.leader.has_group() => true,
            Patience::UntilKill(end) if now >= end => {
                self.leader.signal(Signal::KILL, !ended);
                ended
            }
            Patience::UntilKill(_) => false,
        }
    }
}

/// Those that are left to the thread.
#[derive(Debug)]
struct List {
    left: BTreeMap<u64, Left>,
    next: u64,
    /// What the thread waits for, while it is there.
    poller: Option<Arc<Poller>>,
}

static LIST: Mutex<List> = Mutex::new(List { left: BTreeMap::new(), next: 0, poller: None });

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves a process to the thread, and starts that where it is not there.
fn keep(mut left: Left) {
    let mut list = list();
    if list.poller.is_none() {
        let start = |poller: Arc<Poller>| {
            let poller_of_thread = poller.clone();
            let thread = std::thread::Builder::new().name("reaper".into()).stack_size(64 * 1024);
            thread.spawn(move || look_on(&poller_of_thread)).map(|_| poller)
        };
        // Without one, the next script tries it again.
        list.poller = Poller::new().map(Arc::new).and_then(start).ok();
    }
    let number = list.next;
    list.next += 1;
    // What cannot be waited for is looked at from time to time.
    left.end = left
        .leader
        .end()
        .ok()
        .filter(|end| list.poller.as_ref().is_some_and(|poller| !left.ended && poller.add(end, number).is_ok()));
    list.left.insert(number, left);
}

/// The life of the thread.
fn look_on(poller: &Poller) {
    let mut ready = Vec::new();
    let (mut used, mut looked) = (Instant::now(), Instant::now());
    loop {
        // An error would come back at once for ever.
        if poller.wait(Some(LOOK), &mut ready).is_err() {
            std::thread::sleep(LOOK);
        }
        let mut list = list();
        let now = Instant::now();
        for number in &ready {
            if list.left.get_mut(number).is_some_and(|left| !left.goes_on(poller, now)) {
                list.left.remove(number);
            }
        }
        // Somebody's patience may have ended.
        if now >= looked + LOOK {
            looked = now;
            list.left.retain(|_, left| left.goes_on(poller, now));
        }
        if !list.left.is_empty() || !ready.is_empty() {
            used = now;
        } else if now >= used + STAY {
            list.poller = None;
            return;
        }
    }
}

impl Left {
    /// Whether something is still to be done. What has told all that it will is not listened to any more.
    fn goes_on(&mut self, poller: &Poller, now: Instant) -> bool {
        let over = self.is_over(now);
        if (over || self.ended || self.lost)
            && let Some(end) = self.end.take()
        {
            let _ = poller.remove(end);
        }
        !over
    }
}

/// Whether any script that was left alone has not ended.
pub(crate) fn is_anybody_left() -> bool {
    !list().left.is_empty()
}

/// Ends, at once, whatever was left alone and has not ended; for a process that ends.
pub(crate) fn kill_all() {
    list().left.values().for_each(|left| left.leader.signal(Signal::KILL, !left.ended));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::io::{BufRead, Read};
    use std::os::fd::AsFd;

    /// Starts a shell with its output in a pipe.
    fn shell(line: &CStr) -> (Process, Pid, std::io::PipeReader) {
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
        };
        let pid = spawn.start().expect("start");
        let cost = Arc::new(ScriptUse::new(Duration::ZERO, Duration::ZERO));
        (Process::new(Run { leader: Leader::Own(pid), permit: Permit::free(), cost }), pid, reader)
    }

    /// The number of a process that the script prints.
    fn child_of(reader: std::io::PipeReader) -> Pid {
        let mut line = String::new();
        std::io::BufReader::new(reader).read_line(&mut line).expect("it runs");
        line.trim().parse().ok().and_then(Pid::new).expect("a number")
    }

    /// Whether a process does anything any more. Zombies that are not our children are for init to reap, in its own time.
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
        process.leave();
        assert!(until_not(LEAVE, || pid.exists()), "neither a zombie nor a process is left");
    }

    #[test]
    fn a_script_that_is_given_up_ends_with_its_children() {
        let (process, pid, reader) = shell(c"sleep 100 & echo $!; wait");
        let child = child_of(reader);
        drop(process);
        assert!(until_not(OBEY / 2, || pid.exists() || runs(child)));
    }

    #[test]
    fn a_script_that_does_not_obey_is_ended() {
        let (process, pid, mut reader) = shell(c"trap '' TERM; echo x; while :; do sleep 100; done");
        reader.read_exact(&mut [0; 2]).expect("it runs");
        drop(process);
        assert!(until_not(OBEY * 2, || pid.exists()));
    }

    #[test]
    fn a_daemon_may_stay() {
        let (process, pid, reader) = shell(c"sleep 100 </dev/null >/dev/null & echo $!");
        let daemon = child_of(reader);
        process.leave();
        assert!(until_not(LEAVE, || pid.exists()));
        assert!(runs(daemon), "only the script itself was waited for");
        let _ = daemon.kill(Signal::KILL);
    }
}
