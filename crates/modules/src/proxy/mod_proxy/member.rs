//! A member of a balancer: a backend of the configuration, or one that the page balancer-manager has added.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::time::Instant;
use upstream::{Limit, Tally};

use super::health::{Health, HealthExpr, HealthMethod, VALUES_MAX};
use super::place::Place;
use super::rest::RETRY;
use super::status::Status;
use super::target::Target;
use super::worker::{Parameters, ROUTE_MAX, Worker};

/// The share of the load of a member whose line names none, in hundredths.
const FACTOR: u32 = 100;
/// The longest URL of a member that is added, in bytes.
pub(crate) const URL_MAX: usize = 255;

/// A backend in a balancer.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) worker: Worker,
    /// Its URL as the configuration has it.
    pub(crate) url: String,
    /// Whether the configuration does not name it.
    pub(crate) is_added: bool,
    pub(crate) retry: Duration,
    /// How long it may be silent.
    pub(crate) timeout: Duration,
    /// What is counted of it, and how many of its requests are on their way.
    pub(crate) tally: Tally,
    /// How many connections to it a child uses at most.
    pub(super) limit: Option<Arc<Limit>>,
    conditions: Conditions,
    place: Place,
}

/// The conditions of the server that a member is of.
pub(super) type Conditions = Arc<[Arc<HealthExpr>]>;

impl Member {
    /// One of the configuration, which may be silent for so long unless its line says otherwise.
    pub(super) fn configured(
        worker: Worker,
        timeout: Duration,
        limit: Option<Arc<Limit>>,
        conditions: Conditions,
        (place, tally): (Place, Tally),
    ) -> Member {
        let Parameters { retry, timeout: own, .. } = worker.parameters;
        let (retry, timeout) = (retry.unwrap_or(RETRY), own.unwrap_or(timeout));
        let url = worker.target.name();
        let member = Member { url, is_added: false, retry, timeout, worker, tally, limit, conditions, place };
        member.set(member.first_status(), true);
        member.set_share(member.first_factor(), member.first_set());
        member
    }

    /// The one that was added at a place.
    pub(super) fn added(timeout: Duration, conditions: Conditions, (place, tally): (Place, Tally)) -> Member {
        // Its URL was valid when it was added. A member without one would be the end of its requests only.
        let nowhere =
            || Target { socket: None, scheme: String::new(), host: String::new(), port: None, path: String::new() };
        let text = place.text().unwrap_or_default();
        let target = Target::parse(Texts::of(&text).url).unwrap_or_else(|_| nowhere());
        let url = target.name();
        let worker = Worker::new(target, Parameters::default());
        Member { url, is_added: true, retry: RETRY, timeout, worker, tally, limit: None, conditions, place }
    }

    /// Prepares a place for a member with this URL, which is disabled at first, as in Apache. For who has the balancer's lock.
    pub(super) fn prepare(place: &Place, target: &Target) {
        let [status, .., share, _] = place.words();
        status.store(Status::DISABLED.bits(), Relaxed);
        share.store(share_word(FACTOR, 0), Relaxed);
        place.set_text(&Texts { url: &target.name(), ..Texts::default() }.text());
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.place.words()[index]
    }

    pub(crate) fn status(&self) -> Status {
        Status::from_bits(self.word(0).load(Relaxed))
    }

    /// The status that the configuration gives it.
    pub(crate) fn first_status(&self) -> Status {
        self.worker.parameters.status.of(Status::default())
    }

    /// Changes its status.
    pub(crate) fn set(&self, status: Status, on: bool) {
        match on {
            true => self.word(0).fetch_or(status.bits(), Relaxed),
            false => self.word(0).fetch_and(!status.bits(), Relaxed),
        };
    }

    /// It could not be reached, or does not work: it gets no requests for some time, unless its errors do not count.
    pub(crate) fn fails(&self) {
        if !self.status().has(Status::IGNORES_ERRORS) {
            self.word(1).store(Instant::now().nanoseconds(), Relaxed);
            self.set(Status::IN_ERROR, true);
        }
    }

    /// Gives it another try if its time is over.
    pub(super) fn recover(&self, now: Instant) {
        if self.status().has(Status::IN_ERROR) && self.rest(now).is_zero() {
            self.set(Status::IN_ERROR, false);
        }
    }

    /// Its status, once it has been given another try if its time is over.
    pub(super) fn status_at(&self, now: Instant) -> Status {
        let status = self.status();
        if status.has(Status::IN_ERROR) && self.rest(now).is_zero() { status.without(Status::IN_ERROR) } else { status }
    }

