//! Passwords from a DBM file, as `htdbm` writes it.
//!
//! Apache manual: mod_authn_dbm.

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, settings};
use server::authz::{Authn, AuthnProvider, RealmDigest};
use server::{Hook, Module, Request};

use super::passwords::{check_stored, digits};
use super::{dbm, mod_authn_socache};
use crate::row;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "authn_dbm_module", source: "mod_authn_dbm.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Authn(&DBM)],
};

/// What the tables of both modules say of their types.
pub(super) const TYPES: &str = "Here `default` is `DB`, as in Debian's Apache. Files of Berkeley DB are read if they are hashes, as those of `htdbm` are, and those of GDBM as machines of 64 bits write them. Those of more than 64 MB are refused, as is `NDBM`.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthDBMUserFile", Allowed::AUTH, Take1(|c, v| { let path = c.context.server_relative(v); set(c, |rules| rules.path = Some(path)) }), "", "dbm database file containing user IDs and passwords"),
    row("AuthDBMType", Allowed::AUTH, Take1(|c, v| set(c, |rules| rules.kind = v.to_string())), "default", "what type of DBM file the user file is").differs(TYPES),
];

/// What one section says. As in Apache, a section that says anything says all of it.
#[derive(Clone, Debug)]
pub struct Rules {
    path: Option<String>,
    kind: String,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { path: None, kind: "default".into() }
    }
}

settings! {
    /// The module's settings of a section.
    pub struct DbmDir {
        rules: Gathered<Rules>,
    }
}

static DBM: AuthnProvider = AuthnProvider {
    name: "dbm",
    check: |request, user, password| Box::pin(check(request, user, password)),
    realm_hash: Some(|request, user, realm, digest| Box::pin(realm_hash(request, user, realm, digest))),
};

fn set(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut Rules)) -> Outcome {
    let origin = cmd.origin();
    change(cmd.dir.edit::<DbmDir>().rules.edit(&origin));
    Ok(())
}

/// What stands behind a key, up to a comment.
async fn value(request: &Request, key: &str) -> Result<String, Authn> {
    let rules = request.dir::<DbmDir>().rules.get().cloned().unwrap_or_default();
    let path = rules.path.as_deref().unwrap_or("(null)");
    let found = match rules.path {
        Some(_) => dbm::get(request, &rules.kind, path, &[key]).await,
        None => Err(std::io::ErrorKind::NotFound.into()),
    };
    match found {
        Ok(Some(value)) => Ok(value.split(':').next().unwrap_or_default().to_string()),
        Ok(None) => Err(Authn::UserNotFound),
        Err(error) => {
            let text = format!("AH10285: could not open dbm (type {}) file: {path}", rules.kind);
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
    mod_authn_socache::remember(request, "dbm", user, Some(realm), &hash);
    Ok(hash)
}
