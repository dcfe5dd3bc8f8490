//! [`wake_state`](super::wake_state), [`readiness`](super::readiness) and [`inbox`](super::inbox) under the model checker: all
//! orders in which threads may run are tried.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
    pub(super) use loom::sync::{Arc, Mutex, MutexGuard};
    pub(super) use std::sync::{OnceLock, PoisonError};

    pub(super) use super::wakeup::Wakeup;

    pub(super) trait Raise {
        fn raise(&self);
    }

    impl Raise for loom::sync::Notify {
        fn raise(&self) {
            self.notify();
        }
    }
}

#[path = "inbox.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
#[allow(dead_code, reason = "what sends nothing is not tried")]
mod inbox;
#[path = "readiness.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
mod readiness;
#[path = "wake_state.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
mod wake_state;
#[path = "../block_on/wakeup.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
#[allow(dead_code, reason = "a loop needs less of it than block_on")]
mod wakeup;

use std::collections::VecDeque;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;
use loom::sync::atomic::AtomicUsize;

use crate::block_on::Direction;
use inbox::Inbox;
use readiness::{READ, READ_CLOSED, Readiness, WRITE};
use sync::{Arc, Mutex, Ordering};
use wake_state::WakeState;

/// Interrupts up to three threads at any point: trying more takes minutes.
fn in_all_orders(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

/// A task that is over once `events` things have happened, and how often it is in the list of tasks to poll next.
struct Model {
    wake_state: WakeState,
    happened: AtomicUsize,
    listed: Mutex<usize>,
}

impl Model {
    fn push(&self) {
        *self.listed.lock().expect("list") += 1;
    }

    /// Polls it as often as it is in the list. Returns whether it is over.
    fn poll_listed(&self, events: usize) -> bool {
        loop {
            {
                let mut listed = self.listed.lock().expect("list");
                assert!(*listed <= 1, "it is in the list once at most");
                if *listed == 0 {
                    return false;
                }
                *listed = 0;
            }
            self.wake_state.hold();
            if self.happened.load(Ordering::Relaxed) == events {
                return true;
            }
            if !self.wake_state.rest() {
                self.wake_state.call();
                self.push();
            }
        }
    }
}

/// If anything happens while a task is polled, it is polled again: none of these wake-ups is repeated.
#[test]
fn no_wake_up_of_a_task_is_lost() {
    for events in [1, 2] {
        in_all_orders(move || {
            let model = Model { wake_state: WakeState::ready(), happened: AtomicUsize::new(0), listed: Mutex::new(1) };
            let model = Arc::new(model);
            let threads: Vec<_> = (0..events)
                .map(|_| {
                    let model = model.clone();
                    loom::thread::spawn(move || {
                        model.happened.fetch_add(1, Ordering::Relaxed);
                        if model.wake_state.wake() {
                            model.push();
                        }
                    })
                })
                .collect();
            if model.poll_listed(events) {
                return;
            }
            threads.into_iter().for_each(|thread| thread.join().expect("thread"));
            // Everything has happened, so a task that is not in the list now will never be polled.
            assert!(model.poll_listed(events), "a wake-up was lost");
        });
    }
}

/// A thread sleeps when its inbox is empty; others send something. The checker fails if all threads sleep.
#[test]
fn nothing_that_is_sent_is_left() {
    for senders in [1, 2] {
        in_all_orders(move || {
            let event = Arc::new(Notify::new());
            let inbox = Arc::new(Inbox::new(event.clone()));
            for sender in 0..senders {
                let inbox = inbox.clone();
                loom::thread::spawn(move || inbox.push(sender));
            }
            let mut came = VecDeque::new();
            while came.len() < senders {
                if inbox.fall_asleep() {
                    event.wait();
                }
                inbox.take(&mut came);
            }
        });
    }
}

/// Wakes a thread that waits.
struct Rouse(Notify);

impl Wake for Rouse {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

/// The loop's thread reports that a descriptor can be read while another one is about to wait for that.
#[test]
fn a_waiter_for_a_descriptor_is_woken() {
    in_all_orders(|| {
        let readiness = Arc::new(Readiness::new());
        let says = readiness.clone();
        loom::thread::spawn(move || {
            let mut woken = Vec::new();
            says.set(READ | WRITE, &mut woken);
            woken.into_iter().for_each(Waker::wake);
        });
        let rouse = std::sync::Arc::new(Rouse(Notify::new()));
        let waker = Waker::from(rouse.clone());
        while readiness.poll(Direction::Read, &mut Context::from_waker(&waker)).is_pending() {
            rouse.0.wait();
        }
    });
}

/// A thread has read all there was, and clears the readiness while more comes: it reads that too.
#[test]
fn readiness_that_comes_meanwhile_is_kept() {
    in_all_orders(|| {
        let shared = Arc::new((Readiness::new(), AtomicUsize::new(0)));
        shared.0.set(READ, &mut Vec::new());
        let says = shared.clone();
        loom::thread::spawn(move || {
            says.1.store(1, Ordering::Relaxed);
            let mut woken = Vec::new();
            says.0.set(READ, &mut woken);
            woken.into_iter().for_each(Waker::wake);
        });
        let rouse = std::sync::Arc::new(Rouse(Notify::new()));
        let waker = Waker::from(rouse.clone());
        loop {
            match shared.0.poll(Direction::Read, &mut Context::from_waker(&waker)) {
                Poll::Pending => rouse.0.wait(),
                Poll::Ready(event) => {
                    if shared.1.load(Ordering::Relaxed) == 1 {
                        return;
                    }
                    shared.0.clear(Direction::Read, event);
                }
            }
        }
    });
}

/// The end stays, no matter which thread has read the bytes before it.
#[test]
fn an_end_is_never_cleared() {
    in_all_orders(|| {
        let readiness = Readiness::new();
        readiness.set(READ | READ_CLOSED, &mut Vec::new());
        let cx = &mut Context::from_waker(Waker::noop());
        for _ in 0..2 {
            let Poll::Ready(event) = readiness.poll(Direction::Read, cx) else { panic!("the end is there") };
            readiness.clear(Direction::Read, event);
        }
        assert!(readiness.poll(Direction::Write, cx).is_pending());
    });
}
