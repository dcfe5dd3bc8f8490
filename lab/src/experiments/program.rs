//! The programs that are measured, and where they are on this machine.

use std::path::{Path, PathBuf};

use crate::machine::programs;

/// nginx.
pub(crate) const NGINX: Program = Program::System { names: &["nginx"], package: "nginx" };

/// Apache httpd under Debian's name and its own.
pub(crate) const APACHE: Program = Program::System { names: &["apache2", "httpd"], package: "apache2" };

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
                .ok_or_else(|| "cargo build --profile dist -p tsubame, or give --tsubame PATH".to_owned()),
            Self::System { names, package } => {
                programs::find(names).ok_or_else(|| format!("apt-get install --no-install-recommends {package}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_how_to_get_it() {
        let nowhere = Program::System { names: &["no-such-server"], package: "no-such-package" };
        assert!(nowhere.locate(None).unwrap_err().contains("apt-get install"));
        assert!(Program::Tsubame.locate(None).unwrap_err().contains("--tsubame"));
    }
}
