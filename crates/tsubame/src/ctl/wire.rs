//! The constants of the protocol on the control socket.

use std::time::Duration;

/// The maximum length of a request, in bytes.
pub(super) const WORDS_MAX: u64 = 64 * 1024;
/// How long either side waits for the other.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// A word that means that the client's output is a terminal; it comes before the command.
pub(super) const COLOURS: &str = "--colours";
/// The prefix of the word that identifies the intended server by its parent's pid; also before the command.
pub(super) const PID: &str = "--pid=";
