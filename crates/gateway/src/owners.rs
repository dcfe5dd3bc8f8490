//! The users that scripts run as. Mostly that is the server's user. A module may have those of a virtual host run as
//! another user: it sets that in [`Ownership`], and every start of a script follows it.

use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Arc;

use conf::{Listed, Origin, Setting, settings};
use server::{Draft, Request, Server};
use sys::cred::{Identity, User, user_by_id};
use sys::file::OpenDirectory;

use crate::environment::Environment;

/// The user and group that a script runs as, by number, if they are not the server's.
pub type Owner = (u32, u32);

/// The default of [`Ownership::allowed`].
pub const ALLOWED: bool = true;

settings! {
    /// The users that the scripts of a server run as.
    pub struct Ownership {
        /// Whether any may run as another user than the server. The main server's setting counts.
        pub allowed: Setting<bool> = ALLOWED,
        /// Unset: as the server's user.
        pub run_as: Setting<RunAs>,
        /// Owners of single applications.
        pub others: Listed<RunAs>,
    }
}

/// The user a script runs as, and the rules that decide whether it may.
#[derive(Clone, Copy, Debug)]
pub struct RunAs {
    /// Its owner.
    pub owner: Owner,
    /// The rules of the module that set it.
    pub rules: &'static OwnerRules,
}

/// A module's rules for scripts that run as their owners.
#[derive(Debug)]
pub struct OwnerRules {
    /// Makes the rules of a configuration, which names these owners.
    pub owners: fn(&Server, Vec<Identity>) -> Arc<dyn Owners>,
    /// The error log's text for a script that may not run as its owner, by the number from [`Owners::admit`].
    pub refusal: fn(u64) -> String,
}

/// The users that may own scripts. The daemons that ask are root, and change to the owner only on the way into the
/// script.
pub trait Owners: fmt::Debug + Send + Sync {
    /// Checks whether a program may run as that owner, and returns what to execute. `Err`: the reason, as a number.
    fn admit(&self, program: &CStr, owner: Owner) -> Result<Admitted<'_>, u64>;

    /// The part of an environment that a script running as its owner keeps.
    fn environment(&self, environment: &Environment) -> Environment;
}

/// A program that may run as its owner, and the objects that were checked.
#[derive(Debug)]
pub struct Admitted<'a> {
    /// The owner.
    pub identity: &'a Identity,
    /// The directory that the program works in.
    pub directory: OpenDirectory,
    /// The program, in that directory.
    pub name: CString,
}

/// If a configuration says both that scripts run as another user and that none do: the line that names the user.
pub fn contradiction(draft: &Draft) -> Option<&Origin> {
    let allowed = draft.main.get::<Ownership>().allowed();
    draft.servers().filter(|_| !allowed).find_map(|server| {
        let own = server.get::<Ownership>();
        own.run_as.origin().or_else(|| own.others.entries().first().map(|(_, origin)| origin))
    })
}

/// The owner that the script of a request runs as; `None`: the server's user.
pub(crate) fn run_as(request: &Request) -> Option<RunAs> {
    request.host::<Ownership>().run_as.get().copied()
}

/// The owner of the scripts of a request; `None`: they run as the server's user.
pub fn of(request: &Request) -> Option<Owner> {
    run_as(request).map(|run_as| run_as.owner)
}

/// All owners of scripts, if there are any.
pub fn all(server: &Server) -> Option<Arc<dyn Owners>> {
    let of_hosts = || server.hosts.iter().filter_map(|host| host.settings.get::<Ownership>().run_as.get());
    let run_as = || of_hosts().chain(server.main().settings.get::<Ownership>().others.iter());
    let rules = run_as().next()?.rules;
    let mut identities: Vec<Identity> = Vec::new();
    for (uid, gid) in run_as().map(|run_as| run_as.owner) {
        if !identities.iter().any(|known| (known.uid, known.gid) == (uid, gid)) {
            let unnamed = User { uid, gid, name: String::new(), home: String::new() };
            identities.push(Identity::new(&user_by_id(uid).ok().flatten().unwrap_or(unnamed), gid));
        }
    }
    Some((rules.owners)(server, identities))
}
