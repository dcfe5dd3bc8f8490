//! What runs scripts: environment, spawn, replies.
//!
//! A script is a program that makes the answer to one request (CGI/1.1, RFC 3875). [`env`] makes its variables, [`spawn`]
//! starts it, [`script`] pumps the request's body into it and its output out of it, [`reply`] reads the header it writes,
//! [`answer`] makes an answer of that, and [`ending`] sees to it that its process is gone afterwards, with the help of a thread
//! (`reaper`). [`run`] is the whole way. [`owners`] says as whom scripts run, and [`perl_bundle`]
//! is the program of persistent Perl. Which requests are scripts, and what has to be
//! true of them, is for the modules to say.

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
