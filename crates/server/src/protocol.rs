//! Protocols: they turn a transport's bytes into requests, and responses into bytes.

pub(crate) mod body_deadline;
mod discard;
pub(crate) mod h1;
pub(crate) mod h2;
mod linger;
mod negotiation;
mod pace;
mod reception;
pub(crate) mod service;
mod tunnel;
mod writer;
