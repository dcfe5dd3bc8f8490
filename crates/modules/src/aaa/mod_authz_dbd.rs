//! `Require dbd-group`, `dbd-login` and `dbd-logout`: groups from a database, and log-ins recorded in it.
//!
//! Apache manual: mod_authz_dbd; answers and messages measured on 2.4.71.

use std::sync::Arc;

use conf::directive::Args::{Flag, Take1};
use conf::words::words;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use server::authz::AuthzCheck::Later;
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Hook, Module, Request};

use super::Text;
use crate::database::{self, Failure, text_of, text_value};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authz_dbd_module", source: "mod_authz_dbd.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authz(&GROUP), Hook::Authz(&LOGIN), Hook::Authz(&LOGOUT)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthzDBDLoginToReferer", Allowed::SECTION, Flag(|c, on| c.set(|d: &mut DbdAuthzDir| &mut d.to_referer, on)), on_or_off(TO_REFERER), "Whether to redirect to referer on successful login"),
    row("AuthzDBDQuery", Allowed::SECTION, Take1(|c, v| set(c, v, |d| &mut d.query)), "", "SQL query for DBD Authz or login"),
    row("AuthzDBDRedirectQuery", Allowed::SECTION, Take1(|c, v| set(c, v, |d| &mut d.redirect)), "", "SQL query to get per-user redirect URL after login"),
];

/// Whether a log-in leads back to the referring page by default.
const TO_REFERER: bool = false;

settings! {
    /// The module's settings of a section: queries are labels of statements.
    pub struct DbdAuthzDir {
        to_referer: Setting<bool> = TO_REFERER,
        query: Setting<String>,
        redirect: Setting<String>,
    }
}

static GROUP: AuthzProvider = AuthzProvider {
    name: "dbd-group",
    parse: |cmd, names| Ok(Arc::new(Text::of_require(cmd, names)?)),
    check: Later(|request, names| Box::pin(is_member(request, names))),
};

static LOGIN: AuthzProvider = AuthzProvider {
    name: "dbd-login",
    parse: |_, _| Ok(Arc::new(())),
    check: Later(|request, _| Box::pin(record(request, "login"))),
};

static LOGOUT: AuthzProvider = AuthzProvider {
    name: "dbd-logout",
    parse: |_, _| Ok(Arc::new(())),
    check: Later(|request, _| Box::pin(record(request, "logout"))),
};

fn set(cmd: &mut Cmd<'_>, sql: &str, field: fn(&mut DbdAuthzDir) -> &mut Setting<String>) -> Outcome {
    if !database::is_loaded(cmd) {
        return Err("You must load mod_dbd to enable AuthzDBD functions".into());
    }
    let label = database::prepare(cmd, "authz_dbd", sql);
    cmd.set(field, label)
}

async fn is_member(request: &mut Request, names: &Parsed) -> Verdict {
    let Some(user) = request.login.user.clone() else { return Verdict::DeniedNoUser };
    let Some(names) = names.downcast_ref::<Text>() else { return Verdict::Error };
    let groups = match groups_of(request, &user).await {
        Ok(groups) => groups,
        Err(text) => {
            request.log("authz_dbd", Level::Error, text);
            return Verdict::Error;
        }
    };
    let what = "AH02590: authz_dbd authorize: require dbd-group: Can't evaluate require expression";
    let Some(names) = names.value(request, "authz_dbd", what) else { return Verdict::Unknown };
    match words(&names).iter().any(|name| groups.contains(name)) {
        true => Verdict::Granted,
        false => Verdict::Denied,
    }
}

/// The first column of all rows. `Err` is the line for the log.
async fn groups_of(request: &Request, user: &str) -> Result<Vec<String>, String> {
    let query = request.dir::<DbdAuthzDir>().query.get().ok_or("AH01649: No query configured for dbd-group!")?;
    let answer = database::query(request, query, vec![text_value(user)]).await;
    let rows = answer.map_err(|failure| match failure {
        Failure::NoConnection(_) => {
            "AH02903: No db handle available for dbd-query! Check your database access".to_string()
        }
        Failure::NoStatement => "AH01650: Error retrieving query for dbd-group!".into(),
        Failure::Query(why) => format!("AH01652: authz_dbd, in groups query for {user} [{why}]"),
    })?;
    Ok(rows.rows.iter().filter_map(|row| text_of(row.first()?)).collect())
}

/// Records that a user logs in or out, and redirects the client.
async fn record(request: &mut Request, action: &str) -> Verdict {
    let Some(user) = request.login.user.clone() else { return Verdict::DeniedNoUser };
    let error = |text: String| request.log("authz_dbd", Level::Error, text);
    let Some(query) = request.dir::<DbdAuthzDir>().query.get() else {
        error(format!("AH01642: No query configured for {action}!"));
        return Verdict::Denied;
    };
    match database::query(request, query, vec![text_value(&user)]).await {
        Ok(rows) if rows.changed == 1 => {}
        Ok(rows) => {
            let text = format!("AH01644: authz_dbd: {action} of user {user} updated {} rows", rows.changed);
            request.log("authz_dbd", Level::Warn, text);
        }
        Err(failure) => {
            error(match failure {
                Failure::NoConnection(_) => {
                    format!("AH02902: No db handle available for {action}! Check your database access")
                }
                Failure::NoStatement => format!("AH01643: Error retrieving Query for {action}!"),
                Failure::Query(why) => format!("AH01645: authz_dbd: query for {action} failed; user {user} [{why}]"),
            });
            return Verdict::Error;
        }
    }
    if let Some(place) = next(request, &user, action).await {
        request.response.set_status(302);
        request.response.err_headers_out.set("Location", place);
    }
    Verdict::Granted
}

/// The client's next page.
async fn next(request: &Request, user: &str, action: &str) -> Option<String> {
    let dir = request.dir::<DbdAuthzDir>();
    if dir.to_referer()
        && let Some(referer) = request.header("Referer")
    {
        return Some(referer.to_string());
    }
    match database::query(request, dir.redirect.get()?, vec![text_value(user)]).await {
        Ok(rows) => text_of(rows.rows.first()?.first()?),
        Err(failure) => {
            let text = match failure {
                Failure::Query(why) => format!("AH01648: authz_dbd/redirect for {action} of {user} [{why}]"),
                Failure::NoConnection(_) | Failure::NoStatement => "AH01646: authz_dbd: no redirect query!".into(),
            };
            request.log("authz_dbd", Level::Error, text);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        crate::testing::check(&[
            ("<Location />\nAuthzDBDQuery a\nAuthzDBDRedirectQuery b\nAuthzDBDLoginToReferer On\n</Location>", ""),
            ("AuthzDBDQuery x", "AuthzDBDQuery not allowed here"),
            (
                "<Location />\nAuthzDBDRedirectQuery\n</Location>",
                "AuthzDBDRedirectQuery takes one argument, SQL query to get per-user redirect URL after login",
            ),
            ("<Location />\nRequire dbd-login x %{\nRequire dbd-group\n</Location>", ""),
        ]);
    }
}
