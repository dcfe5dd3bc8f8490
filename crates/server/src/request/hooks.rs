//! The modules' hooks for requests: the functions listed in [`Hook`](crate::Hook), sorted by phase.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use conf::Level;
use runtime::scoreboard::Workers;
use rustls::server::ClientHello;

use crate::message::response::{Body, BodyStream, HandlerResult, Unsent};
use crate::request::Request;
use crate::request::client::Announced;
use crate::request::flow::{Flow, Waiting};
use crate::request::phase::Phase;
use crate::site::server::Server;
use crate::site::vhost::VirtualHost;
use crate::transport::endpoint::Counted;
use crate::transport::tls::Admission;
use crate::transport::tls::handshake::Configured;
use crate::transport::tls::session::Session;

/// A hook of a phase.
#[derive(Clone, Copy)]
pub enum PhaseHook {
    /// Answers at once.
    Now(fn(&mut Request) -> Flow),
    /// May have to wait: for a look-up, a password, a name server.
    Later {
        /// Whether it has a response; if not, it has declined, and costs only a function call.
        claims: fn(&Request) -> bool,
        /// Answers.
        run: fn(&mut Request) -> Waiting<'_, Flow>,
    },
    /// Like `Later`, but what it asks beyond the request's head it records itself; what `Later` asks is always recorded.
    Recording {
        /// As in `Later`.
        claims: fn(&Request) -> bool,
        /// As in `Later`.
        run: fn(&mut Request) -> Waiting<'_, Flow>,
    },
}

/// A hook that changes the fields of a response. Its argument says whether the response is the server's own page for an
/// error or a redirect, or has no body except for its status.
#[derive(Clone, Copy)]
pub enum ResponseHook {
    /// Changes them at once.
    Now(fn(&mut Request, bool)),
    /// May have to wait: for a database with the data for them.
    Later {
        /// Whether it has anything to change; if not, it costs only a function call.
        claims: fn(&Request) -> bool,
        /// Changes them.
        run: fn(&mut Request, bool) -> Waiting<'_, ()>,
    },
}

/// A content handler. It checks `Request::handler_name` and declines all others.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers at once.
    Now(fn(&mut Request) -> HandlerResult),
    /// Waits for something: a script, a request body.
    Later {
        /// Whether it is responsible for the response.
        claims: fn(&Request) -> bool,
        /// The response, if it is known at once; `None`: it has to be made.
        check: fn(&mut Request) -> Option<HandlerResult>,
        /// Makes it.
        run: fn(&mut Request) -> Waiting<'_, HandlerResult>,
    },
}

/// Answers instead of the handlers, as a cache of responses does.
#[derive(Clone, Copy)]
pub struct QuickHandler {
    /// Whether the request concerns it at this moment; if not, it costs only a function call.
    pub claims: fn(&Request, Moment) -> bool,
    /// The response; [`HandlerResult::Declined`]: the request goes on.
    pub run: fn(&mut Request, Moment) -> Waiting<'_, HandlerResult>,
}

/// When a [`QuickHandler`] is asked. Redirects and subrequests are none of its business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A request was read, and has been through no other phase.
    BeforePhases,
    /// The request has been through all phases but the handler.
    BeforeHandler,
}

/// A cache's business with the response of one request.
pub trait Caching: Send + Sync {
    /// Takes the response on its way out, after the filters of its content and all changes of its fields, but before ranges
    /// are cut out of it; returns what goes out. `Err`: another response is wanted instead.
    fn save<'a>(self: Box<Self>, request: &'a mut Request, body: Body) -> Waiting<'a, Result<Body, HandlerResult>>;

    /// The response is a `304`, which no filter has seen yet. May put a stored response in its place, and itself back into the
    /// request. `Err`: another response is wanted instead.
    fn confirm<'a>(self: Box<Self>, request: &'a mut Request) -> Waiting<'a, Result<(), HandlerResult>>;

    /// The server's own page for this status is about to go out. Returns what goes out instead, if anything does.
    fn replace_page<'a>(self: Box<Self>, request: &'a mut Request, status: u16) -> Waiting<'a, Option<Body>>;
}

/// A filter's place in the chain: the response goes from lower ranks to higher ones (httpd's filter types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u8);

impl Rank {
    /// Makes or changes content.
    pub const RESOURCE: Rank = Rank(10);
    /// Works on the content as a whole, such as compression.
    pub const CONTENT_SET: Rank = Rank(20);
    /// Works between content and connection.
    pub const PROTOCOL: Rank = Rank(30);
    /// Works like a transfer coding.
    pub const TRANSCODE: Rank = Rank(40);
    /// Works on the connection.
    pub const CONNECTION: Rank = Rank(50);
    /// Works nearest to the network.
    pub const NETWORK: Rank = Rank(60);
}

/// A running filter. It may have to wait for the beginning of the body before it can decide about fields.
pub type Filtering<'a> = Pin<Box<dyn Future<Output = Body> + Send + 'a>>;

