//! The entry point of the fuzz target `log_format`.

use conf::expr::Options;

use super::format::Format;

/// Compiles a format. `Err`: the message of the server.
///
/// # Errors
/// If the format is invalid.
pub fn format(text: &str) -> Result<(), String> {
    Format::parse(text, Options::default()).map(drop)
}
