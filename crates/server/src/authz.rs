//! What authorization and authentication modules offer each other: providers, found by name.

use std::any::Any;
use std::sync::Arc;

use conf::{Cmd, Face};

use crate::module::{Hook, known};
use crate::request::Request;

/// What a `Require` line says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No.
    Denied,
    /// No as long as nobody has logged in; a user might change it.
    DeniedNoUser,
    /// Yes.
    Granted,
    /// Says nothing.
    Neutral,
    /// The check itself failed.
    Error,
}

/// The arguments of a `Require` line, parsed once by its provider.
pub type Parsed = Arc<dyn Any + Send + Sync>;

/// A kind of `Require` line (Apache manual, mod_authz_core).
pub struct AuthzProvider {
    /// The word behind `Require`.
    pub name: &'static str,
    /// Parses the rest of the line; `Err` is the message of a syntax error.
    pub parse: fn(&mut Cmd<'_>, &str) -> Result<Parsed, String>,
    /// Decides.
    pub check: fn(&mut Request, &Parsed) -> Verdict,
}

/// What a password check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authn {
    /// The password is right.
    Granted,
    /// The password is wrong.
    Denied,
    /// There is no such user here.
    UserNotFound,
    /// The check itself failed; the cause was logged.
    Error,
}

/// A source of passwords (Apache manual, mod_authn_file).
pub struct AuthnProvider {
    /// The word in `AuthBasicProvider`.
    pub name: &'static str,
    /// Checks a password.
    pub check: fn(&mut Request, user: &str, password: &str) -> Authn,
}

/// The `Require` provider of that name among the loaded modules, without difference of case.
pub fn find_authz(loaded: &[&'static Face], name: &str) -> Option<&'static AuthzProvider> {
    hooks(loaded).find_map(|hook| match hook {
        Hook::Authz(provider) if provider.name.eq_ignore_ascii_case(name) => Some(*provider),
        _ => None,
    })
}

/// The password provider of that name among the loaded modules.
pub fn find_authn(loaded: &[&'static Face], name: &str) -> Option<&'static AuthnProvider> {
    hooks(loaded).find_map(|hook| match hook {
        Hook::Authn(provider) if provider.name.eq_ignore_ascii_case(name) => Some(*provider),
        _ => None,
    })
}

fn hooks<'a>(loaded: &'a [&'static Face]) -> impl Iterator<Item = &'static Hook> + 'a {
    let is_loaded = |id: &str| loaded.iter().any(|face| face.id == id);
    known().iter().filter(move |module| is_loaded(module.face.id)).flat_map(|module| module.hooks)
}

conf::settings! {
    /// `Satisfy` of mod_access_compat, which the core has to know.
    pub struct Satisfy {
        /// Either the host check or the user is enough.
        pub any: conf::Setting<bool>,
    }
}
