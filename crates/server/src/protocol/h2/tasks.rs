//! What a connection's streams wait for: the futures that serve them, and responses that are expected. Each is polled only when it
//! was woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use runtime::executor::Timer;

use super::expected::Expecting;
use super::stream::NewStream;

/// The future of a stream, from its head to its end.
pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many places a connection keeps while it has no streams.
const KEPT: usize = 2;

/// What is done for a connection's streams, and the wakers of whatever else drives it.
pub(super) struct Tasks {
    ready_list: Arc<ReadyList>,
    places: Vec<Place>,
    free: Vec<usize>,
    /// How many of the others have a future.
    futures: usize,
    /// The places to poll in this round.
    round: Vec<usize>,
    /// Requests whose responses were expected, and that need a future now.
    unfinished: Vec<NewStream>,
}

/// What is done for a stream.
enum Work {
    Future(Task),
    Expecting(Expecting),
}

/// A place for a stream.
struct Place {
    work: Option<Work>,
    /// Smaller values go first (RFC 9218).
    urgency: u8,
    wake_event: Arc<WakeEvent>,
    waker: Waker,
    /// For responses that are expected here.
    timer: Timer,
}

/// The tasks that were woken.
#[derive(Default)]
struct ReadyList {
    ready: Mutex<Ready>,
}

#[derive(Default)]
struct Ready {
    places: Vec<usize>,
    /// The waker of the connection's own future, while it waits.
    sleeper: Option<Waker>,
}

/// The waker of one place.
struct WakeEvent {
    ready_list: Arc<ReadyList>,
    place: usize,
    is_rung: AtomicBool,
}

/// The place of the protocol itself, which is no stream.
const OUTSIDE: usize = usize::MAX;

