//! `Require group` and `Require file-group`: groups from a text file.
//!
//! Apache manual: mod_authz_groupfile.

use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::words::words;
use conf::{Allowed, Directive, Level, ModuleInfo, Setting, row, settings};
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Hook, Module, Request};

use super::files::Files;
use super::{Text, mod_authz_owner};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "authz_groupfile_module",
        source: "mod_authz_groupfile.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::Authz(&GROUP), Hook::Authz(&FILE_GROUP)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthGroupFile", Allowed::AUTH, Take1(|c, v| { let path = c.context.server_relative(v); c.set(|d: &mut GroupDir| &mut d.path, path) }), "", "text file containing group names and member user IDs"),
];

settings! {
    /// The module's settings of a section.
    pub struct GroupDir {
        path: Setting<String>,
    }
}

static GROUP: AuthzProvider = AuthzProvider {
    name: "group",
    parse: |cmd, names| Ok(Arc::new(Text::of_require(cmd, names)?)),
    check: Later(|request, names| Box::pin(is_member(request, names))),
};

static FILE_GROUP: AuthzProvider = AuthzProvider {
    name: "file-group",
    parse: |_, _| Ok(Arc::new(())),
    check: Later(|request, _| Box::pin(is_in_group_of_file(request))),
};

/// The groups of each user, in lower case: group names ignore case, as in Apache.
static GROUPS: Files = Files::new(|line, see| {
    let (name, users) = line.split_once(':').unwrap_or((line, ""));
    let Some(name) = name.split_ascii_whitespace().next() else { return };
    let name = name.to_ascii_lowercase();
    words(users).iter().for_each(|user| see(user, &name));
});

async fn is_member(request: &Request, names: &Parsed) -> Verdict {
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let Some(names) = names.downcast_ref::<Text>() else { return Verdict::Error };
    let numbers = ["AH01664", "AH01665", "AH01666"];
    let own = match groups_of(request, user, numbers, Level::Debug).await {
        Ok(own) => own,
        Err(verdict) => return verdict,
    };
    let what = "AH02592: authz_groupfile authorize: require group: Can't evaluate require expression";
    let Some(names) = names.value(request, "authz_groupfile", what) else { return Verdict::Unknown };
    if words(&names).iter().any(|name| own.contains(&name.to_ascii_lowercase())) {
        return Verdict::Granted;
    }
    refuse(request, Level::Debug, user, "AH01667", "user is not part of the 'require'ed group(s).");
    Verdict::Denied
}

async fn is_in_group_of_file(request: &Request) -> Verdict {
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let numbers = ["AH01668", "AH01669", "AH01670"];
    let own = match groups_of(request, user, numbers, Level::Error).await {
        Ok(own) => own,
        Err(verdict) => return verdict,
    };
    let Some(group) = mod_authz_owner::file_group(request, user).await else { return Verdict::Unknown };
    if own.contains(&group.to_ascii_lowercase()) {
        return Verdict::Granted;
    }
    refuse(request, Level::Debug, user, "AH01671", "user is not part of the 'require'ed file group.");
    Verdict::Denied
}

/// The groups of a user. `Err`: there are none, or they are unknown; the cause is logged. `numbers` of the messages:
/// there is no file, it cannot be read, and, at this level, it does not contain the user.
async fn groups_of(request: &Request, user: &str, numbers: [&str; 3], level: Level) -> Result<Vec<String>, Verdict> {
    let Some(path) = request.dir::<GroupDir>().path.get() else {
        let text = format!("{}: No group file was specified in the configuration", numbers[0]);
        request.log("authz_groupfile", Level::Error, text);
        return Err(Verdict::Unknown);
    };
    match GROUPS.get(request, path, user).await {
        Ok(Some(groups)) => Ok(groups),
        Ok(None) => {
            let reason = format!("user doesn't appear in group file ({path}).");
            refuse(request, level, user, numbers[2], &reason);
            Err(Verdict::Denied)
        }
        Err(error) => {
            let text = format!("{}: Could not open group file: {path}", numbers[1]);
            request.log_os("authz_groupfile", Level::Error, &error, text);
            Err(Verdict::Unknown)
        }
    }
}

fn refuse(request: &Request, level: Level, user: &str, number: &str, reason: &str) {
    let uri = &request.data.uri;
    let text = format!("{number}: Authorization of user {user} to access {uri} failed, reason: {reason}");
    request.log("authz_groupfile", level, text);
}

#[cfg(test)]
mod tests {
    use super::super::files::parsed;
    use super::*;

    #[test]
    fn lines_of_a_group_file() {
        let text = "# c\nAdmin: joe \"bea b\"\nstaff : joe\nno colon\n: zoe\nadmin:sha";
        let lines = [("joe", "admin"), ("bea b", "admin"), ("joe", "staff"), ("sha", "admin")];
        assert_eq!(parsed(&GROUPS, text), lines.map(|(user, group)| (user.to_string(), group.to_string())));
    }

    #[test]
    fn directives() {
        crate::testing::check(&[
            ("<Location />\nAuthGroupFile conf/groups\nRequire group a b\n</Location>", ""),
            (
                "<Location />\nAuthGroupFile\n</Location>",
                "AuthGroupFile takes one argument, text file containing group names and member user IDs",
            ),
        ]);
    }
}
