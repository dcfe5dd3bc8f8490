//! Tests of the pools, with an event loop that must not be blocked.

#![expect(clippy::disallowed_methods, reason = "an event loop is always there")]

use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::thread::ThreadId;

use sys::event_loop::{EventLoop, spawn};

use super::*;
use crate::executor::yield_now;

/// Runs a future in an event loop.
fn run<T>(future: impl Future<Output = T>) -> T {
    EventLoop::new(|| ()).and_then(|mut event_loop| event_loop.run(future)).expect("event loop")
}

fn here() -> ThreadId {
    thread::current().id()
}

#[test]
fn a_thread_that_serves_one_connection_does_the_job_itself() {
    let done = sys::block_on::block_on(offload(Load::Compute, here), || ());
    assert_eq!(done.ok(), Some(here()));
    // So does a thread that serves nobody, such as the parent: it must stay single-threaded.
    let polled = std::pin::pin!(offload(Load::Wait, here)).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(here()));
}

#[test]
fn an_event_loop_goes_on_meanwhile() {
    let (tell, told) = mpsc::channel();
    let both = async {
        // The job ends only when the loop has polled another task.
        spawn(async move {
            yield_now().await;
            tell.send(()).expect("the job waits");
        });
        offload(Load::Wait, move || (told.recv().is_ok(), here())).await
    };
    let (told, thread) = run(both);
    assert!(told && thread != here());
}

#[test]
fn a_panic_is_that_of_the_future() {
    let job = || run(offload(Load::Compute, || panic!("on purpose")));
    assert!(catch_unwind(AssertUnwindSafe(job)).is_err());
}

#[test]
fn abandoned_jobs_do_not_run() {
    static POOL: Pool = Pool::new(Load::Compute);
    // All threads are busy until they get a signal.
    let busy: Vec<_> = (0..POOL.threads_max())
        .map(|_| {
            let (tell, told) = mpsc::channel::<()>();
            let job = Arc::new(Job::new(move || told.recv().is_ok()));
            assert!(POOL.push(job.clone(), Some(Waker::noop())));
            (tell, job)
        })
        .collect();
    let (did, done) = mpsc::channel();
    let job = |did: &mpsc::Sender<()>| {
        let did = did.clone();
        Arc::new(Job::new(move || did.send(())))
    };
    let jobs: Vec<_> = (0..QUEUE_MAX).map(|_| job(&did)).collect();
    let queued = jobs.iter().filter(|job| POOL.push((*job).clone(), Some(Waker::noop()))).count();
    assert!(queued >= QUEUE_MAX - busy.len(), "{queued}");
    let (full, room) = mpsc::channel();
    assert!(!POOL.push(job(&did), Some(&Waker::from(Arc::new(Tell(Mutex::new(full)))))), "the queue is full");
    jobs[1..].iter().for_each(|job| job.give_up());
    busy.iter().for_each(|(tell, _)| tell.send(()).expect("a thread waits"));
    room.recv().expect("there is room again");
    assert!(POOL.push(job(&did), Some(Waker::noop())));
    drop(did);
    assert_eq!(done.iter().count(), 2, "the job that was not given up, and the one that came later");
}

#[test]
fn without_a_thread_a_job_is_done_in_place_unless_it_is_for_a_thread_alone() {
    static POOL: Pool = Pool::with(Load::Resolve, |_| Err(io::ErrorKind::WouldBlock.into()));
    let (did, done) = mpsc::channel();
    let job = || {
        let did = did.clone();
        Arc::new(Job::new(move || did.send(here())))
    };
    assert!(!POOL.push(job(), None));
    assert!(done.try_recv().is_err() && POOL.state().queue.is_empty(), "it was done, or will be");
    assert!(POOL.push(job(), Some(Waker::noop())));
    assert_eq!(done.try_recv(), Ok(here()));
}

struct Tell(Mutex<mpsc::Sender<()>>);

impl std::task::Wake for Tell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().expect("tell").send(());
    }
}
