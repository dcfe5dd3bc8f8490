//! The process manager: a process of its own that has all backends of a configuration.
//!
//! Each child has connections to it, one for each request that asks for a backend or has one; when a child dies at whatever
//! moment, the manager sees their end. It is single-threaded and never waits for anybody but in its event loop.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http1::text::from_bytes;
use seam::executor::{Task, sleep, spawn, timeout, yield_now};
use sys::event_loop::EventLoop;
use sys::local::Unnamed;
use sys::process::{Pid, Reaped, Status, end_of, reap};
use sys::signal::{Signal, SignalFd};
use sys::watch::{Interest, Watched, watch};

use super::policy::Reason;
use super::pool::{Granted, Pool};
use super::stats;
use super::wire::{Asked, Outcome, PACKET_MAX, Told};
use super::{Class, Runtime, Version};
use crate::command::{Given, expose};
use crate::daemon::{Refused, Socket};
use crate::gate::{self, Permit, Rules};
use crate::protocol::{Frames, Heard};

pub use crate::daemon::Users;

/// How many connections may wait until a backend accepts them.
const BACKLOG: i32 = 128;
/// How long a backend that was asked to end may take, before it is ended.
const OBEY: Duration = Duration::from_secs(3);
/// The same where the manager itself was told to end at once; its parent waits a second for it.
const OBEY_SOON: Duration = Duration::from_millis(500);
/// How long the rest of an answer is waited for that nobody wants.
const REST: Duration = Duration::from_secs(2);
/// How often it is looked whether others need the memory of idle backends; and where there are none.
const PRESSURE: Duration = Duration::from_millis(100);
const CALM: Duration = Duration::from_secs(1);
/// How many classes there are at most: each has memory, for as long as the manager lives.
const CLASSES_MAX: usize = 4096;
/// How long is waited where there are no descriptors left to accept with.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest word about a backend that is given back, in bytes.
const DONE_MAX: usize = 8 * 1024;
/// How much is read at once, in bytes.
const PIECE: usize = 16 * 1024;

/// Where the process manager is asked, and as whom it starts backends.
#[derive(Debug)]
pub struct Manager {
    /// Where it is asked; packets.
    pub socket: Socket,
    /// Where the sockets of backends are for a moment: a directory of the manager's own user.
    pub directory: PathBuf,
    /// As whom it starts backends.
    pub users: Users,
}

impl Manager {
    /// Prepares the memory that pages read. For the parent, before it forks.
    pub fn open(socket: Socket, directory: PathBuf, users: Users) -> io::Result<Manager> {
        stats::open()?;
        Ok(Manager { socket, directory, users })
    }
}

/// What the manager knows.
#[derive(Debug, Default)]
struct State {
    pools: Vec<Pool>,
    /// The pools by the bytes of their classes.
    by_class: HashMap<Vec<u8>, usize>,
    /// The next number of a backend, and of a request.
    next: u64,
    /// No more backends are started.
    leaving: bool,
}

/// What its tasks share.
struct Shared {
    state: Mutex<State>,
    directory: PathBuf,
    users: Users,
    processors: usize,
    /// Tasks that go on by themselves, until they end.
    tasks: Mutex<HashMap<u64, Task>>,
}

/// Serves until an order comes: `SIGTERM` ends it, and with it all backends; any other lets it end when nobody asks it any
/// more.
pub fn serve(manager: &Manager, orders: &SignalFd) -> io::Result<()> {
    expose(Pid::own());
    EventLoop::new(|| ())?.run(accept(manager, orders))?
}

