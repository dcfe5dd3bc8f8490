//! Modules that pass requests on to other servers.
//!
//! [`mod_proxy`] decides which requests go where. Each protocol is a [`Scheme`](mod_proxy::Scheme) in a module of its
//! own: to add one takes a file and a line in `mod_proxy/schemes.rs`. mod_scgi has its own directives.

pub mod lbmethods;
pub mod mod_lbmethod_heartbeat;
pub mod mod_proxy;
pub mod mod_proxy_ajp;
pub mod mod_proxy_balancer;
pub mod mod_proxy_connect;
pub mod mod_proxy_express;
pub mod mod_proxy_fcgi;
pub mod mod_proxy_hcheck;
pub mod mod_proxy_http;
pub mod mod_proxy_http2;
pub mod mod_proxy_scgi;
pub mod mod_proxy_uwsgi;
pub mod mod_proxy_wstunnel;
pub mod mod_scgi;
