//! OCSP stapling (`SSLUseStapling`): responses are fetched in advance and stapled to handshakes.
//!
//! A helper process asks the responders, beside each other, and publishes their responses in memory that all children
//! share. So no handshake waits for a responder: without a response, none is stapled. A response that does not say
//! "good", or that the authority has not signed, is not stapled either; a client that requires one asks the responder
//! itself, and gets the same response. The next generation takes over what is still good.
//!
//! With `SSLStaplingCache redis:HOST`, a response that one machine got serves the others, too: the helper looks there before it asks a
//! responder ([`SharedStaples`]).

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use runtime::HelperProcess;
use runtime::executor::sleep;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use server::{Server, VirtualHost};
use sys::cred::Identity;
use sys::event_loop::EventLoop;
use sys::signal_fd::SignalFd;
use sys::watch::{Interest, watch};

use super::choice::Choice;
use super::ocsp::{Question, Signers};
use super::published::{Part, Published};
use super::settings::{SslServer, is_expected};
use super::shared_staples::{self, Got, SharedStaples};
use super::staples::{Entry, known};
use super::{context, responder, staples};

/// How often the process checks for due requests and new certificates, and publishes what has come; also the shortest
/// pause between two questions about a certificate.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_SECONDS: i64 = 1;
/// How many responders are asked at once. Each has a queue of its own, so that a silent one holds up nobody else; more
/// than this many silent ones hold up the others for one timeout.
const ASKED_MAX: usize = 64;
/// For how many times `SSLStaplingStandardCacheTimeout` (this many seconds at least) a response is stapled that could not
/// be replaced, however long it is valid.
const LATE_MAX: i64 = 24;
const SHORTEST: i64 = 60;

/// The memory of the generation in effect, and how many virtual hosts it has.
static IN_EFFECT: Mutex<Option<(Arc<Published>, usize)>> = Mutex::new(None);

/// Whether a virtual host staples.
pub(super) fn is_used(host: &VirtualHost) -> bool {
    is_expected(host) && host.settings.get::<SslServer>().use_stapling.value_or(false)
}

/// The memory for stapled responses; `None`: no host staples.
pub(super) fn memory(server: &Server) -> io::Result<Option<Arc<Published>>> {
    match server.hosts.iter().any(is_used) {
        true => Published::new(&vec![Part::default(); server.hosts.len()]).map(|published| Some(Arc::new(published))),
        false => Ok(None),
    }
}

/// The helper process, if a virtual host staples. The parent calls this when the configuration comes into effect.
pub(super) fn helper(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let shared = match server.hosts.iter().any(is_used) {
        true => shared_staples::open(server, children)?,
        false => None,
    };
    let hosts = server.hosts.iter().filter(|host| is_used(host));
    let hosts: Vec<Host> = hosts.filter_map(|host| Host::new(host, shared.clone())).collect();
    let count = server.hosts.len();
    let memory = hosts.first().map(|host| (host.staples.clone(), count));
    let before = std::mem::replace(&mut *IN_EFFECT.lock().unwrap_or_else(PoisonError::into_inner), memory.clone());
    if let (Some(before), Some((new, _))) = (before, memory)
        && !Arc::ptr_eq(&before.0, &new)
    {
        hand_over(&before, &hosts, count);
    }
    Ok((!hosts.is_empty()).then(|| HelperProcess {
        name: "OCSP stapling",
        count: 1,
        privileged: false,
        starts_scripts: false,
        life: Box::new(move |orders| live(&hosts, count, orders)),
    }))
}

/// Publishes the responses of the generation before for those of its certificates that this one has, too.
fn hand_over((before, count): &(Arc<Published>, usize), hosts: &[Host], new_count: usize) {
    let known = known(before, *count);
    let mut staples: Vec<Staple> = hosts.iter().flat_map(Host::quiet_staples).collect();
    staples.iter_mut().for_each(|staple| staple.remember(&known));
    if staples.iter().any(|staple| !staple.response.is_empty()) {
        publish(hosts, new_count, &staples);
    }
}

