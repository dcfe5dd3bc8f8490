//! The process that answers HAProxy's agent checks.
//!
//! HAProxy connects, reads one line and closes (HAProxy manual, `agent-check`). A process of its own answers, since a child may be
//! busy when it matters most.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use gateway::gate;
use runtime::executor::sleep;
use runtime::scoreboard::{self, Described, Duty, Snapshot, State};
use sys::cgroup;
use sys::event_loop::EventLoop;
use sys::signal::Signal;
use sys::signal_fd::SignalFd;
use sys::socket;
use sys::time::monotonic;
use sys::watch::{Interest, Watched, watch};

use super::weight::{Load, Weight, share};

/// How long an answer counts: many may ask, and each look takes the lock of the gate.
const LOOK: Duration = Duration::from_millis(100);

/// How long to wait if there are no descriptors left to accept with.
const PAUSE: Duration = Duration::from_millis(10);

/// Answers until an order comes.
pub(super) fn serve(listener: &Arc<OwnedFd>, orders: &SignalFd) -> io::Result<()> {
    EventLoop::new(|| ())?.run(accept(listener, orders))?
}

async fn accept(listener: &Arc<OwnedFd>, orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let asked = watch(listener.clone(), Interest::READABLE)?;
    let mut answers = Answers::new();
    loop {
        let (ordered, came) = poll_fn(|cx| match (order.poll_read_ready(cx), asked.poll_read_ready(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            both => Poll::Ready(both),
        })
        .await;
        if let Poll::Ready(ready) = ordered {
            match orders.read()? {
                // The children of this configuration have gone; the process of the next one answers.
                Some((Signal::TERM | Signal::USR1, _)) => return Ok(()),
                Some(_) => {}
                None => ready?.clear_ready(),
            }
        }
        if let Poll::Ready(ready) = came {
            if scoreboard::duty() == Duty::Replaced {
                // The new program alone answers, though children that finish still have this socket.
                socket::shutdown(listener)?;
                return leave(&order, orders).await;
            }
            match socket::accept(listener) {
                Ok((connection, _)) => answer(&connection, &answers.line()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready?.clear_ready(),
                // New connections wait meanwhile.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Waits for the order to end.
async fn leave(order: &Watched, orders: &SignalFd) -> io::Result<()> {
    loop {
        let ready = poll_fn(|cx| order.poll_read_ready(cx)).await;
        match orders.read()? {
            Some((Signal::TERM | Signal::USR1, _)) => return Ok(()),
            Some(_) => {}
            None => ready?.clear_ready(),
        }
    }
}

/// Sends the line and closes. What the balancer may have sent (`agent-send`) is taken, or closing would discard the line.
fn answer(connection: &OwnedFd, line: &str) {
    let mut ignored = [0; 512];
    let _ = socket::send(connection, line.as_bytes(), false);
    let _ = socket::shutdown_write(connection);
    let _ = socket::receive(connection, &mut ignored);
}

/// What balancers are told.
struct Answers {
    /// Pressure stall information of the processors, for our own control group or else for the machine.
    pressure: PathBuf,
    /// The last weight, and when it was found.
    weight: Option<(Weight, Duration)>,
    line: String,
}

impl Answers {
    fn new() -> Answers {
        let own = cgroup::groups("cpu").into_iter().map(|group| group.directory.join("cpu.pressure"));
        let pressure = own.into_iter().find(|file| file.exists()).unwrap_or_else(|| "/proc/pressure/cpu".into());
        Answers { pressure, weight: None, line: String::new() }
    }

    /// The line for whoever asks now.
    fn line(&mut self) -> String {
        let now = monotonic();
        let before = self.weight.map(|(weight, found)| (weight, now.saturating_sub(found)));
        if before.is_none_or(|(_, age)| age >= LOOK) {
            let board = scoreboard::snapshot(Described::Nobody);
            let share = share(self.load(&board));
            let weight = before.map_or_else(|| Weight::first(share), |(weight, age)| weight.next(share, age));
            self.weight = Some((weight, now));
            self.line = line(scoreboard::duty(), board.serving(), weight.percent);
        }
        self.line.clone()
    }

    fn load(&self, board: &Snapshot) -> Load {
        let gate = gate::status().unwrap_or_default();
        let memory = gate
            .limit
            .filter(|limit| *limit > 0)
            .map_or(1.0, |limit| limit.saturating_sub(gate.reserved) as f64 / limit as f64);
        let busy =
            board.processes.iter().flat_map(|process| &process.workers).filter(|worker| State::is_busy(worker.state));
        let workers = board
            .limit
            .filter(|limit| *limit > 0)
            .map_or(1.0, |limit| limit.saturating_sub(busy.count()) as f64 / limit as f64);
        let text = fs::read_to_string(&self.pressure).unwrap_or_default();
        Load { memory, running: gate.running, waiting: gate.waiting, workers, processors: waited(&text) }
    }
}

/// The line (HAProxy manual, `agent-check`). `ready` takes back a `drain` or `maint` that was told before.
fn line(duty: Duty, is_serving: bool, weight: u8) -> String {
    match duty {
        Duty::Drain => "drain\n".into(),
        Duty::Maintenance => "maint\n".into(),
        // Asked in the moment of the change: no line changes nothing.
        Duty::Replaced => String::new(),
        Duty::Ready if !is_serving => "down#no child serves\n".into(),
        Duty::Ready => format!("ready up {weight}%\n"),
    }
}

/// The share of the last ten seconds from pressure stall information, `some avg10=12.34 avg60=…`; 0 if the kernel does not tell.
fn waited(text: &str) -> f64 {
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="));
    let percent = some.and_then(|rest| rest.split(' ').next()).and_then(|number| number.parse::<f64>().ok());
    percent.map_or(0.0, |percent| (percent / 100.0).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_haproxy() {
        for (duty, is_serving, expected) in [
            (Duty::Ready, true, "ready up 60%\n"),
            (Duty::Ready, false, "down#no child serves\n"),
            (Duty::Drain, true, "drain\n"),
            (Duty::Maintenance, true, "maint\n"),
            (Duty::Replaced, false, ""),
        ] {
            assert_eq!(line(duty, is_serving, 60), expected, "{duty:?}");
        }
    }

    #[test]
    fn pressure_is_a_share() {
        let text =
            "some avg10=12.50 avg60=3.00 avg300=1.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        for (text, expected) in [(text, 0.125), ("", 0.0), ("some avg10=x", 0.0), ("some avg10=250.0 x", 1.0)] {
            assert!((waited(text) - expected).abs() < 1e-9, "{text}");
        }
    }
}