    /// How long it gets no requests after its failure.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        let age = Duration::from_nanos(now.nanoseconds().saturating_sub(self.word(1).load(Relaxed)));
        if self.status().has(Status::IGNORES_ERRORS) { Duration::ZERO } else { self.retry.saturating_sub(age) }
    }

    /// How often it was elected.
    pub(crate) fn elected(&self) -> &AtomicU64 {
        self.word(2)
    }

    /// The bytes of the requests that were sent to it.
    pub(crate) fn sent(&self) -> &AtomicU64 {
        self.word(3)
    }

    /// The bytes of its responses.
    pub(crate) fn received(&self) -> &AtomicU64 {
        self.word(4)
    }

    /// How far it is behind its share, in hundredths of a request.
    pub(crate) fn arrears(&self) -> i64 {
        self.word(5).load(Relaxed).cast_signed()
    }

    pub(super) fn add_arrears(&self, by: i64) {
        self.word(5).fetch_add(by.cast_unsigned(), Relaxed);
    }

    /// Its share of the load, in hundredths, and its set.
    pub(crate) fn factor(&self) -> u32 {
        (self.word(6).load(Relaxed) >> 8) as u32
    }

    pub(crate) fn set_number(&self) -> u8 {
        self.word(6).load(Relaxed) as u8
    }

    pub(crate) fn set_share(&self, factor: u32, set: u8) {
        self.word(6).store(share_word(factor, set), Relaxed);
    }

    /// The share and the set that the configuration gives it.
    pub(crate) fn first_factor(&self) -> u32 {
        self.worker.parameters.factor.unwrap_or(FACTOR)
    }

    pub(crate) fn first_set(&self) -> u8 {
        self.worker.parameters.set.unwrap_or(0)
    }

    /// The end of the identifiers of sessions that belong to it.
    pub(crate) fn route(&self) -> Option<Cow<'_, str>> {
        match self.place.text() {
            None => self.worker.parameters.route.as_deref().map(Cow::Borrowed),
            Some(text) => given(Texts::of(&text).route),
        }
    }

    /// The route of the member that takes its place.
    pub(crate) fn redirect(&self) -> Option<Cow<'_, str>> {
        match self.place.text() {
            None => self.worker.parameters.redirect.as_deref().map(Cow::Borrowed),
            Some(text) => given(Texts::of(&text).redirect),
        }
    }

    /// How it is checked.
    pub(crate) fn health(&self) -> Cow<'_, Health> {
        let first = &self.worker.parameters.health;
        let text = self.place.text();
        match text.as_deref().map(Texts::of).filter(|texts| !texts.health[0].is_empty()) {
            None => Cow::Borrowed(first),
            Some(texts) => Cow::Owned(first.with_values(texts.health.map(Some), &self.conditions)),
        }
    }

    /// The same with other values, if it could be checked like that.
    pub(crate) fn health_with(&self, values: [Option<&str>; 6]) -> Option<Health> {
        let changed = self.health().with_values(values, &self.conditions);
        can_be_checked(&self.worker, changed.method()).then_some(changed)
    }

    /// The names of the conditions that it may have to meet.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &str> {
        self.conditions.iter().map(|condition| condition.name.as_str())
    }

    /// Changes its routes, and how it is checked. For who has the balancer's lock.
    pub(super) fn set_texts(&self, route: &str, redirect: &str, health: &Health) {
        let url = if self.is_added { &*self.url } else { "" };
        let values = if *health == self.worker.parameters.health { Default::default() } else { health.values() };
        let mut texts = Texts { url, route, redirect, ..Texts::default() };
        texts.health.iter_mut().zip(&values).for_each(|(text, value)| *text = value);
        self.place.set_text(&texts.text());
    }
}

/// Whether a backend can be checked in this way: only those with HTTP and without encryption get requests.
pub(super) fn can_be_checked(worker: &Worker, method: Option<HealthMethod>) -> bool {
    let is_http = ["http", "ws"].contains(&worker.target.scheme.as_str());
    is_http || !matches!(method, Some(HealthMethod::Request(..)))
}

fn share_word(factor: u32, set: u8) -> u64 {
    u64::from(factor) << 8 | u64::from(set)
}

fn given(text: &str) -> Option<Cow<'static, str>> {
    (!text.is_empty()).then(|| text.to_string().into())
}

/// The texts of a member that may change, or that the configuration does not have: a line for each.
#[derive(Default)]
struct Texts<'t> {
    url: &'t str,
    route: &'t str,
    redirect: &'t str,
    /// The values of its checks; all empty: those of the configuration.
    health: [&'t str; 6],
}

const _: () = assert!(URL_MAX + 2 * ROUTE_MAX + VALUES_MAX + 3 <= super::place::TEXT_MAX);

impl<'t> Texts<'t> {
    fn of(text: &'t str) -> Texts<'t> {
        let mut lines = text.split('\n');
        let mut next = || lines.next().unwrap_or_default();
        Texts { url: next(), route: next(), redirect: next(), health: [(); 6].map(|()| next()) }
    }

    fn text(&self) -> String {
        let [method, interval, passes, fails, condition, uri] = self.health;
        [self.url, self.route, self.redirect, method, interval, passes, fails, condition, uri].join("\n")
    }
}
