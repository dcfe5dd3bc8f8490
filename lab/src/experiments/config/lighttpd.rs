//! lighttpd: one process, which is its default.

use std::path::Path;

use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::{BACKLOG, KEEP_ALIVE_SECONDS, Site};
use crate::machine::error::{Error, Result};
use crate::machine::identity::Identity;

/// lighttpd refuses a greater number of requests per connection; the client then connects again.
const KEEP_ALIVE_REQUESTS_MAX: u32 = 65_535;

/// lighttpd reserves memory in proportion to its descriptors, and allows half as many connections.
const DESCRIPTORS_MAX: u64 = 30_000;

/// Debian's directory of its modules.
const MODULES: &str = "/usr/lib/lighttpd";

/// lighttpd without modules, except for those that scripts need.
pub(crate) fn recipe(site: &Site) -> Result<Recipe> {
    if site.identity.is_some() && Path::new(MODULES).exists() && !Path::new(MODULES).join("mod_openssl.so").exists() {
        return Err(
            Error::new("it has no TLS here").advise("apt-get install --no-install-recommends lighttpd-mod-openssl")
        );
    }
    let path = site.directory.join("lighttpd.conf").display().to_string();
    Ok(Recipe {
        files: vec![ConfigFile::composed("lighttpd.conf", configuration(site))],
        arguments: ["-D", "-f", &path].map(str::to_owned).to_vec(),
        ..Recipe::default()
    })
}

fn configuration(site: &Site) -> String {
    let account = match &site.account {
        Some(account) => format!("server.username = \"{}\"\nserver.groupname = \"{}\"\n", account.user, account.group),
        None => String::new(),
    };
    let (ip, port) = (site.address().ip(), site.address().port());
    let (documents, directory) = (site.documents.display(), site.directory.display());
    let (modules, scripts) = match site.scripts() {
        None => ("", String::new()),
        Some(scripts) => (
            " \"mod_alias\", \"mod_cgi\" ",
            format!(
                "alias.url = ( \"/cgi-bin/\" => \"{}/\" )\n\
                 $HTTP[\"url\"] =~ \"^/cgi-bin/\" {{ cgi.assign = ( \"\" => \"\" ) }}\n",
                scripts.display()
            ),
        ),
    };
    let (mod_openssl, tls) = match &site.identity {
        Some(Identity { certificate, key }) => (
            " \"mod_openssl\" ",
            format!(
                "ssl.engine = \"enable\"\nssl.pemfile = \"{}\"\nssl.privkey = \"{}\"\n\
                 server.feature-flags += ( \"server.h2proto\" => \"{}\" )\n",
                certificate.display(),
                key.display(),
                if site.profile.has_http2() { "enable" } else { "disable" }
            ),
        ),
        None => ("", String::new()),
    };
    let descriptors = site.descriptors.min(DESCRIPTORS_MAX);
    let connections = descriptors / 2;
    format!(
        "\
{account}server.modules = ({modules}{mod_openssl})
server.document-root = \"{documents}\"
server.bind = \"{ip}\"
server.port = {port}
server.listen-backlog = {BACKLOG}
server.max-connections = {connections}
server.max-fds = {descriptors}
server.max-keep-alive-requests = {KEEP_ALIVE_REQUESTS_MAX}
server.max-keep-alive-idle = {KEEP_ALIVE_SECONDS}
server.errorlog = \"{directory}/error.log\"
server.pid-file = \"{directory}/lighttpd.pid\"
mimetype.assign = ( \".txt\" => \"text/plain\" )
{tls}{scripts}"
    )
}
