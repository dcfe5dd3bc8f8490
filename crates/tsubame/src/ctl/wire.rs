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
/// The command of `-k graceful` and `-k restart`, which word follows: a restart whose end the client waits for.
pub(super) const RESTART: &str = "-k";
/// How long the server lets that client wait; the client itself has a little more [patience](PATIENCE).
pub(super) const RESTART_MAX: Duration = Duration::from_secs(27);
/// How the answer begins to a client that means another server.
pub(super) const OTHER_SERVER: &str = "the server that listens here has pid";
