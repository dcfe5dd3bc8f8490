//! Names of clients and addresses of names.
//!
//! A request waits for the answer beside the event loop, and never longer than [`WAIT`]. The resolver itself has no
//! such bound, so it works in threads that nobody has to wait for. Equal questions of several requests share one
//! answer, and answers are cached for [`REMEMBERED`]: a client with a thousand connections is looked up once.
//!
//! "There is no name" is an answer. "The name could not be found out" is none ([`Unanswered`]): an attacker who can
//! disturb a name server must not be able to turn a rule off, so requests that such a rule would decide are refused.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::{Awaited, Load, executor, offload_apart, release_worker};
use sys::resolve::{self, Family};
use sys::time::Instant;

/// How long a question may take: one attempt of a resolver with the usual settings.
const WAIT: Duration = Duration::from_secs(5);
/// How long an answer is valid.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How long a failed question is not repeated.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(10);
/// At this many cached answers, all are forgotten.
const REMEMBERED_MAX: usize = 4096;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// No name server answered in time.
    TimedOut,
    /// Too many other questions are being asked.
    TooMany,
    /// The question was never asked.
    NotAsked,
    /// The resolver's message.
    Failed(Arc<str>),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::TimedOut => write!(f, "no name server has answered within {} s", WAIT.as_secs()),
            Unanswered::TooMany => f.write_str("too many names are being looked up already"),
            Unanswered::NotAsked => f.write_str("it was not looked up"),
            Unanswered::Failed(why) => write!(f, "the resolver failed: {why}"),
        }
    }
}

/// The answer to a question.
pub type Reply<T> = Result<T, Unanswered>;

/// The deadline for a task that starts to ask now, however many names it asks for one after the other.
pub fn deadline() -> Instant {
    Instant::now() + WAIT
}

/// The name of an address in lower case, `None` if it has none. Anybody can name an own address after somebody else.
pub async fn name_of(address: IpAddr, deadline: Instant) -> Reply<Option<Arc<str>>> {
    NAMES.look_up(address.to_canonical(), deadline).await
}

/// The name of an address, if that name leads back to the address.
pub async fn own_name_of(address: IpAddr, deadline: Instant) -> Reply<Option<Arc<str>>> {
    let address = address.to_canonical();
    let Some(name) = name_of(address, deadline).await? else { return Ok(None) };
    let leads_back = addresses_of(&name, address, deadline).await?.contains(&address);
    Ok(Some(name).filter(|_| leads_back))
}

/// The addresses of a name that are of the same family as `like`.
pub async fn addresses_of(name: &str, like: IpAddr, deadline: Instant) -> Reply<Arc<[IpAddr]>> {
    ADDRESSES.look_up((name.to_ascii_lowercase(), Family::of(like.to_canonical())), deadline).await
}

/// The addresses of a host, in the order in which to try them: a numeric address, in brackets or without, stands for
/// itself.
pub async fn all_addresses_of(host: &str) -> Result<Vec<IpAddr>, String> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse() {
        return Ok(vec![ip]);
    }
    let deadline = deadline();
    let (mut all, mut why) = (Vec::new(), None);
    for family in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        match addresses_of(host, family, deadline).await {
            Ok(addresses) => all.extend(addresses.iter().copied()),
            Err(error) => why = Some(error.to_string()),
        }
    }
    match (all.is_empty(), why) {
        (false, _) => Ok(all),
        (true, why) => Err(why.unwrap_or_else(|| "there is no such name".into())),
    }
}

/// Whether a host name is `domain` or below it (`.example.com`: only below), ignoring case.
pub fn in_domain(domain: &str, host: &str) -> bool {
    let Some(start) = host.len().checked_sub(domain.len()) else { return false };
    if !host.is_char_boundary(start) || !host[start..].eq_ignore_ascii_case(domain) || domain.is_empty() {
        return false;
    }
    start == 0 || domain.starts_with('.') || host[..start].ends_with('.')
}

