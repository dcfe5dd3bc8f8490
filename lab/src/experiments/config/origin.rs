//! The servers behind a proxy: nginx with one fixed response, and the files, the same for every proxy.

use std::path::PathBuf;

use crate::experiments::profile::Profile;
use crate::experiments::program::NGINX;
use crate::experiments::recipe::{Backend, ConfigFile};
use crate::experiments::site::{BACKLOG, CAPACITY, Origins, Site};
use crate::experiments::workload::{LARGE, SMALL_FILE};
use crate::machine::identity::Identity;

/// The document with its counters, without the leading slash.
pub(crate) const STATUS: &str = "origin-status";

/// The socket of the one that belongs to the server.
pub(crate) fn socket(site: &Site) -> PathBuf {
    site.directory.join("origin.sock")
}

/// Whether a server passes its requests on.
pub(crate) fn is_wanted(site: &Site) -> bool {
    site.profile.origins() > 0
}

/// The process to start before the server, if it belongs to the server.
pub(crate) fn backend(site: &Site) -> Option<Backend> {
    let is_own = is_wanted(site) && site.origins.is_none();
    is_own.then(|| {
        let socket = socket(site);
        one(site, "origin", &format!("unix:{}", socket.display()), "", socket)
    })
}

/// The processes to start before the server that do not belong to it.
pub(crate) fn members(site: &Site, origins: &Origins) -> Vec<Backend> {
    let (manner, tls) = match &origins.identity {
        // The same for all: what a client prefers differs.
        Some(Identity { certificate, key }) => (
            " ssl",
            format!(
                "        ssl_protocols TLSv1.3;\n        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n        \
                 ssl_certificate {};\n        ssl_certificate_key {};\n",
                certificate.display(),
                key.display()
            ),
        ),
        None => ("", String::new()),
    };
    let member = |(number, address)| {
        let name = format!("origin-{number}");
        // nginx writes its number once it listens.
        let ready = site.directory.join(format!("{name}.pid"));
        one(site, &name, &format!("{address}{manner} backlog={BACKLOG}"), &tls, ready)
    };
    origins.addresses.iter().enumerate().map(member).collect()
}

/// One of that name, which listens there.
fn one(site: &Site, name: &str, listen: &str, tls: &str, ready: PathBuf) -> Backend {
    Backend {
        program: NGINX,
        file: ConfigFile::composed(format!("{name}.conf"), configuration(site, name, listen, tls)),
        arguments: ["-e", &format!("{name}.log"), "-p", &format!("{}/", site.directory.display()), "-c"]
            .map(str::to_owned)
            .to_vec(),
        ready,
    }
}

fn configuration(site: &Site, name: &str, listen: &str, tls: &str) -> String {
    let (directory, documents) = (site.directory.display(), site.documents.display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("    {what}_temp_path {directory}/{name}-{what};\n"))
        .concat();
    let lifetime = match site.profile {
        Profile::Cached => "            add_header Cache-Control max-age=86400;\n",
        _ => "",
    };
    let large = LARGE.name;
    let text = String::from_utf8_lossy(SMALL_FILE.trim_ascii_end());
    format!(
        "\
daemon off;
master_process off;
pid {directory}/{name}.pid;
error_log {directory}/{name}.log warn;
events {{
    worker_connections {CAPACITY};
}}
http {{
    access_log off;
    types {{ text/plain txt; }}
    default_type text/plain;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
{temporary}    server {{
        listen {listen};
{tls}        root {documents};
        location = /{large} {{ }}
        location = /{STATUS} {{ stub_status; }}
        location / {{
{lifetime}            return 200 \"{text}\\n\";
        }}
    }}
}}
"
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

    #[test]
    fn those_over_tcp_do_not_belong_to_the_server() {
        let addresses = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        let origins = Origins { addresses, identity: None };
        let site = Site { origins: Some(origins.clone()), ..example_site(Profile::Balanced) };
        assert!(backend(&site).is_none());
        let members = members(&site, &origins);
        assert_eq!(members.len(), site.profile.origins());
        let last = members.last().map(|member| (member.file.name.as_str(), &member.file.text));
        assert!(last.is_some_and(|(name, text)| name == "origin-2.conf" && text.contains("listen 127.0.0.1:3 ")));
    }
}
