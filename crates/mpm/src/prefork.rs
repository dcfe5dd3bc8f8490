//! prefork: a child serves one connection at a time, from its first byte to its last.
//!
//! An idle child sleeps in an epoll of its own on the shared listeners, and an event wakes one of the sleepers. The
//! connection that it accepts has the child to itself: [`block_on`] polls it.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use runtime::scoreboard::Rows;
use sys::block_on;
use sys::poll::{Poller, readable};
use sys::signal_fd::SignalFd;
use sys::time::monotonic;
use sys::watch::{Interest, Watched, watch};

use crate::accept::{Accept, Shortage, accept};
use crate::child::{Child, LAST_ROUND, Order, SUCCESSION};
use crate::listen::Listeners;
use crate::mpm::{LogMessages, Mpm, SizingMessages};
use crate::plan::explain::ProcessModel;
use crate::plan::prefork;
use crate::policy::Counts;
use crate::{stages, tables};

/// `mpm_prefork`.
pub(crate) static PREFORK: Mpm = Mpm {
    info: &tables::PREFORK,
    messages: LogMessages {
        configured: "AH00163: ",
        built: "AH00164: ",
        terminated: "AH00169: caught SIGTERM, shutting down",
        graceful_stop: "AH00170: caught SIGWINCH, shutting down gracefully",
        graceful: "AH00171: Graceful restart requested, doing restart",
        restart: "AH00173: SIGHUP received.  Attempting to restart",
        cannot_fork: "AH00159: fork: Unable to fork new process",
        sizing: Some(SizingMessages {
            limit_reached: "AH00161: server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            limit_near: None,
            busy: |rate, _spawned, Counts { idle, children, .. }| {
                format!(
                    "AH00162: server seems busy, (you may need to increase StartServers, or Min/MaxSpareServers), spawning {rate} \
                     children, there are {idle} idle, and {children} total children"
                )
            },
        }),
    },
    plan: |settings, when| prefork(tables::PREFORK.log_name(), settings, when),
    kind: ProcessModel::Processes,
    rows: Rows::OfOne,
    waiting_holds: true,
    serve,
};

/// The token of the orders; listeners use their indexes.
const ORDERS: u64 = u64::MAX;

/// How often a child that leaves looks whether others have taken the connection that waits.
const LOOKS: u32 = 20;

fn serve(child: Child) -> io::Result<()> {
    ChildLoop::new(child)?.serve()
}

struct ChildLoop {
    child: Child,
    poller: Poller,
    shortage: Shortage,
    /// How long it accepts waiting connections, without waiting for more, before it ends.
    last_round: Option<Duration>,
}

/// Whether the child continues.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    Leave,
    End,
}

