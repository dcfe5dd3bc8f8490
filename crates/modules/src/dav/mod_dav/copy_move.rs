//! `COPY` and `MOVE`.

use std::fs;
use std::io;

use server::paths::{dir_name, os_path};
use server::{HandlerResult, Request};

use super::guard;
use super::methods::is_ours;
use super::resource::{Depth, Resource, depth, existing, on_disk, resource};
use super::responses::created;
use crate::dav::claim::{Claim, Operation, RequiredPermission, forget_locks};
use crate::dav::failure::{Failure, Failures, incomplete};
use crate::dav::if_header::bare;
use crate::dav::locks::is_below;
use crate::dav::target::{Target, escaped};
use crate::dav::{store, tree};

pub(super) async fn copy_or_move(request: &mut Request) -> Result<HandlerResult, Failure> {
    let is_move = request.data.method == "MOVE";
    let from = existing(request)?;
    let path = destination(request)?;
    let found = request.lookup_alike(&path).await;
    if found.response.status() != 200 {
        let status = found.response.status();
        // The response says how to log in, if that is what is missing.
        request.response.err_headers_out.extend(&found.response.err_headers_out);
        return Err(Failure::page(status, "Destination URI had an error."));
    }
    if !is_ours(&found) {
        return Err(Failure::status(405));
    }
    let to = resource(&found).map_err(|_| Failure::page(403, "Destination URI had an error."))?;
    let deep = check_request(request, is_move, &from, &to)?;
    if is_move {
        guard::keep_root(request, &from).await?;
    }
    if is_move || deep {
        guard::check_below(request, &from).await?;
    }
    if to.is_there {
        guard::keep_root(request, &to).await?;
        guard::check_below(request, &to).await?;
    }
    let claim = Claim::of(request)?;
    let target = to.target.clone();
    let replaced = on_disk(move || go(&claim, is_move, deep, &from.target, &to.target)).await?;
    Ok(created(request, "Destination", &target.uri, replaced))
}

/// The escaped path in the `Destination` field. As in Apache the scheme has to be ours; name and port may be those of a
/// proxy in front of this server.
fn destination(request: &Request) -> Result<String, Failure> {
    let missing = || Failure::message(400, "AH00591: The request is missing a Destination header.");
    let field = request.header("Destination").ok_or_else(missing)?;
    let wrong = |text: &str| Failure::message(400, format!("AH00592: {text}"));
    let Some((scheme, rest)) = field.trim().split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return Err(wrong("Destination URI must be an absolute URI."));
    };
    if rest.contains(['?', '#']) {
        return Err(wrong("Destination URI contains invalid components (a query or a fragment)."));
    }
    let ours = request.vhost.scheme;
    if !scheme.eq_ignore_ascii_case(ours) {
        let text = format!("Destination URI refers to another scheme than this request ({scheme}, not {ours})");
        return Err(Failure::page(502, text));
    }
    Ok(rest.find('/').map_or("/", |at| &rest[at..]).to_string())
}

/// Makes the checks that need no disk. Returns whether everything below the source is included.
fn check_request(request: &Request, is_move: bool, from: &Resource, to: &Resource) -> Result<bool, Failure> {
    let overwrite = match request.header("Overwrite").as_deref() {
        None => true,
        Some("T" | "t") => true,
        Some("F" | "f") => false,
        Some(_) => return Err(Failure::message(400, "AH00581: An invalid Overwrite header was specified.")),
    };
    if to.is_there && !overwrite {
        return Err(Failure::page(412, "Destination is not empty and Overwrite is not \"T\""));
    }
    if from.target.path == to.target.path {
        return Err(Failure::page(403, "Source and Destination URIs are the same."));
    }
    let deep = match depth(request)? {
        Depth::Infinity => true,
        Depth::Zero => false,
        Depth::One => {
            return Err(Failure::message(400, "AH00593: Depth must be \"0\" or \"infinity\" for COPY or MOVE."));
        }
    };
    if is_move && from.is_collection && !deep {
        return Err(Failure::message(400, "AH00594: Depth must be \"infinity\" when moving a collection."));
    }
    if deep && from.is_collection && is_below(&to.target.path, &from.target.path) {
        return Err(Failure::page(403, "Source collection contains the Destination."));
    }
    if is_below(&from.target.path, &to.target.path) {
        let text = "Destination collection contains the Source and Overwrite has been specified.";
        return Err(Failure::page(403, text));
    }
    Ok(deep)
}

/// Performs it; returns whether it replaced something.
fn go(claim: &Claim, is_move: bool, deep: bool, from: &Target, to: &Target) -> Result<bool, Failure> {
    let verb = if is_move { "MOVE" } else { "COPY" };
    let locks = claim.read_locks()?;
    let operation = if is_move { Operation::Write } else { Operation::Read };
    let wanted = RequiredPermission { operation, deep, parent: is_move, depends: true };
    claim.check(from, wanted, &locks).map_err(|failure| {
        let text = "due to a failed precondition on the source (e.g. locks).";
        failure.within(format!("Could not {verb} {} {text}", escaped(from)))
    })?;
    let wanted = RequiredPermission { operation: Operation::Write, deep: true, parent: true, depends: true };
    claim.check_other(to, wanted, &locks).map_err(|failure| {
        let text = "due to a failed precondition on the destination (e.g. locks).";
        failure.within(format!("Could not MOVE/COPY {} {text}", escaped(from)))
    })?;
    if !tree::metadata(&to.parent().path)?.is_some_and(|meta| meta.is_dir()) {
        let error = io::Error::from_raw_os_error(sys::errno::NOT_FOUND);
        let text = format!("Could not MOVE/COPY {}.", escaped(from));
        return Err(Failure::os(409, error, "Could not open file for writing").within(text));
    }
    let mut failures = Vec::new();
    let replaced = in_place(from, to, &mut failures, |failures| match is_move {
        true => tree::rename(from, to, failures),
        false => tree::copy(from, to, deep, failures),
    })
    .map_err(|error| {
        let status = tree::status_of(&error);
        Failure::os(status, error, format!("Could not MOVE/COPY {}.", escaped(from)))
    })?;
    if is_move {
        forget_locks(claim, from)?;
    }
    incomplete(failures, "Error(s) occurred on some resources during the COPY/MOVE process.")?;
    Ok(replaced)
}

/// Runs an action that makes the destination. The old content is put aside and restored on failure; a file is replaced
/// by a file at once.
fn in_place(
    from: &Target,
    to: &Target,
    failures: &mut Failures,
    make: impl FnOnce(&mut Failures) -> io::Result<()>,
) -> io::Result<bool> {
    let path = os_path(&to.path);
    let before = match fs::symlink_metadata(&path) {
        Ok(before) => before,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return make(failures).map(|()| false),
        Err(error) => return Err(error),
    };
    if before.is_file() && fs::metadata(os_path(&from.path))?.is_file() {
        return make(failures).map(|()| true);
    }
    let aside = store::unused(&os_path(dir_name(&to.path)));
    fs::rename(&path, &aside)?;
    if let Err(error) = make(failures) {
        // The part made so far has the name.
        let mut ignored = Vec::new();
        tree::remove(to, &mut ignored);
        fs::rename(&aside, &path)?;
        return Err(error);
    }
    let name = tree::text_of(aside.as_os_str());
    tree::remove(&Target { uri: to.uri.clone(), path: bare(&name).to_string() }, failures);
    Ok(true)
}
