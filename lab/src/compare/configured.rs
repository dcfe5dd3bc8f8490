//! Servers of given configurations: each runs only while it is measured, so that two may want the same port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::accounting::Accounting;
use crate::error::{Context as _, Error, Result};
use crate::host::allowed_cores;
use crate::programs;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::subject::{Recipe, Site};
use crate::workload::Profile;

/// What starts them: httpd's command line, which Tsubame has too.
#[derive(Debug)]
pub(super) struct Starter {
    program: PathBuf,
    scratch: Scratch,
    accounting: Accounting,
    cores: Vec<usize>,
    descriptors: u64,
}

impl Starter {
    /// With a program by name or path; without, the tsubame of this workspace, or the one that is installed.
    pub(super) fn new(program: Option<&str>, descriptors: u64) -> Result<Self> {
        let found = match program {
            Some(path) if path.contains('/') => Some(PathBuf::from(path)).filter(|path| path.is_file()),
            Some(name) => programs::find(&[name]),
            None => programs::find_tsubame(None)?.or_else(|| programs::find(&["tsubame"])),
        };
        let absent = || {
            let name = program.unwrap_or("tsubame");
            Error::new(format!("there is no program {name} here")).advise("--server PATH")
        };
        let program = std::path::absolute(found.ok_or_else(absent)?).context(|| "find the server".to_owned())?;
        Ok(Self {
            program,
            scratch: Scratch::new()?,
            accounting: Accounting::detect(),
            cores: allowed_cores()?,
            descriptors,
        })
    }

    /// Starts one in the foreground, and tells where it listens.
    pub(super) fn start(&self, configuration: &str) -> Result<(Server, SocketAddr)> {
        let file = std::path::absolute(configuration).context(|| format!("find {configuration}"))?;
        let site = self.site()?;
        let arguments = vec!["-f".to_owned(), file.display().to_string(), "-DFOREGROUND".to_owned()];
        let recipe = Recipe { arguments, ..Recipe::default() };
        let server = Server::start(&self.accounting, &self.cores, &self.program, &recipe, &site)
            .context(|| format!("start {} with {configuration}", self.program.display()))?;
        let address = server.address().ok_or_else(|| Error::new(format!("nothing listens with {configuration}")))?;
        Ok((server, address))
    }

    /// A place for what it prints; everything else is said by its configuration.
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
            apache: None,
        })
    }
}

/// Whether both are configurations. One of each kind cannot be compared.
pub(super) fn are_files(given: [&str; 2]) -> Result<bool> {
    match given.map(|name| Path::new(name).is_file()) {
        [one, other] if one == other => Ok(one),
        [is_file, _] => {
            let (file, other) = if is_file { (given[0], given[1]) } else { (given[1], given[0]) };
            Err(Error::new(format!("{file} is a file and {other} is none")).advise("two URLs, or two configurations"))
        }
    }
}
