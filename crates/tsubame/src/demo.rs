//! Serves a first look: the embedded configuration with its small site, in the foreground.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mpm::Listeners;
use sys::process::{Fork, Pid};

use crate::cli::{self, Action, Demo, Options};
use crate::config::ConfigSource;
use crate::diagnosis::print;
use crate::output;
use crate::start;
use crate::style::{Page, Style};

/// The files of the demonstration, with their paths in `conf/` of the sources. Those in `cgi-bin` are executable.
const FILES: &[(&str, &[u8])] = &[
    ("mime.types", include_bytes!("../../../conf/mime.types")),
    ("cgi-bin/environment.sh", include_bytes!("../../../conf/cgi-bin/environment.sh")),
    ("cgi-bin/form.pl", include_bytes!("../../../conf/cgi-bin/form.pl")),
    ("cgi-bin/hello.sh", include_bytes!("../../../conf/cgi-bin/hello.sh")),
    ("cgi-bin/stream.sh", include_bytes!("../../../conf/cgi-bin/stream.sh")),
    ("pages/error.shtml", include_bytes!("../../../conf/pages/error.shtml")),
    ("pages/icon.svg", include_bytes!("../../../conf/pages/icon.svg")),
    ("pages/listing.shtml", include_bytes!("../../../conf/pages/listing.shtml")),
    ("pages/style.css", include_bytes!("../../../conf/pages/style.css")),
    ("site/index.html", include_bytes!("../../../conf/site/index.html")),
    ("site/files/about-this-directory.txt", include_bytes!("../../../conf/site/files/about-this-directory.txt")),
    ("site/files/swallow.svg", include_bytes!("../../../conf/site/files/swallow.svg")),
    ("site/files/swallows.csv", include_bytes!("../../../conf/site/files/swallows.csv")),
];

const CONFIGURATION: &str = include_str!("../../../conf/httpd.conf");

/// The port of the demonstration, unless the command line names one.
const PORT: u16 = 8080;

