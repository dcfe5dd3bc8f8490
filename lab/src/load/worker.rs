//! One thread of the generator: a loop over the events of its connections.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::connection::{Buffer, Connection, Connector, Received};
use super::http2;
use super::live::Live;
use super::plan::{Arrival, Share};
use super::record::Record;
use super::schedule::Schedule;
use crate::load::failure::Failure;
use crate::load::tls::Tls;
use crate::machine::error::{self, Context as _};

/// How often to look for overdue requests, and for a second to report.
pub(super) const INSPECTION: Duration = Duration::from_millis(100);

/// How long to wait after a failed connection before the next attempt, so that a dead server does not get a million
/// attempts per second.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// How many connections are opened between two looks at the events of the others.
pub(super) const PORTION: usize = 64;

/// A client that waits for less than this is not starved, however short a load is.
pub(super) const STARVED: Duration = Duration::from_millis(250);

/// A request that the server does not answer, though it answers others on the connection.
const REFUSED: Failure = Failure { count: |failures| &mut failures.stream, was_idle: false };

/// A connection that ends before its last request.
const CUT_SHORT: Failure = Failure { count: |failures| &mut failures.read, was_idle: true };

/// A connection, or the room for one.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Connection>,
    /// Requests that the connection still has to make; `None` is without limit.
    left: Option<u64>,
    /// Whether it is among the idle ones.
    is_free: bool,
    /// Requests of a closed loop that must be repeated, with their starting times.
    owed: VecDeque<Instant>,
}

struct Worker<'s> {
    share: &'s Share<'s>,
    live: &'s Live,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    /// Idle slots, those idle for longest first.
    free: VecDeque<usize>,
    /// Slots that may try again to connect, and when.
    paused: VecDeque<(Instant, usize)>,
    /// How many requests a closed loop may still begin; `None` is without limit.
    left: Option<u64>,
    schedule: Option<Schedule>,
    /// Due requests without a connection.
    waiting: VecDeque<Instant>,
    /// The next request and the next address of the plan.
    number: usize,
    dialled: usize,
    /// Requests in progress, and open connections.
    pending: u64,
    open: usize,
    ends: Option<Instant>,
    is_over: bool,
    connector: Connector<'s>,
    buffer: Buffer,
    received: Received,
    record: Record,
}

/// Does its share; returns when all of it is done.
///
/// # Errors
/// The kernel provides no events, or TLS cannot be set up.
pub(super) fn run(share: &Share<'_>, live: &Live, start: Instant) -> error::Result<Record> {
    let plan = share.plan;
    let connector = Connector {
        tls: plan.tls.as_ref().map(Tls::client).transpose()?,
        messages: plan.http2.then(|| http2::messages(&plan.requests, plan.tls.is_some())),
        body: plan.body.as_ref(),
        takes_broken: plan.takes_broken,
        keeps: None,
        shows: plan.shows,
    };
    let (schedule, left) = Schedule::of(share, start);
    let worker = Worker {
        share,
        live,
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context(|| "wait for events".to_owned())?,
        slots: Vec::new(),
        free: VecDeque::new(),
        paused: VecDeque::new(),
        left,
        schedule,
        waiting: VecDeque::new(),
        number: share.thread,
        dialled: share.thread,
        pending: 0,
        open: 0,
        ends: share.plan.time.and_then(|time| start.checked_add(time)),
        is_over: false,
        connector,
        buffer: Buffer::new(),
        received: Received::default(),
        record: Record::new(start),
    };
    worker.work(start).context(|| "wait for events".to_owned())
}

