//! Runs scripts: environment, start, response.
//!
//! A script is a program that makes the response to one request (CGI/1.1, RFC 3875). [`env`](mod@env) makes its
//! variables, and [`gate`] admits it. [`process`] starts it, here or by means of a [`daemon`], and makes sure that it
//! is gone afterwards. [`script`] moves the request's body into it and its output out of it, and [`response`] reads the
//! header that it writes and makes the server's response from that. [`run()`] is the whole way; [`backend`] is the same
//! for processes that outlive a request. [`owners`] decides the users that scripts run as. The modules decide which
//! requests are scripts, and which conditions those must meet.

#![forbid(unsafe_code)]

pub mod backend;
pub mod body_buffer;
mod caller;
mod command;
pub mod daemon;
pub mod env;
mod environment;
pub mod gate;
pub mod owners;
mod process;
pub mod protocol;
pub mod response;
mod run;
mod script;
pub mod script_log;

pub use backend::StderrMessages;
pub use caller::{CGI_TIMEOUT_MESSAGE, Caller, Cgi, TimeoutMessage};
pub use environment::Environment;
pub use process::end_all;
pub use run::{NotStarted, filter, run, shell};
pub use script_log::{ScriptLog, complain};
