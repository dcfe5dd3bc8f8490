//! The helper process that renews the certificates of managed domains. It keeps the parent's user, so that only that
//! user has the keys.
//!
//! The store keeps the history of attempts (`staging/NAME/job.json`), so neither a restart nor a replacement process
//! contacts an authority earlier than it asked for.

use std::collections::BTreeSet;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use conf::Node;
use runtime::HelperProcess;
use runtime::executor::sleep;
use serde_json::{Value, json};
use server::{HelperHook, Server, VirtualHost};
use sys::cred::Identity;
use sys::event_loop::EventLoop;
use sys::process::Pid;
use sys::signal::Signal;
use sys::signal_fd::SignalFd;
use sys::watch::{Interest, watch};

use super::acme::{Failed, LETS_ENCRYPT, OrderContext};
use super::certificates::{self, Due};
use super::domains::{self, Domain, Progress};
use super::settings::MdServer;
use super::store::Store;
use super::{notify, order};
use crate::ssl::mod_ssl::Reloader;

/// The problem of a nonce that the authority does not take, which is no failure of the order (RFC 8555 section 6.5).
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
/// How often an order begins again at once for that reason: each time, three nonces in a row were refused.
const NONCE_RETRIES: usize = 3;
/// The longest pause after a failure.
const RETRY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long to wait for a store that another process has locked.
const LOCKED: Duration = Duration::from_secs(1);
/// How long the next generation's process may take to replace this one. After that the restart has failed, and this one
/// continues.
const SUCCESSION: Duration = Duration::from_secs(600);
/// The interval between warnings that a certificate is about to expire, in seconds.
const WARN_EVERY: i64 = 24 * 60 * 60;

/// Starts the helper if there is anything to do.
pub(super) static HELPER: HelperHook = helper;

/// The helper's work for one configuration.
struct RenewalTask {
    server: Arc<Server>,
    domains: Vec<Arc<Domain>>,
    store: Store,
    context: OrderContext,
    conf: MdServer,
    parent: Pid,
    reloader: Mutex<Reloader>,
    /// The lock of the store, while any of the queues works.
    lock: Mutex<Weak<File>>,
}

fn helper(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let all = domains::all(server);
    let Some(first) = all.first() else { return Ok(None) };
    let domains: Vec<_> = all.iter().filter(|domain| domain.is_driven()).cloned().collect();
    let (store, children) = (first.store.clone(), children.map(|identity| (identity.uid, identity.gid)));
    store
        .open(children.map(|(_, group)| group))
        .map_err(|error| format!("{}: AH10046: setup store for md", sys::describe(&error)))?;
    if domains.is_empty() {
        runtime::log!("md", Debug, "AH10065: no managed domain to drive, no watchdog needed.");
        return Ok(None);
    }
    for domain in &domains {
        forget_failures(domain);
    }
    let conf = server.main().settings.get::<MdServer>().clone();
    let reachable = (listens(&server.tree, conf.http_port()), listens(&server.tree, conf.https_port()));
    let not = |is: bool| if is { "" } else { " not" };
    let (http, https) = (not(reachable.0), not(reachable.1));
    runtime::log!("md", Debug, "AH10037: server seems{http} reachable via http: and{https} reachable via https:");
    let context = OrderContext {
        reachable,
        children,
        proxy: conf.http_proxy.get().cloned(),
        dns01_version: conf.dns01_version(),
    };
    let (server, parent) = (server.clone(), Pid::own());
    let (reloader, lock) = (Mutex::default(), Mutex::default());
    let task = RenewalTask { server, domains, store, context, conf, parent, reloader, lock };
    Ok(Some(HelperProcess {
        name: "md",
        count: 1,
        privileged: true,
        starts_scripts: false,
        life: Box::new(move |orders| {
            let work = task.live(orders);
            EventLoop::new(|| ())?.run(work)?
        }),
    }))
}

