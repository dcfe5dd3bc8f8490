//! Continues with another path of this server.

use std::sync::Arc;

use conf::Level;

use crate::message::response::{Body, Keep};
use crate::phases::error_document;
use crate::phases::subrequest::beyond;
use crate::request::{Previous, Request, RequestKind};
use crate::trace::ERROR_DOCUMENT;

/// Turns the request into one for another path of this server, which is not decoded yet.
pub(super) fn redirect(request: &mut Request, uri: &str, status: u16, keep: Keep) {
    let before = request.previous().cloned();
    // A redirect from an error document is still the response to the error.
    let reached = if status == 200 { request.response.status() } else { status };
    let previous = Previous {
        status: reached,
        handler: request.mapped.handler.clone(),
        uri: request.data.uri.clone(),
        filename: std::mem::take(&mut request.mapped.filename),
        args: request.data.args.clone(),
        env: std::mem::take(&mut request.env),
        user: request.login.user.take(),
        notes: std::mem::take(&mut request.notes),
        dir: request.dir.clone(),
        method: request.data.method.to_string(),
        before,
    };
    let mut env = previous.env.prefixed("REDIRECT_");
    env.set("REDIRECT_STATUS", previous.status.to_string());
    if status != 200 {
        env.set("REDIRECT_REQUEST_METHOD", &*previous.method);
        if let Some(notes) = previous.notes.get("error-notes") {
            env.set("REDIRECT_ERROR_NOTES", notes);
        }
    }
    request.env = env;
    // The user is authenticated again.
    request.login.auth_type = None;
    request.login.known = None;
    request.kind = RequestKind::Redirected(Arc::new(previous));
    request.data.forward = false;
    if !keep.method {
        request.data.method = "GET".into();
    }
    if !keep.media_type {
        request.response.clear_content_type();
    }
    let uri = uri.split_once('#').map_or(uri, |(uri, _)| uri);
    let (path, args) = match uri.split_once('?') {
        Some((path, args)) => (path, Some(args.to_string())),
        None => (uri, None),
    };
    request.data.uri = path.to_string();
    request.data.args = args;
    request.response.no_local_copy |= status >= 400;
    if let (Some(mut trace), RequestKind::Redirected(previous)) = (request.trace.take(), &request.kind) {
        let why = if status >= 400 { ERROR_DOCUMENT } else { "an internal redirect" };
        trace.redirected(previous.uri.clone(), previous.dir.clone(), request.data.uri.clone(), why);
        request.trace = Some(trace);
    }
    // A redirect with a page of its own still leads somewhere.
    let location =
        request.response.headers_out.get("Location").filter(|_| (300..400).contains(&status)).map(str::to_string);
    let vary = request.response.headers_out.get("Vary").map(str::to_string);
    request.reset_mapping(reached);
    // Code that has chosen the new path by fields of the request records that in its notes: the response depends on them.
    if let (RequestKind::Redirected(previous), Some(vary)) = (&request.kind, vary)
        && previous.notes.contains("redirect-keeps-vary")
    {
        request.response.headers_out.set("Vary", vary);
    }
    if let Some(location) = location {
        request.response.headers_out.set("Location", location);
    }
}

/// The response after too many redirects.
pub(super) fn too_many(request: &mut Request) -> Body {
    let limit = format!("{} internal redirects", request.vhost.plan.redirects_max);
    request.log("core", Level::Error, beyond("AH00124", &limit));
    request.note_reason(500, "core", None, |_| {
        (format!("more than {limit}"), "were needed (LimitInternalRecursion)".into())
    });
    // The client learns of the first error.
    let mut first = None;
    let mut previous = request.previous();
    while let Some(one) = previous {
        first = Some(one.status).filter(|status| *status >= 300).or(first);
        previous = one.before.as_ref();
    }
    match first {
        Some(status) => error_document::failed(request, status),
        None => error_document::canned(request, 500),
    }
}
