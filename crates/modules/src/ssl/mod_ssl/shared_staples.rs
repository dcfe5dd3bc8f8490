//! OCSP responses that several machines share (`SSLStaplingCache redis:HOST`): one asks the responder, the others take what it got.
//!
//! Only the process that asks the responders looks there, so no handshake waits for the cache. Nobody trusts what is in it: a
//! response counts if the authority has signed it. Without the cache each machine asks for itself.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use server::Server;
use server::module::ObjectCache;
use sys::cred::Identity;

use super::settings::SslServer;
use crate::complaints::Complaints;

/// The name of this user of a cache; what precedes its keys.
const USER: &str = "ssl-stapling";
/// At most this many seconds after the machine that has asked do the others look: they find the next response.
const LATER_MAX: i64 = 60;

/// The cache.
#[derive(Clone)]
pub(super) struct SharedStaples(Arc<dyn ObjectCache>);

/// A response, and if another machine got it, when that one asks again, in seconds since 1970.
#[derive(Clone)]
pub(super) struct Got {
    pub(super) response: Vec<u8>,
    pub(super) next: Option<i64>,
}

impl Got {
    pub(super) fn from_responder(response: Vec<u8>) -> Got {
        Got { response, next: None }
    }
}

/// Opens the cache, if there is one that machines may share.
pub(super) fn open(server: &Server, children: Option<&Identity>) -> Result<Option<SharedStaples>, String> {
    let main = server.main();
    let Some(cache) = main.settings.get::<SslServer>().stapling_cache.get().filter(|cache| cache.is_remote()) else {
        return Ok(None);
    };
    cache
        .open(USER, server, main, children)
        .map_err(|error| format!("SSLStaplingCache: the cache cannot be opened: {}", sys::describe(&error)))?;
    Ok(cache.shared().map(SharedStaples))
}

/// When a machine asks that has the response of another one, which asks again at `next`: a little later, each at another moment.
pub(super) fn after(next: i64, now: i64) -> i64 {
    let most = ((next - now) / 4).clamp(1, LATER_MAX);
    next + 1 + (sys::random::number() % most.cast_unsigned()).cast_signed()
}

impl SharedStaples {
    /// The response for a certificate, as long as it is fresh.
    pub(super) async fn find(&self, digest: &[u8], now: i64) -> Option<Got> {
        let object = self.0.get(&key(digest)).await.inspect_err(out_of_reach).ok()??;
        let (next, response) = object.split_first_chunk::<8>()?;
        let next = i64::from_le_bytes(*next);
        (next > now).then(|| Got { response: response.to_vec(), next: Some(next) })
    }

    /// Stores a good response, for the seconds that it is valid.
    pub(super) fn store(
        &self,
        digest: &[u8],
        response: Vec<u8>,
        next: i64,
        seconds: i64,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (cache, key) = (self.0.clone(), key(digest));
        let object = Bytes::from([&next.to_le_bytes()[..], &response].concat());
        let lifetime = Duration::from_secs(seconds.max(0).cast_unsigned());
        Box::pin(async move {
            let _ = cache.put(&key, object, lifetime).await.inspect_err(out_of_reach);
        })
    }
}

fn key(digest: &[u8]) -> Vec<u8> {
    [USER.as_bytes(), b":", digest].concat()
}

fn out_of_reach(error: &io::Error) {
    static OUT_OF_REACH: Complaints = Complaints::new();
    if OUT_OF_REACH.is_due("") {
        let text = sys::describe(error);
        runtime::log!("ssl", Error, "{text}: SSLStaplingCache: this server asks the responders itself meanwhile");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_look_a_little_later() {
        for (next, most) in [(1001, 2), (1100, 26), (5000, 61)] {
            for _ in 0..100 {
                assert!((next + 1..=next + most).contains(&after(next, 1000)), "{next}");
            }
        }
    }
}
