//! Apache's installation on this machine: where it keeps its configuration and its modules.

use std::path::PathBuf;

use crate::experiments::program::APACHE;
use crate::machine::programs;

/// Where Apache keeps its configuration and its modules on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    /// The compiled-in server root.
    pub(crate) root: PathBuf,
    /// The directory of the loadable modules.
    pub(crate) modules: PathBuf,
}

impl Installation {
    /// Asks Apache for its root, and that root's `LoadModule` lines for the modules.
    pub(crate) fn find() -> Option<Self> {
        let program = APACHE.locate(None).ok()?;
        let root = PathBuf::from(root_of(&programs::output_of(&program, &["-V"])?)?);
        let modules = std::fs::read_to_string(root.join("mods-available/mpm_event.load"))
            .ok()
            .and_then(|text| module_directory(&text))
            .unwrap_or_else(|| root.join("modules"));
        Some(Self { root, modules })
    }
}

/// The compiled-in server root, from the output of `-V`.
pub(crate) fn root_of(compile_settings: &str) -> Option<&str> {
    compile_settings.lines().find_map(|line| line.trim().strip_prefix("-D HTTPD_ROOT=\""))?.strip_suffix('"')
}

fn module_directory(text: &str) -> Option<PathBuf> {
    let line = text.lines().find(|line| line.starts_with("LoadModule "))?;
    Some(PathBuf::from(line.split_whitespace().nth(2)?).parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apache_tells_where_it_lives() {
        let told = "Server compiled with....\n -D APR_HAS_MMAP\n -D HTTPD_ROOT=\"/srv/httpd\"\n";
        assert_eq!(root_of(told), Some("/srv/httpd"));
        let load = "# Conflicts: mpm_worker\nLoadModule mpm_event_module /lib/m/mod_mpm_event.so\n";
        assert_eq!(module_directory(load), Some("/lib/m".into()));
    }
}
