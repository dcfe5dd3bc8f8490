//! The methods that are answered here, and those that a resource supports.

use server::Request;

use super::resource::{Resource, on_disk, resource};
use crate::dav::claim::Claim;
use crate::dav::failure::Failure;
use crate::dav::locks;

/// The name of the handler.
pub(super) const HANDLER: &str = "dav-handler";
/// The methods answered here; the others are left to the default handler.
pub(super) const METHODS: [&str; 11] =
    ["OPTIONS", "PUT", "DELETE", "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT"];
/// Methods known if WebDAV is enabled (RFC 5842, RFC 5323). Files support neither.
pub(super) const KNOWN: [&str; 2] = ["BIND", "SEARCH"];

pub(super) fn is_ours(request: &Request) -> bool {
    request.mapped.handler.as_deref() == Some(HANDLER) && METHODS.contains(&&*request.data.method)
}

/// The methods that a resource supports, in Apache's order.
pub(super) async fn allowed(request: &Request, resource: &Resource) -> Result<String, Failure> {
    let claim = Claim::of(request)?;
    let path = resource.target.path.clone();
    let has_locks = claim.locks.is_some();
    let is_locked = match resource.is_there {
        true => false,
        false => on_disk(move || Ok(!locks::of(&claim.read_locks()?, &path, false).is_empty())).await?,
    };
    let mut methods = match (resource.is_there, is_locked) {
        (true, _) => vec!["OPTIONS", "GET", "HEAD", "POST", "DELETE", "TRACE", "PROPFIND", "PROPPATCH", "COPY", "MOVE"],
        (false, true) => vec!["OPTIONS", "MKCOL", "PROPFIND", "PUT"],
        (false, false) => vec!["OPTIONS", "MKCOL", "PUT"],
    };
    if resource.is_there && !resource.is_collection {
        methods.push("PUT");
    }
    if has_locks {
        methods.push("LOCK");
        methods.extend((resource.is_there || is_locked).then_some("UNLOCK"));
    }
    Ok(methods.join(","))
}

/// The method does not suit the existing resource.
pub(super) async fn not_allowed(request: &mut Request) -> Failure {
    let allow = async { allowed(request, &resource(request)?).await };
    match allow.await {
        Ok(allow) => {
            request.response.allowed = Some(allow.split(',').map(str::to_string).collect());
            Failure::status(405)
        }
        Err(failure) => failure,
    }
}
