//! Predicts what would prevent the start of a correct configuration, as the server opens logs, the pid file and ports
//! only then. Nothing is opened, created or executed here.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::Path;

use conf::Origin;
use mpm::pidfile;
use mpm::settings::{Listen, MpmSettings};
use server::Server;

/// The findings.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    /// Why the server would not start.
    pub(crate) stops: Vec<String>,
    /// Why it would not start for this user, though it might for root.
    pub(crate) doubts: Vec<String>,
}

/// The prefix of a message about a lack of permission (EACCES).
const DENIED: &str = "(13)";

/// Checks everything that a start would open.
pub(crate) fn look(server: &Server) -> Preflight {
    let mut found = Preflight::default();
    let settings = &server.main().settings;
    server::log::only_look();
    server.unopenable_logs().into_iter().for_each(|text| found.add(text));
    if let Some(path) = settings.get::<MpmSettings>().pid_file.get()
        && let Err(error) = pidfile::can_be_written(Path::new(path))
    {
        found.add(format!("{}: AH00099: could not create {path}", sys::describe(&error)));
    }
    for (line, origin) in settings.get::<MpmSettings>().listen.entries() {
        found.listen(line, origin);
    }
    found
}

impl Preflight {
    fn add(&mut self, text: String) {
        let is_doubt = text.starts_with(DENIED) && !sys::cred::is_root();
        if is_doubt { self.doubts.push(text) } else { self.stops.push(text) }
    }

    /// Checks whether the machine has the addresses of a line, and whether its port needs root. It does not try the
    /// port, as another server may use it now.
    fn listen(&mut self, line: &Listen, origin: &Origin) {
        let first_free = std::fs::read_to_string(UNPRIVILEGED).ok().and_then(|text| text.trim().parse().ok());
        if line.port < first_free.unwrap_or(1024) && !sys::cred::is_root() {
            self.doubts.push(format!("{DENIED}Permission denied: only root may listen at {line} ({origin})"));
        }
        for address in &line.addresses {
            if let Err(error) = UdpSocket::bind((address.ip(), 0))
                && error.kind() == ErrorKind::AddrNotAvailable
            {
                let text = format!("could not bind to address {address}: no interface has it ({origin})");
                self.stops.push(format!("{}: AH00072: make_sock: {text}", sys::describe(&error)));
            }
        }
    }
}

/// The file with the lowest port that does not need root.
const UNPRIVILEGED: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
