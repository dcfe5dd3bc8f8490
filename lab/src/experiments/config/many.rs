//! Hosts, lines and certificates by the thousand, for Apache, Tsubame and nginx.

use std::fmt::Write as _;

use crate::experiments::profile::Profile;
use crate::experiments::recipe::ConfigFile;
use crate::experiments::site::Site;
use crate::experiments::workload::SMALL;
use crate::experiments::workloads::many::{host, key};

/// The file of a map.
const MAP: &str = "map.txt";

/// The lines of Apache's configuration, which follow the others.
pub(crate) fn apache(site: &Site, modules: &str) -> String {
    let Some(many) = &site.many else { return String::new() };
    let load = |name: &str| format!("LoadModule {name}_module {modules}/mod_{name}.so\n");
    let (address, documents) = (site.address(), site.documents.display());
    let mut text = String::new();
    match site.profile {
        Profile::ManyMapped => {
            let file = site.directory.join(MAP);
            text += &load("rewrite");
            let map = format!("RewriteMap many \"txt:{}\"\n", file.display());
            text += &format!("RewriteEngine On\n{map}RewriteRule \"^/map/(.+)$\" \"${{many:$1}}\" [PT]\n");
        }
        Profile::ManyRedirects => {
            text += &load("alias");
            let line = |number| format!("Redirect 301 /old/{} /{}\n", key(number), SMALL.name);
            text.extend((0..many.count).map(line));
        }
        _ => {
            for number in 0..many.count {
                let (name, star) = (host(number), if site.profile == Profile::ManyStars { "*" } else { "m" });
                let _ =
                    write!(text, "<VirtualHost {address}>\nServerName {name}\nServerAlias www.{name} {star}.{name}\n");
                let _ = writeln!(text, "DocumentRoot {documents}");
                if let Some(identity) = many.identities.get(number as usize) {
                    let (certificate, key) = (identity.certificate.display(), identity.key.display());
                    let _ = write!(text, "SSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}\n");
                }
                text += "</VirtualHost>\n";
            }
        }
    }
    text
}

/// The files beside Apache's configuration.
pub(crate) fn apache_files(site: &Site) -> Vec<ConfigFile> {
    let line = |number| format!("{} /{}\n", key(number), SMALL.name);
    of_map(site, Profile::ManyMapped, &line)
}

/// nginx's configuration: the lines of `http`, of its first `server`, and of further servers.
pub(crate) fn nginx(site: &Site) -> [String; 3] {
    let Some(many) = &site.many else { return [const { String::new() }; 3] };
    let map = || {
        let sizes = "    map_hash_max_size 4194304;\n    map_hash_bucket_size 128;\n";
        format!("{sizes}    map $uri $target {{ include {}/{MAP}; }}\n", site.directory.display())
    };
    match site.profile {
        Profile::ManyMapped => {
            [map(), "        location /map/ { rewrite ^ $target break; }\n".to_owned(), String::new()]
        }
        Profile::ManyRedirects => [map(), "        location /old/ { return 301 $target; }\n".to_owned(), String::new()],
        _ => {
            let sizes = "    server_names_hash_max_size 1048576;\n    server_names_hash_bucket_size 128;\n";
            let (address, documents) = (site.address(), site.documents.display());
            let manner = if many.identities.is_empty() { "" } else { " ssl" };
            let mut text = String::new();
            for number in 0..many.count {
                let (name, star) = (host(number), if site.profile == Profile::ManyStars { "*" } else { "m" });
                let _ = write!(text, "    server {{\n        listen {address}{manner};\n        root {documents};\n");
                let _ = writeln!(text, "        server_name {name} www.{name} {star}.{name};");
                if let Some(identity) = many.identities.get(number as usize) {
                    let (certificate, key) = (identity.certificate.display(), identity.key.display());
                    let _ =
                        write!(text, "        ssl_certificate {certificate};\n        ssl_certificate_key {key};\n");
                }
                text += "    }\n";
            }
            [sizes.to_owned(), String::new(), text]
        }
    }
}

/// The files beside nginx's configuration.
pub(crate) fn nginx_files(site: &Site) -> Vec<ConfigFile> {
    let line = |place: &str, number| format!("/{place}/{} /{};\n", key(number), SMALL.name);
    let mut files = of_map(site, Profile::ManyMapped, &|number| line("map", number));
    files.extend(of_map(site, Profile::ManyRedirects, &|number| line("old", number)));
    files
}

/// The file of a map under that profile.
fn of_map(site: &Site, profile: Profile, line: &dyn Fn(u32) -> String) -> Vec<ConfigFile> {
    let many = site.many.iter().filter(|_| site.profile == profile);
    many.map(|many| ConfigFile::composed(MAP, (0..many.count).map(line).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::site::{Many, example_site};

    fn site(profile: Profile) -> Site {
        Site { many: Some(Many { count: 3, identities: Vec::new() }), ..example_site(profile) }
    }

    #[test]
    fn each_server_has_as_many() {
        for (profile, of_apache, of_nginx) in [
            (Profile::ManyHosts, "m.h2.test", "m.h2.test"),
            (Profile::ManyStars, "*.h2.test", "*.h2.test"),
            (Profile::ManyMapped, "key2 /small.txt", "/map/key2 /small.txt;"),
            (Profile::ManyRedirects, "Redirect 301 /old/key2 /small.txt", "/old/key2 /small.txt;"),
        ] {
            let site = site(profile);
            let with_files = |text: String, files: Vec<ConfigFile>| {
                text + &files.into_iter().map(|file| file.text).collect::<String>()
            };
            let apache = with_files(apache(&site, "modules"), apache_files(&site));
            let nginx = with_files(nginx(&site).concat(), nginx_files(&site));
            for (text, line) in [(apache, of_apache), (nginx, of_nginx)] {
                assert!(text.contains(line) && !text.contains(&line.replace('2', "3")), "{text}");
            }
        }
        let plain = example_site(Profile::Bare);
        assert!(apache(&plain, "modules").is_empty() && nginx(&plain).concat().is_empty());
    }
}
