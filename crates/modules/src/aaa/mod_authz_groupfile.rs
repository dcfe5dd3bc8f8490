//! `Require group`: groups from a text file.
//!
//! Apache manual: mod_authz_groupfile.

use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::words::words;
use conf::{Allowed, Directive, Level, ModuleInfo, Setting, settings};
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Hook, Module, Request};

use super::Text;
use super::files::Files;
use crate::row;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo {
        id: "authz_groupfile_module",
        source: "mod_authz_groupfile.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::Authz(&GROUP)],
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

/// The groups of each user, in lower case: names of groups compare without case, as in Apache.
static GROUPS: Files = Files::new(|line, see| {
    let (name, users) = line.split_once(':').unwrap_or((line, ""));
    let Some(name) = name.split_ascii_whitespace().next() else { return };
    let name = name.to_ascii_lowercase();
    words(users).iter().for_each(|user| see(user, &name));
});

async fn is_member(request: &Request, names: &Parsed) -> Verdict {
    let log = |level, text: String| request.log("authz_groupfile", level, text);
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let Some(names) = names.downcast_ref::<Text>() else { return Verdict::Error };
    let Some(path) = request.dir::<GroupDir>().path.get() else {
        log(Level::Error, "AH01664: No group file was specified in the configuration".into());
        return Verdict::Denied;
    };
    let groups = match GROUPS.get(request, path, user).await {
        Ok(groups) => groups,
        Err(error) => {
            let text = format!("AH01665: Could not open group file: {path}");
            request.log_os("authz_groupfile", Level::Error, &error, text);
            return Verdict::Denied;
        }
    };
    let failed = format!("Authorization of user {user} to access {} failed, reason: user", request.asked.uri);
    let Some(own) = groups else {
        log(Level::Debug, format!("AH01666: {failed} doesn't appear in group file ({path})."));
        return Verdict::Denied;
    };
    let what = "AH02592: authz_groupfile authorize: require group: Can't evaluate require expression";
    let Some(names) = names.value(request, "authz_groupfile", what) else { return Verdict::Denied };
    if words(&names).iter().any(|name| own.contains(&name.to_ascii_lowercase())) {
        return Verdict::Granted;
    }
    log(Level::Debug, format!("AH01667: {failed} is not part of the 'require'ed group(s)."));
    Verdict::Denied
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
