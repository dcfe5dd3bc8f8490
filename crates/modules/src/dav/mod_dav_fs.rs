//! WebDAV for files: the place of their locks, and the names hidden from clients.
//!
//! Apache manual: mod_dav_fs.

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, settings};
use server::PhaseHook::Now;
use server::{Flow, Hook, Module, Order, Request};

use super::locks::Database;
use super::tree;
use crate::row;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "dav_fs_module", source: "mod_dav_fs.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Fixups(Order::First, Now(hide)), Hook::Provider("dav", PROVIDER)],
};

/// Its name after `Dav`.
pub(super) const PROVIDER: &str = "filesystem";
/// Its name for its properties in `DAV`.
pub(super) const PROPERTIES: &str = "<http://apache.org/dav/propset/fs/1>";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DAVLockDB", Allowed::SERVER, Take1(set_lock_database), "", "specify a lock database").differs("The file's name is this one with .locks appended, and it is not Apache's."),
];

settings! {
    /// The module's settings of a virtual host.
    pub(super) struct FsServer {
        lock_database: Setting<String>,
    }
}

impl FsServer {
    /// The file of locks, if there is one.
    pub(super) fn lock_database(&self) -> Option<Database> {
        self.lock_database.get().map(|path| Database::new(path))
    }
}

fn set_lock_database(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    cmd.server_set(|s: &mut FsServer| &mut s.lock_database, path)
}

/// Hides the server's own files beside those of clients.
fn hide(request: &mut Request) -> Flow {
    let path = format!("{}{}", request.mapped.filename, request.mapped.path_info);
    if !tree::is_state_path(&path) {
        return Flow::Declined;
    }
    let text = format!("AH10619: access to .DAV state directory denied for {path}");
    request.log("dav_fs", Level::Error, text);
    Flow::Status(403)
}
