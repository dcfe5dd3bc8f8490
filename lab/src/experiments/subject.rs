//! The subjects: the table of servers. One code path starts them all; only configuration differs.

use crate::experiments::config::{apache, caddy, h2o, haproxy, lighttpd, nginx, varnish};
use crate::experiments::program::{APACHE, NGINX, Program};
use crate::experiments::recipe::Recipe;
use crate::experiments::site::Site;
use crate::machine::error::{Error, Result};

/// The table.
pub(crate) static SUBJECTS: [Subject; 17] = [
    Subject {
        id: "floor",
        title: "floor (bare epoll loop)",
        program: Program::Lab,
        version: &["--version"],
        recipe: |site| Ok(floor(site, false)),
    },
    Subject {
        id: "floor-threads",
        title: "floor (bare threads)",
        program: Program::Lab,
        version: &["--version"],
        recipe: |site| Ok(floor(site, true)),
    },
    Subject {
        id: "floor-spawn",
        title: "floor (bare spawn loop)",
        program: Program::Lab,
        version: &["--version"],
        recipe: floor_spawn,
    },
    Subject {
        id: "tsubame-percore",
        title: "Tsubame percore",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "percore"),
    },
    Subject {
        id: "tsubame-prefork",
        title: "Tsubame prefork",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "prefork"),
    },
    Subject {
        id: "tsubame-worker",
        title: "Tsubame worker",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "worker"),
    },
    Subject {
        id: "tsubame-event",
        title: "Tsubame event",
        program: Program::Tsubame,
        version: &["-v"],
        recipe: |site| apache::tsubame(site, "event"),
    },
    Subject {
        id: "nginx",
        title: "nginx",
        program: NGINX,
        version: &["-v"],
        recipe: |site| nginx::recipe(site, false),
    },
    Subject {
        id: "nginx-ofc",
        title: "nginx with open_file_cache",
        program: NGINX,
        version: &["-v"],
        recipe: |site| nginx::recipe(site, true),
    },
    Subject {
        id: "lighttpd",
        title: "lighttpd",
        program: Program::System { names: &["lighttpd"], package: "lighttpd" },
        version: &["-v"],
        recipe: lighttpd::recipe,
    },
    Subject {
        id: "h2o",
        title: "h2o",
        program: Program::System { names: &["h2o"], package: "h2o" },
        version: &["-v"],
        recipe: h2o::recipe,
    },
    Subject {
        id: "caddy",
        title: "caddy",
        program: Program::System { names: &["caddy"], package: "caddy" },
        version: &["version"],
        recipe: caddy::recipe,
    },
    Subject {
        id: "haproxy",
        title: "HAProxy",
        program: Program::System { names: &["haproxy"], package: "haproxy" },
        version: &["-v"],
        recipe: haproxy::recipe,
    },
    Subject {
        id: "varnish",
        title: "Varnish",
        program: Program::System { names: &["varnishd"], package: "varnish" },
        version: &["-V"],
        recipe: varnish::recipe,
    },
    Subject {
        id: "apache-prefork",
        title: "Apache prefork",
        program: APACHE,
        version: &["-v"],
        recipe: |site| apache::apache(site, "prefork"),
    },
    Subject {
        id: "apache-worker",
        title: "Apache worker",
        program: APACHE,
        version: &["-v"],
        recipe: |site| apache::apache(site, "worker"),
    },
    Subject {
        id: "apache-event",
        title: "Apache event",
        program: APACHE,
        version: &["-v"],
        recipe: |site| apache::apache(site, "event"),
    },
];

/// A server, run in one way.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The name on the command line and in the results.
    pub(crate) id: &'static str,
    /// The name in tables.
    pub(crate) title: &'static str,
    /// The program to start.
    pub(crate) program: Program,
    /// The arguments that print its version.
    pub(crate) version: &'static [&'static str],
    /// Its configuration and command line for a site.
    pub(crate) recipe: fn(&Site) -> Result<Recipe>,
}

/// The subject of that name.
pub(crate) fn find(id: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.id == id)
}

fn floor(site: &Site, threads: bool) -> Recipe {
    let mut arguments = vec!["floor".to_owned(), "--listen".to_owned(), site.address().to_string()];
    let options = [("--close", site.close), ("--threads", threads)];
    arguments.extend(options.iter().filter(|(_, wanted)| *wanted).map(|(name, _)| (*name).to_owned()));
    Recipe { arguments, ..Recipe::default() }
}

fn floor_spawn(site: &Site) -> Result<Recipe> {
    let script = site.script.as_ref().ok_or_else(|| Error::new("this floor does nothing but run a script"))?;
    let mut recipe = floor(site, false);
    recipe.arguments.extend(["--spawn".to_owned(), script.display().to_string()]);
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::profile::Profile;
    use crate::experiments::site::example_site;

    #[test]
    fn names_are_unique_and_found() {
        for subject in &SUBJECTS {
            assert_eq!(find(subject.id).map(|found| found.title), Some(subject.title));
        }
        assert!(find("iis").is_none());
    }

    #[test]
    fn the_floor_is_told_when_to_close() {
        let mut site = example_site(Profile::Bare);
        assert!(!floor(&site, false).arguments.contains(&"--close".to_owned()));
        site.close = true;
        assert!(floor(&site, true).arguments.ends_with(&["--close".to_owned(), "--threads".to_owned()]));
    }
}
