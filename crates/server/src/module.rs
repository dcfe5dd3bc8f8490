//! What a module is: its hooks, and the services of modules for each other.

pub mod authz;
pub mod finding;
pub mod hook;

pub use self::hook::*;
