//! The resource of a request, and what the request says about it.

use conf::Level;
use runtime::{Load, offload};
use server::Request;
use server::core::CoreDir;

use crate::dav::failure::Failure;
use crate::dav::if_header::bare;
use crate::dav::target::Target;
use crate::dav::{tree, xml};

/// A resource, and its current state.
pub(super) struct Resource {
    pub(super) target: Target,
    pub(super) is_there: bool,
    pub(super) is_collection: bool,
}

/// The resource of a request's path.
pub(super) fn resource(request: &Request) -> Result<Resource, Failure> {
    if http::text::to_bytes(&request.data.unparsed_uri()).contains(&b'#') {
        return Err(Failure::message(400, "AH00622: buggy client used un-escaped hash in Request-URI"));
    }
    let mapped = &request.mapped;
    let meta = mapped.stat;
    if meta.is_some_and(|meta| !meta.is_dir()) && !mapped.path_info.is_empty() {
        let text = "The URL contains extraneous path components. The resource could not be identified.";
        return Err(Failure::new(400, text).within("Could not fetch resource information."));
    }
    let path = format!("{}{}", mapped.filename, mapped.path_info);
    // A subrequest with its asker's settings skips the access check.
    if tree::is_state_path(&path) {
        return Err(Failure::new(403, "Access to the state directory denied."));
    }
    let target = Target { uri: request.data.uri.clone(), path: bare(&path).to_string() };
    Ok(Resource { target, is_there: meta.is_some(), is_collection: meta.is_some_and(|meta| meta.is_dir()) })
}

/// The resource of a request that needs one. `Err`: there is none.
pub(super) fn existing(request: &Request) -> Result<Resource, Failure> {
    resource(request).and_then(|resource| if resource.is_there { Ok(resource) } else { Err(Failure::status(404)) })
}

/// Runs a job that works with files.
pub(super) async fn on_disk<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    offload(Load::Wait, job).await
}

/// How far below a collection a request reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
}

/// The `Depth` field; without it, infinity.
pub(super) fn depth(request: &Request) -> Result<Depth, Failure> {
    match request.header("Depth").as_deref() {
        None => Ok(Depth::Infinity),
        Some("0") => Ok(Depth::Zero),
        Some("1") => Ok(Depth::One),
        Some(text) if text.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
        Some(_) => Err(Failure::message(400, "AH00580: An invalid Depth header was specified.")),
    }
}

/// The XML document in the body of a request; `None`: there is no body.
pub(super) async fn document(request: &Request) -> Result<Option<xml::Element>, Failure> {
    if request.body.is_none() {
        return Ok(None);
    }
    let limit = request.dir::<CoreDir>().limit_xml_request_body.value_or(XML_BODY);
    let most = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
    let mut bytes = Vec::new();
    while let Some(piece) = request.body.read().await.map_err(|error| Failure::status(error.status()))? {
        if piece.len() > most - bytes.len() {
            let text = format!("AH00539: XML request body is larger than the configured limit of {limit}");
            request.log("core", Level::Error, text);
            return Err(Failure::status(413));
        }
        bytes.extend_from_slice(&piece);
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    // This computes for a while, with a body of a megabyte.
    let parsed = offload(Load::Compute, move || xml::parse(&bytes)).await;
    parsed.map(Some).map_err(|why| {
        request.log("core", Level::Error, format!("AH00541: XML Parser Error: {why}"));
        Failure::status(400)
    })
}

/// The default of `LimitXMLRequestBody`.
const XML_BODY: u64 = 1_000_000;
