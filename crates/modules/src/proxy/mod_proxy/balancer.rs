//! Balancers: backends of which each request gets one.
//!
//! The lines about a balancer may be spread over the configuration. Once all are read, [`resolve`] makes a [`Balancer`] of those
//! that concern a server, with counts that all processes share.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conf::{Context, Error, Origin, SettingsMap, settings};
use server::core::CoreServer;
use server::{Draft, Request, Server};
use sys::shared_lock::{self, Held};
use upstream::{Ledger, Tally};

use super::balancer_lines::{BalancerLine, BalancerParameters, NamedLine, PREFIX};
use super::health::Health;
use super::limited::limit_of;
use super::member::{Conditions, Member, can_be_checked};
use super::method::Method;
use super::place::{Place, Places};
use super::settings::ProxyServer;
use super::target::Target;
use super::worker::Worker;
use crate::derived::DerivedPerHost;

/// The name of mod_proxy_balancer in log lines.
pub(crate) const NAME: &str = "proxy_balancer";

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

/// What the page balancer-manager may change of a balancer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BalancerSettings {
    /// How it elects members.
    pub(crate) method: Method,
    /// How long a request waits for a member.
    pub(crate) timeout: Option<Duration>,
    /// How many members more a request is tried at.
    pub(crate) attempts: usize,
    /// Whether a session ends with its member.
    pub(crate) no_failover: bool,
    pub(crate) sticky: Option<Sticky>,
}

/// The cookie with the identifier of a session, and the parameter of paths.
pub(crate) type Sticky = (String, String);

/// Backends of which each request gets one.
#[derive(Debug)]
pub(crate) struct Balancer {
    /// Its name without `balancer://`.
    pub(crate) name: String,
    /// The members that the configuration names.
    configured: Vec<Member>,
    /// The room for those that the page adds, in this order.
    room: Box<[Room]>,
    /// The first path that `ProxyPass` passes on to it.
    pub(crate) path: Option<String>,
    /// The settings that it begins with.
    pub(crate) first: BalancerSettings,
    pub(super) separator: Option<char>,
    pub(super) semicolons: bool,
    pub(crate) fail_on: Vec<u16>,
    pub(crate) fail_on_timeout: bool,
    pub(super) force_recovery: bool,
    pub(crate) nonce: Option<String>,
    /// Whether what the page has changed outlives the server (`BalancerPersist`).
    pub(crate) persists: bool,
    /// How long a member that is added may be silent.
    silence: Duration,
    /// The conditions of health checks.
    conditions: Conditions,
    place: Place,
}

/// The room for a member that the page may add.
#[derive(Debug)]
struct Room {
    place: Place,
    tally: Tally,
    /// It, once this process has met it.
    member: OnceLock<Member>,
}

/// Why a member cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdded {
    /// It is one already.
    Known,
    /// There is no room for more.
    Full,
    /// A process that was stopped does not let go of the balancer.
    Stuck,
}

/// The longest text about sessions that the page may set, as in Apache: names of a cookie and a parameter, in bytes.
pub(crate) const STICKY_MAX: usize = 62;