/// Whether a `Listen` directive has this port.
fn listens(tree: &[Node], port: Option<u16>) -> bool {
    let Some(port) = port else { return false };
    tree.iter().filter(|node| node.name.eq_ignore_ascii_case("Listen")).any(|node| {
        let address = node.args.split_whitespace().next().unwrap_or_default();
        address.rsplit(':').next().and_then(|text| text.parse().ok()) == Some(port)
    })
}

impl RenewalTask {
    /// Works until any order from the parent arrives; the store tells a successor where to continue.
    async fn live(&self, orders: &SignalFd) -> io::Result<()> {
        let order = watch(orders.descriptor(), Interest::READABLE)?;
        let mut work = pin!(self.work());
        poll_fn(|cx| {
            if order.poll_read_ready(cx).is_ready() && matches!(orders.read(), Ok(Some(_))) {
                return Poll::Ready(Ok(()));
            }
            work.as_mut().poll(cx)
        })
        .await
    }

    async fn work(&self) -> io::Result<()> {
        runtime::log!("md", Debug, "AH10054: md watchdog start, auto drive {} mds", self.domains.len());
        if self.domains.iter().any(|domain| certificates::is_newer(domain)) {
            // A process that has died since fetched it, and the children do not use it yet.
            self.take_in(None).await;
        }
        sleep(self.conf.initial_delay()).await;
        let mut queues: Vec<_> = queues(&self.domains).into_iter().map(|queue| Box::pin(self.serve(queue))).collect();
        poll_fn(|cx| {
            let mut ended = queues.iter_mut().map(|queue| queue.as_mut().poll(cx));
            ended.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Looks after the domains of one queue for ever.
    async fn serve(&self, domains: Vec<Arc<Domain>>) -> io::Result<()> {
        loop {
            let Some(lock) = self.lock()? else {
                sleep(LOCKED).await;
                continue;
            };
            let mut next = now() + seconds(self.conf.check_interval());
            for domain in &domains {
                if certificates::is_newer(domain) {
                    // Another machine with the same store may have ordered it.
                    self.take_in(Some(&domain.name)).await;
                }
                next = next.min(self.look_at(domain).await?);
            }
            drop(lock);
            let pause = u64::try_from(next - now()).unwrap_or_default().max(1);
            sleep(Duration::from_secs(pause)).await;
        }
    }

    /// Locks the store against other processes while any queue has the result. `None`: another process has it.
    fn lock(&self) -> io::Result<Option<Arc<File>>> {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = held.upgrade() {
            return Ok(Some(lock));
        }
        let Some(lock) = self.store.lock()? else { return Ok(None) };
        // Nobody orders anything now: what is there was left by a process that died.
        self.store.names("challenges").iter().for_each(|name| self.store.remove_challenges(name));
        let lock = Arc::new(lock);
        *held = Arc::downgrade(&lock);
        Ok(Some(lock))
    }

    /// Renews the certificates of a domain when they are due. Returns the time of the next check, in seconds since
    /// 1970.
    async fn look_at(&self, domain: &Domain) -> io::Result<i64> {
        let (name, due) = (&domain.name, certificates::due(domain));
        let mut job = Job::read(domain);
        if due.warn <= now() && due.renew > 0 {
            self.warn(domain, &mut job).await?;
        }
        if due.renew > now() {
            return Ok(due.renew);
        }
        if job.next_run > now() {
            return Ok(job.next_run);
        }
        let Due { why, .. } = due;
        runtime::log!("md", Info, "md({name}): ordering certificates: {why}");
        if !self.notify("renewing", domain).await {
            runtime::log!("md", Info, "AH10060: {name}: event-handler for 'renewing' prevents renewal to proceed.");
            return self.put_off(domain, job, Failed::prevented()).await;
        }
        // Saved before the authority is contacted: if the store cannot be written, the authority must not be asked
        // again and again.
        let delay = self.conf.retry_delay();
        job.next_run = now() + seconds(pause_after(delay, job.errors + 1)).max(1);
        job.write(domain)?;
        let authorities = authorities(domain);
        let failover = job.errors / self.conf.retry_failover();
        let authority = authorities[failover as usize % authorities.len()];
        let mut ordered = order::renew(domain, authority, &self.context).await;
        for _ in 0..NONCE_RETRIES {
            if !ordered.as_ref().is_err_and(|failed| failed.problem == BAD_NONCE) {
                break;
            }
            ordered = order::renew(domain, authority, &self.context).await;
        }
        match ordered {
            Ok(()) => {
                runtime::log!(
                    "md",
                    Notice,
                    "The Managed Domain {name} has new certificates, which are used from now on."
                );
                let mut next = certificates::due(domain).renew;
                let mut job = Job::default();
                if next <= now() {
                    // The renewal window exceeds the lifetime of the authority's certificates: limits how often to ask.
                    next = now() + seconds(self.conf.check_interval());
                    (job.next_run, job.is_ordered_to_wait) = (next, true);
                }
                job.write(domain)?;
                if domain.encrypted_hosts > 0 {
                    self.take_in(Some(name)).await;
                }
                self.notify("renewed", domain).await;
                if let Some(line) = self.conf.notify.get().filter(|line| !line.is_empty())
                    && let Err(error) = notify::run(line, &[name], self.context.children).await
                {
                    runtime::log!("md", Error, "MDNotifyCmd {line} failed: {error}");
                }
                Ok(next)
            }
            Err(failed) => self.put_off(domain, job, failed).await,
        }
    }

    /// Records a failure. Returns the time of the next attempt.
    async fn put_off(&self, domain: &Domain, mut job: Job, failed: Failed) -> io::Result<i64> {
        let name = &domain.name;
        job.errors += 1;
        let pause = pause_after(self.conf.retry_delay(), job.errors);
        job.next_run = now() + seconds(pause.max(failed.retry_after.unwrap_or_default())).max(1);
        job.is_ordered_to_wait = failed.retry_after.is_some();
        (job.problem, job.detail) = (failed.problem, failed.detail);
        job.write(domain)?;
        runtime::log!("md", Error, "AH10056: processing {name}: {}", job.detail);
        let (errors, pause) = (job.errors, job.next_run - now());
        runtime::log!(
            "md",
            Info,
            "AH10057: {name}: encountered error for the {errors}. time, next run in {pause} seconds"
        );
        self.notify("errored", domain).await;
        Ok(job.next_run)
    }

    async fn warn(&self, domain: &Domain, job: &mut Job) -> io::Result<()> {
        if now() - job.warned < WARN_EVERY {
            return Ok(());
        }
        job.warned = now();
        job.write(domain)?;
        runtime::log!("md", Warn, "md({}): warn about expiration: its certificate expires soon", domain.name);
        self.notify("expiring", domain).await;
        Ok(())
    }

    /// Runs the program of `MDMessageCmd` for an event. `false`: the program vetoes it.
    async fn notify(&self, event: &str, domain: &Domain) -> bool {
        let Some(line) = self.conf.message.get().filter(|line| !line.is_empty()) else { return true };
        let result = notify::run(line, &[event, &domain.name], self.context.children).await;
        if let Err(error) = &result {
            runtime::log!("md", Error, "MDMessageCmd {line} failed: {error}");
        }
        result.is_ok()
    }

    /// Lets the children load the new certificates of this domain, or of all. If that is impossible, the parent restarts gracefully and replaces this
    /// process.
    async fn take_in(&self, domain: Option<&str>) {
        let has_changed = |host: &VirtualHost| domain.is_none_or(|name| certificates::is_of(host, name));
        let taken = self.reloader.lock().unwrap_or_else(PoisonError::into_inner).reload(&self.server, has_changed);
        let Err(why) = taken else { return };
        runtime::log!(
            "md",
            Error,
            "cannot load the new certificates without a restart ({why}): the server restarts gracefully"
        );
        match self.parent.kill(Signal::USR1) {
            Ok(()) => sleep(SUCCESSION).await,
            Err(error) => runtime::log!("md", Error, "{}: cannot signal the parent to restart", sys::describe(&error)),
        }
    }
}

/// The authorities of a domain, the preferred one first.
fn authorities(domain: &Domain) -> Vec<&str> {
    match domain.conf().authorities.get().filter(|urls| !urls.is_empty()) {
        Some(urls) => urls.iter().map(String::as_str).collect(),
        None => vec![LETS_ENCRYPT],
    }
}

/// The domains in queues that work beside each other. Those that may ask the same authority are in one, so that a
/// silent authority holds up only them.
fn queues(domains: &[Arc<Domain>]) -> Vec<Vec<Arc<Domain>>> {
    let mut queues: Vec<(BTreeSet<&str>, Vec<Arc<Domain>>)> = Vec::new();
    for domain in domains {
        let mut mine = (authorities(domain).into_iter().collect::<BTreeSet<_>>(), Vec::new());
        for (urls, others) in queues.extract_if(.., |(urls, _)| !urls.is_disjoint(&mine.0)).collect::<Vec<_>>() {
            mine.0.extend(urls);
            mine.1.extend(others);
        }
        mine.1.push(domain.clone());
        queues.push(mine);
    }
    queues.into_iter().map(|(_, domains)| domains).collect()
}

impl Failed {
    fn prevented() -> Failed {
        Failed { problem: String::new(), detail: "MDMessageCmd has prevented it".into(), retry_after: None }
    }
}

/// The record of attempts for a domain.
#[derive(Debug, Default)]
struct Job {
    errors: u32,
    next_run: i64,
    /// Whether `next_run` is a time that the authority demanded.
    is_ordered_to_wait: bool,
    problem: String,
    detail: String,
    /// The time of the last warning that the certificate is about to expire.
    warned: i64,
}

impl Job {
    fn read(domain: &Domain) -> Job {
        let json = domain.store.read_json(&["staging", &domain.name, "job.json"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let number = |value: &Value| value.as_i64().unwrap_or_default();
        Job {
            errors: number(&json["errors"]).try_into().unwrap_or_default(),
            next_run: number(&json["next-run"]),
            is_ordered_to_wait: json["retry-after"].as_bool().unwrap_or_default(),
            problem: text(&json["last"]["problem"]),
            detail: text(&json["last"]["detail"]),
            warned: number(&json["warned"]),
        }
    }

    /// Stores the record, and tells the children of it.
    fn write(&self, domain: &Domain) -> io::Result<()> {
        self.tell(domain, now());
        let json = json!({
            "name": domain.name,
            "errors": self.errors,
            "next-run": self.next_run,
            "retry-after": self.is_ordered_to_wait,
            "last": { "problem": self.problem, "detail": self.detail },
            "warned": self.warned,
        });
        domain.store.write_json(&["staging", &domain.name, "job.json"], &json)
    }
}

impl Job {
    /// Tells the children how it goes.
    fn tell(&self, domain: &Domain, last: i64) {
        domain.set_progress(Progress { errors: self.errors, next: self.next_run, last });
    }
}

/// Resets the failures at a start, because the administrator may have fixed the cause. A pause that the authority
/// demanded stays.
fn forget_failures(domain: &Domain) {
    let job = Job::read(domain);
    if job.next_run > 0 && !job.is_ordered_to_wait {
        let (name, errors) = (&domain.name, job.errors);
        runtime::log!(
            "md",
            Debug,
            "AH10064: md({name}): previous drive job showed {errors} errors, purging STAGING area to reset."
        );
        if let Err(error) = (Job { warned: job.warned, ..Job::default() }).write(domain) {
            runtime::log!("md", Error, "{name}: {error}");
        }
    }
}

/// The pause after this many failures: doubles each time, with some random variation so that many servers do not ask at
/// once.
fn pause_after(first: Duration, errors: u32) -> Duration {
    let pause = first.saturating_mul(1 << errors.saturating_sub(1).min(20)).min(RETRY_MAX);
    let share = u32::try_from(sys::random::number() % 256).unwrap_or_default();
    pause + pause / 1024 * share
}

fn now() -> i64 {
    sys::time::realtime().as_secs().cast_signed()
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 4)
}
