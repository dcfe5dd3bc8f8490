//! Names of clients and addresses of names, for the directives that compare host names.
//!
//! A request waits for the answer beside the event loop, and never longer than [`WAIT`], its place in the queue included:
//! where there is no answer by then, the name counts as unknown, which denies. The resolver itself knows no such bound, so
//! it works in a thread that nobody has to wait for. Answers are remembered for [`REMEMBERED`], so this happens once per
//! client and not once per request. Addresses (`Require ip`) need none of this.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use seam::{Load, offload};

/// How long a request waits for an answer: one try of a resolver with the usual settings.
const WAIT: Duration = Duration::from_secs(5);
/// How long an answer, or that there was none, counts.
const REMEMBERED: Duration = Duration::from_secs(60);
/// More remembered answers than this are forgotten all at once.
const REMEMBERED_MAX: usize = 4096;
/// More questions than this at a time are not asked. Those for which nobody waits any more count too, until the resolver
/// gives up.
const ASKING_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// The name of an address, if that name leads back to the address (`HostnameLookups Double`).
    Name(IpAddr),
    /// The addresses of a name.
    Addresses(String),
}

#[derive(Clone, Debug)]
enum Answer {
    Name(Arc<str>),
    Addresses(Arc<[IpAddr]>),
    Unknown,
}

static ANSWERS: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// The name of an address, if it has one that leads back to the address.
pub(super) async fn name_of(address: IpAddr) -> Option<Arc<str>> {
    match answer(Question::Name(address.to_canonical())).await {
        Answer::Name(name) => Some(name),
        _ => None,
    }
}

/// The addresses of a name; none if it is unknown.
pub(super) async fn addresses_of(name: &str) -> Arc<[IpAddr]> {
    match answer(Question::Addresses(name.to_ascii_lowercase())).await {
        Answer::Addresses(addresses) => addresses,
        _ => Arc::new([]),
    }
}

/// Whether a host name is `domain` or stands below it (`.example.com` only below), without difference of case.
pub(super) fn in_domain(domain: &str, host: &str) -> bool {
    let Some(start) = host.len().checked_sub(domain.len()) else { return false };
    if !host.is_char_boundary(start) || !host[start..].eq_ignore_ascii_case(domain) || domain.is_empty() {
        return false;
    }
    start == 0 || domain.starts_with('.') || host[..start].ends_with('.')
}

async fn answer(question: Question) -> Answer {
    if let Some(known) = remembered(&question) {
        return known;
    }
    let deadline = Instant::now() + WAIT;
    offload(Load::Resolve, move || ask(question, deadline)).await
}

type Answers = HashMap<Question, (Instant, Answer)>;

fn answers() -> MutexGuard<'static, Answers> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remembered(question: &Question) -> Option<Answer> {
    let answers = answers();
    let (when, answer) = answers.get(question)?;
    (when.elapsed() < REMEMBERED).then(|| answer.clone())
}

fn remember(question: Question, answer: Answer) {
    insert(&mut answers(), question, answer);
}

fn insert(answers: &mut Answers, question: Question, answer: Answer) {
    if answers.len() >= REMEMBERED_MAX {
        answers.clear();
    }
    answers.insert(question, (Instant::now(), answer));
}

/// Blocks, until the deadline at the latest.
fn ask(question: Question, deadline: Instant) -> Answer {
    // Another request may have asked the same while this one was in the queue.
    if let Some(known) = remembered(&question) {
        return known;
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Answer::Unknown;
    }
    if ASKING.fetch_add(1, Ordering::Relaxed) >= ASKING_MAX {
        ASKING.fetch_sub(1, Ordering::Relaxed);
        return Answer::Unknown;
    }
    let (tell, told) = mpsc::channel();
    let asked = question.clone();
    let asking = std::thread::Builder::new().name("resolver".into()).spawn(move || {
        let answer = resolve(&asked);
        // An answer that comes late is one for the next request.
        remember(asked, answer.clone());
        // Nobody may wait any more.
        let _ = tell.send(answer);
        ASKING.fetch_sub(1, Ordering::Relaxed);
    });
    if asking.is_err() {
        ASKING.fetch_sub(1, Ordering::Relaxed);
        return Answer::Unknown;
    }
    told.recv_timeout(left).unwrap_or_else(|_| give_up(question))
}

/// Nobody waits any longer: the name is unknown for now, unless it has become known in this moment.
fn give_up(question: Question) -> Answer {
    let mut answers = answers();
    let known = answers.get(&question).filter(|(when, _)| when.elapsed() < REMEMBERED);
    if let Some((_, answer)) = known {
        return answer.clone();
    }
    insert(&mut answers, question, Answer::Unknown);
    Answer::Unknown
}

fn resolve(question: &Question) -> Answer {
    let addresses = |name: &str| -> Vec<IpAddr> {
        let found = (name, 0).to_socket_addrs();
        found.map_or_else(|_| Vec::new(), |found| found.map(|at| at.ip().to_canonical()).collect())
    };
    match question {
        Question::Name(address) => match sys::resolve::name_of(*address) {
            // Anybody can name his address after somebody else: only what the name itself says counts.
            Ok(name) if addresses(&name).contains(address) => Answer::Name(name.into()),
            _ => Answer::Unknown,
        },
        Question::Addresses(name) => Answer::Addresses(addresses(name).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_domains() {
        for (domain, host, is_in) in [
            ("example.com", "example.com", true),
            ("example.com", "www.Example.COM", true),
            ("example.com", "badexample.com", false),
            (".example.com", "www.example.com", true),
            (".example.com", "example.com", false),
            ("com", "example.com", true),
            ("www.example.com", "example.com", false),
            ("", "example.com", false),
        ] {
            assert_eq!(in_domain(domain, host), is_in, "{domain} {host}");
        }
    }

    #[test]
    fn nothing_is_asked_after_the_deadline() {
        let question = Question::Name([127, 0, 0, 2].into());
        assert!(matches!(ask(question.clone(), Instant::now()), Answer::Unknown));
        assert!(remembered(&question).is_none());
    }

    #[test]
    fn what_becomes_known_late_stays_known() {
        let question = || Question::Addresses("late.example".into());
        assert!(matches!(give_up(question()), Answer::Unknown));
        assert!(matches!(remembered(&question()), Some(Answer::Unknown)));
        // The resolver's thread, a moment too late for one request and a moment before another one gives up.
        remember(question(), Answer::Addresses([[192, 0, 2, 1].into()].into()));
        assert!(matches!(give_up(question()), Answer::Addresses(_)), "it is known");
        assert!(matches!(remembered(&question()), Some(Answer::Addresses(_))), "and stays so");
    }

    #[test]
    fn the_local_host_is_known_and_strangers_are_not() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let checks = async {
            assert_eq!(name_of(here).await.as_deref(), Some("localhost"));
            assert!(addresses_of("LOCALHOST").await.contains(&here));
            assert!(addresses_of("no such host").await.is_empty());
        };
        sys::block_on::block_on(checks, || ()).expect("answers");
    }
}
