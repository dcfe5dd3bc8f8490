//! Locks for WebDAV repositories that have none of their own.
//!
//! Apache manual: mod_dav_lock. Files have locks of their own (`DavLockDB`), and there is no other repository.

use conf::directive::Args::Take1;
use conf::{Allowed, Directive, ModuleInfo, row};
use server::{Hook, Module};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "dav_lock_module", source: "mod_dav_lock.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Provider("dav-lock", "generic")],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DAVGenericLockDB", Allowed::SECTION, Take1(|_, _| Ok(())), "", "specify a lock database").without_effect("It is for the repositories of other modules; the locks of files are in DavLockDB."),
];
