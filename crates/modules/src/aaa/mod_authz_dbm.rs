//! `Require dbm-group`: groups from a DBM file.
//!
//! Apache manual: mod_authz_dbm.

use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::words::words;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, row, settings};
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Hook, Module, Request};

use super::mod_authn_core::auth_name;
use super::{Text, dbm, mod_authz_owner};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authz_dbm_module", source: "mod_authz_dbm.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authz(&GROUP), Hook::Authz(&FILE_GROUP)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthDBMGroupFile", Allowed::AUTH, Take1(|c, v| { let path = c.context.server_relative(v); set(c, |file| file.path = Some(path)) }), "", "database file containing group names and member user IDs"),
    row("AuthzDBMType", Allowed::AUTH, Take1(|c, v| set(c, |file| file.kind = v.to_string())), "default", "what type of DBM file the group file is").differs(dbm::TYPES),
];

settings! {
    /// The module's settings of a section.
    pub struct DbmGroupDir {
        // As in Apache, a section with any of these lines inherits none.
        file: Gathered<dbm::Named>,
    }
}

static GROUP: AuthzProvider = AuthzProvider {
    name: "dbm-group",
    parse: |cmd, names| Ok(Arc::new(Text::of_require(cmd, names)?)),
    check: Later(|request, names| Box::pin(is_member(request, names))),
};

static FILE_GROUP: AuthzProvider = AuthzProvider {
    name: "dbm-file-group",
    parse: |_, _| Ok(Arc::new(())),
    check: Later(|request, _| Box::pin(is_in_group_of_file(request))),
};

fn set(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut dbm::Named)) -> Outcome {
    let origin = cmd.origin();
    change(cmd.dir.edit::<DbmGroupDir>().file.edit(&origin));
    Ok(())
}

/// The groups of a user. `numbers` of the messages: there is no file, it cannot be read, and it does not contain the
/// user.
async fn groups_of(request: &Request, user: &str, numbers: [&str; 3]) -> Result<Vec<String>, Verdict> {
    let log = |text: String| request.log("authz_dbm", Level::Error, text);
    let file = request.dir::<DbmGroupDir>().file.get().cloned().unwrap_or_default();
    let Some(path) = &file.path else {
        log(format!("{}: No group file was specified in the configuration", numbers[0]));
        return Err(Verdict::Unknown);
    };
    let keys = [format!("{user}:{}", auth_name(request).unwrap_or_default()), user.to_string()];
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    match file.get(request, &keys).await {
        // The same file may hold passwords too: those come first, and a comment last.
        Ok(Some(value)) => {
            let groups = value.split_once(':').map_or(value.as_str(), |(_, rest)| rest.split(':').next().unwrap_or(""));
            Ok(groups.split(',').map(str::to_string).collect())
        }
        Ok(None) => {
            let uri = &request.data.uri;
            log(format!(
                "{}: Authorization of user {user} to access {uri} failed, reason: user doesn't appear in DBM group file \
                 ({path}).",
                numbers[2]
            ));
            Err(Verdict::Denied)
        }
        Err(error) => {
            let kind = &file.kind;
            let text = format!("{}: could not open dbm (type {kind}) group access file: {path}", numbers[1]);
            request.log_os("authz_dbm", Level::Error, &error, text);
            Err(Verdict::Error)
        }
    }
}

async fn is_member(request: &Request, names: &Parsed) -> Verdict {
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let Some(names) = names.downcast_ref::<Text>() else { return Verdict::Error };
    let groups = match groups_of(request, user, ["AH01798", "AH01799", "AH01800"]).await {
        Ok(groups) => groups,
        Err(verdict) => return verdict,
    };
    let what = "AH02591: authz_dbm authorize: require dbm-group: Can't evaluate require expression";
    let Some(names) = names.value(request, "authz_dbm", what) else { return Verdict::Unknown };
    if words(&names).iter().any(|name| groups.contains(name)) {
        return Verdict::Granted;
    }
    refuse(request, user, "AH01801")
}

async fn is_in_group_of_file(request: &Request) -> Verdict {
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let groups = match groups_of(request, user, ["AH01802", "AH01803", "AH01804"]).await {
        Ok(groups) => groups,
        Err(verdict) => return verdict,
    };
    match mod_authz_owner::file_group(request, user).await {
        None => Verdict::Unknown,
        Some(group) if groups.contains(&group) => Verdict::Granted,
        Some(_) => refuse(request, user, "AH01805"),
    }
}

fn refuse(request: &Request, user: &str, number: &str) -> Verdict {
    let text = format!(
        "{number}: Authorization of user {user} to access {} failed, reason: user is not part of the 'require'ed \
         group(s).",
        request.data.uri
    );
    request.log("authz_dbm", Level::Error, text);
    Verdict::Denied
}
