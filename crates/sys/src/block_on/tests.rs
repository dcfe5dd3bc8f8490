//! Tests of the executor.

use std::future::poll_fn;
use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;
use crate::watch::{Interest, watch};

#[test]
fn another_thread_wakes() {
    let (send, receive) = std::sync::mpsc::channel::<Waker>();
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let other = std::thread::spawn({
        let done = done.clone();
        move || {
            // Only this makes it ready; there is no descriptor and no deadline.
            let waker = receive.recv().expect("a waker");
            done.store(true, std::sync::atomic::Ordering::Release);
            waker.wake();
        }
    });
    let task = poll_fn(|cx| match done.load(std::sync::atomic::Ordering::Acquire) {
        true => Poll::Ready(()),
        false => {
            let _ = send.send(cx.waker().clone());
            Poll::Pending
        }
    });
    block_on(task, || ()).expect("poll");
    other.join().expect("the other thread");
    // A task that nobody else can wake needs no event, and the event from before serves the next task of this thread.
    assert!(EVENT.with(|event| event.get().is_some_and(|event| Arc::strong_count(event) == 1)));
}

#[test]
fn helpers_are_polled_beside_the_task() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the drops of a future.
    struct Dropped(Arc<AtomicUsize>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let dropped = Arc::new(AtomicUsize::new(0));
    let never = |dropped: &Arc<AtomicUsize>| {
        let dropped = Dropped(dropped.clone());
        async move {
            std::future::pending::<()>().await;
            drop(dropped);
        }
    };
    assert!(add_helper(never(&dropped)).is_err(), "no task is polled here");
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 1);
    theirs.set_nonblocking(true).expect("non-blocking");
    let theirs = Arc::new(OwnedFd::from(theirs));
    let task = async {
        let unwanted = add_helper(never(&dropped)).ok().expect("a helper");
        drop(unwanted);
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "at once");
        let _last = add_helper(never(&dropped)).ok().expect("a helper");
        // A helper that adds another one, which writes the bytes that the task waits for.
        let _first = add_helper(async move {
            let inner = add_helper(async move {
                (&ours).write_all(b"x").expect("write");
            });
            std::future::pending::<()>().await;
            drop(inner);
        });
        let watched = watch(theirs.clone(), Interest::READABLE).expect("watch");
        watched.readable().await.map(|_| ())
    };
    assert!(block_on(task, || ()).is_ok_and(|read| read.is_ok()));
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "the task has ended, and so have its helpers");
}

#[test]
fn a_task_waits_for_descriptors_and_deadlines() {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("non-blocking");
    let theirs = Arc::new(OwnedFd::from(theirs));
    let mut waits = 0;
    let mut turns = 0;
    let read = block_on(
        async {
            let watched = watch(theirs.clone(), Interest::READABLE).expect("watch");
            let begin = Instant::now();
            let end = begin + Duration::from_millis(20);
            poll_fn(|cx| match watched.poll_read_ready(cx) {
                Poll::Ready(_) => panic!("nothing was written yet"),
                Poll::Pending if has_passed(end) == Some(true) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            })
            .await;
            assert!(begin.elapsed() >= Duration::from_millis(20));
            ours.write_all(b"x").expect("write");
            let mut bytes = Vec::with_capacity(8);
            loop {
                let mut ready = watched.readable().await.expect("ready");
                if let Some(read) = ready.try_io(|fd| crate::file::read_into(fd, &mut bytes)) {
                    break read.expect("read");
                }
            }
        },
        || waits += 1,
    );
    assert_eq!(read.expect("poll"), 1);
    assert!(waits >= 2, "{waits}");
    // A task that wakes itself is polled again without waiting for anything.
    let woken = block_on(
        poll_fn(|cx| {
            turns += 1;
            cx.waker().wake_by_ref();
            if turns == 3 { Poll::Ready(()) } else { Poll::Pending }
        }),
        || (),
    );
    assert!(woken.is_ok() && !is_present());
}

#[test]
fn the_end_of_a_descriptor_is_something_to_read() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    drop(ours);
    let read = block_on(
        async {
            let watched = watch(Arc::new(theirs.into()), Interest::READABLE).expect("watch");
            watched.readable().await.map(|_| ())
        },
        || (),
    );
    assert!(read.is_ok_and(|ready| ready.is_ok()));
}
