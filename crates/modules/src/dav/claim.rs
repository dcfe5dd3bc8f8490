//! A request's conditions on its resources: `If`, `If-Match` and the like, and the locks whose tokens it submits. They
//! are evaluated beside the event loop, independent of the request.

use std::io;

use server::site::file_cache::entity_tag;
use server::{Conditions, Request, core::CoreDir};
use sys::file::Meta;

use super::failure::Failure;
use super::if_header::{self, Condition, States, bare};
use super::locks::{self, Database, Lock};
use super::settings::lock_database;
use super::target::Target;
use super::tree;

/// What a request does to a resource: locks of others forbid some of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Changed, created or removed.
    Write,
    /// Only read.
    Read,
    /// Locked.
    Lock { exclusive: bool },
    /// A lock of it is changed: the lock must be among those on the way.
    Refresh,
}

/// What a request needs to be allowed before it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequiredPermission {
    pub(super) operation: Operation,
    /// Including everything below it.
    pub(super) deep: bool,
    /// The content list of its collection changes, too.
    pub(super) parent: bool,
    /// Conflicts elsewhere make it a 424, not a 207.
    pub(super) depends: bool,
}

/// What a client claims about resources (`If`, `If-Match` …) and locks, to be checked before anything changes.
#[derive(Clone)]
pub(super) struct Claim {
    ifs: Option<Vec<States>>,
    conditions: Conditions,
    user: String,
    tags: server::core::etag::Bits,
    pub(super) locks: Option<Database>,
}

impl Claim {
    /// Reads the fields of a request.
    pub(super) fn of(request: &Request) -> Result<Claim, Failure> {
        let field = request.header_joined("If").filter(|field| !field.trim().is_empty());
        Ok(Claim {
            ifs: field.map(|field| if_header::parse(&field)).transpose()?,
            conditions: Conditions::of(request),
            user: request.login.user.clone().unwrap_or_default(),
            tags: request.dir::<CoreDir>().etag.effective(),
            locks: lock_database(request),
        })
    }

    /// The user; may be empty.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// The entity tag of the existing resource.
    pub(super) fn tag(&self, path: &str, meta: &Meta) -> io::Result<Option<String>> {
        entity_tag(path, meta, self.tags)
    }

    /// All locks.
    pub(super) fn read_locks(&self) -> Result<Vec<Lock>, Failure> {
        let read = self.locks.as_ref().map_or(Ok(Vec::new()), Database::read);
        read.map_err(unreadable)
    }

    /// While the returned value exists, nobody locks anything.
    pub(super) fn hold_locks(&self) -> Result<Option<locks::Held>, Failure> {
        self.locks.as_ref().map(|locks| locks.hold(false)).transpose().map_err(unreadable)
    }

    /// The tokens submitted in any list of the field.
    pub(super) fn submitted(&self) -> impl Iterator<Item = &str> {
        let states = self.ifs.iter().flatten().flat_map(|list| &list.all).filter(|state| !state.not);
        states.filter_map(|state| match &state.kind {
            Condition::Lock(uuid) => Some(uuid.as_str()),
            _ => None,
        })
    }

    /// Checks whether the operation on the request's own resource is allowed.
    pub(super) fn check(&self, target: &Target, wanted: RequiredPermission, locks: &[Lock]) -> Result<(), Failure> {
        let meta = tree::metadata(&target.path)?;
        if self.conditions.are_any() {
            let etag = meta.map(|meta| self.tag(&target.path, &meta)).transpose().map_err(unread)?.flatten();
            let modified = meta.map(|meta| meta.mtime.div_euclid(1_000_000_000) as i64);
            if self.conditions.forbid(meta.is_some(), etag.as_deref(), modified) {
                return Err(Failure::status(412));
            }
        }
        self.check_all(target, wanted, locks, true)
    }

