//! The subjects: the table of servers. One code path starts them all; only configuration differs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::{apache, caddy, h2o, lighttpd, nginx};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::programs;
use crate::workload::Profile;

/// Children of every prefork server: enough for 100 connections at once, and the number whose memory is measured.
pub(crate) const PREFORK_CHILDREN: u32 = 256;

/// The number of connections that every event-driven server is configured for.
pub(crate) const CAPACITY: u32 = 12_000;

/// Long enough that no server closes an idle connection during its measurement.
pub(crate) const KEEP_ALIVE_SECONDS: u32 = 600;

/// The queue of connections not yet accepted; the kernel may cut it down (net.core.somaxconn).
pub(crate) const BACKLOG: u32 = 4095;

/// The table.
pub(crate) static SUBJECTS: [Subject; 15] = [
    Subject {
        id: "floor",
        title: "floor (bare epoll loop)",
        program: Program::Lab,
        version: &["--version"],
        recipe: |site| Ok(floor(site, false)),
    },
    Subject {
        id: "floor-threads",
        title: "floor (bare threads)",
        program: Program::Lab,
        version: &["--version"],
        recipe: |site| Ok(floor(site, true)),
    },
    Subject {
        id: "floor-spawn",
        title: "floor (bare spawn loop)",
        program: Program::Lab,
        version: &["--version"],
        recipe: floor_spawn,
    },
    Subject {
        id: "tsubame-percore",
        title: "Tsubame percore",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "percore"),
    },
    Subject {
        id: "tsubame-prefork",
        title: "Tsubame prefork",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "prefork"),
    },
    Subject {
        id: "tsubame-worker",
        title: "Tsubame worker",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "worker"),
    },
    Subject {
        id: "tsubame-event",
        title: "Tsubame event",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "event"),
    },
    Subject {
        id: "nginx",
        title: "nginx",
        program: NGINX,
        version: &["-v"],
        recipe: |site| nginx::recipe(site, false),
    },
    Subject {
        id: "nginx-ofc",
        title: "nginx with open_file_cache",
        program: NGINX,
        version: &["-v"],
        recipe: |site| nginx::recipe(site, true),
    },
    Subject {
        id: "lighttpd",
        title: "lighttpd",
        program: Program::System { names: &["lighttpd"], package: "lighttpd" },
        version: &["-v"],
        recipe: lighttpd::recipe,
    },
    Subject {
        id: "h2o",
        title: "h2o",
        program: Program::System { names: &["h2o"], package: "h2o" },
        version: &["-v"],
        recipe: h2o::recipe,
    },
    Subject {
        id: "caddy",
        title: "caddy",
        program: Program::System { names: &["caddy"], package: "caddy" },
        version: &["version"],
        recipe: caddy::recipe,
    },
    Subject {
        id: "apache-prefork",
        title: "Apache prefork",
        program: APACHE,
        version: &["-v"],
        recipe: |site| apache::apache(site, "prefork"),
    },
    Subject {
        id: "apache-worker",
        title: "Apache worker",
        program: APACHE,
        version: &["-v"],
        recipe: |site| apache::apache(site, "worker"),
    },
    Subject {
        id: "apache-event",
        title: "Apache event",
        program: APACHE,
        version: &["-v"],
        recipe: |site| apache::apache(site, "event"),
    },
];

const NGINX: Program = Program::System { names: &["nginx"], package: "nginx" };

/// Apache httpd under Debian's name and its own.
pub(crate) const APACHE: Program = Program::System { names: &["apache2", "httpd"], package: "apache2" };

/// A server, run in one way.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The name on the command line and in the results.
    pub(crate) id: &'static str,
    /// The name in tables.
    pub(crate) title: &'static str,
    /// The program to start.
    pub(crate) program: Program,
    /// The arguments that print its version.
    pub(crate) version: &'static [&'static str],
    /// Its configuration and command line for a site.
    pub(crate) recipe: fn(&Site) -> Result<Recipe>,
}

/// The program of a subject.
#[derive(Debug)]
pub(crate) enum Program {
    /// The server of this project.
    Tsubame,
    /// This program.
    Lab,
    /// Something installed on the machine.
    System {
        /// Names it is known by.
        names: &'static [&'static str],
        /// Its Debian package.
        package: &'static str,
    },
}

impl Program {
    /// Its path, or how to get it.
    pub(crate) fn locate(&self, tsubame: Option<&Path>) -> std::result::Result<PathBuf, String> {
        match self {
            Self::Lab => std::env::current_exe().map_err(|error| error.to_string()),
            Self::Tsubame => tsubame
                .map(Path::to_owned)
                .ok_or_else(|| "cargo build --release -p tsubame, or give --tsubame PATH".to_owned()),
            Self::System { names, package } => {
                programs::find(names).ok_or_else(|| format!("apt-get install --no-install-recommends {package}"))
            }
        }
    }
}

/// The environment for which a configuration is written.
#[derive(Debug)]
pub(crate) struct Site {
    /// The server's own directory: configuration, logs, PID file.
    pub(crate) directory: PathBuf,
    /// The documents, the same for everyone.
    pub(crate) documents: PathBuf,
    /// The addresses to listen on: one, or more if its ports do not suffice for all connections.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The configuration.
    pub(crate) profile: Profile,
    /// Whether the floor, which cannot read requests, has to close after each one.
    pub(crate) close: bool,
    /// The requested script, in a directory with the others; `None` if no scripts are run.
    pub(crate) script: Option<PathBuf>,
    /// The memory limit for server and scripts in bytes; `None`: that of the machine.
    pub(crate) memory: Option<u64>,
    /// The limit on open files of a process.
    pub(crate) descriptors: u64,
    /// The user that a server started by root changes to.
    pub(crate) account: Option<Account>,
    /// The server's certificate and key, if it speaks TLS.
    pub(crate) identity: Option<Identity>,
    /// Hosts, lines or certificates by the thousand, if that is what is measured.
    pub(crate) many: Option<Many>,
    /// Apache's configuration and modules, if it is installed.
    pub(crate) apache: Option<apache::Installation>,
}

