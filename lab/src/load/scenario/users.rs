//! One thread of a load of sessions: a loop over the events of its users' connections.

mod steps;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;

use super::super::connection::{Buffer, Connector, Received};
use super::super::live::Live;
use super::super::plan::Share;
use super::super::record::Record;
use super::super::schedule::{Random, Schedule};
use super::super::worker::{INSPECTION, PAUSE, PORTION, STARVED, finish, note, pause};
use super::Scenario;
use super::tally::Tally;
use super::user::{User, UserConnection};
use crate::load::failure::Failure;
use crate::load::tls::Tls;
use crate::machine::error::{self, Context as _};

/// A request that had no response in time.
const LATE: Failure = Failure { count: |failures| &mut failures.timeout, was_idle: false };

/// A request that cannot be written, because of a response before it.
const UNFIT: Failure = Failure { count: |failures| &mut failures.malformed, was_idle: false };

/// The room for a user.
#[derive(Debug, Default)]
enum Slot<'s> {
    #[default]
    Free,
    Taken(Box<User<'s>>),
    /// The user before could not connect: the next one comes a little later.
    Closed,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Complete,
    Failed,
    /// With the load.
    CutOff,
}

struct Users<'s> {
    scenario: &'s Scenario,
    share: &'s Share<'s>,
    live: &'s Live,
    start: Instant,
    epoll: OwnedFd,
    slots: Vec<Slot<'s>>,
    free: Vec<usize>,
    taken: usize,
    /// Slots whose users rest, or that are closed, and until when.
    resting: BinaryHeap<Reverse<(Instant, usize)>>,
    /// How many sessions a closed loop may still begin; `None` is without limit.
    left: Option<u64>,
    schedule: Option<Schedule>,
    /// Due sessions without a slot.
    waiting: VecDeque<Instant>,
    /// The number of the next session, and of the next request.
    session: u64,
    request: u64,
    dialled: usize,
    open: usize,
    ends: Option<Instant>,
    is_over: bool,
    connector: Connector<'s>,
    random: Random,
    buffer: Buffer,
    received: Received,
    record: Record,
    tally: Tally,
}

/// Plays a share of a scenario; returns when all of it is over.
///
/// # Errors
/// The kernel provides no events, or TLS cannot be set up.
pub(in crate::load) fn run(
    scenario: &Scenario,
    share: &Share<'_>,
    live: &Live,
    start: Instant,
) -> error::Result<Record> {
    let plan = share.plan;
    let connector = Connector {
        tls: plan.tls.as_ref().map(Tls::client).transpose()?,
        messages: None,
        body: None,
        takes_broken: plan.takes_broken,
        keeps: Some(scenario.kept_of_bodies()),
        shows: None,
    };
    let (schedule, left) = Schedule::of(share, start);
    let users = Users {
        scenario,
        share,
        live,
        start,
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context(|| "wait for events".to_owned())?,
        slots: Vec::new(),
        free: Vec::new(),
        taken: 0,
        resting: BinaryHeap::new(),
        left,
        schedule,
        waiting: VecDeque::new(),
        session: share.thread as u64,
        request: 0,
        dialled: share.thread,
        open: 0,
        ends: plan.time.and_then(|time| start.checked_add(time)),
        is_over: false,
        connector,
        random: Random::new(share.seed()),
        buffer: Buffer::new(),
        received: Received::default(),
        record: Record::new(start),
        tally: Tally::of(scenario),
    };
    users.work().context(|| "wait for events".to_owned())
}

impl<'s> Users<'s> {
    fn work(mut self) -> rustix::io::Result<Record> {
        let mut events: Vec<Event> = Vec::with_capacity(1024);
        let mut inspection = self.start + INSPECTION;
        loop {
            let now = Instant::now();
            if self.ends.is_some_and(|ends| now >= ends) || self.live.is_enough() {
                self.is_over = true;
            }
            self.resume(now);
            self.admit(now);
            if self.is_done() {
                break;
            }
            if now >= inspection {
                self.expire(now);
                if self.record.quarters.is_due(now - self.start) {
                    self.live.publish(&mut self.record.quarters);
                }
                inspection = now + INSPECTION;
            }
            let wait = self.wait(now, inspection);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            for event in events.drain(..) {
                let (slot, place) = places(event.data.u64());
                self.advance(slot, place, event.flags);
            }
        }
        let elapsed = self.start.elapsed();
        let now = self.start + elapsed;
        for slot in std::mem::take(&mut self.slots) {
            let Slot::Taken(user) = slot else { continue };
            let links = || user.links.iter().flatten();
            let oldest = links().filter_map(|link| link.connection.asked.front()).map(|asked| asked.began).min();
            let is_starved = oldest.is_some_and(|began| now - began > STARVED.max(elapsed / 2));
            self.record.starved += u64::from(is_starved);
            links().for_each(|link| note(&mut self.record, &link.connection));
        }
        self.record.tally = Some(Box::new(self.tally));
        Ok(finish(self.record, self.live, elapsed))
    }