async fn accept(manager: &Manager, orders: &SignalFd) -> io::Result<()> {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        directory: manager.directory.clone(),
        users: manager.users.clone(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        tasks: Mutex::default(),
    });
    Shared::go(&shared, relieve(shared.clone()));
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let listener = watch(manager.socket.listener(), Interest::READABLE)?;
    let at_once = loop {
        let (ordered, came) = poll_fn(|cx| match (order.poll_read_ready(cx), listener.poll_read_ready(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            some => Poll::Ready(some),
        })
        .await;
        if let Poll::Ready(ready) = ordered {
            match orders.read()? {
                Some((signal, _)) => break signal == Signal::TERM,
                None => ready?.clear_ready(),
            }
        }
        if let Poll::Ready(ready) = came {
            match sys::local::accept(listener.get_ref()) {
                Ok(connection) => Shared::go(&shared, attend(shared.clone(), connection)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready?.clear_ready(),
                // Those who connect wait meanwhile.
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    shared.leave(if at_once { OBEY_SOON } else { OBEY }).await;
    Ok(())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a task go on by itself.
    fn go(shared: &Arc<Shared>, task: impl Future<Output = ()> + Send + 'static) {
        let number = shared.state().number();
        let owner = Arc::downgrade(shared);
        let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.insert(
            number,
            spawn(async move {
                task.await;
                if let Some(shared) = owner.upgrade() {
                    let ended = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                    drop(ended);
                }
            }),
        );
    }

    /// Gives what is free to those who wait, starts and ends what the policy says.
    fn settle(self: &Arc<Shared>, index: usize) {
        let mut state = self.state();
        let of_all: u64 = match state.pools[index].class.settings.max_of_all {
            u64::MAX => 0,
            // Those count together that are one module's.
            _ => {
                let module = state.pools[index].class.module.clone();
                state.pools.iter().filter(|pool| pool.class.module == module).map(Pool::count).sum()
            }
        };
        let leaving = state.leaving;
        let pool = &mut state.pools[index];
        if !leaving {
            // One that has had its time gets no further request, however many wait.
            let (decision, numbers) = pool.decide(of_all, self.processors);
            decision.end.into_iter().for_each(|(place, reason)| pool.end(numbers[place], reason));
        }
        pool.grant();
        if leaving {
            return pool.show();
        }
        let (decision, numbers) = pool.decide(of_all, self.processors);
        for (place, reason) in decision.end {
            pool.end(numbers[place], reason);
        }
        let is_blocked = pool.is_blocked(of_all);
        pool.starting += decision.start;
        let alarm = decision.again.filter(|at| pool.alarm.is_none_or(|set| *at < set));
        if let Some(at) = alarm {
            pool.alarm = Some(at);
        }
        let now = pool.now();
        pool.show();
        if is_blocked {
            state.make_room(index);
        }
        drop(state);
        for _ in 0..decision.start {
            Shared::go(self, start(self.clone(), index));
        }
        if let Some(at) = alarm {
            let shared = self.clone();
            Shared::go(self, async move {
                sleep(at.saturating_sub(now)).await;
                shared.state().pools[index].alarm.take_if(|set| *set == at);
                shared.settle(index);
            });
        }
    }

    /// The same where a backend has become free or has ended: others of the module may have waited for that.
    fn settle_all(self: &Arc<Shared>, index: usize) {
        self.settle(index);
        let others = self.state().waiting_beside(index);
        others.into_iter().for_each(|other| self.settle(other));
    }

    /// Ends all backends, and waits for that, but not for long.
    async fn leave(&self, patience: Duration) {
        let all = |shared: &Shared| -> Vec<(usize, u64, Pid)> {
            let state = shared.state();
            let numbered = state.pools.iter().enumerate();
            numbered.flat_map(|(index, pool)| pool.backends().map(move |one| (index, one.number, one.pid))).collect()
        };
        self.state().leaving = true;
        for (index, number, _) in all(self) {
            self.state().pools[index].end(number, Reason::Own);
        }
        let end = Instant::now() + patience;
        while !all(self).is_empty() && Instant::now() < end {
            sleep(PAUSE).await;
        }
        for (_, _, pid) in all(self) {
            let _ = pid.kill_group(Signal::KILL);
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        drop(tasks);
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Ends the backend of the same module that has been idle for longest, for requests of this pool: there may be no more.
    fn make_room(&mut self, index: usize) {
        let wanted = self.pools[index].waiting();
        let module = self.pools[index].class.module.clone();
        let others = || self.pools.iter().enumerate().filter(|(_, pool)| pool.class.module == module);
        if others().map(|(_, pool)| pool.ending()).sum::<usize>() >= wanted {
            return;
        }
        let longest = others().filter_map(|(index, pool)| pool.longest_idle().map(|idle| (idle, index))).min();
        if let Some(((_, number), index)) = longest {
            self.pools[index].end(number, Reason::Room);
        }
    }

    /// The pools of the same module in which requests wait.
    fn waiting_beside(&self, index: usize) -> Vec<usize> {
        let class = &self.pools[index].class;
        if class.settings.max_of_all == u64::MAX {
            return Vec::new();
        }
        let module = &class.module;
        let waits = |pool: &Pool| pool.class.module == *module && pool.waiting() > 0;
        (0..self.pools.len()).filter(|other| *other != index && waits(&self.pools[*other])).collect()
    }

    /// The pool of a class, which may be the first that is heard of it.
    fn pool(&mut self, bytes: &[u8]) -> Option<usize> {
        if let Some(index) = self.by_class.get(bytes) {
            return Some(*index);
        }
        let index = self.pools.len();
        if index >= CLASSES_MAX {
            seam::log!("core", Error, "there are {CLASSES_MAX} pools of backends, and no further ones are made");
            return None;
        }
        self.pools.push(Pool::new(Class::decode(bytes)?));
        self.by_class.insert(bytes.to_vec(), index);
        Some(index)
    }
}

/// Serves a connection of a child, from one request to the next.
async fn attend(shared: Arc<Shared>, connection: OwnedFd) {
    let Ok(user) = sys::local::peer_user(&connection) else { return };
    if !shared.users.is_known(user) {
        seam::log!("core", Warn, "a process of user {user} asked for a backend, and is not answered");
        return;
    }
    let Ok(line) = watch(Arc::new(connection), Interest::READABLE) else { return };
    let mut packet = vec![0; PACKET_MAX];
    while let Ok(length) = receive(&line, &mut packet).await {
        let Some(Asked::Backend(version, class)) = Asked::decode(&packet[..length]) else { return };
        if !lend(&shared, &line, version, class).await {
            return;
        }
    }
}

/// Lends a backend of the class to the child at the other end, as long as that needs it. `false`: it is gone.
async fn lend(shared: &Arc<Shared>, line: &Watched, version: Version, class: &[u8]) -> bool {
    let (index, waiter, enqueued, wait, busy, behind) = {
        let mut state = shared.state();
        let Some(index) = state.pool(class) else { return false };
        let waiter = state.number();
        let pool = &mut state.pools[index];
        pool.set_version(version);
        let behind = pool.is_busy();
        (index, waiter, pool.enqueue(waiter), pool.class.settings.wait, pool.class.settings.busy, behind)
    };
    let mut queued = false;
    let granted = match enqueued {
        Err(granted) => granted,
        Ok(granted) => {
            shared.settle(index);
            queued = behind && granted.get().is_none();
            let mut given = std::pin::pin!(timeout(wait, granted.wait()));
            // Its end is all that the other side can have to say now.
            let told = poll_fn(|cx| match given.as_mut().poll(cx) {
                Poll::Ready(told) => Poll::Ready(Some(told)),
                Poll::Pending => poll_gone(line, cx).map(|()| None),
            })
            .await;
            match told {
                Some(Ok(granted)) => granted,
                Some(Err(_)) => {
                    shared.state().pools[index]
                        .refuse(waiter, format!("a backend was waited for in vain for {wait:?}"));
                    // It may have been granted at the last moment.
                    granted.wait().await
                }
                None => {
                    let mut state = shared.state();
                    state.pools[index].forget(waiter);
                    drop(state);
                    if let Some(Granted::Backend { number, .. }) = granted.get() {
                        give_back(shared, index, number, &Outcome::Ready, Duration::ZERO);
                    }
                    return false;
                }
            }
        }
    };
    match granted {
        Granted::None(status, text) => {
            sys::local::send(line.get_ref(), &Told::Refused(status, text).encode(), &[]).is_ok()
        }
        Granted::Backend { number, pid, served, socket } => {
            let began = Instant::now();
            let told =
                sys::local::send(line.get_ref(), &Told::Granted(pid, served, queued).encode(), &[socket.as_fd()]);
            let mut packet = vec![0; DONE_MAX];
            let done = match (told, busy) {
                (Err(_), _) => None,
                (Ok(_), None) => receive(line, &mut packet).await.ok(),
                (Ok(_), Some(busy)) => match timeout(busy, receive(line, &mut packet)).await {
                    Ok(done) => done.ok(),
                    Err(_) => {
                        let class = shared.state().pools[index].class.clone();
                        let text = format!(
                            "{} (process {pid}) has served a request for {busy:?}, which is too long",
                            class.name
                        );
                        seam::log!(&class.module, Warn, "{text}");
                        shared.state().pools[index].end(number, Reason::Timeout);
                        // The child that waits for its answer learns it at once.
                        let _ = sys::socket::shutdown(&socket);
                        receive(line, &mut packet).await.ok()
                    }
                },
            };
            drop(socket);
            let outcome = match done.map(|length| Asked::decode(&packet[..length])) {
                Some(Some(Asked::Done(outcome))) => Some(outcome),
                // A child that is gone leaves a request behind that may be half-way.
                _ => None,
            };
            let is_there = outcome.is_some();
            give_back(shared, index, number, &outcome.unwrap_or(Outcome::Broken), began.elapsed());
            is_there
        }
    }
}

/// Ready when the other side has closed the connection, or says something: there is nothing that it could have to say.
fn poll_gone(line: &Watched, cx: &mut Context<'_>) -> Poll<()> {
    loop {
        let Ok(mut ready) = ready!(line.poll_read_ready(cx)) else { return Poll::Ready(()) };
        match sys::socket::peek(line.get_ref(), &mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            _ => return Poll::Ready(()),
        }
    }
}

/// Takes a backend back.
fn give_back(shared: &Arc<Shared>, index: usize, number: u64, outcome: &Outcome, worked: Duration) {
    let (rest, protocol) = {
        let mut state = shared.state();
        let pool = &mut state.pools[index];
        (pool.release(number, outcome, worked), pool.class.protocol)
    };
    if let (Some(socket), Outcome::Abandoned(position)) = (rest, outcome) {
        let (shared, frames) = (shared.clone(), Frames::at(protocol, position));
        Shared::go(&shared.clone(), async move {
            let ready = match frames {
                Some(frames) => timeout(REST, drain(socket, frames)).await.unwrap_or(false),
                None => false,
            };
            shared.state().pools[index].drained(number, ready);
            shared.settle_all(index);
        });
    }
    shared.settle_all(index);
}

/// Reads the rest of an answer that nobody wants. Returns whether its end has come.
async fn drain(socket: Arc<OwnedFd>, mut frames: Frames) -> bool {
    let Ok(watched) = watch(socket, Interest::READABLE) else { return false };
    let (mut received, mut heard) = (vec![0; PIECE], Heard::default());
    let mut output = Vec::new();
    loop {
        match sys::socket::receive(watched.get_ref(), &mut received) {
            Ok(0) => return false,
            Ok(length) => {
                if frames.read(&received[..length], &mut output, &mut heard).is_err() {
                    return false;
                }
                output.clear();
                heard.errors.clear();
                if let Some(end) = heard.end {
                    return !end.last;
                }
                // One that speaks without end is not all there is.
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match watched.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return false,
            },
            Err(_) => return false,
        }
    }
}

async fn receive(line: &Watched, packet: &mut [u8]) -> io::Result<usize> {
    loop {
        match sys::socket::receive(line.get_ref(), packet) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => line.readable().await?.clear_ready(),
            result => return result,
        }
    }
}

/// Starts a backend once there is memory for it, and stays with it to its end.
async fn start(shared: Arc<Shared>, index: usize) {
    let class = shared.state().pools[index].class.clone();
    let rules = Rules { most: None, queue: usize::MAX, places: usize::MAX, timeout: class.settings.wait };
    let permit = match gate::enter(&class.name, &class.host, &rules, || false).await {
        Ok(permit) => permit,
        Err(refusal) => {
            seam::log!(&class.module, Error, "{} is not started: {}", class.name, refusal.reason);
            shared.state().pools[index].not_started(503, &refusal.reason);
            return shared.settle(index);
        }
    };
    // What it was needed for may be over.
    let spare = {
        let mut state = shared.state();
        let spare = state.leaving || state.pools[index].spare();
        if spare {
            state.pools[index].not_started(503, "the server is about to end");
        }
        spare
    };
    if spare {
        return;
    }
    let (number, version) = {
        let mut state = shared.state();
        (state.number(), state.pools[index].version())
    };
    match launch(&shared, &class, number, &permit).await {
        Ok(Launched { pid, address, errors, end }) => {
            permit.started(pid);
            seam::log!(&class.module, Debug, "{} was started as process {pid}", class.name);
            shared.state().pools[index].started(number, pid, version, address, permit);
            shared.settle(index);
            Shared::go(&shared, complain(class.module.clone(), class.name.clone(), errors));
            attend_end(&shared, index, number, pid, end).await;
        }
        Err(text) => {
            permit.not_started();
            seam::log!(&class.module, Error, "{} cannot be started: {text}", class.name);
            shared.state().pools[index].failed_to_start(&text);
            shared.settle(index);
        }
    }
}

/// A backend that was started.
struct Launched {
    pid: Pid,
    address: Unnamed,
    /// What it writes to its standard error.
    errors: Watched,
    /// What can be read when it has ended.
    end: Watched,
}

async fn launch(shared: &Shared, class: &Class, number: u64, permit: &Permit) -> Result<Launched, String> {
    let failed = |error: io::Error| sys::describe(&error);
    let address = Unnamed::listen(&shared.directory, &format!("backend.{number}"), BACKLOG).map_err(failed)?;
    let (errors, its_errors) = io::pipe().map_err(failed)?;
    let errors = OwnedFd::from(errors);
    sys::file::set_nonblocking(&errors).map_err(failed)?;
    let errors = watch(Arc::new(errors), Interest::READABLE).map_err(failed)?;
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(failed)?;
    let stdio = [address.listener(), nowhere.as_fd(), its_errors.as_fd()];
    let text = class.program.runtime.as_ref().map(Runtime::text).transpose().map_err(failed)?;
    let more = text.as_ref().map(|text| text.as_fd());
    let given = Given { stdio, more: more.as_slice(), ends_with_us: true };
    let pid = shared.users.start(class.program.command.clone(), given).await.map_err(|refused| match refused {
        Refused::Owner(why) => format!("it may not run as its owner (reason {why})"),
        Refused::System(error) => sys::describe(&error),
    })?;
    permit.started(pid);
    let end = end_of(pid).and_then(|end| watch(Arc::new(end), Interest::READABLE)).map_err(|error| {
        // Nobody would notice its end.
        let _ = pid.kill_group(Signal::KILL);
        sys::describe(&error)
    })?;
    Ok(Launched { pid, address, errors, end })
}

/// Waits for the end of a backend; one that was asked to end and does not is ended.
async fn attend_end(shared: &Arc<Shared>, index: usize, number: u64, pid: Pid, end: Watched) {
    let asked = shared.state().pools[index].asked(number);
    let ended = async {
        while !has_ended(pid) {
            match end.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => sleep(PRESSURE).await,
            }
        }
    };
    let mut ended = std::pin::pin!(ended);
    let is_asked = match &asked {
        Some(asked) => {
            let mut asked = std::pin::pin!(asked.wait());
            poll_fn(|cx| match ended.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(false),
                Poll::Pending => asked.as_mut().poll(cx).map(|()| true),
            })
            .await
        }
        None => false,
    };
    if is_asked && timeout(OBEY, ended.as_mut()).await.is_err() {
        let _ = pid.kill(Signal::KILL);
        ended.await;
    }
    // What it has started goes with it, as long as the number of its group is its own: until it is reaped.
    let _ = pid.kill_group(Signal::KILL);
    let reaped = reap(Some(pid)).ok().flatten();
    let how = reaped.map_or_else(|| "has gone".to_string(), |reaped| how_it_ended(&reaped));
    let well = reaped.as_ref().is_some_and(|reaped| reaped.status == Status::Exited(0));
    let ended = shared.state().pools[index].ended(number, &how, well);
    if let Some((mut backend, reason)) = ended {
        let class = shared.state().pools[index].class.clone();
        if let (Some(permit), Some(reaped)) = (backend.permit.take(), &reaped) {
            permit.ended(reaped, 0);
        }
        match reason {
            Reason::Died => seam::log!(&class.module, Error, "{} (process {pid}) {how}", class.name),
            reason => {
                seam::log!(&class.module, Info, "{} (process {pid}) {how}; why: {}", class.name, reason.name());
            }
        }
    }
    shared.settle_all(index);
}

/// Whether a child has ended, which it is left to be reaped for.
fn has_ended(pid: Pid) -> bool {
    sys::process::has_ended(pid).unwrap_or(true)
}

fn how_it_ended(reaped: &Reaped) -> String {
    match reaped.status {
        Status::Exited(status) => format!("ended with exit status {status}"),
        Status::Signaled { signal, .. } => {
            format!("was ended by signal {} ({})", signal.number(), signal.description())
        }
    }
}

/// Logs what a backend writes to its standard error.
async fn complain(module: String, name: String, errors: Watched) {
    let (mut piece, mut line) = (vec![0; PIECE], Vec::new());
    loop {
        match sys::file::read(errors.get_ref(), &mut piece) {
            Ok(0) => break,
            Ok(length) => {
                line.extend_from_slice(&piece[..length]);
                for whole in crate::script::take_lines(&mut line) {
                    seam::log!(&module, Error, "{name}: {}", from_bytes(&whole));
                }
                // One that complains without end is not all there is.
                yield_now().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match errors.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => break,
            },
            Err(_) => break,
        }
    }
    if !line.is_empty() {
        seam::log!(&module, Error, "{name}: {}", from_bytes(&line));
    }
}

/// Ends idle backends, one after the other, as long as requests wait for memory.
async fn relieve(shared: Arc<Shared>) {
    loop {
        let has_idle = shared.state().pools.iter().any(|pool| pool.longest_idle().is_some());
        sleep(if has_idle { PRESSURE } else { CALM }).await;
        if gate::waiting() == 0 {
            continue;
        }
        let mut state = shared.state();
        let idle = state.pools.iter().enumerate();
        let longest = idle.filter_map(|(index, pool)| pool.longest_idle().map(|idle| (idle, index))).min();
        if let Some(((_, number), index)) = longest {
            state.pools[index].end(number, Reason::Pressure);
        }
    }
}
