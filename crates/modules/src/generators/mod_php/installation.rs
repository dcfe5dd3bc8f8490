//! The PHP that is installed on this machine.

use std::path::Path;

/// The places to look for the program.
pub(super) const PROGRAMS: [&str; 2] = ["/usr/bin/php-cgi", "/usr/local/bin/php-cgi"];

/// The `php-cgi` that runs scripts, and where its settings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Installation {
    pub(super) program: String,
    /// The directory of its `php.ini`, if that is not the built-in one.
    pub(super) ini: Option<String>,
    /// The directory of further files, likewise.
    pub(super) scan: Option<String>,
}

impl Installation {
    /// The one that the configuration names, or the system's. Its settings are Debian's for mod_php, if that was ever
    /// installed.
    pub(super) fn find(program: Option<&String>, ini: Option<&String>) -> Option<Installation> {
        let there = |path: &&str| Path::new(path).is_file();
        let program = match program {
            Some(program) => Some(program.as_str()).filter(there),
            None => PROGRAMS.into_iter().find(there),
        }?;
        // `/usr/bin/php-cgi` is a link to `/usr/bin/php-cgi8.2`.
        let real = std::fs::canonicalize(program).ok()?;
        let version = real.file_name().and_then(|name| name.to_str()?.strip_prefix("php-cgi").map(str::to_string));
        let own = version.filter(|version| !version.is_empty()).map(|version| format!("/etc/php/{version}/apache2"));
        let own = own.filter(|own| Path::new(own).join("php.ini").is_file());
        Some(Installation {
            program: program.to_string(),
            scan: own.as_ref().map(|own| format!("{own}/conf.d")),
            ini: ini.cloned().or(own),
        })
    }
}
