//! Threads that take jobs, wait, panic, and are woken.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::HelperProcess;
use sys::cred::Identity;

use super::*;

/// A job of the tests.
enum Job {
    /// Reports which thread does it.
    Tell(Sender<std::thread::ThreadId>),
    /// Works until something comes.
    Work(Receiver<()>),
    /// Waits, as for a script, until something comes.
    Wait(Receiver<()>),
    Panic,
}

struct Jobs(ThreadPool<Job>);

struct Nothing;

impl Service for Nothing {
    fn connect(&'static self, _: runtime::Accepted) -> Box<dyn runtime::Connection> {
        unreachable!("nobody connects")
    }
    fn child_started(&self, _: usize) {}
    fn helpers(&self, _: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        Ok(Vec::new())
    }
    fn before_wait(&self) {}
    fn before_pass(&self) {}

    fn before_end(&self) {}
}

impl Work for Jobs {
    type Job = Job;
    type Tools<'a> = ();

    fn pool(&self) -> &ThreadPool<Job> {
        &self.0
    }
    fn service(&self) -> &dyn Service {
        &Nothing
    }
    fn tools(&self, _: usize) {}
    fn run(&self, _: &mut (), job: Job) {
        match job {
            Job::Tell(to) => to.send(std::thread::current().id()).expect("somebody listens"),
            Job::Work(until) => until.recv().expect("somebody ends it"),
            Job::Wait(until) => self.0.waits(|| until.recv().expect("somebody ends it")),
            Job::Panic => panic!("asked to"),
        }
    }
    fn room(&self) -> usize {
        self.0.idle()
    }
}

/// A pool in which every thread sleeps.
fn pool(size: usize, at_once: usize) -> Arc<Jobs> {
    let jobs = Arc::new(Jobs(ThreadPool::new(size, at_once)));
    start(&jobs, None, "test").expect("threads");
    while jobs.0.state().asleep.len() < size {
        std::thread::yield_now();
    }
    jobs
}

const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn a_job_that_works_holds_the_others_up_until_somebody_reinforces() {
    let jobs = pool(3, 1);
    let (end, until) = channel();
    let (to, told) = channel();
    jobs.0.push([Job::Work(until)].into_iter());
    jobs.0.push([Job::Tell(to.clone()), Job::Tell(to)].into_iter());
    // The thread that is awake is at work, so no other would take the rest.
    assert_eq!((jobs.0.state().asleep.len(), told.try_recv().is_err()), (2, true), "one is kept running at a time");
    assert!(jobs.0.standing().is_some());
    assert_eq!(jobs.0.idle(), 0);
    jobs.0.reinforce();
    let (first, second) = (told.recv_timeout(DEADLINE), told.recv_timeout(DEADLINE));
    assert!(first.is_ok() && first == second, "whoever was woken takes one job after the other");
    end.send(()).expect("it works");
    while !jobs.0.is_idle() {
        std::thread::yield_now();
    }
    assert_eq!((jobs.0.idle(), jobs.0.standing()), (3, None));
}

#[test]
fn a_waiting_worker_lets_another_one_run() {
    let jobs = pool(2, 1);
    let (end, until) = channel();
    let (to, told) = channel();
    jobs.0.push([Job::Wait(until), Job::Tell(to)].into_iter());
    assert!(told.recv_timeout(DEADLINE).is_ok());
    end.send(()).expect("it waits");
}

#[test]
fn a_panic_costs_a_job_and_no_thread() {
    let jobs = pool(2, usize::MAX);
    jobs.0.push([Job::Panic, Job::Panic, Job::Panic].into_iter());
    let (to, told) = channel();
    jobs.0.push([Job::Tell(to)].into_iter());
    assert!(told.recv_timeout(DEADLINE).is_ok());
    while !jobs.0.is_idle() {
        std::thread::yield_now();
    }
    assert_eq!(jobs.0.idle(), 2);
}

#[test]
fn the_gate_opens_when_somebody_is_idle_again() {
    let jobs = pool(1, usize::MAX);
    let (end, until) = channel();
    jobs.0.push([Job::Work(until)].into_iter());
    let me = Sleeper::new();
    let waker = Waker::from(me.clone());
    let mut cx = Context::from_waker(&waker);
    assert_eq!(jobs.0.poll_room(&mut cx, || jobs.room()), Poll::Pending);
    assert!(!me.is_roused());
    end.send(()).expect("it works");
    me.wait();
    assert_eq!(jobs.0.poll_room(&mut cx, || jobs.room()), Poll::Ready(1));
}
