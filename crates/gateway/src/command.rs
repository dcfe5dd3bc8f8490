//! A script as a program to start: its file, arguments, environment and limits, independent of the request, so that
//! another process can start it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use conf::Setting;
use http::text::to_bytes;
use server::Request;
use server::core::{CoreDir, Rlimit};
use server::paths::{c_path, dir_name};
use sys::cred::Identity;
use sys::process::Pid;
use sys::rlimit::{Bounds, Limit};
use sys::signal::Signal;
use sys::spawn::{Directory, Spawn, Starting};

use crate::env;
use crate::environment::Environment;
use crate::owners::{self, Owner};

/// The most arguments made from a query, as in Apache (`_POSIX_ARG_MAX`).
const ARGUMENTS_MAX: usize = 4094;

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: CString,
    pub(crate) directory: Option<CString>,
    /// The arguments after the program's name.
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Environment,
    pub(crate) limits: Vec<(Limit, Bounds)>,
    /// How much nicer it is (nice(2)).
    pub(crate) nicer: u8,
    /// The user it runs as, if that is not the server's.
    pub(crate) owner: Option<Owner>,
}

/// What a program gets from the process that starts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOptions<'a> {
    /// Standard input, output and error.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Descriptors that the program gets beside these three.
    pub(crate) more: &'a [BorrowedFd<'a>],
    /// Whether it ends with the thread that starts it.
    pub(crate) ends_with_us: bool,
}

