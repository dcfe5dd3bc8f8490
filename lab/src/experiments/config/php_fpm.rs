//! php-fpm: one pool, the same for every server in front of it.

use std::path::PathBuf;

use crate::experiments::profile::Profile;
use crate::experiments::program::Program;
use crate::experiments::recipe::{Backend, ConfigFile};
use crate::experiments::site::Site;

/// Debian's names for it, the newest first, and its own.
pub(crate) const PROGRAM: Program =
    Program::System { names: &["php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm"], package: "php-fpm" };

/// The number of processes: more than the connections that any server keeps for four clients.
const CHILDREN: u32 = 16;

/// Its socket.
pub(crate) fn socket(site: &Site) -> PathBuf {
    site.directory.join("php-fpm.sock")
}

/// Whether a server needs it.
pub(crate) fn is_wanted(site: &Site) -> bool {
    matches!(site.profile, Profile::PhpFpm | Profile::PhpKept)
}

/// The process to start before the server.
pub(crate) fn backend(site: &Site) -> Option<Backend> {
    is_wanted(site).then(|| Backend {
        program: PROGRAM,
        file: ConfigFile::composed("php-fpm.conf", configuration(site)),
        arguments: ["-F", "-R", "-n", "-y"].map(str::to_owned).to_vec(),
        ready: socket(site),
    })
}

fn configuration(site: &Site) -> String {
    let (directory, socket) = (site.directory.display(), socket(site));
    let account = match &site.account {
        Some(account) => format!("user = {}\ngroup = {}\n", account.user, account.group),
        None => String::new(),
    };
    format!(
        "\
[global]
error_log = {directory}/php-fpm.log
log_level = warning
[www]
{account}listen = {}
listen.mode = 0666
listen.backlog = 1024
pm = static
pm.max_children = {CHILDREN}
pm.max_requests = 0
",
        socket.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::site::example_site;

    #[test]
    fn the_pool_is_the_same_whichever_connections_there_are() {
        let text = |profile| backend(&example_site(profile)).map(|backend| backend.file.text);
        assert_eq!(text(Profile::PhpFpm), text(Profile::PhpKept));
        assert!(text(Profile::PhpFpm).is_some_and(|text| text.contains("listen = /lab/server/php-fpm.sock\n")));
        assert!(text(Profile::Bare).is_none());
    }
}
