//! A request on its way through the phases.

mod account;
mod beyond_head;
pub(crate) mod bounds;
pub(crate) mod child_span;
pub mod client;
mod client_name;
mod data;
pub mod dns;
pub(crate) mod fields_out;
pub mod flow;
mod from_store;
mod headers_in;
pub mod hooks;
mod interim;
mod logging;
mod mapped;
mod notes;
pub mod phase;
pub(crate) mod prepared;
mod recorded;
mod recurrence;
pub mod recurring;
pub(crate) mod script_use;
pub mod stored;
mod template;
mod tunnel;
mod undecided;
pub mod unique;
pub(crate) mod upstream_use;
mod url;
mod wire;

use std::any::Any;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use conf::Settings;

pub use self::account::Account;
pub use self::client::Client;
pub use self::data::{RequestData, StreamId};
pub use self::mapped::{Mapped, NOCANON, NOENCODE, TO_BACKEND};
pub use crate::message::body::{BodyError, BodySource, KeptBody, RequestBody};
pub use crate::message::fields::Fields;
pub use crate::message::head::RequestHead;
pub use crate::message::interim::Interim;
pub use crate::message::response_head::{RateLimit, ResponseHead};
pub use crate::message::sent::Sent;
use crate::request::hooks::{Caching, Hooks};
use crate::request::prepared::Prepared;
use crate::request::recurring::Recurrence;
use crate::request::stored::Stored;
use crate::settings::core::CoreDir;
use crate::settings::merge::{Layer, Merged};
use crate::site::links::Links;
use crate::site::server::Server;
use crate::site::vhost::VirtualHost;
use crate::trace::Trace;

/// Why a request exists.
#[derive(Clone, Debug)]
pub enum RequestKind {
    /// A client sent it.
    Main,
    /// An `ErrorDocument`, a script's `Location`, `Action`, or another internal redirect.
    Redirected(Arc<Previous>),
    /// A subrequest on behalf of another request: nothing is sent. Holds its merged section settings and user.
    Subrequest {
        /// The asking request's settings: under the same settings, access need not be checked again.
        dir: Merged,
        /// The asking request's path.
        asker: Box<str>,
        /// The nesting depth of subrequests.
        depth: u32,
        /// How many internal redirects led to the asking request.
        redirects: u32,
    },
}

/// The record of a request before an internal redirect.
#[derive(Debug)]
pub struct Previous {
    /// Its status, for `REDIRECT_STATUS` and the original status in the log.
    pub status: u16,
    /// The handler it would have had.
    pub handler: Option<Cow<'static, str>>,
    /// Its target.
    pub uri: String,
    /// The file it was mapped to.
    pub filename: String,
    /// Its query.
    pub args: Option<String>,
    /// Its environment, for the `REDIRECT_` variables.
    pub env: Fields,
    /// Its user.
    pub user: Option<String>,
    /// Its notes.
    pub notes: Fields,
    /// The settings of all its sections.
    pub dir: Merged,
    /// Its method.
    pub method: String,
    /// The one before it.
    pub before: Option<Arc<Previous>>,
}

