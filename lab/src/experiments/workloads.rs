//! The tables of workloads, one for each experiment.

pub(crate) mod cgi;
pub(crate) mod http;
pub(crate) mod many;
pub(crate) mod memory;
pub(crate) mod mpm;
pub(crate) mod perl;
pub(crate) mod proxies;
pub(crate) mod seeds;
pub(crate) mod tls;
