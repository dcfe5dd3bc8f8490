//! What both sides of a conversation at the control socket agree on.

use std::time::Duration;

/// A request is no longer than this, in bytes.
pub(super) const WORDS_MAX: u64 = 64 * 1024;
/// How long either side waits for the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The word that says that the client's output is a terminal; it comes before the command.
pub(super) const COLOURS: &str = "--colours";
/// The beginning of the word that says which server is meant, by the number of its parent; also before the command.
pub(super) const PID: &str = "--pid=";