    /// Checks whether the request's own resource may be written. If it neither exists nor is locked, writing makes it a
    /// member of its collection.
    pub(super) fn check_to_write(&self, target: &Target) -> Result<(), Failure> {
        let locks = self.read_locks()?;
        let parent = tree::metadata(&target.path)?.is_none() && locks::of(&locks, &target.path, false).is_empty();
        self.check(
            target,
            RequiredPermission { operation: Operation::Write, deep: false, parent, depends: false },
            &locks,
        )
    }

    /// Checks the operation on another resource: conditions without a name do not apply to it.
    pub(super) fn check_other(
        &self,
        target: &Target,
        wanted: RequiredPermission,
        locks: &[Lock],
    ) -> Result<(), Failure> {
        self.check_all(target, wanted, locks, false)
    }

    fn check_all(
        &self,
        target: &Target,
        wanted: RequiredPermission,
        locks: &[Lock],
        is_own: bool,
    ) -> Result<(), Failure> {
        let meta = tree::metadata(&target.path)?;
        self.check_one(target, meta, wanted.operation, locks, is_own)?;
        let mut others = Vec::new();
        let is_collection = meta.is_some_and(|meta| meta.is_dir());
        if wanted.deep && is_collection && wanted.operation != Operation::Read {
            let below = locks.iter().filter(|lock| locks::is_below(&lock.path, &target.path));
            for lock in below {
                if let Err(failure) = self.check_below(lock, wanted.operation) {
                    others.push((target.uri_of(&lock.path), failure.status, String::new()));
                }
            }
        }
        if wanted.parent {
            let parent = target.parent();
            if let Err(failure) = tree::metadata(&parent.path)
                .and_then(|meta| self.check_one(&parent, meta, wanted.operation, locks, false))
            {
                let text = format!(
                    "A validation error has occurred on the parent resource, preventing the operation on the resource \
                     specified by the Request-URI. The error was: {}",
                    failure.reason()
                );
                others.push((parent.uri, failure.status, text));
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        let text = "An error occurred on another resource, preventing the requested operation on this resource.";
        if wanted.depends {
            return Err(Failure::new(424, text).about(others));
        }
        others.insert(0, (target.uri.clone(), 424, text.to_string()));
        Err(Failure::new(207, "Error(s) occurred on resources during the validation process.").about(others))
    }

    /// Checks a lock below a collection that is affected as a whole.
    fn check_below(&self, lock: &Lock, operation: Operation) -> Result<(), Failure> {
        match operation {
            Operation::Lock { exclusive } if exclusive || lock.exclusive => Err(Failure::status(423)),
            Operation::Lock { .. } => Ok(()),
            _ if self.submitted().any(|uuid| uuid == lock.uuid) => owned(lock, &self.user),
            _ => Err(Failure::status(423)),
        }
    }

    fn check_one(
        &self,
        target: &Target,
        meta: Option<Meta>,
        operation: Operation,
        locks: &[Lock],
        is_own: bool,
    ) -> Result<(), Failure> {
        let on = locks::of(locks, &target.path, meta.is_some());
        let has_tags = || {
            let mut states = self.ifs.iter().flatten().flat_map(|list| &list.all);
            states.any(|state| matches!(state.kind, Condition::Tag(_)))
        };
        let etag = match meta {
            Some(meta) if has_tags() => self.tag(&target.path, &meta).map_err(unread)?,
            _ => None,
        };
        let seen = Seen { uri: bare(&target.uri), is_own, etag: etag.as_deref(), on: &on };
        permit(self.ifs.as_deref(), &seen, operation, &self.user)
    }
}

fn unread(error: io::Error) -> Failure {
    Failure::os(500, error, "Could not open file for reading")
}

/// The locks cannot be read, so everything is refused.
pub(super) fn unreadable(error: io::Error) -> Failure {
    Failure::os(500, error, "Could not open the lock database.")
}

/// Only the user who made a lock may use it.
pub(super) fn owned(lock: &Lock, user: &str) -> Result<(), Failure> {
    if lock.user.is_empty() || lock.user == user {
        return Ok(());
    }
    let text = format!("User \"{user}\" submitted a locktoken created by user \"{}\".", lock.user);
    Err(Failure::new(403, text))
}

/// The state of a resource, to which conditions are compared.
struct Seen<'a> {
    /// Its URL path, without a slash at its end.
    uri: &'a str,
    /// The request's own resource: lists without a name apply to it, too.
    is_own: bool,
    etag: Option<&'a str>,
    on: &'a [&'a Lock],
}

