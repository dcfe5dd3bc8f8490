//! Asking directories (LDAP, RFC 4511).
//!
//! The messages are made and read here. A library would bring a runtime of its own and dozens of others, and the part of the
//! protocol that log-ins need is small.

mod ber;
pub(crate) mod cache;
pub(crate) mod code;
mod connection;
pub(crate) mod directory;
pub(crate) mod filter;
mod message;
pub mod mod_ldap;
mod pool;
mod referral;
mod status;
pub(crate) mod url;
