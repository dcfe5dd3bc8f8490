//! `Require file-owner`, and the group of a file for `Require file-group` and `Require dbm-file-group`.
//!
//! Apache manual: mod_authz_owner.

use std::io;
use std::sync::Arc;

use conf::{Level, ModuleInfo};
use runtime::{Load, offload};
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzProvider, Verdict};
use server::paths::c_path;
use server::{Hook, Module, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authz_owner_module", source: "mod_authz_owner.c", linked: false, directives: &[] },
    hooks: &[Hook::Authz(&OWNER)],
};

static OWNER: AuthzProvider = AuthzProvider {
    name: "file-owner",
    parse: |_, _| Ok(Arc::new(())),
    check: Later(|request, _| Box::pin(is_owner(request))),
};

/// Finds the name for a number.
type Name = fn(u32) -> io::Result<Option<String>>;

async fn is_owner(request: &Request) -> Verdict {
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let name: Name = |uid| Ok(sys::cred::user_by_id(uid)?.map(|user| user.name));
    let Some(owner) = name_of(request, user, ["AH01633", "AH01634", "AH01636"], true, name).await else {
        return Verdict::Unknown;
    };
    if owner == *user {
        return Verdict::Granted;
    }
    refuse(request, user, None, &format!("AH01637|file owner {owner} does not match."));
    Verdict::Denied
}

/// The group name of the requested file; `None`: it cannot be found out, which is logged.
pub(super) async fn file_group(request: &Request, user: &str) -> Option<String> {
    name_of(request, user, ["AH01638", "AH01639", "AH01641"], false, sys::cred::group_by_id).await
}

/// The name of the owner or of the group. The system's database may be on another machine, so this asks beside the
/// event loop.
async fn name_of(request: &Request, user: &str, numbers: [&str; 3], owner: bool, name: Name) -> Option<String> {
    let file = &request.mapped.filename;
    if file.is_empty() {
        refuse(request, user, None, &format!("{}|no filename available", numbers[0]));
        return None;
    }
    let path = c_path(file)?;
    let found = offload(Load::Wait, move || {
        let meta = sys::file::stat(&path)?;
        Ok(name(if owner { meta.uid } else { meta.gid }))
    });
    let what = if owner { "owner" } else { "group" };
    match found.await {
        Ok(Ok(Some(name))) if !name.is_empty() => return Some(name),
        Ok(Ok(_)) => refuse(request, user, None, &format!("{}|could not get name of file {what}", numbers[2])),
        Ok(Err(error)) => {
            refuse(request, user, Some(&error), &format!("{}|could not get name of file {what}", numbers[2]));
        }
        Err(error) => refuse(request, user, Some(&error), &format!("{}|could not stat file {file}", numbers[1])),
    }
    None
}

/// Logs a reason, after its number.
fn refuse(request: &Request, user: &str, error: Option<&io::Error>, reason: &str) {
    let (number, reason) = reason.split_once('|').unwrap_or(("", reason));
    let text =
        format!("{number}: Authorization of user {user} to access {} failed, reason: {reason}", request.data.uri);
    match error {
        Some(error) => request.log_os("authz_owner", Level::Error, error, text),
        None => request.log("authz_owner", Level::Error, text),
    }
}
