//! Wake-ups of parked connections, and which thread polls them.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::stages::PollSite;

/// A task for the tests, and how often it was polled.
fn task(life: impl Future<Output = ()> + Send + 'static) -> (Arc<Connections>, Arc<Task>) {
    let connections = Arc::new(Connections::default());
    let wake_state = WakeState::ready();
    wake_state.hold();
    let task = Arc::new(Task {
        life: Mutex::new(Some(Box::pin(life))),
        state: Arc::default(),
        wake_state,
        released: AtomicBool::new(false),
        is_for_any: AtomicBool::new(false),
        number: 0,
        connections: connections.clone(),
    });
    (connections, task)
}

fn ready(connections: &Connections) -> usize {
    connections.ready().tasks.len()
}

#[test]
fn a_wake_up_makes_a_parked_one_ready_once() {
    let (connections, task) = task(std::future::pending());
    assert!(task.state.change(Where::Serving, Where::Parked));
    assert_eq!(task.park(), PollOutcome::Parked);
    assert_eq!(ready(&connections), 0);
    task.wake_by_ref();
    task.wake_by_ref();
    assert_eq!(ready(&connections), 1);
    assert!(connections.poll_all(1, drop).is_empty());
    assert_eq!(ready(&connections), 0);
    task.wake_by_ref();
    assert_eq!(ready(&connections), 1);
}

#[test]
fn a_wake_up_while_it_is_polled_is_not_lost() {
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let (connections, task) = task(std::future::poll_fn(move |cx| {
        // The event loop wakes it before it is parked.
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }));
    assert!(task.state.change(Where::Serving, Where::Parked));
    assert_eq!(task.park(), PollOutcome::Parked);
    assert_eq!(ready(&connections), 1, "it is polled again");
    connections.poll_all(1, drop);
    assert_eq!((ready(&connections), polls.load(Ordering::SeqCst)), (0, 2));
}

#[test]
fn a_stage_says_who_polls_it() {
    let state = Arc::new(ConnectionState::default());
    assert_eq!(state.poll_enter(Stage::Serve), Poll::Ready(()));
    assert_eq!(state.poll_enter(Stage::WriteCompletion), Poll::Pending);
    assert_eq!(state.poll_enter(Stage::WriteCompletion), Poll::Ready(()));
    assert_eq!(state.poll_enter(Stage::KeepAlive), Poll::Ready(()));
    assert_eq!(state.poll_enter(Stage::Serve), Poll::Pending);
    assert_eq!(state.poll_enter(Stage::Serve), Poll::Ready(()));
}

#[test]
fn only_those_are_closed_that_were_idle_before() {
    let (connections, task) = task(std::future::pending());
    connections.all().tasks.insert(0, Arc::downgrade(&task));
    let _ = task.state.poll_enter(Stage::KeepAlive);
    connections.close_idle(1);
    assert!(!task.state.is_unwanted());
    // The connection is polled meanwhile.
    let _ = task.state.poll_enter(Stage::Serve);
    let _ = task.state.poll_enter(Stage::KeepAlive);
    connections.close_idle(1);
    assert!(!task.state.is_unwanted());
    connections.close_idle(1);
    assert!(task.state.is_unwanted());
}

#[test]
fn a_panic_ends_one_connection() {
    let (_, task) = task(async { panic!("asked to") });
    assert_eq!(task.poll_serve(Waker::noop()), Poll::Ready(PollOutcome::Closed));
    assert_eq!(task.poll_serve(Waker::noop()), Poll::Ready(PollOutcome::Closed), "it stays closed");
}
