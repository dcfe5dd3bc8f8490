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
/// The first line of a reply if the server did what was asked; the answer follows.
pub(super) const OK: &str = "ok";
/// The first line of a reply if the server did not do it; the reason follows.
pub(super) const ERROR: &str = "error";
/// The first line of a reply if the request is for another server, or for another version of the program, so that this
/// one did nothing; the reason follows.
pub(super) const DECLINED: &str = "declined";
