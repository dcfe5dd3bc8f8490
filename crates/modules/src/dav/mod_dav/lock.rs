//! `LOCK` and `UNLOCK`.

use server::{Body, HandlerResult, Request};

use super::methods::not_allowed;
use super::resource::{Depth, depth, document, on_disk, resource};
use super::responses::{document_response, nothing};
use crate::dav::claim::{Claim, Operation, RequiredPermission, owned, unreadable};
use crate::dav::failure::Failure;
use crate::dav::if_header::token;
use crate::dav::locks::{self, Database, Lock};
use crate::dav::settings::{DavDir, lock_database};
use crate::dav::target::{Target, escaped};
use crate::dav::tree;
use crate::dav::xml::Element;

/// The lock that a client wants.
struct Wish {
    exclusive: bool,
    owner: String,
}

pub(super) async fn lock(request: &mut Request) -> Result<HandlerResult, Failure> {
    let Some(database) = lock_database(request) else { return Err(not_allowed(request).await) };
    let document = document(request).await?;
    let deep = match depth(request)? {
        Depth::Zero => false,
        Depth::Infinity => true,
        Depth::One => return Err(Failure::message(400, "AH00595: Depth must be 0 or \"infinity\" for LOCK.")),
    };
    let target = resource(request)?.target;
    let wish = document.map(wish).transpose()?;
    let claim = Claim::of(request)?;
    let expires = expires(request);
    let is_new = wish.is_some();
    let found = on_disk(move || {
        check_parent(&target)?;
        let _held = database.hold(true).map_err(unreadable)?;
        let mut locks = database.read().map_err(unreadable)?;
        let found = match wish {
            Some(wish) => vec![make(&claim, &target, deep, wish, expires, &mut locks)?],
            None => refresh(&claim, &target, expires, &mut locks)?,
        };
        database.write(&locks).map_err(unreadable)?;
        Ok(found)
    })
    .await?;
    if let Some(lock) = found.first().filter(|_| is_new) {
        request.response.headers_out.set("Lock-Token", format!("<{}>", lock.token()));
    }
    let text: String = found.iter().map(|lock| lock.describe(locks::now())).collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\">\n<D:lockdiscovery>\n{text}\n\
         </D:lockdiscovery>\n</D:prop>\n"
    );
    Ok(document_response(request, 200, Body::text(text)))
}

/// Parses the element `lockinfo`, which says what lock a client wants.
fn wish(root: Element) -> Result<Wish, Failure> {
    if !root.name.is_dav("lockinfo") {
        return Err(Failure::new(400, "The request body contains an unexpected XML root element."));
    }
    let (mut exclusive, mut writes, mut owner) = (None, false, String::new());
    for child in root.children() {
        let unknown = |element: &Element| {
            let name = &element.name.local;
            let text = format!(
                "The server cannot satisfy the LOCK request due to an unknown XML element (\"{name}\") within the \
                 DAV:lockinfo element."
            );
            Failure::new(412, text)
        };
        if child.name.is_dav("locktype") && child.child("write").is_some() {
            writes = true;
        } else if child.name.is_dav("lockscope") && child.child("exclusive").is_some() {
            exclusive = Some(true);
        } else if child.name.is_dav("lockscope") && child.child("shared").is_some() {
            exclusive = Some(false);
        } else if child.name.is_dav("owner") {
            owner = child.write();
        } else {
            return Err(unknown(child));
        }
    }
    match exclusive {
        Some(exclusive) if writes => Ok(Wish { exclusive, owner }),
        _ => Err(Failure::new(400, "The request body does not say which lock is wanted.")),
    }
}

/// The expiry of a lock that is made or refreshed now (`Timeout`, at least `DAVMinTimeout`); 0 is never.
fn expires(request: &Request) -> u64 {
    let field = request.header_joined("Timeout").unwrap_or_default();
    let seconds = field.split(',').map(str::trim).find_map(|word| match word.get(..7) {
        Some(unit) if unit.eq_ignore_ascii_case("second-") => word[7..].parse::<u32>().ok().map(u64::from),
        _ if word.eq_ignore_ascii_case("infinite") => Some(0),
        _ => None,
    });
    match seconds.unwrap_or(0) {
        0 => 0,
        seconds => locks::now() + seconds.max(request.dir::<DavDir>().min_timeout()),
    }
}

fn check_parent(target: &Target) -> Result<(), Failure> {
    if tree::metadata(&target.parent().path)?.is_some_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    let text = format!("The parent resource of {} does not exist or is not a collection.", escaped(target));
    Err(Failure::new(409, text))
}

