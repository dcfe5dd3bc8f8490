//! Starts the server.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::sync::Arc;

use conf::Level;
use mpm::control::Conversation;
use mpm::{About, Generation, Invocation, Listeners, ParentCallbacks, Restart, Stall};
use server::HttpService;
use sys::process::Reaped;
use sys::signal::Signal;

use crate::cli::Options;
use crate::config::{self, ConfigSource, Configured};
use crate::ctl;
use crate::daemon;
use crate::diagnosis::explanation;
use crate::diagnosis::preflight;
use crate::diagnosis::print;
use crate::holder;
use crate::messages;
use crate::output;
use crate::running::{self, ControlContext, Running};
use crate::version;
use crate::watch;

/// Starts the server: `-k start`, or no `-k` at all.
pub(crate) fn run(options: &Options) -> ExitCode {
    let configured = match print::read(options, &ConfigSource::File) {
        Ok(configured) => configured,
        Err(failed) => return failed,
    };
    if options.defined(crate::cli::EXPLICIT_START)
        && sys::notify::predecessor().is_none()
        && let Some(pid) = running::parent(&configured)
    {
        output::line(&format!("httpd (pid {pid}) already running"));
        return ExitCode::SUCCESS;
    }
    serve(options, configured, &ConfigSource::File, |_| {})
}

/// Opens sockets and logs, detaches, and serves. `ready` is called when everything that can fail has succeeded.
pub(crate) fn serve(
    options: &Options,
    configured: Configured,
    text: &ConfigSource<'_>,
    ready: impl FnOnce(&Listeners),
) -> ExitCode {
    configured.loaded.server.before_start();
    if let Err(message) = preflight::can_start(options, &configured).and_then(|_| make_runtime_directory(&configured)) {
        messages::print(options, &message);
        return ExitCode::FAILURE;
    }
    let one_process = options.defined("DEBUG") || options.defined("ONE_PROCESS");
    let stay = one_process || options.defined("FOREGROUND") || options.defined("NO_DETACH");
    let predecessor = sys::notify::predecessor();
    // Detaches first, as everything that is started must belong to the process that serves. The successor of a daemon
    // is a daemon already, and can report only to the log.
    let detached = !stay && predecessor.is_none();
    if detached {
        if let Err(code) = daemon::detach(options) {
            return code;
        }
    } else if predecessor.is_none() {
        daemon::stay();
    }
    let main = &configured.loaded.server.main().settings;
    let listeners = match Listeners::open(main, sys::notify::passed_sockets()) {
        Ok(listeners) => listeners,
        Err(error) => {
            messages::print(options, &error.to_string());
            messages::print(options, "AH00015: Unable to open logs");
            let own = preflight::wrong_lines(main.get()).and_then(|obstacle| obstacle.help);
            let notes = match (own, error.busy) {
                (Some(help), _) => vec![explanation::note(&format!("help: {help}"))],
                (None, Some(address)) => holder::notes(address, matches!(text, ConfigSource::Own(..))),
                (None, None) if error.is_denied => vec![explanation::note(PRIVILEGED)],
                (None, None) => Vec::new(),
            };
            notes.iter().for_each(|note| messages::print(options, note));
            return ExitCode::FAILURE;
        }
    };
    if one_process {
        server::log::check_own_logs();
    }
    if let Err(error) = configured.loaded.server.open_logs() {
        messages::print(options, &error.text);
        messages::print(options, "AH00015: Unable to open logs");
        return ExitCode::FAILURE;
    }
    // Every connection, file and script needs descriptors. If the system refuses more, the limit of the administrator
    // holds.
    let _ = sys::rlimit::raise_descriptors();
    if !stay {
        let _ = std::env::set_current_dir("/");
    }
    ready(&listeners);
    let (mut first, running) = match generation(options, configured) {
        Ok(first) => first,
        Err(message) => {
            messages::print(options, &message);
            return ExitCode::FAILURE;
        }
    };
    if predecessor.is_none() {
        first.log = Arc::new(messages::StartLog(Some(first.log)));
    }
    runtime::log::set(first.log.clone());
    let about = About {
        program: options.program.clone(),
        server: version::full(),
        built: version::built(),
        command_line: options.line.clone(),
        one_process,
        ends_with_terminal: matches!(text, ConfigSource::Own(..)),
        invocation: matches!(text, ConfigSource::File).then(|| invocation(options)).flatten().filter(|_| !one_process),
        predecessor,
    };
    if !one_process && let Err(error) = server::log::keep(&options.program) {
        let text = "log files are not kept by a process of their own: a disk that hangs holds up the server";
        runtime::log!("core", Warn, "{}: {text}", sys::describe(&error));
    }
    let code = mpm::run(first, listeners, about, &mut Callbacks { options, text, detached, running, next: None });
    server::log::parent_ends();
    code
}

