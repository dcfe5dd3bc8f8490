//! Scripts of a virtual host that run as another user.
//!
//! Apache manual: mod_suexec, suexec. No setuid program is needed: if a virtual host has a `SuexecUserGroup`, the
//! daemons that start scripts are root, make the checks of Apache's suEXEC, and change to the owner before they execute
//! the script.

mod policy;

use std::sync::Arc;

use conf::directive::Args::{Take1, Take2};
use conf::error::Phase;
use conf::{
    Allowed, Cmd, Context, Directive, Error, InArgument as _, ModuleInfo, Outcome, Refusal, Setting, row, settings,
};
use gateway::owners::{self, OwnerRules, Owners, Ownership, RunAs};
use runtime::HelperProcess;
use server::module::finding::{Finding, Topic, Weight};
use server::{Draft, HelperHook, Hook, Module, Server, StartError};
use sys::cred::Identity;

use super::daemons;
use crate::mappers::mod_userdir;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "suexec_module", source: "mod_suexec.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Check(daemons::resolve),
        Hook::Check(is_allowed),
        Hook::OpenLogs(check),
        Hook::Examine(examine),
        Hook::HelperProcess(&HELPER),
    ],
};

const DISABLED: &str = "SuexecUserGroup configured, but suEXEC is disabled: Suexec directive is Off";

/// The directory of scripts with owners, as in Debian's suEXEC.
const ROOT: &str = "/var/www";

static HELPER: HelperHook = helper;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SuexecUserGroup", Allowed::SERVER, Take2(set_owner), "", "User and group for spawned processes").differs("The daemons that start scripts become that user, without a setuid program; the server must be started by root."),
    row("SuexecDocumentRoot", Allowed::GLOBAL, Take1(set_root), ROOT, "The directory above all scripts that run as their owners").syntax("directory-path"),
];

settings! {
    /// The module's settings of a server.
    pub struct SuexecServer {
        root: Setting<String>,
    }
}

fn set_owner(cmd: &mut Cmd<'_>, user: &str, group: &str) -> Outcome {
    let run_as = run_as(cmd, user, group)?;
    cmd.server_set(|s: &mut Ownership| &mut s.run_as, run_as)
}

/// The user and group by name or `#number`, with suEXEC's rules for their scripts.
pub(super) fn run_as(cmd: &Cmd<'_>, user: &str, group: &str) -> Result<RunAs, Refusal> {
    let number = |name: &str| name.strip_prefix('#').and_then(|digits| digits.parse().ok());
    let host = &cmd.context.system;
    let uid = number(user).or_else(|| host.user(user).map(|(uid, _)| uid));
    let uid = uid.ok_or_else(|| format!("AH00543: bad user name {user}")).in_argument(1)?;
    let gid = number(group).or_else(|| host.group(group));
    let gid = gid.ok_or_else(|| format!("AH00544: bad group name {group}")).in_argument(2)?;
    Ok(RunAs { owner: (uid, gid), rules: &RULES })
}

fn set_root(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let path = cmd.context.server_relative(value);
    cmd.server_set(|s: &mut SuexecServer| &mut s.root, path)
}

/// Finds users' directories: Apache runs their scripts as these users.
fn examine(server: &Server, found: &mut dyn FnMut(Finding)) {
    let mut origins: Vec<_> = server.hosts.iter().filter_map(mod_userdir::origin).collect();
    origins.dedup();
    for origin in origins {
        let text = "Scripts in users' directories run as the server's user, and not as these users as in Apache.";
        let instead =
            "Forbid scripts there (Options -ExecCGI), or give each user a virtual host with a SuexecUserGroup";
        found(Finding::new(Weight::Loses, Topic::Script, "UserDir", text).at(origin).instead(instead));
    }
}

/// What suEXEC demands of a script before it runs.
static RULES: OwnerRules = OwnerRules { owners: policy, refusal: policy::refusal };

fn policy(server: &Server, identities: Vec<Identity>) -> Arc<dyn Owners> {
    let root = server.main().settings.get::<SuexecServer>().root.get().map_or(ROOT, String::as_str).into();
    Arc::new(policy::Policy { identities, root })
}

/// `Suexec Off` contradicts an owner, wherever the two are.
pub(super) fn is_allowed(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    match owners::contradiction(draft) {
        Some(origin) => Err(Error::at(Phase::Apply, origin, DISABLED)),
        None => Ok(()),
    }
}

/// Some process must be able to change to an owner: checked before any of this configuration is used.
pub(super) fn check(server: &Server) -> Result<(), StartError> {
    if owners::all(server).is_none() || sys::cred::is_root() {
        return Ok(());
    }
    let said_by = match server.main().settings.get::<Ownership>().others.is_empty() {
        true => "SuexecUserGroup",
        false => "FastCgiServer with -user",
    };
    Err(format!("{said_by} configured, but suEXEC is disabled: the server was not started by root").into())
}

/// Daemons for scripts with owners, unless there are daemons for all scripts.
fn helper(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    if owners::all(server).is_none() {
        return Ok(None);
    }
    runtime::log!("suexec", Notice, "AH01232: suEXEC mechanism enabled (daemons of the server start the scripts)");
    if daemons::start_all_scripts(server) { Ok(None) } else { daemons::open(server, children).map(Some) }
}
