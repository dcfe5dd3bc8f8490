//! How a request is put to a backend: on whose behalf, and in which form.

use conf::Level;
use http::text::to_bytes;
use server::{Request, RequestBody};

use super::filter::FilterData;
use crate::caller::Caller;
use crate::env;
use crate::protocol::fastcgi::Role;
use crate::protocol::{Protocol, fastcgi, plain, script_runtime};

/// How a request is put to a backend.
#[derive(Clone, Copy)]
pub(super) struct BackendCall<'a> {
    /// The module that has the request.
    pub(super) caller: &'a Caller,
    /// The form of the request's head.
    pub(super) head: &'a Head,
    /// How its standard error is logged.
    pub(super) stderr: StderrMessages,
    /// What the client will say if the script switches to another protocol: then it takes the place of the request's body.
    pub(super) tunnel: Option<&'a RequestBody>,
}

/// The head of a request.
#[derive(Clone, Debug)]
pub enum Head {
    /// FastCGI, in this role.
    FastCgi(Role),
    /// FastCGI, as a filter of this file.
    Filter(FilterData),
    /// The protocol of runtimes, with this call.
    Runtime(RuntimeCall),
    /// SCGI.
    Scgi,
    /// uwsgi.
    Uwsgi,
}

impl Head {
    /// The protocol after the head.
    pub fn protocol(&self) -> Protocol {
        match self {
            Head::FastCgi(_) | Head::Filter(_) => Protocol::FastCgi,
            Head::Runtime(_) => Protocol::Runtime,
            Head::Scgi | Head::Uwsgi => Protocol::Plain,
        }
    }

    /// What follows the body of the request: the file of a filter.
    pub(super) fn data(&self) -> Option<RequestBody> {
        match self {
            Head::Filter(data) => Some(data.body()),
            _ => None,
        }
    }

    /// Its bytes, for a connection that stays open after the request or not. `Err`: the request does not fit.
    pub(super) fn bytes(&self, request: &Request, keep: bool) -> Result<Vec<u8>, usize> {
        match self {
            Head::Runtime(call) if call.keeps_names => self.of_pairs(request, keep, env::pairs_as_set(&request.env)),
            _ => self.of_pairs(request, keep, env::pairs(&request.env)),
        }
    }

    /// The bytes of a request with these variables.
    pub(super) fn of_pairs<'a>(
        &self,
        request: &Request,
        keep: bool,
        pairs: impl IntoIterator<Item = env::Pair<'a>>,
    ) -> Result<Vec<u8>, usize> {
        match self {
            Head::FastCgi(role) => Ok(fastcgi::open(*role, keep, pairs)),
            Head::Filter(_) => Ok(fastcgi::open(Role::Filter, keep, pairs)),
            Head::Runtime(call) => {
                script_runtime::open(&call.fields, pairs.into_iter().filter(|pair| call.passes(pair)))
            }
            Head::Scgi => Ok(plain::scgi(request.body.length().unwrap_or(0), pairs)),
            Head::Uwsgi => plain::uwsgi(pairs),
        }
    }
}

/// A call of a handler in a runtime: the handler, and what it gets to know besides the environment
/// (`docs/backend-protocol.md`).
#[derive(Clone, Debug, Default)]
pub struct RuntimeCall {
    /// In the form of the protocol.
    fields: Vec<u8>,
    /// Variables that the environment leaves out.
    withheld: &'static [&'static str],
    /// Whether names such as `app.key` stay as they are.
    keeps_names: bool,
}

impl RuntimeCall {
    /// Adds a text. A name may occur several times.
    pub fn add(&mut self, name: &'static str, text: &str) {
        script_runtime::add(name.as_bytes(), &to_bytes(text), &mut self.fields);
    }

    /// Leaves these variables out of the environment.
    pub fn withhold(&mut self, names: &'static [&'static str]) {
        self.withheld = names;
    }

    /// Leaves the names of variables as they are, even if no process could have such ones.
    pub fn keep_names(&mut self) {
        self.keeps_names = true;
    }

    fn passes(&self, pair: &env::Pair<'_>) -> bool {
        !self.withheld.iter().any(|name| name.as_bytes() == &*pair.0)
    }
}

/// How a module logs what its backends write to their standard error.
#[derive(Clone, Copy, Debug)]
pub struct StderrMessages {
    /// The message for a line.
    pub text: fn(&Request, &str) -> String,
    /// Its level; `None`: it continues the line before.
    pub level: fn(&str) -> Option<Level>,
}
