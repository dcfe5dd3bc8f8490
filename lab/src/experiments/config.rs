//! The configuration of each server: access logs off, one process or thread on one core, keep-alive practically without
//! limit, `sendfile` if there is a choice, room for as many connections as any workload opens.

pub(crate) mod apache;
pub(crate) mod caddy;
pub(crate) mod debian;
pub(crate) mod h2o;
pub(crate) mod haproxy;
pub(crate) mod lighttpd;
pub(crate) mod many;
pub(crate) mod mpm;
pub(crate) mod nginx;
pub(crate) mod origin;
pub(crate) mod php_fpm;
pub(crate) mod proxied;
pub(crate) mod varnish;
