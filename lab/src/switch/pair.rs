//! The servers, started beside the live one from the same configuration: Apache, Tsubame, and a second Apache.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::answer::{Answer, Asker};
use super::ask::Ask;
use super::copies;
use super::difference::Told;
use super::endpoints::{Endpoints, Network, SERVERS};
use super::neutral::Neutral;
use super::private::{Redirections, Writer};
use super::sites::Sites;
use super::tree::{Installed, Program};
use crate::experiments::profile::Profile;
use crate::experiments::recipe::Recipe;
use crate::experiments::site::Site;
use crate::machine::accounting::Accounting;
use crate::machine::error::{Context as _, Result};
use crate::machine::host::allowed_cores;
use crate::machine::identity::Identity;
use crate::machine::scratch::Scratch;
use crate::measure::server::Server;

/// The most of an error log that is read for one request, in bytes.
const ERRORS_MAX: u64 = 16 * 1024;

/// One of them.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) directory: PathBuf,
    pub(crate) network: Network,
    neutral: Neutral,
    server: Option<Server>,
    place: Site,
}

/// Apache, then Tsubame.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) sides: [Side; 2],
    /// Another Apache: what it answers differently than the first one is the work of time, of chance, or of the process that
    /// answers.
    pub(crate) twin: Option<Side>,
    pub(crate) redirections: Redirections,
    /// Whether the servers believe the addresses of clients that the logs say.
    pub(crate) knows_clients: bool,
}

/// How to start them.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) programs: [&'a Program; 2],
    pub(crate) installed: &'a Installed,
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) networks: [Network; SERVERS],
    pub(crate) sites: &'a Sites,
    pub(crate) scratch: &'a Scratch,
    /// Whether scripts, programs and backends may be started and asked.
    pub(crate) runs_scripts: bool,
    /// Error documents that a script or a backend makes.
    pub(crate) pages_that_run: &'a BTreeSet<String>,
    /// Whether each has a copy of the file system.
    pub(crate) copies: bool,
}

impl Start<'_> {
    /// Starts them; the second Apache only if something is to be asked twice.
    ///
    /// # Errors
    /// One does not start: the error has the last lines of its log.
    pub(crate) fn pair(&self, with_twin: bool) -> Result<Pair> {
        let identity = match Writer::needs_identity(self.installed) {
            true => Some(Identity::make(self.scratch.path())?),
            false => None,
        };
        let mut redirections = Redirections::new();
        let mut knows_clients = false;
        let accounting = Accounting::detect();
        let mut start = |at: usize, name: &'static str| -> Result<Side> {
            let directory = self.scratch.create_anew(name)?;
            let owner = owner(self.installed);
            close_to_others(&directory, owner).context(|| format!("close {} to others", directory.display()))?;
            let mut writer = Writer {
                installed: self.installed,
                endpoints: self.endpoints,
                network: self.networks[at],
                sites: self.sites,
                directory: &directory,
                runs_scripts: self.runs_scripts,
                pages_that_run: self.pages_that_run,
                owner,
                identity: identity.as_ref(),
                redirections: Redirections::new(),
                logs: 0,
            };
            let file = writer.write()?;
            knows_clients = writer.knows_clients();
            redirections.extend(std::mem::take(&mut writer.redirections));
            let program = self.programs[at % 2];
            let place = self.place(&directory, self.networks[at]);
            let server = self.start(program, &file, &accounting, &place);
            let server = server.context(|| format!("start {}", program.path.display()))?;
            let neutral = self.neutral(&directory, self.networks[at]);
            Ok(Side { directory, network: self.networks[at], neutral, server: Some(server), place })
        };
        let sides = [start(0, "apache")?, start(1, "tsubame")?];
        let twin = if with_twin { Some(start(2, "apache-twin")?) } else { None };
        Ok(Pair { sides, twin, redirections, knows_clients })
    }

    fn start(&self, program: &Program, file: &Path, accounting: &Accounting, place: &Site) -> Result<Server> {
        let defines = program.defines.iter().flat_map(|name| ["-D".to_owned(), name.clone()]);
        let own = ["-f".to_owned(), file.display().to_string(), "-DFOREGROUND".to_owned()];
        let lossy = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        let arguments: Vec<String> = own.into_iter().chain(defines).collect();
        let (path, arguments) = match self.copies {
            true => copies::wrapped(&program.path, arguments, self.scratch.path())?,
            false => (program.path.clone(), arguments),
        };
        let recipe = Recipe {
            arguments,
            environment: program.environment.iter().map(|(name, value)| (lossy(name), lossy(value))).collect(),
            ..Recipe::default()
        };
        Server::start(accounting, &allowed_cores()?, &path, &recipe, place)
    }

    /// Where a server runs; its configuration decides everything else.
    fn place(&self, directory: &Path, network: Network) -> Site {
        Site {
            documents: directory.to_owned(),
            directory: directory.to_owned(),
            addresses: self.endpoints.all().map(|(endpoint, _)| self.endpoints.socket(endpoint, network)).collect(),
            profile: Profile::Bare,
            close: false,
            script: None,
            memory: None,
            descriptors: 0,
            account: None,
            identity: None,
            origins: None,
            many: None,
            apache: None,
        }
    }

    /// What the answers of one of them say about its place and its name.
    fn neutral(&self, directory: &Path, network: Network) -> Neutral {
        let place = [(directory.display().to_string(), "DIRECTORY".to_owned())];
        let ports = self.endpoints.ports().flat_map(|(original, own)| {
            // A usual port is not written.
            let written = if matches!(original, 80 | 443) { String::new() } else { format!(":{original}") };
            [(format!(":{own}"), written), (format!("Port {own}"), format!("Port {original}"))]
        });
        let addresses = (0..self.endpoints.addresses())
            .map(|address| (network.ip(address).to_string(), format!("ADDRESS{address}")));
        Neutral::new(place.into_iter().chain(ports).chain(addresses))
    }
}

