//! `max` and `acquire`: how many connections to a backend a child uses at a time, and how long a request waits for one.
//!
//! Apache manual: mod_proxy. Status and message were measured on 2.4.71.

use std::sync::Arc;

use conf::{Context, Level};
use server::Request;
use sys::time::Instant;
use upstream::{Limit, Permit};

use super::scheme::{Destination, Scheme};
use super::target::Target;
use super::worker::Parameters;

/// The limit of a backend with these settings. A child of prefork has one request at a time, and HTTP/2 many over one connection.
pub(super) fn limit_of(target: &Target, parameters: &Parameters, context: &Context) -> Option<Arc<Limit>> {
    let has_none = ["h2", "h2c"].contains(&&*target.scheme) || context.language.has_module("mpm_prefork_module");
    parameters.max.filter(|_| !has_none).map(Limit::new)
}

/// The backend has as many connections as it may have, and none has become free in time. This is logged.
pub(super) struct Busy;

/// Waits until the request may use a connection, if the backend has a limit: as long as `acquire` says, or as long as the backend may be
/// silent.
pub(super) async fn permit(
    request: &Request,
    scheme: &Scheme,
    destination: &Destination,
) -> Result<Option<Permit>, Busy> {
    let Some(limit) = &destination.limit else { return Ok(None) };
    let deadline = Instant::now() + destination.acquire.unwrap_or(destination.timeout);
    let permit = limit.permit(deadline).await;
    if permit.is_none() {
        let text = format!(
            "(70007)The timeout specified has expired: AH00941: {}: failed to acquire connection for ({})",
            scheme.name, destination.server.name
        );
        request.log("proxy", Level::Error, text);
    }
    permit.map(Some).ok_or(Busy)
}