/// Checks whether a resource with this tag and these locks may be used (RFC 4918, sections 6 to 10.4).
fn permit(ifs: Option<&[States]>, resource: &Seen<'_>, operation: Operation, user: &str) -> Result<(), Failure> {
    let Seen { uri, is_own, etag, on } = *resource;
    let mut seen = match operation {
        Operation::Write | Operation::Refresh => on.is_empty(),
        Operation::Read => true,
        Operation::Lock { exclusive: true } if !on.is_empty() => {
            let text = "Existing lock(s) on the requested resource prevent an exclusive lock.";
            return Err(Failure::new(423, text));
        }
        Operation::Lock { .. } if on.iter().any(|lock| lock.exclusive) => {
            return Err(Failure::new(423, "The requested resource is already locked exclusively."));
        }
        Operation::Lock { .. } => true,
    };
    let Some(ifs) = ifs else {
        let text = "This resource is locked and an \"If:\" header was not supplied to allow access to the resource.";
        return if seen { Ok(()) } else { Err(Failure::new(423, text)) };
    };
    let (mut applied, mut met, mut why) = (false, false, "");
    for list in ifs.iter().filter(|list| list.uri.as_deref().map_or(is_own, |named| named == uri)) {
        applied = true;
        match holds(list, etag, on, user)? {
            Ok(named_lock) => {
                seen |= named_lock;
                met = true;
                break;
            }
            Err(reason) => why = reason,
        }
    }
    if applied && !met {
        let text = format!(
            "The precondition(s) specified by the \"If:\" header did not match this resource. At least one failure is \
             because: {why}"
        );
        return Err(Failure::new(412, text));
    }
    if seen {
        return Ok(());
    }
    // A token counts wherever it occurs in the field.
    let mut submitted = ifs.iter().flat_map(|list| &list.all).filter(|state| !state.not);
    let named = submitted.find_map(|state| match &state.kind {
        Condition::Lock(uuid) => on.iter().find(|lock| lock.uuid == *uuid),
        _ => None,
    });
    match named {
        Some(lock) => owned(lock, user),
        None => {
            let text = "This resource is locked and the \"If:\" header did not specify one of the locktokens for this \
                        resource's lock(s).";
            Err(Failure::new(423, text))
        }
    }
}

/// Whether a resource is in all states of a list, and whether one of them is its own lock; otherwise, the first state
/// it is not in.
fn holds(list: &States, etag: Option<&str>, on: &[&Lock], user: &str) -> Result<Result<bool, &'static str>, Failure> {
    let strong = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_string();
    let mut named = false;
    for state in &list.all {
        let (is, reason, not) = match &state.kind {
            Condition::Tag(tag) => (
                etag.is_some_and(|etag| strong(etag) == strong(tag)),
                "an entity-tag was specified, but the resource's actual ETag does not match.",
                "an entity-tag was specified using the \"Not\" form, but the resource's actual ETag matches the provided \
                 entity-tag.",
            ),
            Condition::Lock(uuid) => {
                let lock = on.iter().find(|lock| lock.uuid == *uuid);
                if let Some(lock) = lock.filter(|_| !state.not) {
                    owned(lock, user)?;
                    named = true;
                }
                (
                    lock.is_some(),
                    "a State-token was supplied, but it was not found in the locks on this resource.",
                    "a State-token was supplied, which used a \"Not\" condition. The State-token was found in the locks \
                     on this resource",
                )
            }
            Condition::Unknown => (false, "an unknown state token was supplied", ""),
        };
        if is == state.not {
            return Ok(Err(if state.not { not } else { reason }));
        }
    }
    Ok(Ok(named))
}

