//! From the response of a backend to that of this server, whatever the protocol.

use std::borrow::Cow;

use http::KnownField;
use server::{Request, Value};

use super::forwarded::via;
use super::reverse::reversed;
use super::scheme::Destination;

/// Adds a field of a backend's response, in the words of this server. `known`: which known name it has, if any.
pub(crate) fn take_field(request: &mut Request, known: Option<KnownField>, name: Cow<'static, str>, value: Value) {
    let value = reversed(request, &name, &value).map_or(value, Value::from);
    let response = &mut request.response;
    match known {
        Some(KnownField::ContentType) => response.set_script_type(value.to_string()),
        Some(KnownField::ContentEncoding) => match &mut response.content_encoding {
            Some(encodings) => encodings.extend([", ", &value]),
            none => *none = Some(value.to_string()),
        },
        _ => response.headers_out.add(name, value),
    }
}

/// Completes a response whose fields are those of a backend.
pub(crate) fn pass_on(request: &mut Request, destination: &Destination) {
    if let Some(via) = via(request) {
        request.response.headers_out.merge("Via", &via);
    }
    // The backend has applied the request's conditions.
    request.response.no_local_copy = true;
    request.response.is_passed_on = true;
    request.response.flush = destination.flush;
}
