//! Balancers: backends of which each request gets one.
//!
//! The lines about a balancer may be spread over the configuration. Once all are read, [`resolve`] makes a [`Balancer`] of those
//! that concern a server, with counts that all processes share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use conf::{Context, Error, Origin, SettingsMap, settings};
use server::core::CoreServer;
use server::{Draft, Request, Server};
use sys::shared_lock::{self, Held};
use sys::shm::Shared;
use sys::time::Instant;
use upstream::{Ledger, Limit, Tally};

use super::balancer_lines::{BalancerLine, BalancerParameters, NamedLine, PREFIX};
use super::health::HealthMethod;
use super::limited::limit_of;
use super::method::Method;
use super::rest::RETRY;
use super::settings::ProxyServer;
use super::status::Status;
use super::worker::{Parameters, Worker};
use crate::derived::DerivedPerHost;

/// The name of mod_proxy_balancer in log lines.
pub(crate) const NAME: &str = "proxy_balancer";
/// The share of the load of a member whose line names none, in hundredths.
const FACTOR: u32 = 100;

settings! {
    /// The balancers of a server.
    pub struct Balancers {
        all: DerivedPerHost<Arc<[Arc<Balancer>]>>,
    }
}

impl Balancers {
    /// All, in the order of the configuration.
    pub(crate) fn all(&self) -> &[Arc<Balancer>] {
        &self.all.0
    }
}

/// The number of words in shared memory of a member, and of a balancer.
const MEMBER: usize = 7;
type Words = [AtomicU64; MEMBER];

/// A place in memory that all processes share.
#[derive(Debug)]
struct Place {
    words: Arc<Shared<Words>>,
    index: usize,
}

impl Place {
    fn words(&self) -> &Words {
        &self.words[self.index]
    }
}

/// Backends of which each request gets one.
#[derive(Debug)]
pub(crate) struct Balancer {
    /// Its name without `balancer://`.
    pub(crate) name: String,
    pub(crate) members: Vec<Member>,
    /// The first path that `ProxyPass` passes on to it.
    pub(crate) path: Option<String>,
    pub(crate) sticky: Option<(String, String)>,
    pub(super) separator: Option<char>,
    pub(super) semicolons: bool,
    pub(crate) no_failover: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) attempts: usize,
    pub(crate) fail_on: Vec<u16>,
    pub(crate) fail_on_timeout: bool,
    pub(super) force_recovery: bool,
    pub(crate) nonce: Option<String>,
    place: Place,
}

impl Balancer {
    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// Lets no other process elect a member, as long as the returned value lives. `None`: a process that was stopped does not let
    /// go of it.
    pub(super) fn lock(&self) -> Option<Held<'_>> {
        shared_lock::lock(&self.place.words()[0])
    }

    /// How it elects members.
    pub(crate) fn method(&self) -> Method {
        Method::from_number(self.place.words()[1].load(Relaxed))
    }

    pub(crate) fn set_method(&self, method: Method) {
        self.place.words()[1].store(method.number(), Relaxed);
    }
}

/// A backend in a balancer.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) worker: Worker,
    /// Its URL as the configuration has it.
    pub(crate) url: String,
    pub(crate) retry: Duration,
    /// How long it may be silent.
    pub(crate) timeout: Duration,
    /// What is counted of it, and how many of its requests are on their way.
    pub(crate) tally: Tally,
    /// How many connections to it a child uses at most.
    pub(super) limit: Option<Arc<Limit>>,
    place: Place,
}

impl Member {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.place.words()[index]
    }

    pub(crate) fn status(&self) -> Status {
        Status::from_bits(self.word(0).load(Relaxed))
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
        self.word(6).store(u64::from(factor) << 8 | u64::from(set), Relaxed);
    }
}

/// The lines of a server about one balancer, by its name.
struct LinesOfOne<'a> {
    name: &'a str,
    lines: Vec<&'a (Arc<NamedLine>, Origin)>,
}

/// The balancers of a server, by the lines about them.
fn by_name<'a>(settings: &'a SettingsMap, is_host: bool) -> Vec<LinesOfOne<'a>> {
    let conf = settings.get::<ProxyServer>();
    let own_only = is_host && !conf.balancer_inherit();
    let mut all: Vec<LinesOfOne<'a>> = Vec::new();
    for line in conf.balancers.entries().iter().filter(|(line, _)| line.in_host || !own_only) {
        match all.iter_mut().find(|one| one.name == line.0.name) {
            Some(one) => one.lines.push(line),
            None => all.push(LinesOfOne { name: &line.0.name, lines: vec![line] }),
        }
    }
    all
}

/// Makes the balancers of all servers.
pub(crate) fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let mut servers: Vec<&mut SettingsMap> =
        std::iter::once(&mut draft.main).chain(draft.hosts.iter_mut().map(|host| &mut host.server)).collect();
    let lines = |settings: &SettingsMap| settings.get::<ProxyServer>().balancers.entries().len();
    let places: usize = servers.iter().map(|settings| 2 * lines(settings)).sum();
    if places == 0 {
        return Ok(());
    }
    if !["slotmem_shm_module", "slotmem_plain_module"].iter().any(|name| context.language.has_module(name)) {
        let text = "AH01177: Failed to lookup provider 'shm' for 'slotmem': is mod_slotmem_shm loaded??";
        return Err(Error::check(text));
    }
    let words = Shared::new(places)
        .map_err(|error| Error::check(format!("{}: no shared memory for balancers", sys::describe(&error))))?;
    let words = Arc::new(words);
    let ledger = Ledger::new(places)
        .map_err(|error| Error::check(format!("{}: no shared memory for members", sys::describe(&error))))?;
    let mut used = 0;
    let mut place = || {
        used += 1;
        (Place { words: words.clone(), index: used - 1 }, ledger.tally(used - 1))
    };
    let mut of_main: Arc<[Arc<Balancer>]> = Arc::new([]);
    for (number, settings) in servers.iter_mut().enumerate() {
        let mut all = Vec::new();
        for lines in by_name(settings, number > 0) {
            // As in Apache, lines of a virtual host about a balancer that it inherits do not count.
            let inherits = lines.lines.iter().any(|(line, _)| !line.in_host);
            let known = of_main.iter().find(|one| inherits && one.name == lines.name);
            match known {
                Some(known) => all.push(known.clone()),
                None => all.push(Arc::new(balancer(&lines, settings, context, &mut place)?)),
            }
        }
        let all: Arc<[Arc<Balancer>]> = all.into();
        if number == 0 {
            of_main = all.clone();
        }
        settings.edit::<Balancers>().all = DerivedPerHost(all);
    }
    Ok(())
}

