//! Encrypted connections to servers behind this one (`SSLProxyEngine` and its relatives).
//!
//! What a connection needs is made from the settings when a server starts. Sections combine for a request in ways that
//! nobody foresees, so a combination is made when the first request has it: from files that were read at the start.

mod machine;
mod make;
mod material;
mod peer;
mod registry;
mod verifier;

pub(crate) use self::registry::{NotEncrypted, prepare, settings};
pub(super) use self::registry::{make_place, notes};
