//! Tasks beside the one that serves a connection.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use sys::block_on::Helper;
use sys::event_loop::{self, Spawned};

/// A future that is polled beside the one that spawned it. Dropping this ends it.
///
/// The task lives as long as this handle, but never longer than the connection that spawned it may be polled: a child of
/// prefork and a thread of worker poll it until that connection ends, then drop it. So keep anything that should
/// outlive a connection, such as an idle connection to a backend, as a [`Descriptor`](crate::executor::Descriptor),
/// without a task.
///
/// | | polled by | dropped |
/// |---|---|---|
/// | prefork, worker | the thread, after each poll of the connection | together with the handle, or with the connection |
/// | event | the listener | soon after the handle |
/// | percore | the event loop | soon after the handle |
#[derive(Debug)]
#[must_use = "a task ends when its handle is dropped"]
pub struct Task(#[expect(dead_code, reason = "it is there to be dropped")] Inner);

#[derive(Debug)]
enum Inner {
    Beside(#[expect(dead_code, reason = "it is there to be dropped")] Helper),
    Own(#[expect(dead_code, reason = "it is there to be dropped")] Abort),
}

#[derive(Debug)]
struct Abort(Spawned);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Polls `future` beside the current one until it ends or the [`Task`] is dropped. A panic ends the task only, and is
/// logged. Use it only in futures that an MPM polls.
#[expect(clippy::disallowed_methods, reason = "this is what is to be used instead")]
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Task {
    match sys::block_on::add_helper(caught(future)) {
        Ok(helper) => Task(Inner::Beside(helper)),
        Err(future) => Task(Inner::Own(Abort(event_loop::spawn(future)))),
    }
}

async fn caught(future: impl Future<Output = ()> + Send + 'static) {
    let mut future = pin!(future);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))).unwrap_or_else(|_| {
            crate::log!("core", Crit, "a panic in a task beside a connection: the task has ended");
            Poll::Ready(())
        })
    })
    .await;
}

/// Lets other ready tasks go first.
pub async fn yield_now() {
    sys::event_loop::yield_now().await;
}
