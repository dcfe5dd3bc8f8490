//! OCSP stapling (`SSLUseStapling`): responses are fetched in advance and stapled to handshakes.
//!
//! A helper process asks the responders one after the other, and publishes their responses in memory that all children
//! share. So no handshake waits for a responder: without a response, none is stapled. A response that does not say
//! "good" is not stapled either; a client that requires one asks the responder itself, and gets the same answer.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::sign::CertifiedKey;
use seam::HelperProcess;
use seam::executor::{sleep, timeout_at};
use server::{Server, VirtualHost};
use sys::cred::Identity;
use sys::event_loop::EventLoop;
use sys::signal::SignalFd;
use sys::watch::{Interest, watch};

use super::SslServer;
use super::ocsp::Question;
use super::published::{Part, Published};
use crate::http_client;

/// How often the process checks for due requests and new certificates.
const LOOK: Duration = Duration::from_secs(1);
/// The largest accepted response, in bytes.
const RESPONSE_MAX: usize = 64 * 1024;
/// The shortest assumed validity of a response, in seconds: limits how often it is requested again.
const SHORTEST: i64 = 60;
/// The size of the digest that identifies a certificate, in bytes.
const DIGEST: usize = 32;

/// Whether a virtual host staples.
pub(super) fn is_used(host: &VirtualHost) -> bool {
    super::is_expected(host) && host.settings.get::<SslServer>().use_stapling.or(false)
}

/// The memory for stapled responses; `None`: no host staples.
pub(super) fn memory(server: &Server) -> io::Result<Option<Arc<Published>>> {
    match server.hosts.iter().any(is_used) {
        true => Published::new(&vec![Part::default(); server.hosts.len()]).map(|published| Some(Arc::new(published))),
        false => Ok(None),
    }
}

/// The helper process, if a virtual host staples.
pub(super) fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let hosts: Vec<Host> = server.hosts.iter().filter(|host| is_used(host)).filter_map(Host::new).collect();
    let count = server.hosts.len();
    Ok((!hosts.is_empty()).then(|| HelperProcess {
        name: "OCSP stapling",
        count: 1,
        privileged: false,
        life: Box::new(move |orders| live(&hosts, count, orders)),
    }))
}

/// The helper's view of a virtual host.
struct Host {
    index: usize,
    name: String,
    choice: Arc<super::choice::Choice>,
    staples: Arc<Published>,
    force_url: Option<String>,
    timeout: Duration,
    /// How long a response is used before it is requested again, and the pause after a failure, in seconds.
    refresh: i64,
    retry: i64,
    /// The tolerated clock skew and the maximum age of a response, in seconds.
    skew: i64,
    max_age: Option<i64>,
}

/// A certificate and its response.
struct Staple {
    host: usize,
    digest: Vec<u8>,
    question: Question,
    response: Vec<u8>,
    /// The end of the response's validity and the time of the next request, in seconds since 1970.
    ends: i64,
    next: i64,
}

impl Host {
    fn new(host: &VirtualHost) -> Option<Host> {
        let ssl = host.settings.get::<SslServer>();
        let context = ssl.context.get()?;
        Some(Host {
            index: host.index,
            name: host.log_name(),
            choice: context.choice.clone(),
            staples: context.staples.clone()?,
            force_url: ssl.stapling_force_url.get().cloned(),
            timeout: Duration::from_secs(ssl.stapling_responder_timeout.or(10).into()),
            refresh: ssl.stapling_cache_timeout.or(3600).into(),
            retry: ssl.stapling_error_cache_timeout.or(600).into(),
            skew: ssl.stapling_time_skew.or(300).into(),
            max_age: ssl.stapling_max_age.get().map(|age| i64::from(*age)),
        })
    }

    /// The certificates to request responses for. Logs those that cannot be requested.
    fn staples(&self) -> Vec<Staple> {
        let certificates = self.choice.current();
        certificates.iter().filter_map(|one| self.staple(one)).collect()
    }

    fn staple(&self, certified: &CertifiedKey) -> Option<Staple> {
        let name = &self.name;
        let [certificate, issuer, ..] = &certified.cert[..] else {
            seam::log!(
                "ssl",
                Error,
                "AH02217: ssl_stapling_init_cert: can't retrieve issuer certificate! [server {name}]"
            );
            return None;
        };
        let question = Question::new(certificate, issuer);
        let Some(question) = question.filter(|question| self.force_url.is_some() || question.url.is_some()) else {
            seam::log!(
                "ssl",
                Error,
                "AH02218: ssl_stapling_init_cert: no OCSP URI in certificate and no SSLStaplingForceURL set [server {name}]"
            );
            return None;
        };
        let digest = digest(&SHA256, certificate).as_ref().to_vec();
        Some(Staple { host: self.index, digest, question, response: Vec::new(), ends: 0, next: 0 })
    }

