//! The filter `CACHE`: the place among the filters where responses are stored, and come back.

use conf::Level;
use server::core::CoreDir;
use server::{Body, Caching, Fields, HandlerResult, OutputFilter, Rank, Request, Waiting};

use super::fields::restore_content;
use super::settings::CacheServer;
use crate::cache::entry::Entry;
use crate::cache::storage::Content;
use crate::filters::mod_filter;

/// The filter.
pub(super) static CACHE: OutputFilter = OutputFilter {
    name: "CACHE",
    rank: Rank::RESOURCE,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(apply(request, body)),
};

/// Whether a request's response may come by the filter.
pub(super) fn is_set(request: &Request) -> bool {
    let configured = request.dir::<CoreDir>().output_filters.get().into_iter().flatten();
    let mut named = request.response.output_filters.iter().chain(configured);
    named.any(|name| name.eq_ignore_ascii_case(CACHE.name)) || mod_filter::may_run(request, CACHE.name)
}

/// Stores the response here, or puts a stored one into the chain.
async fn apply(request: &mut Request, body: Body) -> Body {
    if request.host::<CacheServer>().quick() {
        let text = "AH00776: cache: CACHE filter was added in quick handler mode and will be ignored";
        request.log("cache", Level::Warn, format!("{text}: {}", request.data.unparsed_uri()));
        return body;
    }
    let Some(caching) = request.caching.take() else { return body };
    // What the origin has confirmed never gets here, so that there is always a body.
    caching.save(request, body).await.unwrap_or_default()
}

/// A stored response on which filters work: it takes the place of an empty one behind those that it has been through already.
pub(super) struct Recalled {
    entry: Entry,
    /// The fields of the response, before filters have changed them.
    head: (Fields, Fields),
    content: Content,
}

impl Recalled {
    /// The response of a request that was restored.
    pub(super) fn new(request: &Request, entry: Entry, content: Content) -> Recalled {
        let head = (request.response.headers_out.clone(), request.response.err_headers_out.clone());
        Recalled { entry, head, content }
    }
}

impl Caching for Recalled {
    fn save<'a>(self: Box<Self>, request: &'a mut Request, _: Body) -> Waiting<'a, Result<Body, HandlerResult>> {
        let Recalled { entry, head, content } = *self;
        (request.response.headers_out, request.response.err_headers_out) = head;
        // The client may have it already.
        let is_wanted = request.response.status() == entry.status;
        if is_wanted {
            restore_content(&mut request.response, &entry);
        }
        Box::pin(std::future::ready(Ok(if is_wanted { content.into() } else { Body::Empty })))
    }

    fn confirm<'a>(self: Box<Self>, request: &'a mut Request) -> Waiting<'a, Result<(), HandlerResult>> {
        request.caching = Some(self);
        Box::pin(std::future::ready(Ok(())))
    }

    fn replace_page<'a>(self: Box<Self>, _: &'a mut Request, _: u16) -> Waiting<'a, Option<Body>> {
        Box::pin(std::future::ready(None))
    }
}
