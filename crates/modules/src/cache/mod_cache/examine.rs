//! What `tsubame check` says about the cache.

use server::Server;
use server::module::finding::{Finding, Topic, Weight};

use super::settings::{CacheDir, CacheServer};
use crate::aaa::mod_authz_core::AuthzDir;

/// Finds access rules that stored responses pass by, and lines in sections that do nothing.
pub(super) fn examine(server: &Server, found: &mut dyn FnMut(Finding)) {
    let mut reported = Vec::new();
    for host in server.hosts.iter().filter(|host| host.settings.get::<CacheServer>().quick()) {
        let below_root = |path| below(path, &host.document_root);
        let directories = host.directories().filter_map(|(path, settings)| Some((below_root(path)?, settings)));
        for (path, settings) in host.locations().chain(directories) {
            let mut enabled = host.settings.get::<CacheServer>().enabled.iter();
            let is_covered = enabled.any(|enabled| enabled.scope.meets(path));
            let restricted = settings.get::<AuthzDir>().distinguishes();
            let unused = settings.get::<CacheDir>().enabled.entries().first();
            let text = [
                restricted.filter(|_| is_covered).map(|origin| (origin, "Require", PASSED_BY, AFTERWARDS)),
                unused.map(|(_, origin)| (origin, "CacheEnable", UNUSED, AFTERWARDS)),
            ];
            for (origin, subject, message, instead) in text.into_iter().flatten() {
                if !reported.contains(origin) {
                    reported.push(origin.clone());
                    found(Finding::new(Weight::Loses, Topic::Warning, subject, message).at(origin).instead(instead));
                }
            }
        }
    }
}

const PASSED_BY: &str = "A stored response goes out before access is checked: clients that are refused here get it.";
const UNUSED: &str = "CacheEnable in a section has no effect while the cache answers before all phases.";
const AFTERWARDS: &str = "CacheQuickHandler Off has the cache answer after all phases; CacheDisable takes a path out";

/// The URL path of a directory, if it is below the document root.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    path.strip_prefix(root).filter(|path| path.is_empty() || path.starts_with('/'))
}
