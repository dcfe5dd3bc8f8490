//! A request that is none of the cache's business: its response only says so (`CacheStatusHeader`).

use server::{Body, Caching, HandlerResult, Request, Waiting};

use super::report::{Forward, Why, tell};
use super::settings::CacheServer;

struct Passed(Why);

/// Has the response say why the request was passed on, if that is configured.
pub(super) fn pass(request: &mut Request, why: Why) -> HandlerResult {
    if request.host::<CacheServer>().status_header() {
        request.caching = Some(Box::new(Passed(why)));
    }
    HandlerResult::Declined
}

impl Passed {
    fn tell(&self, request: &mut Request, of_error: bool) {
        tell(request, of_error, || Forward { why: self.0, collapsed: None }.parameters(None, false));
    }
}

impl Caching for Passed {
    fn save<'a>(self: Box<Self>, request: &'a mut Request, body: Body) -> Waiting<'a, Result<Body, HandlerResult>> {
        self.tell(request, false);
        Box::pin(std::future::ready(Ok(body)))
    }

    fn confirm<'a>(self: Box<Self>, request: &'a mut Request) -> Waiting<'a, Result<(), HandlerResult>> {
        request.caching = Some(self);
        Box::pin(std::future::ready(Ok(())))
    }

    fn replace_page<'a>(self: Box<Self>, request: &'a mut Request, _: u16) -> Waiting<'a, Option<Body>> {
        self.tell(request, true);
        Box::pin(std::future::ready(None))
    }
}