    /// Whether nothing is left to do. A closed loop does not wait for requests in progress when its time is up.
    fn is_done(&self) -> bool {
        let is_idle = self.taken == 0 && self.waiting.is_empty();
        match &self.schedule {
            None => self.is_over || (is_idle && self.left == Some(0)),
            Some(schedule) => self.live.is_enough() || (is_idle && (self.is_over || schedule.next().is_none())),
        }
    }

    /// How long nothing but events can happen.
    fn wait(&self, now: Instant, inspection: Instant) -> Timespec {
        let due = self.schedule.as_ref().and_then(Schedule::next).filter(|_| !self.is_over);
        let next = [due, self.resting.peek().map(|rest| rest.0.0), self.ends.filter(|_| !self.is_over)];
        let is_urgent = self.share.plan.spin || self.has_more_to_admit();
        pause(if is_urgent { now } else { next.into_iter().flatten().fold(inspection, Instant::min) }, now)
    }

    /// Whether another session can begin at once.
    fn has_more_to_admit(&self) -> bool {
        let has_room = !self.free.is_empty() || self.slots.len() < self.share.clients;
        has_room
            && match self.schedule {
                None => !self.is_over && self.left != Some(0),
                Some(_) => !self.waiting.is_empty(),
            }
    }

    /// Lets users go on whose rest is over, and opens closed slots.
    fn resume(&mut self, now: Instant) {
        while let Some(Reverse((until, slot))) = self.resting.peek().copied()
            && (until <= now || self.is_over)
        {
            self.resting.pop();
            match &self.slots[slot] {
                Slot::Taken(_) => self.go_on(slot, now),
                Slot::Closed => {
                    self.slots[slot] = Slot::Free;
                    self.free.push(slot);
                }
                Slot::Free => {}
            }
        }
    }

    /// Begins sessions, some at a time: events, the end and interrupts must not wait for 10 000 of them.
    fn admit(&mut self, now: Instant) {
        if !self.is_over
            && let Some(schedule) = &mut self.schedule
        {
            let room = self.share.clients - self.slots.len() + self.free.len();
            schedule.queue(now, room, &mut self.waiting, &mut self.record.lag);
        }
        let dialled = self.dialled;
        for _ in 0..PORTION {
            if !self.has_more_to_admit() {
                break;
            }
            let began = self.waiting.pop_front().unwrap_or(now);
            self.left = self.left.map(|left| left.saturating_sub(1));
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Slot::Free);
                self.slots.len() - 1
            });
            self.slots[slot] = Slot::Taken(Box::new(User::new(self.scenario, self.session, began)));
            self.session += self.share.plan.threads.max(1) as u64;
            self.taken += 1;
            self.go_on(slot, began);
        }
        self.record.burst = self.record.burst.max((self.dialled - dialled) as u64);
    }

    /// Ends a session.
    fn end(&mut self, slot: usize, how: End) {
        let Slot::Taken(user) = std::mem::take(&mut self.slots[slot]) else { return };
        let now = Instant::now();
        self.taken -= 1;
        let was_there = user.links.iter().flatten().any(|link| link.connection.connected().is_some());
        for link in user.links.into_iter().flatten() {
            self.close(link.connection, how == End::Complete);
        }
        let (since, took) = (now - self.start, now - user.began);
        match how {
            End::Complete => self.tally.session(since, took, user.responses, Some(user.dialled)),
            End::Failed => self.tally.session(since, took, user.responses, None),
            End::CutOff => {}
        }
        if how == End::Failed && !was_there && user.responses == 0 && self.schedule.is_none() {
            self.slots[slot] = Slot::Closed;
            self.resting.push(Reverse((now + PAUSE, slot)));
        } else {
            self.free.push(slot);
        }
    }

    fn expire(&mut self, now: Instant) {
        let timeout = self.share.plan.timeout;
        let is_late = |link: &UserConnection<'_>| {
            link.connection.asked.front().is_some_and(|asked| now.saturating_duration_since(asked.began) > timeout)
        };
        for slot in 0..self.slots.len() {
            let late =
                self.user(slot).and_then(|user| user.links.iter().position(|link| link.as_ref().is_some_and(is_late)));
            late.into_iter().for_each(|place| self.broken(slot, place, LATE));
        }
        while let Some(due) = self.waiting.front().copied()
            && now - due > timeout
        {
            self.waiting.pop_front();
            self.record.fail(now, LATE.count);
            self.live.failures.fetch_add(1, Relaxed);
            self.tally.session(now - self.start, now - due, 0, None);
        }
    }
}

/// What the events of a connection carry: the slot of its user, and its place there.
fn token(slot: usize, place: usize) -> u64 {
    (slot as u64) << 32 | place as u64
}

fn places(token: u64) -> (usize, usize) {
    ((token >> 32) as usize, (token & u64::from(u32::MAX)) as usize)
}