/// Serves the demonstration, or a directory.
pub(crate) fn run(options: &Options) -> ExitCode {
    let Action::Demo(demo) = &options.action else { return ExitCode::FAILURE };
    let home = match unpack() {
        Ok(home) => home,
        Err(error) => {
            output::complain(&format!("{}: cannot unpack the demonstration: {error}", options.program));
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = clean_up_after(&home) {
        let why = sys::describe(&error);
        output::complain(&format!("{}: {why}: if it is killed, {} stays", options.program, home.display()));
    }
    let code = serve(options, demo, &home);
    // A file that cannot be removed stays in a directory for temporary files, which does no harm.
    let _ = std::fs::remove_dir_all(&home);
    code
}

/// Starts a process that removes the directory when this one has ended, in whatever way.
fn clean_up_after(home: &Path) -> std::io::Result<()> {
    let ended = sys::process::end_of(Pid::own())?;
    if let Fork::Parent(_) = sys::process::fork()? {
        return Ok(());
    }
    // Nothing that is sent to all of a terminal is for this process, and nobody waits for the end of its output.
    let prepared = sys::process::set_title(&format!("tsubame: removes {} at the end", home.display()))
        .and_then(|()| sys::process::new_session())
        .and_then(|()| sys::process::close_standard([true; 3]));
    if prepared.and_then(|()| sys::poll::readable(&ended, None)).is_ok() {
        for _ in 0..TRIES {
            match std::fs::remove_dir_all(home) {
                // A child of the server may still be making a file there.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => std::thread::yield_now(),
                _ => break,
            }
        }
    }
    sys::process::exit_now(0)
}

/// How often a directory or its removal is tried.
const TRIES: u32 = 100;

/// Serves with the files of the demonstration in `home`.
fn serve(options: &Options, demo: &Demo, home: &Path) -> ExitCode {
    let root = demo.root.as_ref().map_or_else(|| home.join("site"), PathBuf::from);
    let root = match root.canonicalize().and_then(|root| std::fs::read_dir(&root).map(|_| root)) {
        Ok(root) => root,
        Err(error) => {
            let (why, root) = (sys::describe(&error), root.to_string_lossy());
            output::complain(&format!("{}: {why}: cannot serve {root}", options.program));
            return ExitCode::FAILURE;
        }
    };
    let listen = format!("127.0.0.1:{}", demo.port.unwrap_or(PORT));
    let (root, home) = (root.to_string_lossy().into_owned(), home.to_string_lossy().into_owned());
    let variables = [("TSUBAME_LISTEN", listen.as_str()), ("TSUBAME_ROOT", &root), ("TSUBAME_HOME", &home)];
    let text = ConfigSource::Own("embedded configuration", CONFIGURATION, &variables);
    let configured = match print::read(options, &text) {
        Ok(configured) => configured,
        Err(failed) => return failed,
    };
    let mut options = Options { defines: options.defines.clone(), ..copy(options) };
    options.defines.push("FOREGROUND".into());
    start::serve(&options, configured, &text, |listeners| greet(listeners, &root, &home, demo.root.is_none()))
}

fn copy(options: &Options) -> Options {
    Options {
        program: options.program.clone(),
        action: Action::Start,
        server_root: Some("/".into()),
        file: None,
        before: Vec::new(),
        after: Vec::new(),
        defines: Vec::new(),
        level: options.level,
        errors: options.errors.clone(),
        line: options.line.clone(),
        directory: options.directory.clone(),
    }
}

/// Writes the files to a directory owned by this process: readable for the children, writable only for this user.
fn unpack() -> std::io::Result<PathBuf> {
    let home = own_directory()?;
    // The disk may be full.
    fill(&home).inspect_err(|_| drop(std::fs::remove_dir_all(&home)))?;
    Ok(home)
}

fn fill(home: &Path) -> std::io::Result<()> {
    // Children that run as another user read these files, whatever the umask of this process is.
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    let directory = |path: &Path| {
        std::fs::DirBuilder::new().recursive(true).create(path)?;
        open(path, 0o755)
    };
    open(home, 0o755)?;
    for (name, bytes) in FILES {
        let path = home.join(name);
        if let Some(parent) = path.parent() {
            directory(parent)?;
        }
        let mode = if name.starts_with("cgi-bin/") { 0o755 } else { 0o644 };
        let mut file = std::fs::OpenOptions::new().create_new(true).write(true).open(&path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        open(&path, mode)?;
    }
    directory(&home.join("site"))
}

/// Makes a directory for temporary files. It must be new: an earlier process with the same pid (common in containers)
/// may have left one behind.
fn own_directory() -> std::io::Result<PathBuf> {
    let place = |number| std::env::temp_dir().join(format!("tsubame-{}-{number}", std::process::id()));
    let make = |path: &PathBuf| std::fs::DirBuilder::new().mode(0o700).create(path);
    let mut number = 0;
    loop {
        let path = place(number);
        match make(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < TRIES => number += 1,
            result => return result.map(|()| path),
        }
    }
}

/// Prints which URL to open, and what to try next.
fn greet(listeners: &Listeners, root: &str, home: &str, demonstration: bool) {
    let (style, mut page) = (Style::of_output(), Page::default());
    for listener in listeners.iter() {
        let at = format!("http://{}", listener.address);
        writeln!(page, "{}", style.bold(format!("Tsubame is serving {root}")));
        writeln!(page, "  {at}/");
        if demonstration {
            writeln!(page, "  {at}/cgi-bin/hello.sh        a CGI script");
            writeln!(page, "  {at}/files/                  a directory listing");
        }
        writeln!(page, "  {at}/server-status           what the server is doing");
    }
    writeln!(page, "Try next:");
    // As it was called: it need not be in the PATH.
    let program = cli::called();
    let example =
        ["/etc/apache2/apache2.conf", "/etc/httpd/conf/httpd.conf"].into_iter().find(|file| Path::new(file).exists());
    let file = example.unwrap_or("FILE");
    for (command, what) in [
        (format!("{program} --port 8000 DIR"), "serve a directory of yours"),
        (format!("{program} ctl --socket {home}/control explain /"), "why this server answers as it does"),
        (format!("{program} check -f {file}"), "check an Apache configuration"),
        (format!("{program} --help"), "everything else"),
    ] {
        match command.len() {
            0..=46 => writeln!(page, "  {command:<48} {what}"),
            _ => {
                writeln!(page, "  {command}");
                writeln!(page, "  {:<48} {what}", "");
            }
        }
    }
    writeln!(page, "Ctrl-C stops the server.");
    output::print(&page.finish());
}
