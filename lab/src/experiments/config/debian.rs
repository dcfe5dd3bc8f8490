//! Debian's default configuration of Apache, as installed here, with only address, paths and MPM replaced.

use std::path::Path;

use crate::experiments::recipe::ConfigFile;
use crate::experiments::site::Site;
use crate::machine::error::{Context as _, Error, Result, read_text};

/// The file to start from.
pub(crate) const MAIN_FILE: &str = "apache2.conf";

/// The directories whose files Debian includes.
const INCLUDED: [&str; 3] = ["mods-enabled", "conf-enabled", "sites-enabled"];

/// The variables of Debian's `envvars`, with every path in the site's directory.
pub(crate) fn environment(site: &Site) -> Vec<(String, String)> {
    let directory = site.directory.display().to_string();
    let (user, group) = match &site.account {
        Some(account) => (account.user, account.group),
        None => ("www-data", "www-data"),
    };
    let variables = [
        ("APACHE_CONFDIR", directory.clone()),
        ("APACHE_RUN_USER", user.to_owned()),
        ("APACHE_RUN_GROUP", group.to_owned()),
        ("APACHE_PID_FILE", format!("{directory}/apache2.pid")),
        ("APACHE_RUN_DIR", directory.clone()),
        ("APACHE_LOCK_DIR", directory.clone()),
        ("APACHE_LOG_DIR", directory),
        ("LANG", "C".to_owned()),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The tree of files, with `mpm` (loaded by the line `load_mpm`, and configured as in Debian, if Debian has it) in
/// place of the enabled MPM.
pub(crate) fn files(site: &Site, mpm: &str, load_mpm: &str) -> Result<Vec<ConfigFile>> {
    let root = match &site.apache {
        Some(installation) => &installation.root,
        None => {
            return Err(Error::new("Debian's configuration of Apache is not here")
                .advise("apt-get install --no-install-recommends apache2"));
        }
    };
    let settings = std::fs::read_to_string(root.join(format!("mods-available/mpm_{mpm}.conf"))).unwrap_or_default();
    let mut files = vec![
        ConfigFile::composed("mods-enabled/mpm.load", load_mpm.to_owned()),
        ConfigFile::composed("mods-enabled/mpm.conf", settings),
    ];
    for name in names(root)? {
        let installed = read_text(root.join(&name))?;
        let text = adapt(&installed, site);
        files.push(ConfigFile { as_installed: text == installed, name, text });
    }
    Ok(files)
}

/// Relative names of all files in use, without the MPM's.
fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = vec![MAIN_FILE.to_owned(), "ports.conf".to_owned()];
    for directory in INCLUDED {
        let path = root.join(directory);
        let entries = std::fs::read_dir(&path).context(|| format!("read {}", path.display()))?;
        for entry in entries {
            let entry = entry.context(|| format!("read {}", path.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("mpm_") {
                names.push(format!("{directory}/{name}"));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Replaces address, port and document root; everything else stays as it is, including comments.
fn adapt(text: &str, site: &Site) -> String {
    let (address, documents) = (site.address(), site.documents.display());
    text.split_inclusive('\n')
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["Listen", "80"] => format!("Listen {address}\nServerName localhost\n"),
                ["<VirtualHost", "*:80>"] => format!("<VirtualHost *:{}>\n", address.port()),
                ["DocumentRoot", _] => format!("DocumentRoot {documents}\n"),
                ["<Directory", "/var/www/>"] => format!("<Directory {documents}/>\n"),
                _ => line.to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::profile::Profile;
    use crate::experiments::site::example_site;

    #[test]
    fn only_address_and_paths_change() {
        let site = example_site(Profile::Debian);
        let text = "# Listen 80\nListen 80\n<VirtualHost *:80>\n\tDocumentRoot /var/www/html\n\tLogLevel info\n";
        let expected = "# Listen 80\nListen 127.88.0.1:8080\nServerName localhost\n<VirtualHost *:8080>\n\
                        DocumentRoot /lab/documents\n\tLogLevel info\n";
        assert_eq!(adapt(text, &site), expected);
        assert_eq!(adapt("<Directory /var/www/>\n", &site), "<Directory /lab/documents/>\n");
    }

    #[test]
    fn paths_of_the_environment_are_the_sites_own() {
        let environment = environment(&example_site(Profile::Debian));
        assert!(environment.contains(&("APACHE_LOG_DIR".to_owned(), "/lab/server".to_owned())));
    }
}
