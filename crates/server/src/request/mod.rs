//! A request on its way through the phases.

pub mod body;
pub mod client;
pub mod fields;
pub(crate) mod fields_out;
pub mod flow;
pub mod head;
pub mod hooks;
mod logging;
pub(crate) mod lookup;
mod notes;
pub(crate) mod response;
pub(crate) mod script_use;
mod sent;
pub(crate) mod subject;
pub mod unique;
mod url;
mod wire;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use conf::Settings;
use sys::file::Meta;

pub use self::body::{BodyError, BodySource, RequestBody};
pub use self::client::Client;
pub use self::fields::Fields;
pub use self::head::RequestHead;
pub use self::sent::Sent;
pub(crate) use self::sent::{Delimiter, Persist};
use crate::config::merge::Merged;
use crate::config::server::Server;
use crate::config::vhost::VirtualHost;
use crate::explain::trace::Trace;
use crate::files::file_cache::Kept;
use crate::request::hooks::Hooks;
use crate::request::script_use::ScriptUse;

/// Why a request exists.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A client sent it.
    Main,
    /// An `ErrorDocument`, a script's `Location`, `Action`, or another internal redirect.
    Redirected(Arc<Previous>),
    /// A look-up on behalf of another request: nothing is sent. Holds its merged section settings and user.
    Lookup {
        /// The asking request's settings: the same settings need no second check of access.
        dir: Merged,
        /// How deep look-ups nest.
        depth: u32,
    },
}

/// What is remembered of the request before an internal redirect.
#[derive(Debug)]
pub struct Previous {
    /// Its status, for `REDIRECT_STATUS` and the original status in the log.
    pub status: u16,
    /// Who was to make its answer.
    pub handler: Option<Cow<'static, str>>,
    /// Its target.
    pub uri: String,
    /// The file that was mapped to.
    pub filename: String,
    /// Its query.
    pub args: Option<String>,
    /// Its environment, for the `REDIRECT_` variables.
    pub env: Fields,
    /// Its user.
    pub user: Option<String>,
    /// Its notes.
    pub notes: Fields,
    /// The settings of all sections that it met.
    pub dir: Merged,
    /// Its method.
    pub method: String,
    /// The one before it.
    pub before: Option<Arc<Previous>>,
}

/// A request. The fields carry the names of httpd's `request_rec` where it has them.
pub struct Request {
    /// What the loaded modules do with it.
    pub(crate) hooks: &'static Hooks,
    /// The server's configuration at the time the request came in.
    pub server: &'static Server,
    /// The virtual host.
    pub vhost: &'static VirtualHost,
    /// The connection.
    pub client: Arc<Client>,
    pub(crate) head: Arc<RequestHead>,
    /// Why it exists.
    pub kind: Kind,

    /// The method, as sent; after an internal redirect perhaps `GET`.
    pub method: Cow<'static, str>,
    /// Only the head of the answer is wanted.
    pub header_only: bool,
    /// The protocol version of the request line.
    pub version: http1::Version,
    /// The target as sent.
    pub unparsed_uri: String,
    /// The path, decoded and cleaned.
    pub uri: String,
    /// The query, as sent.
    pub args: Option<String>,
    /// The host asked for, in lower case, without port.
    pub hostname: Option<String>,
    /// Fields that replace those of the head, once a module changed any.
    pub(crate) headers_in: Option<Fields>,

    /// The file the path was mapped to.
    pub filename: String,
    /// What stands behind the file's part of the path.
    pub path_info: String,
    /// The file, if it is there.
    pub stat: Option<Meta>,
    /// What is remembered of that file.
    pub(crate) kept: Option<Arc<Kept>>,
    /// The tick that announced it: what the system told another request in it holds for this one too.
    pub(crate) tick: Option<NonZeroU64>,
    /// How many bytes of its answer go out in a second at most.
    pub pace: Option<u32>,
    /// The URL prefix and directory of the `Alias` that mapped it.
    pub context: Option<(String, String)>,
    /// The settings of all sections, merged.
    pub dir: Merged,

    /// Who makes the answer.
    pub handler: Option<Cow<'static, str>>,
    /// The media type.
    pub content_type: Option<Cow<'static, str>>,
    /// That type is a script's own word, not the configuration's: it names no handler.
    pub type_by_script: bool,
    /// The encodings, innermost first.
    pub content_encoding: Option<String>,
    /// The languages.
    pub content_languages: Vec<String>,
    /// The status.
    pub status: u16,
    /// A status line of the script's own (`418 Teapot`).
    pub status_line: Option<String>,
    /// Fields of answers that succeed.
    pub headers_out: Fields,
    /// Fields of all answers, those of errors too.
    pub err_headers_out: Fields,
    /// The environment (`subprocess_env`).
    pub env: Fields,
    /// What modules tell each other.
    pub notes: Fields,
    /// Who asks.
    pub user: Option<String>,
    /// How that was found out.
    pub auth_type: Option<String>,
    /// The answer depends on the moment: no validators, no `304`.
    pub no_local_copy: bool,
    /// It is the live page's own, which shows what others do.
    pub watches: bool,
    /// What tells one list of variants from another, once the answer is chosen from one: a part of its `ETag`.
    pub vlist_validator: Option<String>,
    /// `PATH_INFO` is for the handler to judge (`AcceptPathInfo`); `None` leaves it to the handler's default.
    pub accept_path_info: Option<bool>,
    /// Output filters that the file's name asks for (`AddOutputFilter`), before those of the configuration.
    pub output_filters: Vec<String>,

