//! caddy: one processor for its runtime.

use crate::error::Result;
use crate::subject::{ConfigFile, KEEP_ALIVE_SECONDS, Recipe, Site};

/// caddy without administration interface and certificates; what it saves goes into the site's directory.
pub(crate) fn recipe(site: &Site) -> Result<Recipe> {
    let directory = site.directory.display().to_string();
    let path = site.directory.join("Caddyfile").display().to_string();
    Ok(Recipe {
        files: vec![ConfigFile::composed("Caddyfile", configuration(site))],
        arguments: ["run", "--adapter", "caddyfile", "--config", &path].map(str::to_owned).to_vec(),
        environment: vec![
            ("GOMAXPROCS", "1".to_owned()),
            ("HOME", directory.clone()),
            ("XDG_CONFIG_HOME", directory.clone()),
            ("XDG_DATA_HOME", directory),
        ],
        ..Recipe::default()
    })
}

fn configuration(site: &Site) -> String {
    let (ip, port) = (site.address().ip(), site.address().port());
    let documents = site.documents.display();
    format!(
        "\
{{
    admin off
    auto_https off
    servers {{
        timeouts {{
            idle {KEEP_ALIVE_SECONDS}s
        }}
    }}
}}
http://:{port} {{
    bind {ip}
    root * {documents}
    file_server
}}
"
    )
}
