//! Tests of the loop.

#![expect(clippy::disallowed_methods, reason = "the event loop itself")]

use std::future::pending;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::time::Duration;

use super::shared::present;
use super::*;
use crate::time::Instant;
use crate::watch::{Watched, watch, watch_exclusively};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn new() -> EventLoop {
    EventLoop::new(|| ()).expect("event loop")
}

fn run<T>(future: impl Future<Output = T>) -> T {
    new().run(future).expect("run")
}

/// Two ends, of which the second does not block.
fn pair() -> (UnixStream, Arc<OwnedFd>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("non-blocking");
    (ours, Arc::new(theirs.into()))
}

/// Waits until something holds, as a task that others wake.
async fn until(mut holds: impl FnMut(&mut Context<'_>) -> bool) {
    poll_fn(|cx| if holds(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Ready at a moment.
async fn passes(at: Instant) {
    let mut alarm = None;
    until(|cx| {
        let passed = Instant::now() >= at;
        alarm = (!passed).then(|| Alarm::new(at, cx.waker()));
        passed
    })
    .await;
}

/// Counts the drops of a future.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

#[test]
fn other_threads_wake_at_any_moment() {
    let (send, receive) = mpsc::channel::<(Waker, Arc<AtomicBool>)>();
    let other = std::thread::spawn(move || {
        for (round, (waker, done)) in (0..).zip(receive) {
            // Makes wake-ups come at all moments of the wait.
            (0..round % 100 * 50).for_each(|_| std::hint::spin_loop());
            done.store(true, Ordering::Release);
            waker.wake();
        }
    });
    // The main task, and one beside it.
    let rounds = |send: mpsc::Sender<(Waker, Arc<AtomicBool>)>| async move {
        for _ in 0..1000 {
            let done = Arc::new(AtomicBool::new(false));
            let mut asked = false;
            until(|cx| {
                if !std::mem::replace(&mut asked, true) {
                    send.send((cx.waker().clone(), done.clone())).expect("the other thread");
                }
                done.load(Ordering::Acquire)
            })
            .await;
        }
    };
    run(async {
        rounds(send.clone()).await;
        let task = spawn(rounds(send));
        while !task.is_over() {
            yield_now().await;
        }
    });
    other.join().expect("the other thread");
}

#[test]
fn a_wake_up_while_it_is_polled_is_not_lost() {
    let mut polls = 0;
    run(until(|cx| {
        polls += 1;
        cx.waker().wake_by_ref();
        polls == 3
    }));
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    run(async {
        let task = spawn(until(move |cx| {
            cx.waker().wake_by_ref();
            counted.fetch_add(1, Ordering::SeqCst) == 2
        }));
        while !task.is_over() {
            yield_now().await;
        }
    });
    assert_eq!(count(&polls), 3, "once for each wake-up");
}

#[test]
fn a_task_that_yields_runs_after_others_and_events() {
    let (mut ours, theirs) = pair();
    run(async {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = order.clone();
            move || order.lock().expect("order").push(what)
        };
        let (read, other, begun) = (note("event"), note("other"), note("begun"));
        let watched = watch(theirs, Interest::READABLE).expect("watch");
        spawn(async move {
            begun();
            watched.readable().await.expect("readable");
            read();
        });
        yield_now().await;
        ours.write_all(b"x").expect("write");
        spawn(async move { other() });
        yield_now().await;
        note("first")();
        assert_eq!(*order.lock().expect("order"), ["begun", "other", "event", "first"]);
    });
}

#[test]
fn all_that_a_look_finds_is_served_before_the_next_one() {
    let waits = Arc::new(AtomicUsize::new(0));
    let counted = waits.clone();
    let count_wait = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let mut event_loop = EventLoop::new(count_wait).expect("event loop");
    let served = Arc::new(AtomicUsize::new(0));
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..100).map(|_| pair()).unzip();
    let ready = served.clone();
    let main = async {
        for fd in theirs {
            let served = served.clone();
            spawn(async move {
                let watched = watch(fd, Interest::READABLE).expect("watch");
                watched.readable().await.expect("readable");
                served.fetch_add(1, Ordering::SeqCst);
            });
        }
        yield_now().await;
        ours.iter().for_each(|mut ours| ours.write_all(b"x").expect("write"));
        let before = count(&waits);
        passes(Instant::now() + Duration::from_millis(1)).await;
        while count(&ready) < 100 {
            yield_now().await;
        }
        count(&waits) - before
    };
    assert!(event_loop.run(main).expect("run") <= 2, "a look for each");
}

#[test]
fn deadlines_pass_in_their_order_and_move() {
    let begin = Instant::now();
    let at = move |milliseconds| begin + Duration::from_millis(milliseconds);
    run(async {
        let order = Arc::new(Mutex::new(Vec::new()));
        for milliseconds in [30, 10, 20, 0, 10] {
            let order = order.clone();
            spawn(async move {
                passes(at(milliseconds)).await;
                order.lock().expect("order").push(milliseconds);
            });
        }
        passes(at(40)).await;
        assert!(Instant::now() >= at(40));
        assert_eq!(*order.lock().expect("order"), [0, 10, 10, 20, 30]);
        // One far deadline comes near, one near deadline is forgotten, and one is dropped.
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let mut alarm = Alarm::new(begin + LONG, &waker);
        assert!(alarm.rings_by(begin + LONG) && !alarm.rings_by(at(0)));
        drop(Alarm::new(at(41), &waker));
        alarm.set(at(60), &waker);
        let mut polls = 0;
        until(|_| {
            polls += 1;
            Instant::now() >= at(60)
        })
        .await;
        assert_eq!(polls, 2, "only this one wakes");
        assert!(!alarm.rings_by(begin + LONG), "it has rung");
        alarm.set(begin + LONG, &waker);
        assert!(alarm.rings_by(begin + LONG));
        drop(alarm);
        assert_eq!(present().expect("present").timers.next(&mut Vec::new()), None, "nothing is left");
    });
}

#[test]
fn a_deadline_of_another_thread_ends_the_sleep() {
    let mut event_loop = new();
    let handle = event_loop.handle();
    let (send, receive) = mpsc::channel::<Waker>();
    let begin = Instant::now();
    let other = std::thread::spawn(move || {
        let _inside = handle.enter();
        let waker = receive.recv().expect("a waker");
        Alarm::new(begin + Duration::from_millis(20), &waker)
    });
    let main = async {
        let _far = Alarm::new(begin + LONG, Waker::noop());
        until(|cx| {
            let _ = send.send(cx.waker().clone());
            Instant::now() >= begin + Duration::from_millis(20)
        })
        .await;
    };
    event_loop.run(main).expect("run");
    assert!(begin.elapsed() < LONG / 2);
    drop(other.join().expect("the other thread"));
}

#[test]
fn an_aborted_task_is_dropped_by_the_loop() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let never = || {
        let dropped = Dropped(dropped.clone());
        async move {
            pending::<()>().await;
            drop(dropped);
        }
    };
    let mut event_loop = new();
    let main = async {
        // One task that was never polled, one that waits, and one that another thread aborts.
        let first = spawn(never());
        first.abort();
        let (second, third) = (spawn(never()), spawn(never()));
        yield_now().await;
        assert_eq!((count(&dropped), first.is_over(), second.is_over()), (1, true, false));
        second.abort();
        std::thread::spawn(move || third.abort()).join().expect("the other thread");
        while count(&dropped) < 3 {
            yield_now().await;
        }
        second.abort();
        // One task that nobody aborts.
        spawn(never());
        yield_now().await;
    };
    event_loop.run(main).expect("run");
    assert_eq!(count(&dropped), 3);
    drop(event_loop);
    assert_eq!(count(&dropped), 4, "it goes with the loop");
}

#[test]
fn a_panic_ends_one_task() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mine = Dropped(dropped.clone());
    run(async {
        let task = spawn(async move {
            let _mine = mine;
            panic!("on purpose");
        });
        while !task.is_over() {
            yield_now().await;
        }
    });
    assert_eq!(count(&dropped), 1);
}

