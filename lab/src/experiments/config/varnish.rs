//! Varnish: its own defaults, with a store in memory.

use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::Site;
use crate::machine::error::{Error, Result};

/// Varnish, which serves no files: it has to have something to pass requests on to.
pub(crate) fn recipe(site: &Site) -> Result<Recipe> {
    let origin = site.origins.as_ref().and_then(|origins| origins.addresses.first());
    let origin = origin.ok_or_else(|| Error::new("it serves nothing by itself"))?;
    let backend = format!("backend default {{ .host = \"{}\"; .port = \"{}\"; }}", origin.ip(), origin.port());
    let [file, work] = ["default.vcl", "varnish"].map(|name| site.directory.join(name).display().to_string());
    let address = site.address().to_string();
    Ok(Recipe {
        files: vec![ConfigFile::composed("default.vcl", format!("vcl 4.1;\n{backend}\n"))],
        arguments: ["-F", "-a", &address, "-f", &file, "-n", &work, "-s", "malloc,64m"].map(str::to_owned).to_vec(),
        ..Recipe::default()
    })
}
