//! Work that blocks, done beside the event loop.
//!
//! A thread that serves many connections must not block: while it hashes a password or asks a name server, it serves
//! nobody. [`offload`] hands such a job to a thread of a small pool. A thread that serves one connection at a time
//! (prefork, worker) does the job itself, at once: nobody else waits for that thread.
//!
//! Jobs whose results several requests may want at once, such as the digest of a file or the name of a client, go to a
//! thread under every MPM ([`offload_apart`]).
//!
//! Each process has one pool for each kind of [`Load`]. Its threads start on demand, and end after they have been idle
//! for [`IDLE`].

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::release_worker;

/// The reason a job takes time. Jobs of one kind never hold up those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Computes, as a password hash does. There are as many threads as processors.
    Compute,
    /// Reads a whole file and computes, as the digest of a file does.
    Digest,
    /// Waits for a disk, as reading a directory does.
    Wait,
    /// Waits for a name server.
    Resolve,
    /// Waits for a database.
    Database,
}

/// The most threads of a pool that waits. More would only help where name servers do not answer, and then nothing
/// helps.
const WAITING_MAX: usize = 16;
/// The most threads that ask name servers, some of which may answer while others do not.
const RESOLVING_MAX: usize = 32;
/// The most threads that ask databases; there may be several databases, too.
const ASKING_MAX: usize = 32;
/// How many jobs a pool's queue may hold. Further jobs wait with their connections until there is room, so there are
/// never more than this process has requests.
const QUEUE_MAX: usize = 1024;
/// The maximum stack of a thread that serves or helps to, in bytes. Only used pages cost memory, so less would save
/// nothing, and sections in sections, as deep as an access file may nest them, would end the child: an unoptimised build
/// needs more than 2 MiB for those. Apache's threads get the shell's limit, mostly 8 MiB.
pub const STACK: usize = 4 * 1024 * 1024;
/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(10);
/// How much nicer these threads are than those that serve (nice(2)): under contention they get about a tenth of the
/// processor. A server that hashes all the time still answers everybody else, and reading a directory that is already
/// in memory takes only processor time.
const NICER: i32 = 10;

static COMPUTING: Pool = Pool::new(Load::Compute);
static DIGESTING: Pool = Pool::new(Load::Digest);
static WAITING: Pool = Pool::new(Load::Wait);
static RESOLVING: Pool = Pool::new(Load::Resolve);
static ASKING: Pool = Pool::new(Load::Database);

/// Does a job that blocks, and returns its result.
///
/// If the current thread serves many connections (event, percore), the job goes to the pool, and under event no worker
/// waits for it. Otherwise the job runs in place. A job that has not begun when the future is dropped never runs; one
/// that has begun runs to its end, and its result is dropped. If the job panics, so does the future.
pub async fn offload<T: Send + 'static>(load: Load, job: impl FnOnce() -> T + Send + 'static) -> T {
    if !sys::watch::serves_many() {
        return job();
    }
    let pool = Pool::of(load);
    release_worker(Offloaded { pool, job: Arc::new(Job::new(job)), queued: false }).await
}

/// Has the pool do a blocking job whose result several requests may want; it runs to its end, and never in place. If
/// the pool is overloaded, or no thread can be started, the job is dropped undone: its captured values can then tell
/// the waiting requests.
pub fn offload_apart(load: Load, job: impl FnOnce() + Send + 'static) {
    Pool::of(load).push(Arc::new(Job::new(job)), None);
}

/// A job on its way through a pool.
struct Offloaded<T: Send + 'static> {
    pool: &'static Pool,
    job: Arc<Job<T>>,
    queued: bool,
}

impl<T: Send + 'static> Future for Offloaded<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Set the waker before a thread can find the job done.
        if let Some(done) = self.job.poll(cx.waker()) {
            return Poll::Ready(done.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        if !self.queued {
            let job = self.job.clone();
            self.queued = self.pool.push(job, Some(cx.waker()));
        }
        Poll::Pending
    }
}

impl<T: Send + 'static> Drop for Offloaded<T> {
    fn drop(&mut self) {
        self.job.give_up();
    }
}

/// A job, from its request to its result.
struct Job<T>(Mutex<Progress<T>>);

type Closure<T> = Box<dyn FnOnce() -> T + Send>;

enum Progress<T> {
    /// Not begun.
    Open(Closure<T>, Waker),
    /// A thread does it.
    Begun(Waker),
    /// Done, or has panicked.
    Done(thread::Result<T>),
    /// Nobody wants the result, or it has been taken.
    Over,
}

impl<T> Job<T> {
    fn new(job: impl FnOnce() -> T + Send + 'static) -> Job<T> {
        Job(Mutex::new(Progress::Open(Box::new(job), Waker::noop().clone())))
    }

