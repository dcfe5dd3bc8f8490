//! Servers behind this one.

mod ajp;
mod ajp_backend;
mod applications;
mod balancers;
mod connections;
mod forward;
mod grpc;
mod heartbeats;
mod html;
mod http2;
mod http2_backend;
mod http_same_as_apache;
mod manager;
mod mapping_same_as_apache;
pub mod origin;
mod prepared;
mod recorder;
mod recurring;
pub mod secure_origin;
mod seen;
mod smuggling;
mod spliced;
mod tls;
mod tomcat;
mod tunnels;
mod workers;