#[test]
fn a_task_that_ends_while_it_is_woken_is_not_polled_again() {
    for _ in 0..200 {
        let (send, receive) = mpsc::channel::<Waker>();
        let other = std::thread::spawn(move || receive.iter().for_each(Waker::wake));
        run(async {
            let mut polls = 0;
            let task = spawn(until(move |cx| {
                let _ = send.send(cx.waker().clone());
                polls += 1;
                polls == 2
            }));
            while !task.is_over() {
                yield_now().await;
            }
        });
        other.join().expect("the other thread");
    }
}

#[test]
fn tasks_go_on_in_a_further_run() {
    let mut event_loop = new();
    let done = Arc::new(AtomicUsize::new(0));
    let counted = done.clone();
    event_loop.handle().spawn(async move {
        for _ in 0..3 {
            counted.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
        }
    });
    assert_eq!(count(&done), 0);
    for _ in 0..4 {
        event_loop.run(yield_now()).expect("run");
    }
    assert_eq!(count(&done), 3);
    assert!(!is_present());
}

#[test]
fn a_descriptor_says_what_has_come() {
    let (mut ours, theirs) = pair();
    run(async {
        let watched = watch(theirs, Interest::READABLE | Interest::WRITABLE).expect("watch");
        let mut bytes = Vec::with_capacity(8);
        let mut read = async || loop {
            if let Some(read) =
                watched.readable().await.expect("ready").try_io(|fd| crate::file::read_into(fd, &mut bytes))
            {
                break read.expect("read");
            }
        };
        for _ in 0..3 {
            ours.write_all(b"x").expect("write");
            assert_eq!(read().await, 1);
        }
        // A descriptor at its end stays so, even after a short read cleared the readiness.
        ours.write_all(b"yy").expect("write");
        drop(ours);
        assert_eq!((read().await, read().await, read().await), (2, 0, 0));
        std::future::poll_fn(|cx| watched.poll_failed(cx)).await.expect("it has hung up");
    });
}

