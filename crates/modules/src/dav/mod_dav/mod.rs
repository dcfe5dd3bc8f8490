//! WebDAV's methods: `Dav On` lets clients write files.
//!
//! Apache manual: mod_dav. Statuses and fields were measured on 2.4.71, and RFC 4918 is followed where Apache does not.
//! All disk access happens beside the event loop.

mod copy_move;
mod guard;
mod lock;
mod propfind;
mod proppatch;
mod put;

use std::borrow::Cow;

use conf::directive::Args::{Flag, Take1};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use runtime::{Load, offload};
use server::PhaseHook::Now;
use server::core::{CoreDir, Methods};
use server::{Body, Flow, Handler, HandlerResult, Hook, Module, Order, Phase, Request};

use super::claim::{Ask, Claim, Deed, Target};
use super::failure::{self, Failure};
use super::if_header::bare;
use super::locks::{self, Database};
use super::mod_dav_fs::{self, FsServer};
use super::{multistatus, tree, xml};

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "dav_module", source: "mod_dav.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Phase(Phase::Fixups, Order::Middle, Now(take)),
        Hook::Handler(
            Order::Middle,
            Handler::Later { claims: is_ours, check: |_| None, answer: |request| Box::pin(answer(request)) },
        ),
    ],
};

const DEPTH_INFINITY: bool = false;
const LOCK_DISCOVERY: bool = true;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DAV", Allowed::SECTION, Take1(set_provider), "Off", "specify the DAV provider for a directory or location").differs("Off turns it off below a directory that has it, too; Apache leaves it on there."),
    row("DAVBasePath", Allowed::SECTION, Take1(|_, _| Ok(())), "", "specify the DAV repository base URL").without_effect("Files need none; it is for the repositories of other modules."),
    row("DAVMinTimeout", Allowed::CONF, Take1(set_min_timeout), "0", "specify minimum allowed timeout"),
    row("DAVDepthInfinity", Allowed::CONF, Flag(|c, on| c.set(|d: &mut DavDir| &mut d.depth_infinity, on)), on_or_off(DEPTH_INFINITY), "allow Depth infinity PROPFIND requests"),
    row("DAVLockDiscovery", Allowed::CONF, Flag(|c, on| c.set(|d: &mut DavDir| &mut d.lock_discovery, on)), on_or_off(LOCK_DISCOVERY), "allow lock discovery by PROPFIND requests"),
];

settings! {
    /// The module's settings of a section.
    pub(super) struct DavDir {
        enabled: Setting<bool> = false,
        min_timeout: Setting<u64> = 0,
        depth_infinity: Setting<bool> = DEPTH_INFINITY,
        lock_discovery: Setting<bool> = LOCK_DISCOVERY,
    }
}

fn set_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let provider = match name {
        _ if name.eq_ignore_ascii_case("off") => None,
        _ if name.eq_ignore_ascii_case("on") => Some(mod_dav_fs::PROVIDER),
        name => Some(name),
    };
    let is_there = cmd.context.language.has_module(mod_dav_fs::MODULE.info.id);
    if let Some(name) = provider.filter(|name| *name != mod_dav_fs::PROVIDER || !is_there) {
        return Err(format!("Unknown DAV provider: {name}"));
    }
    KNOWN.iter().for_each(|method| Methods::add(cmd, method));
    cmd.set(|d: &mut DavDir| &mut d.enabled, provider.is_some())
}

fn set_min_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let seconds = u64::try_from(atoi(value)).map_err(|_| "DAVMinTimeout requires a non-negative integer.")?;
    cmd.set(|d: &mut DavDir| &mut d.min_timeout, seconds)
}

/// The name of the handler.
const HANDLER: &str = "dav-handler";
/// The methods answered here; the others are left to the default handler.
const METHODS: [&str; 11] =
    ["OPTIONS", "PUT", "DELETE", "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT"];
/// Methods known if WebDAV is enabled (RFC 5842, RFC 5323). Files support neither.
const KNOWN: [&str; 2] = ["BIND", "SEARCH"];

/// Takes every request except those answered by a file's content, or by a script.
fn take(request: &mut Request) -> Flow {
    let is_for_content = matches!(&*request.asked.method, "GET" | "HEAD" | "POST");
    if !is_for_content && request.asked.uri != "*" && request.dir::<DavDir>().enabled() {
        request.mapped.handler = Some(Cow::Borrowed(HANDLER));
    }
    Flow::Declined
}

fn is_ours(request: &Request) -> bool {
    request.mapped.handler.as_deref() == Some(HANDLER) && METHODS.contains(&&*request.asked.method)
}

/// The file of locks, if there is one.
pub(super) fn lock_database(request: &Request) -> Option<Database> {
    request.host::<FsServer>().lock_database()
}

