//! Access control: access, authentication, authorization.

pub(crate) mod dbm;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod passwords;

pub mod mod_access_compat;
pub mod mod_allowmethods;
pub mod mod_auth_basic;
pub mod mod_auth_digest;
pub mod mod_auth_form;
pub mod mod_authn_anon;
pub mod mod_authn_core;
pub mod mod_authn_dbd;
pub mod mod_authn_dbm;
pub mod mod_authn_file;
pub mod mod_authn_socache;
pub mod mod_authnz_fcgi;
pub mod mod_authnz_ldap;
pub mod mod_authz_core;
pub mod mod_authz_dbd;
pub mod mod_authz_dbm;
pub mod mod_authz_groupfile;
pub mod mod_authz_host;
pub mod mod_authz_owner;
pub mod mod_authz_user;
pub mod mod_client_limit;

use conf::expr::{ExprError, StringExpr};
use conf::{Cmd, Level, Origin};
use server::Request;

/// A text with variables in it, with its line.
#[derive(Clone, Debug)]
struct Text {
    expr: StringExpr,
    origin: Origin,
}

impl Text {
    fn parse(cmd: &Cmd<'_>, text: &str) -> Result<Text, ExprError> {
        Ok(Text { expr: StringExpr::parse_with(text, cmd.expr_options())?, origin: cmd.origin() })
    }

    /// The rest of a `Require` line.
    fn of_require(cmd: &Cmd<'_>, text: &str) -> Result<Text, String> {
        Text::parse(cmd, text).map_err(|why| in_require_line(&why))
    }

    /// The value; `None` if there is none, which is logged; `what` is the module's own message for that.
    fn value(&self, request: &Request, module: &str, what: &str) -> Option<String> {
        match server::evaluate_string(request, &self.expr) {
            Ok(text) => Some(text),
            Err(why) => {
                request.not_evaluated(module, &why, &self.origin);
                request.log(module, Level::Error, format!("{what}: {why}"));
                None
            }
        }
    }
}

fn in_require_line(why: &ExprError) -> String {
    format!("Cannot parse expression in require line: {why}")
}

/// The name of a denied request in messages: its file, or its URL path if it has none.
pub(crate) fn denied_thing(request: &Request) -> String {
    if request.mapped.filename.is_empty() {
        format!("uri {}", request.data.uri)
    } else {
        request.mapped.filename.clone()
    }
}