/// The helper's view of a virtual host.
struct Host {
    index: usize,
    name: String,
    choice: Arc<Choice>,
    staples: Arc<Published>,
    force_url: Option<String>,
    timeout: Duration,
    /// How long a response is used before it is requested again, and the pause after a failure, in seconds.
    refresh: i64,
    retry: i64,
    /// The tolerated clock skew and the maximum age of a response, in seconds.
    skew: i64,
    max_age: Option<i64>,
    /// Where machines share responses.
    shared: Option<SharedStaples>,
}

/// A certificate and its response.
struct Staple {
    host: usize,
    digest: Vec<u8>,
    question: Question,
    issuer: CertificateDer<'static>,
    response: Vec<u8>,
    /// The end of the response's validity and the time of the next request, in seconds since 1970.
    ends: i64,
    next: i64,
    /// What the machines share is not good: the responder is asked.
    skips_shared: bool,
}

/// A question on its way: the certificate's virtual host and digest, the responder, and what comes back.
struct Asking {
    host: usize,
    digest: Vec<u8>,
    url: String,
    response: Pin<Box<dyn Future<Output = Result<Got, String>> + Send>>,
}

/// A response on its way to the other machines.
type Storing = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Host {
    fn new(host: &VirtualHost, shared: Option<SharedStaples>) -> Option<Host> {
        let ssl = host.settings.get::<SslServer>();
        let context = context::of(host)?;
        Some(Host {
            index: host.index,
            name: host.log_name(),
            choice: context.choice.clone(),
            staples: context.staples.clone()?,
            force_url: ssl.stapling_force_url.get().cloned(),
            timeout: Duration::from_secs(ssl.stapling_responder_timeout.value_or(10).into()),
            refresh: ssl.stapling_cache_timeout.value_or(3600).into(),
            retry: ssl.stapling_error_cache_timeout.value_or(600).into(),
            skew: ssl.stapling_time_skew.value_or(300).into(),
            max_age: ssl.stapling_max_age.get().map(|age| i64::from(*age)),
            shared,
        })
    }

    /// The certificates to request responses for. Logs those that cannot be requested.
    fn staples(&self) -> Vec<Staple> {
        let certificates = self.choice.current();
        let staple = |one: &Arc<CertifiedKey>| {
            let staple = self.staple(one);
            staple.inspect_err(|why| runtime::log!("ssl", Error, "{why} [server {}]", self.name)).ok()
        };
        certificates.iter().filter_map(staple).collect()
    }

    /// The staples of the certificates that have one, without log lines about the others.
    fn quiet_staples(&self) -> Vec<Staple> {
        self.choice.current().iter().filter_map(|one| self.staple(one).ok()).collect()
    }

    fn staple(&self, certified: &CertifiedKey) -> Result<Staple, &'static str> {
        let [certificate, issuer, ..] = &certified.cert[..] else {
            return Err("AH02217: ssl_stapling_init_cert: can't retrieve issuer certificate!");
        };
        let question = Question::new(certificate, issuer);
        let question = question.filter(|question| self.force_url.is_some() || question.url.is_some());
        let question = question
            .ok_or("AH02218: ssl_stapling_init_cert: no OCSP URI in certificate and no SSLStaplingForceURL set")?;
        let digest = digest(&SHA256, certificate).as_ref().to_vec();
        let (host, issuer) = (self.index, issuer.clone().into_owned());
        Ok(Staple { host, digest, question, issuer, response: Vec::new(), ends: 0, next: 0, skips_shared: false })
    }

    /// The responder to ask about a certificate.
    fn url(&self, staple: &Staple) -> String {
        self.force_url.as_ref().or(staple.question.url.as_ref()).cloned().unwrap_or_default()
    }

    fn request_staple(&self, staple: &Staple) -> Asking {
        let (url, request, timeout) = (self.url(staple), staple.question.request(None), self.timeout);
        let response = {
            let (url, digest) = (url.clone(), staple.digest.clone());
            let shared = self.shared.clone().filter(|_| !staple.skips_shared);
            Box::pin(async move {
                if let Some(shared) = shared
                    && let Some(got) = shared.find(&digest, now()).await
                {
                    return Ok(got);
                }
                responder::status_of(&url, &request, timeout, None).await.map(Got::from_responder)
            })
        };
        Asking { host: staple.host, digest: staple.digest.clone(), url, response }
    }

    /// Keeps a response for a certificate, if it is good.
    fn keep(&self, staple: &mut Staple, url: &str, got: Result<Got, String>) {
        let now = now();
        let shared_next = got.as_ref().ok().and_then(|got| got.next);
        match got.and_then(|got| self.judge(staple, got.response, now)) {
            Ok((response, ends)) => {
                (staple.response, staple.ends, staple.skips_shared) = (response, ends, false);
                let half = (ends - now) / 2;
                let next = now + self.refresh.min(half).max(LOOK_SECONDS);
                staple.next = shared_next.map_or(next, |shared| shared_staples::after(shared.min(next), now));
            }
            // Whatever is wrong with it, the responder knows better.
            Err(_) if shared_next.is_some() => (staple.next, staple.skips_shared) = (now, true),
            Err(why) => {
                let name = &self.name;
                runtime::log!("ssl", Error, "AH01980: OCSP response for the certificate of {name} from {url}: {why}");
                staple.next = now + self.retry.max(LOOK_SECONDS);
            }
        }
    }

    /// Whether a response may be stapled, and until when.
    fn judge(&self, staple: &Staple, response: Vec<u8>, now: i64) -> Result<(Vec<u8>, i64), String> {
        if response.len() > responder::RESPONSE_MAX {
            return Err(format!("it is longer than {} bytes", responder::RESPONSE_MAX));
        }
        let (validity, signed) = staple.question.read(&response)?;
        let algorithms = provider::default_provider().signature_verification_algorithms;
        let signers = Signers { issuer: &staple.issuer, trusted: &[], is_anybody: false, algorithms };
        signed.verify(&signers, now)?;
        let ends = validity.until(now, self.skew, self.max_age)?;
        Ok((response, ends.min(now + self.refresh.max(SHORTEST) * LATE_MAX)))
    }
}

