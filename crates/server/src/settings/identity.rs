//! The program's own description, for administrators' pages, whatever `ServerTokens` reveals to clients.

use std::sync::OnceLock;

/// Name and age of the program.
#[derive(Debug)]
pub struct Identity {
    /// Name, version and system, as `-v` prints them.
    pub version: String,
    /// When it was built.
    pub built: String,
    /// Apache's number for its module interface (MMN), for the version whose configuration is understood.
    pub magic: &'static str,
    /// Build options: a line ` -D NAME` or ` -D NAME=VALUE` for each, as `-V` prints them.
    pub built_with: String,
}

static IDENTITY: OnceLock<Identity> = OnceLock::new();

/// Sets the program's description; called once by `main`.
pub fn set(identity: Identity) {
    // A second call can only come from a test in the same process.
    let _ = IDENTITY.set(identity);
}

/// The program's description; `None` in tests without a program.
pub fn get() -> Option<&'static Identity> {
    IDENTITY.get()
}
