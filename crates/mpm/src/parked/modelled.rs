//! [`signal`](super::signal), made of the model checker's parts: all orders in which threads may run are tried.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
}

#[path = "signal.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
mod signal;

use loom::sync::atomic::AtomicUsize;
use loom::sync::{Arc, Mutex};
use signal::Signal;
use sync::Ordering;

/// A connection that is over once `events` things have happened, and the list of those that the listener polls next: how
/// often it is in there.
struct Model {
    signal: Signal,
    happened: AtomicUsize,
    listed: Mutex<usize>,
}

impl Model {
    fn push(&self) {
        *self.listed.lock().expect("list") += 1;
    }

    /// As the listener: polls it as often as it is in the list. Returns whether it is over.
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
            self.signal.hold();
            if self.happened.load(Ordering::Relaxed) == events {
                return true;
            }
            if !self.signal.rest() {
                self.signal.call();
                self.push();
            }
        }
    }
}

/// Whatever happens while the listener polls, it finds it: none of these wake-ups comes again.
#[test]
fn no_wake_up_of_a_connection_is_lost() {
    for events in [1, 2] {
        let mut model = loom::model::Builder::new();
        // Up to three threads are interrupted at any point: to try more takes minutes.
        model.preemption_bound = Some(3);
        model.check(move || {
            let signal = Signal::ready();
            let model = Arc::new(Model { signal, happened: AtomicUsize::new(0), listed: Mutex::new(1) });
            let threads: Vec<_> = (0..events)
                .map(|_| {
                    let model = model.clone();
                    loom::thread::spawn(move || {
                        model.happened.fetch_add(1, Ordering::Relaxed);
                        if model.signal.wake() {
                            model.push();
                        }
                    })
                })
                .collect();
            if model.poll_listed(events) {
                return;
            }
            threads.into_iter().for_each(|thread| thread.join().expect("thread"));
            // All has happened, and what is not in the list now will never be polled.
            assert!(model.poll_listed(events), "a wake-up was lost");
        });
    }
}