impl Staple {
    /// Takes over a known response.
    fn remember(&mut self, known: &BTreeMap<Vec<u8>, Entry>) {
        if let Some(Entry { ends, next, response }) = known.get(&self.digest).filter(|entry| entry.ends > now()) {
            (self.response, self.ends, self.next) = (response.clone(), *ends, *next);
        }
    }
}

/// Runs until the parent sends an order.
fn live(hosts: &[Host], count: usize, orders: &SignalFd) -> io::Result<()> {
    EventLoop::new(|| ())?.run(async {
        let order = watch(orders.descriptor(), Interest::READABLE)?;
        let ordered = std::future::poll_fn(|cx| order.poll_read_ready(cx).map(|_| ()));
        first_of(ordered, work(hosts, count)).await;
        Ok(())
    })?
}

/// Returns when the first of two futures ends.
async fn first_of(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    std::future::poll_fn(|cx| match first.as_mut().poll(cx) {
        std::task::Poll::Pending => second.as_mut().poll(cx),
        ready => ready,
    })
    .await;
}

async fn work(hosts: &[Host], count: usize) {
    let by_index: BTreeMap<usize, &Host> = hosts.iter().map(|host| (host.index, host)).collect();
    let mut seen = None;
    let mut staples: Vec<Staple> = Vec::new();
    let mut asking: Vec<Asking> = Vec::new();
    let mut storing: Vec<Storing> = Vec::new();
    let mut has_changed = false;
    loop {
        let number = hosts.iter().map(|host| host.choice.number()).max();
        if seen != number {
            seen = number;
            take_in(hosts, count, &mut staples);
            has_changed = true;
        }
        for staple in staples.iter_mut().filter(|staple| staple.ends <= now() && !staple.response.is_empty()) {
            staple.response.clear();
            has_changed = true;
        }
        request_due(&by_index, &mut staples, &mut asking);
        if has_changed {
            publish(hosts, count, &staples);
            has_changed = false;
        }
        // What comes within a second is published together: a set has the responses of all hosts.
        let mut pause = Box::pin(sleep(LOOK));
        while let Some((Asking { host, digest, url, .. }, response)) =
            next_response(&mut asking, &mut storing, &mut pause).await
        {
            let is_new = matches!(&response, Ok(Got { next: None, .. }));
            // Many hosts may share a certificate: what is said of it is said once.
            for staple in staples.iter_mut().filter(|staple| staple.digest == digest) {
                let Some(its) = by_index.get(&staple.host) else { continue };
                if staple.host == host || (response.is_ok() && staple.next <= now() && its.url(staple) == url) {
                    its.keep(staple, &url, response.clone());
                    has_changed = true;
                }
                if let (true, true, Some(shared)) = (is_new && staple.host == host, staple.ends > now(), &its.shared) {
                    storing.push(shared.store(&digest, staple.response.clone(), staple.next, staple.ends - now()));
                }
            }
            request_due(&by_index, &mut staples, &mut asking);
            if asking.is_empty() {
                break;
            }
        }
    }
}

