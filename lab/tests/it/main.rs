//! The laboratory from outside: its commands against real and scripted servers.

#![forbid(unsafe_code)]

mod advise;
mod fleet;
mod frontends;
mod httperf_sessions;
mod pages;
mod proxies;
mod runs;
mod scripted;
mod sessions;
mod switch;
mod tls;
mod top;
mod top_fleet;
mod tune;
mod watch_logs;