impl Balancer {
    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// Its members: those of the configuration, and those that were added.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> + Clone {
        self.configured.iter().chain(self.room[..self.added()].iter().map(|room| self.member_in(room)))
    }

    /// How many members it has.
    pub(crate) fn count(&self) -> usize {
        self.configured.len() + self.added()
    }

    /// How many members it may have.
    pub(crate) fn count_max(&self) -> usize {
        self.configured.len() + self.room.len()
    }

    /// The member with this index, of those that there are.
    pub(crate) fn member(&self, index: usize) -> &Member {
        match index.checked_sub(self.configured.len()) {
            None => &self.configured[index],
            Some(index) => self.member_in(&self.room[index]),
        }
    }

    /// How many members were added. None is ever removed.
    fn added(&self) -> usize {
        let count = self.place.words()[ADDED].load(Acquire);
        usize::try_from(count).map_or(self.room.len(), |count| count.min(self.room.len()))
    }

    fn member_in<'b>(&self, room: &'b Room) -> &'b Member {
        room.member.get_or_init(|| {
            Member::added(self.silence, self.conditions.clone(), (room.place.clone(), room.tally.clone()))
        })
    }

    /// Adds a member, which all processes see at once.
    pub(crate) fn add(&self, target: &Target) -> Result<&Member, NotAdded> {
        let held = self.lock().ok_or(NotAdded::Stuck)?;
        if self.members().any(|member| is_same(&member.worker.target, target)) {
            return Err(NotAdded::Known);
        }
        let count = self.added();
        let room = self.room.get(count).ok_or(NotAdded::Full)?;
        Member::prepare(&room.place, target);
        self.place.words()[ADDED].store(count as u64 + 1, Release);
        drop(held);
        Ok(self.member_in(room))
    }

    /// Lets no other process elect a member, as long as the returned value lives. `None`: a process that was stopped does not let
    /// go of it.
    pub(super) fn lock(&self) -> Option<Held<'_>> {
        shared_lock::lock(&self.place.words()[LOCK])
    }

    /// How it elects members.
    pub(crate) fn method(&self) -> Method {
        Method::from_number(self.place.words()[METHOD].load(Relaxed))
    }

    /// How long a request waits for a member.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.place.words()[TIMEOUT].load(Relaxed))).filter(|time| !time.is_zero())
    }

    /// How many members more a request is tried at.
    pub(crate) fn attempts(&self) -> usize {
        usize::try_from(self.place.words()[ATTEMPTS].load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Whether a session ends with its member.
    pub(crate) fn no_failover(&self) -> bool {
        self.place.words()[NO_FAILOVER].load(Relaxed) != 0
    }

    /// The cookie with the identifier of a session, and the parameter of paths.
    pub(crate) fn sticky(&self) -> Option<Cow<'_, Sticky>> {
        match self.place.text() {
            None => self.first.sticky.as_ref().map(Cow::Borrowed),
            Some(text) => {
                let (cookie, parameter) = text.split_once('\n')?;
                Some(Cow::Owned((cookie.to_string(), parameter.to_string())))
            }
        }
    }

    /// All settings that the page may change.
    pub(crate) fn settings(&self) -> BalancerSettings {
        BalancerSettings {
            method: self.method(),
            timeout: self.timeout(),
            attempts: self.attempts(),
            no_failover: self.no_failover(),
            sticky: self.sticky().map(Cow::into_owned),
        }
    }

    /// Changes them. `Err`: a process that was stopped does not let go of the balancer.
    pub(crate) fn change(&self, to: &BalancerSettings) -> Result<(), NotAdded> {
        if to.sticky != self.sticky().map(Cow::into_owned) {
            let _held = self.lock().ok_or(NotAdded::Stuck)?;
            let lines = to.sticky.as_ref().map(|(cookie, parameter)| format!("{cookie}\n{parameter}"));
            self.place.set_text(&lines.unwrap_or_default());
        }
        if to.method != self.method() {
            self.forget_traffic(to.method);
        }
        self.write(to);
        Ok(())
    }

    fn write(&self, to: &BalancerSettings) {
        let words = self.place.words();
        words[METHOD].store(to.method.number(), Relaxed);
        words[TIMEOUT].store(to.timeout.map_or(0, |time| time.as_secs()), Relaxed);
        words[ATTEMPTS].store(to.attempts as u64, Relaxed);
        words[NO_FAILOVER].store(to.no_failover.into(), Relaxed);
    }

    /// A member gets requests again, or the method changes: if that one goes by traffic, all begin anew. Otherwise the member would get
    /// all requests until it has caught up.
    pub(crate) fn forget_traffic(&self, method: Method) {
        if method == Method::Traffic {
            for member in self.members() {
                member.sent().store(0, Relaxed);
                member.received().store(0, Relaxed);
            }
        }
    }

    /// Changes the routes of a member of it.
    pub(crate) fn set_routes(&self, member: &Member, route: &str, redirect: &str) -> Result<(), NotAdded> {
        let _held = self.lock().ok_or(NotAdded::Stuck)?;
        member.set_texts(route, redirect, &member.health());
        Ok(())
    }

    /// Changes how a member of it is checked.
    pub(crate) fn set_health(&self, member: &Member, health: &Health) -> Result<(), NotAdded> {
        let _held = self.lock().ok_or(NotAdded::Stuck)?;
        let (route, redirect) = (member.route().unwrap_or_default(), member.redirect().unwrap_or_default());
        member.set_texts(&route, &redirect, health);
        Ok(())
    }

    /// How often the page has changed something.
    pub(crate) fn changes(&self) -> &AtomicU64 {
        &self.place.words()[CHANGES]
    }
}

/// The words of a balancer in shared memory: the lock, how many members were added, how often the page has changed something, and its
/// settings.
const LOCK: usize = 0;
const METHOD: usize = 1;
const ADDED: usize = 2;
const TIMEOUT: usize = 3;
const ATTEMPTS: usize = 4;
const NO_FAILOVER: usize = 5;
const CHANGES: usize = 6;

