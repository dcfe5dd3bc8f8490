//! h2o: one thread.

use crate::experiments::config::{origin, proxied};
use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::{CAPACITY, KEEP_ALIVE_SECONDS, Site};
use crate::machine::error::Result;
use crate::machine::identity::Identity;

/// h2o; its queue of new connections is fixed at 65 535, and it decides about `sendfile` itself.
pub(crate) fn recipe(site: &Site) -> Result<Recipe> {
    let path = site.directory.join("h2o.conf").display().to_string();
    Ok(Recipe {
        files: vec![ConfigFile::composed("h2o.conf", configuration(site))],
        arguments: ["-m", "worker", "-c", &path].map(str::to_owned).to_vec(),
        backend: origin::backend(site),
        ..Recipe::default()
    })
}

fn configuration(site: &Site) -> String {
    let user = match &site.account {
        Some(account) => format!("user: {}\n", account.user),
        None => String::new(),
    };
    let (ip, port) = (site.address().ip(), site.address().port());
    let tls = match &site.identity {
        Some(Identity { certificate, key }) => format!(
            "  ssl:\n    ocsp-update-interval: 0\n    minimum-version: TLSv1.2\n    certificate-file: {}\n    key-file: {}\n",
            certificate.display(),
            key.display()
        ),
        None => String::new(),
    };
    let directory = site.directory.display();
    let handler = match origin::is_wanted(site) {
        true => proxied::h2o(site),
        false => format!("file.dir: {}", site.documents.display()),
    };
    format!(
        "\
{user}num-threads: 1
max-connections: {CAPACITY}
http1-request-timeout: {KEEP_ALIVE_SECONDS}
http2-idle-timeout: {KEEP_ALIVE_SECONDS}
pid-file: {directory}/h2o.pid
error-log: {directory}/error.log
listen:
  host: {ip}
  port: {port}
{tls}hosts:
  default:
    paths:
      /:
        {handler}
"
    )
}
