//! Runs scripts: environment, spawn, replies.
//!
//! A script is a program that makes the answer to one request (CGI/1.1, RFC 3875). [`env`] makes its variables,
//! [`spawn`] starts it, [`script`] pumps the request's body into it and its output out of it, [`reply`] reads the
//! header it writes, [`answer`] turns that into an answer, and [`ending`] makes sure that its process is gone
//! afterwards, with the help of a thread (`reaper`). [`run`] is the whole way. [`owners`] decides the users that
//! scripts run as, and [`perl_bundle`] is the program of persistent Perl. The modules decide which requests are
//! scripts, and which conditions those must meet.

#![forbid(unsafe_code)]

pub mod answer;
pub mod backend;
mod caller;
mod command;
pub mod daemon;
pub mod ending;
pub mod env;
pub mod gate;
pub mod gathered;
mod input;
mod leader;
pub mod owners;
mod perl_bundle;
mod pipe;
pub mod protocol;
mod reaper;
pub mod reply;
mod respond;
pub mod run;
mod script;
pub mod script_log;
pub mod spawn;
mod stream;

pub use caller::{CGI, Caller, Cgi, Words};
pub use run::{filter, run, shell};
pub use script::conversation::Speech;
pub use script_log::{ScriptLog, complain};
