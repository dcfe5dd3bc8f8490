//! The modules that say how balancers elect members, and those that hold what balancers share: mod_proxy does the work of all.
//!
//! Apache manual: mod_lbmethod_byrequests, mod_lbmethod_bytraffic, mod_lbmethod_bybusyness, mod_slotmem_shm, mod_slotmem_plain.

use conf::ModuleInfo;
use server::{Hook, Module};

/// A module without directives, whose presence allows something.
const fn module(id: &'static str, source: &'static str, hooks: &'static [Hook]) -> Module {
    Module { info: ModuleInfo { id, source, linked: false, directives: &[] }, hooks }
}

pub(crate) static BY_REQUESTS: Module = module(
    "lbmethod_byrequests_module",
    "mod_lbmethod_byrequests.c",
    &[Hook::Repeatable, Hook::Provider("proxylbmethod", "byrequests")],
);
pub(crate) static BY_TRAFFIC: Module = module(
    "lbmethod_bytraffic_module",
    "mod_lbmethod_bytraffic.c",
    &[Hook::Repeatable, Hook::Provider("proxylbmethod", "bytraffic")],
);
pub(crate) static BY_BUSYNESS: Module = module(
    "lbmethod_bybusyness_module",
    "mod_lbmethod_bybusyness.c",
    &[Hook::Repeatable, Hook::Provider("proxylbmethod", "bybusyness")],
);
pub(crate) static SLOTMEM_SHM: Module =
    module("slotmem_shm_module", "mod_slotmem_shm.c", &[Hook::Repeatable, Hook::Provider("slotmem", "shm")]);
pub(crate) static SLOTMEM_PLAIN: Module =
    module("slotmem_plain_module", "mod_slotmem_plain.c", &[Hook::Repeatable, Hook::Provider("slotmem", "plain")]);