/// A filter with a name.
pub struct OutputFilter {
    /// The name, by custom in capitals; found regardless of case.
    pub name: &'static str,
    /// Its place in the chain.
    pub rank: Rank,
    /// Runs before the request's conditions are applied to the handler's response: the filter's effect on the response that
    /// does not depend on the body.
    pub prepare: Option<fn(&mut Request)>,
    /// Runs instead of `apply` if the client has the response already (304): what the filter would have changed of the fields.
    pub unmodified: Option<fn(&mut Request)>,
    /// Takes the body, may change the request's fields, and returns the new body.
    pub apply: fn(&mut Request, Body) -> Filtering<'_>,
}

/// One filter in the chain of a response.
pub type ResponseLink = Box<dyn for<'a> FnOnce(&'a mut Request, Body) -> Filtering<'a> + Send>;

/// The filters of one response, or of one request's body, in order of insertion.
pub struct FilterChain<L> {
    links: Vec<(Rank, L)>,
    /// The names of the filters that the configuration has named.
    named: Vec<String>,
}

/// The filters of one response.
pub type ResponseChain = FilterChain<ResponseLink>;

impl<L> Default for FilterChain<L> {
    fn default() -> FilterChain<L> {
        FilterChain { links: Vec::new(), named: Vec::new() }
    }
}

impl<L> FilterChain<L> {
    /// Adds a link after all those of the same rank.
    pub fn add(&mut self, rank: Rank, link: L) {
        self.links.push((rank, link));
    }

    /// Adds a filter that the configuration has named, after all those of the same rank.
    pub(crate) fn add_named(&mut self, name: &str, rank: Rank, link: L) {
        self.named.push(name.into());
        self.add(rank, link);
    }

    /// Whether the configuration names a filter, so that it need not be added.
    pub fn has(&self, name: &str) -> bool {
        self.named.iter().any(|one| one.eq_ignore_ascii_case(name))
    }

