//! Defaults of the directives of prefork and of the modules with threads (Apache manual).

use std::time::Duration;

pub(crate) const SERVER_LIMIT: i64 = 16;
pub(crate) const THREAD_LIMIT: i64 = 64;
pub(crate) const THREADS_PER_CHILD: i64 = 25;
pub(crate) const MAX_REQUEST_WORKERS: i64 = 400;
pub(crate) const START_SERVERS: i64 = 3;
pub(crate) const MIN_SPARE_THREADS: i64 = 75;
pub(crate) const MAX_SPARE_THREADS: i64 = 250;
pub(crate) const ASYNC_FACTOR: u32 = 2;
pub(crate) const BACKLOG: i64 = 511;
pub(crate) const DEFER_ACCEPT: i64 = 30;
pub(crate) const GRACEFUL_SHUTDOWN_TIMEOUT: i64 = 0;
/// After this long without any progress something is wrong.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) mod prefork {
    pub(crate) const SERVER_LIMIT: i64 = 256;
    pub(crate) const MAX_REQUEST_WORKERS: i64 = 256;
    pub(crate) const START_SERVERS: i64 = 5;
    pub(crate) const MIN_SPARE_SERVERS: i64 = 5;
    pub(crate) const MAX_SPARE_SERVERS: i64 = 10;
}