impl Site {
    /// The first address, which is the only one for most workloads.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The directory of the scripts.
    pub(crate) fn scripts(&self) -> Option<&Path> {
        self.script.as_deref().and_then(Path::parent)
    }
}

/// Hosts, lines or certificates by the thousand.
#[derive(Debug)]
pub(crate) struct Many {
    /// How many.
    pub(crate) count: u32,
    /// The certificate of each host, if they have some.
    pub(crate) identities: Vec<Identity>,
}

/// An unprivileged user and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// The user's name.
    pub(crate) user: &'static str,
    /// The group's name.
    pub(crate) group: &'static str,
    /// The user's number.
    pub(crate) uid: u32,
    /// The group's number.
    pub(crate) gid: u32,
}

impl Account {
    /// Debian's account for web servers, otherwise the one that owns nothing; `None` if we are not root.
    pub(crate) fn choose() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        Self::among(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    fn among(users: &str) -> Option<Self> {
        [("www-data", "www-data"), ("nobody", "nogroup")].into_iter().find_map(|(user, group)| {
            let line = users.lines().find(|line| line.split(':').next() == Some(user))?;
            let mut numbers = line.split(':').skip(2).map_while(|field| field.parse().ok());
            Some(Self { user, group, uid: numbers.next()?, gid: numbers.next()? })
        })
    }
}

/// How to start a server for a site.
#[derive(Debug, Default)]
pub(crate) struct Recipe {
    /// Files to write into the site's directory.
    pub(crate) files: Vec<ConfigFile>,
    /// The command line after the program.
    pub(crate) arguments: Vec<String>,
    /// Additional environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Another program that has to run beside it.
    pub(crate) beside: Option<Beside>,
}

/// A program to which a server passes requests. It starts first, and counts as a part of the server.
#[derive(Debug)]
pub(crate) struct Beside {
    /// The program to start.
    pub(crate) program: Program,
    /// Its configuration.
    pub(crate) file: ConfigFile,
    /// The arguments before the name of that file.
    pub(crate) arguments: Vec<String>,
    /// The file that exists once it can be used.
    pub(crate) ready: PathBuf,
}

/// One file of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// Its name relative to the site's directory.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// Whether it is used as installed on the machine, and thus not worth storing beside the results.
    pub(crate) as_installed: bool,
}

impl ConfigFile {
    /// A file that the laboratory composed.
    pub(crate) fn composed(name: impl Into<String>, text: String) -> Self {
        Self { name: name.into(), text, as_installed: false }
    }
}

/// The subject of that name.
pub(crate) fn find(id: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.id == id)
}

fn floor(site: &Site, threads: bool) -> Recipe {
    let mut arguments = vec!["floor".to_owned(), "--listen".to_owned(), site.address().to_string()];
    let options = [("--close", site.close), ("--threads", threads)];
    arguments.extend(options.iter().filter(|(_, wanted)| *wanted).map(|(name, _)| (*name).to_owned()));
    Recipe { arguments, ..Recipe::default() }
}

fn floor_spawn(site: &Site) -> Result<Recipe> {
    let script = site.script.as_ref().ok_or_else(|| Error::new("this floor does nothing but run a script"))?;
    let mut recipe = floor(site, false);
    recipe.arguments.extend(["--spawn".to_owned(), script.display().to_string()]);
    Ok(recipe)
}

/// A site for the tests of configurations.
#[cfg(test)]
pub(crate) fn example_site(profile: Profile) -> Site {
    Site {
        directory: "/lab/server".into(),
        documents: "/lab/documents".into(),
        addresses: vec![SocketAddr::from(([127, 88, 0, 1], 8080))],
        profile,
        close: false,
        script: None,
        memory: None,
        descriptors: 20_000,
        account: Some(Account { user: "www-data", group: "www-data", uid: 33, gid: 33 }),
        identity: None,
        many: None,
        apache: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for subject in &SUBJECTS {
            assert_eq!(find(subject.id).map(|found| found.title), Some(subject.title));
        }
        assert!(find("iis").is_none());
    }

    #[test]
    fn a_missing_program_says_how_to_get_it() {
        let nowhere = Program::System { names: &["no-such-server"], package: "no-such-package" };
        assert!(nowhere.locate(None).unwrap_err().contains("apt-get install"));
        assert!(Program::Tsubame.locate(None).unwrap_err().contains("--tsubame"));
    }

    #[test]
    fn an_account_is_found_with_its_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\n";
        let expected = Account { user: "nobody", group: "nogroup", uid: 65534, gid: 65533 };
        assert_eq!(Account::among(users), Some(expected));
        assert_eq!(Account::among("root:x:0:0:root:/root:/bin/sh\n"), None);
    }

    #[test]
    fn the_floor_is_told_when_to_close() {
        let mut site = example_site(Profile::Bare);
        assert!(!floor(&site, false).arguments.contains(&"--close".to_owned()));
        site.close = true;
        assert!(floor(&site, true).arguments.ends_with(&["--close".to_owned(), "--threads".to_owned()]));
    }
}
