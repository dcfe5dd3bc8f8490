//! [`queue`](super::queue) and [`room`](super::room) under the model checker: all orders in which threads may run are
//! tried. A lost wake-up leaves a thread asleep for ever, which the checker finds.

mod sync {
    use loom::sync::Notify;
    use loom::sync::atomic::fence;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    #[derive(Debug)]
    pub(super) struct Rest(Notify);

    impl Rest {
        pub(super) fn new() -> Rest {
            Rest(Notify::new())
        }

        pub(super) fn begin(&self) {
            self.0.wait();
        }

        pub(super) fn end(&self) {
            self.0.notify();
        }
    }

    /// The checker treats `SeqCst` as `AcqRel`, except for fences.
    pub(super) fn in_order() {
        fence(Ordering::SeqCst);
    }
}

#[path = "queue.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "the same code, made of other parts")]
mod queue;
#[path = "room.rs"]
#[expect(clippy::duplicate_mod, reason = "the same code, made of other parts")]
mod room;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use queue::{Sleeper, ThreadPool};
use room::RoomWait;
use sync::{AtomicUsize, Ordering};

/// Interrupts up to two threads at any point: trying more takes minutes.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Counts wake-ups.
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The listener waits for room while two workers give some back: it finds the room, or is woken.
#[test]
fn no_room_is_overlooked() {
    check(|| {
        let shared = Arc::new((RoomWait::default(), AtomicUsize::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.1.fetch_add(1, Ordering::SeqCst);
                    shared.0.update(|| shared.1.load(Ordering::SeqCst));
                })
            })
            .collect();
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let cx = &mut Context::from_waker(&waker);
        let mut polled = Poll::Pending;
        // After a useless wake-up it asks again.
        for _ in 0..2 {
            polled = shared.0.poll(cx, || shared.1.load(Ordering::SeqCst));
            if polled.is_ready() {
                break;
            }
        }
        workers.into_iter().for_each(|worker| worker.join().expect("worker"));
        assert!(polled.is_ready() || woken.0.load(Ordering::SeqCst) > 0, "there is room, and nobody said so");
    });
}

/// Somebody takes the room away again before the listener has come: the listener waits again, and is woken again.
#[test]
fn a_late_waiter_is_woken_again() {
    check(|| {
        let shared = Arc::new((RoomWait::default(), AtomicUsize::new(0)));
        let worker = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                for add in [true, false, true] {
                    match add {
                        true => shared.1.fetch_add(1, Ordering::SeqCst),
                        false => shared.1.fetch_sub(1, Ordering::SeqCst),
                    };
                    shared.0.update(|| shared.1.load(Ordering::SeqCst));
                }
            })
        };
        let me = Sleeper::new();
        let waker = Waker::from(me.clone());
        let cx = &mut Context::from_waker(&waker);
        while shared.0.poll(cx, || shared.1.load(Ordering::SeqCst)).is_pending() {
            me.wait();
        }
        worker.join().expect("worker");
    });
}

/// A job for a thread of the model.
enum Job {
    Nothing,
    /// Waits until somebody else has done something.
    Wait,
}

/// Each of two threads does one of two jobs that are pushed one by one: no job stays in the queue while a thread
/// sleeps.
#[test]
fn no_job_is_left_to_sleepers() {
    check(|| {
        let pool = Arc::new(ThreadPool::new(2, 2));
        let threads = each_takes_one(&pool, || ());
        for _ in 0..2 {
            pool.push([Job::Nothing].into_iter());
        }
        threads.into_iter().for_each(|thread| thread.join().expect("thread"));
        assert!(pool.is_idle() && pool.standing().is_none());
    });
}

/// One thread is kept running at a time. The thread that waits for the other job lets the other thread do it.
#[test]
fn a_waiting_worker_is_replaced() {
    check(|| {
        let pool = Arc::new(ThreadPool::new(2, 1));
        let done = Arc::new(loom::sync::Notify::new());
        let (waits, tells) = (done.clone(), done);
        let threads = each_takes(&pool, move |job| match job {
            Job::Wait => waits.wait(),
            Job::Nothing => tells.notify(),
        });
        pool.push([Job::Wait, Job::Nothing].into_iter());
        threads.into_iter().for_each(|thread| thread.join().expect("thread"));
    });
}

/// Two threads each take one job and do it; a thread that waits says so.
fn each_takes(
    pool: &Arc<ThreadPool<Job>>,
    run: impl Fn(Job) + Clone + Send + 'static,
) -> Vec<loom::thread::JoinHandle<()>> {
    let thread = |_| {
        let (pool, run) = (pool.clone(), run.clone());
        loom::thread::spawn(move || {
            let me = Sleeper::new();
            match pool.next(&me, || ()) {
                Job::Wait => pool.waits(|| run(Job::Wait)),
                job => run(job),
            }
            pool.done(|| 1);
        })
    };
    (0..2).map(thread).collect()
}

fn each_takes_one(
    pool: &Arc<ThreadPool<Job>>,
    then: impl Fn() + Clone + Send + 'static,
) -> Vec<loom::thread::JoinHandle<()>> {
    each_takes(pool, move |_| then())
}
