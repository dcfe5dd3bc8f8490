//! Balancers: requests for one URL are spread over several servers.
//!
//! Apache manual: mod_proxy_balancer. mod_proxy spreads the requests; here is the page `balancer-manager`.

mod change;
mod fields;
mod keeper;
mod manager;
mod state;

use conf::ModuleInfo;
use server::{Handler, Hook, Module, Order};

use super::mod_proxy::{Scheme, resolve};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_balancer_module", source: "mod_proxy_balancer.c", linked: false, directives: &[] },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("proxy-balancer-shm"),
        Hook::Check(resolve),
        Hook::HelperProcess(&keeper::HELPER),
        Hook::Handler(
            Order::First,
            Handler::Later {
                claims: manager::claims,
                check: manager::check,
                run: |request| Box::pin(manager::handle(request)),
            },
        ),
    ],
};

/// `balancer://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    name: "balancer",
    module: "proxy_balancer_module",
    port: 0,
    query: true,
    reuse: false,
    upgrade: None,
    path: |_, _| {},
    handler: None,
};
