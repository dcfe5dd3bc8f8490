//! The requests of this child that wait for a backend, and the leases that it keeps, class by class.
//!
//! A request that finds no kept lease stands in line. A few of those in line ask the process manager, for all of them:
//! whichever gets a lease gives it to the first in line. A lease whose request is over goes to the first in line, too,
//! so under load leases go round in the child, and the manager hears of a lease when it is over. A request that is
//! served while it asks passes its question on.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use runtime::executor::timeout_at;
use sys::time::Instant;
use sys::watch::Watched;
use upstream::Stream;

use super::ask::{self, NoBackend};
use super::held::Lease;
use crate::backend::class::{Concurrency, EncodedClass, PoolSettings, Version};
use crate::backend::lease_state::LeaseCell;
use crate::backend::manager_messages::{FromManager, Outcome};
use crate::backend::stats::{Field, LEASE_CELLS, PoolRow};

/// How many leases a child keeps, and how many lines, at least.
const LEASES_MAX: usize = 64;
const LINES_MIN: usize = 128;
/// How many requests of a class ask at once, if leases can go round.
const ASKS: usize = 2;
/// How often a request asks if one manager after the other dies.
const TRIES: u32 = 3;

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

fn lines() -> MutexGuard<'static, Vec<Line>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The line of a class.
struct Line {
    class: Arc<[u8]>,
    /// Leases whose requests are over, the last used at the end.
    kept: Vec<KeptLease>,
    /// Requests in order of arrival.
    waiting: VecDeque<Arc<Waiter>>,
    /// How many requests have to ask.
    asking: usize,
    /// Questions that nobody waits for at the moment: the next request in line takes one over.
    spare: Vec<Ask>,
    /// Whether leases can go round: each of the backends serves one request at a time, and has a cell.
    goes_round: bool,
    row: Option<PoolRow>,
}

/// A lease whose request is over, kept for the next request of its class.
struct KeptLease {
    lease: Lease,
    cell: LeaseCell,
    stream: Stream,
}

/// A question to the manager, and the version of the program's file in it.
struct Ask {
    connection: Watched,
    version: Version,
    /// Nobody has waited for the answer for a while.
    stale: bool,
}

/// A request in line, as others see it.
struct Waiter {
    came: Instant,
    version: Version,
    state: Mutex<WaiterState>,
}

#[derive(Default)]
struct WaiterState {
    /// What another request has left to this one.
    lease: Option<(Lease, Stream)>,
    /// Whether it has to ask, and the question that another request has passed on.
    asks: bool,
    question: Option<Ask>,
    waker: Option<Waker>,
}

