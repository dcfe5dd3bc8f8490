//! Pass phrases of encrypted keys (`SSLPassPhraseDialog`).
//!
//! The server asks for them when it starts, before it detaches from its terminal, and tries each of them on all keys. A
//! decrypted key stays in the parent's memory, so a restart asks only for keys whose files have changed, as in Apache.

use std::ffi::CString;
use std::fs::Metadata;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use sys::poll::any_readable;
use sys::process::{Pid, end_of, reap};
use sys::signal::Signal;
use sys::spawn::Spawn;
use sys::terminal::Terminal;
use sys::time::Instant;

use super::keys::Encrypted;
use super::values::PassPhrase;

/// The longest pass phrase, in bytes; OpenSSL accepts no longer ones.
const LENGTH_MAX: usize = 1024;
/// How many attempts the administrator gets, as in Apache.
const RETRIES: usize = 5;
/// How long the administrator may take to type.
const TYPING_MAX: Duration = Duration::from_secs(300);
/// How long a program may take for one pass phrase. The parent waits for it if a key has another pass phrase at a
/// restart.
const PROGRAM_MAX: Duration = Duration::from_secs(20);
/// How long a killed program may take to end.
const END_MAX: Duration = Duration::from_secs(1);

/// Whether this process is or will be a server.
static SERVES: AtomicBool = AtomicBool::new(false);
/// Whether the server has started, so that it may no longer ask at the terminal.
static HAS_STARTED: AtomicBool = AtomicBool::new(false);

/// Decrypted keys, with the state of their files.
static DECRYPTED: Mutex<Vec<(Identity, PrivateKeyDer<'static>)>> = Mutex::new(Vec::new());

/// Declares that this process starts a server. Only then the pass phrases are asked for and all files have to be
/// readable; a mere check of the configuration asks for nothing.
pub fn starts_a_server() {
    SERVES.store(true, Relaxed);
}

/// Declares that the initial configuration has been read. From then on nothing is asked at the terminal: waiting for an
/// answer would block the parent.
pub(super) fn has_started() {
    HAS_STARTED.store(true, Relaxed);
}

/// See [`starts_a_server`].
pub(super) fn serves() -> bool {
    SERVES.load(Relaxed)
}

/// The identity and state of a file.
#[derive(Clone, PartialEq, Eq)]
struct Identity {
    file: String,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// The key that needs a pass phrase.
pub(super) struct Wanted<'a> {
    pub(super) source: &'a PassPhrase,
    /// Name and port of the virtual host.
    pub(super) host: String,
    /// The position of the certificate in its virtual host.
    pub(super) index: usize,
    pub(super) file: &'a str,
    pub(super) meta: &'a Metadata,
}

/// The pass phrases known while a configuration is loaded.
#[derive(Default)]
pub(super) struct PassPhrases {
    known: Vec<Vec<u8>>,
    /// The program after `|`, once it runs.
    program: Option<Program>,
    was_introduced: bool,
}

impl PassPhrases {
    /// Decrypts a key. `Err` is a message for the log.
    pub(super) fn decrypt(&mut self, key: &Encrypted, wanted: &Wanted<'_>) -> Result<PrivateKeyDer<'static>, String> {
        let identity = Identity::of(wanted.file, wanted.meta);
        let mut decrypted = DECRYPTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, key)) = decrypted.iter().find(|(known, _)| *known == identity) {
            return Ok(key.clone_key());
        }
        let found = match self.known.iter().find_map(|pass_phrase| key.decrypt(pass_phrase)) {
            Some(found) => found,
            None => self.prompt(key, wanted)?,
        };
        decrypted.retain(|(known, _)| known.file != identity.file);
        decrypted.push((identity, found.clone_key()));
        Ok(found)
    }

    fn prompt(&mut self, key: &Encrypted, wanted: &Wanted<'_>) -> Result<PrivateKeyDer<'static>, String> {
        let Wanted { source, host, index, file, .. } = wanted;
        let name = format!("{host}:{index}");
        let tries = if matches!(source, PassPhrase::Program(_)) { 1 } else { RETRIES + 1 };
        for left in (0..tries).rev() {
            let pass_phrase = match source {
                PassPhrase::Builtin => self.typed(&name, file)?,
                PassPhrase::Pipe(command) => self.piped(command, &name, file)?,
                PassPhrase::Program(program) => from_program(program, host, *index)?,
            };
            if let Some(found) = key.decrypt(&pass_phrase) {
                self.known.push(pass_phrase);
                return Ok(found);
            }
            if left > 0 {
                let retries = if left == 1 { "retry" } else { "retries" };
                self.say(&format!("Apache:mod_ssl:Error: Pass phrase incorrect ({left} more {retries} permitted).\n"));
            }
        }
        Err(format!("AH02580: Init: Pass phrase incorrect for key {name}"))
    }

    /// Asks at the terminal.
    fn typed(&mut self, name: &str, file: &str) -> Result<Vec<u8>, String> {
        let text = self.introduction(name, file);
        let terminal = match HAS_STARTED.load(Relaxed) {
            true => Err(io::Error::other("a running server does not ask")),
            false => Terminal::open(),
        };
        let asked = terminal.and_then(|mut terminal| {
            terminal.say(&text)?;
            terminal.prompt("Enter pass phrase:", LENGTH_MAX, TYPING_MAX)
        });
        asked.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::Interrupted => "none was entered".to_string(),
                io::ErrorKind::TimedOut => format!("none was entered within {} s", TYPING_MAX.as_secs()),
                _ => {
                    format!(
                        "there is no terminal to ask at ({}); see `SSLPassPhraseDialog exec:`",
                        sys::describe(&error)
                    )
                }
            };
            format!(
                "AH02578: Init: Unable to read pass phrase [Hint: key introduced or changed before restart?]: {why}"
            )
        })
    }

    /// Asks the program that answers all questions.
    fn piped(&mut self, command: &str, name: &str, file: &str) -> Result<Vec<u8>, String> {
        let failed = |error: io::Error| {
            format!("AH01966: Init: Failed to create pass phrase pipe '{command}': {}", sys::describe(&error))
        };
        let text = self.introduction(name, file) + "Enter pass phrase:";
        let program = match &mut self.program {
            Some(program) => program,
            None => self.program.insert(Program::start(&conf::words::words(command)).map_err(failed)?),
        };
        program.say(&text).and_then(|()| program.line()).map_err(failed)
    }

    fn introduction(&mut self, name: &str, file: &str) -> String {
        let key = format!("\nPrivate key {name} ({file})\n");
        match std::mem::replace(&mut self.was_introduced, true) {
            true => key,
            false => format!(
                "mod_ssl (Pass Phrase Dialog)\nSome of your private key files are encrypted for security reasons.\nIn order to \
                 read them you have to provide the pass phrases.\n{key}"
            ),
        }
    }

    /// Writes a text to the terminal or the program.
    fn say(&mut self, text: &str) {
        // On an error the next question fails, too.
        let _ = match &mut self.program {
            Some(program) => program.say(text),
            None => Terminal::open().and_then(|mut terminal| terminal.say(text)),
        };
    }
}