static NAMES: Table<IpAddr, Option<Arc<str>>> = Table::new(|address| match resolve::name_of(*address) {
    Ok(name) => Ok(Some(name.to_ascii_lowercase().into())),
    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
    Err(error) => Err(error),
});

static ADDRESSES: Table<(String, Family), Arc<[IpAddr]>> =
    Table::new(|(name, family)| match resolve::addresses_of(name, *family) {
        Ok(addresses) => Ok(addresses.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Arc::new([])),
        Err(error) => Err(error),
    });

/// Questions of one kind, with their answers.
struct Table<K, V> {
    /// Asks the resolver, and blocks.
    resolve: fn(&K) -> io::Result<V>,
    questions: LazyLock<Mutex<HashMap<K, Question<V>>>>,
}

enum Question<V> {
    Answered(Reply<V>, Instant),
    UnderWay(Arc<Pending<V>>),
}

/// A question being asked.
struct Pending<V> {
    deadline: Instant,
    reply: Awaited<Reply<V>>,
}

impl<K, V> Table<K, V> {
    const fn new(resolve: fn(&K) -> io::Result<V>) -> Table<K, V> {
        Table { resolve, questions: LazyLock::new(Mutex::default) }
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<K, Question<V>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, V: Clone + Send + Sync + 'static> Table<K, V> {
    async fn look_up(&'static self, key: K, deadline: Instant) -> Reply<V> {
        let asked = match self.join(key, deadline)? {
            Joined::Known(value) => return Ok(value),
            Joined::UnderWay(asked) => asked,
        };
        let reply = executor::timeout_at(asked.deadline.min(deadline), asked.reply.wait());
        release_worker(reply).await.unwrap_or(Err(Unanswered::TimedOut))
    }

    /// Returns a known answer; otherwise asks, or joins a question being asked.
    fn join(&'static self, key: K, deadline: Instant) -> Reply<Joined<V>> {
        let (mut questions, now) = (self.questions(), Instant::now());
        match questions.get(&key) {
            Some(Question::Answered(reply, until)) if now < *until => return reply.clone().map(Joined::Known),
            Some(Question::UnderWay(asked)) if now < asked.deadline => return Ok(Joined::UnderWay(asked.clone())),
            Some(Question::UnderWay(_)) => return Err(Unanswered::TimedOut),
            _ if now >= deadline => return Err(Unanswered::TimedOut),
            _ => {}
        }
        let asked = Arc::new(Pending { deadline: now + WAIT, reply: Awaited::default() });
        keep(&mut questions, key.clone(), Question::UnderWay(asked.clone()));
        drop(questions);
        let asking = Asking { table: self, key, asked: asked.clone(), reply: Err(Unanswered::TooMany) };
        offload_apart(Load::Resolve, || asking.resolve());
        Ok(Joined::UnderWay(asked))
    }
}

/// The job that answers a question. However it ends, waiting requests get its reply, even if it never begins, or
/// panics.
struct Asking<K: Eq + Hash + Clone + 'static, V: Clone + 'static> {
    table: &'static Table<K, V>,
    key: K,
    asked: Arc<Pending<V>>,
    reply: Reply<V>,
}

impl<K: Eq + Hash + Clone, V: Clone> Asking<K, V> {
    /// Asks the resolver and blocks, unless the question was queued for so long that nobody waits any more.
    fn resolve(mut self) {
        if Instant::now() >= self.asked.deadline {
            self.reply = Err(Unanswered::TimedOut);
            return;
        }
        self.reply = Err(Unanswered::Failed("it has panicked".into()));
        self.reply = (self.table.resolve)(&self.key).map_err(|error| Unanswered::Failed(error.to_string().into()));
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Asking<K, V> {
    fn drop(&mut self) {
        let remembered = match &self.reply {
            Ok(_) => Some(REMEMBERED),
            Err(Unanswered::Failed(_)) => Some(FAILURE_REMEMBERED),
            // No name server was asked.
            Err(_) => None,
        };
        let (mut questions, key) = (self.table.questions(), self.key.clone());
        match remembered {
            Some(time) => keep(&mut questions, key, Question::Answered(self.reply.clone(), Instant::now() + time)),
            None => drop(questions.remove(&key)),
        }
        drop(questions);
        self.asked.reply.set(self.reply.clone());
    }
}

enum Joined<V> {
    Known(V),
    UnderWay(Arc<Pending<V>>),
}

fn keep<K: Eq + Hash, V>(questions: &mut HashMap<K, Question<V>>, key: K, question: Question<V>) {
    if questions.len() >= REMEMBERED_MAX {
        // Questions being asked have their own bound: the resolver threads' queue.
        questions.retain(|_, question| matches!(question, Question::UnderWay(_)));
    }
    questions.insert(key, question);
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::task::Poll;

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
    fn abandoned_lookups_are_not_sent() {
        static TABLE: Table<u8, u8> = Table::new(|_| panic!("it is asked"));
        let asked = Arc::new(Pending { deadline: Instant::now(), reply: Awaited::default() });
        keep(&mut TABLE.questions(), 1, Question::UnderWay(asked.clone()));
        assert!(matches!(TABLE.join(1, deadline()), Err(Unanswered::TimedOut)), "somebody waits for it");
        Asking { table: &TABLE, key: 1, asked, reply: Err(Unanswered::TooMany) }.resolve();
        assert!(TABLE.questions().is_empty());
        assert!(matches!(TABLE.join(1, Instant::now()), Err(Unanswered::TimedOut)), "there is no time left");
        assert!(TABLE.questions().is_empty());
    }

    fn wait_for<T>(future: impl Future<Output = T>) -> T {
        sys::block_on::block_on(future, || ()).expect("a reply")
    }

    #[test]
    fn those_that_wait_for_what_cannot_be_asked_know_at_once() {
        static TABLE: Table<u8, u8> = Table::new(|_| panic!("on purpose"));
        let asked = Arc::new(Pending { deadline: deadline(), reply: Awaited::default() });
        keep(&mut TABLE.questions(), 1, Question::UnderWay(asked.clone()));
        let mut waits = Box::pin(TABLE.look_up(1, deadline()));
        let mut polled = || wait_for(poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))));
        assert!(polled().is_pending());
        // No pool takes the job.
        drop(Asking { table: &TABLE, key: 1, asked, reply: Err(Unanswered::TooMany) });
        assert_eq!(polled(), Poll::Ready(Err(Unanswered::TooMany)));
        assert!(TABLE.questions().is_empty());
        // The resolver panics.
        let why = wait_for(TABLE.look_up(1, deadline()));
        assert!(matches!(why, Err(Unanswered::Failed(_))), "{why:?}");
    }