impl Worker<'_> {
    fn work(mut self, start: Instant) -> rustix::io::Result<Record> {
        let mut events: Vec<Event> = Vec::with_capacity(1024);
        let mut inspection = start + INSPECTION;
        loop {
            let now = Instant::now();
            if self.ends.is_some_and(|ends| now >= ends) || self.live.is_enough() {
                self.is_over = true;
            }
            self.distribute(now);
            self.open_more();
            if self.is_done() {
                break;
            }
            if now >= inspection {
                self.expire(now);
                if self.record.quarters.is_due(now - start) {
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
                self.advance(event.data.u64() as usize, event.flags);
            }
        }
        let elapsed = start.elapsed();
        let now = start + elapsed;
        for slot in std::mem::take(&mut self.slots) {
            let oldest = slot.connection.as_ref().and_then(|connection| connection.asked.front());
            self.record.starved += u64::from(oldest.is_some_and(|asked| now - asked.began > STARVED.max(elapsed / 2)));
            slot.connection.iter().for_each(|connection| note(&mut self.record, connection));
        }
        Ok(finish(self.record, self.live, elapsed))
    }

    /// Whether nothing is left to do. A closed loop does not wait for requests in progress when its time is up: they
    /// would extend the counted time without new requests.
    fn is_done(&self) -> bool {
        let is_idle = self.pending == 0 && self.paused.is_empty() && self.waiting.is_empty();
        match &self.schedule {
            None => self.is_over || (is_idle && self.left == Some(0)),
            Some(schedule) => self.live.is_enough() || (is_idle && (self.is_over || schedule.next().is_none())),
        }
    }

    /// How long nothing but events can happen.
    fn wait(&self, now: Instant, inspection: Instant) -> Timespec {
        let due = self.schedule.as_ref().and_then(Schedule::next).filter(|_| !self.is_over);
        let next = [due, self.paused.front().map(|(at, _)| *at), self.ends.filter(|_| !self.is_over)];
        let is_urgent = self.share.plan.spin || self.has_more_to_open();
        pause(if is_urgent { now } else { next.into_iter().flatten().fold(inspection, Instant::min) }, now)
    }

    /// Whether there is more to open at once, put off in favour of events.
    fn has_more_to_open(&self) -> bool {
        let has_room = self.slots.len() < self.share.clients;
        match self.schedule {
            _ if self.is_over => false,
            None => has_room && self.left != Some(0),
            Some(_) => !self.waiting.is_empty() && (has_room || !self.free.is_empty()),
        }
    }

    /// Starts further clients of a closed loop, some at a time: events, the end and interrupts must not wait for 10 000
    /// connections.
    fn open_more(&mut self) {
        for _ in 0..PORTION {
            if self.schedule.is_some() || !self.has_more_to_open() {
                break;
            }
            let slot = self.another();
            self.go_on(slot, Instant::now());
        }
    }

    /// How many requests a client of a closed loop may begin: one is reserved for each client that has yet to begin.
    fn to_begin(&self) -> Option<u64> {
        self.left.map(|left| left.saturating_sub((self.share.clients - self.slots.len()) as u64))
    }

    /// A slot that was not there before.
    fn another(&mut self) -> usize {
        self.slots.push(Slot::default());
        self.slots.len() - 1
    }

    /// Makes a slot idle. A slot that was idle before, and whose idle connection has just ended, must not be listed
    /// twice: it would get two requests at a time.
    fn release(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.slots[slot].is_free, true) {
            self.free.push_back(slot);
        }
    }

    /// Gives due requests to idle slots, and resumes paused ones.
    fn distribute(&mut self, now: Instant) {
        while self.paused.front().is_some_and(|(at, _)| *at <= now || self.is_over)
            && let Some((_, slot)) = self.paused.pop_front()
        {
            self.go_on(slot, now);
        }
        if !self.is_over
            && let Some(schedule) = &mut self.schedule
        {
            let room = self.share.clients - self.slots.len() + self.free.len();
            schedule.queue(now, room, &mut self.waiting, &mut self.record.lag);
        }
        let opened = self.dialled;
        while !self.waiting.is_empty() && self.dialled - opened < PORTION {
            let slot = match self.free.pop_front() {
                Some(slot) => {
                    self.slots[slot].is_free = false;
                    slot
                }
                None if self.slots.len() < self.share.clients => self.another(),
                None => break,
            };
            let Some(due) = self.waiting.pop_front() else { break };
            let room = match self.share.arrival {
                Arrival::Connections(_) => self.most(slot) as u64,
                _ => 1,
            };
            let count = self.room(slot, room);
            self.send_request(slot, due, count);
        }
        self.record.burst = self.record.burst.max((self.dialled - opened) as u64);
    }

    /// How many of `most` requests the connection of a slot may still carry, or the next one if there is none.
    fn room(&mut self, slot: usize, most: u64) -> u64 {
        let slot = &mut self.slots[slot];
        if slot.connection.is_none() {
            slot.left = self.share.plan.calls;
        }
        slot.left.map_or(most, |left| left.min(most))
    }

    /// How many requests may be in progress over the connection of a slot. A new connection learns that from the server
    /// with HTTP/2.
    fn most(&self, slot: usize) -> usize {
        let pipeline = self.share.plan.pipeline;
        match &self.slots[slot].connection {
            Some(connection) => connection.most(pipeline),
            None if self.share.plan.http2 => 1,
            None => pipeline,
        }
    }

    /// Sends as many requests as possible over the connection of a slot, or over its next one.
    fn go_on(&mut self, slot: usize, now: Instant) {
        let connection = self.slots[slot].connection.as_ref();
        let under_way = connection.map_or(0, |connection| connection.asked.len());
        let free = self.most(slot).saturating_sub(under_way) as u64;
        let is_due = connection.is_some() || self.schedule.is_none();
        if self.is_over || !is_due || matches!(self.share.arrival, Arrival::Requests(_)) {
            return;
        }
        let mut room = self.room(slot, free);
        while room > 0
            && let Some(began) = self.slots[slot].owed.pop_front()
        {
            self.send_request(slot, began, 1);
            room -= 1;
            if self.slots[slot].connection.is_none() {
                return;
            }
        }
        let count = self.to_begin().map_or(room, |left| left.min(room));
        if count > 0 {
            self.left = self.left.map(|left| left - count);
            self.send_request(slot, now, count);
        }
    }

    /// Sends so many requests over the connection of a slot, and makes one if there is none.
    fn send_request(&mut self, slot: usize, began: Instant, count: u64) {
        let (plan, now) = (self.share.plan, Instant::now());
        self.pending += count;
        if self.slots[slot].connection.is_none()
            && let Err(broken) = self.open(slot, now)
        {
            return self.fail(slot, broken, count);
        }
        let Slot { connection: Some(connection), left, .. } = &mut self.slots[slot] else { return };
        *left = left.map(|left| left.saturating_sub(count));
        match connection.send_request(&self.epoll, &plan.requests, &mut self.number, count, began, now) {
            Ok(bytes) => {
                self.record.sent_bytes += bytes;
            }
            Err(broken) => self.fail(slot, broken, 0),
        }
    }

    fn open(&mut self, slot: usize, now: Instant) -> Result<(), Failure> {
        let plan = self.share.plan;
        let pick = self.dialled;
        self.dialled += 1;
        let server = plan.servers[pick % plan.servers.len()];
        let source = plan.sources.get(pick % plan.sources.len().max(1)).copied();
        let mut connection = Connection::open(server, source, slot as u64, &self.connector, now)?;
        self.open += 1;
        self.record.concurrent = self.record.concurrent.max(self.open);
        if self.record.first.is_none() {
            connection.note_server();
        }
        self.slots[slot].connection = Some(connection);
        Ok(())
    }

    /// Advances a connection as far as possible.
    fn advance(&mut self, slot: usize, event: EventFlags) {
        let Some(connection) = &mut self.slots[slot].connection else { return };
        self.received.responses.clear();
        (self.received.is_over, self.received.has_room, self.received.refused) = (false, false, 0);
        let read = connection.advance(&self.epoll, event, &mut self.buffer, &mut self.received);
        if self.record.first.is_none()
            && let Some((response, _)) = self.received.responses.first()
        {
            self.record.first = Some((connection.server(), response.body));
        }
        for (response, times) in &self.received.responses {
            self.record.add_response(response, times);
            if self.share.plan.samples {
                self.record.samples.push(*times);
            }
        }
        let (responses, refused) = (self.received.responses.len() as u64, self.received.refused);
        self.pending -= responses + refused;
        self.live.responses.fetch_add(responses, Relaxed);
        if refused > 0 {
            self.count_failures(Instant::now(), REFUSED, refused);
        }
        match read {
            Err(broken) => self.fail(slot, broken, 0),
            Ok(()) if responses + refused > 0 || self.received.is_over || self.received.has_room => self.settle(slot),
            Ok(()) => {}
        }
    }

    /// Handles responses over the connection of a slot, or its proper end.
    fn settle(&mut self, slot: usize) {
        let now = Instant::now();
        let Slot { connection: Some(connection), left, .. } = &self.slots[slot] else { return };
        let is_idle = connection.asked.is_empty();
        let is_complete = *left == Some(0) && is_idle;
        if self.received.is_over || is_complete {
            if is_complete {
                self.record.lives.record(now - connection.began);
            } else if is_idle && matches!(self.share.arrival, Arrival::Connections(_)) {
                // The connection should have carried more.
                self.count_failures(now, CUT_SHORT, 1);
            }
            self.give_up(slot, None, now);
        }
        let (is_open, think) = (self.slots[slot].connection.is_some(), self.share.plan.think);
        match self.share.arrival {
            Arrival::Requests(_) if is_idle || !is_open => self.release(slot),
            Arrival::Connections(_) if !is_open => self.release(slot),
            _ if is_open && !think.is_zero() => {
                if is_idle {
                    self.pause(slot, now + think);
                }
            }
            _ => self.go_on(slot, now),
        }
    }

    /// Resumes a slot at that moment; paused slots are in the order of their moments.
    fn pause(&mut self, slot: usize, until: Instant) {
        let place = self.paused.partition_point(|(other, _)| *other <= until);
        self.paused.insert(place, (until, slot));
    }

    /// Handles a connection that is broken, or could not be made for `count` requests.
    fn fail(&mut self, slot: usize, broken: Failure, count: u64) {
        let now = Instant::now();
        let was_there = self.slots[slot].connection.as_ref().is_some_and(|one| one.connected().is_some());
        self.pending -= count;
        self.count_failures(now, broken, count);
        self.give_up(slot, Some(broken).filter(|broken| !broken.was_idle), now);
        match self.schedule {
            Some(_) => self.release(slot),
            None => {
                let pause = if was_there { Duration::ZERO } else { PAUSE };
                self.pause(slot, now + self.share.plan.think.max(pause));
            }
        }
    }

    /// Ends the connection of a slot. Requests in progress have failed, or are repeated if nothing went wrong.
    fn give_up(&mut self, slot: usize, broken: Option<Failure>, now: Instant) {
        let Some(connection) = self.slots[slot].connection.take() else { return };
        note(&mut self.record, &connection);
        self.open -= 1;
        let under_way = connection.asked.len() as u64;
        self.pending -= under_way;
        let asked = connection.close(broken.is_none());
        match broken {
            Some(broken) => self.count_failures(now, broken, under_way),
            None if under_way > 0 && matches!(self.share.arrival, Arrival::Connections(_)) => {
                self.count_failures(now, CUT_SHORT, under_way);
            }
            None if under_way > 0 => {
                self.record.reopened += 1;
                let again = asked.iter().rev().map(|asked| asked.began);
                match self.schedule {
                    Some(_) => again.for_each(|began| self.waiting.push_front(began)),
                    None => again.for_each(|began| self.slots[slot].owed.push_front(began)),
                }
            }
            None => {}
        }
    }

    /// Counts failures: so many requests, or their connection.
    fn count_failures(&mut self, now: Instant, broken: Failure, requests: u64) {
        let count = match self.share.arrival {
            Arrival::Connections(_) => requests.min(1),
            _ => requests,
        };
        (0..count).for_each(|_| self.record.fail(now, broken.count));
        self.live.failures.fetch_add(count, Relaxed);
    }

    fn expire(&mut self, now: Instant) {
        let timeout = self.share.plan.timeout;
        let broken = Failure { count: |failures| &mut failures.timeout, was_idle: false };
        for slot in 0..self.slots.len() {
            let oldest = self.slots[slot].connection.as_ref().and_then(|one| one.asked.front());
            if oldest.is_some_and(|asked| now - asked.began > timeout) {
                self.fail(slot, broken, 0);
            }
        }
        while self.waiting.front().is_some_and(|due| now - *due > timeout) {
            self.waiting.pop_front();
            self.record.fail(now, broken.count);
            self.live.failures.fetch_add(1, Relaxed);
        }
    }
}

/// The time until a moment.
pub(super) fn pause(until: Instant, now: Instant) -> Timespec {
    let wait = until.saturating_duration_since(now);
    Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() }
}

/// Counts a connection that is over.
pub(super) fn note(record: &mut Record, connection: &Connection) {
    let Some(connected) = connection.connected() else { return };
    record.connections += 1;
    record.connect.record(connected - connection.began);
    match (connection.tls(), connection.secured()) {
        (None, _) => record.setup.record(connected - connection.began),
        (Some(session), Some(secured)) => {
            record.setup.record(secured - connection.began);
            record.handshake.record(secured - connected);
            let handshakes = &mut record.handshakes;
            *(if session.is_resumed() { &mut handshakes.resumed } else { &mut handshakes.full }) += 1;
            if record.agreed.is_none() {
                record.agreed = session.agreed();
            }
        }
        (Some(_), None) => {}
    }
    if record.complaint.is_none() {
        record.complaint = connection.complaint();
    }
}

/// Completes the results of a thread.
pub(super) fn finish(mut record: Record, live: &Live, elapsed: Duration) -> Record {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let used = Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32);
    record.busy = used.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    record.elapsed = elapsed;
    live.progress().take(&mut record.quarters);
    record
}

#[cfg(test)]
mod tests;
