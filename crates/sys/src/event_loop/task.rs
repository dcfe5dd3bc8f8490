//! Tasks of an event loop.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use super::handle::Handle;
use super::shared::{Runnable, Shared, enqueue, present};
use super::slab::Number;
use super::wake_state::WakeState;

struct Task<F> {
    shared: Arc<Shared>,
    number: Number,
    wake_state: WakeState,
    /// The task should not be polled any more.
    unwanted: AtomicBool,
    over: AtomicBool,
    /// Locked by the loop's thread alone.
    future: Mutex<Option<F>>,
}

/// A task that was [spawned](Handle::spawn). Dropping this does not end it.
#[derive(Clone, Debug)]
pub struct Spawned(Arc<dyn Runnable>);

impl Spawned {
    /// Ends the task: its future is dropped soon, in the loop's thread.
    pub fn abort(&self) {
        self.0.clone().abort();
    }

    /// Whether its future was dropped.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

impl Handle {
    /// Makes the loop poll a future to its end. A panic ends that future only; callers that want to know have to watch
    /// for it.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Spawned {
        let shared = &self.0;
        let task = shared.tasks().insert_with(|number| {
            let task: Arc<dyn Runnable> = Arc::new(Task {
                shared: shared.clone(),
                number,
                wake_state: WakeState::ready(),
                unwanted: AtomicBool::new(false),
                over: AtomicBool::new(false),
                future: Mutex::new(Some(future)),
            });
            (task.clone(), task)
        });
        enqueue(task.clone());
        Spawned(task)
    }
}

/// Makes the loop that is present poll a future to its end, as [`Handle::spawn`] does.
///
/// # Panics
/// If no loop is present.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Spawned {
    Handle(present().expect("tasks are spawned within an event loop")).spawn(future)
}

impl<F: Future<Output = ()> + Send + 'static> Task<F> {
    fn future(&self) -> MutexGuard<'_, Option<F>> {
        self.future.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls it. Returns whether it has ended; a panic is an end too.
    fn poll(self: &Arc<Self>) -> bool {
        // SAFETY: this is `self` once more without a count, and is never dropped, so it gives nothing back.
        let waker = ManuallyDrop::new(Waker::from(unsafe { Arc::from_raw(Arc::as_ptr(self)) }));
        let mut future = self.future();
        let Some(future) = &mut *future else { return true };
        // SAFETY: the future is in an `Arc` that is never taken apart, and is dropped in place (`end`).
        let future = unsafe { Pin::new_unchecked(future) };
        let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(&waker))));
        polled.map_or(true, |polled| polled.is_ready())
    }
}

impl<F: Future<Output = ()> + Send + 'static> Runnable for Task<F> {
    fn run(self: Arc<Self>) {
        self.wake_state.hold();
        if self.unwanted.load(Ordering::Acquire) || self.poll() {
            self.end();
        } else if !self.wake_state.rest() {
            self.wake_state.call();
            enqueue(self);
        }
    }

    fn end(&self) {
        // A panic during the drop has nobody to reach.
        let _ = catch_unwind(AssertUnwindSafe(|| *self.future() = None));
        self.over.store(true, Ordering::Release);
        let _counted = self.shared.tasks().remove(self.number);
    }

    fn abort(self: Arc<Self>) {
        self.unwanted.store(true, Ordering::Release);
        self.wake();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl<F: Future<Output = ()> + Send + 'static> Wake for Task<F> {
    fn wake(self: Arc<Self>) {
        if self.wake_state.wake() {
            enqueue(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.wake_state.wake() {
            enqueue(self.clone());
        }
    }
}