impl ReadyList {
    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for WakeEvent {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let sleeper = {
            let mut ready = self.ready_list.lock();
            ready.places.push(self.place);
            ready.sleeper.take()
        };
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

/// A waker that belongs to no stream, and whether it was called.
pub(super) struct Outside {
    wake_event: Arc<WakeEvent>,
    waker: Waker,
}

impl Outside {
    /// Whether the waker was called since the last time this was asked.
    pub(super) fn was_called(&self) -> bool {
        self.wake_event.is_rung.swap(false, Ordering::AcqRel)
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Tasks {
    pub(super) fn new() -> Tasks {
        Tasks {
            ready_list: Arc::default(),
            places: Vec::new(),
            free: Vec::new(),
            futures: 0,
            round: Vec::new(),
            unfinished: Vec::new(),
        }
    }

    /// A waker for code that is polled beside the streams.
    pub(super) fn outside(&self) -> Outside {
        let wake_event = self.wake_event(OUTSIDE);
        Outside { waker: Waker::from(wake_event.clone()), wake_event }
    }

    fn wake_event(&self, place: usize) -> Arc<WakeEvent> {
        Arc::new(WakeEvent { ready_list: self.ready_list.clone(), place, is_rung: AtomicBool::new(false) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Whether nothing but expected responses is waited for.
    pub(super) fn only_expect(&self) -> bool {
        self.futures == 0
    }

    /// Adds the future of a stream. The next round polls it before less urgent ones, which have greater numbers.
    pub(super) fn add(&mut self, task: Task, urgency: u8) {
        self.futures += 1;
        self.put(Work::Future(task), urgency);
    }

    /// Adds a response that is expected.
    pub(super) fn expect(&mut self, expecting: Expecting) {
        let urgency = expecting.urgency();
        self.put(Work::Expecting(expecting), urgency);
    }

    fn put(&mut self, work: Work, urgency: u8) {
        let at = self.free.pop().unwrap_or_else(|| {
            let wake_event = self.wake_event(self.places.len());
            let waker = Waker::from(wake_event.clone());
            self.places.push(Place { work: None, urgency, wake_event, waker, timer: Timer::default() });
            self.places.len() - 1
        });
        let place = &mut self.places[at];
        (place.work, place.urgency) = (Some(work), urgency);
        place.waker.wake_by_ref();
    }

    /// Takes the requests whose responses were not the expected ones, or that could not be sent at once.
    pub(super) fn take_unfinished(&mut self) -> Vec<NewStream> {
        std::mem::take(&mut self.unfinished)
    }

    /// Gives memory back while there are no streams.
    pub(super) fn rest(&mut self) {
        if self.is_empty() && self.places.len() > KEPT {
            self.places = self.places.drain(..KEPT).collect();
            self.free = (0..KEPT).collect();
            self.round = Vec::new();
        }
    }

    /// Polls the tasks that were woken. `all`: polls every task, because their wakers may not have been called.
    pub(super) fn poll_round(&mut self, all: bool) {
        std::mem::swap(&mut self.round, &mut self.ready_list.lock().places);
        if all {
            self.round.clear();
            self.round.extend(0..self.places.len());
        }
        let places = &self.places;
        let urgency = |at: &usize| places.get(*at).map(|place| place.urgency);
        self.round.sort_by_key(urgency);
        for at in 0..self.round.len() {
            self.poll_one(self.round[at]);
        }
        self.round.clear();
    }

    fn poll_one(&mut self, at: usize) {
        // Some waker may have outlived its stream.
        let Some(Place { work, wake_event, waker, timer, .. }) = self.places.get_mut(at) else { return };
        wake_event.is_rung.store(false, Ordering::Release);
        let mut cx = Context::from_waker(waker);
        match work {
            None => return,
            Some(Work::Future(task)) => {
                if task.as_mut().poll(&mut cx).is_pending() {
                    return;
                }
                *work = None;
                self.futures -= 1;
            }
            Some(Work::Expecting(expecting)) => {
                let Poll::Ready(answer) = expecting.poll(&mut cx, timer) else { return };
                if let Some(Work::Expecting(expecting)) = work.take() {
                    self.unfinished.extend(expecting.finish(&answer));
                }
            }
        }
        self.free.push(at);
    }

    /// Waits until a task or `outside` is woken; ready at once if one already was.
    pub(super) fn poll_woken(&self, outside: &Outside, cx: &mut Context<'_>) -> Poll<()> {
        let mut ready = self.ready_list.lock();
        // `outside` may have been woken while a round took the list.
        if !ready.places.is_empty() || outside.wake_event.is_rung.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        ready.sleeper = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicU32;

    use super::*;

    type Kept = Arc<Mutex<Option<Waker>>>;

    /// A task that counts its polls and keeps its waker.
    fn counting(polls: Arc<AtomicU32>, waker: Kept) -> Task {
        Box::pin(poll_fn(move |cx| {
            *waker.lock().expect("waker") = Some(cx.waker().clone());
            if polls.fetch_add(1, Ordering::Relaxed) == 2 { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    #[test]
    fn only_those_are_polled_that_were_woken() {
        let mut tasks = Tasks::new();
        let all: Vec<(Arc<AtomicU32>, Kept)> = (0..3).map(|_| Default::default()).collect();
        all.iter().for_each(|(polls, waker)| tasks.add(counting(polls.clone(), waker.clone()), 3));
        let polls = || all.iter().map(|(polls, _)| polls.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let wake = |one: usize| all[one].1.lock().expect("waker").as_ref().expect("a waker").wake_by_ref();
        let mut cx = Context::from_waker(Waker::noop());
        let outside = tasks.outside();
        assert!(tasks.poll_woken(&outside, &mut cx).is_ready());
        tasks.poll_round(false);
        assert_eq!((polls(), tasks.poll_woken(&outside, &mut cx)), (vec![1, 1, 1], Poll::Pending));
        wake(1);
        wake(1);
        tasks.poll_round(false);
        assert_eq!(polls(), [1, 2, 1]);
        tasks.poll_round(true);
        assert_eq!((polls(), tasks.is_empty()), (vec![2, 3, 2], false), "one has ended");
        tasks.poll_round(true);
        assert!(tasks.is_empty());
    }

    #[test]
    fn the_urgent_go_first() {
        let mut tasks = Tasks::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        for (number, urgency) in [3, 7, 0, 3].into_iter().enumerate() {
            let order = order.clone();
            tasks.add(Box::pin(async move { order.lock().expect("order").push(number) }), urgency);
        }
        tasks.poll_round(false);
        assert_eq!(*order.lock().expect("order"), [2, 0, 3, 1]);
    }

    #[test]
    fn a_wake_from_outside_ends_the_wait() {
        let mut tasks = Tasks::new();
        let outside = tasks.outside();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!((tasks.poll_woken(&outside, &mut cx), outside.was_called()), (Poll::Pending, false));
        outside.waker().wake_by_ref();
        tasks.poll_round(false);
        assert!(tasks.poll_woken(&outside, &mut cx).is_ready(), "a round does not hide it");
        assert_eq!((outside.was_called(), outside.was_called()), (true, false));
    }
}
