//! The responses that several methods give.

use server::{Body, HandlerResult, Request};

use crate::dav::{failure, multistatus};

/// The response to a request that has created or replaced something.
pub(super) fn created(request: &mut Request, what: &str, uri: &str, replaced: bool) -> HandlerResult {
    if replaced {
        request.response.set_status(204);
        request.response.clear_content_type();
        return HandlerResult::Body(Body::Empty);
    }
    let path = http::uri::escape_path(uri).into_owned();
    let location = request.url(&path);
    request.response.headers_out.set("Location", location);
    failure::page(request, 201, &format!("{what} {path} has been created."))
}

/// A response without a body, to a request that has changed something.
pub(super) fn nothing(request: &mut Request) -> HandlerResult {
    request.response.set_status(204);
    request.response.clear_content_type();
    HandlerResult::Body(Body::Empty)
}

/// A response in XML.
pub(super) fn document_response(request: &mut Request, status: u16, body: Body) -> HandlerResult {
    request.response.set_status(status);
    request.response.set_content_type(multistatus::TYPE);
    HandlerResult::Body(body)
}
