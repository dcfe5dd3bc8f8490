//! The error log lines about a pass over the rules (`LogLevel rewrite:trace1` to `trace8`), in Apache's words.

use conf::Level;
use server::Request;

const LEVELS: [Level; 8] = [
    Level::Trace1,
    Level::Trace2,
    Level::Trace3,
    Level::Trace4,
    Level::Trace5,
    Level::Trace6,
    Level::Trace7,
    Level::Trace8,
];

/// The wanted level, determined once per pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace(usize);

impl Trace {
    pub(super) fn of(request: &Request) -> Trace {
        Trace(LEVELS.iter().take_while(|level| request.logs("rewrite", **level)).count())
    }

    /// Whether lines of this level are wanted.
    pub(super) fn wants(self, level: usize) -> bool {
        self.0 >= level
    }

    /// Writes a line. `directory`: that of the rules, if they belong to a section.
    pub(super) fn log(self, request: &Request, level: usize, directory: Option<&str>, text: impl FnOnce() -> String) {
        if !self.wants(level) {
            return;
        }
        let redirects = std::iter::successors(request.previous(), |previous| previous.before.as_ref()).count();
        let line = format!(
            "{} - {} [{}/sid#{:x}][rid#{:x}/{}{}] {}{}",
            request.client().ip(),
            request.login.user.as_deref().map_or("-", |user| if user.is_empty() { "\"\"" } else { user }),
            request.server_name(),
            std::ptr::from_ref(request.vhost) as usize,
            std::ptr::from_ref(request) as usize,
            if request.is_subrequest() { "subreq" } else { "initial" },
            if redirects == 0 { String::new() } else { format!("/redir#{redirects}") },
            directory.map_or_else(String::new, |directory| format!("[perdir {directory}] ")),
            text()
        );
        request.log("rewrite", LEVELS[level - 1], line);
    }
}