impl Waiter {
    fn state(&self) -> MutexGuard<'_, WaiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a lease to it.
    fn give(&self, lease: Lease, stream: Stream) {
        let waker = {
            let mut state = self.state();
            state.lease = Some((lease, stream));
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// What becomes of a request that has entered a line.
pub(super) enum Entered<'a> {
    /// It has a lease.
    Served(Lease, Stream),
    /// It waits.
    Waits(Place<'a>),
}

/// Takes a lease that the child keeps for this class, or stands in line.
pub(super) fn enter(class: &EncodedClass, came: Instant) -> Result<Entered<'_>, NoBackend> {
    let mut lines = lines();
    let line = Line::of(&mut lines, class);
    while let Some(KeptLease { lease, cell, stream }) = line.kept.pop() {
        // The program's file may have changed, the backend may have gone, or the manager may have taken it back.
        if lease.fits(class.version, &stream) && cell.resume(lease.grant.lease) {
            return Ok(Entered::Served(lease, stream));
        }
        // The next question on that connection gives the lease back, if the child still has it.
        ask::keep(lease.connection);
    }
    line.spare.retain(|ask| ask.version == class.version);
    let mut state = WaiterState { question: line.spare.pop(), ..WaiterState::default() };
    state.asks = state.question.is_some() || line.has_room_for_question();
    if state.asks {
        line.asking += 1;
    } else if let Some(row) = line.row {
        let waiting = row.waiting();
        if waiting >= class.class.settings.queue {
            row.add(Field::Refused, 1);
            let why = format!("{waiting} requests are already waiting for a backend");
            return Err(NoBackend::Refused { status: 503, why });
        }
        row.add(Field::Behind, 1);
    }
    let waiter = Arc::new(Waiter { came, version: class.version, state: Mutex::new(state) });
    line.waiting.push_back(waiter.clone());
    Ok(Entered::Waits(Place { class, waiter, question: None }))
}

/// Gives a lease whose request is over to the next request in line, or keeps it. Returns it if neither may be: without
/// a cell it may not.
pub(super) fn hand_on(mut lease: Lease, cell: Option<LeaseCell>, stream: Stream) -> Option<(Lease, Stream)> {
    let mut lines = lines();
    let number = lease.grant.lease;
    let line = Line::of(&mut lines, &lease.class);
    if line.waiting.is_empty() {
        // Nobody needs another backend.
        line.spare.clear();
    }
    let Some(cell) = cell else { return Some((lease, stream)) };
    if let Some(first) = line.waiting.front() {
        // One for another version of the program cannot serve those in line.
        if !lease.fits(first.version, &stream) || !cell.pass_on(number) {
            return Some((lease, stream));
        }
        lease.count();
        lease.queued = true;
        let first = line.first(lease.class.version);
        drop(lines);
        if let Some(first) = first {
            first.give(lease, stream);
        }
        return None;
    }
    if !has_room(&mut lines) || !cell.keep(number) {
        return Some((lease, stream));
    }
    // From here on the manager may take it back. It does so soon if other children have requests that wait; one that has
    // no lease at all gets this one at once.
    if PoolRow::at(lease.grant.row).is_some_and(PoolRow::is_wanted) {
        if cell.keep_no_longer(number) {
            return Some((lease, stream));
        }
        ask::keep(lease.connection);
        return None;
    }
    lease.count();
    let class = lease.class.clone();
    Line::of(&mut lines, &class).kept.push(KeptLease { lease, cell, stream });
    None
}

/// Whether another lease may be kept. Forgets those that the manager has taken back, whose connections are free.
fn has_room(lines: &mut [Line]) -> bool {
    let kept = |lines: &[Line]| lines.iter().map(|line| line.kept.len()).sum::<usize>();
    if kept(lines) >= LEASES_MAX {
        for line in lines.iter_mut() {
            let gone = line.kept.extract_if(.., |kept| kept.cell.load(kept.lease.grant.lease).is_none());
            gone.for_each(|kept| ask::keep(kept.lease.connection));
        }
    }
    kept(lines) < LEASES_MAX
}

impl Line {
    /// The line of a class, made at its first request.
    fn of<'a>(lines: &'a mut Vec<Line>, class: &EncodedClass) -> &'a mut Line {
        let known = lines.iter().position(|line| line.is_of(&class.bytes));
        let at = known.unwrap_or_else(|| {
            if lines.len() >= LINES_MIN {
                lines.retain(Line::is_used);
            }
            let PoolSettings { memory, max, .. } = class.class.settings;
            let one = class.class.concurrency == Concurrency::One;
            lines.push(Line {
                class: class.bytes.clone(),
                kept: Vec::new(),
                waiting: VecDeque::new(),
                asking: 0,
                spare: Vec::new(),
                goes_round: one && memory.is_none() && max <= LEASE_CELLS as u64,
                row: None,
            });
            lines.len() - 1
        });
        &mut lines[at]
    }

    fn is_of(&self, class: &Arc<[u8]>) -> bool {
        Arc::ptr_eq(&self.class, class) || self.class == *class
    }

    fn is_used(&self) -> bool {
        !(self.kept.is_empty() && self.waiting.is_empty() && self.spare.is_empty() && self.asking == 0)
    }

