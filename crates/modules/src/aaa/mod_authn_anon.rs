//! Anonymous users, who give their e-mail address as the password, as in FTP.
//!
//! Apache manual: mod_authn_anon.

use conf::directive::Args::{Flag, Iterate};
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, on_or_off, row, settings};
use server::authz::{Authn, AuthnProvider};
use server::{Hook, Module, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authn_anon_module", source: "mod_authn_anon.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authn(&ANON)],
};

const HELP: &str = "Limited to 'on' or 'off'";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("Anonymous", Allowed::AUTH, Iterate(add_user), "", "a space-separated list of user IDs"),
    row("Anonymous_MustGiveEmail", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.must_give = on)), on_or_off(true), HELP),
    row("Anonymous_NoUserId", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.no_user = on)), on_or_off(false), HELP),
    row("Anonymous_VerifyEmail", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.verify = on)), on_or_off(false), HELP),
    row("Anonymous_LogEmail", Allowed::AUTH, Flag(|c, on| set(c, |rules| rules.log = on)), on_or_off(true), HELP),
];

/// The settings of one section. As in Apache, a section with any of these lines inherits none.
#[derive(Clone, Debug)]
pub struct Rules {
    users: Vec<String>,
    any_user: bool,
    no_user: bool,
    must_give: bool,
    verify: bool,
    log: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { users: Vec::new(), any_user: false, no_user: false, must_give: true, verify: false, log: true }
    }
}

settings! {
    /// The module's settings of a section.
    pub struct AnonDir {
        rules: Gathered<Rules>,
    }
}

static ANON: AuthnProvider = AuthnProvider {
    name: "anon",
    check: |request, user, password| Box::pin(async move { check(request, user, password) }),
    realm_hash: None,
};

fn set(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut Rules)) -> Outcome {
    let origin = cmd.origin();
    change(cmd.dir.edit::<AnonDir>().rules.edit(&origin));
    Ok(())
}

fn add_user(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    match name {
        "*" => set(cmd, |rules| rules.any_user = true),
        name => set(cmd, |rules| rules.users.push(name.to_string())),
    }
}

fn check(request: &Request, user: &str, password: &str) -> Authn {
    let Some(rules) = request.dir::<AnonDir>().rules.get() else { return Authn::UserNotFound };
    // Without any names nobody is anonymous, not even a client without a name.
    let is_set_up = rules.any_user || !rules.users.is_empty();
    let is_known = match user {
        "" => rules.no_user,
        user => rules.any_user || rules.users.iter().any(|known| known.eq_ignore_ascii_case(user)),
    };
    if !is_set_up || !is_known {
        return Authn::UserNotFound;
    }
    let is_given = !rules.must_give || !password.is_empty();
    let is_address = !rules.verify || password.contains('@') && password.contains('.');
    if !is_given || !is_address {
        return Authn::Denied;
    }
    if rules.log && request.previous().is_none() && !request.is_subrequest() {
        request.log("authn_anon", Level::Info, format!("AH01672: Anonymous: Passwd <{password}> Accepted"));
    }
    Authn::Granted
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let inside = |line: &str| format!("<Location />\n{line}\n</Location>");
        crate::testing::check(&[
            (&inside("Anonymous"), "Anonymous requires at least one argument, a space-separated list of user IDs"),
            (&inside("Anonymous * guest\nAnonymous_VerifyEmail on"), ""),
            (&inside("Anonymous_LogEmail x"), "Anonymous_LogEmail must be On or Off"),
        ]);
    }
}