    /// Requests a response for a certificate.
    async fn ask(&self, staple: &mut Staple) {
        let url = self.force_url.as_ref().or(staple.question.url.as_ref());
        let Some(url) = url.cloned() else { return };
        let deadline = Instant::now() + self.timeout;
        let request = staple.question.request();
        let fetched = timeout_at(deadline, fetch(&url, &request, deadline)).await;
        let fetched = fetched.map_err(|_| format!("no answer within {} s", self.timeout.as_secs()));
        let now = now();
        match fetched.and_then(|response| self.judge(staple, response?, now)) {
            Ok((response, ends)) => {
                (staple.response, staple.ends) = (response, ends);
                let half = (ends - now) / 2;
                staple.next = now + self.refresh.min(half).max(SHORTEST);
            }
            Err(why) => {
                let name = &self.name;
                seam::log!("ssl", Error, "AH01980: OCSP response for the certificate of {name} from {url}: {why}");
                staple.next = now + self.retry;
            }
        }
    }

    /// Whether a response may be stapled, and until when.
    fn judge(&self, staple: &Staple, response: Vec<u8>, now: i64) -> Result<(Vec<u8>, i64), String> {
        let answer = staple.question.answer(&response)?;
        if answer.begins > now + self.skew {
            return Err("it is not valid yet: compare the clocks".into());
        }
        let ends = answer.ends.map_or(i64::MAX, |ends| ends.saturating_add(self.skew));
        let ends = ends.min(self.max_age.map_or(i64::MAX, |age| answer.begins.saturating_add(age)));
        if ends <= now {
            return Err("it is too old".into());
        }
        Ok((response, ends.min(now + self.refresh.max(SHORTEST) * 24)))
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
    let mut seen = None;
    let mut staples: Vec<Staple> = Vec::new();
    loop {
        let number = hosts.iter().map(|host| host.choice.number()).max();
        let mut has_changed = false;
        if seen != number {
            seen = number;
            let known = std::mem::replace(&mut staples, hosts.iter().flat_map(Host::staples).collect());
            for staple in &mut staples {
                if let Some(before) = known.iter().find(|one| (one.host, &one.digest) == (staple.host, &staple.digest))
                {
                    (staple.response, staple.ends, staple.next) = (before.response.clone(), before.ends, before.next);
                }
            }
            has_changed = true;
        }
        for staple in &mut staples {
            let Some(host) = hosts.iter().find(|host| host.index == staple.host) else { continue };
            let before = staple.response.len();
            if staple.next <= now() {
                host.ask(staple).await;
                has_changed = true;
            }
            if staple.ends <= now() && before > 0 {
                staple.response.clear();
                has_changed = true;
            }
        }
        if has_changed {
            publish(hosts, count, &staples);
        }
        sleep(LOOK).await;
    }
}

fn publish(hosts: &[Host], count: usize, staples: &[Staple]) {
    let mut parts = vec![Part::default(); count];
    for staple in staples.iter().filter(|staple| !staple.response.is_empty()) {
        let bytes = &mut parts[staple.host].bytes;
        bytes.extend_from_slice(&staple.digest);
        bytes.extend_from_slice(&(staple.response.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&staple.response);
    }
    if let Some(host) = hosts.first()
        && let Err(why) = host.staples.publish(&parts)
    {
        seam::log!("ssl", Error, "OCSP responses are not stapled: {why}");
    }
}

/// The published response for a certificate of a virtual host.
pub(super) fn response_for(certificate: &[u8], part: &Part) -> Option<Vec<u8>> {
    let wanted = digest(&SHA256, certificate);
    let mut rest = &part.bytes[..];
    while let Some((known, after)) = rest.split_at_checked(DIGEST) {
        let (length, after) = after.split_at_checked(4)?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let (response, after) = after.split_at_checked(length)?;
        if known == wanted.as_ref() {
            return Some(response.to_vec());
        }
        rest = after;
    }
    None
}

/// Requests a response (RFC 6960 appendix A) from `http://host[:port]/path`.
async fn fetch(url: &str, request: &[u8], deadline: Instant) -> Result<Vec<u8>, String> {
    let uri: http::Uri = url.parse().map_err(|error| format!("no URL: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err("only http:// responders are asked".into());
    }
    let failed = |error: io::Error| sys::describe(&error);
    let (host, port) = http_client::endpoint(&uri).map_err(failed)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\nContent-Type: application/ocsp-request\r\n\
         Content-Length: {}\r\n\r\n",
        request.len()
    );
    let stream = http_client::connect(&host, port, deadline).await.map_err(failed)?;
    let answer = http_client::converse(stream, &[head.as_bytes(), request].concat()).await.map_err(failed)?;
    let response = http_client::parse(&answer, false).map_err(failed)?;
    match response.status().as_u16() {
        200 if response.body().len() <= RESPONSE_MAX => Ok(response.into_body().to_vec()),
        200 => Err("its response is too large".into()),
        status => Err(format!("the responder answers with status {status}")),
    }
}

fn now() -> i64 {
    sys::time::realtime().as_secs().cast_signed()
}