    fn progress(&self) -> MutexGuard<'_, Progress<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, once it is there; until then, `waker` is called when it arrives.
    fn poll(&self, waker: &Waker) -> Option<thread::Result<T>> {
        let mut progress = self.progress();
        match &mut *progress {
            Progress::Open(_, before) | Progress::Begun(before) => {
                before.clone_from(waker);
                None
            }
            Progress::Done(_) => match std::mem::replace(&mut *progress, Progress::Over) {
                Progress::Done(result) => Some(result),
                _ => None,
            },
            Progress::Over => None,
        }
    }

    fn give_up(&self) {
        // The job's captured values are dropped when nobody else has to wait for that.
        let before = std::mem::replace(&mut *self.progress(), Progress::Over);
        drop(before);
    }
}

/// The pool's view of a job.
trait Work: Send + Sync {
    /// Does the job, unless nobody wants the result any more.
    fn run(&self);
}

impl<T: Send> Work for Job<T> {
    fn run(&self) {
        let closure = {
            let mut progress = self.progress();
            match std::mem::replace(&mut *progress, Progress::Over) {
                Progress::Open(closure, waker) => {
                    *progress = Progress::Begun(waker);
                    closure
                }
                other => {
                    *progress = other;
                    return;
                }
            }
        };
        let result = catch_unwind(AssertUnwindSafe(closure));
        let mut progress = self.progress();
        if let Progress::Begun(waker) = &*progress {
            let waker = waker.clone();
            *progress = Progress::Done(result);
            drop(progress);
            waker.wake();
        } else {
            drop(progress);
            // A panic of a value dropped here has nobody to reach.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(result)));
        }
    }
}

/// The threads for one kind of load, and their queue.
struct Pool {
    load: Load,
    start: fn(&'static Pool) -> io::Result<()>,
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    queue: VecDeque<Arc<dyn Work>>,
    /// Tasks that found the queue full.
    waiting: Vec<Waker>,
    threads: usize,
    /// Threads that sleep, or that were woken and have not looked yet.
    idle: usize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("load", &self.load).finish_non_exhaustive()
    }
}

impl Pool {
    const fn new(load: Load) -> Pool {
        Pool::with(load, Pool::start)
    }

    const fn with(load: Load, start: fn(&'static Pool) -> io::Result<()>) -> Pool {
        let state = State { queue: VecDeque::new(), waiting: Vec::new(), threads: 0, idle: 0 };
        Pool { load, start, state: Mutex::new(state), work: Condvar::new() }
    }

    fn of(load: Load) -> &'static Pool {
        match load {
            Load::Compute => &COMPUTING,
            Load::Digest => &DIGESTING,
            Load::Wait => &WAITING,
            Load::Resolve => &RESOLVING,
            Load::Database => &ASKING,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads_max(&self) -> usize {
        match self.load {
            Load::Compute | Load::Digest => sys::affinity::cpus(),
            Load::Wait => WAITING_MAX,
            Load::Resolve => RESOLVING_MAX,
            Load::Database => ASKING_MAX,
        }
    }

    /// Queues a job. `false`: there is no room, and `waker` is called when there is. Without a waker only a thread may
    /// do the job, and the result is also `false` if none can be started.
    fn push(&'static self, job: Arc<dyn Work>, waker: Option<&Waker>) -> bool {
        let mut state = self.state();
        if state.queue.len() >= QUEUE_MAX {
            state.waiting.extend(waker.cloned());
            return false;
        }
        state.queue.push_back(job);
        if state.queue.len() <= state.idle || state.threads >= self.threads_max() {
            self.work.notify_one();
            return true;
        }
        // The queue stays locked: no other job may rely on a thread that fails to start.
        let Err(error) = (self.start)(self) else {
            state.threads += 1;
            return true;
        };
        // The other threads do the work. If there are none, this is the only job.
        let left = if state.threads == 0 { state.queue.pop_back() } else { None };
        drop(state);
        let text = "no thread can be started for work beside the event loop";
        crate::log!("core", Error, "{}: {text}", sys::describe(&error));
        match (left, waker) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(job), Some(_)) => {
                // The job takes its time here.
                job.run();
                true
            }
        }
    }

    /// Starts a thread.
    fn start(&'static self) -> io::Result<()> {
        let name = format!("offload-{:?}", self.load).to_lowercase();
        thread::Builder::new().name(name).stack_size(STACK).spawn(|| self.live()).map(drop)
    }

    /// The life of a thread.
    fn live(&self) {
        sys::thread::be_nicer(NICER);
        while let Some(job) = self.next() {
            job.run();
        }
    }

    /// The next job; `None` after a while without any.
    fn next(&self) -> Option<Arc<dyn Work>> {
        let (mut state, mut tired) = (self.state(), false);
        loop {
            if let Some(job) = state.queue.pop_front() {
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                waiting.into_iter().for_each(Waker::wake);
                return Some(job);
            }
            if tired {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let (after, waited) = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = after;
            state.idle -= 1;
            tired = waited.timed_out();
        }
    }
}

#[cfg(test)]
mod tests;
