//! Requests that the server makes itself, on errands: nobody gets their responses.

use std::future::Future;
use std::sync::Arc;

use runtime::{CoopBudget, tick};

use super::begin::{Received, Running, request};
use crate::message::response::Body;
use crate::phases;
use crate::request::Request;

/// Runs an errand, as [`runtime::executor::begin_errand`] does.
pub fn begin_errand(errand: impl Future<Output = ()> + Send + 'static) -> bool {
    runtime::executor::begin_errand(errand, before_wait)
}

/// What a thread does before it waits.
pub(crate) fn before_wait() {
    crate::log::flush_all();
    tick::next();
}

impl Request {
    /// A `GET` for the same target with the same fields as this request's, before all phases. It gets no line in the access log.
    pub fn unattended(&self) -> Box<Request> {
        let running = Running { server: self.server, hooks: self.hooks };
        // This request's own head was good.
        let (mut request, _) =
            request(running, &Arc::new(self.client.absent()), Received::whole(self.data.head.clone()));
        request.data.method = "GET".into();
        request.data.header_only = false;
        request
    }

    /// Whether nobody gets the response.
    pub fn is_unattended(&self) -> bool {
        self.client.is_absent()
    }

    /// Takes it to its response, and that to its end.
    pub async fn answer_nobody(mut self: Box<Self>) {
        let response = Box::pin(phases::process(&mut self)).await;
        let Body::Stream(mut body) = response.body else { return };
        let mut budget = CoopBudget::new();
        while let Some(Ok(_)) = body.next().await {
            budget.step().await;
        }
    }
}
