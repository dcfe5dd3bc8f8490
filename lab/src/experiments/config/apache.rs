//! Apache httpd and Tsubame, which read the same language.

use std::path::Path;

use crate::experiments::config::{debian, many, mpm, origin, php_fpm, proxied};
use crate::experiments::profile::Profile;
use crate::experiments::recipe::{ConfigFile, Recipe};
use crate::experiments::site::{BACKLOG, KEEP_ALIVE_SECONDS, Site};
use crate::machine::error::{Error, Result};
use crate::machine::identity::Identity;

/// The modules that the bare configuration loads besides the MPM.
const MODULES: [&str; 3] = ["authz_core", "mime", "dir"];

/// Apache under one of its MPMs.
pub(crate) fn apache(site: &Site, mpm: &str) -> Result<Recipe> {
    let installation =
        site.apache.as_ref().ok_or_else(|| Error::new("apache2 does not tell its server root").advise("apache2 -V"))?;
    let modules = installation.modules.display().to_string();
    recipe(site, mpm, &modules)
}

/// Tsubame under one of its MPMs; its modules are built in and the file names are never opened.
pub(crate) fn tsubame(site: &Site, mpm: &str) -> Result<Recipe> {
    recipe(site, mpm, "modules")
}

fn recipe(site: &Site, mpm: &str, modules: &str) -> Result<Recipe> {
    let (file, files, environment) = match site.profile {
        Profile::Debian => {
            let files = debian::files(site, mpm, &load_mpm(mpm, modules))?;
            (debian::MAIN_FILE, files, debian::environment(site))
        }
        _ => {
            let text = bare(site, mpm, modules)?;
            let file = "httpd.conf";
            let files = [vec![ConfigFile::composed(file, text)], many::apache_files(site)].concat();
            (file, files, Vec::new())
        }
    };
    let directory = site.directory.display().to_string();
    let path = site.directory.join(file).display().to_string();
    Ok(Recipe {
        files,
        arguments: ["-d", &directory, "-f", &path, "-DFOREGROUND"].map(str::to_owned).to_vec(),
        environment,
        backend: php_fpm::backend(site).or_else(|| origin::backend(site)),
    })
}

fn bare(site: &Site, mpm: &str, modules: &str) -> Result<String> {
    let (directory, documents) = (site.directory.display(), site.documents.display());
    let account = match &site.account {
        Some(account) => format!("User {}\nGroup {}\n", account.user, account.group),
        None => String::new(),
    };
    let load: String =
        MODULES.iter().map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n")).collect();
    let scripts = scripts(site, modules) + &proxied::apache(site, modules);
    let overrides = if site.profile == Profile::Htaccess { "    AllowOverride All\n" } else { "" };
    let tls = tls(site, modules);
    let many = many::apache(site, modules);
    let listen: String = site.addresses.iter().map(|address| format!("Listen {address}\n")).collect();
    let mpm = load_mpm(mpm, modules) + &mpm::settings(site.profile, mpm)?;
    Ok(format!(
        "\
ServerRoot {directory}
ServerName localhost
{mpm}{load}{account}{listen}ListenBacklog {BACKLOG}
PidFile {directory}/httpd.pid
ErrorLog {directory}/error.log
LogLevel warn
Timeout {KEEP_ALIVE_SECONDS}
KeepAlive On
KeepAliveTimeout {KEEP_ALIVE_SECONDS}
MaxKeepAliveRequests 0
EnableSendfile On
TypesConfig /dev/null
AddType text/plain .txt
DocumentRoot {documents}
<Directory />
    AllowOverride None
    Require all denied
</Directory>
<Directory {documents}>
{overrides}    Require all granted
</Directory>
{tls}{scripts}{many}"
    ))
}

/// The part for TLS.
fn tls(site: &Site, modules: &str) -> String {
    let Some(Identity { certificate, key }) = &site.identity else { return String::new() };
    let (load, protocols) = match site.profile.has_http2() {
        true => (format!("LoadModule http2_module {modules}/mod_http2.so\n"), "h2 http/1.1"),
        false => (String::new(), "http/1.1"),
    };
    format!(
        "\
LoadModule ssl_module {modules}/mod_ssl.so
{load}Protocols {protocols}
SSLEngine on
SSLProtocol -all +TLSv1.2 +TLSv1.3
SSLCertificateFile {}
SSLCertificateKeyFile {}
",
        certificate.display(),
        key.display()
    )
}