    /// Whether another question to the manager is of use.
    fn has_room_for_question(&self) -> bool {
        self.asking + self.spare.len() < self.questions_max()
    }

    fn questions_max(&self) -> usize {
        // A pool without a row has no cells. The first requests have to tell how many there are.
        if self.goes_round && self.row.is_some() { ASKS } else { usize::MAX }
    }

    /// The first in line for this version of the program's file, who leaves the line.
    fn first(&mut self, version: Version) -> Option<Arc<Waiter>> {
        let place = self.waiting.iter().position(|waiter| waiter.version == version)?;
        let waiter = self.waiting.remove(place)?;
        self.count_out(waiter.state().asks);
        Some(waiter)
    }

    /// A request leaves that was in line.
    fn count_out(&self, asked: bool) {
        if let Some(row) = self.row.filter(|_| !asked) {
            row.take_one(Field::Behind);
        }
    }

    /// Lets another request ask if too few do: the last one in line, which will be there for longest. Returns how to wake
    /// it, and the question if nobody takes it over.
    fn settle(&mut self, question: Option<Ask>) -> (Option<Waker>, Option<Ask>) {
        let version = question.as_ref().map(|ask| ask.version);
        let may_ask =
            |waiter: &&Arc<Waiter>| !waiter.state().asks && version.is_none_or(|version| version == waiter.version);
        let is_enough = self.asking >= self.questions_max().min(self.waiting.len());
        let Some(next) = self.waiting.iter().rev().find(may_ask).filter(|_| !is_enough) else {
            return (None, question);
        };
        let mut state = next.state();
        (state.asks, state.question) = (true, question);
        self.asking += 1;
        self.count_out(false);
        (state.waker.take(), None)
    }

    /// Keeps a question whose request has got a backend in another way: under load the next one comes soon.
    fn spare(&mut self, question: Ask) {
        if self.goes_round && self.has_room_for_question() {
            self.spare.push(Ask { stale: true, ..question });
        }
    }
}

/// The place of a request in line. A request that gives up leaves what it has to the others.
pub(super) struct Place<'a> {
    class: &'a EncodedClass,
    waiter: Arc<Waiter>,
    /// The question of this request that the manager has not answered.
    question: Option<Ask>,
}

/// What a request in line has to deal with.
enum Turn {
    /// Another request has left it a lease.
    Lease(Lease, Stream),
    /// It has to ask.
    Ask,
    /// The manager has answered.
    Answer(io::Result<(FromManager, Option<OwnedFd>)>),
}

