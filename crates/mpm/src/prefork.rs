//! prefork: a child serves one connection at a time, from its first byte to its last.
//!
//! A waiting child costs little: it sleeps in an epoll of its own on the shared listeners, and an event wakes one of the
//! sleepers. The runtime that polls the connection is made with the first connection.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conf::{Face, Notice, Slots};
use seam::scoreboard::Rows;
use sys::poll::{Poller, readable};
use sys::signal::SignalFd;
use sys::time::monotonic;
use sys::watch::{Watched, watch};
use tokio::io::Interest;
use tokio::runtime::Runtime;

use crate::accept::{Accept, Shortage, accept};
use crate::child::{Child, LAST_ROUND, Order, exit_status};
use crate::limits::{Plan, When, prefork};
use crate::policy::Counts;
use crate::{Mpm, Words, stages, tables};

/// The module.
pub(crate) struct Prefork;

impl Mpm for Prefork {
    fn face(&self) -> &'static Face {
        &tables::PREFORK
    }

    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn plan(&self, settings: &Slots, when: When) -> (Plan, Vec<Notice>) {
        prefork(self.face().log_name(), settings, when)
    }

    fn rows(&self) -> Rows {
        Rows::OfOne
    }

    fn serve(&self, child: Child) -> i32 {
        exit_status(child.log_name, Server::new(child).and_then(|mut server| server.serve()))
    }
}

static WORDS: Words = Words {
    configured: "AH00163: ",
    built: "AH00164: ",
    terminated: "AH00169: caught SIGTERM, shutting down",
    graceful_stop: "AH00170: caught SIGWINCH, shutting down gracefully",
    graceful: "AH00171: Graceful restart requested, doing restart",
    restart: "AH00173: SIGHUP received.  Attempting to restart",
    cannot_fork: "AH00159: fork: Unable to fork new process",
    limit_reached: "AH00161: server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
    limit_near: None,
    busy: |rate, _spawned, Counts { idle, children, .. }| {
        format!(
            "AH00162: server seems busy, (you may need to increase StartServers, or Min/MaxSpareServers), spawning {rate} \
             children, there are {idle} idle, and {children} total children"
        )
    },
};

/// The token of the orders; listeners have their numbers.
const ORDERS: u64 = u64::MAX;

struct Server {
    child: Child,
    poller: Poller,
    engine: Option<Engine>,
    shortage: Shortage,
    /// Until when it accepts what is there without waiting, and then ends.
    last_round: Option<Duration>,
}

/// Whether the child goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    End,
}

impl Server {
    fn new(child: Child) -> io::Result<Server> {
        let poller = Poller::new()?;
        poller.add(&child.signals, ORDERS)?;
        for (token, listener) in (0..).zip(child.listeners.iter()) {
            poller.add_exclusive(listener, token)?;
        }
        let shortage = Shortage::new(child.log_name);
        Ok(Server { child, poller, engine: None, shortage, last_round: None })
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            self.child.service.before_wait();
            let timeout = self.last_round.map(|_| Duration::ZERO);
            self.poller.wait(timeout, &mut ready)?;
            if ready.contains(&ORDERS) && self.obey() == Next::End {
                return Ok(());
            }
            let waiting = ready.iter().any(|token| *token != ORDERS);
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

    /// Orders that came while no connection was open.
    fn obey(&mut self) -> Next {
        while let Some(order) = Order::next(&self.child.signals) {
            match order {
                Order::LeaveLast => self.leave_last(),
                Order::Leave | Order::End => return Next::End,
            }
        }
        Next::Go
    }

    fn leave_last(&mut self) {
        seam::drain();
        self.last_round = Some(monotonic() + LAST_ROUND);
    }

    /// Accepts one connection, if one is there, and serves it.
    fn take(&mut self, listener: u64) -> io::Result<Next> {
        let Some(listener) = self.child.listeners.iter().nth(usize::try_from(listener).unwrap_or(usize::MAX)) else {
            return Ok(Next::Go);
        };
        let (socket, peer) = match accept(listener) {
            Accept::Taken(socket, peer) => (socket, peer),
            Accept::Nothing | Accept::Gone => return Ok(Next::Go),
            Accept::Shortage(error) => {
                let wait = self.shortage.wait(&error);
                readable(&self.child.signals, Some(wait))?;
                return Ok(Next::Go);
            }
        };
        self.shortage.over();
        let accepted = self.child.workers.accepted();
        let engine = match &mut self.engine {
            Some(engine) => engine,
            None => self.engine.insert(Engine::new(&self.child)?),
        };
        let order = engine.run(&self.child, socket, peer);
        match order {
            Some(Order::End | Order::Leave) => return Ok(Next::End),
            Some(Order::LeaveLast) => self.leave_last(),
            None => {}
        }
        let most = self.child.plan.max_connections;
        Ok(if most > 0 && accepted >= most { Next::End } else { Next::Go })
    }
}

/// What polls a connection. The orders are watched from inside its runtime too.
struct Engine {
    // Dropped before the runtime it is registered with.
    orders: Watched,
    runtime: Runtime,
}

impl Engine {
    fn new(child: &Child) -> io::Result<Engine> {
        let service = child.service;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || service.before_wait())
            .build()?;
        let orders = {
            let _inside = runtime.enter();
            watch(child.signals.descriptor(), Interest::READABLE)?
        };
        Ok(Engine { orders, runtime })
    }

    /// Serves one connection to its end, or until an order to end. Returns the last order that came meanwhile.
    fn run(&self, child: &Child, socket: OwnedFd, peer: SocketAddr) -> Option<Order> {
        self.runtime.block_on(async {
            let connection = stages::connect(child.service, &child.workers, socket, peer);
            let mut life = pin!(stages::run(connection, stages::Anywhere));
            let mut told = None;
            poll_fn(|cx| {
                if life.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                while let Poll::Ready(order) = self.poll_order(&child.signals, cx) {
                    seam::drain();
                    told = Some(order);
                    if order == Order::End {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending
            })
            .await;
            told
        })
    }

    fn poll_order(&self, signals: &SignalFd, cx: &mut Context<'_>) -> Poll<Order> {
        loop {
            let Ok(mut ready) = ready!(self.orders.poll_read_ready(cx)) else { return Poll::Pending };
            match Order::next(signals) {
                Some(order) => return Poll::Ready(order),
                None => ready.clear_ready(),
            }
        }
    }
}
