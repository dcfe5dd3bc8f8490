//! Passwords from a database.
//!
//! Apache manual: mod_authn_dbd; variables and messages measured on 2.4.71.

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::{Hook, Module, Request};

use super::mod_authn_socache;
use super::passwords::{check_stored, digits};
use crate::database::{self, Failure, Rows, text_of, text_value};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authn_dbd_module", source: "mod_authn_dbd.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authn(&DBD)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthDBDUserPWQuery", Allowed::SECTION, Take1(|c, v| set(c, v, |d| &mut d.password)), "", "Query used to fetch password for user"),
    row("AuthDBDUserRealmQuery", Allowed::SECTION, Take1(|c, v| set(c, v, |d| &mut d.realm)), "", "Query used to fetch password for user+realm"),
];

settings! {
    /// The module's settings of a section: the labels of statements.
    pub struct DbdDir {
        password: Setting<String>,
        realm: Setting<String>,
    }
}

static DBD: AuthnProvider = AuthnProvider {
    name: "dbd",
    check: |request, user, password| Box::pin(check(request, user, password)),
    realm_hash: Some(|request, user, realm, digest| Box::pin(realm_hash(request, user, realm, digest))),
};

fn set(cmd: &mut Cmd<'_>, sql: &str, field: fn(&mut DbdDir) -> &mut Setting<String>) -> Outcome {
    if !database::is_loaded(cmd) {
        return Err("You must load mod_dbd to enable AuthDBD functions".into());
    }
    let label = database::prepare(cmd, "authn_dbd", sql);
    cmd.set(field, label)
}

async fn check(request: &mut Request, user: &str, password: &str) -> Authn {
    let label = request.dir::<DbdDir>().password.get().cloned();
    let found = look_up(request, label, &[user], &["AH01653", "AH01654", "AH01655", "AH01656"]).await;
    match found {
        Ok(stored) => check_stored(request, "authn_dbd", user, password, &stored).await,
        Err(answer) => answer,
    }
}

async fn realm_hash(request: &mut Request, user: &str, realm: &str, digest: RealmDigest) -> Result<String, Authn> {
    let label = request.dir::<DbdDir>().realm.get().cloned();
    let hash = look_up(request, label, &[user, realm], &["AH01658", "AH01659", "AH01660", "AH01661"]).await?;
    mod_authn_socache::remember(request, "dbd", user, Some(realm), &hash).await;
    match hash.len() == digits(digest) {
        true => Ok(hash),
        false => Err(Authn::UserNotFound),
    }
}

/// The first column of the first row; the others become variables. `numbers` of the messages: no connection, no query,
/// no such statement, and failure.
async fn look_up(
    request: &mut Request,
    label: Option<String>,
    keys: &[&str],
    numbers: &[&str; 4],
) -> Result<String, Authn> {
    let name = keys.join(":");
    let query = if keys.len() == 1 { "AuthDBDUserPWQuery" } else { "AuthDBDUserRealmQuery" };
    let log = |text: String| {
        request.log("authn_dbd", Level::Error, text);
        Err(Authn::Error)
    };
    let Some(label) = label else {
        return log(format!("{}: No {query} has been specified", numbers[1]));
    };
    let values = keys.iter().map(|key| text_value(key)).collect();
    match database::query(request, &label, values).await {
        Ok(rows) => first(request, rows).ok_or(Authn::UserNotFound),
        Err(Failure::NoConnection(_)) => {
            log(format!("{}: Failed to acquire database connection to look up user '{name}'", numbers[0]))
        }
        Err(Failure::NoStatement) => {
            log(format!("{}: A prepared statement could not be found for {query} with the key '{label}'", numbers[2]))
        }
        Err(Failure::Query(why)) => {
            log(format!("{}: Query execution error looking up '{name}' in database [{why}]", numbers[3]))
        }
    }
}

fn first(request: &mut Request, rows: Rows) -> Option<String> {
    let row = rows.rows.first()?;
    let stored = text_of(row.first()?)?;
    for (name, value) in rows.columns.iter().zip(row).skip(1) {
        let letter = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte.to_ascii_uppercase()) } else { '_' };
        let name: String = name.bytes().map(letter).collect();
        request.env.set(format!("AUTHENTICATE_{name}"), text_of(value).unwrap_or_default());
    }
    Some(stored)
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let all = "<Location />\nAuthDBDUserPWQuery \"select %s\"\nAuthDBDUserRealmQuery \"select %s %s\"\n</Location>";
        crate::testing::check(&[
            (all, ""),
            ("AuthDBDUserPWQuery x", "AuthDBDUserPWQuery not allowed here"),
            (
                "<Location />\nAuthDBDUserPWQuery\n</Location>",
                "AuthDBDUserPWQuery takes one argument, Query used to fetch password for user",
            ),
        ]);
    }
}