/// Removes the locks of a removed resource.
pub(super) fn forget_locks(claim: &Claim, target: &Target) -> Result<(), Failure> {
    let Some(database) = &claim.locks else { return Ok(()) };
    let is_gone = |path: &str| matches!(tree::metadata(path), Ok(None));
    let is_about = |path: &str| path == target.path || locks::is_below(path, &target.path);
    if !claim.read_locks()?.iter().any(|lock| is_about(&lock.path)) {
        return Ok(());
    }
    let change = database.change(|locks| locks.retain(|lock| !is_about(&lock.path) || !is_gone(&lock.path)));
    change.map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_states_as_apache_judges_them() {
        let uuid = "31dfa0a6-9a3a-487e-a53d-b031054658ab";
        let lock = |exclusive, user: &str| Lock {
            uuid: uuid.into(),
            path: "/f".into(),
            deep: true,
            exclusive,
            expires: 0,
            owner: String::new(),
            user: user.into(),
        };
        let (own, shared, other) = (lock(true, "ann"), lock(false, ""), lock(true, "bob"));
        let token = format!("<opaquelocktoken:{uuid}>");
        let wrong = "<opaquelocktoken:00000000-0000-0000-0000-000000000000>";
        let (write, exclusive) = (Operation::Write, Operation::Lock { exclusive: true });
        let none: &[&Lock] = &[];
        let rows: &[(&str, &[&Lock], Operation, u16)] = &[
            ("", none, write, 200),
            ("", &[&own], write, 423),
            ("", &[&own], Operation::Read, 200),
            ("", &[&own], exclusive, 423),
            ("", &[&shared], exclusive, 423),
            ("", &[&shared], Operation::Lock { exclusive: false }, 200),
            ("", &[&own], Operation::Lock { exclusive: false }, 423),
            (&format!("({token})"), &[&own], write, 200),
            (&format!("({token})"), &[&other], write, 403),
            (&format!("({token})"), none, write, 412),
            (&format!("({wrong})"), &[&own], write, 412),
            (&format!("({wrong}) ({token})"), &[&own], write, 200),
            (&format!("(Not {token})"), &[&own], write, 412),
            ("(Not <DAV:no-lock>)", &[&own], write, 423),
            ("(<DAV:no-lock>)", &[&own], write, 412),
            (&format!("(<DAV:no-lock>) ({token})"), &[&own], write, 200),
            (&format!("({token} [\"x\"])"), &[&own], write, 200),
            (&format!("({token} [W/\"x\"])"), &[&own], write, 200),
            (&format!("({token} [\"y\"])"), &[&own], write, 412),
            (&format!("({token}) (Not <DAV:no-lock> [\"y\"])"), &[&own], write, 200),
            ("([\"x\"])", none, write, 200),
            ("(Not [\"x\"])", none, write, 412),
            ("()", &[&own], write, 423),
            (&format!("</f> ({token})"), &[&own], write, 200),
            (&format!("</f/> ({token})"), &[&own], write, 200),
            (&format!("</g> ({token})"), &[&own], write, 200),
            ("</g> ([\"z\"])", &[&own], write, 423),
            ("</g> ([\"z\"])", none, write, 200),
        ];
        for (field, on, operation, want) in rows {
            let ifs = if_header::parse(field).expect("a field");
            let ifs = Some(ifs.as_slice()).filter(|_| !field.is_empty());
            let seen = Seen { uri: "/f", is_own: true, etag: Some("\"x\""), on };
            let got = permit(ifs, &seen, *operation, "ann").err().map_or(200, |failure| failure.status);
            assert_eq!(got, *want, "{field:?} {operation:?}");
        }
    }
}