/// The part for scripts, which are started by the worker itself or by a daemon.
fn scripts(site: &Site, modules: &str) -> String {
    let Some(scripts) = site.scripts().map(Path::display) else {
        return String::new();
    };
    let load = |names: &[&str]| -> String {
        names.iter().map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n")).collect()
    };
    let aliased = format!("Alias /cgi-bin/ {scripts}/\n");
    let script_aliased = format!("ScriptAlias /cgi-bin/ {scripts}/\n");
    let perl = |class: &str| {
        let handler = format!("    SetHandler perl-script\n    PerlResponseHandler ModPerl::{class}\n");
        let options = "PerlOptions +ParseHeaders\nPerlModule CGI\n";
        (load(&["perl"]) + options + &aliased, handler)
    };
    let fcgid = |sizes: &str| (load(&["fcgid"]) + sizes + &aliased, "    SetHandler fcgid-script\n".to_owned());
    let (lines, handler) = match site.profile {
        Profile::Cgid => (
            format!("{}ScriptSock {}/cgid.sock\n{script_aliased}", load(&["cgid"]), site.directory.display()),
            String::new(),
        ),
        Profile::Registry => perl("Registry"),
        Profile::PerlRun => perl("PerlRun"),
        Profile::PerlFork => (load(&["perl"]) + &aliased, "    SetHandler perl-fork\n".to_owned()),
        Profile::Speedy => (load(&["speedycgi"]) + &aliased, "    SetHandler speedycgi-script\n".to_owned()),
        Profile::Fcgid => fcgid("FcgidMaxProcessesPerClass 8\nFcgidMinProcessesPerClass 8\n"),
        Profile::OneBackend => fcgid("FcgidMaxProcessesPerClass 1\nFcgidMinProcessesPerClass 1\n"),
        Profile::PhpFpm | Profile::PhpKept => {
            let kept = match site.profile {
                Profile::PhpKept => "<Proxy \"fcgi://localhost/\" enablereuse=on max=4>\n</Proxy>\n",
                _ => "",
            };
            let socket = php_fpm::socket(site);
            let handler = format!("    SetHandler \"proxy:unix:{}|fcgi://localhost/\"\n", socket.display());
            (load(&["proxy", "proxy_fcgi"]) + kept + &aliased, handler)
        }
        _ => (load(&["cgi"]) + &script_aliased, String::new()),
    };
    format!(
        "\
LoadModule alias_module {modules}/mod_alias.so
{lines}<Directory {scripts}>
    Options +ExecCGI
    Require all granted
{handler}</Directory>
"
    )
}

fn load_mpm(mpm: &str, modules: &str) -> String {
    format!("LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::site::example_site;

    #[test]
    fn the_bare_configuration_has_one_mpm_and_no_access_log() {
        let site = example_site(Profile::Bare);
        for mpm in ["percore", "prefork", "worker", "event"] {
            let text = bare(&site, mpm, "modules").unwrap();
            assert_eq!(text.matches("LoadModule mpm_").count(), 1, "{text}");
            assert!(text.contains("Listen 127.88.0.1:8080") && !text.contains("CustomLog"), "{text}");
        }
        assert!(bare(&site, "winnt", "modules").is_err());
    }

    #[test]
    fn the_module_for_scripts_is_the_only_difference() {
        let text = |profile| {
            let mut site = example_site(profile);
            site.script = Some("/lab/scripts/hello".into());
            bare(&site, "event", "modules").unwrap()
        };
        let (cgi, cgid) = (text(Profile::Cgi), text(Profile::Cgid));
        let added: Vec<&str> = cgid.lines().filter(|line| !cgi.contains(line)).collect();
        let expected = ["LoadModule cgid_module modules/mod_cgid.so", "ScriptSock /lab/server/cgid.sock"];
        assert_eq!(added, expected);
        assert!(cgi.contains("ScriptAlias /cgi-bin/ /lab/scripts/\n"), "{cgi}");
    }
}