/// A request. The fields carry the names of httpd's `request_rec` where it has them.
pub struct Request {
    /// The loaded modules' hooks.
    pub(crate) hooks: &'static Hooks,
    /// The server's configuration at the time the request came in.
    pub server: &'static Server,
    /// The virtual host.
    pub vhost: &'static VirtualHost,
    /// The connection. Modules [ask for it](Request::client).
    pub(crate) client: Arc<Client>,
    /// Why it exists.
    pub kind: RequestKind,
    /// Its content.
    pub data: RequestData,
    /// The mapping of its path.
    pub mapped: Mapped,
    /// The settings of all sections, merged.
    pub dir: Merged,
    /// The head of its response.
    pub response: ResponseHead,
    /// Its user.
    pub login: Login,
    /// The environment (`subprocess_env`).
    pub env: Fields,
    /// Notes of modules for other modules.
    pub notes: Fields,
    /// The body of the request.
    pub body: RequestBody,
    /// The stored body for included responses, if it is stored.
    pub kept_body: Option<KeptBody>,
    /// Data shared with the page of which it becomes a part, if it does.
    pub page: Option<Arc<dyn Any + Send + Sync>>,
    /// The way to the client before its response begins, if the protocol has one.
    pub interim: Option<Arc<dyn Interim>>,
    /// What a cache has to do with its response.
    pub caching: Option<Box<dyn Caching>>,
    /// Its counts and times for the logs.
    pub account: Account,
    /// The record of its way, for an explanation.
    pub(crate) trace: Option<Box<Trace>>,
    /// How many bytes of text configuration lines have made for it (see [`bounded`](Request::bounded)).
    pub(crate) made: AtomicUsize,
    /// A line could not be decided (see [`fails_closed`](Request::fails_closed)).
    pub(crate) undecided: AtomicBool,
    /// The variables of its environment that each request has anew, as they were set.
    pub(crate) own_variables: Vec<(&'static str, String)>,
    /// Something beyond its head was asked (see [`asks_beyond_head`](Request::asks_beyond_head)).
    pub(crate) beyond_head: AtomicBool,
    /// Where it, and others, began, or may begin.
    pub(crate) prepared: Option<Arc<Prepared>>,
    /// A request like this one was before its handler, if others may begin there.
    pub(crate) template: Option<Box<Request>>,
    /// Whether others that begin where the phases leave this one are worth remembering.
    pub(crate) may_prepare_others: bool,
    /// Whether its response may recur.
    pub(crate) recurrence: Recurrence,
    /// The stored response with which a cache has answered it.
    pub(crate) stored: Option<Arc<dyn Stored>>,
    /// The number of the settled response that it has had, which a later request may have.
    pub(crate) settled: Option<NonZeroU64>,
}

/// The user of a request.
#[derive(Clone, Default)]
pub struct Login {
    /// The user's name.
    pub user: Option<String>,
    /// The way the user was authenticated.
    pub auth_type: Option<String>,
    /// A one-time proof that was accepted for this request: its redirects and subrequests need no other.
    pub proof: Option<String>,
    /// Further data about the user from the module that checked the password, for its own `Require` lines.
    pub known: Option<Arc<dyn Any + Send + Sync>>,
}

/// The origin of a request.
pub(crate) struct Source {
    pub(crate) server: &'static Server,
    pub(crate) hooks: &'static Hooks,
    pub(crate) vhost: &'static VirtualHost,
    pub(crate) client: Arc<Client>,
}

impl Request {
    /// A `GET` that has not been through any phase. The caller sets everything else.
    pub(crate) fn new(source: Source, kind: RequestKind, data: RequestData, account: Account) -> Box<Request> {
        let Source { server, hooks, vhost, client } = source;
        Box::new(Request {
            hooks,
            server,
            vhost,
            client,
            kind,
            data,
            mapped: Mapped::default(),
            dir: vhost.base.base(),
            response: ResponseHead::default(),
            login: Login::default(),
            env: Fields::default(),
            notes: Fields::default(),
            body: RequestBody::default(),
            kept_body: None,
            page: None,
            interim: None,
            caching: None,
            account,
            trace: None,
            made: AtomicUsize::new(0),
            undecided: AtomicBool::new(false),
            own_variables: Vec::new(),
            beyond_head: AtomicBool::new(false),
            prepared: None,
            template: None,
            may_prepare_others: false,
            recurrence: Recurrence::None,
            stored: None,
            settled: None,
        })
    }

    /// A module's settings for this request, all sections merged.
    #[inline]
    pub fn dir<S: Settings>(&self) -> &S {
        self.dir.slots.get()
    }

    /// A module's settings of the virtual host.
    #[inline]
    pub fn host<S: Settings>(&self) -> &S {
        self.vhost.settings.get()
    }