impl<'a> StartOptions<'a> {
    /// What a script gets.
    pub(crate) fn script(stdio: [BorrowedFd<'a>; 3]) -> StartOptions<'a> {
        StartOptions { stdio, more: &[], ends_with_us: false }
    }
}

impl Command {
    /// The script in the request's file; its variables are already in the request's environment. It works in its own
    /// directory. `None`: no file can have such a name.
    pub(crate) fn of(request: &Request) -> Option<Command> {
        Some(Command {
            program: c_path(&request.mapped.filename)?,
            directory: c_path(dir_name(&request.mapped.filename)).filter(|directory| !directory.is_empty()),
            arguments: arguments(request.data.args.as_deref().unwrap_or_default()),
            environment: env::environment(&request.env),
            limits: limits(request.dir::<CoreDir>()),
            nicer: 0,
            owner: owners::run_as(request).map(|run_as| run_as.owner),
        })
    }

    /// A command of the shell, in the directory of the request's file and with the request's environment.
    pub(crate) fn shell(request: &Request, text: &str) -> Option<Command> {
        Some(Command {
            program: c"/bin/sh".into(),
            directory: c_path(dir_name(&request.mapped.filename)).filter(|directory| !directory.is_empty()),
            arguments: vec![c"-c".into(), CString::new(to_bytes(text)).ok()?],
            environment: env::environment(&request.env),
            limits: limits(request.dir::<CoreDir>()),
            nicer: 0,
            owner: owners::run_as(request).map(|run_as| run_as.owner),
        })
    }

    /// A program with its arguments, in the server's directory and with the request's environment: it is the server's
    /// own, so it never has another owner.
    pub(crate) fn program(request: &Request, words: &[String]) -> Option<Command> {
        let mut words = words.iter().map(|word| CString::new(to_bytes(word)));
        Some(Command {
            program: words.next()?.ok()?,
            directory: None,
            arguments: words.collect::<Result<_, _>>().ok()?,
            environment: env::environment(&request.env),
            limits: limits(request.dir::<CoreDir>()),
            nicer: 0,
            owner: None,
        })
    }

    /// Starts it, as leader of its own process group, and stores its process number in `number` before it does
    /// anything. A program with an owner is never started like this.
    pub(crate) fn start(&self, options: StartOptions<'_>, number: Option<&AtomicU64>) -> io::Result<Pid> {
        if self.owner.is_some() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.spawn(options, None, |spawn| number.map_or_else(|| spawn.start(), |at| spawn.start_noted(at)))
    }

    /// Starts it as another user, which only root can do; with `place`, starts the program of that name in that
    /// directory, and works there.
    pub(crate) fn start_as(
        &self,
        options: StartOptions<'_>,
        identity: &Identity,
        place: Option<(BorrowedFd<'_>, &CStr)>,
    ) -> io::Result<Starting> {
        self.spawn(options, place, |spawn| spawn.start_as(identity))
    }

    fn spawn<T>(
        &self,
        options: StartOptions<'_>,
        place: Option<(BorrowedFd<'_>, &CStr)>,
        start: impl FnOnce(&Spawn<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let argv: Vec<&CStr> = [&self.program].into_iter().chain(&self.arguments).map(CString::as_c_str).collect();
        let mut env: Vec<&CStr> = Vec::with_capacity(self.environment.len());
        env.extend(self.environment.iter());
        let directory = self.directory.as_deref().map(Directory::Named);
        start(&Spawn {
            program: place.map_or(&self.program, |(_, name)| name),
            argv: &argv,
            env: &env,
            directory: place.map(|(directory, _)| Directory::Open(directory)).or(directory),
            stdio: options.stdio,
            more: options.more,
            own_group: true,
            limits: &self.limits,
            nicer: self.nicer,
            end_with_us: options.ends_with_us.then_some(Signal::TERM),
        })
    }
}

/// Why a script could not be started.
#[derive(Debug)]
pub(crate) enum StartFailure {
    /// The file cannot be executed.
    Exec(io::Error),
    /// The system has no room for another process.
    System(io::Error),
    /// There is no daemon that could start the script.
    Daemon(io::Error),
    /// Has an owner, and there are no daemons.
    NoDaemon,
    /// May not run as its owner: the reason, as a number.
    Refused(u64),
}

impl StartFailure {
    /// An error of the attempt to start a program.
    pub(crate) fn of_start(error: io::Error) -> StartFailure {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => StartFailure::System(error),
            _ => StartFailure::Exec(error),
        }
    }
}

/// Makes the kernel's OOM killer prefer this process, and those it starts from now on, to the server. `false`: not yet, for while a
/// program is being started, its process belongs to root for a moment, however long the machine makes that moment last.
pub(crate) fn expose(pid: Pid) -> bool {
    /// How much a script's `oom_score_adj` exceeds the server's, and its maximum (proc(5)).
    const MORE: i32 = 500;
    const MOST: i32 = 1000;
    static OWN: OnceLock<i32> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    let own = *OWN.get_or_init(|| read().unwrap_or(0));
    // A script that has already ended needs none.
    let written = std::fs::write(format!("/proc/{pid}/oom_score_adj"), (own + MORE).min(MOST).to_string());
    !written.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The arguments from a query without `=` (RFC 3875 section 4.4): words between `+`, decoded, and with a backslash
/// before characters that are special to a shell, as in Apache.
fn arguments(query: &str) -> Vec<CString> {
    if query.is_empty() || query.contains('=') {
        return Vec::new();
    }
    let words = query.split('+').take(ARGUMENTS_MAX);
    let words = words.map(|word| http::uri::unescape_lenient(&to_bytes(word)).into_owned());
    words.filter_map(|word| CString::new(escape_for_shell(&word)).ok()).collect()
}

fn escape_for_shell(word: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(word.len());
    for byte in word {
        if b"&;`'\"|*?~<>^()[]{}$\\\n".contains(byte) {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

/// `RLimitCPU`, `RLimitMEM` and `RLimitNPROC`.
pub(crate) fn limits(dir: &CoreDir) -> Vec<(Limit, Bounds)> {
    let settings =
        [(Limit::Cpu, &dir.rlimit_cpu), (Limit::Memory, &dir.rlimit_mem), (Limit::Processes, &dir.rlimit_nproc)];
    settings.into_iter().filter_map(|(limit, setting)| Some((limit, bounds(setting, limit)?))).collect()
}

fn bounds(setting: &Setting<Rlimit>, limit: Limit) -> Option<Bounds> {
    let (soft, hard) = *setting.get()?;
    let hard = hard.unwrap_or_else(|| sys::rlimit::get(limit).hard);
    Some(Bounds { soft: soft.or(hard), hard })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_script_with_an_owner_does_not_run_as_the_server() {
        let null = File::open("/dev/null").expect("/dev/null");
        let command = Command {
            program: c"/bin/true".into(),
            directory: None,
            arguments: Vec::new(),
            environment: Environment::default(),
            limits: Vec::new(),
            nicer: 0,
            owner: Some((sys::cred::uid(), 0)),
        };
        let started = command.start(StartOptions::script([null.as_fd(), null.as_fd(), null.as_fd()]), None);
        assert_eq!(started.map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
    }

    #[test]
    fn queries_as_arguments() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a=b+c", &[]),
            ("a+b%20c", &["a", "b c"]),
            ("a++b", &["a", "", "b"]),
            ("a%3Db", &["a=b"]),
            ("a;b+%3e+$x+100%", &["a\\;b", "\\>", "\\$x", "100%"]),
            ("a%00b+c", &["c"]),
        ];
        for (query, want) in cases {
            let got = arguments(query);
            let got: Vec<_> = got.iter().map(|word| word.to_str().unwrap_or_default()).collect();
            assert_eq!(got, *want, "{query}");
        }
        assert_eq!(arguments(&"+".repeat(8000)).len(), ARGUMENTS_MAX);
    }
}
