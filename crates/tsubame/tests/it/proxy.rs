//! Servers behind this one.

mod balancers;
mod connections;
mod http_same_as_apache;
pub mod origin;
mod tunnels;
