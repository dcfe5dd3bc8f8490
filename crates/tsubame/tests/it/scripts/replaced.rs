//! Scripts that are replaced while they are asked for: no request fails, and the new script serves.

use std::os::unix::fs::PermissionsExt;

use crate::harness::fastcgi_programs::APPLICATION;
use crate::harness::mpm::under_percore_and;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::mpm::load::Load;
use crate::{scripts::fcgid, scripts::perl};

/// Says which version it is, or ten digits.
const SCRIPT: &str =
    "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\", $ENV{QUERY_STRING} eq 'ten' ? '0123456789' : 'ok';\n";

/// Puts a script into the place of another one, three times, each with the same time of its last change. `pages` are its addresses.
fn replaced_under_load(server: &Server<'_>, site: &Site, file: &str, text: &str, pages: &[&str]) {
    let asked: Vec<String> = pages.iter().map(|page| format!("{page}?ten")).collect();
    let load = Load::over(server.address(), 4, &asked);
    let modified = std::fs::metadata(site.root.join(file)).and_then(|meta| meta.modified()).expect("a time");
    for version in ["one", "two", "three"] {
        load.goes_on(50);
        let new = site.file("new", text.replace("'ok'", &format!("'{version}'")));
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("mode");
        std::fs::File::open(&new).and_then(|file| file.set_modified(modified)).expect("the same time");
        std::fs::rename(&new, site.root.join(file)).expect("rename");
        for page in pages {
            until(&format!("version {version} of {page}"), || (server.get(page).text() == version).then_some(()));
        }
    }
    load.goes_on(50);
    assert_eq!(load.end(), Vec::<String>::new());
}

under_percore_and! { worker:
    /// A FastCGI application.
    fn a_fastcgi_application_is_replaced(mpm: Mpm) {
        let Some(site) = fcgid::site() else { return };
        let server = Server::start(mpm, &site, fcgid::CONFIGURATION);
        replaced_under_load(&server, &site, "htdocs/a.fcgi", APPLICATION, &["/a.fcgi"]);
    }

    /// A script in each of the ways in which it stays in memory.
    fn a_perl_script_is_replaced(mpm: Mpm) {
        let site = Site::new();
        site.script("ten", SCRIPT);
        let server = Server::start(mpm, &site, perl::CONFIGURATION);
        let pages = ["/registry/ten", "/run/ten", "/fork/ten", "/speedy/ten"];
        replaced_under_load(&server, &site, "cgi-bin/ten", SCRIPT, &pages);
    }
}
