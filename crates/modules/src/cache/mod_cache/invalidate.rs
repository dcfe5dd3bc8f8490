//! Requests that change what is stored (RFC 9111 section 4.4).

use std::io;

use server::{Body, Caching, HandlerResult, Request, Waiting};

use super::report::{Forward, Outcome, Why, report, tell};
use crate::cache::complaint::complain;
use crate::cache::storage::{Job, Storage};

/// Does work on a storage; a problem is logged.
pub(super) async fn work(request: &Request, job: Job) -> io::Result<()> {
    let result = job.await;
    if let Err(error) = &result {
        complain(request.vhost, "cache", Some(error), "a stored response cannot be replaced or removed");
    }
    result
}

/// A request that makes what is stored under its key invalid, if it succeeds.
pub(super) struct Invalidation {
    pub(super) key: String,
    pub(super) storages: Vec<&'static Storage>,
}

impl Invalidation {
    async fn happen(&self, request: &mut Request, status: u16, of_error: bool) {
        tell(request, of_error, || Forward { why: Why::Method, collapsed: None }.parameters(None, false));
        if !(200..400).contains(&status) {
            return;
        }
        for storage in &self.storages {
            // What could not be removed was logged.
            let _ = work(request, (storage.remove)(request, &self.key)).await;
        }
        let reason = format!("cache invalidated by {}", request.data.method);
        report(request, Outcome::Invalidate, reason);
    }
}

impl Caching for Invalidation {
    fn save<'a>(self: Box<Self>, request: &'a mut Request, body: Body) -> Waiting<'a, Result<Body, HandlerResult>> {
        Box::pin(async move {
            let status = request.response.status();
            self.happen(request, status, false).await;
            Ok(body)
        })
    }

    fn confirm<'a>(self: Box<Self>, request: &'a mut Request) -> Waiting<'a, Result<(), HandlerResult>> {
        request.caching = Some(self);
        Box::pin(std::future::ready(Ok(())))
    }

    fn replace_page<'a>(self: Box<Self>, request: &'a mut Request, status: u16) -> Waiting<'a, Option<Body>> {
        Box::pin(async move {
            self.happen(request, status, true).await;
            None
        })
    }
}
