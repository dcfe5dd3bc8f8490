//! nginx: one worker process.

use std::path::Path;

use crate::experiments::config::{many, origin, php_fpm, proxied};
use crate::experiments::profile::Profile;
use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::{BACKLOG, CAPACITY, KEEP_ALIVE_SECONDS, Site};
use crate::machine::error::Result;
use crate::machine::identity::Identity;

/// nginx, with or without its cache of open files.
pub(crate) fn recipe(site: &Site, open_file_cache: bool) -> Result<Recipe> {
    let directory = site.directory.display();
    Ok(Recipe {
        files: [
            vec![ConfigFile::composed("nginx.conf", configuration(site, open_file_cache))],
            many::nginx_files(site),
        ]
        .concat(),
        arguments: ["-p", &format!("{directory}/"), "-e", "error.log", "-c", "nginx.conf"].map(str::to_owned).to_vec(),
        backend: php_fpm::backend(site).or_else(|| origin::backend(site)),
        ..Recipe::default()
    })
}

/// How many connections to a server behind it a process keeps open.
const KEPT: u32 = 4;

/// The settings for PHP: how many processes, the lines of `http`, and those of `server`.
fn php(site: &Site) -> (u32, String, String) {
    let Some(scripts) = site.scripts().map(Path::display).filter(|_| php_fpm::is_wanted(site)) else {
        return (1, String::new(), String::new());
    };
    let socket = php_fpm::socket(site);
    let (kept, keep) = match site.profile {
        Profile::PhpKept => (format!(" keepalive {KEPT};"), "            fastcgi_keep_conn on;\n"),
        _ => (String::new(), ""),
    };
    let upstream = format!("    upstream php {{ server unix:{};{kept} }}\n", socket.display());
    let location = format!(
        "\
        location ~ ^/cgi-bin/(.+\\.php)$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {scripts}/$1;
            fastcgi_pass php;
{keep}        }}
"
    );
    (2, upstream, location)
}

/// The settings for TLS: the words after an address, and the lines of `server`.
fn tls(site: &Site) -> (&'static str, String) {
    let Some(Identity { certificate, key }) = &site.identity else { return ("", String::new()) };
    let lines = format!(
        "        ssl_protocols TLSv1.2 TLSv1.3;\n        ssl_certificate {};\n        ssl_certificate_key {};\n",
        certificate.display(),
        key.display()
    );
    (if site.profile.has_http2() { " ssl http2" } else { " ssl" }, lines)
}

fn configuration(site: &Site, open_file_cache: bool) -> String {
    let Site { directory, documents, .. } = site;
    let (manner, tls) = tls(site);
    let listen = site.addresses.iter().map(|address| format!("        listen {address}{manner} backlog={BACKLOG};\n"));
    let listen = listen.collect::<String>() + &tls;
    let directory = directory.display();
    let documents = documents.display();
    let connections = match site.profile {
        Profile::ManyConnections => 60_000,
        _ => CAPACITY,
    };
    let (processes, upstream, location) = match origin::is_wanted(site) {
        true => {
            let (upstream, location) = proxied::nginx(site);
            (1, upstream, location)
        }
        false => php(site),
    };
    let [of_many, in_first, servers] = many::nginx(site);
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
worker_processes {processes};
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{
    worker_connections {connections};
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
{upstream}{of_many}    server {{
{listen}        root {documents};
{location}{in_first}    }}
{servers}}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::profile::Profile;
    use crate::experiments::site::example_site;

    #[test]
    fn the_cache_is_the_only_difference() {
        let site = example_site(Profile::Bare);
        let (without, with) = (configuration(&site, false), configuration(&site, true));
        let added: Vec<&str> = with.lines().filter(|line| !without.contains(line)).collect();
        assert!(added.iter().all(|line| line.contains("open_file_cache")), "{added:?}");
        assert!(with.contains("listen 127.88.0.1:8080 backlog=4095;"), "{with}");
    }
}
