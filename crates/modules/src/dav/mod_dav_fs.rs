//! WebDAV for files: the place of their locks, and the names hidden from clients.
//!
//! Apache manual: mod_dav_fs.

use std::path::Path;
use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, row};
use runtime::HelperProcess;
use server::PhaseHook::Now;
use server::{Flow, HelperHook, Hook, Module, Order, Phase, Request, Server};
use sys::cred::Identity;

use super::settings::FsServer;
use super::tree;
use crate::run_directory;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "dav_fs_module", source: "mod_dav_fs.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Fixups, Order::First, Now(hide)),
        Hook::Provider("dav", PROVIDER),
        Hook::HelperProcess(&MAKE_DIRECTORIES),
    ],
};

static MAKE_DIRECTORIES: HelperHook = make_directories;

/// The provider's name after `Dav`.
pub(super) const PROVIDER: &str = "filesystem";
/// The provider's name for its properties in the field `DAV`.
pub(super) const PROPERTIES: &str = "<http://apache.org/dav/propset/fs/1>";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DAVLockDB", Allowed::SERVER, Take1(set_lock_database), "", "specify a lock database").differs("The file's name is this one with .locks appended, and it is not Apache's."),
];

fn set_lock_database(cmd: &mut Cmd<'_>, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    cmd.server_set(|s: &mut FsServer| &mut s.lock_database, path)
}

/// Makes the directories of the files of locks, for the children. It needs no process: only this hook knows their user. A
/// directory that cannot be made is reported by the first request that needs it.
fn make_directories(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let files = server.hosts.iter().filter_map(|host| host.settings.get::<FsServer>().lock_database.get());
    for file in files {
        if let Err(error) = run_directory::make("dav_fs", Path::new(file), children) {
            runtime::log!("dav_fs", Warn, "{}: the directory of {file} cannot be made", sys::describe(&error));
        }
    }
    Ok(None)
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
