//! Predicts what would prevent the start of a correct configuration, as the server opens logs, the pid file and ports
//! only then. Nothing is opened, created or executed here.

use std::fmt;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::Path;

use conf::Origin;
use mpm::listen::buckets;
use mpm::settings::{Listen, MpmSettings};
use mpm::{OpenError, pidfile};
use server::{Server, StartError};
use sys::cred::Identity;

use super::explanation::note;
use crate::cli::Options;
use crate::config::{self, Configured};

/// What would prevent a start.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    /// Why the server would not start.
    pub(crate) stops: Vec<Obstacle>,
    /// Why it would not start for this user, though it might for root.
    pub(crate) doubts: Vec<String>,
}

/// A reason why the server would not start.
#[derive(Debug)]
pub(crate) struct Obstacle {
    /// The message that the server would end with.
    pub(crate) text: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
    /// The obstacle is that a line is missing.
    pub(crate) is_absence: bool,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.help.iter().try_for_each(|help| write!(f, "\n{}", note(&format!("help: {help}"))))
    }
}

/// Checks everything that a start would open.
pub(crate) fn look(server: &Server) -> Preflight {
    let mut found = Preflight::default();
    let settings = &server.main().settings;
    server::log::never_open();
    server.unopenable_logs().into_iter().for_each(|error| found.add(error));
    let mpm = settings.get::<MpmSettings>();
    if let Some(path) = mpm.pid_file.get()
        && let Err(error) = pidfile::can_be_written(Path::new(path))
    {
        found.add(StartError::of_system(&error, &format!("AH00099: could not create {path}")));
    }
    server.preflight().into_iter().for_each(|error| found.add(error));
    for (line, origin) in mpm.listen.entries() {
        found.listen(line, origin);
    }
    found.stops.extend(wrong_lines(mpm));
    found
}

/// Why no machine can open the sockets of these `Listen` lines.
pub(crate) fn wrong_lines(mpm: &MpmSettings) -> Option<Obstacle> {
    let lines = mpm.listen.entries();
    if lines.is_empty() {
        let help = Some("Write a line such as `Listen 80`".to_string());
        return Some(Obstacle { text: OpenError::none().to_string(), help, is_absence: true });
    }
    if buckets(mpm) > 1 {
        return None;
    }
    lines.iter().enumerate().find_map(|(index, (line, origin))| {
        let (other, theirs) = lines[..index].iter().find(|(other, _)| overlap(line, other))?;
        let text = format!("AH00072: make_sock: could not bind to address {line} ({origin})");
        let help = format!("Remove one of two lines: `Listen {other}` ({theirs}) takes the same connections");
        Some(Obstacle { text: format!("(98)Address already in use: {text}"), help: Some(help), is_absence: false })
    })
}

/// Whether both lines want the same connections, so that the second cannot have its address.
fn overlap(one: &Listen, other: &Listen) -> bool {
    let takes = |one: &Listen, other: &Listen| {
        let mut own = other.addresses.iter().filter(|address| !address.ip().is_unspecified());
        one.port != 0 && own.any(|address| one.hears(*address))
    };
    takes(one, other) || takes(other, one)
}

impl Preflight {
    fn add(&mut self, StartError { text, is_denied }: StartError) {
        if is_denied && !sys::cred::is_root() {
            self.doubts.push(text);
        } else {
            self.stops.push(Obstacle { text, help: None, is_absence: false })
        }
    }

    /// Asks the kernel whether the machine has the addresses of a line, and whether this process may have its port. A socket
    /// of UDP asks without touching the port itself, which another server may use now; the kernel looks at rights first.
    fn listen(&mut self, line: &Listen, origin: &Origin) {
        let mut is_denied = false;
        for address in &line.addresses {
            let Err(error) = UdpSocket::bind(address) else { continue };
            match error.kind() {
                ErrorKind::AddrNotAvailable => {
                    let text = format!("could not bind to address {address}: no interface has it ({origin})");
                    self.add(StartError::of_system(&error, &format!("AH00072: make_sock: {text}")));
                }
                ErrorKind::PermissionDenied if !is_denied => {
                    is_denied = true;
                    let text =
                        format!("only root, or a program with CAP_NET_BIND_SERVICE, may listen at {line} ({origin})");
                    self.add(StartError::of_system(&error, &text));
                }
                _ => {}
            }
        }
    }
}

/// Checks whether a server can start with a configuration that is correct, and returns the user that its children change to.
/// `Err` says what prevents it.
pub(crate) fn can_start(options: &Options, configured: &Configured) -> Result<Option<Identity>, String> {
    configured.loaded.server.can_be_served()?;
    let settings = &configured.loaded.server.main().settings;
    config::identity(settings, &options.program)
}