    /// What the script that made the answer has cost.
    pub script: Option<Arc<ScriptUse>>,

    /// The body of the request.
    pub body: RequestBody,
    /// When it came in, by the clock.
    pub time: SystemTime,
    /// The same, for durations.
    pub start: Instant,
    /// Numbers for the log, filled while the answer goes out.
    pub sent: Sent,
    pub(crate) log_id: OnceLock<String>,
    /// What happened to it, where somebody asks.
    pub(crate) trace: Option<Box<Trace>>,
}

/// Where a request comes from.
pub(crate) struct Source {
    pub(crate) server: &'static Server,
    pub(crate) hooks: &'static Hooks,
    pub(crate) vhost: &'static VirtualHost,
    pub(crate) client: Arc<Client>,
    pub(crate) head: Arc<RequestHead>,
}

impl Request {
    /// A `GET` that has not been through any phase. What else is known of it its maker sets.
    pub(crate) fn new(source: Source, kind: Kind, time: SystemTime, start: Instant) -> Box<Request> {
        let Source { server, hooks, vhost, client, head } = source;
        Box::new(Request {
            hooks,
            server,
            vhost,
            client,
            head,
            kind,
            method: Cow::Borrowed("GET"),
            header_only: false,
            version: http1::Version::Http11,
            unparsed_uri: String::new(),
            uri: String::new(),
            args: None,
            hostname: None,
            headers_in: None,
            filename: String::new(),
            path_info: String::new(),
            stat: None,
            kept: None,
            tick: None,
            pace: None,
            context: None,
            dir: vhost.base.clone(),
            handler: None,
            content_type: None,
            type_by_script: false,
            content_encoding: None,
            content_languages: Vec::new(),
            status: 200,
            status_line: None,
            headers_out: Fields::default(),
            err_headers_out: Fields::default(),
            env: Fields::default(),
            notes: Fields::default(),
            user: None,
            auth_type: None,
            no_local_copy: false,
            watches: false,
            vlist_validator: None,
            accept_path_info: None,
            output_filters: Vec::new(),
            script: None,
            body: RequestBody::default(),
            time,
            start,
            sent: Sent::default(),
            log_id: OnceLock::new(),
            trace: None,
        })
    }

    /// The first value of a field of the request.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        match &self.headers_in {
            Some(fields) => fields.get(name).map(Cow::Borrowed),
            None => self.head.field(name).map(http1::text::from_bytes),
        }
    }

    /// All values of a field of the request, joined by `", "`.
    pub fn header_joined(&self, name: &str) -> Option<Cow<'_, str>> {
        match &self.headers_in {
            Some(fields) => fields.joined(name).map(Cow::Owned),
            None => match self.head.combined(name)? {
                Cow::Borrowed(bytes) => Some(http1::text::from_bytes(bytes)),
                Cow::Owned(bytes) => Some(Cow::Owned(http1::text::from_bytes(&bytes).into_owned())),
            },
        }
    }

    /// The fields of the request in order.
    pub fn headers(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        match &self.headers_in {
            Some(fields) => fields.iter().map(|(n, v)| (Cow::Borrowed(n), Cow::Borrowed(v))).collect(),
            None => {
                let text = http1::text::from_bytes;
                self.head.fields().map(|(n, v)| (text(n), text(v))).collect()
            }
        }
    }

    /// The fields of the request, to be changed: from now on they count instead of the head's.
    pub fn headers_mut(&mut self) -> &mut Fields {
        if self.headers_in.is_none() {
            let mut own = Fields::default();
            for (name, value) in self.headers() {
                own.add(name.into_owned(), value.into_owned());
            }
            self.headers_in = Some(own);
        }
        self.headers_in.get_or_insert_default()
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

    /// The request line as it was sent.
    pub fn request_line(&self) -> String {
        http1::text::from_bytes(self.head.line()).into_owned()
    }

    /// The protocol of the request line (`HTTP/1.1`).
    pub fn protocol(&self) -> &'static str {
        self.version.as_str()
    }

    /// The request before an internal redirect.
    pub fn previous(&self) -> Option<&Arc<Previous>> {
        match &self.kind {
            Kind::Redirected(previous) => Some(previous),
            _ => None,
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

    /// Whether this is a look-up on behalf of another request.
    pub fn is_lookup(&self) -> bool {
        matches!(self.kind, Kind::Lookup { .. })
    }

    /// Sets the type, as handlers and type checkers do.
    pub fn set_content_type(&mut self, text: impl Into<Cow<'static, str>>) {
        self.content_type = Some(text.into());
        self.type_by_script = false;
    }

    /// Sets the type that a script gave its answer.
    pub fn set_script_type(&mut self, text: impl Into<Cow<'static, str>>) {
        self.content_type = Some(text.into());
        self.type_by_script = true;
    }

    /// Whether nobody sent it: somebody asks what would happen ([`explain`](crate::explain)), and nothing is to be written
    /// or changed because of that.
    pub fn is_question(&self) -> bool {
        self.trace.is_some()
    }
}

impl Request {
    /// Forgets what was found out for one path, before another one is looked at.
    pub(crate) fn reset_mapping(&mut self, status: u16) {
        self.filename.clear();
        self.path_info.clear();
        self.stat = None;
        self.kept = None;
        self.context = None;
        self.handler = None;
        self.content_encoding = None;
        self.content_languages.clear();
        self.status = status;
        self.status_line = None;
        self.headers_out.clear();
        self.accept_path_info = None;
        self.output_filters.clear();
        self.dir = self.vhost.base.clone();
    }
}
