//! One user among many: from one request to the next.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use super::super::super::connection::Connection;
use super::super::super::record::Times;
use super::super::super::response::Response;
use super::super::super::worker::note;
use super::super::user::{User, UserConnection};
use super::super::{Step, transcript};
use super::{End, Slot, UNFIT, Users, token};
use crate::load::failure::Failure;

impl<'s> Users<'s> {
    /// Begins the next burst of a user. The session ends after the last one, or with the load.
    pub(super) fn go_on(&mut self, slot: usize, began: Instant) {
        let Slot::Taken(user) = &mut self.slots[slot] else { return };
        user.is_resting = false;
        // What was due before the end of an open loop is still sent.
        let goes_on = !self.is_over || (user.responses == 0 && self.schedule.is_some());
        match user.is_through() {
            true => self.end(slot, End::Complete),
            false if !goes_on => self.end(slot, End::CutOff),
            false => {
                user.begin(&mut self.request, began);
                self.proceed(slot);
            }
        }
    }

    /// Sends what a user has to send, or lets the user rest.
    fn proceed(&mut self, slot: usize) {
        while let Some((place, step)) = self.next(slot) {
            self.send(slot, place, step);
        }
        let Slot::Taken(user) = &mut self.slots[slot] else { return };
        if user.is_busy() || user.is_resting {
            return;
        }
        let (now, (least, most)) = (Instant::now(), user.think());
        match now.checked_add(self.random.between(least, most)).filter(|until| *until > now) {
            None => self.go_on(slot, now),
            Some(until) => {
                user.is_resting = true;
                self.resting.push(Reverse((until, slot)));
            }
        }
    }

    /// The next step to send, and the place of a connection for it.
    fn next(&mut self, slot: usize) -> Option<(usize, &'s Step)> {
        let (pipeline, connections) = (self.share.plan.pipeline, self.scenario.connections);
        let user = self.user(slot)?;
        let step = user.queue.front()?.step;
        let place = user.room(pipeline).or_else(|| user.place(connections))?;
        Some((place, step))
    }

    /// Sends a step over the connection in this place, which it makes if there is none.
    fn send(&mut self, slot: usize, place: usize, step: &Step) {
        let (scenario, now) = (self.scenario, Instant::now());
        let Some(user) = self.user(slot) else { return };
        let written = match user.write(scenario, step, now) {
            Ok(written) => written,
            Err(why) => return self.fail(slot, step.number, UNFIT, || format!("it was not sent: {why}")),
        };
        let is_there = user.links.get(place).is_some_and(Option::is_some);
        if !is_there && let Err(broken) = self.open(slot, place, now) {
            return self.fail(slot, step.number, broken, || "no connection could be made".to_owned());
        }
        let Slot::Taken(user) = &mut self.slots[slot] else { return };
        let Some(Some(link)) = user.links.get_mut(place) else { return };
        let Some(mut call) = user.queue.pop_front() else { return };
        transcript::request(scenario.prints.request, call.number, &written.head, &written.body);
        let (request, began) = (written.request(step), call.began);
        call.path = written.path;
        link.calls.push_back(call);
        link.left = link.left.map(|left| left.saturating_sub(1));
        match link.connection.send_request(&self.epoll, std::slice::from_ref(&request), &mut 0, 1, began, now) {
            Ok(bytes) => self.record.sent_bytes += bytes,
            Err(broken) => self.broken(slot, place, broken),
        }
    }

    fn open(&mut self, slot: usize, place: usize, now: Instant) -> Result<(), Failure> {
        let plan = self.share.plan;
        let pick = self.dialled;
        self.dialled += 1;
        let server = plan.servers[pick % plan.servers.len()];
        let source = plan.sources.get(pick % plan.sources.len().max(1)).copied();
        let mut connection = Connection::open(server, source, token(slot, place), &self.connector, now)?;
        if self.record.first.is_none() {
            connection.note_server();
        }
        self.open += 1;
        self.record.concurrent = self.record.concurrent.max(self.open);
        if let Some(user) = self.user(slot) {
            user.dialled += 1;
            user.links[place] = Some(UserConnection { connection, calls: VecDeque::new(), left: plan.calls });
        }
        Ok(())
    }

