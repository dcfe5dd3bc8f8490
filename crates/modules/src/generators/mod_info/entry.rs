//! The loaded modules, and what the configuration says about them.

use conf::{Directive, Keyed, settings};
use server::{Hook, Server};

settings! {
    /// The module's settings of a server.
    pub struct InfoServer {
        /// Additional information about modules, in HTML, by their names.
        pub(super) texts: Keyed<String, String>,
    }
}

/// A loaded module under its one name, though it may have several tables.
pub(super) struct Entry {
    pub(super) source: &'static str,
    pub(super) directives: Vec<&'static Directive>,
    pub(super) hooks: Vec<&'static Hook>,
}

impl Entry {
    /// The loaded modules, sorted by name.
    pub(super) fn all(server: &Server) -> Vec<Entry> {
        let infos = server.infos();
        let modules = server::module::with_infos(infos);
        let mut all: Vec<Entry> = Vec::new();
        for info in infos {
            let at = all.iter().position(|entry| entry.source == info.source).unwrap_or_else(|| {
                let own = modules.iter().filter(|module| module.info.source == info.source);
                let hooks = own.flat_map(|module| module.hooks).collect();
                all.push(Entry { source: info.source, directives: Vec::new(), hooks });
                all.len() - 1
            });
            all[at].directives.extend(info.directives);
        }
        all.sort_by_key(|entry| entry.source);
        all
    }

    pub(super) fn has_directive(&self, name: &str) -> bool {
        self.directives.iter().any(|row| row.name.eq_ignore_ascii_case(name))
    }
}