/// Whether two URLs are those of one member. A slash at the end does not count.
fn is_same(one: &Target, other: &Target) -> bool {
    let path = |target: &Target| target.path.trim_end_matches('/').len();
    let server = |target: &Target| target.server();
    server(one) == server(other) && one.path[..path(one)] == other.path[..path(other)]
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
    let places: usize = servers.iter().enumerate().map(|(number, settings)| places_of(settings, number > 0)).sum();
    if places == 0 {
        return Ok(());
    }
    if !["slotmem_shm_module", "slotmem_plain_module"].iter().any(|name| context.language.has_module(name)) {
        let text = "AH01177: Failed to lookup provider 'shm' for 'slotmem': is mod_slotmem_shm loaded??";
        return Err(Error::check(text));
    }
    let all = Places::new(places)
        .map_err(|error| Error::check(format!("{}: no shared memory for balancers", sys::describe(&error))))?;
    let ledger = Ledger::new(places)
        .map_err(|error| Error::check(format!("{}: no shared memory for members", sys::describe(&error))))?;
    let mut used = 0;
    let mut place = || {
        used += 1;
        (all.place(used - 1), ledger.tally(used - 1))
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

/// How many places the balancers of a server need at most. Those that a virtual host inherits have theirs.
fn places_of(settings: &SettingsMap, is_host: bool) -> usize {
    let lines = settings.get::<ProxyServer>().balancers.entries().iter().filter(|(line, _)| line.in_host || !is_host);
    let of_line = |line: &BalancerLine| match line {
        BalancerLine::Parameters(parameters) => 1 + parameters.growth.unwrap_or(0),
        BalancerLine::Member(_) => 2,
    };
    lines.map(|(line, _)| of_line(&line.line)).sum()
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
    let conditions: Conditions = settings.get::<ProxyServer>().health_exprs.iter().cloned().collect();
    let own = settings.get::<ProxyServer>().timeout.get().copied();
    let timeout = own.unwrap_or_else(|| settings.get::<CoreServer>().timeout());
    let members: Result<Vec<Member>, Error> =
        workers.into_iter().map(|worker| member(worker, timeout, context, &conditions, place())).collect();
    let configured = members?;
    let room = (0..parameters.growth.unwrap_or(0)).map(|_| {
        let (place, tally) = place();
        Room { place, tally, member: OnceLock::new() }
    });
    let room = room.collect();
    let path = settings.get::<ProxyServer>().passes.iter().find_map(|pass| pass.path_to(name));
    let first = BalancerSettings {
        method,
        timeout: parameters.timeout,
        attempts: parameters.attempts.unwrap_or(configured.len().saturating_sub(1)),
        no_failover: parameters.no_failover.unwrap_or(false),
        sticky: parameters.sticky.filter(|(cookie, _)| !cookie.is_empty()),
    };
    let balancer = Balancer {
        name: (*name).to_string(),
        configured,
        room,
        path,
        first,
        separator: parameters.separator.unwrap_or(Some('.')),
        semicolons: parameters.semicolons.unwrap_or(false),
        fail_on: parameters.fail_on.unwrap_or_default(),
        fail_on_timeout: parameters.fail_on_timeout.unwrap_or(false),
        force_recovery: parameters.force_recovery.unwrap_or(true),
        nonce: parameters.nonce.unwrap_or_else(|| Some(format!("{:032x}", u128::from_be_bytes(sys::random::bytes())))),
        persists: settings.get::<ProxyServer>().balancer_persist(),
        silence: timeout,
        conditions,
        place: place_of_balancer,
    };
    balancer.write(&balancer.first);
    Ok(balancer)
}

/// A member, which may be silent for so long unless its line says otherwise.
fn member(
    worker: Worker,
    timeout: Duration,
    context: &Context,
    conditions: &Conditions,
    place: (Place, Tally),
) -> Result<Member, Error> {
    if !can_be_checked(&worker, worker.parameters.health.method()) {
        let url = worker.target.name();
        let text = format!("{url}: Tsubame checks the health of members other than http:// only with hcmethod=TCP");
        return Err(Error::check(text));
    }
    let limit = limit_of(&worker.target, &worker.parameters, context);
    Ok(Member::configured(worker, timeout, limit, conditions.clone(), place))
}

/// The balancers that the status page of the request's server shows.
pub(crate) fn shown(request: &Request) -> &[Arc<Balancer>] {
    if request.host::<ProxyServer>().status() { request.host::<Balancers>().all() } else { &[] }
}

/// Whether there is a process that checks members: some are to be checked, or one that will be may be added.
pub(crate) fn has_checks(server: &Server) -> bool {
    let is_checked = |member: &Member| member.worker.parameters.health.method().is_some();
    server.language.has_module("proxy_hcheck_module")
        && all(server).iter().any(|balancer| !balancer.room.is_empty() || balancer.configured.iter().any(is_checked))
}

/// Whether changes of the page outlive the request's server.
pub(crate) fn persists(request: &Request) -> bool {
    request.host::<ProxyServer>().balancer_persist()
}

/// The balancers of all servers, each once.
pub(crate) fn all(server: &Server) -> Vec<Arc<Balancer>> {
    all_of_hosts(server).into_iter().map(|(_, balancer)| balancer).collect()
}

/// The balancers of all servers, each once, with the first server that has it: empty for the main server; the others of one name
/// are numbered.
pub(crate) fn all_of_hosts(server: &Server) -> Vec<(String, Arc<Balancer>)> {
    let mut all: Vec<(String, Arc<Balancer>)> = Vec::new();
    let mut hosts: HashMap<String, usize> = HashMap::new();
    for vhost in &server.hosts {
        let port = vhost.port.map(|port| format!(":{port}")).unwrap_or_default();
        let mut of = if vhost.index == 0 { String::new() } else { format!("{}{port}", vhost.name) };
        let count = hosts.entry(of.clone()).or_default();
        *count += 1;
        if *count > 1 {
            of = format!("{of} {count}");
        }
        for one in vhost.settings.get::<Balancers>().all() {
            if !all.iter().any(|(_, known)| Arc::ptr_eq(known, one)) {
                all.push((of.clone(), one.clone()));
            }
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
