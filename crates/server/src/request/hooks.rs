//! What modules may do with a request, and when: the functions that [`Hook`](crate::Hook) lists name, sorted by phase.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use conf::Level;
use rustls::server::ClientHello;

use crate::config::{Server, VirtualHost};
use crate::request::Request;
use crate::request::client::Announced;
use crate::request::flow::{Flow, Waiting};
use crate::request::response::{Answer, Body, BodyStream};
use crate::transport::tls::Configured;

/// A hook of a phase.
#[derive(Clone, Copy)]
pub enum PhaseHook {
    /// Says it at once.
    Now(fn(&mut Request) -> Flow),
    /// May have to wait: for a look-up, a password, a name server.
    Later {
        /// Whether it has anything to say; where not, it has declined, and costs no more than a function call.
        claims: fn(&Request) -> bool,
        /// Says it.
        run: fn(&mut Request) -> Waiting<'_, Flow>,
    },
}

/// A hook that changes the fields of an answer. It is told whether the answer is the server's own page of an error or a redirect,
/// or has no body but for its status.
#[derive(Clone, Copy)]
pub enum AnswerHook {
    /// Changes them at once.
    Now(fn(&mut Request, bool)),
    /// May have to wait: for a database that keeps what belongs to them.
    Later {
        /// Whether it has anything to change; where not, it costs no more than a function call.
        claims: fn(&Request) -> bool,
        /// Changes them.
        run: fn(&mut Request, bool) -> Waiting<'_, ()>,
    },
}

/// A content handler. It looks at `Request::handler_name` and leaves alone what is not its own.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers at once.
    Now(fn(&mut Request) -> Answer),
    /// Waits for something: a script, a request body.
    Later {
        /// Whether the answer is its to make.
        claims: fn(&Request) -> bool,
        /// What the answer is where it is known at once; `None`: it has to be made.
        check: fn(&mut Request) -> Option<Answer>,
        /// Makes it.
        answer: fn(&mut Request) -> Waiting<'_, Answer>,
    },
}

/// Where a filter stands in the chain: the answer goes from lower ranks to higher ones (httpd's filter types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u8);

impl Rank {
    /// Makes or changes content.
    pub const RESOURCE: Rank = Rank(10);
    /// Works on the content as a whole, such as compression.
    pub const CONTENT_SET: Rank = Rank(20);
    /// Between content and connection.
    pub const PROTOCOL: Rank = Rank(30);
    /// As a transfer coding would.
    pub const TRANSCODE: Rank = Rank(40);
    /// Of the connection.
    pub const CONNECTION: Rank = Rank(50);
    /// Nearest to the network.
    pub const NETWORK: Rank = Rank(60);
}

/// A filter at work. It may have to wait for the beginning of the body before it can decide about fields.
pub type Filtering<'a> = Pin<Box<dyn Future<Output = Body> + Send + 'a>>;

/// A filter with a name.
pub struct OutputFilter {
    /// The name, in capitals as is the custom; found without difference of case.
    pub name: &'static str,
    /// Where it stands.
    pub rank: Rank,
    /// Before the handler's answer is judged by the conditions of the request: what the filter says of the answer whatever
    /// its body is.
    pub prepare: Option<fn(&mut Request)>,
    /// Takes the body, may change the request's fields, gives the body on.
    pub apply: fn(&mut Request, Body) -> Filtering<'_>,
}

/// What a link of a chain does.
pub type Link = Box<dyn for<'a> FnOnce(&'a mut Request, Body) -> Filtering<'a> + Send>;

/// The filters of one answer, or of one request's body, as they were put in.
pub struct Links<L> {
    links: Vec<(Rank, L)>,
    /// Those that configuration names.
    named: Vec<String>,
}

/// The filters of one answer.
pub type Chain = Links<Link>;

impl<L> Default for Links<L> {
    fn default() -> Links<L> {
        Links { links: Vec::new(), named: Vec::new() }
    }
}

impl<L> Links<L> {
    /// Puts a link behind all those of the same rank.
    pub fn add(&mut self, rank: Rank, link: L) {
        self.links.push((rank, link));
    }

    /// The same for a filter that configuration names.
    pub(crate) fn add_named(&mut self, name: &str, rank: Rank, link: L) {
        self.named.push(name.into());
        self.add(rank, link);
    }

    /// Whether configuration names a filter, so that it need not be put in.
    pub fn has(&self, name: &str) -> bool {
        self.named.iter().any(|one| one.eq_ignore_ascii_case(name))
    }

