//! The new program that will take over: how it is started.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use runtime::scoreboard::Duty;
use sys::notify::environment_of_successor;
use sys::process::Pid;
use sys::spawn::{Directory, Spawn};
use sys::time::monotonic;

use crate::about::Invocation;
use crate::listen::Listeners;

/// A new program that will take over.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewProgram {
    pub(super) pid: Pid,
    /// Birth on the monotonic clock.
    pub(super) born: Duration,
}

/// The variable that hands over which work load balancers are to send.
const DUTY: &str = "TSUBAME_DUTY";

/// Which work the program that this one replaces wanted from load balancers.
pub(super) fn inherited_duty() -> Option<Duty> {
    Duty::named(std::env::var(DUTY).ok()?.as_str())
}

impl NewProgram {
    /// Starts it, with the sockets of this one. It wants the same work from load balancers.
    pub(super) fn start(invocation: &Invocation, listeners: &Listeners, duty: Duty) -> io::Result<NewProgram> {
        let Invocation { file, arguments, directory } = invocation;
        let (program, directory) = (terminated(file.as_os_str())?, terminated(directory.as_os_str())?);
        let argv = arguments.iter().map(|word| terminated(word)).collect::<io::Result<Vec<CString>>>()?;
        let sockets: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
        let inherited = environment_of_successor(sockets.len()).into_iter().filter(|(name, _)| name != DUTY);
        let duty = duty.name().map(|name| (DUTY.into(), name.into()));
        let env = inherited.chain(duty).map(variable).collect::<io::Result<Vec<CString>>>()?;
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        let pid = Spawn {
            program: &program,
            argv: &argv.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            env: &env.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            directory: Some(Directory::Named(&directory)),
            stdio: [input.as_fd(), output.as_fd(), error.as_fd()],
            more: &sockets,
            own_group: false,
            limits: &[],
            nicer: 0,
            end_with_us: None,
        }
        .start()?;
        Ok(NewProgram { pid, born: monotonic() })
    }
}

fn terminated(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn variable((name, value): (OsString, OsString)) -> io::Result<CString> {
    Ok(CString::new([name.into_vec(), value.into_vec()].join(&b'='))?)
}