    /// Advances a connection as far as possible.
    pub(super) fn advance(&mut self, slot: usize, place: usize, event: EventFlags) {
        let Slot::Taken(user) = &mut self.slots[slot] else { return };
        let Some(Some(link)) = user.links.get_mut(place) else { return };
        let mut received = std::mem::take(&mut self.received);
        received.responses.clear();
        (received.is_over, received.has_room, received.refused) = (false, false, 0);
        let read = link.connection.advance(&self.epoll, event, &mut self.buffer, &mut received);
        let is_good = received
            .responses
            .iter()
            .fold(true, |is_good, (response, times)| self.take(slot, place, response, times) && is_good);
        let (is_over, has_responses) = (received.is_over, !received.responses.is_empty());
        self.received = received;
        match read {
            Err(broken) => self.broken(slot, place, broken),
            Ok(()) if !is_good => self.end(slot, End::Failed),
            Ok(()) => {
                let is_spent = |link: &mut UserConnection<'_>| link.left == Some(0) && link.calls.is_empty();
                if is_over || self.link(slot, place).is_some_and(is_spent) {
                    self.give_up(slot, place);
                }
                if is_over || has_responses {
                    self.proceed(slot);
                }
            }
        }
    }

    /// Takes a response; returns whether it is good.
    fn take(&mut self, slot: usize, place: usize, response: &Response, times: &Times) -> bool {
        let scenario = self.scenario;
        let Some(user) = self.user(slot) else { return false };
        let Some(Some(link)) = user.links.get_mut(place) else { return false };
        let Some(call) = link.calls.pop_front() else { return false };
        let kept = link.connection.kept().unwrap_or_default();
        let server = link.connection.server();
        transcript::reply(scenario.prints.reply, call.number, &kept, response);
        let verdict = user.learn(scenario, &call, response, &kept, times.done);
        self.record.first.get_or_insert((server, response.body));
        self.record.judged(response, times, verdict.is_ok());
        if self.share.plan.samples {
            self.record.samples.push(*times);
        }
        self.tally.add_response(call.step.number, times.done - times.began);
        self.live.responses.fetch_add(1, Relaxed);
        match verdict {
            Ok(()) => true,
            Err(why) => {
                self.tally.fail(call.step.number, true, || why);
                false
            }
        }
    }

    /// Handles a broken connection. Requests are sent again if the server may have closed it before it saw them;
    /// otherwise they have failed, and so has the session.
    pub(super) fn broken(&mut self, slot: usize, place: usize, broken: Failure) {
        let Some(link) = self.link(slot, place) else { return };
        if broken.was_idle || link.calls.is_empty() {
            self.give_up(slot, place);
            return self.proceed(slot);
        }
        let calls = std::mem::take(&mut link.calls);
        let why = || "it was not answered".to_owned();
        calls.iter().skip(1).for_each(|call| self.tally.fail(call.step.number, false, why));
        if let Some(call) = calls.front() {
            self.fail(slot, call.step.number, broken, why);
        }
    }

    /// Counts a request that has failed, and ends its session.
    fn fail(&mut self, slot: usize, step: usize, broken: Failure, why: impl FnOnce() -> String) {
        self.record.fail(Instant::now(), broken.count);
        self.live.failures.fetch_add(1, Relaxed);
        self.tally.fail(step, false, why);
        self.end(slot, End::Failed);
    }

    /// Ends a connection. Requests in progress are sent again.
    fn give_up(&mut self, slot: usize, place: usize) {
        let Some(user) = self.user(slot) else { return };
        let Some(link) = user.links.get_mut(place).and_then(Option::take) else { return };
        let is_lossy = !link.calls.is_empty();
        link.calls.into_iter().rev().for_each(|call| user.queue.push_front(call));
        self.record.reopened += u64::from(is_lossy);
        self.close(link.connection, !is_lossy);
    }

    pub(super) fn close(&mut self, connection: Connection, is_polite: bool) {
        note(&mut self.record, &connection);
        if connection.answered > 0 {
            self.record.lives.record(connection.began.elapsed());
        }
        self.open -= 1;
        connection.close(is_polite);
    }

    pub(super) fn user(&mut self, slot: usize) -> Option<&mut User<'s>> {
        match self.slots.get_mut(slot) {
            Some(Slot::Taken(user)) => Some(user),
            _ => None,
        }
    }

    fn link(&mut self, slot: usize, place: usize) -> Option<&mut UserConnection<'s>> {
        self.user(slot)?.links.get_mut(place)?.as_mut()
    }
}