    /// Whether a body would go through unchanged.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

impl Chain {
    /// Sends a handler's answer through.
    pub(crate) async fn run(self, request: &mut Request, mut body: Body) -> Body {
        let Links { mut links, .. } = self;
        links.sort_by_key(|(rank, _)| *rank);
        for (_, link) in links {
            body = link(request, body).await;
        }
        body
    }
}

/// The body of a request on its way to the handler.
pub type Stream = Box<dyn BodyStream>;

/// A filter of the bodies of requests.
pub struct InputFilter {
    /// The name, as that of an [`OutputFilter`]; there may be one with the same name.
    pub name: &'static str,
    /// Where it stands.
    pub rank: Rank,
    /// Takes what the client sends, or what filters nearer to the client make of it, and gives what the handler reads. It
    /// reads nothing before it is asked for a piece: the handler may want none, and the client may wait for `100 Continue`.
    pub apply: fn(&mut Request, Stream) -> Stream,
}

/// What a link of the chain of a request's body does.
pub type InputLink = Box<dyn FnOnce(&mut Request, Stream) -> Stream + Send>;

/// The filters of one request's body. It goes from higher ranks to lower ones, and among those of one rank from the last to the
/// first: what was put in first is nearest to the handler, as in Apache.
pub type InputChain = Links<InputLink>;

impl InputChain {
    /// Puts the filters in front of a body.
    pub(crate) fn run(self, request: &mut Request, mut stream: Stream) -> Stream {
        let Links { mut links, .. } = self;
        links.sort_by_key(|(rank, _)| *rank);
        for (_, link) in links.into_iter().rev() {
            stream = link(request, stream);
        }
        stream
    }
}

/// What the client of a connection says before its first request.
pub struct Preface {
    /// Whether this is expected of anybody.
    pub is_used: fn(&Server) -> bool,
    /// Whether it is expected of the client with this address, at this address of ours.
    pub is_expected: fn(&Server, client: IpAddr, ours: SocketAddr) -> bool,
    /// Reads it, from everything that was received. `None`: there is more to come.
    pub read: fn(&[u8]) -> Option<Said>,
}

/// What was said in a [`Preface`].
pub enum Said {
    /// This, in so many bytes.
    Announced(Announced, usize),
    /// It is not there, or cannot be read, for this reason, which the log gets: the connection ends.
    Broken(Level, String),
}

/// What encrypts connections.
pub struct Encryption {
    /// Whether any are encrypted.
    pub is_used: fn(&Server) -> bool,
    /// Whether those are whose address leads to this virtual host.
    pub is_expected: fn(&VirtualHost) -> bool,
    /// What a client gets that has connected to this address of ours and said this first. `Err`: nothing, for this reason, which
    /// the log gets.
    pub configure: fn(&Server, SocketAddr, &ClientHello<'_>) -> Result<Configured, String>,
}

/// Finds a filter that the configuration has defined, by the name that it has there.
pub type FindFilter = fn(&Request, &str) -> Option<(Rank, Link)>;

/// The same for bodies of requests.
pub type FindInputFilter = fn(&Request, &str) -> Option<(Rank, InputLink)>;

/// A hook, and the name of its module in log lines.
#[derive(Clone, Copy)]
pub(crate) struct Of<T> {
    pub(crate) module: &'static str,
    pub(crate) hook: T,
}

/// Where a look-up begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// With a URL path.
    Path,
    /// With the name of a file.
    File,
}

/// Finds a variable that a module knows of a request, by its name.
pub type FindVariable = fn(&Request, &str) -> Option<String>;

/// The values of an extension of the client's certificate, by its OID or OpenSSL's name of that.
pub type FindExtension = fn(&Request, &str) -> Vec<String>;

/// The hooks of the loaded modules for requests, phase by phase, in the order in which they run.
pub struct Hooks {
    /// Takes a look-up through the phases; they are above what looks up.
    pub(crate) look_up: fn(&mut Request, From) -> Waiting<'_, Result<(), Flow>>,
    pub(crate) post_read: Vec<Of<PhaseHook>>,
    pub(crate) translate: Vec<Of<PhaseHook>>,
    pub(crate) map_to_storage: Vec<Of<PhaseHook>>,
    pub(crate) header_parser: Vec<Of<PhaseHook>>,
    pub(crate) access_checker: Vec<Of<PhaseHook>>,
    pub(crate) access_checker_ex: Vec<Of<PhaseHook>>,
    pub(crate) check_user: Vec<Of<PhaseHook>>,
    pub(crate) auth_checker: Vec<Of<PhaseHook>>,
    pub(crate) type_checker: Vec<Of<PhaseHook>>,
    pub(crate) fixups: Vec<Of<PhaseHook>>,
    pub(crate) handler: Vec<Of<Handler>>,
    pub(crate) filter: Vec<fn(&mut Request, Body) -> Body>,
    pub(crate) named_filters: Vec<&'static OutputFilter>,
    pub(crate) find_filter: Vec<FindFilter>,
    pub(crate) insert_filters: Vec<fn(&mut Request, &mut Chain)>,
    pub(crate) input_filters: Vec<&'static InputFilter>,
    pub(crate) find_input_filter: Vec<FindInputFilter>,
    pub(crate) insert_input_filters: Vec<fn(&mut Request, &mut InputChain)>,
    pub(crate) answer_fields: Vec<AnswerHook>,
    pub(crate) log: Vec<fn(&mut Request)>,
    pub(crate) note_auth_failure: Vec<fn(&mut Request, &str)>,
    pub(crate) log_id: Option<fn(&Request) -> String>,
    pub(crate) preface: Option<&'static Preface>,
    pub(crate) encryption: Option<&'static Encryption>,
    pub(crate) variables: Vec<FindVariable>,
    pub(crate) extensions: Option<FindExtension>,
}

impl Hooks {
    /// The filter of that name, without difference of case.
    pub fn named_filter(&self, name: &str) -> Option<&'static OutputFilter> {
        self.named_filters.iter().copied().find(|filter| filter.name.eq_ignore_ascii_case(name))
    }
}
