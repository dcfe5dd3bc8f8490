//! Both servers, started beside the live one from the same configuration.

use std::path::{Path, PathBuf};

use super::answer::{Answer, Asker};
use super::ask::Ask;
use super::difference::Told;
use super::endpoints::{Endpoints, Network};
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

/// One of the two.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) directory: PathBuf,
    pub(crate) network: Network,
    neutral: Neutral,
    server: Option<Server>,
}

/// Apache, then Tsubame.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) sides: [Side; 2],
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
    pub(crate) networks: [Network; 2],
    pub(crate) sites: &'a Sites,
    pub(crate) scratch: &'a Scratch,
}

impl Start<'_> {
    /// Starts both.
    ///
    /// # Errors
    /// One does not start: the error has the last lines of its log.
    pub(crate) fn pair(&self) -> Result<Pair> {
        let identity = match Writer::needs_identity(self.installed) {
            true => Some(Identity::make(self.scratch.path())?),
            false => None,
        };
        let mut redirections = Redirections::new();
        let mut knows_clients = false;
        let accounting = Accounting::detect();
        let mut start = |at: usize, name: &'static str| -> Result<Side> {
            let directory = self.scratch.create_anew(name)?;
            let mut writer = Writer {
                installed: self.installed,
                endpoints: self.endpoints,
                network: self.networks[at],
                sites: self.sites,
                directory: &directory,
                owner: owner(self.installed),
                identity: identity.as_ref(),
                redirections: Redirections::new(),
                logs: 0,
            };
            let file = writer.write()?;
            knows_clients = writer.knows_clients();
            redirections.extend(std::mem::take(&mut writer.redirections));
            let server = self.start(self.programs[at], &file, &directory, &accounting, self.networks[at]);
            let server = server.context(|| format!("start {}", self.programs[at].path.display()))?;
            let neutral = self.neutral(&directory, self.networks[at]);
            Ok(Side { directory, network: self.networks[at], neutral, server: Some(server) })
        };
        Ok(Pair { sides: [start(0, "apache")?, start(1, "tsubame")?], redirections, knows_clients })
    }

    fn start(
        &self,
        program: &Program,
        file: &Path,
        directory: &Path,
        accounting: &Accounting,
        network: Network,
    ) -> Result<Server> {
        let defines = program.defines.iter().flat_map(|name| ["-D".to_owned(), name.clone()]);
        let own = ["-f".to_owned(), file.display().to_string(), "-DFOREGROUND".to_owned()];
        let lossy = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        let recipe = Recipe {
            arguments: own.into_iter().chain(defines).collect(),
            environment: program.environment.iter().map(|(name, value)| (lossy(name), lossy(value))).collect(),
            ..Recipe::default()
        };
        let site = Site {
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
        };
        Server::start(accounting, &allowed_cores()?, &program.path, &recipe, &site)
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
    /// Asks it, and returns its answer in both forms.
    pub(crate) fn ask(&self, asker: &mut Asker, endpoints: &Endpoints, ask: &Ask, number: Option<usize>) -> Told {
        let answer = asker.ask(ask, &ask.bytes(number), endpoints.socket(ask.endpoint, self.network));
        self.told(answer)
    }

    /// An answer in both forms.
    fn told(&self, answer: Answer) -> Told {
        Told { plain: self.neutral.plain(&answer), answer }
    }

    /// A text of it in neutral words.
    pub(crate) fn neutral(&self, text: &str) -> String {
        self.neutral.text(text).into_owned()
    }
}

impl Pair {
    /// Ends both servers, so that their logs are complete.
    pub(crate) fn stop(&mut self) {
        for side in &mut self.sides {
            side.server = None;
        }
    }
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