/// Makes a balancer of its lines.
fn balancer(
    LinesOfOne { name, lines }: &LinesOfOne<'_>,
    settings: &SettingsMap,
    context: &Context,
    place: &mut impl FnMut() -> (Place, Tally),
) -> Result<Balancer, Error> {
    let mut parameters = BalancerParameters::default();
    let mut workers: Vec<Worker> = Vec::new();
    for (line, _) in lines {
        match &line.line {
            BalancerLine::Parameters(more) => parameters.changed_by(more),
            BalancerLine::Member(worker) => {
                // As in Apache, the first line about a member counts.
                if !workers.iter().any(|one| one.target == worker.target) {
                    workers.push(Worker::clone(worker));
                }
            }
        }
    }
    let method = parameters.method.unwrap_or_default();
    if !context.language.has_module(method.module()) {
        return Err(Error::check(format!(
            "AH02432: Cannot find LB Method: {}. It is in the module {}, which LoadModule loads",
            method.name(),
            method.module()
        )));
    }
    let (place_of_balancer, _) = place();
    let own = settings.get::<ProxyServer>().timeout.get().copied();
    let timeout = own.unwrap_or_else(|| settings.get::<CoreServer>().timeout());
    let members: Result<Vec<Member>, Error> =
        workers.into_iter().map(|worker| member(worker, timeout, context, place())).collect();
    let members = members?;
    let path = settings.get::<ProxyServer>().passes.iter().find_map(|pass| pass.path_to(name));
    let balancer = Balancer {
        name: (*name).to_string(),
        path,
        sticky: parameters.sticky.filter(|(cookie, _)| !cookie.is_empty()),
        separator: parameters.separator.unwrap_or(Some('.')),
        semicolons: parameters.semicolons.unwrap_or(false),
        no_failover: parameters.no_failover.unwrap_or(false),
        timeout: parameters.timeout,
        attempts: parameters.attempts.unwrap_or(members.len().saturating_sub(1)),
        members,
        fail_on: parameters.fail_on.unwrap_or_default(),
        fail_on_timeout: parameters.fail_on_timeout.unwrap_or(false),
        force_recovery: parameters.force_recovery.unwrap_or(true),
        nonce: parameters.nonce.unwrap_or_else(|| Some(format!("{:032x}", u128::from_be_bytes(sys::random::bytes())))),
        place: place_of_balancer,
    };
    balancer.set_method(method);
    Ok(balancer)
}

/// A member, which may be silent for so long unless its line says otherwise.
fn member(
    worker: Worker,
    timeout: Duration,
    context: &Context,
    (place, tally): (Place, Tally),
) -> Result<Member, Error> {
    let Parameters { retry, factor, set, status, timeout: own, .. } = worker.parameters;
    let url = worker.target.name();
    let is_http = ["http", "ws"].contains(&worker.target.scheme.as_str());
    if !is_http && matches!(worker.parameters.health.method(), Some(HealthMethod::Request(..))) {
        let text = format!("{url}: Tsubame checks the health of members other than http:// only with hcmethod=TCP");
        return Err(Error::check(text));
    }
    let limit = limit_of(&worker.target, &worker.parameters, context);
    let (retry, timeout) = (retry.unwrap_or(RETRY), own.unwrap_or(timeout));
    let member = Member { url, retry, timeout, worker, tally, limit, place };
    member.set(status.of(Status::default()), true);
    member.set_share(factor.unwrap_or(FACTOR), set.unwrap_or(0));
    Ok(member)
}

/// The balancers that the status page of the request's server shows.
pub(crate) fn shown(request: &Request) -> &[Arc<Balancer>] {
    if request.host::<ProxyServer>().status() { request.host::<Balancers>().all() } else { &[] }
}

/// The balancers of all servers, each once.
pub(crate) fn all(server: &Server) -> Vec<Arc<Balancer>> {
    let mut all: Vec<Arc<Balancer>> = Vec::new();
    for one in server.hosts.iter().flat_map(|vhost| vhost.settings.get::<Balancers>().all()) {
        if !all.iter().any(|known| Arc::ptr_eq(known, one)) {
            all.push(one.clone());
        }
    }
    all
}

/// A share of the load as the pages show it.
pub(crate) fn share_text(hundredths: u32) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// The balancer of a URL `balancer://name/…`, of the request's server.
pub(crate) fn of_url(request: &Request, url: &str) -> Option<Arc<Balancer>> {
    let name =
        url.get(..PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(PREFIX)).map(|_| &url[PREFIX.len()..])?;
    let name = name.split(['/', '?', ':']).next()?;
    request.host::<Balancers>().all().iter().find(|one| one.name.eq_ignore_ascii_case(name)).cloned()
}