impl Drop for PassPhrases {
    fn drop(&mut self) {
        self.known.iter_mut().for_each(|pass_phrase| pass_phrase.fill(0));
    }
}

/// Runs a program for one pass phrase. As in Apache, the first three keys of a host are named by kind.
fn from_program(program: &str, host: &str, index: usize) -> Result<Vec<u8>, String> {
    let kind = ["RSA", "DSA", "ECC"].get(index).map_or_else(|| index.to_string(), |kind| (*kind).to_string());
    let words = [program.to_string(), host.to_string(), kind];
    Program::start(&words)
        .and_then(|mut program| program.line())
        .map_err(|error| format!("{program} (SSLPassPhraseDialog) gave no pass phrase: {}", sys::describe(&error)))
}

/// A running program that answers questions for pass phrases.
struct Program {
    pid: Pid,
    input: PipeWriter,
    output: PipeReader,
}

impl Program {
    fn start(words: &[String]) -> io::Result<Program> {
        let words: Result<Vec<CString>, _> =
            words.iter().map(|word| CString::new(&*http::text::to_bytes(word))).collect();
        let words = words.map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = words.first().ok_or(io::ErrorKind::InvalidInput)?;
        let argv: Vec<_> = words.iter().map(CString::as_c_str).collect();
        let (reads, input) = io::pipe()?;
        let (output, writes) = io::pipe()?;
        let errors = io::stderr();
        let spawn = Spawn {
            program,
            argv: &argv,
            env: &[c"PATH=/usr/local/bin:/usr/bin:/bin"],
            directory: None,
            stdio: [reads.as_fd(), writes.as_fd(), errors.as_fd()],
            more: &[],
            own_group: true,
            limits: &[],
            nicer: 0,
            end_with_us: Some(Signal::KILL),
        };
        let pid = spawn.start()?;
        sys::file::set_nonblocking(&output)?;
        sys::file::set_nonblocking(&input)?;
        Ok(Program { pid, input, output })
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.input.write_all(text.as_bytes())
    }

    /// Reads the next line of its output.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let end = Instant::now() + PROGRAM_MAX;
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match self.output.read(&mut byte) {
                Ok(1) if byte[0] != b'\n' && line.len() < LENGTH_MAX => line.push(byte[0]),
                Ok(0) if line.is_empty() => return Err(io::Error::other("it has ended without one")),
                Ok(_) => return Ok(line),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                    any_readable([self.output.as_fd()], end.saturating_duration_since(Instant::now()))?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other(format!("no answer within {} s", PROGRAM_MAX.as_secs())));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Program {
    /// Leaves no process behind.
    fn drop(&mut self) {
        let _ = self.pid.kill_group(Signal::KILL);
        if let Ok(ended) = end_of(self.pid) {
            let _ = any_readable([ended.as_fd()], END_MAX);
        }
        let _ = reap(Some(self.pid));
    }
}

impl Identity {
    fn of(file: &str, meta: &Metadata) -> Identity {
        let changed = (meta.mtime(), meta.mtime_nsec());
        Identity { file: file.into(), device: meta.dev(), inode: meta.ino(), size: meta.size(), changed }
    }
}