    /// A module's variable of this request.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.asks_beyond_head();
        self.hooks.variables.iter().find_map(|find| find(self, name))
    }

    /// A variable of the server's own environment.
    pub fn process_env(&self, name: &str) -> Option<String> {
        self.server.system.env(name)
    }

    /// The directory for its URL paths: `DocumentRoot`, or a module's replacement.
    pub fn document_root(&self) -> &str {
        self.mapped.document_root.as_ref().unwrap_or(&self.vhost.document_root)
    }

    /// The handler for the response: the one named by the configuration or a module, or else the media type. That may be
    /// a handler's name, as in the oldest configurations (`AddType application/x-httpd-cgi`).
    pub fn handler_name(&self) -> Option<&str> {
        let media_type = |text: &'_ str| memchr::memchr(b';', text.as_bytes()).unwrap_or(text.len());
        match &self.mapped.handler {
            Some(handler) => Some(handler),
            None => self.response.configured_type().map(|text| &text[..media_type(text)]),
        }
    }

    /// The links that may be on the way to its file.
    pub fn links(&self) -> Links {
        self.mapped.links.unwrap_or_else(|| Links::of(self.dir::<CoreDir>().options.0.effective(), 0, false))
    }

    /// The request before an internal redirect.
    pub fn previous(&self) -> Option<&Arc<Previous>> {
        match &self.kind {
            RequestKind::Redirected(previous) => Some(previous),
            _ => None,
        }
    }

    /// How many internal redirects led here, including those of the request that this is a subrequest for.
    pub fn redirects(&self) -> u32 {
        match &self.kind {
            RequestKind::Main => 0,
            RequestKind::Redirected(previous) => {
                std::iter::successors(Some(previous), |one| one.before.as_ref()).count() as u32
            }
            RequestKind::Subrequest { redirects, .. } => *redirects,
        }
    }

    /// The first request of a chain of internal redirects: method, target and status as the client sees them.
    pub fn original(&self) -> Option<&Previous> {
        let mut at = self.previous()?.as_ref();
        while let Some(before) = &at.before {
            at = before;
        }
        Some(at)
    }

    /// Whether this is a subrequest on behalf of another request.
    pub fn is_subrequest(&self) -> bool {
        matches!(self.kind, RequestKind::Subrequest { .. })
    }

    /// Whether this is only a hypothetical request ([`explain`](crate::explain)): nothing may be written or changed for
    /// it.
    pub fn is_hypothetical(&self) -> bool {
        self.trace.is_some()
    }

    /// Comes before a filter that may start programs: a hypothetical request goes no further.
    pub async fn before_programs(&self) {
        if let Some(trace) = &self.trace {
            trace.reached();
            std::future::pending().await
        }
    }
}

impl Request {
    /// Enters one more section; returns the settings outside it, for [`leave`](Request::leave).
    pub fn enter(&mut self, layer: &Layer) -> Merged {
        let merged = self.server.merger.merge(&self.dir, layer);
        std::mem::replace(&mut self.dir, merged)
    }

    /// Returns to the sections that the request was in before.
    pub fn leave(&mut self, outside: Merged) {
        self.dir = outside;
    }

    /// Ends, and gives the memory of its head to the next request, or all of its memory if it began where others will.
    pub(crate) fn recycle(self: Box<Request>) {
        if self.prepared.is_some() {
            return self.leave_memory();
        }
        if let Ok(head) = Arc::try_unwrap(self.data.head) {
            head.recycle();
        }
    }

    /// Forgets the results for one path, before another one is examined.
    pub(crate) fn reset_mapping(&mut self, status: u16) {
        self.mapped.clear();
        self.body = self.body.unfiltered();
        self.response.begin_again(status);
        self.dir = self.vhost.base.base();
    }

    /// Adds to the response how to log in: asks the module of that `AuthType`.
    pub fn note_auth_failure(&mut self, auth_type: &str) {
        let hooks = self.hooks;
        hooks.note_auth_failure.iter().for_each(|note| note(self, auth_type));
    }
}