impl Place<'_> {
    /// Waits for a lease, as long as the class says.
    pub(super) async fn wait(&mut self) -> Result<(Lease, Stream), NoBackend> {
        let wait = self.class.class.settings.wait;
        let deadline = self.waiter.came + wait;
        let mut tries = 1;
        loop {
            match timeout_at(deadline, self.turn()).await {
                Ok(Turn::Lease(lease, stream)) => return Ok((lease, stream)),
                Ok(Turn::Ask) => {
                    let connection = ask::send(self.class, self.asks_for(), deadline).await?;
                    self.question = Some(Ask { connection, version: self.class.version, stale: false });
                }
                Ok(Turn::Answer(Ok((message, socket)))) => {
                    if let Some(got) = self.take_answer(message, socket)? {
                        return Ok(got);
                    }
                }
                // The manager has died, and its successor knows no questions.
                Ok(Turn::Answer(Err(error))) if ask::is_end(&error) && tries < TRIES => {
                    tries += 1;
                    self.question = None;
                }
                Ok(Turn::Answer(Err(error))) => return Err(NoBackend::Failed(error)),
                Err(_) => {
                    let row = PoolRow::named(&self.class.class.name);
                    row.into_iter().for_each(|row| row.add(Field::Refused, 1));
                    return Err(NoBackend::Refused {
                        status: 503,
                        why: format!("no backend became free within {wait:?}"),
                    });
                }
            }
        }
    }

    /// When the request came that the answer will serve: the earlier ones are served by the answers to earlier questions.
    fn asks_for(&self) -> Instant {
        let mut lines = lines();
        let line = Line::of(&mut lines, self.class);
        line.waiting.get(line.asking.saturating_sub(1)).map_or(self.waiter.came, |served| served.came)
    }

    async fn turn(&mut self) -> Turn {
        poll_fn(|cx| {
            let mut state = self.waiter.state();
            if let Some((lease, stream)) = state.lease.take() {
                return Poll::Ready(Turn::Lease(lease, stream));
            }
            if self.question.is_none() {
                self.question = state.question.take();
            }
            match &self.question {
                None if state.asks => return Poll::Ready(Turn::Ask),
                Some(ask) => {
                    if let Poll::Ready(answer) = ask::poll_answer(&ask.connection, cx) {
                        return Poll::Ready(Turn::Answer(answer));
                    }
                }
                None => {}
            }
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Takes the manager's answer: a lease goes to the first in line. Returns what there is for this request.
    fn take_answer(
        &mut self,
        message: FromManager,
        socket: Option<OwnedFd>,
    ) -> Result<Option<(Lease, Stream)>, NoBackend> {
        let Some(Ask { connection, stale, .. }) = self.question.take() else { return Ok(None) };
        let grant = match message {
            FromManager::Refused { status, why } => {
                ask::keep(connection);
                // A refusal of long ago does not concern this request.
                return if stale { Ok(None) } else { Err(NoBackend::Refused { status, why }) };
            }
            FromManager::Granted(grant) => grant,
        };
        let socket = socket.ok_or_else(|| NoBackend::Failed(io::ErrorKind::InvalidData.into()))?;
        let (lease, stream) = (Lease::granted(connection, self.class, grant), Stream::new(Arc::new(socket)));
        if lease.cell().is_some_and(|cell| !cell.accept(grant.lease)) {
            // The manager has not waited for this request, and takes the next question on that connection. Perhaps another
            // child has the backend by now, and what arrives on the stream is for others.
            ask::keep(lease.connection);
            return Ok(None);
        }
        let mut lines = lines();
        let line = Line::of(&mut lines, self.class);
        line.row = PoolRow::at(grant.row);
        self.waiter.state().asks = false;
        line.asking -= 1;
        let (first, (waker, _)) = (line.first(lease.class.version), line.settle(None));
        drop(lines);
        waker.into_iter().for_each(Waker::wake);
        match first {
            Some(first) if Arc::ptr_eq(&first, &self.waiter) => return Ok(Some((lease, stream))),
            Some(first) => first.give(lease, stream),
            // This request has just been given another one.
            None => lease.return_to_manager(Outcome::Ready),
        }
        Ok(None)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = lines();
        let line = Line::of(&mut lines, self.class);
        let (lease, question, asked) = {
            let mut state = self.waiter.state();
            (state.lease.take(), self.question.take().or(state.question.take()), state.asks)
        };
        let was_waiting = line.waiting.iter().position(|waiter| Arc::ptr_eq(waiter, &self.waiter));
        if let Some(place) = was_waiting {
            line.waiting.remove(place);
            line.count_out(asked);
        }
        line.asking -= usize::from(asked);
        let (waker, question) = line.settle(question);
        // Without a request that waits, the end of its connection ends the question.
        question.filter(|_| was_waiting.is_none()).into_iter().for_each(|question| line.spare(question));
        drop(lines);
        waker.into_iter().for_each(Waker::wake);
        // The client has gone before the request could begin.
        if let Some((lease, stream)) = lease {
            let cell = lease.cell().filter(|_| lease.grant.more > 0);
            if let Some((lease, _)) = hand_on(lease, cell, stream) {
                lease.return_to_manager(Outcome::Ready);
            }
        }
    }
}
