//! [`wakeup`](super::wakeup) under the model checker: all orders in which threads may run are tried.

mod sync {
    pub(super) use loom::sync::Arc;
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering, fence};
    pub(super) use std::sync::OnceLock;

    pub(super) trait Raise {
        fn raise(&self);
    }

    impl Raise for loom::sync::Notify {
        fn raise(&self) {
            self.notify();
        }
    }
}

#[path = "wakeup.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
#[allow(dead_code, reason = "an event loop needs more of it")]
mod wakeup;

use loom::sync::Notify;
use loom::sync::atomic::AtomicBool;
use sync::{Arc, Ordering};
use wakeup::{Before, Wakeup};

/// A thread polls a task that waits for `done`; others set it, and then wake the task. In no order may the thread sleep
/// for good: the checker fails if all threads sleep.
fn no_wake_up_is_lost(wakers: usize) {
    let mut model = loom::model::Builder::new();
    // Interrupts up to three threads at any point: trying more takes minutes.
    model.preemption_bound = Some(3);
    model.check(move || {
        let task = Arc::new((Wakeup::<Notify>::new(), AtomicBool::new(false)));
        let event = Arc::new(Notify::new());
        for _ in 0..wakers {
            let task = task.clone();
            loom::thread::spawn(move || {
                task.1.store(true, Ordering::Relaxed);
                task.0.wake();
            });
        }
        while !task.1.load(Ordering::Relaxed) {
            match task.0.before_wait(|| Arc::strong_count(&task) > 1, || Ok::<_, ()>(event.clone())) {
                Ok(Before::PollAgain) => {}
                Ok(Before::WaitFor(event)) => {
                    event.wait();
                    task.0.awake();
                }
                Ok(Before::WaitAlone) => panic!("nobody is left who could wake it"),
                Err(()) => unreachable!(),
            }
        }
    });
}

#[test]
fn no_wake_up_of_another_thread_is_lost() {
    no_wake_up_is_lost(1);
}

#[test]
fn nor_are_those_of_two_threads() {
    no_wake_up_is_lost(2);
}
