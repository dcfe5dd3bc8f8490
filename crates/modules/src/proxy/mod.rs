//! Passing requests on to servers that are there already.
//!
//! [`mod_proxy`] says which requests go where. What is spoken there is a [`Scheme`](mod_proxy::Scheme), one module each: to add
//! one is a file and a line in [`mod_proxy::SCHEMES`]. mod_scgi has directives of its own.

pub mod mod_proxy;
pub mod mod_proxy_fcgi;
pub mod mod_proxy_scgi;
pub mod mod_proxy_uwsgi;
pub mod mod_scgi;
