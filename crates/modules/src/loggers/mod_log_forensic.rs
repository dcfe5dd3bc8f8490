//! A line before each request and one after it: the requests in progress when a server died.
//!
//! Apache manual: mod_log_forensic.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings};
use http::text::to_bytes;
use server::PhaseHook::Now;
use server::log::{self, LogFile};
use server::{Fields, Flow, Hook, Module, Order, Phase, Request, Server, StartError};

use crate::metadata::mod_unique_id;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "log_forensic_module", source: "mod_log_forensic.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::OpenLogs(open),
        Hook::Phase(Phase::PostRead, Order::ReallyFirst, Now(before)),
        Hook::Log(Order::ReallyLast, after),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ForensicLog", Allowed::SERVER, Take1(set), "", "the filename of the forensic log"),
];

/// The note with the id of a request.
const ID: &str = "forensic-id";

settings! {
    /// The module's settings of a server.
    pub struct ForensicServer { file: Setting<Arc<LogFile>> }
}

fn set(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let target = if name.starts_with('|') { name.to_string() } else { cmd.context.server_relative(name) };
    cmd.server_set(|s: &mut ForensicServer| &mut s.file, LogFile::named(&target))
}

fn open(server: &Server) -> Result<(), StartError> {
    for file in server.hosts.iter().filter_map(|host| host.settings.get::<ForensicServer>().file.get()) {
        file.open().map_err(|error| {
            let target = file.target();
            let message = match target.strip_prefix('|') {
                Some(program) => format!("AH00650: couldn't spawn forensic log pipe {program}"),
                None => format!("AH00651: could not open forensic log file {target}."),
            };
            StartError::of_system(&error, &message)
        })?;
    }
    Ok(())
}

fn before(request: &mut Request) -> Flow {
    let host = request.vhost;
    let Some(file) = host.settings.get::<ForensicServer>().file.get() else { return Flow::Declined };
    if request.previous().is_some() || request.is_hypothetical() || request.is_unattended() {
        return Flow::Declined;
    }
    request.asks_beyond_head();
    if request.server.has_module(mod_unique_id::MODULE.info.id) {
        // Its own hook runs later, and keeps an existing id.
        mod_unique_id::set(request);
    }
    let id = request.env.get(mod_unique_id::NAME).map_or_else(new_id, str::to_string);
    let mut line = format!("+{id}|").into_bytes();
    escape(&mut line, request.line_bytes());
    // Repeated fields are joined, as in Apache.
    let mut fields = Fields::default();
    request.headers().into_iter().for_each(|(name, value)| fields.merge(name.into_owned(), &value));
    for (name, value) in fields.iter() {
        line.push(b'|');
        escape(&mut line, &to_bytes(name));
        line.push(b':');
        escape(&mut line, &to_bytes(value));
    }
    write(file, line);
    request.notes.set(ID, id);
    Flow::Ok
}

fn after(request: &mut Request) {
    let Some(file) = request.host::<ForensicServer>().file.get() else { return };
    let original = request.original().map_or(&request.notes, |original| &original.notes);
    if let Some(id) = original.get(ID).filter(|_| !request.is_hypothetical()) {
        write(file, format!("-{id}").into_bytes());
    }
}

/// Writes a line at once: a process that dies must not lose it.
fn write(file: &LogFile, mut line: Vec<u8>) {
    line.push(b'\n');
    file.append(&line);
    log::flush_all();
}

fn new_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let seconds = sys::time::realtime().as_secs();
    let mut id = String::new();
    let _ = write!(id, "{}:{seconds:x}:{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    id
}

/// Escapes separators and unprintable characters as numbers.
fn escape(line: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b':' | b'|' | b'%' => line.extend(format!("%{byte:02x}").bytes()),
            b' '..=b'~' => line.push(*byte),
            _ => line.extend(format!("%{byte:02x}").bytes()),
        }
    }
}
