//! What the program says of itself on pages for administrators, whatever `ServerTokens` tells clients.

use std::sync::OnceLock;

/// Name and age of the program.
#[derive(Debug)]
pub struct Identity {
    /// Name, version and system, as `-v` prints them.
    pub version: String,
    /// When it was built.
    pub built: String,
    /// Apache's number for what modules may rely on, of the version whose configuration is understood.
    pub magic: &'static str,
    /// What it was built with, a line ` -D NAME` or ` -D NAME=VALUE` for each thing, as `-V` prints them.
    pub built_with: String,
}

static IDENTITY: OnceLock<Identity> = OnceLock::new();

/// Says what the program is; called once by `main`.
pub fn set(identity: Identity) {
    // A second call can only come from a test in the same process.
    let _ = IDENTITY.set(identity);
}

/// What the program is; nothing in tests that have no program.
pub fn get() -> Option<&'static Identity> {
    IDENTITY.get()
}
