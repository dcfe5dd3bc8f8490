//! The helper process that runs the programs of maps: it queries each of them for one key after the other, and restarts
//! one that has ended.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use conf::Origin;
use runtime::HelperProcess;
use server::core::CoreServer;
use server::{HelperHook, Server};
use sys::cred::Identity;
use sys::poll::any_readable;
use sys::process::{Pid, end_of, has_ended, reap};
use sys::signal::Signal;
use sys::signal_fd::SignalFd;
use sys::spawn::{Directory, Spawn};
use sys::time::Instant;

use super::Map;
use super::program::{FAILED, NONE, Program, TEXT_MAX, VALUE};
use crate::mappers::mod_rewrite::settings::RewriteServer;

/// The interval at which an endless wait checks again.
const A_WHILE: Duration = Duration::from_secs(3600);
/// The `PATH` of programs.
const PATH: &std::ffi::CStr = c"PATH=/usr/local/bin:/usr/bin:/bin";

/// The helper process that runs the programs.
pub(in crate::mappers::mod_rewrite) static HELPER: HelperHook = helper;

/// Opens the channel to each program, if there are any.
fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let mut programs: Vec<(Arc<Map>, Origin, Duration)> = Vec::new();
    for host in &server.hosts {
        for (map, origin) in host.settings.get::<RewriteServer>().rules.maps.values() {
            let is_new = !programs.iter().any(|(known, ..)| Arc::ptr_eq(known, map));
            if let (Map::Program(program), true) = (&**map, is_new) {
                let channel = UnixDatagram::pair()
                    .map_err(|error| format!("{}: no socket for the RewriteMap at {origin}", sys::describe(&error)))?;
                // The channel exists already if the same configuration is started again.
                let _ = program.channel.set(channel);
                programs.push((map.clone(), origin.clone(), host.settings.get::<CoreServer>().timeout()));
            }
        }
    }
    if programs.is_empty() {
        return Ok(None);
    }
    Ok(Some(HelperProcess {
        name: "rewrite-map",
        count: 1,
        // As in Apache, programs run by default as the user who started the server.
        privileged: true,
        starts_scripts: false,
        life: Box::new(move |orders| serve(&programs, orders)),
    }))
}

/// Serves until the order to leave, with a thread for each program. The threads end with this process.
fn serve(programs: &[(Arc<Map>, Origin, Duration)], orders: &SignalFd) -> io::Result<()> {
    for (map, origin, limit) in programs.iter().cloned() {
        thread::Builder::new().name("rewrite-map".into()).spawn(move || {
            if let Map::Program(program) = &*map {
                answer_all(program, &origin, limit);
            }
        })?;
    }
    loop {
        any_readable([orders.descriptor().as_fd()], A_WHILE)?;
        if orders.read()?.is_some() {
            return Ok(());
        }
    }
}

/// Answers one query after the other.
fn answer_all(program: &Program, origin: &Origin, limit: Duration) {
    let Some((_, questions)) = program.channel.get() else { return };
    let mut running = start(program, origin);
    let mut packet = vec![0; TEXT_MAX + 1];
    loop {
        let mut descriptors = Vec::new();
        let received = any_readable([questions.as_fd()], A_WHILE)
            .and_then(|_| sys::local::receive(questions, &mut packet, &mut descriptors));
        let length = match received {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => {
                runtime::log!("rewrite", Error, "{}: queries for the RewriteMap at {origin}", sys::describe(&error));
                return;
            }
        };
        let (Some(answer_to), Some(key)) = (descriptors.pop(), packet[..length].get(1..)) else { continue };
        let answer = answered(program, &mut running, key, origin, limit);
        // A child that no longer waits does not mind.
        let _ = UnixStream::from(answer_to).write_all(&answer);
    }
}

/// Queries the program. If it has ended since the last query, it is restarted for this key.
fn answered(program: &Program, running: &mut Option<Running>, key: &[u8], origin: &Origin, limit: Duration) -> Vec<u8> {
    if running.as_ref().is_some_and(Running::has_ended) {
        runtime::log!("rewrite", Error, "the program of the RewriteMap at {origin} has ended; starting it again");
        *running = None;
    }
    if running.is_none() {
        *running = start(program, origin);
    }
    let failed = |why: String| [&[FAILED], why.as_bytes()].concat();
    let Some(asked) = running else { return failed("it cannot be started".into()) };
    match asked.look_up(key, limit) {
        Ok(answer) if answer.eq_ignore_ascii_case(b"NULL") => vec![NONE],
        Ok(answer) => [&[VALUE], answer.as_slice()].concat(),
        Err(error) => {
            // Its next output would belong to this key.
            *running = None;
            failed(sys::describe(&error).to_string())
        }
    }
}

/// A program that has been started, and the pipes to it.
struct Running {
    pid: Pid,
    ended: OwnedFd,
    keys: PipeWriter,
    values: PipeReader,
    /// Output after the last answer.
    rest: Vec<u8>,
}

fn start(program: &Program, origin: &Origin) -> Option<Running> {
    let started = Running::start(program);
    if let Err(error) = &started {
        let path = program.words[0].to_string_lossy();
        let why = sys::describe(error);
        runtime::log!(
            "rewrite",
            Error,
            "{why}: AH00654: mod_rewrite: could not start RewriteMap program {path} ({origin})"
        );
    }
    started.ok()
}

impl Running {
    fn start(program: &Program) -> io::Result<Running> {
        let (input, keys) = io::pipe()?;
        let (values, output) = io::pipe()?;
        // A program that neither reads nor answers must not block anybody for ever.
        sys::file::set_nonblocking(&keys)?;
        sys::file::set_nonblocking(&values)?;
        let errors = io::stderr();
        let argv: Vec<_> = program.words.iter().map(CString::as_c_str).collect();
        let parent = program.words[0].to_bytes();
        let parent = &parent[..memchr::memrchr(b'/', parent).map_or(0, |at| at.max(1))];
        let directory = CString::new(parent)?;
        let spawn = Spawn {
            program: &program.words[0],
            argv: &argv,
            env: &[PATH],
            directory: Some(Directory::Named(&directory)),
            stdio: [input.as_fd(), output.as_fd(), errors.as_fd()],
            more: &[],
            own_group: true,
            limits: &[],
            nicer: 0,
            end_with_us: Some(Signal::TERM),
        };
        let pid = match &program.identity {
            None => spawn.start()?,
            Some(identity) => {
                let starting = spawn.start_as(identity)?;
                any_readable([starting.outcome.as_fd()], A_WHILE)?;
                starting.result()?;
                starting.pid
            }
        };
        Ok(Running { pid, ended: end_of(pid)?, keys, values, rest: Vec::new() })
    }

    fn has_ended(&self) -> bool {
        has_ended(self.pid).unwrap_or(true)
    }

    /// Writes a key, and reads a line.
    fn look_up(&mut self, key: &[u8], limit: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + limit;
        self.keys.write_all(&[key, b"\n"].concat())?;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.rest) {
                let behind = self.rest.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.rest, behind);
                line.pop();
                return Ok(line);
            }
            if self.rest.len() > TEXT_MAX {
                return Err(io::Error::other("its answer is too long"));
            }
            let mut piece = [0; 4096];
            match self.values.read(&mut piece) {
                Ok(0) => return Err(io::Error::other("it has ended without an answer")),
                Ok(count) => self.rest.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    any_readable([self.values.as_fd()], left)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.pid.kill_group(Signal::KILL);
        let _ = any_readable([self.ended.as_fd()], A_WHILE);
        let _ = reap(Some(self.pid));
    }
}
