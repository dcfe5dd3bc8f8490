//! What would stop the start of a configuration that is correct: logs, the pid file and ports are opened only then. Here
//! nothing is opened, made or executed.

use std::path::Path;

use mpm::pidfile;
use mpm::settings::MpmSettings;
use server::Server;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    /// The server would not start, and why.
    pub(crate) stops: Vec<String>,
    /// It would not start for this user; root may have more luck.
    pub(crate) doubts: Vec<String>,
}

/// How a message begins that says that this user may not do something (EACCES).
const DENIED: &str = "(13)";

/// Looks at everything that a start would open.
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
    found.doubts.extend(ports(server));
    found
}

impl Preflight {
    fn add(&mut self, text: String) {
        let is_doubt = text.starts_with(DENIED) && !sys::cred::is_root();
        if is_doubt { self.doubts.push(text) } else { self.stops.push(text) }
    }
}

/// The lowest port that everybody may listen at.
const UNPRIVILEGED: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Ports that are root's.
fn ports(server: &Server) -> Vec<String> {
    let first_free =
        std::fs::read_to_string(UNPRIVILEGED).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
    let lines = server.main().settings.get::<MpmSettings>().listen.entries().iter();
    let refused = lines.filter(|(line, _)| line.port < first_free && !sys::cred::is_root());
    refused
        .map(|(line, origin)| format!("{DENIED}Permission denied: only root may listen at {line} ({origin})"))
        .collect()
}
