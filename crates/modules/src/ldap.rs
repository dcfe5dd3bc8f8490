//! Queries directories (LDAP, RFC 4511).
//!
//! The messages are composed and parsed here. A library would bring its own runtime and dozens of dependencies, and the
//! part of the protocol that log-ins need is small.

mod ber;
pub(crate) mod cache;
pub(crate) mod code;
mod connection;
pub(crate) mod directory;
pub(crate) mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
mod message;
pub mod mod_ldap;
mod pool;
mod referral;
mod status;
pub(crate) mod url;
