//! Passwords from a DBM file, as `htdbm` writes it.
//!
//! Apache manual: mod_authn_dbm.

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, row, settings};
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::{Hook, Module, Request};

use super::passwords::{check_stored, digits};
use super::{dbm, mod_authn_socache};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authn_dbm_module", source: "mod_authn_dbm.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authn(&DBM)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthDBMUserFile", Allowed::AUTH, Take1(|c, v| { let path = c.context.server_relative(v); set(c, |file| file.path = Some(path)) }), "", "dbm database file containing user IDs and passwords"),
    row("AuthDBMType", Allowed::AUTH, Take1(|c, v| set(c, |file| file.kind = v.to_string())), "default", "what type of DBM file the user file is").differs(dbm::TYPES),
];

settings! {
    /// The module's settings of a section.
    pub struct DbmDir {
        // As in Apache, a section with any of these lines inherits none.
        file: Gathered<dbm::Named>,
    }
}

static DBM: AuthnProvider = AuthnProvider {
    name: "dbm",
    check: |request, user, password| Box::pin(check(request, user, password)),
    realm_hash: Some(|request, user, realm, digest| Box::pin(realm_hash(request, user, realm, digest))),
};

fn set(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut dbm::Named)) -> Outcome {
    let origin = cmd.origin();
    change(cmd.dir.edit::<DbmDir>().file.edit(&origin));
    Ok(())
}

/// The value of a key, up to a comment.
async fn value(request: &Request, key: &str) -> Result<String, Authn> {
    let file = request.dir::<DbmDir>().file.get().cloned().unwrap_or_default();
    match file.get(request, &[key]).await {
        Ok(Some(value)) => Ok(value.split(':').next().unwrap_or_default().to_string()),
        Ok(None) => Err(Authn::UserNotFound),
        Err(error) => {
            let path = file.path.as_deref().unwrap_or("(null)");
            let text = format!("AH10285: could not open dbm (type {}) file: {path}", file.kind);
            request.log_os("authn_dbm", Level::Error, &error, text);
            Err(Authn::Error)
        }
    }
}

async fn check(request: &Request, user: &str, password: &str) -> Authn {
    match value(request, user).await {
        Ok(stored) => check_stored(request, "authn_dbm", user, password, &stored).await,
        Err(answer) => answer,
    }
}

async fn realm_hash(request: &Request, user: &str, realm: &str, digest: RealmDigest) -> Result<String, Authn> {
    let hash = value(request, &format!("{user}:{realm}")).await?;
    let is_sha256 = hash.len() == digits(RealmDigest::Sha256);
    if is_sha256 != (digest == RealmDigest::Sha256) {
        return Err(Authn::UserNotFound);
    }
    mod_authn_socache::remember(request, "dbm", user, Some(realm), &hash).await;
    Ok(hash)
}
