//! The services of authorization and authentication modules for each other: providers, found by name.

use std::any::Any;
use std::sync::Arc;

use conf::{Cmd, Refusal};

use crate::request::Request;
use crate::request::flow::Waiting;

/// The verdict of a `Require` line on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No.
    Denied,
    /// No, as long as nobody has logged in; a user might change it.
    DeniedNoUser,
    /// Yes.
    Granted,
    /// No opinion.
    Neutral,
    /// The verdict could not be determined, and the cause was logged. It counts as a refusal, unless another line
    /// admits the request.
    Unknown,
    /// The check itself failed.
    Error,
}

/// The arguments of a `Require` line, parsed once by its provider.
pub type Parsed = Arc<dyn Any + Send + Sync>;

/// A kind of `Require` line (Apache manual, mod_authz_core).
pub struct AuthzProvider {
    /// The word after `Require`.
    pub name: &'static str,
    /// Parses the rest of the line; `Err` is the message of a syntax error.
    pub parse: fn(&mut Cmd<'_>, &str) -> Result<Parsed, Refusal>,
    /// Decides.
    pub check: AuthzCheck,
}

/// How a kind of `Require` line decides.
#[derive(Clone, Copy)]
pub enum AuthzCheck {
    /// At once.
    Now(fn(&mut Request, &Parsed) -> Verdict),
    /// Possibly after waiting, for a name server or a file.
    Later(for<'a> fn(&'a mut Request, &'a Parsed) -> Waiting<'a, Verdict>),
    /// One or the other, depending on the arguments.
    Either {
        /// Whether it may have to wait.
        waits: fn(&Parsed) -> bool,
        /// Decides at once.
        now: fn(&mut Request, &Parsed) -> Verdict,
        /// Decides, possibly after waiting.
        later: for<'a> fn(&'a mut Request, &'a Parsed) -> Waiting<'a, Verdict>,
    },
}

impl AuthzCheck {
    /// Whether a line with these arguments may have to wait.
    pub fn waits(&self, arguments: &Parsed) -> bool {
        match self {
            AuthzCheck::Now(_) => false,
            AuthzCheck::Later(_) => true,
            AuthzCheck::Either { waits, .. } => waits(arguments),
        }
    }

    /// Decides.
    pub async fn ask(&self, request: &mut Request, arguments: &Parsed) -> Verdict {
        match self {
            AuthzCheck::Now(now) => now(request, arguments),
            AuthzCheck::Either { waits, now, .. } if !waits(arguments) => now(request, arguments),
            AuthzCheck::Later(later) | AuthzCheck::Either { later, .. } => later(request, arguments).await,
        }
    }
}

/// The result of a password check.
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
    /// Too many passwords are being checked already.
    Busy,
}

/// Checks the password of a user.
pub type PasswordCheck = for<'a> fn(&'a mut Request, user: &'a str, password: &'a str) -> Waiting<'a, Authn>;
/// Finds the digest of a user in a realm, as hexadecimal digits of `user:realm:password`.
pub type RealmHash =
    for<'a> fn(&'a mut Request, user: &'a str, realm: &'a str, RealmDigest) -> Waiting<'a, Result<String, Authn>>;

/// A way to make a digest of user, realm and password (RFC 7616 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealmDigest {
    /// The digest of RFC 2617, and of `htdigest`.
    Md5,
    /// The stronger one.
    Sha256,
}

/// A source of passwords (Apache manual, mod_authn_file).
pub struct AuthnProvider {
    /// The word in `AuthBasicProvider`.
    pub name: &'static str,
    /// Checks a password.
    pub check: PasswordCheck,
    /// Finds the stored digest if the client does not send the password; `None` if this source has none. `Err` says why
    /// there is no answer.
    pub realm_hash: Option<RealmHash>,
}