    /// Whether a body would pass unchanged.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

impl ResponseChain {
    /// Sends a handler's response through the chain.
    pub(crate) async fn run(self, request: &mut Request, mut body: Body) -> Body {
        let FilterChain { mut links, .. } = self;
        links.sort_by_key(|(rank, _)| *rank);
        for (_, link) in links {
            let is_unsent = body.is_unsent();
            body = link(request, body).await;
            if is_unsent && !body.is_unsent() {
                // How long it would be now, nobody knows: the filter has seen nothing of it.
                body = Body::Stream(Box::new(Unsent(None)));
            }
        }
        body
    }
}

/// The body of a request on its way to the handler.
pub type InputBody = Box<dyn BodyStream>;

/// A filter for request bodies.
pub struct InputFilter {
    /// The name, like that of an [`OutputFilter`]; both kinds may share a name.
    pub name: &'static str,
    /// Its place in the chain.
    pub rank: Rank,
    /// Takes the client's body, or the output of filters nearer to the client, and returns the handler's input. It must
    /// read nothing before it is asked for a piece: the handler may want none, and the client may wait for
    /// `100 Continue`.
    pub apply: fn(&mut Request, InputBody) -> InputBody,
}

/// One filter in the chain of a request's body.
pub type InputLink = Box<dyn FnOnce(&mut Request, InputBody) -> InputBody + Send>;

/// The filters of one request's body. The body goes from higher ranks to lower ones, and within a rank from the last to
/// the first: the first filter added is nearest to the handler, as in Apache.
pub type InputChain = FilterChain<InputLink>;

impl InputChain {
    /// Puts the filters in front of a body.
    pub(crate) fn run(self, request: &mut Request, mut stream: InputBody) -> InputBody {
        let FilterChain { mut links, .. } = self;
        links.sort_by_key(|(rank, _)| *rank);
        for (_, link) in links.into_iter().rev() {
            stream = link(request, stream);
        }
        stream
    }
}

/// Data that the client of a connection sends before its first request.
pub struct Preface {
    /// Whether it is expected of any client.
    pub is_used: fn(&Server) -> bool,
    /// Whether it is expected of the client with this address, at this local address.
    pub is_expected: fn(&Server, client: IpAddr, ours: SocketAddr) -> bool,
    /// Parses it from all received bytes. `None`: there is more to come.
    pub read: fn(&[u8]) -> Option<PrefaceOutcome>,
}

/// The content of a [`Preface`].
pub enum PrefaceOutcome {
    /// This, in so many bytes.
    Announced(Announced, usize),
    /// Missing or invalid, for this logged reason: the connection ends.
    Broken(Level, String),
}

/// Decides about connections by the addresses of their clients: at once, or if a proxy announces its client, after that.
pub struct Reception {
    /// Whether it has anything to decide.
    pub is_used: fn(&Server) -> bool,
    /// Decides about a connection of the client with this address. `None`: it is closed without a word.
    pub receive: fn(&Server, IpAddr, &'static Workers) -> Option<Counted>,
}

/// The encryption of connections.
pub struct Encryption {
    /// Whether any are encrypted.
    pub is_used: fn(&Server) -> bool,
    /// Whether connections to addresses of this virtual host are.
    pub is_expected: fn(&VirtualHost) -> bool,
    /// The configuration for a client that connected to this local address with this first message. `Err`: none, for
    /// this logged reason.
    pub configure: fn(&Server, SocketAddr, &ClientHello<'_>) -> Result<Configured, String>,
    /// Decides about a client whose handshake is complete, and may change what its session says about it. `None`: it is
    /// served.
    pub admit: fn(&Server, &mut Session) -> Option<Admission>,
}

/// Finds a filter defined in the configuration, by its name there.
pub type FindFilter = fn(&Request, &str) -> Option<(Rank, ResponseLink)>;

/// Finds a filter for request bodies that is defined in the configuration, by its name there.
pub type FindInputFilter = fn(&Request, &str) -> Option<(Rank, InputLink)>;

/// A hook, and the name of its module in log lines.
#[derive(Clone, Copy)]
pub(crate) struct ModuleHook<T> {
    pub(crate) module: &'static str,
    pub(crate) hook: T,
}

/// The starting point of a subrequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubrequestTarget {
    /// A URL path.
    Path,
    /// The name of a file.
    File,
}

/// Takes a subrequest through the phases.
pub(crate) type RunSubrequest = fn(&mut Request, SubrequestTarget) -> Waiting<'_, Result<(), Flow>>;

/// Finds a module's variable of a request, by its name.
pub type FindVariable = fn(&Request, &str) -> Option<String>;

/// Appends the value of a variable that each request has anew.
pub type WriteVariable = fn(&Request, &mut String);

/// The values of an extension of the client's certificate, by its OID or OpenSSL's name for that.
pub type FindExtension = fn(&Request, &str) -> Vec<String>;

/// Whether a server's configuration wants a hook.
pub type IsWanted = fn(&Server) -> bool;

/// A hook for the log of servers that want it.
pub(crate) type LogWhere = (IsWanted, fn(&mut Request));

/// The hooks of the loaded modules for requests, phase by phase, in the order in which they run.
pub struct Hooks {
    /// A pointer, because a condition (`<If "-U …">`) runs the phases from inside the phases.
    pub(crate) run_subrequest: RunSubrequest,
    /// By the number of the [`Phase`].
    pub(crate) phases: [Vec<ModuleHook<PhaseHook>>; Phase::COUNT],
    pub(crate) quick_handler: Vec<QuickHandler>,
    pub(crate) handler: Vec<ModuleHook<Handler>>,
    pub(crate) filter: Vec<fn(&mut Request, Body) -> Body>,
    pub(crate) named_filters: Vec<&'static OutputFilter>,
    pub(crate) find_filter: Vec<FindFilter>,
    pub(crate) insert_filters: Vec<fn(&mut Request, &mut ResponseChain)>,
    pub(crate) input_filters: Vec<&'static InputFilter>,
    pub(crate) find_input_filter: Vec<FindInputFilter>,
    pub(crate) insert_input_filters: Vec<fn(&mut Request, &mut InputChain)>,
    pub(crate) response_fields: Vec<ResponseHook>,
    pub(crate) log: Vec<fn(&mut Request)>,
    pub(crate) log_where: Vec<LogWhere>,
    pub(crate) note_auth_failure: Vec<fn(&mut Request, &str)>,
    pub(crate) log_id: Option<fn(&Request) -> String>,
    pub(crate) forward: Option<fn(&mut Request) -> Flow>,
    pub(crate) undecoded: Option<&'static MapUndecoded>,
    pub(crate) preface: Option<&'static Preface>,
    pub(crate) reception: Option<&'static Reception>,
    pub(crate) encryption: Option<&'static Encryption>,
    pub(crate) variables: Vec<FindVariable>,
    pub(crate) extensions: Option<FindExtension>,
    pub(crate) own_variables: Vec<(&'static str, WriteVariable)>,
    /// Every module with hooks for requests is [repeatable](crate::Hook::Repeatable).
    pub(crate) are_repeatable: bool,
}

/// Maps paths before they are decoded, with the settings of the `<Location>` sections for the path as it is then.
#[derive(Debug)]
pub struct MapUndecoded {
    /// Whether the configuration of the request's server asks for it.
    pub is_wanted: fn(&Request) -> bool,
    /// Maps the request: `Flow::Ok` leaves its path as it is now, and nobody else maps it.
    pub map: fn(&mut Request) -> Flow,
}

impl Hooks {
    /// The hooks of a phase, in the order in which they run.
    #[inline]
    pub(crate) fn of(&self, phase: Phase) -> &[ModuleHook<PhaseHook>] {
        &self.phases[phase as usize]
    }

    /// The filter of that name, ignoring case.
    pub fn named_filter(&self, name: &str) -> Option<&'static OutputFilter> {
        self.named_filters.iter().copied().find(|filter| filter.name.eq_ignore_ascii_case(name))
    }
}