/// The number of a closed descriptor soon belongs to another one.
#[test]
fn events_of_a_closed_descriptor_do_not_reach_its_successor() {
    run(async {
        let is_ready = |watched: &Watched| watched.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_ready();
        let (mut ours, theirs) = pair();
        let number = std::os::fd::AsRawFd::as_raw_fd(&theirs);
        let twin = theirs.try_clone().expect("dup");
        let before = watch(theirs, Interest::READABLE).expect("watch");
        ours.write_all(b"x").expect("write");
        // Its event is on the way, and it has a twin that keeps the connection.
        drop(before);
        let (other, theirs) = pair();
        let moved = rustix::io::fcntl_dupfd_cloexec(theirs.as_fd(), number).expect("dup");
        let after = watch(Arc::new(moved), Interest::READABLE).expect("watch");
        yield_now().await;
        assert!(!is_ready(&after));
        drop(other);
        after.readable().await.expect("the end");
        drop(twin);
    });
}

/// How often a thread of this process went to sleep, and whether it sleeps now.
fn sleeps(thread: i32) -> (u64, bool) {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    (field("voluntary_ctxt_switches:").parse().unwrap_or_default(), field("State:").starts_with('S'))
}

/// One of the sleeping processes wakes.
#[test]
fn one_of_those_that_watch_exclusively_is_woken() {
    const THREADS: usize = 4;
    const TIMES: usize = 20;
    let event = EventFd::new().expect("event");
    let (say, said) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    for _ in 0..THREADS {
        let (event, say, tell) = (event.clone(), say.clone(), tell.clone());
        std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("number");
            run(async {
                let watched = watch_exclusively(event.descriptor()).expect("watch");
                loop {
                    watched.readable().await.expect("ready").clear_ready();
                    if event.lower() && say.send(()).is_err() {
                        return;
                    }
                }
            });
        });
    }
    let threads: Vec<i32> = told.iter().take(THREADS).collect();
    let all_sleep = || {
        let end = Instant::now() + LONG;
        while !threads.iter().all(|thread| sleeps(*thread).1) {
            assert!(Instant::now() < end, "they do not sleep");
            std::thread::yield_now();
        }
    };
    let count = || threads.iter().map(|thread| sleeps(*thread).0).sum::<u64>();
    all_sleep();
    let before = count();
    for _ in 0..TIMES {
        event.raise();
        said.recv_timeout(LONG).expect("one is woken");
        all_sleep();
    }
    // Some sleep for other reasons, such as a lock.
    let slept = count() - before;
    assert!(slept < (2 * TIMES) as u64, "{slept} sleeps");
    drop(said);
    (0..THREADS).for_each(|_| event.raise());
}

#[test]
fn a_wait_without_anything_to_wait_for_is_an_error() {
    let (_ours, theirs) = pair();
    assert!(watch(theirs, Interest::READABLE).is_err());
    assert!(!is_present());
}
