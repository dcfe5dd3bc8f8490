//! A protocol for backends, and what the modules that implement one have in common.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use conf::Level;
use gateway::backend::Head;
use gateway::backend::remote::{RemoteCall, RemoteProtocol};
use gateway::body_buffer::{BufferError, IN_MEMORY, buffer_body};
use gateway::{Caller, StderrMessages, TimeoutMessage};
use server::{HandlerResult, Request, Waiting};
use upstream::{Attempt, Kind, Limit, RemoteServer, Tls};

use super::ajp_settings::AjpSettings;
use super::rest::Rest;
use super::status::Status;
use super::target::Target;
use crate::loggers::mod_log_config::accounts_for_scripts;

/// A protocol that a backend can speak, and the module that implements it.
pub(crate) struct Scheme {
    /// Its name in URLs.
    pub(crate) name: &'static str,
    /// The module that implements it, as in `LoadModule`.
    pub(crate) module: &'static str,
    /// The port of a URL that names none.
    pub(crate) port: u16,
    /// Whether its URLs have a query: the request's.
    pub(crate) query: bool,
    /// Whether connections to a backend that the configuration names stay open unless it says otherwise.
    pub(crate) reuse: bool,
    /// The protocol that a request may switch to unless the configuration says otherwise (RFC 9110 section 7.8).
    pub(crate) upgrade: Option<&'static str>,
    /// The further processing of a path mapped by `ProxyPass`, once it is escaped.
    pub(crate) path: fn(&mut Request, &Target),
    /// Sends the request to the backend, and makes the response from its answer. `None`: the backend is a balancer, whose members
    /// have protocols of their own.
    pub(crate) handler: Option<SchemeHandler>,
}

/// Sends a request to a backend.
pub(crate) type SchemeHandler = for<'a> fn(&'a mut Request, Arc<Destination>) -> Waiting<'a, HandlerResult>;

/// Where a request goes.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) backend: Arc<Backend>,
    /// Learns what becomes of the request, if the backend is a member of a balancer or has a rest.
    pub(crate) attempt: Option<Arc<Attempt>>,
}

/// The target of requests with the same URL, and its settings.
#[derive(Clone)]
pub(crate) struct Backend {
    /// The backend's URL with the request's path.
    pub(crate) target: Target,
    /// The address and its settings.
    pub(crate) server: RemoteServer,
    /// What connections to it have in common.
    pub(crate) kind: Kind,
    /// How long the backend may be silent.
    pub(crate) timeout: Duration,
    /// Whether each piece of the response goes out at once.
    pub(crate) flush: bool,
    /// What concerns AJP only.
    pub(crate) ajp: AjpSettings,
    /// The protocol that the request may switch to, or `ANY`.
    pub(crate) upgrade: Option<String>,
    /// What the configuration says about the backend's status.
    pub(crate) status: Status,
    /// A proxy answers the request in place of the server, and wants these credentials.
    pub(crate) answering: Option<Credentials>,
    /// How many connections to it a child uses at most.
    pub(crate) limit: Option<Arc<Limit>>,
    /// How long a request waits for one, if the configuration says that.
    pub(crate) acquire: Option<Duration>,
    /// The rest that the backend has after it could not be reached, if it is no member of a balancer.
    pub(crate) rest: Option<Rest>,
}

/// The credentials that the proxy behind this one wants, if it wants any.
pub(crate) type Credentials = Option<String>;

impl Destination {
    /// The destination over encrypted connections.
    pub(crate) fn encrypted(&self, tls: Tls) -> Destination {
        let server = RemoteServer { tls: Some(tls), ..self.server.clone() };
        let backend = Backend { kind: server.kind(), server, ..Backend::clone(self) };
        Destination { backend: Arc::new(backend), attempt: self.attempt.clone() }
    }
}

impl From<Backend> for Destination {
    fn from(backend: Backend) -> Destination {
        Destination { backend: Arc::new(backend), attempt: None }
    }
}

impl Deref for Destination {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        &self.backend
    }
}

impl Backend {
    /// The target in the request line: a proxy learns there which server it is for (RFC 9112 section 3.2.2).
    pub(crate) fn request_target(&self) -> Cow<'_, str> {
        match self.answering {
            None => Cow::Borrowed(&self.target.path),
            Some(_) => Cow::Owned(self.target.url()),
        }
    }

    /// The value of `Proxy-Authorization`.
    pub(crate) fn credentials(&self) -> Option<&str> {
        self.answering.as_ref()?.as_deref()
    }
}

/// A failure of a backend, as Apache reports it: in the log, and on the page.
pub(crate) fn proxy_error(request: &mut Request, status: u16, message: &str) -> HandlerResult {
    request.log("proxy", Level::Error, format!("AH00898: {message} returned by {}", request.data.uri));
    let note = format!(
        "The proxy server could not handle the request<p>Reason: <strong>{}</strong></p>",
        http::uri::escape_html(message)
    );
    request.notes.set("error-notes", note);
    request.response.set_status_line(status, format!("{status} Proxy Error"));
    HandlerResult::Status(status)
}

/// How a module talks to a backend.
pub(crate) struct BackendProtocol {
    /// Its name in log lines.
    pub(crate) module: &'static str,
    pub(crate) head: Head,
    pub(crate) protocol: &'static RemoteProtocol,
    pub(crate) stderr: StderrMessages,
}

/// The message about a silent backend is elsewhere: it is the backend's own failure.
static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |_, time| format!("the backend has sent nothing for {} s", time.as_secs()),
    level: Level::Error,
};

/// Gathers a body of unknown length, and makes the environment; the module's changes come afterwards. `Err`: the
/// request cannot be sent.
pub(crate) async fn prepare(request: &mut Request, module: &'static str) -> Result<(), HandlerResult> {
    if request.body.length().is_none()
        && let Err(why) = buffer_body(request, IN_MEMORY, u64::MAX).await
    {
        let text = match &why {
            BufferError::File(_) => format!("AH01089: the request body: {why}"),
            _ => "AH01225: Error reading request entity data".to_string(),
        };
        request.log(module, Level::Error, text);
        return Err(HandlerResult::Status(why.status()));
    }
    gateway::env::add(request).await;
    Ok(())
}

/// Lets a backend answer the request, whose environment is complete.
pub(crate) async fn respond(
    request: &mut Request,
    destination: &Destination,
    backend: &BackendProtocol,
) -> HandlerResult {
    let caller = Caller {
        accounts: accounts_for_scripts(request),
        // As in Apache, the head of a uwsgi server is one of HTTP.
        trusts_length: backend.protocol.status_line,
        ..Caller::new(backend.module, &TIMEOUT_MESSAGE, destination.timeout)
    };
    request.response.flush = destination.flush;
    let BackendProtocol { protocol, head, stderr, .. } = backend;
    let attempt = destination.attempt.as_deref();
    let (server, kind) = (&destination.server, &destination.kind);
    let call = RemoteCall { caller: &caller, server, kind, protocol, head, stderr: *stderr, attempt };
    call.respond(request).await
}
