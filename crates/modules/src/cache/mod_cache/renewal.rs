//! `stale-while-revalidate` (RFC 5861 section 3): a stored response goes out although it is stale, and a request that no client
//! waits for asks the origin for a new one.

use std::collections::BTreeSet;
use std::fs::{File, FileTimes};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use conf::Level;
use runtime::executor::{sleep, timeout};
use runtime::{Load, offload};
use server::Request;

use super::lock::max_age;

/// How long a renewal may take: a response of any size has come by then, or its origin hangs.
const TIME_MAX: Duration = Duration::from_secs(300);
/// How many responses of one host are renewed at a time: an origin that hangs leaves room for the responses of others.
const OF_ONE_HOST: usize = 4;
/// How often the lock of a renewal is made new, at most.
const TOUCH_MIN: Duration = Duration::from_millis(100);

/// The keys of the responses that this child renews.
static UNDER_WAY: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn under_way() -> MutexGuard<'static, BTreeSet<String>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this child renews a response.
pub(super) fn is_under_way(key: &str) -> bool {
    under_way().contains(key)
}

/// A renewal, until it is dropped.
struct Renewal(String);

impl Renewal {
    /// `None`: this child renews the response already, or as many of its host as it may.
    fn of(key: &str) -> Option<Renewal> {
        let mut keys = under_way();
        let host = host(key);
        let is_full = keys.iter().filter(|other| other.starts_with(host)).count() >= OF_ONE_HOST;
        (!is_full && keys.insert(key.to_string())).then(|| Renewal(key.to_string()))
    }
}

/// Scheme, host and port of a key, with the slash behind them.
fn host(key: &str) -> &str {
    key.match_indices('/').nth(2).map_or(key, |(end, slash)| &key[..end + slash.len()])
}

impl Drop for Renewal {
    fn drop(&mut self) {
        under_way().remove(&self.0);
    }
}

/// Has the origin asked for a new response. `renewing`: the request that asks, with what is to become of its response; `lock`: the
/// file that keeps other children from asking. If there is no room for that now, a later request begins it.
pub(super) fn begin(request: &Request, key: &str, renewing: Box<Request>, lock: Option<Arc<File>>) {
    let Some(renewal) = Renewal::of(key) else { return };
    let every = (max_age(request) / 3).max(TOUCH_MIN);
    let begun = server::begin_errand(async move {
        let _renewal = renewal;
        let answered = beside(renewing.answer_nobody(), keep_new(lock, every));
        // Whatever has come of it: the next request begins another one.
        let _ = timeout(TIME_MAX, answered).await;
    });
    let text = if begun { "is renewed in the background" } else { "cannot be renewed now" };
    request.log("cache", Level::Debug, format!("{}: {text}", request.data.unparsed_uri()));
}

/// The result of the first future, with the other one polled meanwhile.
async fn beside(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut is_over = false;
    poll_fn(|cx| {
        is_over = is_over || second.as_mut().poll(cx).is_ready();
        first.as_mut().poll(cx)
    })
    .await;
}

/// Keeps a lock from growing so old that another child takes it, for as long as it is there.
async fn keep_new(lock: Option<Arc<File>>, every: Duration) {
    let Some(lock) = lock else { return };
    loop {
        sleep(every).await;
        let lock = lock.clone();
        if offload(Load::Wait, move || touch(&lock)).await.is_err() {
            return;
        }
    }
}

fn touch(file: &File) -> io::Result<()> {
    let now = UNIX_EPOCH + sys::time::realtime();
    file.set_times(FileTimes::new().set_modified(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_share() {
        let key = |host: &str, number: usize| format!("http://{host}:80/share-of-places?{number}");
        let hanging: Vec<_> = (0..OF_ONE_HOST).map(|number| Renewal::of(&key("a", number)).expect("room")).collect();
        assert!(Renewal::of(&key("a", 0)).is_none() && Renewal::of(&key("a", OF_ONE_HOST)).is_none());
        let other = Renewal::of(&key("a.b", 0)).expect("room for another host");
        assert!(Renewal::of(&key("a.b", 0)).is_none(), "it is under way");
        drop((hanging, other));
        assert!(Renewal::of(&key("a", OF_ONE_HOST)).is_some());
    }

    #[test]
    fn a_lock_is_made_new() {
        let path = std::env::temp_dir().join(format!("tsubame-lock-{}", std::process::id()));
        let file = File::create(&path).expect("file");
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH)).expect("times");
        touch(&file).expect("touch");
        let modified = std::fs::metadata(&path).and_then(|meta| meta.modified()).expect("time");
        std::fs::remove_file(&path).expect("remove");
        assert!(modified > UNIX_EPOCH);
    }
}
