//! The answers that several methods give.

use server::{Body, HandlerResult, Request};

use crate::dav::{failure, multistatus};

/// The answer to a request that has created or replaced something.
pub(super) fn created(request: &mut Request, what: &str, uri: &str, replaced: bool) -> HandlerResult {
    if replaced {
        request.answer.set_status(204);
        request.answer.clear_content_type();
        return HandlerResult::Body(Body::Empty);
    }
    let path = http::uri::escape_path(uri).into_owned();
    let location = request.url(&path);
    request.answer.headers_out.set("Location", location);
    failure::page(request, 201, &format!("{what} {path} has been created."))
}

/// An answer without a body, to a request that has changed something.
pub(super) fn nothing(request: &mut Request) -> HandlerResult {
    request.answer.set_status(204);
    request.answer.clear_content_type();
    HandlerResult::Body(Body::Empty)
}

/// An answer in XML.
pub(super) fn document_answer(request: &mut Request, status: u16, body: Body) -> HandlerResult {
    request.answer.set_status(status);
    request.answer.set_content_type(multistatus::TYPE);
    HandlerResult::Body(body)
}
