//! Output filters that configuration names, between a handler's answer and what every answer goes through.
//!
//! A module lists a filter ([`Hook::NamedFilter`](crate::Hook)); `SetOutputFilter`, `AddOutputFilter` and modules such as
//! mod_filter put it into the chain of a request. Answers that the server makes itself (errors) pass through none.

use std::future::Future;
use std::pin::Pin;

use conf::Level;

use crate::config::core::CoreDir;
use crate::request::Request;
use crate::request::response::Body;

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
    /// Takes the body, may change the request's fields, gives the body on.
    pub apply: fn(&mut Request, Body) -> Filtering<'_>,
}

/// What a link of a chain does.
pub type Link = Box<dyn for<'a> FnOnce(&'a mut Request, Body) -> Filtering<'a> + Send>;

/// The filters of one answer.
#[derive(Default)]
pub struct Chain(Vec<(Rank, Link)>);

impl Chain {
    /// Puts a link behind all those of the same rank.
    pub fn add(&mut self, rank: Rank, link: Link) {
        self.0.push((rank, link));
    }

    /// Whether an answer would go through unchanged.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The filters of a request's answer.
    pub(crate) fn of(request: &mut Request) -> Chain {
        let hooks = &request.server.hooks;
        let dir = request.dir::<CoreDir>();
        let configured = dir.output_filters.is_set() || dir.input_filters.is_set();
        if request.output_filters.is_empty() && !configured && hooks.insert_filters.is_empty() {
            return Chain::default();
        }
        chain(request)
    }

    /// Sends a handler's answer through.
    pub(crate) async fn run(self, request: &mut Request, mut body: Body) -> Body {
        let Chain(mut links) = self;
        links.sort_by_key(|(rank, _)| *rank);
        for (_, link) in links {
            body = link(request, body).await;
        }
        body
    }
}

fn chain(request: &mut Request) -> Chain {
    let server = request.server;
    let mut chain = Chain::default();
    let by_extension = std::mem::take(&mut request.output_filters);
    let dir = request.dir.slots.clone();
    let configured = dir.get::<CoreDir>().output_filters.get();
    for name in by_extension.iter().chain(configured.into_iter().flatten()) {
        match server.hooks.named_filter(name) {
            Some(filter) => {
                request.note_step("core", None, |_| format!("output filter {}", filter.name));
                chain.add(filter.rank, Box::new(filter.apply));
            }
            None => {
                request.log("core", Level::Error, format!("AH00082: an unknown filter was not added: {name}"));
            }
        }
    }
    // No module filters the bodies of requests: to say nothing would look as if one did.
    let on_input = dir.get::<CoreDir>().input_filters.get().filter(|_| !request.body.is_none());
    for name in on_input.into_iter().flatten() {
        request.log("core", Level::Error, format!("AH00082: an unknown filter was not added: {name}"));
    }
    for insert in &server.hooks.insert_filters {
        insert(request, &mut chain);
    }
    chain
}