async fn answer(request: &mut Request) -> HandlerResult {
    let done = match &*request.asked.method {
        "OPTIONS" => options(request).await,
        "PUT" => put::put(request).await,
        "DELETE" => delete(request).await,
        "PROPFIND" => propfind::propfind(request).await,
        "PROPPATCH" => proppatch::proppatch(request).await,
        "MKCOL" => make_collection(request).await,
        "COPY" | "MOVE" => copy_move::copy_or_move(request).await,
        "LOCK" => lock::lock(request).await,
        "UNLOCK" => lock::unlock(request).await,
        "REPORT" => report(request).await,
        _ => Err(Failure::status(405)),
    };
    match done {
        Ok(answer) => answer,
        Err(failure) => failure.answer(request),
    }
}

/// A resource, and its current state.
struct Resource {
    target: Target,
    is_there: bool,
    is_collection: bool,
}

/// The resource of a request's path.
fn resource(request: &Request) -> Result<Resource, Failure> {
    if http::text::to_bytes(&request.asked.unparsed_uri()).contains(&b'#') {
        return Err(Failure::message(400, "AH00622: buggy client used un-escaped hash in Request-URI"));
    }
    let mapped = &request.mapped;
    let meta = mapped.stat;
    if meta.is_some_and(|meta| !meta.is_dir()) && !mapped.path_info.is_empty() {
        let text = "The URL contains extraneous path components. The resource could not be identified.";
        return Err(Failure::new(400, text).within("Could not fetch resource information."));
    }
    let path = format!("{}{}", mapped.filename, mapped.path_info);
    // A look-up with its asker's settings skips the access check.
    if tree::is_state_path(&path) {
        return Err(Failure::new(403, "Access to the state directory denied."));
    }
    let target = Target { uri: request.asked.uri.clone(), path: bare(&path).to_string() };
    Ok(Resource { target, is_there: meta.is_some(), is_collection: meta.is_some_and(|meta| meta.is_dir()) })
}

/// A resource that must exist.
fn existing(request: &Request) -> Result<Resource, Failure> {
    resource(request).and_then(|resource| if resource.is_there { Ok(resource) } else { Err(Failure::status(404)) })
}

/// Runs a job that works with files.
async fn on_disk<T: Send + 'static>(job: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    offload(Load::Wait, job).await
}

/// The depth of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
}

/// The `Depth` field; without it, infinity.
fn depth(request: &Request) -> Result<Depth, Failure> {
    match request.header("Depth").as_deref() {
        None => Ok(Depth::Infinity),
        Some("0") => Ok(Depth::Zero),
        Some("1") => Ok(Depth::One),
        Some(text) if text.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
        Some(_) => Err(Failure::message(400, "AH00580: An invalid Depth header was specified.")),
    }
}

