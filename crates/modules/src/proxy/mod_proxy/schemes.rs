//! The protocols for backends: one line for each module that implements one.

use server::Request;

use super::scheme::Scheme;
use crate::proxy::{
    mod_proxy_ajp, mod_proxy_balancer, mod_proxy_fcgi, mod_proxy_http, mod_proxy_http2, mod_proxy_scgi,
    mod_proxy_uwsgi, mod_proxy_wstunnel,
};

/// The protocols for backends.
pub(crate) static SCHEMES: &[&Scheme] = &[
    &mod_proxy_ajp::SCHEME,
    &mod_proxy_balancer::SCHEME,
    &mod_proxy_fcgi::SCHEME,
    &mod_proxy_http::SCHEME,
    &mod_proxy_http::SECURE_SCHEME,
    &mod_proxy_http2::SCHEME,
    &mod_proxy_http2::SECURE_SCHEME,
    &mod_proxy_scgi::SCHEME,
    &mod_proxy_uwsgi::SCHEME,
    &mod_proxy_wstunnel::SCHEME,
    &mod_proxy_wstunnel::SECURE_SCHEME,
];

/// The protocol of this name.
pub(super) fn scheme_named(name: &str) -> Option<&'static Scheme> {
    SCHEMES.iter().find(|scheme| scheme.name == name).copied()
}

/// The port of a URL that names none.
pub(crate) fn port_of(name: &str) -> u16 {
    SCHEMES.iter().find(|scheme| scheme.name == name).map_or(0, |scheme| scheme.port)
}

/// The protocol of a URL, if its module is loaded.
pub(crate) fn scheme(request: &Request, name: &str) -> Option<&'static Scheme> {
    let scheme = SCHEMES.iter().find(|scheme| scheme.name == name)?;
    request.server.language.has_module(scheme.module).then_some(*scheme)
}
