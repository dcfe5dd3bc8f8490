//! The server from the outside: what it answers, logs, refuses and survives.
//!
//! One binary. In the [`harness`], `server` starts and judges servers, `wire` talks to them, `oracle` has Apache answer the
//! same requests, `mpm` repeats tests under several multi-processing modules, and `needs` says what the machine has to
//! have. The other folders hold the tests, by subject.

mod auth;
mod cache;
mod cli;
mod config;
mod harness;
mod http;
mod logs;
mod mpm;
mod proxy;
mod scripts;
mod tls;