fn make(
    claim: &Claim,
    target: &Target,
    deep: bool,
    wish: Wish,
    expires: u64,
    locks: &mut Vec<Lock>,
) -> Result<Lock, Failure> {
    let is_new = tree::metadata(&target.path)?.is_none() && locks::of(locks, &target.path, false).is_empty();
    let operation = Operation::Lock { exclusive: wish.exclusive };
    let refused = format!("Could not LOCK {} due to a failed precondition (e.g. other locks).", escaped(target));
    // The content list of the collection changes, though it is not locked by that.
    let wanted = RequiredPermission { operation, deep, parent: false, depends: false };
    claim
        .check(target, wanted, locks)
        .and_then(|()| match is_new {
            true => claim.check_other(
                &target.parent(),
                RequiredPermission { operation: Operation::Write, deep: false, ..wanted },
                locks,
            ),
            false => Ok(()),
        })
        .map_err(|failure| failure.within(refused))?;
    let lock = Lock {
        uuid: locks::uuid(),
        path: target.path.clone(),
        deep,
        exclusive: wish.exclusive,
        expires,
        owner: wish.owner,
        user: claim.user().to_string(),
    };
    locks.push(lock.clone());
    Ok(lock)
}

fn refresh(claim: &Claim, target: &Target, expires: u64, locks: &mut [Lock]) -> Result<Vec<Lock>, Failure> {
    let refused = format!("Could not LOCK {} due to a failed precondition (e.g. other locks).", escaped(target));
    let wanted = RequiredPermission { operation: Operation::Refresh, deep: false, parent: false, depends: false };
    claim.check(target, wanted, locks).map_err(|failure| failure.within(refused))?;
    let is_there = tree::metadata(&target.path)?.is_some();
    let named = |lock: &Lock| claim.submitted().any(|uuid| uuid == lock.uuid);
    let on: Vec<String> = locks::of(locks, &target.path, is_there).into_iter().map(|lock| lock.uuid.clone()).collect();
    let mut found = Vec::new();
    for lock in locks.iter_mut().filter(|lock| on.contains(&lock.uuid) && named(lock)) {
        owned(lock, claim.user())?;
        lock.expires = expires;
        found.push(lock.clone());
    }
    if found.is_empty() {
        let inner = "No locktokens were specified in the \"If:\" header, so the refresh could not be performed.";
        let text = format!(
            "The lock refresh for {} failed because no lock tokens were specified in an \"If:\" header.",
            escaped(target)
        );
        return Err(Failure::new(400, inner).within(text));
    }
    Ok(found)
}

pub(super) async fn unlock(request: &mut Request) -> Result<HandlerResult, Failure> {
    let Some(database) = lock_database(request) else { return Err(not_allowed(request).await) };
    let target = resource(request)?.target;
    let Some(field) = request.header("Lock-Token") else {
        let text = format!("AH00596: Unlock failed ({}):  No Lock-Token specified in header", request.mapped.filename);
        return Err(Failure::message(400, text));
    };
    let refused = |failure: Failure| {
        let text = "an invalid lock token was specified in the \"If:\" header.";
        failure.within(format!("The UNLOCK on {} failed -- {text}", escaped(&target)))
    };
    let text = field.trim();
    let bare = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    let unknown =
        || Failure::numbered(400, 403, "The lock token uses an unknown State-token format and could not be parsed.");
    let uuid = bare.map_or(Ok(None), token).and_then(|uuid| uuid.ok_or_else(unknown)).map_err(refused)?;
    let claim = Claim::of(request)?;
    on_disk(move || take_away(&database, &claim, &target, &uuid)).await?;
    Ok(nothing(request))
}

fn take_away(database: &Database, claim: &Claim, target: &Target, uuid: &str) -> Result<(), Failure> {
    let _held = database.hold(true).map_err(unreadable)?;
    let mut locks = database.read().map_err(unreadable)?;
    let is_there = tree::metadata(&target.path)?.is_some();
    claim.check(
        target,
        RequiredPermission { operation: Operation::Read, deep: false, parent: false, depends: false },
        &locks,
    )?;
    let on = locks::of(&locks, &target.path, is_there);
    let Some(lock) = on.iter().find(|lock| lock.uuid == uuid) else {
        let why = match on.is_empty() {
            true => "is invalid because this resource has no outstanding locks.",
            false => "did not specify one of this resource's locktoken(s).",
        };
        return Err(Failure::new(400, format!("The locktoken specified in the \"Lock-Token:\" header {why}")));
    };
    owned(lock, claim.user())?;
    locks.retain(|lock| lock.uuid != uuid);
    database.write(&locks).map_err(unreadable)
}