impl Side {
    /// Where it listens.
    pub(crate) fn socket(&self, endpoints: &Endpoints, ask: &Ask) -> SocketAddr {
        endpoints.socket(ask.endpoint, self.network)
    }

    /// Asks it, and returns its answer in both forms.
    pub(crate) fn ask(&self, asker: &mut Asker, endpoints: &Endpoints, ask: &Ask, number: Option<usize>) -> Told {
        let answer = asker.ask(ask, &ask.bytes(number), self.socket(endpoints, ask));
        self.told(answer)
    }

    /// An answer in both forms.
    fn told(&self, answer: Answer) -> Told {
        Told { plain: self.neutral.plain(&answer), answer }
    }

    /// Returns an error with the last lines of its log if the server is gone.
    pub(crate) fn check_alive(&self) -> Result<()> {
        let alive = self.server.as_ref().map_or(Ok(()), |server| server.check_alive(&self.place));
        alive.context(|| format!("ask {}", self.directory.file_name().unwrap_or_default().display()))
    }

    /// The length of its error log so far, in bytes.
    pub(crate) fn errors_length(&self) -> u64 {
        self.directory.join("error.log").metadata().map_or(0, |meta| meta.len())
    }

    /// What is in its error log from a place on, without what belongs to a moment; the beginning of that, if it is long.
    pub(crate) fn errors_from(&self, from: u64) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = std::fs::File::open(self.directory.join("error.log"))
            && file.seek(SeekFrom::Start(from)).is_ok()
        {
            let _ = file.take(ERRORS_MAX).read_to_end(&mut text);
        }
        let lines = String::from_utf8_lossy(&text);
        let message = |line: &str| {
            // Behind the time, the module, the process, and the client.
            let mut rest = line;
            let mut module = "";
            while let Some((part, behind)) = rest.strip_prefix('[').and_then(|part| part.split_once("] ")) {
                module = if part.contains(':') && !part.contains(' ') { part } else { module };
                rest = behind;
            }
            format!("[{module}] {}\n", self.neutral(rest))
        };
        lines.lines().map(message).collect()
    }

    /// A text of it in neutral words.
    pub(crate) fn neutral(&self, text: &str) -> String {
        self.neutral.text(text).into_owned()
    }
}

impl Pair {
    /// Ends all servers, so that their logs are complete.
    pub(crate) fn stop(&mut self) {
        self.twin = None;
        for side in &mut self.sides {
            side.server = None;
        }
    }
}

/// Lets only the servers into a directory: their logs and what they keep are not for everybody on the machine.
fn close_to_others(directory: &Path, owner: Option<(u32, u32)>) -> std::io::Result<()> {
    let mode = match owner {
        Some((_, group)) => {
            std::os::unix::fs::chown(directory, None, Some(group))?;
            0o710
        }
        // Nobody knows who root's children are.
        None if rustix::process::geteuid().is_root() => 0o711,
        None => 0o700,
    };
    std::fs::set_permissions(directory, Permissions::from_mode(mode))
}

/// The user and group of the servers' children, if this process may choose them.
fn owner(installed: &Installed) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let value =
        |name: &str| installed.tree.iter().rfind(|one| one.is(name)).and_then(|one| one.words().first().cloned());
    let user = number("/etc/passwd", &value("User")?)?;
    Some((user, number("/etc/group", &value("Group")?)?))
}

/// The number of a name in a file such as `/etc/passwd`, or the number that is written instead (`#33`).
fn number(file: &str, name: &str) -> Option<u32> {
    if let Some(number) = name.strip_prefix('#') {
        return number.parse().ok();
    }
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|parts| parts.first() == Some(&name)).and_then(|parts| parts.get(2)?.parse().ok())
}
