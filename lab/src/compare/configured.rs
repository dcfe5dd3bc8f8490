//! Servers with given configurations: each runs only while it is measured, so that two may use the same port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::experiments::profile::Profile;
use crate::experiments::recipe::Recipe;
use crate::experiments::site::Site;
use crate::machine::accounting::Accounting;
use crate::machine::error::{Context as _, Error, Result, read_text};
use crate::machine::programs;
use crate::machine::scratch::Scratch;
use crate::measure::server::Server;

/// Starts them, and knows their command line.
#[derive(Debug)]
pub(crate) struct Starter {
    program: PathBuf,
    language: Language,
    scratch: Scratch,
    accounting: Accounting,
    cores: Vec<usize>,
    descriptors: u64,
}

/// The language of a configuration, which implies the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// Apache's, which is also Tsubame's.
    Httpd,
    Nginx,
}

impl Language {
    /// The language of a program, by its name.
    fn of(program: &Path) -> Self {
        let name = program.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with("nginx") { Self::Nginx } else { Self::Httpd }
    }

    /// The command line that starts a configuration in the foreground.
    fn foreground(self, file: &str) -> Result<Vec<String>> {
        let arguments: &[&str] = match self {
            Self::Httpd => &["-f", file, "-DFOREGROUND"],
            // The directive may occur only once.
            Self::Nginx => match daemon_setting(&read_text(file)?) {
                Some(true) => {
                    let text = format!("{file} says `daemon on;`: a server in the background cannot be measured");
                    return Err(Error::new(text).advise("without that line, in a copy"));
                }
                Some(false) => &["-c", file],
                None => &["-c", file, "-g", "daemon off;"],
            },
        };
        Ok(arguments.iter().map(|argument| (*argument).to_owned()).collect())
    }
}

/// Whether the text puts nginx in the background, if it says anything about that.
fn daemon_setting(text: &str) -> Option<bool> {
    let value = |line: &str| Some(line.trim_start().strip_prefix("daemon")?.trim().strip_suffix(';')?.trim() != "off");
    text.lines().map(|line| line.split('#').next().unwrap_or_default()).find_map(value)
}

impl Starter {
    /// Finds a program by name or path; without one, the tsubame of this workspace, or the installed one. Its servers
    /// run on `cores`.
    pub(crate) fn new(program: Option<&str>, cores: &[usize], descriptors: u64) -> Result<Self> {
        let found = match program {
            Some(path) if path.contains('/') => Some(PathBuf::from(path)).filter(|path| path.is_file()),
            Some(name) if name != "tsubame" => programs::find(&[name]),
            _ => programs::find_tsubame(None)?.or_else(|| programs::find(&["tsubame"])),
        };
        let absent = || {
            let name = program.unwrap_or("tsubame");
            Error::new(format!("there is no program {name} here")).advise("--server PATH")
        };
        let program = std::path::absolute(found.ok_or_else(absent)?).context(|| "find the server".to_owned())?;
        Ok(Self {
            language: Language::of(&program),
            program,
            scratch: Scratch::new()?,
            accounting: Accounting::detect(),
            cores: cores.to_vec(),
            descriptors,
        })
    }

    /// Starts one in the foreground, and returns the address it listens on.
    pub(crate) fn start(&self, configuration: &Path) -> Result<(Server, SocketAddr)> {
        let shown = configuration.display();
        let file = std::path::absolute(configuration).context(|| format!("find {shown}"))?;
        let site = self.site()?;
        let arguments = self.language.foreground(&file.display().to_string())?;
        let recipe = Recipe { arguments, ..Recipe::default() };
        let server = Server::start(&self.accounting, &self.cores, &self.program, &recipe, &site)
            .context(|| format!("start {} with {shown}", self.program.display()))?;
        let address = server.address().ok_or_else(|| Error::new(format!("nothing listens with {shown}")))?;
        Ok((server, address))
    }

    /// Lets the program check a configuration.
    ///
    /// # Errors
    /// The errors it finds.
    pub(crate) fn check(&self, configuration: &Path) -> Result<()> {
        let flag = if self.language == Language::Nginx { "-c" } else { "-f" };
        let output = Command::new(&self.program).arg("-t").arg(flag).arg(configuration).stdin(Stdio::null()).output();
        let output = output.context(|| format!("start {}", self.program.display()))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let (program, shown) = (self.program.display(), configuration.display());
                let refusal = Error::new(format!("{program} refuses {shown}: {}", said.trim()));
                Err(match said.contains("Config variable ${") {
                    true => refusal.advise(
                        "set its variables first: Debian's are in /etc/apache2/envvars (`. /etc/apache2/envvars`)",
                    ),
                    false => refusal,
                })
            }
        }
    }

    /// The program.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The language of its configurations.
    pub(crate) fn language(&self) -> Language {
        self.language
    }

    /// The scratch directory.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// A place for its output; the configuration decides everything else.
    fn site(&self) -> Result<Site> {
        let directory = self.scratch.create_anew("server")?;
        Ok(Site {
            documents: directory.clone(),
            directory,
            addresses: Vec::new(),
            profile: Profile::Bare,
            close: false,
            script: None,
            memory: None,
            descriptors: self.descriptors,
            account: None,
            identity: None,
            origins: None,
            many: None,
            apache: None,
        })
    }
}

/// Whether both are configurations. A URL and a configuration cannot be compared.
pub(super) fn are_files(given: [&str; 2]) -> Result<bool> {
    match given.map(|name| Path::new(name).is_file()) {
        [false, false] if given.iter().any(|name| name.ends_with(".conf")) => {
            let missing = given.iter().find(|name| name.ends_with(".conf")).unwrap_or(&given[0]);
            Err(Error::new(format!("there is no file {missing}")).advise("two URLs, or two configurations"))
        }
        [one, other] if one == other => Ok(one),
        [is_file, _] => {
            let (file, other) = if is_file { (given[0], given[1]) } else { (given[1], given[0]) };
            Err(Error::new(format!("{file} is a file and {other} is not")).advise("two URLs, or two configurations"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_whether_it_stays_in_the_foreground() {
        assert_eq!(daemon_setting("user x;\n  daemon on; # as ever\n"), Some(true));
        assert_eq!(daemon_setting("daemon off;\n"), Some(false));
        assert_eq!(daemon_setting("# daemon on;\nhttp {}\n"), None);
    }

    #[test]
    fn files_that_are_not_there_are_not_taken_for_hosts() {
        let error = are_files(["/nowhere/now.conf", "/nowhere/next.conf"]).unwrap_err().to_string();
        assert!(error.starts_with("there is no file /nowhere/now.conf"), "{error}");
        assert!(are_files(["localhost:80", "localhost:81"]).is_ok_and(|are_files| !are_files));
    }
}
