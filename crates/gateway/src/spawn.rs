//! Starting a script: its file, its arguments, its environment, its three pipes, its limits.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use conf::{Level, Setting};
use http::text::to_bytes;
use server::core::{CoreDir, Rlimit};
use server::paths::{c_path, dir_name};
use server::{Request, ScriptUse};
use sys::process::Pid;
use sys::rlimit::{Bounds, Limit};

use crate::ending::{self, Process, Run};
use crate::env;
use crate::gate::Permit;
use crate::pipe::Reader;

/// The most arguments that a query makes, as in Apache (`_POSIX_ARG_MAX`).
const ARGUMENTS_MAX: usize = 4094;

/// A script that has just been started, with our ends of its pipes.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) stdout: Reader,
    pub(crate) stderr: Reader,
}

/// Why a script could not be started.
pub(crate) enum Failure {
    /// The file cannot be run.
    Exec(io::Error),
    /// The system has no room for another process.
    System(io::Error),
}

/// Starts the script that is the request's file; its variables are in the request's environment already. It leads a
/// process group of its own, works in its own directory and reads from `stdin`, if anything. What it costs is noted in the
/// request.
pub(crate) fn start(
    request: &mut Request,
    stdin: Option<BorrowedFd<'_>>,
    permit: Permit,
    module: &'static str,
) -> Result<Started, Failure> {
    let began = Instant::now();
    ending::sweep();
    let program = c_path(&request.filename).ok_or_else(|| Failure::Exec(io::ErrorKind::InvalidInput.into()))?;
    let directory = c_path(dir_name(&request.filename)).filter(|directory| !directory.is_empty());
    let arguments = arguments(request.args.as_deref().unwrap_or_default());
    let environment = env::environment(&request.env);
    let argv: Vec<&CStr> = [&program].into_iter().chain(&arguments).map(CString::as_c_str).collect();
    let env: Vec<&CStr> = environment.iter().map(CString::as_c_str).collect();
    let (stdout, its_stdout) = io::pipe().map_err(Failure::System)?;
    let (stderr, its_stderr) = io::pipe().map_err(Failure::System)?;
    let its_stdin = match stdin {
        Some(stdin) => stdin,
        None => nothing().map_err(Failure::System)?,
    };
    let spawn = sys::spawn::Spawn {
        program: &program,
        argv: &argv,
        env: &env,
        directory: directory.as_deref(),
        stdio: [its_stdin, its_stdout.as_fd(), its_stderr.as_fd()],
        more: &[],
        own_group: true,
    };
    let pid = spawn.start().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => Failure::System(error),
        _ => Failure::Exec(error),
    })?;
    let cost = Arc::new(ScriptUse::new(permit.queued, began.elapsed()));
    request.script = Some(cost.clone());
    let process = Process::new(Run { pid, permit, cost });
    expose(pid);
    limit(request, pid, module);
    Ok(Started {
        process,
        stdout: Reader::new(stdout).map_err(Failure::System)?,
        stderr: Reader::new(stderr).map_err(Failure::System)?,
    })
}

/// Where memory runs out all the same, the kernel is to end scripts sooner than the server.
fn expose(pid: Pid) {
    /// How much more than that of the server a script's `oom_score_adj` is, and the most that it can be (proc(5)).
    const MORE: i32 = 500;
    const MOST: i32 = 1000;
    static OWN: OnceLock<i32> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    let own = *OWN.get_or_init(|| read().unwrap_or(0));
    // A script that has ended already needs none.
    let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), (own + MORE).min(MOST).to_string());
}

/// The input of scripts that have none.
fn nothing() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(null.as_fd());
    }
    let null = File::open("/dev/null")?;
    Ok(NULL.get_or_init(|| null).as_fd())
}

/// The arguments that a query without `=` stands for (RFC 3875 section 4.4): words between `+`, decoded, and what a shell
/// would take for its own with a backslash in front, as Apache does.
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

/// `RLimitCPU`, `RLimitMEM` and `RLimitNPROC`. The script runs already when they come into force, for as long as it takes
/// to get here: `posix_spawn` sets no limits, and our own, which a child would inherit, hold for all threads.
fn limit(request: &Request, pid: Pid, module: &'static str) {
    let dir = request.dir::<CoreDir>();
    let limits = [
        (&dir.rlimit_cpu, Limit::Cpu, "RLimitCPU"),
        (&dir.rlimit_mem, Limit::Memory, "RLimitMEM"),
        (&dir.rlimit_nproc, Limit::Processes, "RLimitNPROC"),
    ];
    for (setting, limit, name) in limits {
        let Some(bounds) = bounds(setting, limit) else { continue };
        if let Err(error) = sys::rlimit::set_of(pid, limit, bounds) {
            request.log_os(module, Level::Error, &error, format!("{name} could not be set for {}", request.filename));
        }
    }
}

fn bounds(setting: &Setting<Rlimit>, limit: Limit) -> Option<Bounds> {
    let (soft, hard) = *setting.get()?;
    let hard = hard.unwrap_or_else(|| sys::rlimit::get(limit).hard);
    Some(Bounds { soft: soft.or(hard), hard })
}

#[cfg(test)]
mod tests {
    use super::*;

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
