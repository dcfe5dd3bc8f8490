//! caddy: one processor for its runtime.

use crate::experiments::config::proxied;
use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::{KEEP_ALIVE_SECONDS, Site};
use crate::machine::error::Result;
use crate::machine::identity::{Identity, NAME};

/// caddy without its administration interface and certificates; its saved data goes into the site's directory.
pub(crate) fn recipe(site: &Site) -> Result<Recipe> {
    let directory = site.directory.display().to_string();
    let path = site.directory.join("Caddyfile").display().to_string();
    Ok(Recipe {
        files: vec![ConfigFile::composed("Caddyfile", configuration(site))],
        arguments: ["run", "--adapter", "caddyfile", "--config", &path].map(str::to_owned).to_vec(),
        environment: [
            ("GOMAXPROCS", "1".to_owned()),
            ("HOME", directory.clone()),
            ("XDG_CONFIG_HOME", directory.clone()),
            ("XDG_DATA_HOME", directory),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec(),
        ..Recipe::default()
    })
}

fn configuration(site: &Site) -> String {
    let (ip, port) = (site.address().ip(), site.address().port());
    let documents = site.documents.display();
    let (scheme, tls) = match &site.identity {
        Some(Identity { certificate, key }) => {
            ("https", format!("    tls {} {}\n", certificate.display(), key.display()))
        }
        None => ("http", String::new()),
    };
    let protocols = if site.profile.has_http2() { "h1 h2" } else { "h1" };
    let served = proxied::caddy(site).unwrap_or_else(|| format!("    root * {documents}\n    file_server\n"));
    format!(
        "\
{{
    admin off
    auto_https off
    default_sni {NAME}
    servers {{
        protocols {protocols}
        timeouts {{
            idle {KEEP_ALIVE_SECONDS}s
        }}
    }}
}}
{scheme}://:{port} {{
    bind {ip}
{tls}{served}}}
"
    )
}
