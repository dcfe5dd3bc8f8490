//! The user and group of the children.
//!
//! Apache manual: mod_unixd.

use conf::directive::Args::{Flag, Take1};
use conf::error::{PROGRAM, Phase};
use conf::{Allowed, Cmd, Context, Directive, Error, ModuleInfo, Outcome, on_or_off, row};
use gateway::owners::{self, Ownership};
use server::settings::user::{UserSettings, identity};
use server::{Draft, Hook, Module, Server};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "unixd_module", source: "mod_unixd.c", linked: true, directives: DIRECTIVES },
    hooks: &[Hook::Check(check), Hook::Start(refuse_chroot)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("User", Allowed::GLOBAL, Take1(|c, v| { let v = v.to_string(); c.server_set(|s: &mut UserSettings| &mut s.user, v) }), "#-1", "Effective user id for this server"),
    row("Group", Allowed::GLOBAL, Take1(|c, v| { let v = v.to_string(); c.server_set(|s: &mut UserSettings| &mut s.group, v) }), "#-1", "Effective group id for this server"),
    row("ChrootDir", Allowed::GLOBAL, Take1(set_chroot), "", "The directory to chroot(2) into").differs("If root starts the server, this line stops the start: the server cannot change its root directory. A service manager can (`RootDirectory=` of systemd)."),
    row("Suexec", Allowed::GLOBAL, Flag(|c, on| c.server_set(|s: &mut Ownership| &mut s.allowed, on)), on_or_off(owners::ALLOWED), "Enable or disable suEXEC support").differs("The server needs no setuid program, so the default is On."),
];

fn set_chroot(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if !cmd.context.system.is_dir(value) {
        return Err("ChrootDir must be a valid directory".into());
    }
    let path = value.to_string();
    cmd.server_set(|s: &mut UserSettings| &mut s.chroot, path)
}

/// A configuration that asks for a chroot is refused, because it would otherwise run unconfined. If nobody could change
/// the root, Apache does not either.
fn refuse_chroot(server: &Server) -> Result<(), String> {
    let chroot = &server.main().settings.get::<UserSettings>().chroot;
    match chroot.origin().filter(|_| sys::cred::is_root()) {
        Some(origin) => Err(format!(
            "ChrootDir at {origin}: the server cannot change its root directory; let a service manager do it \
             (RootDirectory= of systemd), and remove this line"
        )),
        None => Ok(()),
    }
}

fn check(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    identity(&draft.main, &*context.system).map(drop).map_err(|error| Error::new(Phase::Apply, error.text(PROGRAM)))
}
