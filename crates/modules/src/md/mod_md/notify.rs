//! Programs that react to events: `MDNotifyCmd`, `MDMessageCmd`, `MDChallengeDns01`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use conf::words::words;
use runtime::executor::sleep;
use sys::time::Instant;

/// The time limit of a program, which may have to change a DNS zone.
const PATIENCE: Duration = Duration::from_secs(300);
/// The interval at which to check whether it has ended.
const STEP: Duration = Duration::from_millis(20);

/// The user and group that run programs, if they differ from the current ones: those of the children, as in Apache.
pub(super) type User = Option<(u32, u32)>;

/// Runs a command line with further arguments appended. `Err`: it could not be run, or its exit status.
pub(super) async fn run(line: &str, more: &[&str], user: User) -> io::Result<()> {
    let line = words(line);
    let (program, arguments) = line.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(server::paths::os_path(program));
    command.args(arguments.iter().map(|argument| server::paths::os_path(argument))).args(more);
    command.stdin(Stdio::null());
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    let mut child = command.spawn()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(status.to_string())),
            None if Instant::now() >= deadline => {
                child.kill()?;
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => sleep(STEP).await,
        }
    }
}
