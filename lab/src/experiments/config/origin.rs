//! The server behind a proxy: nginx with one fixed response, the same for every proxy.

use std::path::PathBuf;

use crate::experiments::profile::Profile;
use crate::experiments::program::NGINX;
use crate::experiments::recipe::{Backend, ConfigFile};
use crate::experiments::site::{CAPACITY, Site};
use crate::experiments::workload::SMALL_FILE;

/// Its socket.
pub(crate) fn socket(site: &Site) -> PathBuf {
    site.directory.join("origin.sock")
}

/// Whether a server passes its requests on.
pub(crate) fn is_wanted(site: &Site) -> bool {
    matches!(site.profile, Profile::Proxied | Profile::Cached)
}

/// The process to start before the server.
pub(crate) fn backend(site: &Site) -> Option<Backend> {
    is_wanted(site).then(|| Backend {
        program: NGINX,
        file: ConfigFile::composed("origin.conf", configuration(site)),
        arguments: ["-e", "origin.log", "-p", &format!("{}/", site.directory.display()), "-c"]
            .map(str::to_owned)
            .to_vec(),
        ready: socket(site),
    })
}

fn configuration(site: &Site) -> String {
    let directory = site.directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("    {name}_temp_path {directory}/origin-{name};\n"))
        .concat();
    let lifetime = match site.profile {
        Profile::Cached => "            add_header Cache-Control max-age=86400;\n",
        _ => "",
    };
    format!(
        "\
daemon off;
master_process off;
pid {directory}/origin.pid;
error_log {directory}/origin.log warn;
events {{
    worker_connections {CAPACITY};
}}
http {{
    access_log off;
    default_type text/plain;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
{temporary}    server {{
        listen unix:{};
        location / {{
{lifetime}            return 200 \"{}\";
        }}
    }}
}}
",
        socket(site).display(),
        String::from_utf8_lossy(SMALL_FILE.trim_ascii_end())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::site::example_site;

    #[test]
    fn only_proxies_have_one() {
        assert!(backend(&example_site(Profile::Bare)).is_none());
        let text = backend(&example_site(Profile::Proxied)).map(|backend| backend.file.text);
        assert!(text.is_some_and(|text| text.contains("listen unix:/lab/server/origin.sock;\n")));
    }
}
