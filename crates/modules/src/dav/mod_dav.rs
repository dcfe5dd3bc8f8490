//! WebDAV's methods: `Dav On` lets clients write files.
//!
//! Apache manual: mod_dav. Statuses and fields were measured on 2.4.71, and RFC 4918 is followed where Apache does not.
//! All disk access happens beside the event loop.

mod copy_move;
mod guard;
mod lock;
mod methods;
mod propfind;
mod proppatch;
mod put;
mod resource;
mod responses;

use std::borrow::Cow;

use conf::directive::Args::{Flag, Take1};
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, on_or_off, row};
use server::PhaseHook::Now;
use server::core::Methods;
use server::{Body, Flow, Handler, HandlerResult, Hook, Module, Order, Phase, Request};

use self::methods::{HANDLER, KNOWN, allowed, is_ours, not_allowed};
use self::resource::{Depth, depth, document, existing, on_disk, resource};
use self::responses::{created, document_response, nothing};
use super::claim::{Claim, Operation, RequiredPermission, forget_locks};
use super::failure::{Failure, incomplete};
use super::mod_dav_fs;
use super::settings::{DEPTH_INFINITY, DavDir, LOCK_DISCOVERY, lock_database};
use super::target::escaped;
use super::tree;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "dav_module", source: "mod_dav.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Fixups, Order::Middle, Now(take)),
        Hook::Handler(
            Order::Middle,
            Handler::Later { claims: is_ours, check: |_| None, run: |request| Box::pin(handle(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DAV", Allowed::SECTION, Take1(set_provider), "Off", "specify the DAV provider for a directory or location").differs("Off turns it off below a directory that has it, too; Apache leaves it on there."),
    row("DAVBasePath", Allowed::SECTION, Take1(|_, _| Ok(())), "", "specify the DAV repository base URL").without_effect("Files need none; it is for the repositories of other modules."),
    row("DAVMinTimeout", Allowed::CONF, Take1(set_min_timeout), "0", "specify minimum allowed timeout"),
    row("DAVDepthInfinity", Allowed::CONF, Flag(|c, on| c.set(|d: &mut DavDir| &mut d.depth_infinity, on)), on_or_off(DEPTH_INFINITY), "allow Depth infinity PROPFIND requests"),
    row("DAVLockDiscovery", Allowed::CONF, Flag(|c, on| c.set(|d: &mut DavDir| &mut d.lock_discovery, on)), on_or_off(LOCK_DISCOVERY), "allow lock discovery by PROPFIND requests"),
];

fn set_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let provider = match name {
        _ if name.eq_ignore_ascii_case("off") => None,
        _ if name.eq_ignore_ascii_case("on") => Some(mod_dav_fs::PROVIDER),
        name => Some(name),
    };
    let is_there = cmd.context.language.has_module(mod_dav_fs::MODULE.info.id);
    if let Some(name) = provider.filter(|name| *name != mod_dav_fs::PROVIDER || !is_there) {
        return Err(format!("Unknown DAV provider: {name}").into());
    }
    KNOWN.iter().for_each(|method| Methods::add(cmd, method));
    cmd.set(|d: &mut DavDir| &mut d.enabled, provider.is_some())
}

fn set_min_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let seconds = u64::try_from(atoi(value)).map_err(|_| "DAVMinTimeout requires a non-negative integer.")?;
    cmd.set(|d: &mut DavDir| &mut d.min_timeout, seconds)
}

/// Takes every request except those answered by a file's content, or by a script.
fn take(request: &mut Request) -> Flow {
    let is_for_content = matches!(&*request.data.method, "GET" | "HEAD" | "POST");
    if !is_for_content && request.data.uri != "*" && request.dir::<DavDir>().enabled() {
        request.mapped.handler = Some(Cow::Borrowed(HANDLER));
    }
    Flow::Declined
}

async fn handle(request: &mut Request) -> HandlerResult {
    let done = match &*request.data.method {
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
        Ok(result) => result,
        Err(failure) => failure.respond(request),
    }
}

async fn options(request: &mut Request) -> Result<HandlerResult, Failure> {
    let document = document(request).await?;
    if document.as_ref().is_some_and(|root| !root.name.is_dav("options")) {
        return Err(Failure::message(400, "AH00584: The \"options\" element was not found."));
    }
    let resource = resource(request)?;
    let allow = allowed(request, &resource).await?;
    let class = if lock_database(request).is_some() { "1,2" } else { "1" };
    request.response.headers_out.add("DAV", class);
    request.response.headers_out.add("DAV", mod_dav_fs::PROPERTIES);
    request.response.headers_out.set("MS-Author-Via", "DAV");
    request.response.headers_out.set("Allow", allow);
    if document.is_none() {
        return Ok(HandlerResult::Body(Body::Empty));
    }
    let text =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:options-response xmlns:D=\"DAV:\">\n</D:options-response>\n";
    Ok(document_response(request, 200, Body::text(text)))
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
        let wanted = RequiredPermission { operation: Operation::Write, deep: true, parent: true, depends: true };
        claim.check(&target, wanted, &claim.read_locks()?).map_err(|failure| failure.within(text))?;
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
