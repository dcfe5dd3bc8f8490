//! nginx: one worker process.

use crate::error::Result;
use crate::subject::{BACKLOG, CAPACITY, ConfigFile, KEEP_ALIVE_SECONDS, Recipe, Site};

/// nginx, with or without its cache of open files.
pub(crate) fn recipe(site: &Site, open_file_cache: bool) -> Result<Recipe> {
    let directory = site.directory.display();
    Ok(Recipe {
        files: vec![ConfigFile::composed("nginx.conf", configuration(site, open_file_cache))],
        arguments: ["-p", &format!("{directory}/"), "-e", "error.log", "-c", "nginx.conf"].map(str::to_owned).to_vec(),
        ..Recipe::default()
    })
}

fn configuration(site: &Site, open_file_cache: bool) -> String {
    let Site { directory, documents, .. } = site;
    let address = site.address();
    let directory = directory.display();
    let documents = documents.display();
    let user = match &site.account {
        Some(account) => format!("user {} {};\n", account.user, account.group),
        None => String::new(),
    };
    let cache = if open_file_cache {
        "    open_file_cache max=1000 inactive=60s;\n    open_file_cache_valid 30s;\n"
    } else {
        ""
    };
    format!(
        "\
{user}daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{
    worker_connections {CAPACITY};
    multi_accept on;
}}
http {{
    access_log off;
    types {{ text/plain txt; }}
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout {KEEP_ALIVE_SECONDS}s;
    keepalive_requests 1000000000;
{cache}    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen {address} backlog={BACKLOG};
        root {documents};
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::example_site;
    use crate::workload::Profile;

    #[test]
    fn the_cache_is_the_only_difference() {
        let site = example_site(Profile::Bare);
        let (without, with) = (configuration(&site, false), configuration(&site, true));
        let added: Vec<&str> = with.lines().filter(|line| !without.contains(line)).collect();
        assert!(added.iter().all(|line| line.contains("open_file_cache")), "{added:?}");
        assert!(with.contains("listen 127.88.0.1:8080 backlog=4095;"), "{with}");
    }
}