impl ChildLoop {
    fn new(child: Child) -> io::Result<ChildLoop> {
        let poller = Poller::new()?;
        poller.add(&child.signals, ORDERS)?;
        for (token, listener) in (0..).zip(child.listeners.iter()) {
            poller.add_exclusive(listener, token)?;
        }
        let shortage = Shortage::new(child.log_name);
        Ok(ChildLoop { child, poller, shortage, last_round: None })
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            self.child.service.before_wait();
            let timeout = self.last_round.map(|_| Duration::ZERO);
            self.poller.wait(timeout, &mut ready)?;
            let waiting = ready.iter().any(|token| *token != ORDERS);
            if ready.contains(&ORDERS) {
                match self.obey() {
                    Next::Go => {}
                    Next::Leave if waiting => return self.leave(),
                    Next::Leave | Next::End => return Ok(()),
                }
            }
            if self.last_round.is_some_and(|end| !waiting || monotonic() > end) {
                return Ok(());
            }
            for token in ready.iter().filter(|token| **token != ORDERS) {
                if self.take(*token)? == Next::End {
                    return Ok(());
                }
            }
        }
    }

    /// Follows orders that came while no connection was open.
    fn obey(&mut self) -> Next {
        let mut next = Next::Go;
        while let Some(order) = Order::next(&self.child.signals) {
            match order {
                Order::LeaveLast => self.leave_last(),
                Order::Leave => next = Next::Leave,
                Order::End => return Next::End,
            }
        }
        next
    }

    /// Leaves while a connection waits. That connection may have woken this child alone; the sleeping ones would not
    /// see it until the next one comes. So they get a moment to take it; then this child serves it. Where nobody waits
    /// any more, the child is not needed: a connection that comes later wakes one of the others.
    fn leave(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        for _ in 0..LOOKS {
            readable(&self.child.signals, Some(SUCCESSION / LOOKS))?;
            if self.obey() == Next::End {
                return Ok(());
            }
            self.poller.wait(Some(Duration::ZERO), &mut ready)?;
            if ready.iter().all(|token| *token == ORDERS) {
                return Ok(());
            }
        }
        if let Some((socket, peer)) = take_one(&std::mem::take(&mut self.child.listeners)) {
            self.child.workers.accepted();
            runtime::drain();
            serve_connection(&mut self.child, socket, peer)?;
        }
        Ok(())
    }

    fn leave_last(&mut self) {
        runtime::drain();
        self.last_round = Some(monotonic() + LAST_ROUND);
    }

    /// Accepts one connection, if one is there, and serves it.
    fn take(&mut self, listener: u64) -> io::Result<Next> {
        let Some(listener) = self.child.listeners.iter().nth(usize::try_from(listener).unwrap_or(usize::MAX)) else {
            return Ok(Next::Go);
        };
        if self.child.workers.is_quiescing() && self.last_round.is_none() {
            // The order is on its way.
            readable(&self.child.signals, None)?;
            return Ok(Next::Go);
        }
        let (socket, peer) = match accept(listener) {
            Accept::Taken(socket, peer) => (socket, peer),
            Accept::Nothing | Accept::Gone => return Ok(Next::Go),
            Accept::Shortage(error) => {
                let wait = self.shortage.wait(&error);
                if sys::lacks_descriptors(&error) && self.child.plan.children > 1 {
                    // The kernel reported this connection to us alone: the others sleep, and we have no connection to
                    // close. A successor finds it, as in Apache.
                    self.child.service.before_wait();
                    std::process::exit(1);
                }
                readable(&self.child.signals, Some(wait))?;
                return Ok(Next::Go);
            }
        };
        self.shortage.over();
        let is_last = self.child.workers.accepted();
        let mut next = Some((socket, peer));
        while let Some((socket, peer)) = next.take() {
            match serve_connection(&mut self.child, socket, peer)? {
                AfterServing::Nothing => {}
                AfterServing::Last(Some(waiting)) => next = Some(waiting),
                AfterServing::Last(None) => return Ok(Next::End),
            }
        }
        if self.child.listeners.iter().len() == 0 {
            return Ok(Next::End);
        }
        if is_last {
            readable(&self.child.signals, Some(SUCCESSION))?;
        }
        Ok(Next::Go)
    }
}

/// The parent's order while a connection was served.
enum AfterServing {
    Nothing,
    /// To end, after this connection if there is one.
    Last(Option<(OwnedFd, SocketAddr)>),
}

/// Serves one connection to its end, or until an order to end.
fn serve_connection(child: &mut Child, socket: OwnedFd, peer: SocketAddr) -> io::Result<AfterServing> {
    let Child { service, workers, signals, listeners, .. } = child;
    let serving = async {
        let orders = watch(signals.descriptor(), Interest::READABLE)?;
        let connection = stages::connect(*service, workers, socket, peer);
        workers.all_taken();
        let mut life = pin!(stages::run(connection, stages::Anywhere));
        let mut told = AfterServing::Nothing;
        poll_fn(|cx| {
            if life.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            while let Poll::Ready(order) = poll_order(&orders, signals, cx) {
                runtime::drain();
                match order {
                    Order::End => {
                        told = AfterServing::Last(None);
                        return Poll::Ready(());
                    }
                    // The last children to leave close the door at once, not only when their clients are done. Each
                    // takes along one of the waiting connections; the children without a connection take the rest.
                    Order::LeaveLast if !matches!(told, AfterServing::Last(Some(_))) => {
                        told = AfterServing::Last(take_one(&std::mem::take(listeners)));
                    }
                    Order::Leave if matches!(told, AfterServing::Nothing) => told = AfterServing::Last(None),
                    Order::LeaveLast | Order::Leave => {}
                }
            }
            Poll::Pending
        })
        .await;
        Ok(told)
    };
    block_on::block_on(serving, || service.before_wait())?
}

fn take_one(listeners: &Listeners) -> Option<(OwnedFd, SocketAddr)> {
    listeners.iter().find_map(|listener| match accept(listener) {
        Accept::Taken(socket, peer) => Some((socket, peer)),
        Accept::Nothing | Accept::Gone | Accept::Shortage(_) => None,
    })
}

fn poll_order(orders: &Watched, signals: &SignalFd, cx: &mut Context<'_>) -> Poll<Order> {
    loop {
        let Ok(mut ready) = ready!(orders.poll_read_ready(cx)) else { return Poll::Pending };
        match Order::next(signals) {
            Some(order) => return Poll::Ready(order),
            None => ready.clear_ready(),
        }
    }
}
