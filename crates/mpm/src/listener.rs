//! The listener: an event loop that accepts connections and follows the parent's orders. The module decides what
//! happens to a connection ([`Dispatcher`]).

mod acceptor;
mod dispatcher;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use runtime::executor::{sleep, timeout};
use runtime::{Service, Tidying};
use sys::event_loop::EventLoop;
use sys::signal_fd::SignalFd;
use sys::time::monotonic;
use sys::watch::{Interest, Watched, watch};

use crate::child::{Child, Order, SUCCESSION};
use acceptor::Acceptor;

pub(crate) use dispatcher::{Dispatcher, MAKE_ROOM};

/// How soon a child that leaves checks whether its last connection has closed: first after this, then after twice that,
/// and so on. A client may take hours for a download.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_AGAIN: Duration = Duration::from_millis(640);
/// How long workers in the middle of a response may go on after an order to end, so that the log records what clients
/// have received; and how often they are checked.
const LAST_WORDS: Duration = Duration::from_millis(100);
const LISTEN_AGAIN: Duration = Duration::from_millis(1);

/// The event loop of a child. Before each wait, the service writes its buffered output.
pub(crate) fn event_loop(service: &'static dyn Service) -> io::Result<EventLoop> {
    EventLoop::new(move || service.before_wait())
}

/// Accepts until an order to leave comes, then waits for the last connection. An order to end ends it at once.
pub(crate) async fn live(child: Child, dispatcher: Arc<impl Dispatcher>) -> io::Result<()> {
    let signals = child.signals.clone();
    let orders = Orders { ready: watch(signals.descriptor(), Interest::READABLE)?, signals };
    let mut acceptor = Acceptor::open(child, dispatcher.clone())?;
    let tidying = acceptor.tidy();
    let mut order = orders.next_beside(acceptor.attend(), tidying).await?;
    if order != Order::End {
        order = leave(order, &orders, acceptor, &*dispatcher).await?;
    }
    if order == Order::End {
        last_words(&*dispatcher).await;
    }
    Ok(())
}

/// Stops accepting, and waits for the last connection or an order to end.
async fn leave<H: Dispatcher>(
    mut order: Order,
    orders: &Orders,
    mut acceptor: Acceptor<H>,
    dispatcher: &H,
) -> io::Result<Order> {
    runtime::drain();
    acceptor.quiesce();
    if order == Order::Leave && acceptor.close() {
        // The other children were called to the waiting connections. But this child may have been the only one woken
        // for them, and where another program takes over none hears the call. So after a moment it takes what is left.
        if let Ok(next) = timeout(SUCCESSION, orders.next()).await {
            order = next?;
        }
        acceptor.take_first();
    }
    match order {
        Order::End => return Ok(order),
        Order::LeaveLast => acceptor.accept_pending(),
        Order::Leave => {}
    }
    drop(acceptor);
    let mut look = LOOK_FIRST;
    while dispatcher.is_serving() {
        if let Ok(next) = timeout(look, orders.next()).await
            && next? == Order::End
        {
            return Ok(Order::End);
        }
        look = (look * 2).min(LOOK_AGAIN);
    }
    Ok(order)
}

/// Gives workers in the middle of a response a moment to finish.
async fn last_words(dispatcher: &impl Dispatcher) {
    let end = monotonic() + LAST_WORDS;
    while dispatcher.is_answering() && monotonic() < end {
        sleep(LISTEN_AGAIN).await;
    }
}

/// The source of the parent's orders.
struct Orders {
    ready: Watched,
    signals: SignalFd,
}

impl Orders {
    async fn next(&self) -> io::Result<Order> {
        loop {
            let mut ready = self.ready.readable().await?;
            match Order::next(&self.signals) {
                Some(order) => return Ok(order),
                None => ready.clear_ready(),
            }
        }
    }

    /// The next order. Runs both tasks until it comes.
    async fn next_beside(&self, task: impl Future<Output = Infallible>, mut other: Tidying) -> io::Result<Order> {
        let (mut next, mut task) = (pin!(self.next()), pin!(task));
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Pending => match (task.as_mut().poll(cx), other.as_mut().poll(cx)) {
                (Poll::Pending, Poll::Pending) => Poll::Pending,
                (Poll::Ready(never), _) | (_, Poll::Ready(never)) => match never {},
            },
            order => order,
        })
        .await
    }
}
