//! `Require user` and `Require valid-user`.
//!
//! Apache manual: mod_authz_user.

use std::sync::Arc;

use conf::words::words;
use conf::{Level, ModuleInfo};
use server::authz::AuthzCheck::Now;
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Hook, Module, Request};

use super::Text;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authz_user_module", source: "mod_authz_user.c", linked: false, directives: &[] },
    hooks: &[Hook::Authz(&USER), Hook::Authz(&VALID_USER)],
};

static USER: AuthzProvider = AuthzProvider {
    name: "user",
    parse: |cmd, names| Ok(Arc::new(Text::of_require(cmd, names)?)),
    check: Now(is_named),
};

static VALID_USER: AuthzProvider = AuthzProvider {
    name: "valid-user",
    parse: |_, _| Ok(Arc::new(())),
    check: Now(|request, _| if request.login.user.is_some() { Verdict::Granted } else { Verdict::DeniedNoUser }),
};

fn is_named(request: &mut Request, names: &Parsed) -> Verdict {
    let Some(user) = &request.login.user else { return Verdict::DeniedNoUser };
    let Some(names) = names.downcast_ref::<Text>() else { return Verdict::Error };
    let what = "AH02594: authz_user authorize: require user: Can't evaluate require expression";
    let Some(names) = names.value(request, "authz_user", what) else { return Verdict::Unknown };
    if words(&names).contains(user) {
        return Verdict::Granted;
    }
    let text = format!(
        "AH01663: access to {} failed, reason: user '{user}' does not meet 'require'ments for user to be allowed access",
        request.data.uri
    );
    request.log("authz_user", Level::Debug, text);
    Verdict::Denied
}