/// Replaces the certificates by those in effect, and keeps the responses that are known for them.
fn take_in(hosts: &[Host], count: usize, staples: &mut Vec<Staple>) {
    let mut known = hosts.first().map_or_else(BTreeMap::new, |host| known(&host.staples, count));
    for Staple { digest, response, ends, next, .. } in std::mem::take(staples) {
        known.insert(digest, Entry { ends, next, response });
    }
    staples.extend(hosts.iter().flat_map(Host::staples));
    staples.iter_mut().for_each(|staple| staple.remember(&known));
}

/// Begins to ask about certificates that are due, each responder about one at a time.
fn request_due(hosts: &BTreeMap<usize, &Host>, staples: &mut [Staple], asking: &mut Vec<Asking>) {
    let now = now();
    let mut due: Vec<&mut Staple> = staples.iter_mut().filter(|staple| staple.next <= now).collect();
    due.sort_by_key(|staple| staple.next);
    for staple in due {
        let Some(host) = hosts.get(&staple.host).filter(|_| asking.len() < ASKED_MAX) else { continue };
        let url = host.url(staple);
        if asking.iter().all(|one| one.url != url) {
            asking.push(host.request_staple(staple));
        }
    }
}

/// Waits for the next response; `None`: the pause is over.
async fn next_response(
    asking: &mut Vec<Asking>,
    storing: &mut Vec<Storing>,
    pause: &mut Pin<Box<impl Future<Output = ()>>>,
) -> Option<(Asking, Result<Got, String>)> {
    std::future::poll_fn(|cx| {
        storing.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        for at in 0..asking.len() {
            if let Poll::Ready(response) = asking[at].response.as_mut().poll(cx) {
                return Poll::Ready(Some((asking.remove(at), response)));
            }
        }
        pause.as_mut().poll(cx).map(|()| None)
    })
    .await
}

fn publish(hosts: &[Host], count: usize, staples: &[Staple]) {
    let mut parts = vec![Part::default(); count];
    for staple in staples.iter().filter(|staple| !staple.response.is_empty()) {
        let Staple { host, digest, response, ends, next, .. } = staple;
        staples::append(&mut parts[*host].bytes, digest, (*ends, *next), response);
    }
    if let Some(host) = hosts.first()
        && let Err(why) = host.staples.publish(&parts)
    {
        runtime::log!("ssl", Error, "OCSP responses are not stapled: {why}");
    }
}

fn now() -> i64 {
    sys::time::realtime().as_secs().cast_signed()
}