/// The XML document in the body of a request; `None`: there is no body.
async fn document(request: &Request) -> Result<Option<xml::Element>, Failure> {
    if request.body.is_none() {
        return Ok(None);
    }
    let limit = request.dir::<CoreDir>().limit_xml_request_body.or(XML_BODY);
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

/// The answer to a request that has created or replaced something.
fn created(request: &mut Request, what: &str, uri: &str, replaced: bool) -> HandlerResult {
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
fn nothing(request: &mut Request) -> HandlerResult {
    request.answer.set_status(204);
    request.answer.clear_content_type();
    HandlerResult::Body(Body::Empty)
}

/// An answer in XML.
fn document_answer(request: &mut Request, status: u16, body: Body) -> HandlerResult {
    request.answer.set_status(status);
    request.answer.set_content_type(multistatus::TYPE);
    HandlerResult::Body(body)
}

async fn options(request: &mut Request) -> Result<HandlerResult, Failure> {
    let document = document(request).await?;
    if document.as_ref().is_some_and(|root| !root.name.is_dav("options")) {
        return Err(Failure::message(400, "AH00584: The \"options\" element was not found."));
    }
    let resource = resource(request)?;
    let allow = allowed(request, &resource).await?;
    let class = if lock_database(request).is_some() { "1,2" } else { "1" };
    request.answer.headers_out.add("DAV", class);
    request.answer.headers_out.add("DAV", mod_dav_fs::PROPERTIES);
    request.answer.headers_out.set("MS-Author-Via", "DAV");
    request.answer.headers_out.set("Allow", allow);
    if document.is_none() {
        return Ok(HandlerResult::Body(Body::Empty));
    }
    let text =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:options-response xmlns:D=\"DAV:\">\n</D:options-response>\n";
    Ok(document_answer(request, 200, Body::text(text)))
}

/// The methods that a resource supports, in Apache's order.
async fn allowed(request: &Request, resource: &Resource) -> Result<String, Failure> {
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
async fn not_allowed(request: &mut Request) -> Failure {
    let allow = async { allowed(request, &resource(request)?).await };
    match allow.await {
        Ok(allow) => {
            request.answer.allowed = Some(allow.split(',').map(str::to_string).collect());
            Failure::status(405)
        }
        Err(failure) => failure,
    }
}

async fn make_collection(request: &mut Request) -> Result<HandlerResult, Failure> {
    let resource = resource(request)?;
    // No body is defined that would add to the method (RFC 4918, section 9.3).
    if !request.body.is_none() && request.body.collect(0).await.is_err() {
        return Err(Failure::status(415));
    }
    if resource.is_there {
        return Err(not_allowed(request).await);
    }
    let claim = Claim::of(request)?;
    let target = resource.target.clone();
    on_disk(move || {
        let _held = claim.hold_locks()?;
        claim.check_to_write(&target)?;
        std::fs::create_dir(server::paths::os_path(&target.path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                Failure::os(409, error, "Cannot create collection; intermediate collection does not exist.")
            }
            std::io::ErrorKind::AlreadyExists => Failure::status(405),
            _ => Failure::os(403, error, "Unable to create collection."),
        })
    })
    .await?;
    Ok(created(request, "Collection", &resource.target.uri, false))
}

async fn delete(request: &mut Request) -> Result<HandlerResult, Failure> {
    let resource = existing(request)?;
    match depth(request)? {
        Depth::Infinity => {}
        _ if resource.is_collection => {
            return Err(Failure::message(400, "AH00582: Depth must be \"infinity\" for DELETE of a collection."));
        }
        Depth::One => return Err(Failure::message(400, "AH00583: Depth of \"1\" is not allowed for DELETE.")),
        Depth::Zero => {}
    }
    guard::keep_root(request, &resource).await?;
    guard::check_below(request, &resource).await?;
    let claim = Claim::of(request)?;
    let target = resource.target;
    on_disk(move || {
        let text = format!("Could not DELETE {} due to a failed precondition (e.g. locks).", escaped(&target));
        let ask = Ask { deed: Deed::Write, deep: true, parent: true, depends: true };
        claim.check(&target, ask, &claim.read_locks()?).map_err(|failure| failure.within(text))?;
        let mut failures = Vec::new();
        tree::remove(&target, &mut failures);
        forget_locks(&claim, &target)?;
        incomplete(failures, "Error(s) occurred on some resources during the deletion process.")
    })
    .await?;
    Ok(nothing(request))
}

/// Files have no reports (RFC 3253, section 3.6).
async fn report(request: &mut Request) -> Result<HandlerResult, Failure> {
    if document(request).await?.is_none() {
        return Err(Failure::message(400, "AH00614: The request body must specify a report."));
    }
    existing(request)?;
    Err(Failure::status(501))
}

/// Removes the locks of a removed resource.
fn forget_locks(claim: &Claim, target: &Target) -> Result<(), Failure> {
    let Some(database) = &claim.locks else { return Ok(()) };
    let is_gone = |path: &str| matches!(tree::look(path), Ok(None));
    let is_about = |path: &str| path == target.path || locks::is_below(path, &target.path);
    if !claim.read_locks()?.iter().any(|lock| is_about(&lock.path)) {
        return Ok(());
    }
    let change = database.change(|locks| locks.retain(|lock| !is_about(&lock.path) || !is_gone(&lock.path)));
    change.map_err(super::claim::unreadable)
}

/// Reports failures for some of many resources.
fn incomplete(failures: tree::Failures, text: &str) -> Result<(), Failure> {
    match failures.as_slice() {
        [] => Ok(()),
        _ => Err(Failure::new(207, text).about(failures)),
    }
}

/// A URL path in the form of log lines.
fn escaped(target: &Target) -> String {
    http::uri::escape_html(&target.uri).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("<Location />\nDav nope\n</Location>", "Unknown DAV provider: nope"),
            ("<Location />\nDav on\nDav OFF\nDav filesystem\nDavBasePath x\n</Location>", ""),
            (
                "<Location />\nDav\n</Location>",
                "DAV takes one argument, specify the DAV provider for a directory or location",
            ),
            ("DavMinTimeout -1", "DAVMinTimeout requires a non-negative integer."),
            ("DavMinTimeout x\nDavDepthInfinity on\nDavLockDiscovery off", ""),
            ("DavDepthInfinity x", "DAVDepthInfinity must be On or Off"),
            ("DavLockDB", "DAVLockDB takes one argument, specify a lock database"),
            ("DavLockDB /nowhere/x\n<Location />\nDavGenericLockDB x\n</Location>", ""),
        ]);
    }
}