/// Advice for a port that the kernel keeps for root.
const PRIVILEGED: &str =
    "help: A port below 1024 needs root (or CAP_NET_BIND_SERVICE): take a higher one, such as 8080";

/// Creates `DefaultRuntimeDir` if it is missing. Debian's is in `/run`, where only `apache2ctl` creates it after a
/// boot.
fn make_runtime_directory(configured: &Configured) -> Result<(), String> {
    let Some(path) = &configured.loaded.server.language.runtime_dir else { return Ok(()) };
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("{}: DefaultRuntimeDir {path} is missing and cannot be made", sys::describe(&error)))
        }
        _ => Ok(()),
    }
}

/// How this program was started. Its file is recorded now; later another file may have its name.
fn invocation(options: &Options) -> Option<Invocation> {
    let file = std::env::current_exe().ok()?;
    Some(Invocation { file, arguments: std::env::args_os().collect(), directory: options.directory.clone() })
}

/// Builds the generation for the supervisor to run.
fn generation(options: &Options, configured: Configured) -> Result<(Generation, Running), String> {
    let Configured { loaded, mpm, sources } = configured;
    let settings = loaded.server.main().settings.clone();
    let identity = config::identity(&settings, &options.program)?;
    let log = loaded.server.main_log();
    // Only panics, and programs that are not scripts of the server, write to standard error.
    let _ = loaded.server.main().error_log.take_standard_error();
    let server = Arc::new(loaded.server);
    let service = Arc::new(HttpService::new(server.clone()));
    Ok((Generation { mpm, service, settings, identity, log }, Running { server, mpm, bundle: sources.directory }))
}

/// The callbacks of the supervisor.
struct Callbacks<'a> {
    options: &'a Options,
    text: &'a ConfigSource<'a>,
    /// Whether another process waits for the server to serve.
    detached: bool,
    /// The configuration in effect.
    running: Running,
    /// The configuration that was read last, and may come into effect.
    next: Option<Running>,
}

impl ParentCallbacks for Callbacks<'_> {
    fn serving(&mut self) {
        messages::serving(self.detached);
    }

    fn reload(&mut self, _: Restart) -> Result<Generation, String> {
        let program = &self.options.program;
        server::log::find_hanging();
        let configured = config::read(self.options, self.text)
            .map_err(|broken| explanation::for_log(&broken.error, &(&*broken).into(), program))?;
        preflight::can_start(self.options, &configured)?;
        make_runtime_directory(&configured)?;
        configured.loaded.server.open_logs().map_err(|error| error.text)?;
        for notice in &configured.loaded.notices {
            if notice.level <= Level::Warn {
                runtime::log!(notice.module, Warn, "{}", notice.text);
            }
        }
        let (generation, running) = generation(self.options, configured)?;
        self.next = Some(running);
        Ok(generation)
    }

    fn begun(&mut self) {
        if let Some(running) = self.next.take() {
            self.running = running;
        }
    }

    fn stalled(&mut self, stalls: &[Stall]) {
        watch::stalled(stalls);
    }

    fn limit_reached(&mut self) {
        watch::limit_reached(&self.running);
    }

    fn converse(&mut self, conversation: Conversation<'_>) -> Option<Signal> {
        let Callbacks { options, text, running, .. } = self;
        let Conversation { connection, parent, children, fixed } = conversation;
        ctl::serve(connection, &ControlContext { running, options, text, parent, children, fixed })
    }

    fn ended(&mut self, process: &Reaped) {
        server::log::reaped(process.pid.number());
    }

    fn tick(&mut self) {
        server::log::every_second();
        self.running.server.tick();
    }

    fn logs_reopened(&mut self) -> bool {
        let reopened = server::log::reopen_renamed();
        if reopened {
            // As at the start: only panics, and programs that are not scripts of the server, write there.
            let _ = self.running.server.main().error_log.take_standard_error();
        }
        reopened
    }
}
