//! Data of responses between their streams and the wire: how much of a connection waits there.
//!
//! The protocol takes as much from a stream as the client's windows allow, and a client may open them as far as it
//! likes. So a connection has one limit for all of its streams: beyond it they wait, and read no further pieces of
//! their responses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};

/// Streams wait as long as so much of a connection is unsent, in bytes: enough to fill the wire while they are woken.
const MOST: usize = 192 * 1024;
/// Producers are woken when less than this is left: one wake-up for many frames.
const REFILL: usize = 64 * 1024;

/// The unsent data of a connection.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// What the protocol holds, in bytes.
    queued: AtomicUsize,
    /// What streams hold because they have to wait, in bytes.
    waiting: AtomicUsize,
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
}

impl Queue {
    /// All of it, in bytes.
    pub(super) fn held(&self) -> usize {
        self.queued.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }

    /// Ready if a stream may pass on more.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.queued.load(Ordering::Acquire) < MOST {
            return Poll::Ready(());
        }
        let mut waiters = self.waiters();
        if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiters.push(cx.waker().clone());
        }
        self.has_waiters.store(true, Ordering::Release);
        drop(waiters);
        if self.queued.load(Ordering::Acquire) < MOST { Poll::Ready(()) } else { Poll::Pending }
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn took(&self, bytes: usize) {
        let left = self.queued.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        if left < REFILL && self.has_waiters.swap(false, Ordering::AcqRel) {
            let woken = std::mem::take(&mut *self.waiters());
            woken.into_iter().for_each(Waker::wake);
        }
    }
}

/// Counts a piece that a stream holds while the client takes it.
pub(super) struct Holding<'q>(&'q Queue, usize);

impl<'q> Holding<'q> {
    pub(super) fn of(queue: &'q Queue, bytes: usize) -> Holding<'q> {
        queue.waiting.fetch_add(bytes, Ordering::Relaxed);
        Holding(queue, bytes)
    }

    /// So many bytes of it have been passed on.
    pub(super) fn less(&mut self, bytes: usize) {
        self.0.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.1 -= bytes;
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Data that is counted as long as the protocol holds it, whether it is sent or its stream is reset.
#[derive(Debug, Default)]
pub(super) struct Data {
    bytes: Bytes,
    queue: Option<Arc<Queue>>,
}

impl Data {
    pub(super) fn new(bytes: Bytes, queue: &Arc<Queue>) -> Data {
        queue.queued.fetch_add(bytes.len(), Ordering::AcqRel);
        Data { bytes, queue: Some(queue.clone()) }
    }
}

impl Buf for Data {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(queue) = &self.queue {
            queue.took(count);
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take().filter(|_| !self.bytes.is_empty()) {
            queue.took(self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn streams_wait_while_much_is_unsent() {
        let (queue, count) = (Arc::new(Queue::default()), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        let mut pieces: Vec<Data> = Vec::new();
        while queue.poll_room(&mut cx).is_ready() {
            pieces.push(Data::new(vec![0; 16 * 1024].into(), &queue));
        }
        assert_eq!(queue.held(), MOST);
        let holding = Holding::of(&queue, 1000);
        assert_eq!(queue.held(), MOST + 1000);
        drop(holding);
        // Sent in parts, or reset with their stream.
        pieces[0].advance(16 * 1024);
        pieces[1].advance(1);
        assert_eq!(queue.held(), MOST - 16 * 1024 - 1);
        assert_eq!(count.0.load(Ordering::Relaxed), 0, "not for each frame");
        pieces.clear();
        assert_eq!((queue.held(), count.0.load(Ordering::Relaxed)), (0, 1));
        assert!(queue.poll_room(&mut cx).is_ready());
    }
}
