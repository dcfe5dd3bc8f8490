//! WebSockets to servers behind this one, by the URLs `ws://` and `wss://`.
//!
//! Apache manual: mod_proxy_wstunnel. As since Apache 2.4.47, mod_proxy_http does the work: a request that asks for no
//! WebSocket is passed on as any other.

use conf::directive::Args::Flag;
use conf::{Allowed, Directive, ModuleInfo, row};
use server::Module;

use super::mod_proxy::Scheme;
use super::mod_proxy_http;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "proxy_wstunnel_module",
        source: "mod_proxy_wstunnel.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[],
};

/// `ws://`, for mod_proxy.
pub(super) const SCHEME: Scheme =
    Scheme { name: "ws", module: "proxy_wstunnel_module", upgrade: Some("WebSocket"), ..mod_proxy_http::SCHEME };

/// `wss://`, for mod_proxy.
pub(super) const SECURE_SCHEME: Scheme = Scheme { name: "wss", port: 443, ..SCHEME };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ProxyWebsocketFallbackToProxyHttp", Allowed::CONF, Flag(|_, _| Ok(())), "On", "whether to let mod_proxy_http handle the upgrade and tunneling, On by default").without_effect("The module mod_proxy_http always does the work."),
];