    #[test]
    fn a_wait_that_the_time_ends_needs_a_worker_again() {
        static TABLE: Table<u8, u8> = Table::new(|_| panic!("it is asked"));
        let asked = Arc::new(Pending { deadline: deadline(), reply: Awaited::default() });
        keep(&mut TABLE.questions(), 1, Question::UnderWay(asked));
        assert_eq!(wait_for(TABLE.look_up(1, Instant::now())), Err(Unanswered::TimedOut));
        assert_eq!(runtime::worker_released(), None);
    }

    #[test]
    fn the_local_host_is_known_and_strangers_are_not() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let checks = async {
            assert_eq!(own_name_of(here, deadline()).await.expect("/etc/hosts").as_deref(), Some("localhost"));
            assert!(addresses_of("LOCALHOST", here, deadline()).await.expect("/etc/hosts").contains(&here));
            assert!(addresses_of("no such host", here, deadline()).await.expect("a name with blanks").is_empty());
        };
        wait_for(checks);
    }

    #[test]
    fn hosts_that_are_numbers_are_not_looked_up() {
        for host in ["127.0.0.1", "::1", "[::1]"] {
            let found = sys::block_on::block_on(all_addresses_of(host), || ()).expect("an answer");
            assert_eq!(found.map(|all| all.len()), Ok(1), "{host}");
        }
    }
}
